//! The way of answers back from the leader, whether it is another node or this one.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reply, Request, SessionId};
use quorate_kernel::{Cx, Event, NodeId};
use quorate_replog::Index;
use quorate_shard::{self as shard, Mutant};

use crate::machine::{Node, Out, TICK};
use crate::message::Message;

impl Node {
    /// Sends the replies to an origin's requests, from number `first_seq` on, in messages of bounded length.
    pub(crate) fn send_answers(
        &self,
        origin: NodeId,
        session: SessionId,
        mut first_seq: u64,
        mut replies: Vec<Bytes>,
        out: &mut Out,
    ) {
        while !replies.is_empty() {
            let behind = replies.split_off(fitting(&replies, self.config.limits.batch_bytes_max));
            let count = replies.len() as u64;
            // The entries are chosen: a quorum's disks have them.
            out.send_early(origin, Message::Answers { session, first_seq, replies });
            (first_seq, replies) = (first_seq + count, behind);
        }
    }

    pub(crate) fn on_answers(
        &mut self,
        cx: &mut Cx<'_>,
        session: u64,
        first_seq: u64,
        replies: &[Bytes],
        out: &mut Out,
    ) {
        if session == self.origin.session().0 {
            let ends = self.origin.answered(first_seq, replies, cx.now);
            self.reply(cx, ends, out);
            self.dispatch(cx, out);
        }
    }

    pub(crate) fn on_gap(&mut self, cx: &mut Cx<'_>, session: u64, expected: u64, out: &mut Out) {
        if session != self.origin.session().0 {
            return;
        }
        if self.origin.gap(expected, self.config.limits.retry, cx.now) {
            cx.marks.hit("node.batch.gap");
            self.dispatch(cx, out);
        }
    }

    pub(crate) fn on_not_taken(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        cx.marks.hit("node.batch.not_taken");
        if self.origin.target == Some(from) {
            self.origin.pause(cx.now + TICK);
        }
    }

    pub(crate) fn on_takes_batches(&mut self, cx: &mut Cx<'_>, from: NodeId, out: &mut Out) {
        if self.log().believed_leader() == Some(from) {
            cx.marks.hit("node.batch.takes");
            self.origin.resume();
            self.begin_again_at = cx.now;
            self.dispatch(cx, out);
        }
    }

    pub(crate) fn on_read_answers(
        &mut self,
        cx: &mut Cx<'_>,
        id: u64,
        applied: Index,
        replies: Vec<Reply>,
        out: &mut Out,
    ) {
        let overtake = self.config.limits.breaks(Mutant::ReadsOvertake);
        let ends = self.reads.answered(id, applied, replies, overtake);
        self.reply(cx, ends, out);
        self.dispatch(cx, out);
    }

    pub(crate) fn on_session_lost(&mut self, cx: &mut Cx<'_>, session: u64, out: &mut Out) {
        if session != self.origin.session().0 {
            return;
        }
        cx.marks.hit("node.session.lost");
        let ends = self.origin.session_lost();
        self.origin.begin_session(cx.rng.next_u64());
        // Not at once: a leader with a long backlog may not take the new session either.
        self.origin.pause(cx.now + TICK);
        self.reply(cx, ends, out);
        self.dispatch(cx, out);
    }

    pub(crate) fn read_here(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        id: u64,
        requests: Vec<Request>,
        out: &mut Out,
    ) {
        let ticket = self.next_ticket();
        self.asked_by.insert(ticket, (from, id));
        self.step_shard(cx, Event::Input(shard::Input::Read { ticket, requests }), out);
    }

    pub(crate) fn read_done(
        &mut self,
        cx: &mut Cx<'_>,
        ticket: u64,
        applied: Index,
        replies: Vec<Reply>,
        out: &mut Out,
    ) {
        let Some((from, id)) = self.asked_by.remove(&ticket) else { return };
        if from == self.config.me.id {
            self.on_read_answers(cx, id, applied, replies, out);
        } else {
            // What was read is chosen: a quorum's disks have it.
            out.send_early(from, Message::ReadAnswers { id, applied, replies });
        }
    }
}

/// How many of these replies, at least one, travel together.
fn fitting(replies: &[Bytes], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fit = |reply: &&Bytes| {
        bytes += reply.len();
        bytes <= bytes_max
    };
    replies.iter().take_while(fit).count().max(1)
}
