//! A participant: it votes, takes its vote back if the coordinator agrees, and does as it is told.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::Time;

use crate::machine::{Attempt, Commit, Effect, Resources, Turn};
use crate::reign::Live;
use crate::{
    Cause, Entry, LogId, Mutant, Outcome, Refusal, State, Transaction, TransactionId, View, Vote, Word,
};

impl Commit {
    /// Tries to get what a transaction needs here, and to vote.
    pub(crate) fn try_local<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let live = self.reign.as_ref().and_then(|reign| reign.live.get(&id));
        let kept = self.kept(id).is_some();
        let Some(live) = live.filter(|live| !live.flight.any() && !live.pending && !kept) else { return };
        let transaction = match (&live.begins, self.ledger.get(id)) {
            (Some(transaction), None) => transaction,
            (_, Some(record)) if record.state == State::Waiting => &record.transaction,
            _ => return,
        };
        let attempt = turn.resources.prepare(transaction);
        self.attempted(turn, id, attempt);
    }

    /// What came of an attempt.
    pub(crate) fn attempted<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        attempt: Attempt,
    ) {
        let refused = match attempt {
            Attempt::Ready { export, stays } if export.len() <= self.config.payload_bytes_max => {
                return self.vote_yes(turn, id, export, stays);
            }
            Attempt::Ready { .. } | Attempt::TooLarge => {
                turn.marks.hit("commit.local.too_large");
                self.refusal(turn.now, id, Cause::TooLarge, Bytes::new(), None)
            }
            Attempt::Refused { resource, by } => {
                turn.marks.hit("commit.local.refused");
                if self.live(id).is_some_and(|live| live.retries > 0 || live.behind.is_some()) {
                    turn.marks.hit("commit.local.refused_waiting");
                }
                self.refusal(turn.now, id, Cause::Resource, resource, by)
            }
            Attempt::Full => {
                turn.marks.hit("commit.local.full");
                self.refusal(turn.now, id, Cause::Busy, Bytes::new(), None)
            }
            Attempt::Later => {
                if let Some(live) = self.live_mut(id) {
                    live.pending = true;
                }
                return;
            }
            Attempt::Waits(owners) => return self.waits(turn, id, &owners),
        };
        let woken = turn.resources.release(id);
        self.wake(woken);
        self.vote_no(turn, id, refused);
    }

    fn vote_yes<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        export: Bytes,
        stays: bool,
    ) {
        self.tell_wait(turn, id);
        let keeps = self.begins_here(id).is_some_and(|begins| stays || begins.is_alone());
        match self.reign.as_mut().filter(|_| keeps) {
            Some(reign) => {
                reign.kept.insert(id, export);
                self.keep(turn, id);
            }
            None => self.append_local(turn, id, Vote::Yes(export)),
        }
    }

    /// A vote is kept until the decision. If it cannot be decided yet and an older one wants the locks, that one gets them.
    fn keep<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        turn.marks.hit("commit.vote.kept");
        if self.config.breaks(Mutant::OwnVoteFromMessage) {
            let (me, export) = (self.me, self.kept(id).cloned().unwrap_or_default());
            if let Some(live) = self.live_mut(id) {
                live.votes.insert(me, Vote::Yes(export));
            }
        }
        self.try_decide(turn, id);
        let wanted = self.live_mut(id).is_some_and(|live| core::mem::take(&mut live.wanted));
        if wanted {
            self.ask_back(turn, id);
        }
    }

    /// What this log decides and does not have yet, nor is about to.
    fn begins_here(&self, id: TransactionId) -> Option<&Transaction> {
        let begins = self.live(id).filter(|live| !live.flight.any())?.begins.as_ref();
        begins.filter(|begins| begins.coordinator == self.me)
    }

    /// The vote on `id` that the log gets with the decision.
    pub(crate) fn kept(&self, id: TransactionId) -> Option<&Bytes> {
        self.reign.as_ref()?.kept.get(&id)
    }

    pub(crate) fn forget_kept(&mut self, id: TransactionId) -> Option<Bytes> {
        self.reign.as_mut()?.kept.remove(&id)
    }

    fn vote_no<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, refusal: Refusal) {
        match self.begins_here(id) {
            Some(_) => self.decide(turn, id, Outcome::Aborted(refusal)),
            None => self.append_local(turn, id, Vote::No(refusal)),
        }
    }

    fn append_local<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, vote: Vote) {
        let epoch = self.ledger.get(id).map_or(0, |record| record.epoch);
        let Some(live) = self.live_mut(id) else { return };
        live.flight.local = true;
        let begins = live.begins.clone();
        turn.out.push(Effect::Append(Entry::Local { id, epoch, vote, begins }));
    }

    /// It waits. Younger ones that hold what it needs are to give it back, unless an older one holds some of it too.
    fn waits<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, owners: &[TransactionId]) {
        let oldest = owners.iter().min().copied();
        if let Some(live) = self.live_mut(id) {
            live.behind = oldest.or(live.behind);
        }
        self.note_wait(turn, id);
        self.ask_back_younger(turn, id, owners);
    }

    /// What `owners` hold is to be given back for the sake of `id`, if it is older than all of them.
    pub(crate) fn ask_back_younger<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        owners: &[TransactionId],
    ) {
        if owners.iter().all(|owner| id < *owner) {
            owners.iter().for_each(|owner| self.ask_back(turn, *owner));
        }
    }

    /// Tries to take back the vote on `id`, for an older one's sake.
    pub(crate) fn ask_back<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(view) = self.view() else { return };
        // One that the parent locked for itself is none of ours: it ends without help.
        let Some(live) = self.live_mut(id) else { return };
        if live.flight.local || live.pending {
            live.wanted = true;
            return;
        }
        if live.flight.any() || live.decided {
            return;
        }
        if self.forget_kept(id).is_some() {
            turn.marks.hit("commit.revert.kept");
            return self.wait_anew(turn, id);
        }
        let Some(record) = self.ledger.get(id).filter(|record| record.is_prepared()) else { return };
        let (coordinator, epoch) = (record.transaction.coordinator, record.epoch);
        if coordinator == self.me {
            // Nothing is decided, and the own vote is read from the log when it is: no message, no least epoch.
            self.revert(turn, id, epoch);
        } else {
            turn.marks.hit("commit.revert.asked");
            self.send(turn, coordinator, id, Word::RevertRequest { epoch, pv: view });
        }
    }

    /// Takes back the vote of this epoch, if it still stands.
    pub(crate) fn revert<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, epoch: u64) {
        let stands = self.ledger.get(id).is_some_and(|record| record.is_prepared() && record.epoch == epoch);
        let Some(live) = self.live_mut(id).filter(|live| stands && !live.flight.any()) else { return };
        live.flight.revert = true;
        turn.out.push(Effect::Append(Entry::Revert { id, epoch }));
    }

    pub(crate) fn on_grant<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        epoch: u64,
        cv: View,
        pv: View,
    ) {
        if !self.is_coordinated_by(id, from) {
            return turn.marks.hit("commit.grant.stranger");
        }
        if self.view() != Some(pv) && !self.config.breaks(Mutant::NoParticipantView) {
            // Asked by an earlier primary: what this one has told a newer coordinator since is not known to be later.
            return turn.marks.hit("commit.grant.old_participant");
        }
        let any_view = self.config.breaks(Mutant::NoCoordinatorView);
        let epoch = match self.ledger.get(id) {
            Some(record) if self.config.breaks(Mutant::NoEpochs) => record.epoch,
            _ => epoch,
        };
        let Some(live) = self.live_mut(id) else { return };
        if cv < live.cv_seen && !any_view {
            // A newer coordinator may have been told yes since, and does not know of this grant.
            return turn.marks.hit("commit.grant.old_coordinator");
        }
        live.cv_seen = cv.max(live.cv_seen);
        self.revert(turn, id, epoch);
    }

    pub(crate) fn on_query_local<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        cv: View,
        min_epoch: u64,
        transaction: Option<Transaction>,
    ) {
        if self.ledger.get(id).is_none() && !self.is_live(id) {
            return self.on_query_unknown(turn, from, id, cv, transaction);
        }
        if !self.is_coordinated_by(id, from) {
            return turn.marks.hit("commit.query.stranger");
        }
        if let Some(State::Done(_)) = self.ledger.get(id).map(|record| &record.state) {
            return self.send(turn, from, id, Word::Acknowledge);
        }
        let Some(live) = self.live_mut(id) else { return };
        if cv < live.cv_seen {
            return turn.marks.hit("commit.query.old_coordinator");
        }
        live.cv_seen = cv;
        if live.flight.any() {
            // The vote comes when it is in the log, or there is none any more.
            return;
        }
        let standing = self.ledger.get(id).map(|record| (&record.state, record.epoch));
        match standing {
            Some((State::Prepared(_), epoch))
                if epoch < min_epoch && !self.config.breaks(Mutant::QueryGrantsNothing) =>
            {
                turn.marks.hit("commit.revert.by_query");
                self.revert(turn, id, epoch);
            }
            Some((State::Prepared(_) | State::Refused(_), _)) => self.send_vote(turn, id),
            Some((State::Waiting, _)) | None if self.config.breaks(Mutant::ReceivedCounts) => {
                let epoch = standing.map_or(0, |(_, epoch)| epoch);
                let vote = Vote::Yes(Bytes::new());
                self.send(turn, from, id, Word::Vote { cv, epoch, vote });
            }
            _ => {}
        }
    }

    /// The coordinator asks for a vote on something this log never heard of.
    fn on_query_unknown<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        cv: View,
        transaction: Option<Transaction>,
    ) {
        let cause = if self.ledger.is_settled(id) {
            // No request for it is taken any more, which is as good as a tombstone.
            Cause::Settled
        } else if let Some(transaction) =
            transaction.filter(|known| known.id == id && known.coordinator == from)
        {
            let settled = transaction.settled_before;
            match self.judge(&transaction).and_then(|()| self.admit(turn, transaction, cv)) {
                Ok(()) => return turn.marks.hit("commit.request.handed_on"),
                Err(_) => {
                    // As with requests: what is settled may be what fills the tables.
                    if self.ledger.remembers(id.origin) {
                        self.settle_news(turn, id.origin, settled);
                    }
                    Cause::Busy
                }
            }
        } else if self.config.breaks(Mutant::NoTombstone) {
            return;
        } else if self.config.breaks(Mutant::RefusalInMemory) {
            Cause::Unreached
        } else if self.has_room_for_tombstone() {
            turn.marks.hit("commit.tombstone.local");
            let begins = Transaction::unknown(id, from, Vec::new(), self.me);
            self.insert_live(id, Live { cv_seen: cv, ..Live::new(Some(begins), turn.now) }, turn.now);
            let refusal = self.refusal(turn.now, id, Cause::Unreached, Bytes::new(), None);
            return self.append_local(turn, id, Vote::No(refusal));
        } else {
            // Nothing is promised by a no: should the request be taken later, the coordinator's abort will end it.
            Cause::Busy
        };
        let refusal = self.refusal(turn.now, id, cause, Bytes::new(), None);
        self.send(turn, from, id, Word::Vote { cv, epoch: 0, vote: Vote::No(refusal) });
    }

    pub(crate) fn on_global<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        logs: Vec<LogId>,
        mut outcome: Outcome,
    ) {
        let twice = self.config.breaks(Mutant::GlobalTwice);
        match self.ledger.get(id).map(|record| &record.state) {
            Some(State::Done(_)) if !twice => return self.send(turn, from, id, Word::Acknowledge),
            None if !self.is_live(id) => {
                if self.ledger.is_settled(id) {
                    // It had its outcome and was forgotten, or it never began here and cannot any more.
                    return self.send(turn, from, id, Word::Acknowledge);
                }
                if outcome.is_commit() && self.ledger.has_lost {
                    turn.marks.hit("commit.global.lost");
                    return self.send(turn, from, id, Word::Acknowledge);
                }
                if outcome.is_commit() {
                    return turn.marks.hit("commit.global.unprepared");
                }
                if !self.has_room_for_tombstone() {
                    // Should its request still come, its end will be asked for.
                    return self.send(turn, from, id, Word::Acknowledge);
                }
                turn.marks.hit("commit.tombstone.participant");
                let begins = Transaction::unknown(id, from, logs.clone(), self.me);
                self.insert_live(id, Live::new(Some(begins), turn.now), turn.now);
            }
            standing => {
                let prepared = matches!(standing, Some(State::Prepared(_))) || twice;
                if !self.is_coordinated_by(id, from) {
                    return turn.marks.hit("commit.global.stranger");
                }
                if outcome.is_commit() && !prepared && self.ledger.has_lost {
                    // Its vote is lost, and with it what was to be done here.
                    turn.marks.hit("commit.global.lost");
                    outcome =
                        Outcome::Aborted(self.refusal(turn.now, id, Cause::Unknown, Bytes::new(), None));
                } else if outcome.is_commit() && !prepared {
                    return turn.marks.hit("commit.global.unprepared");
                }
            }
        }
        if twice && !self.is_live(id) {
            self.insert_live(id, Live::new(None, turn.now), turn.now);
        }
        let Some(live) = self.live_mut(id) else { return };
        if live.flight.global && !twice {
            return;
        }
        live.flight.global = true;
        self.append_outcome(turn, id, (from, logs, outcome));
    }

    /// Tells the coordinator the vote that is in the log; the coordinator itself looks whether it can decide.
    pub(crate) fn send_vote<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(record) = self.ledger.get(id) else { return };
        let vote = match &record.state {
            State::Prepared(export) => Vote::Yes(export.clone()),
            State::Refused(refusal) => Vote::No(refusal.clone()),
            State::Waiting | State::Done(_) => return,
        };
        let (coordinator, epoch) = (record.transaction.coordinator, record.epoch);
        if coordinator != self.me {
            let cv = self.live(id).map(|live| live.cv_seen).unwrap_or_default();
            return self.send(turn, coordinator, id, Word::Vote { cv, epoch, vote });
        }
        if self.config.breaks(Mutant::OwnVoteFromMessage) {
            let me = self.me;
            if let Some(live) = self.live_mut(id) {
                live.votes.insert(me, vote);
            }
        }
        self.try_decide(turn, id);
    }

    pub(crate) fn is_coordinated_by(&self, id: TransactionId, log: LogId) -> bool {
        self.transaction(id).is_some_and(|transaction| transaction.coordinator == log)
    }

    pub(crate) fn live(&self, id: TransactionId) -> Option<&Live> {
        self.reign.as_ref()?.live.get(&id)
    }

    pub(crate) fn live_mut(&mut self, id: TransactionId) -> Option<&mut Live> {
        self.reign.as_mut()?.live.get_mut(&id)
    }

    pub(crate) fn insert_live(&mut self, id: TransactionId, mut live: Live, now: Time) {
        live.due = now + self.config.retry;
        if let Some(reign) = &mut self.reign {
            reign.insert(id, live);
        }
    }
}
