//! Timers, a new primary, and forgetting.

use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::Time;

use crate::machine::{Commit, Effect, Resources, Turn};
use crate::reign::{Live, Reign};
use crate::{Cause, Entry, LogId, Mutant, Outcome, Refusal, State, Transaction, TransactionId, View, Word};

impl Commit {
    /// This node leads the log now, in this view, and has applied everything before. The parent's locks are empty.
    ///
    /// # Panics
    /// If it leads already, or if the locks of two prepared transactions conflict: the log holds what no primary may have
    /// put there.
    pub fn lead<R: Resources>(&mut self, turn: &mut Turn<'_, R>, view: View) {
        assert!(self.reign.is_none(), "a reign ends before the next begins");
        let mut reign = Reign::new(view);
        for (id, record) in self.ledger.records() {
            let coordinates = record.transaction.coordinator == self.me && !record.transaction.is_alone();
            let mut live = Live::new(None, turn.now);
            match &record.state {
                State::Done(_) if coordinates => live.decided = true,
                State::Done(_) => continue,
                State::Prepared(_) if !self.config.breaks(Mutant::LocksForgotten) => {
                    turn.resources.relock(&record.transaction);
                }
                State::Prepared(_) | State::Refused(_) => {}
                State::Waiting => {
                    reign.woken.extend(turn.resources.wait(&record.transaction));
                    reign.woken.insert(id);
                }
            }
            turn.marks.hit("commit.reign.took_over");
            reign.insert(id, live);
        }
        self.reign = Some(reign);
        self.finish(turn);
    }

    /// The time asked for by [`Effect::Arm`] has come.
    pub fn tick<R: Resources>(&mut self, turn: &mut Turn<'_, R>) {
        if let Some(reign) = &mut self.reign {
            reign.armed = None;
        }
        for _ in 0..self.config.tick_max {
            let first = self.reign.as_ref().and_then(|reign| reign.due.first().copied());
            let Some((_, id)) = first.filter(|(at, _)| *at <= turn.now) else { break };
            self.look_after(turn, id);
        }
        self.forget(turn);
        self.finish(turn);
    }

    /// Log `other` has another primary. What was said to the one before in vain, ever more rarely, is said again now: its
    /// successor may know nothing of what others hold their locks for.
    pub fn say_again<R: Resources>(&mut self, turn: &mut Turn<'_, R>, other: LogId) {
        let me = self.me;
        let concerned = |transaction: &Transaction| match transaction.coordinator == me {
            true => transaction.logs.contains(&other),
            false => transaction.coordinator == other,
        };
        let live = self.reign.iter().flat_map(|reign| reign.live.keys().copied());
        let ids = live.filter(|id| self.transaction(*id).is_some_and(concerned));
        let ids: Vec<TransactionId> = ids.collect();
        if let Some(reign) = &mut self.reign {
            for id in ids {
                turn.marks.hit("commit.said_again");
                reign.schedule(id, turn.now);
                if let Some(live) = reign.live.get_mut(&id) {
                    live.retries = 0;
                }
            }
        }
        self.finish(turn);
    }

    /// Nothing was heard about a transaction for a while, or this is a new reign.
    fn look_after<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(live) = self.live_mut(id) else { return };
        let retries = live.retries;
        live.retries += 1;
        let wait = self.config.retry.saturating_mul(1 << retries.min(10)).min(self.config.retry_max);
        let jitter = turn.rng.below(u64::try_from(wait.as_nanos() / 2).unwrap_or(u64::MAX).max(1));
        let next = turn.now + wait + Duration::from_nanos(jitter);
        if let Some(reign) = &mut self.reign {
            reign.schedule(id, next);
        }
        let Some(transaction) = self.transaction(id) else {
            // Forgotten too early, by a broken rule: there is nothing to look after.
            return self.reign.as_mut().map_or((), |reign| reign.remove(id));
        };
        let (coordinator, logs) = (transaction.coordinator, transaction.logs.clone());
        let done = self.ledger.get(id).is_some_and(|record| record.outcome().is_some());
        if coordinator != self.me {
            turn.marks.hit("commit.query.global");
            self.send(turn, coordinator, id, Word::QueryGlobal { logs });
        } else if done {
            let acknowledged = self.live(id).map(|live| live.acknowledged.clone()).unwrap_or_default();
            for log in logs.into_iter().filter(|log| *log != self.me && !acknowledged.contains(log)) {
                self.send_global(turn, id, log);
            }
            return;
        } else if !self.gave_up(turn, id) {
            self.ask_missing(turn, id, &logs);
        }
        self.try_local(turn, id);
        if self.is_waiting(id) {
            self.tell_wait(turn, id);
        }
    }

    /// Aborts a transaction that waits for too long. Before a decision, a coordinator may always do so.
    fn gave_up<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) -> bool {
        let undecided = self.live(id).filter(|live| !live.decided && !live.flight.any());
        let waited = undecided.map(|live| turn.now.since(live.since));
        if waited.is_none() || waited <= self.config.patience || self.config.patience.is_none() {
            return false;
        }
        turn.marks.hit("commit.gave_up");
        let mut refusal = self.refusal(turn.now, id, Cause::GaveUp, Bytes::new(), None);
        let voted = |log: &LogId| match *log == self.me {
            true => self.kept(id).is_some() || self.ledger.get(id).is_some_and(|record| record.is_prepared()),
            false => self.live(id).is_some_and(|live| live.votes.contains_key(log)),
        };
        // The first log that has not voted is the one to look at; whom it waits for there is not known here.
        let silent =
            self.transaction(id).and_then(|transaction| transaction.logs.iter().find(|log| !voted(log)));
        if let Some(log) = silent.copied().filter(|log| *log != self.me) {
            refusal = Refusal { log, by: None, ..refusal };
        }
        self.decide(turn, id, Outcome::Aborted(refusal));
        true
    }

    fn ask_missing<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, logs: &[LogId]) {
        self.try_decide(turn, id);
        let Some(live) = self.live(id).filter(|live| !live.decided) else { return };
        let missing = logs.iter().copied().filter(|log| *log != self.me && !live.votes.contains_key(log));
        for log in missing.collect::<Vec<_>>() {
            turn.marks.hit("commit.query.local");
            self.query(turn, id, log);
        }
    }

    /// Logs that what all have acknowledged, and what its origin has settled, is forgotten.
    fn forget<R>(&mut self, turn: &mut Turn<'_, R>) {
        let unsettled = self.config.breaks(Mutant::ForgottenBeforeSettled);
        let Some(reign) = &mut self.reign else { return };
        if reign.forget_at.is_none_or(|at| at > turn.now) {
            return;
        }
        let settled = reign.acknowledged.iter().filter(|id| unsettled || self.ledger.is_settled_by_all(**id));
        let ids = settled.filter(|id| self.ledger.get(**id).is_some() && !reign.forgetting.contains(*id));
        let ids: Vec<TransactionId> = ids.copied().take(self.config.forget_max).collect();
        let more = !reign.acknowledged.is_empty();
        reign.forget_at = more.then(|| turn.now + self.config.forget_every);
        if !ids.is_empty() {
            turn.marks.hit("commit.forget");
            reign.forgetting.extend(ids.iter().copied());
            turn.out.push(Effect::Append(Entry::Forget { ids }));
        }
    }

    /// Asks for the next tick, if the one asked for would come too late.
    pub(crate) fn arm<R>(&mut self, turn: &mut Turn<'_, R>) {
        let Some(reign) = &mut self.reign else { return };
        let due = reign.due.first().map(|(at, _)| *at);
        let bundle_at = reign.bundles.due(turn.now, self.config.bundle_wait);
        let next: Option<Time> = due.into_iter().chain(reign.forget_at).chain(bundle_at).min();
        if let Some(next) = next.filter(|next| reign.armed.is_none_or(|armed| armed > *next)) {
            reign.armed = Some(next);
            turn.out.push(Effect::Arm(next.since(turn.now)));
        }
    }
}
