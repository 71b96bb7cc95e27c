//! Invariants of the whole machine, run by the simulator after every step.
//!
//! | invariant | source |
//! |---|---|
//! | the primary is concerned with everything unfinished, and with what it still has to tell | recovery |
//! | what is not in the log comes from a request, and what is in the log does not | decision 0008, two parts |
//! | what is decided is in the log, or on its way there | decide, log, tell |
//! | votes of other logs are held by the coordinator alone | roles |
//! | each of these is looked after at some time | no step without a retry |
//! | a vote is kept on what is decided here, is not in the log and not on its way there | decision 0008, kept votes |

use quorate_kernel::costly;

use crate::Mutant;
use crate::machine::Commit;

impl Commit {
    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let Some(reign) = &self.reign else { return };
        assert!(reign.due.len() == reign.live.len(), "something is looked after twice or never");
        assert!(reign.woken.is_empty(), "somebody was woken and not tried");
        costly! { self.check_all() }
    }

    fn check_all(&self) {
        let Some(reign) = &self.reign else { return };
        let mut unfinished = 0;
        for (id, _) in self.ledger.records().filter(|(_, record)| record.outcome().is_none()) {
            assert!(reign.live.contains_key(&id), "nobody looks after {id:?}");
            unfinished += 1;
        }
        assert!(unfinished == self.ledger.unfinished(), "unfinished ones are miscounted");
        assert!(reign.kept.keys().all(|id| reign.live.contains_key(id)), "a kept vote is nobody's");
        let unlogged = reign.live.values().filter(|live| live.begins.is_some());
        assert!(unlogged.count() == reign.unlogged, "what the log does not have is miscounted");
        for (id, live) in &reign.live {
            let record = self.ledger.get(*id);
            let forgotten = self.config.breaks(Mutant::ForgottenBeforeAcknowledged) && live.decided;
            let once = live.begins.is_some() == record.is_none();
            assert!(once || forgotten, "{id:?} is known twice or not at all");
            let keeps = live.begins.as_ref().is_some_and(|begins| begins.coordinator == self.me);
            let free = keeps && !live.flight.any() && !live.pending && !live.decided;
            assert!(free || !reign.kept.contains_key(id), "{id:?} has a vote beside the one that is kept");
            let done = forgotten || record.is_some_and(|record| record.outcome().is_some());
            assert!(!live.decided || live.flight.global || done, "{id:?} is decided and nobody will know");
            let coordinates =
                self.transaction(*id).is_some_and(|transaction| transaction.coordinator == self.me);
            assert!(coordinates || forgotten || live.votes.is_empty(), "{id:?} is not decided here");
        }
    }
}
