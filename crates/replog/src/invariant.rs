//! Invariants of one replica's whole state, run by the simulator after every step.
//!
//! | invariant | source |
//! |---|---|
//! | applied <= chosen <= last entry, and what is in memory starts at or before the applied entry | VSR 4.9 |
//! | the ballot the log has caught up with is not above what was promised in its epoch | VSR: last normal view <= view |
//! | a leader leads the ballot it promised last | ballots, protocols 3.3 |
//! | nothing stands behind an unchosen seal in its epoch | stop-sign, protocols 3.4 |
//! | epochs are numbered without gaps and begin where their seals stand | one parent an epoch, protocols 3.5 |
//! | ballots of entries never fall along the log | log matching |

use quorate_kernel::costly;

use crate::machine::{Replog, Role};
use crate::record::Content;

impl Replog {
    pub(crate) fn check_invariants(&self) {
        assert!(self.applied <= self.chosen, "applied {} behind chosen {}", self.applied, self.chosen);
        assert!(self.chosen <= self.log.last(), "chosen {} behind the end {}", self.chosen, self.log.last());
        assert!(self.log.base() <= self.applied, "entries are forgotten before they are applied");
        let promised = self.promised_in(self.log_ballot.epoch.max(self.epoch().number));
        assert!(self.log_ballot <= promised, "{:?} > {promised:?}", self.log_ballot);
        if let Role::Leader(leader) = &self.role {
            assert_eq!(leader.ballot, self.promised, "a leader that promised something else must step down");
            assert!(leader.takeover <= self.log.last());
            assert!(leader.own_matched <= self.log.last());
            assert_eq!(leader.ballot.epoch, self.epoch().number, "a leader leads the current epoch");
        }
        for pair in self.epochs.windows(2) {
            assert!(pair[0].number + 1 == pair[1].number && pair[0].start < pair[1].start, "{pair:?}");
        }
        costly! { self.check_log() }
    }

    fn check_log(&self) {
        let mut previous = self.log.ballot_at(self.log.base()).unwrap_or_default();
        for index in self.log.base() + 1..=self.log.last() {
            let Some(entry) = self.log.get(index) else { panic!("entry {index} is missing") };
            assert!(entry.ballot >= previous, "entry {index}: {:?} after {previous:?}", entry.ballot);
            previous = entry.ballot;
            let is_seal = matches!(entry.content, Content::Seal(_));
            if is_seal && index > self.chosen {
                let next = self.log.ballot_at(index + 1);
                assert!(
                    next.is_none_or(|next| next.epoch > entry.ballot.epoch),
                    "entry {} behind a seal",
                    index + 1
                );
            }
        }
    }
}
