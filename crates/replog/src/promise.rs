//! What is promised, epoch by epoch.
//!
//! A promise counts in its epoch alone. A replica may be asked for a promise, or hear of a leader, in an epoch that it
//! has not entered, because the seal before it has not arrived. It promises there, and goes on as a member here: those
//! who know that the seal is chosen may be gone for good, and then it takes the members of this epoch to choose it (again).
//! Nothing is lost by that: every leader of this epoch has the seal in its log, and completes it.

use quorate_kernel::Cx;

use crate::machine::{Out, Replog};
use crate::message::{Ballot, Message};
use crate::record::{Content, Epoch, Record};

impl Replog {
    /// The highest ballot promised in an epoch; in those that are over nothing is promised any more.
    pub(crate) fn promised_in(&self, epoch: u64) -> Ballot {
        if epoch == self.epoch().number {
            self.promised
        } else {
            self.ahead.get(&epoch).copied().unwrap_or_default()
        }
    }

    /// Whether `ballot` was overtaken: by a later epoch, or by a promise in its own.
    pub(crate) fn is_overtaken(&self, ballot: Ballot) -> bool {
        let lowest = if self.is_fenced() { self.fence } else { self.epoch().number };
        ballot.epoch < lowest || ballot < self.promised_in(ballot.epoch)
    }

    /// From now on nothing below `ballot` is accepted or promised in its epoch.
    pub(crate) fn promise(&mut self, ballot: Ballot, out: &mut Out) {
        let before = self.promised_in(ballot.epoch);
        assert!(ballot >= before, "a promise is never taken back: {ballot:?} after {before:?}");
        if ballot == before {
            return;
        }
        if ballot.epoch == self.epoch().number {
            self.promised = ballot;
            self.note(ballot);
        } else {
            self.ahead.insert(ballot.epoch, ballot);
        }
        out.persist(Record::Promise(ballot));
    }

    /// Remembers a ballot of this epoch, so that the next own one is above it.
    pub(crate) fn note(&mut self, ballot: Ballot) {
        if ballot.epoch == self.epoch().number {
            self.seen = self.seen.max(ballot);
        }
    }

    /// What a replica becomes by the newest epoch it knows: from its heir's ballot on, and with what it has promised in it
    /// before it entered. Its log has all of the heir's, which ends with the seal.
    pub(crate) fn adopt_epoch(&mut self) {
        let Epoch { number, heir, .. } = *self.epoch();
        self.ahead = self.ahead.split_off(&number);
        self.promised = self.ahead.remove(&number).unwrap_or_default().max(heir);
        self.seen = self.promised;
        self.log_ballot = self.log_ballot.max(heir);
        self.retired = None;
        self.refresh_voters();
    }

    /// After a restart: entries, or a claim, of a later epoch show that the seals before them are chosen, even if the
    /// record of that was lost with the end of the journal.
    pub(crate) fn infer_epochs(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let newest = self.log.ballot_at(self.log.last()).unwrap_or_default().epoch;
        let known = self.log_ballot.epoch.max(newest);
        let mut index = self.log.base().max(self.epoch().start) + 1;
        while self.epoch().number < known {
            let Some(entry) = self.log.get(index) else { break };
            if let Content::Seal(seal) = &entry.content
                && entry.ballot.epoch < known
            {
                cx.marks.hit("replog.epoch.inferred");
                let epoch = Epoch::after(seal, entry.ballot, index);
                self.epochs.push(epoch.clone());
                out.persist(Record::Entered(epoch));
            }
            index += 1;
        }
    }

    /// The answer to the sender of something that was overtaken. Whoever was told of later members than it has seen itself passes that on:
    /// a member that slept through all of it may find nobody else who remembers.
    pub(crate) fn stale(&self, overtaken: Ballot) -> Message {
        let own = self.epoch();
        let mut promised = self.promised_in(overtaken.epoch.max(own.number));
        if self.is_fenced() {
            promised = promised.max(Ballot { epoch: self.fence, number: 0, node: None });
        }
        let (epoch, settled) = match &self.retired {
            Some((told, settled)) if told.number > own.number => (told, *settled),
            retired => (own, retired.is_some() || self.quorum_holds_takeover()),
        };
        Message::Stale { promised, epoch: epoch.clone(), settled }
    }
}
