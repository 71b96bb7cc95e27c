//! The coordinator: it collects votes, decides, logs the decision, and only then tells it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::machine::{Commit, Resources, Turn, Verdict};
use crate::reign::Live;
use crate::{Cause, LogId, Mutant, Outcome, Refusal, State, Transaction, TransactionId, View, Vote, Word};

impl Commit {
    pub(crate) fn on_vote<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        cv: View,
        epoch: u64,
        vote: Vote,
    ) {
        if let Some(record) = self.ledger.get(id).filter(|record| record.outcome().is_some()) {
            if record.transaction.coordinator == self.me {
                self.send_global(turn, id, from);
            }
            return;
        }
        let takes_part = self.transaction(id).is_some_and(|transaction| {
            transaction.coordinator == self.me && transaction.logs.contains(&from)
        });
        let Some(view) = self.view().filter(|_| takes_part) else {
            // Unknown here: the participant will ask, and be told that it is aborted.
            return turn.marks.hit("commit.vote.unknown");
        };
        let (any_view, any_epoch) =
            (self.config.breaks(Mutant::NoCoordinatorView), self.config.breaks(Mutant::NoEpochs));
        let refusal_counts = self.config.breaks(Mutant::RefusalCounts);
        let Some(live) = self.live_mut(id) else { return };
        if live.decided {
            if refusal_counts && !vote_is_yes(&vote) {
                self.decide(turn, id, Outcome::Committed(Bytes::new()));
            }
            return;
        }
        if cv != view && !any_view {
            // Given to an earlier coordinator, or to none in particular: a revert may have been granted since.
            turn.marks.hit("commit.vote.other_view");
            return self.query(turn, id, from);
        }
        if epoch < live.min_epoch.get(&from).copied().unwrap_or_default() && !any_epoch {
            return turn.marks.hit("commit.vote.taken_back");
        }
        live.counted += 1;
        live.votes.insert(from, vote);
        self.try_decide(turn, id);
    }

    /// Decides, if the votes suffice.
    pub(crate) fn try_decide<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(live) = self.live(id).filter(|live| !live.decided && !live.flight.global) else { return };
        let Some(transaction) = self.transaction(id).filter(|known| known.coordinator == self.me) else {
            return;
        };
        let own_from_message = self.config.breaks(Mutant::OwnVoteFromMessage);
        // The own vote is what stands in the log, and no revert of it may be under way; or it is kept.
        let own = match self.ledger.get(id).map(|record| &record.state) {
            _ if own_from_message => live.votes.get(&self.me).cloned(),
            None => self.kept(id).cloned().map(Vote::Yes),
            Some(State::Prepared(export)) if !live.flight.any() => Some(Vote::Yes(export.clone())),
            Some(State::Refused(refusal)) => Some(Vote::No(refusal.clone())),
            _ => None,
        };
        let votes = live.votes.values().chain(&own);
        let refusal = votes.clone().find_map(|vote| match vote {
            Vote::No(refusal) => Some(refusal.clone()),
            Vote::Yes(_) => None,
        });
        if let Some(refusal) = refusal {
            return self.decide(turn, id, Outcome::Aborted(refusal));
        }
        let others = transaction.logs.iter().filter(|log| **log != self.me);
        let counted =
            self.config.breaks(Mutant::DuplicateVotesCount) && live.counted >= others.clone().count();
        let all = own.is_some() && (counted || others.clone().all(|log| live.votes.contains_key(log)));
        if !all {
            return;
        }
        let mut exports = BTreeMap::new();
        for (log, vote) in live.votes.iter().chain(own.iter().map(|vote| (&self.me, vote))) {
            if let Vote::Yes(export) = vote {
                exports.insert(*log, export.clone());
            }
        }
        let verdict = turn.resources.decide(transaction, &exports);
        let outcome = self.outcome_of(turn, id, verdict);
        self.decide(turn, id, outcome);
    }

    /// The outcome that follows from a verdict.
    pub(crate) fn outcome_of<R>(&self, turn: &Turn<'_, R>, id: TransactionId, verdict: Verdict) -> Outcome {
        let cause = match verdict {
            Verdict::Commit(decision) if decision.len() <= self.config.payload_bytes_max => {
                return Outcome::Committed(decision);
            }
            Verdict::Commit(_) | Verdict::TooLarge => (Cause::TooLarge, Bytes::new()),
            Verdict::Abort(words) => (Cause::Votes, words),
        };
        Outcome::Aborted(self.refusal(turn.now, id, cause.0, cause.1, None))
    }

    /// Logs the decision. From now on nothing is taken back; nobody is told before it is chosen.
    pub(crate) fn decide<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        outcome: Outcome,
    ) {
        let Some(logs) = self.transaction(id).map(|transaction| transaction.logs.clone()) else { return };
        let me = self.me;
        self.forget_kept(id);
        let Some(live) = self.live_mut(id) else { return };
        live.decided = true;
        live.flight.global = true;
        if self.config.breaks(Mutant::TellBeforeLog) {
            for log in logs.iter().filter(|log| **log != me) {
                let word = Word::Global { logs: logs.clone(), outcome: outcome.clone() };
                self.send(turn, *log, id, word);
            }
        }
        self.append_outcome(turn, id, (me, logs, outcome));
    }

    /// Tells `to` the outcome that is in the log.
    pub(crate) fn send_global<R: Resources>(&self, turn: &mut Turn<'_, R>, id: TransactionId, to: LogId) {
        let Some(record) = self.ledger.get(id) else { return };
        if let Some(outcome) = record.outcome() {
            let (logs, outcome) = (record.transaction.logs.clone(), share_of(turn, outcome, to));
            self.send(turn, to, id, Word::Global { logs, outcome });
        }
    }

    /// Asks `log` for its vote.
    pub(crate) fn query<R: Resources>(&self, turn: &mut Turn<'_, R>, id: TransactionId, log: LogId) {
        let Some(cv) = self.view() else { return };
        let min_epoch = self.live(id).and_then(|live| live.min_epoch.get(&log).copied()).unwrap_or_default();
        let transaction = self.transaction(id).and_then(|transaction| transaction.for_log(log));
        self.send(turn, log, id, Word::QueryLocal { cv, min_epoch, transaction });
    }

    pub(crate) fn on_revert_request<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        epoch: u64,
        pv: View,
    ) {
        let takes_part = self.transaction(id).is_some_and(|known| {
            known.coordinator == self.me && known.logs.contains(&from) && from != self.me
        });
        let Some(cv) = self.view().filter(|_| takes_part) else { return };
        if self.ledger.get(id).is_some_and(|record| record.outcome().is_some()) {
            return self.send_global(turn, id, from);
        }
        let Some(live) = self.live_mut(id) else { return };
        if live.decided || live.flight.global {
            // The outcome will come, and free the locks as well.
            return turn.marks.hit("commit.revert.too_late");
        }
        turn.marks.hit("commit.revert.granted");
        let least = live.min_epoch.entry(from).or_default();
        *least = (*least).max(epoch + 1);
        live.votes.remove(&from);
        self.send(turn, from, id, Word::RevertGrant { epoch, cv, pv });
    }

    pub(crate) fn on_query_global<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        logs: Vec<LogId>,
    ) {
        if let Some(record) = self.ledger.get(id) {
            if record.transaction.coordinator != self.me {
                return turn.marks.hit("commit.query.stranger");
            }
            return self.send_global(turn, id, from);
        }
        if self.is_live(id) {
            return;
        }
        let unknown = |cause| self.refusal(turn.now, id, cause, Bytes::new(), None);
        if self.ledger.is_settled(id) {
            // It never began here, and no request for it is taken any more; or it began, and all have its outcome, so that
            // this question is late and its answer changes nothing.
            turn.marks.hit("commit.query.settled");
            let outcome = Outcome::Aborted(unknown(Cause::Settled));
            return self.send(turn, from, id, Word::Global { logs, outcome });
        }
        let refusal: Refusal = unknown(Cause::Unknown);
        let outcome = Outcome::Aborted(refusal);
        if self.config.breaks(Mutant::TombstoneInMemory) {
            return self.send(turn, from, id, Word::Global { logs, outcome });
        }
        if logs.len() > self.config.logs_max || !self.has_room_for_tombstone() {
            // Said without being remembered, it could be contradicted. The participant asks again.
            return turn.marks.hit("commit.tombstone.no_room");
        }
        turn.marks.hit("commit.tombstone.global");
        let mut begins = Transaction::unknown(id, self.me, logs, from);
        begins.others.clear();
        self.insert_live(id, Live::new(Some(begins), turn.now), turn.now);
        self.decide(turn, id, outcome);
    }

    pub(crate) fn on_acknowledge<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
    ) {
        let undecided = self.live(id).is_some_and(|live| !live.decided && !live.flight.any());
        if self.ledger.has_lost
            && undecided
            && self.transaction(id).is_some_and(|known| known.coordinator == self.me)
        {
            // Whoever acknowledges was told how it ended, and that is lost here.
            turn.marks.hit("commit.decision.lost");
            let refusal = self.refusal(turn.now, id, Cause::Unknown, Bytes::new(), None);
            return self.decide(turn, id, Outcome::Aborted(refusal));
        }
        let Some(record) = self.ledger.get(id).filter(|record| record.outcome().is_some()) else { return };
        let (me, logs) = (self.me, &record.transaction.logs);
        let Some(reign) = &mut self.reign else { return };
        let Some(live) = reign.live.get_mut(&id).filter(|_| record.transaction.coordinator == me) else {
            return;
        };
        live.acknowledged.insert(from);
        if logs.iter().all(|log| *log == me || live.acknowledged.contains(log)) {
            reign.remove(id);
            reign.acknowledged.insert(id);
            if reign.forget_at.is_none() {
                reign.forget_at = Some(turn.now + self.config.forget_every);
            }
        }
    }
}

/// An outcome as log `to` has to know it.
pub(crate) fn share_of<R: Resources>(turn: &mut Turn<'_, R>, outcome: &Outcome, to: LogId) -> Outcome {
    match outcome {
        Outcome::Committed(decision) => Outcome::Committed(turn.resources.share(decision, to)),
        Outcome::Aborted(refusal) => Outcome::Aborted(refusal.clone()),
    }
}

fn vote_is_yes(vote: &Vote) -> bool {
    matches!(vote, Vote::Yes(_))
}
