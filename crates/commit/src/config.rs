//! What can be chosen, and what breaks at both ends.

use alloc::vec::Vec;
use core::time::Duration;

/// Settings of one log's commitment. Members of a log may differ in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Transactions under way at this log. Beyond, new ones are refused as busy, and nothing of them happens. Larger
    /// costs memory and the time in which a new primary takes its locks again.
    pub live_max: usize,
    /// Transactions remembered, finished ones too. An eighth is kept for tombstones, which let others finish. Too small
    /// for how fast origins settle: busy without need.
    pub records_max: usize,
    /// Origins whose horizon is remembered.
    pub origins_max: usize,
    /// Logs that take part in one transaction.
    pub logs_max: usize,
    /// Bytes of all parts of one transaction together. It bounds entries, messages and rows of snapshots.
    pub part_bytes_max: usize,
    /// Bytes of one export and of one decision.
    pub payload_bytes_max: usize,
    /// After this long without news about a transaction the primary asks again; each time twice as long.
    pub retry: Duration,
    /// But never longer than this.
    pub retry_max: Duration,
    /// The coordinator aborts what has not been decided for so long; `None`: it waits for ever. Shorter than clients
    /// wait, or they are told nothing; too short, and what waits behind others is aborted under load.
    pub patience: Option<Duration>,
    /// Origins are told what their transactions wait for if they have done so for at least this long. Shorter costs two
    /// messages for each that waits; longer, and nobody can say what took so long.
    pub told_after: Duration,
    /// Transactions looked after in one tick.
    pub tick_max: usize,
    /// Transactions named by one entry that forgets them.
    pub forget_max: usize,
    /// How long finished transactions are gathered before such an entry.
    pub forget_every: Duration,
    /// Requests that become one transaction at most. 1: each is one by itself. More make popular resources faster, and
    /// one that cannot happen soon keeps more others waiting.
    pub members_max: usize,
    /// Transactions that a coordinator has under way before those that come wait, to go together. With more they are in
    /// each other's way where resources are popular.
    pub bundles_max: usize,
    /// One that is under way for longer does not count any more, and logs that have not voted on it by then count as
    /// late: who needs them goes alone. A log that is down delays others for so long; well below the time that popular
    /// resources are waited for, all go alone just when they should go together.
    pub bundle_wait: Duration,
    /// Which rule is broken, for the simulator to notice.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl Config {
    /// For servers on a local network.
    pub fn production() -> Self {
        Config {
            live_max: 8_192,
            records_max: 65_536,
            origins_max: 4_096,
            logs_max: 64,
            part_bytes_max: 1 << 20,
            payload_bytes_max: 1 << 20,
            retry: Duration::from_millis(200),
            retry_max: Duration::from_secs(5),
            patience: Some(Duration::from_secs(10)),
            told_after: Duration::from_millis(50),
            tick_max: 256,
            forget_max: 256,
            forget_every: Duration::from_millis(500),
            members_max: 1_024,
            bundles_max: 1,
            bundle_wait: Duration::from_millis(500),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Limits so small that a simulation meets them.
    pub fn tiny() -> Self {
        Config {
            live_max: 6,
            records_max: 24,
            origins_max: 8,
            logs_max: 8,
            part_bytes_max: 4_096,
            payload_bytes_max: 4_096,
            retry: Duration::from_millis(50),
            retry_max: Duration::from_millis(800),
            patience: None,
            told_after: Duration::from_millis(5),
            tick_max: 3,
            forget_max: 2,
            forget_every: Duration::from_millis(100),
            members_max: 3,
            bundles_max: 1,
            bundle_wait: Duration::from_millis(100),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Every relation between the settings that does not hold, in words for the one who set them.
    pub fn complaints(&self) -> Vec<&'static str> {
        let rules = [
            (self.live_max == 0, "live_max must be above zero"),
            (self.records_max < self.live_max, "records_max must be at least live_max"),
            (self.logs_max == 0, "logs_max must be above zero"),
            (self.retry.is_zero(), "retry must be above zero"),
            (self.retry_max < self.retry, "retry_max must be at least retry"),
            (self.patience.is_some_and(|most| most < self.retry), "patience must be at least retry"),
            (self.tick_max == 0, "tick_max must be above zero"),
            (self.forget_max == 0, "forget_max must be above zero"),
            (self.forget_every.is_zero(), "forget_every must be above zero"),
            (self.members_max == 0, "members_max must be above zero"),
            (self.bundles_max == 0, "bundles_max must be above zero"),
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
