//! What must hold of all logs together, looked at whenever an entry is chosen anywhere.
//!
//! | name | property |
//! |---|---|
//! | T1 | no two logs have different outcomes of a transaction, and none has one that is not in the coordinator's log |
//! | T2 | no two transactions prepared at one log want the same key, unless both read |
//! | T3 | the version of a key grows by one with each committed change, and by nothing else |
//! | T4 | when a commit is decided, every log has voted yes and not taken it back |
//! | T5 | nothing is taken back after a commit |
//! | T6 | committed transactions are strictly serializable: see `order.rs` |
//! | T7 | what happens as a member of a bundle happens there alone, and once |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_commit::{Cause, Entry, LogId, Outcome, Refusal, Transaction, TransactionId, Vote};
use quorate_kernel::wire;

use super::order::Order;
use super::shelf::{Act, Cell, Decision, Found, Part};
use crate::Verdict;

/// A transaction at one log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Waiting,
    Prepared(bytes::Bytes),
    Refused,
    Done(bool),
}

#[derive(Debug, Clone)]
struct Known {
    standing: Standing,
    epoch: u64,
    part: Part,
}

#[derive(Debug, Default)]
struct Log {
    seen: usize,
    known: BTreeMap<TransactionId, Known>,
    cells: BTreeMap<u8, Cell>,
}

/// What all logs hold, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Judge {
    logs: BTreeMap<LogId, Log>,
    /// What coordinators have decided.
    decided: BTreeMap<TransactionId, Outcome>,
    /// Whose bundle a member of one belongs to, and its number there.
    bundles: BTreeMap<TransactionId, (TransactionId, usize)>,
    pub(super) order: Order,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// Votes taken back of one transaction at one log before it counts as a livelock. Each is for an older one's sake.
const EPOCHS_MAX: u64 = 60;

impl Judge {
    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Log `log` holds these entries by now.
    pub(super) fn look(&mut self, log: LogId, chosen: &[Entry], cells: &BTreeMap<u8, Cell>) -> Verdict {
        let seen = self.logs.entry(log).or_default().seen;
        if chosen.len() <= seen {
            return Ok(());
        }
        for entry in &chosen[seen..] {
            self.entry(log, entry).map_err(|why| format!("{why}; {log:?} took in {entry:?}"))?;
        }
        let state = self.logs.entry(log).or_default();
        state.seen = chosen.len();
        if state.cells != *cells {
            return Err(format!("T3: {log:?} holds {cells:?} and should hold {:?}", state.cells));
        }
        Ok(())
    }

    fn entry(&mut self, log: LogId, entry: &Entry) -> Verdict {
        match entry {
            Entry::Local { id, epoch, vote, begins } => self.voted(log, *id, *epoch, vote, begins.as_ref()),
            Entry::Revert { id, epoch } => self.reverted(log, *id, *epoch),
            Entry::Global { id, coordinator, logs, outcome } => {
                if *coordinator == log {
                    self.decides(log, *id, logs, outcome)?;
                } else {
                    self.follows(*id, outcome)?;
                }
                self.ended(log, *id, outcome)
            }
            Entry::AtOnce { transaction, outcome } => {
                let id = transaction.id;
                self.count(if transaction.is_alone() { "commit.sim.alone" } else { "commit.sim.at_once" });
                let vote = match outcome {
                    Outcome::Committed(_) => Vote::Yes(bytes::Bytes::new()),
                    Outcome::Aborted(refusal) => Vote::No(refusal.clone()),
                };
                self.voted(log, id, 0, &vote, Some(transaction))?;
                self.decides(log, id, &transaction.logs, outcome)?;
                self.ended(log, id, outcome)
            }
            Entry::Forget { .. } | Entry::Settle { .. } => Ok(()),
        }
    }

    fn voted(
        &mut self,
        log: LogId,
        id: TransactionId,
        epoch: u64,
        vote: &Vote,
        begins: Option<&Transaction>,
    ) -> Verdict {
        for (number, member) in begins.iter().flat_map(|begins| begins.members.iter().enumerate()) {
            self.count("commit.sim.member");
            if let Some((other, _)) = self.bundles.insert(member.id, (id, number)) {
                return Err(format!("T7: {:?} is a member of {other:?} and of {id:?}", member.id));
            }
        }
        let known = &mut self.logs.entry(log).or_default().known;
        if let Some(part) = begins.map(Part::of) {
            if known.contains_key(&id) {
                return Err(format!("{id:?} begins twice"));
            }
            known.insert(id, Known { standing: Standing::Waiting, epoch: 0, part });
        }
        let Some(mine) = known.get(&id).cloned() else { return Err(format!("{id:?} never began")) };
        if mine.standing != Standing::Waiting || mine.epoch != epoch {
            return Err(format!("a vote on {id:?}, which is {mine:?}"));
        }
        if epoch > EPOCHS_MAX {
            return Err(format!("livelock: {id:?} has come to epoch {epoch}"));
        }
        let standing = match vote {
            Vote::No(_) => Standing::Refused,
            Vote::Yes(export) => {
                let clash = known.iter().find(|(other, theirs)| {
                    **other != id
                        && matches!(theirs.standing, Standing::Prepared(_))
                        && theirs.part.clashes(&mine.part)
                });
                if let Some((other, _)) = clash {
                    return Err(format!("T2: {id:?} and {other:?} are prepared for the same key"));
                }
                Standing::Prepared(export.clone())
            }
        };
        known.insert(id, Known { standing, ..mine });
        Ok(())
    }

    fn reverted(&mut self, log: LogId, id: TransactionId, epoch: u64) -> Verdict {
        if self.decided.get(&id).is_some_and(Outcome::is_commit) {
            return Err(format!("T5: {id:?} is committed, and {log:?} takes back its vote"));
        }
        self.count("commit.sim.reverted");
        let known = self.logs.entry(log).or_default().known.get_mut(&id);
        let Some(mine) = known.filter(|mine| matches!(mine.standing, Standing::Prepared(_))) else {
            return Err(format!("a revert of {id:?}, which is not prepared"));
        };
        if mine.epoch != epoch {
            return Err(format!("a revert of epoch {epoch} of {id:?}, which is {mine:?}"));
        }
        mine.epoch += 1;
        mine.standing = Standing::Waiting;
        Ok(())
    }

    /// A coordinator has decided.
    fn decides(&mut self, log: LogId, id: TransactionId, logs: &[LogId], outcome: &Outcome) -> Verdict {
        if self.decided.insert(id, outcome.clone()).is_some() {
            return Err(format!("T1: {id:?} is decided twice"));
        }
        match outcome {
            Outcome::Committed(_) => {
                for other in logs {
                    let standing = self.logs.entry(*other).or_default().known.get(&id);
                    if !standing.is_some_and(|mine| matches!(mine.standing, Standing::Prepared(_))) {
                        return Err(format!("T4: {id:?} is committed, and at {other:?} it is {standing:?}"));
                    }
                }
            }
            Outcome::Aborted(Refusal { log: refused, cause: Cause::Unreached, .. }) if *refused != log => {
                self.count("commit.sim.tombstone_told");
                let standing = self.logs.entry(*refused).or_default().known.get(&id);
                let is_logged = standing
                    .is_some_and(|mine| matches!(mine.standing, Standing::Refused | Standing::Done(false)));
                if !is_logged {
                    return Err(format!("T4: {refused:?} refused {id:?} and did not log that"));
                }
            }
            Outcome::Aborted(_) => {}
        }
        Ok(())
    }

    /// A participant does as it was told.
    fn follows(&mut self, id: TransactionId, outcome: &Outcome) -> Verdict {
        match (self.decided.get(&id), outcome) {
            (Some(decided), told) if decided.is_commit() == told.is_commit() => Ok(()),
            (None, Outcome::Aborted(Refusal { cause: Cause::Settled, .. })) => Ok(()),
            (decided, _) => Err(format!("T1: {id:?} ends otherwise than decided, which is {decided:?}")),
        }
    }

    fn ended(&mut self, log: LogId, id: TransactionId, outcome: &Outcome) -> Verdict {
        let state = self.logs.entry(log).or_default();
        let unknown = Known { standing: Standing::Waiting, epoch: 0, part: Part::default() };
        let mine = state.known.get(&id).cloned().unwrap_or(unknown);
        if let Standing::Done(_) = mine.standing {
            return Err(format!("T1: {id:?} ends twice"));
        }
        state.known.insert(id, Known { standing: Standing::Done(outcome.is_commit()), ..mine.clone() });
        let Outcome::Committed(decision) = outcome else { return Ok(()) };
        let decision: Decision = wire::decode(decision).map_err(|_| format!("the decision on {id:?}"))?;
        let exported = decision.get(&log).cloned().unwrap_or_default();
        let held = mine.part.finds(id, &state.cells);
        if exported != held {
            return Err(format!("T6: {id:?} exported {exported:?} and is carried out on {held:?}"));
        }
        for item in &mine.part.items {
            let cell = state.cells.entry(item.key).or_default();
            if item.expected.is_some_and(|expected| expected != cell.version) {
                return Err(format!("T6: {id:?} wanted {item:?} and is carried out on {cell:?}"));
            }
            self.order.did(id, (log, item.key), cell.version, item.act != Act::Read);
            cell.change(item.act, item.label, id);
        }
        Ok(())
    }

    /// A client is told how its transaction ended.
    pub(super) fn told(&mut self, id: TransactionId, outcome: &Outcome) -> Verdict {
        if let Some((bundle, number)) = self.bundles.get(&id) {
            return self.told_member(id, *bundle, *number, outcome);
        }
        match self.decided.get(&id) {
            Some(decided) if decided == outcome => Ok(()),
            decided => Err(format!("T1: {id:?} is told to be {outcome:?} and is {decided:?}")),
        }
    }

    /// The origins of all bundles.
    pub(super) fn makers(&self) -> BTreeSet<u64> {
        self.bundles.values().map(|(bundle, _)| bundle.origin).collect()
    }

    /// The client of a bundle's member is told the same, as far as it concerns it.
    fn told_member(
        &self,
        id: TransactionId,
        bundle: TransactionId,
        number: usize,
        outcome: &Outcome,
    ) -> Verdict {
        if self.decided.get(&id).is_some_and(Outcome::is_commit) {
            return Err(format!("T7: {id:?} is committed beside its bundle {bundle:?}"));
        }
        let excerpt = |decision: &bytes::Bytes| -> Option<Decision> {
            let whole: Decision = wire::decode(decision).ok()?;
            let his = |found: &Found| (found.member == number).then(|| Found { member: 0, ..found.clone() });
            Some(whole.iter().map(|(log, found)| (*log, found.iter().filter_map(his).collect())).collect())
        };
        match (self.decided.get(&bundle), outcome) {
            (Some(Outcome::Aborted(_)), Outcome::Aborted(_)) => Ok(()),
            (Some(Outcome::Committed(decided)), Outcome::Committed(told))
                if excerpt(decided).is_some_and(|excerpt| wire::decode(told) == Ok(excerpt)) =>
            {
                Ok(())
            }
            (decided, _) => Err(format!("T1: {id:?} is told to be {outcome:?}; its bundle is {decided:?}")),
        }
    }

    /// The keys of `log` that were changed, as they are now.
    pub(super) fn cells(&self, log: LogId) -> BTreeMap<u8, Cell> {
        self.logs.get(&log).map(|log| log.cells.clone()).unwrap_or_default()
    }

    /// From when to when a transaction ran, as its client knows.
    pub(super) fn ran(&mut self, id: TransactionId, start: Duration, end: Option<Duration>) {
        self.order.ran(self.bundles.get(&id).map_or(id, |(bundle, _)| *bundle), start, end);
    }
}
