//! What a follower does with a leader's messages.

use quorate_kernel::{Cx, NodeId};

use crate::Mutant;
use crate::machine::{Out, Replog, Role};
use crate::message::{Append, Ballot, Index, Message};
use crate::record::Entry;

impl Replog {
    /// Recognises the sender as leader of `ballot`, unless something higher was promised.
    pub(crate) fn recognise(&mut self, cx: &mut Cx<'_>, from: NodeId, ballot: Ballot, out: &mut Out) -> bool {
        if self.is_overtaken(ballot) && !self.breaks(Mutant::AcceptAfterPromise) {
            cx.marks.hit("replog.append.stale");
            // Says only that something higher was promised; if that is forgotten, the sender lost nothing but time.
            out.send_early(from, self.stale(ballot));
            return false;
        }
        if ballot.node != Some(from) || from == self.me {
            cx.marks.hit("replog.append.forged");
            return false;
        }
        assert!(
            !matches!(&self.role, Role::Leader(leader) if leader.ballot == ballot),
            "two leaders of one ballot: {ballot:?}"
        );
        if !self.is_overtaken(ballot) {
            self.promise(ballot, out);
        }
        self.follow(cx, Some(from), out);
        self.bound_until = cx.now + self.config.lease;
        self.bound_to = ballot;
        true
    }

    pub(crate) fn on_append(&mut self, cx: &mut Cx<'_>, from: NodeId, append: Append, out: &mut Out) {
        if !self.recognise(cx, from, append.ballot, out) {
            return;
        }
        let Append { ballot, takeover, prev, prev_ballot, entries, chosen, echo } = append;
        if self.awaits_install() {
            // Alive and bound, but with nothing to claim until the new state is durable.
            return out.send(from, Message::Accepted { ballot, matched: 0, echo });
        }
        if self.is_of_earlier_era(ballot.epoch) {
            cx.marks.hit("replog.append.earlier_era");
            // Nothing to compare: only the state can make this a copy.
            let conflict = Message::Conflict { ballot, matched_max: 0, echo };
            let nothing = if prev > 0 { conflict } else { Message::Accepted { ballot, matched: 0, echo } };
            return out.send(from, nothing);
        }
        if !self.agrees_at(prev, prev_ballot) {
            cx.marks.hit("replog.append.conflict");
            if self.breaks(Mutant::TruncateEarly) && self.log.last() > self.chosen {
                self.truncate_unchosen(out);
            }
            let matched_max =
                if prev > self.log.last() { self.log.last() } else { self.log.before_ballot_at(prev) };
            let matched_max = matched_max.max(self.chosen);
            return out.send(from, Message::Conflict { ballot, matched_max, echo });
        }
        if !entries.is_empty() {
            self.abandon_receiving(cx, out);
        }
        // What is chosen is in every leader's log, so the logs agree at least that far.
        let matched = self.take_entries(cx, prev, entries, out).max(self.chosen);
        self.catch_up_with(cx, ballot, takeover, matched, out);
        self.choose(cx, chosen.min(matched), out);
        let accepted = Message::Accepted { ballot, matched, echo };
        if self.breaks(Mutant::AcceptEarly) {
            out.send_early(from, accepted); // A mutant: the entries may be forgotten.
        } else {
            out.send(from, accepted);
        }
    }

    /// Whether the log agrees with one that has an entry of `ballot` at `index`. What is chosen agrees with every
    /// leader's log.
    fn agrees_at(&self, index: Index, ballot: Ballot) -> bool {
        index <= self.chosen || self.log.ballot_at(index) == Some(ballot)
    }

    /// Appends what is new behind `prev` and returns up to where the logs now agree.
    fn take_entries(
        &mut self,
        cx: &mut Cx<'_>,
        prev: Index,
        entries: alloc::vec::Vec<Entry>,
        out: &mut Out,
    ) -> Index {
        let matched = prev + entries.len() as u64;
        let held = entries
            .iter()
            .zip(prev + 1..)
            .take_while(|(entry, index)| {
                *index <= self.chosen || self.log.ballot_at(*index) == Some(entry.ballot)
            })
            .count();
        let new: alloc::vec::Vec<Entry> = entries.into_iter().skip(held).collect();
        if new.is_empty() {
            return matched;
        }
        let first = prev + 1 + held as u64;
        if first <= self.log.last() {
            cx.marks.hit("replog.append.truncated");
            assert!(first > self.chosen, "entry {first} is chosen and would be replaced");
            self.log.truncate_from(first);
        }
        for entry in &new {
            self.log.push(entry.clone());
        }
        self.persist_entries(first, new, out);
        matched
    }

    /// Claims the leader's ballot for the log once it has all that the leader took over. From then on this copy counts.
    ///
    /// Anything behind `matched` came from earlier leaders and is not in the new one's log at that place, or will come
    /// again; it must go now, or it would pass for the new leader's.
    fn catch_up_with(
        &mut self,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        takeover: Index,
        matched: Index,
        out: &mut Out,
    ) {
        if self.log_ballot >= ballot || (matched < takeover && !self.breaks(Mutant::ClaimBallotEarly)) {
            return;
        }
        if matched < self.log.last() && !self.breaks(Mutant::ClaimBallotEarly) {
            cx.marks.hit("replog.append.dropped_tail");
            assert!(matched >= self.chosen, "a leader's log has all that is chosen");
            self.log.truncate_from(matched + 1);
        }
        self.log_ballot = ballot;
        self.persist_entries(self.log.last() + 1, alloc::vec::Vec::new(), out);
    }

    fn truncate_unchosen(&mut self, out: &mut Out) {
        self.log.truncate_from(self.chosen + 1);
        self.persist_entries(self.chosen + 1, alloc::vec::Vec::new(), out);
    }
}
