//! What a chosen entry does: to the ledger and the data on every replica, and to the rest on the primary.

use alloc::vec::Vec;

use crate::coordinator::share_of;
use crate::machine::{Commit, Effect, Resources, Turn};
use crate::{Entry, LogId, Mutant, Outcome, TransactionId, Word};

impl Commit {
    /// An entry is chosen, and everything before it was applied. Called on every replica.
    ///
    /// # Panics
    /// If the entry does not fit what is before it, which no primary appends.
    pub fn applied<R: Resources>(&mut self, turn: &mut Turn<'_, R>, entry: &Entry) {
        if let Some((transaction, decision)) = self.ledger.apply(entry) {
            turn.resources.carry_out(&transaction, &decision);
        }
        if self.reign.is_none() {
            return;
        }
        match entry {
            Entry::Local { id, .. } => self.voted(turn, *id),
            Entry::Revert { id, .. } => self.reverted(turn, *id),
            Entry::Global { id, coordinator, logs, outcome } => {
                self.ended(turn, *id, *coordinator, logs, outcome);
            }
            Entry::AtOnce { transaction, outcome } => {
                self.ended(turn, transaction.id, self.me, &transaction.logs, outcome);
            }
            Entry::Forget { ids } => {
                if let Some(reign) = &mut self.reign {
                    for id in ids {
                        reign.forgetting.remove(id);
                        reign.acknowledged.remove(id);
                    }
                }
            }
            Entry::Settle { origin, before } => {
                let settling = self.reign.as_mut().map(|reign| &mut reign.settling);
                if let Some(settling) = settling.filter(|known| known.get(origin) <= Some(before)) {
                    settling.remove(origin);
                }
            }
        }
        self.finish(turn);
    }

    fn voted<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let soon = turn.now + self.config.retry;
        let Some(live) = self.live_mut(id) else { return };
        live.flight.local = false;
        live.retries = 0;
        let wanted = core::mem::take(&mut live.wanted);
        let ends = live.flight.global;
        if let Some(reign) = &mut self.reign {
            reign.logged(id);
            reign.schedule(id, soon);
            let members = self.ledger.get(id).map(|record| &record.transaction.members[..]);
            reign.bundles.logged(members.unwrap_or_default());
        }
        if ends {
            return;
        }
        if wanted {
            self.ask_back(turn, id);
        }
        self.send_vote(turn, id);
    }

    fn reverted<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        turn.marks.hit("commit.revert.done");
        if let Some(live) = self.live_mut(id) {
            live.flight.revert = false;
        }
        self.wait_anew(turn, id);
    }

    /// Its vote is taken back: it waits for its locks again.
    pub(crate) fn wait_anew<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(transaction) = self.transaction(id) else { return };
        let mut woken = turn.resources.wait(transaction);
        woken.push(id);
        self.wake(woken);
    }

    /// The outcome is in the log: here it is over, and a coordinator tells the others now.
    fn ended<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        coordinator: LogId,
        logs: &[LogId],
        outcome: &Outcome,
    ) {
        if outcome.is_commit() || !self.config.breaks(Mutant::LocksKept) {
            let woken = turn.resources.release(id);
            self.wake(woken);
        }
        let (me, soon) = (self.me, turn.now + self.config.retry);
        let Some(reign) = &mut self.reign else { return };
        if coordinator != me {
            reign.remove(id);
            return self.send(turn, coordinator, id, Word::Acknowledge);
        }
        reign.bundles.ended(id);
        let members = self.ledger.get(id).map(|record| &record.transaction.members[..]);
        reign.bundles.logged(members.unwrap_or_default());
        let members = self.tell_members(turn, id);
        if members == 0 && !self.is_member(id) {
            turn.out.push(Effect::Result { id, outcome: outcome.clone() });
        }
        let Some(reign) = &mut self.reign else { return };
        let others: Vec<LogId> = logs.iter().copied().filter(|log| *log != me).collect();
        if others.is_empty() || self.ledger.get(id).is_none() {
            return reign.remove(id);
        }
        reign.logged(id);
        reign.schedule(id, soon);
        if let Some(live) = reign.live.get_mut(&id) {
            live.flight = Default::default();
            live.pending = false;
            live.retries = 0;
            live.decided = true;
            live.votes.clear();
        }
        for log in others {
            let word = Word::Global { logs: logs.to_vec(), outcome: share_of(turn, outcome, log) };
            self.send(turn, log, id, word);
        }
    }
}
