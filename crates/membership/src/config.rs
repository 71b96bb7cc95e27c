//! What can be chosen about membership, and what breaks at both ends.

use alloc::vec::Vec;
use core::time::Duration;

use crate::ring::RINGS_MAX;

/// Settings of one node. Those of the rings and watermarks must be the same on all nodes; durations are measured on
/// the own monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// K, the number of monitoring rings: everybody is watched that many times. More rings make views more stable
    /// and cost probes. At most 32.
    pub rings: usize,
    /// H, the high watermark: a subject with alerts on so many rings is to be changed. Close to K: a few observers
    /// that fail with their subject delay it. Close to L: nodes propose different cuts, which costs a classic round.
    pub high: usize,
    /// L, the low watermark: with fewer alerts a subject is noise. 1: any broken link holds everything up. Close to H:
    /// see there.
    pub low: usize,
    /// How often an observer probes each subject. Shorter finds failures sooner and costs messages.
    pub probe_interval: Duration,
    /// How long an answer may take. Shorter than pauses of healthy nodes and they look dead.
    pub probe_timeout: Duration,
    /// The last so many probes are judged, at most 48.
    pub probe_window: u32,
    /// So many failures among them make the observer alert. The time to find a crash is about
    /// `probe_interval * probe_failures + probe_timeout`; with few failures random loss is enough.
    pub probe_failures: u32,
    /// How long a new member may go on answering that it has not got its view yet.
    pub bootstrap: Duration,
    /// Alerts wait until none was added for so long ...
    pub batch_quiet: Duration,
    /// ... but never longer than this. Longer gathers more changes into one view and delays each.
    pub batch_age_max: Duration,
    /// A subject between the watermarks for so long is reported by the rest of its observers as well.
    pub reinforce: Duration,
    /// An alert that nobody repeats lapses after one to two of these. Shorter than it takes to repeat and to agree: nobody
    /// is ever removed. Too long: rare losses on different links add up to a removal.
    pub alert_epoch: Duration,
    /// Up to so many members everybody sends to everybody; with more, news are gossiped.
    pub unicast_members_max: usize,
    /// How often a node with news gossips.
    pub gossip_interval: Duration,
    /// To how many others each time.
    pub gossip_fanout: usize,
    /// For how many times after something was new.
    pub gossip_rounds: u32,
    /// How often what may have been lost is said again.
    pub resend: Duration,
    /// How long the fast round may take before somebody starts a classic one.
    pub fallback: Duration,
    /// Added to it: a random part of twice this for each member, so that about one of them starts in each such time.
    pub fallback_spread: Duration,
    /// How long a joiner waits for one attempt.
    pub join_timeout: Duration,
    /// Attempts after which it gives up.
    pub join_attempts: u32,
    /// How long a node that is no member any more goes on telling the others, so that none is left behind.
    pub farewell: Duration,
    /// Neighbours that were not heard for so long are out of reach.
    pub isolated_after: Duration,
    /// Most members of a view; further joiners are refused.
    pub members_max: usize,
    /// Most changes of one cut; further ones wait for the next view.
    pub changes_max: usize,
    /// Most joiners that wait at one member; further ones are told to come later.
    pub joiners_max: usize,
    /// Decisions remembered for those who are behind; who is further behind gets the whole view.
    pub steps_max: usize,
    /// Most different proposals remembered in one view; the members behind further ones decide in a classic round.
    pub proposals_max: usize,
    /// Longest [`crate::Meta`].
    pub meta_bytes_max: usize,
    /// Longest state that a parent may attach to a view.
    pub state_bytes_max: usize,
    /// Bytes of decisions in one message.
    pub cuts_bytes_max: usize,
    /// Alerts in one message.
    pub reports_max: usize,
    /// Views are handed to others only together with what the parent said of them ([`crate::Input::State`]).
    pub needs_state: bool,
    /// Which rule is broken, for the simulator to notice.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl Config {
    /// For servers on a local network: a crash is a new view within a second.
    pub fn production() -> Self {
        let ms = Duration::from_millis;
        Config {
            rings: 10,
            high: 9,
            low: 3,
            probe_interval: ms(100),
            probe_timeout: ms(100),
            probe_window: 10,
            probe_failures: 5,
            bootstrap: ms(10_000),
            batch_quiet: ms(30),
            batch_age_max: ms(100),
            reinforce: ms(2_000),
            alert_epoch: ms(10_000),
            unicast_members_max: 32,
            gossip_interval: ms(20),
            gossip_fanout: 4,
            gossip_rounds: 4,
            resend: ms(500),
            fallback: ms(500),
            fallback_spread: ms(100),
            join_timeout: ms(2_000),
            join_attempts: 10,
            farewell: ms(5_000),
            isolated_after: ms(1_000),
            members_max: 4_096,
            changes_max: 2_048,
            joiners_max: 2_048,
            steps_max: 64,
            proposals_max: 32,
            meta_bytes_max: 1_024,
            state_bytes_max: 1 << 20,
            cuts_bytes_max: 256 << 10,
            reports_max: 1_024,
            needs_state: true,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Limits so small that a simulation meets every one of them.
    pub fn tiny() -> Self {
        Config {
            unicast_members_max: 3,
            members_max: 12,
            changes_max: 3,
            joiners_max: 3,
            steps_max: 2,
            proposals_max: 2,
            cuts_bytes_max: 40,
            reports_max: 2,
            ..Config::production()
        }
    }

    /// In how many probes an answer is due.
    pub(crate) fn probes_due(&self) -> u32 {
        let due = self.probe_timeout.as_nanos().div_ceil(self.probe_interval.as_nanos().max(1));
        u32::try_from(due).unwrap_or(u32::MAX).max(1)
    }

    /// Every relation between the settings that does not hold, in words for the one who set them.
    pub fn complaints(&self) -> Vec<&'static str> {
        let rules = [
            (self.rings == 0 || self.rings > RINGS_MAX, "rings must be from 1 to 32"),
            (self.low == 0, "low must be above zero"),
            (self.high < self.low, "high must not be below low"),
            (self.high > self.rings, "high must not be above rings"),
            (self.probe_interval.is_zero(), "probe_interval must be above zero"),
            (self.probe_window == 0 || self.probe_window > 48, "probe_window must be from 1 to 48"),
            (self.probe_failures == 0, "probe_failures must be above zero"),
            (self.probe_failures > self.probe_window, "probe_failures must fit the window"),
            (self.probe_interval * 12 < self.probe_timeout, "probe_timeout must be within 12 intervals"),
            (self.batch_age_max < self.batch_quiet, "batch_age_max must not be below batch_quiet"),
            (self.alert_epoch < self.reinforce, "alert_epoch must not be below reinforce"),
            (self.alert_epoch < self.resend, "alert_epoch must not be below resend"),
            (self.gossip_interval.is_zero(), "gossip_interval must be above zero"),
            (self.gossip_fanout == 0, "gossip_fanout must be above zero"),
            (self.gossip_rounds == 0, "gossip_rounds must be above zero"),
            (self.resend.is_zero(), "resend must be above zero"),
            (self.fallback.is_zero(), "fallback must be above zero"),
            (self.join_timeout.is_zero(), "join_timeout must be above zero"),
            (self.join_attempts == 0, "join_attempts must be above zero"),
            (self.members_max == 0, "members_max must be above zero"),
            (self.changes_max == 0, "changes_max must be above zero"),
            (self.joiners_max == 0, "joiners_max must be above zero"),
            (self.steps_max == 0, "steps_max must be above zero"),
            (self.proposals_max == 0, "proposals_max must be above zero"),
            (self.reports_max == 0, "reports_max must be above zero"),
        ];
        rules.iter().filter(|(broken, _)| *broken).map(|(_, words)| *words).collect()
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: crate::Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn breaks(&self, _: crate::Mutant) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_together_and_nonsense_does_not() {
        assert!(Config::production().complaints().is_empty());
        assert!(Config::tiny().complaints().is_empty());
        let wrong = Config { high: 11, low: 0, probe_failures: 11, ..Config::production() };
        assert_eq!(wrong.complaints().len(), 3);
        assert!(!Config { high: 2, ..Config::production() }.complaints().is_empty());
    }
}
