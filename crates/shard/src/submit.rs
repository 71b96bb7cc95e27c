//! The way of batches into the log: what arrives together is gathered and becomes one entry.

use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_commit::View as Reign;
use quorate_kernel::{Cx, Event};
use quorate_replog as replog;

use crate::batch::{BatchHeader, Payload, batch_header};
use crate::machine::{Out, Output, Shard, Timer};

impl Shard {
    /// Takes a batch into the log, if its requests follow those that are there.
    pub(crate) fn submit(&mut self, cx: &mut Cx<'_>, batch: Bytes, out: &mut Out) {
        let Ok(header) = batch_header(&batch) else { return cx.marks.hit("shard.batch.malformed") };
        let session = header.session.0;
        if !self.takes_batches() {
            return out.output(Output::NotTaken { origin: header.origin });
        }
        let known = self.sessions.get(session);
        let next = self.appended.get(&session).copied().or_else(|| known.map(|known| known.last() + 1));
        let origin = header.origin;
        match next {
            None if !self.limits.is_new(header.since, self.log.last() + 1) => {
                cx.marks.hit("shard.session.lost");
                return out.output(Output::SessionLost { origin, session: header.session });
            }
            None if header.first_seq > 1 => {
                cx.marks.hit("shard.batch.gap");
                return out.output(Output::Gap { origin, session: header.session, expected: 1 });
            }
            Some(expected) if header.first_seq > expected => {
                cx.marks.hit("shard.batch.gap");
                return out.output(Output::Gap { origin, session: header.session, expected });
            }
            Some(expected) if header.end_seq() <= expected => {
                // All of it is in the log. What is applied is answered again; the rest is answered when it is.
                cx.marks.hit("shard.batch.repeated");
                if self.answer_again(&header, out) {
                    cx.marks.hit("shard.session.replayed");
                }
                return;
            }
            Some(_) | None => {}
        }
        self.appended.insert(session, header.end_seq());
        if self.gathered_bytes + batch.len() > self.limits.entry_bytes_max {
            self.propose_gathered(cx, out);
        }
        if self.gathered.is_empty() {
            // Whatever has arrived by now is stepped before this fires.
            out.arm(Timer::Propose, Duration::ZERO);
        }
        self.gathered_bytes += batch.len();
        self.gathered.push(batch);
    }

    /// Puts what was gathered into the log.
    pub(crate) fn propose_gathered(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let batches = core::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        if !self.takes_batches() {
            if !batches.is_empty() {
                cx.marks.hit("shard.gathered.not_taken");
                self.turn_away(&batches, out);
            }
            return self.propose_later(out);
        }
        // Within an entry, batches come first.
        while self.transactions.hands_over_to(&batches) {
            self.propose_together(cx, Vec::new(), out);
        }
        // Nobody locks anything between what is let pass here and its way into the log.
        let mut passing = self.transactions.let_pass(cx.marks, cx.wall.unix_ms, batches);
        let batches = core::mem::take(&mut passing.batches);
        self.tell_waited(core::mem::take(&mut passing.waited), out);
        self.propose_together(cx, batches, out);
        self.has_passed(cx, passing, out);
    }

    /// Puts batches and a few entries of transactions into the log as one entry.
    fn propose_together(&mut self, cx: &mut Cx<'_>, batches: Vec<Bytes>, out: &mut Out) {
        let now_ms = self.entry_time(cx);
        let commits = self.next_entries(out);
        if !batches.is_empty() || !commits.is_empty() {
            let seed = cx.rng.next_u64();
            let payload = Payload { now_ms, seed, batches, commits, notes: Vec::new() };
            self.propose(cx, &payload, out);
            if !payload.batches.is_empty() {
                self.transactions.has_batch(self.log.last());
            }
        }
    }

    /// The ballot that this node leads, as commitment knows it.
    pub(crate) fn reign(&self) -> Option<Reign> {
        let ballot = self.log.leading()?;
        let node = ballot.node.map_or(0, |node| node.0);
        Some(Reign { epoch: ballot.epoch, number: ballot.number, node })
    }

    /// Gathered batches do not get into the log: their origins must send them again.
    pub(crate) fn turn_away(&mut self, batches: &[Bytes], out: &mut Out) {
        // What else was appended is in the log, where numbers that come twice are applied once.
        self.appended.clear();
        for origin in batches.iter().filter_map(|batch| batch_header(batch).ok()).map(|header| header.origin)
        {
            out.output(Output::NotTaken { origin });
        }
    }

    pub(crate) fn propose(&mut self, cx: &mut Cx<'_>, payload: &Payload, out: &mut Out) {
        self.step_log(cx, Event::Input(replog::Input::Propose(payload.encode())), out);
    }

    /// Answers what a batch that came again asks for, as far as it is applied. Returns whether anything is.
    pub(crate) fn answer_again(&self, header: &BatchHeader, out: &mut Out) -> bool {
        use replog::session::Admission;
        let BatchHeader { origin, session, .. } = *header;
        let Some(known) = self.sessions.get(session.0) else { return false };
        let mut replies = Vec::new();
        let mut first = None;
        for seq in header.first_seq..header.end_seq() {
            match known.admit(seq) {
                Admission::Replay(reply) => {
                    first.get_or_insert(seq);
                    replies.push(reply);
                }
                Admission::Settled => {}
                Admission::Apply | Admission::Gap(_) => break,
            }
        }
        if let Some(first_seq) = first {
            out.output(Output::Answers { origin, session, first_seq, replies });
        }
        first.is_some()
    }
}
