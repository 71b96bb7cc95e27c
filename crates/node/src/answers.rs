//! The way of answers back from the leader, whether it is another node or this one.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Bucket, Reply, Request, SessionId};
use quorate_kernel::{Cx, Event, NodeId};
use quorate_replog::Index;
use quorate_shard::{self as shard, Mutant};

use crate::machine::{Node, Out, TICK};
use crate::message::Message;

impl Node {
    /// Sends the replies to an origin's requests, from number `first_seq` on, in messages of bounded length.
    pub(crate) fn send_answers(
        &self,
        bucket: Bucket,
        origin: NodeId,
        (session, mut first_seq): (SessionId, u64),
        mut replies: Vec<Bytes>,
        out: &mut Out,
    ) {
        while !replies.is_empty() {
            let behind = replies.split_off(fitting(&replies, self.config.limits.batch_bytes_max));
            let count = replies.len() as u64;
            // The entries are chosen: a quorum's disks have them.
            out.send_early(origin, Message::Answers { session, first_seq, replies }.about(bucket));
            (first_seq, replies) = (first_seq + count, behind);
        }
    }

    pub(crate) fn on_answers(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        session: u64,
        first_seq: u64,
        replies: &[Bytes],
        out: &mut Out,
    ) {
        let origin = &mut self.lane(bucket).origin;
        if session == origin.session().0 {
            let ends = origin.answered(first_seq, replies, cx.now);
            self.reply(cx, bucket, ends, out);
            self.dispatch(cx, bucket, out);
        }
    }

    pub(crate) fn on_gap(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        session: u64,
        expected: u64,
        out: &mut Out,
    ) {
        let (config, lane) = self.config_and_lane(bucket);
        if session == lane.origin.session().0 && lane.origin.gap(expected, config.limits.retry, cx.now) {
            cx.marks.hit("node.batch.gap");
            self.dispatch(cx, bucket, out);
        }
    }

    pub(crate) fn on_not_taken(&mut self, cx: &mut Cx<'_>, bucket: Bucket, from: NodeId, out: &mut Out) {
        cx.marks.hit("node.batch.not_taken");
        let origin = &mut self.lane(bucket).origin;
        if origin.target == Some(from) {
            origin.pause(cx.now + TICK);
            self.seek(cx, bucket, out);
        }
    }

    pub(crate) fn on_takes_batches(&mut self, cx: &mut Cx<'_>, bucket: Bucket, from: NodeId, out: &mut Out) {
        if self.believed_leader(bucket) == Some(from) {
            cx.marks.hit("node.batch.takes");
            let lane = self.lane(bucket);
            lane.origin.resume();
            lane.begin_again_at = cx.now;
            self.dispatch(cx, bucket, out);
        }
    }

    pub(crate) fn on_read_answers(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (id, applied): (u64, Index),
        replies: Vec<Reply>,
        out: &mut Out,
    ) {
        let overtake = self.config.limits.breaks(Mutant::ReadsOvertake);
        let (config, lane) = self.config_and_lane(bucket);
        lane.reads.took(id, config.limits.read_slack, cx.now);
        let ends = lane.reads.answered(id, applied, replies, overtake);
        self.reply(cx, bucket, ends, out);
        self.dispatch(cx, bucket, out);
    }

    /// Whoever was asked does not lead, or cannot answer though it has a copy.
    pub(crate) fn on_read_refused(&mut self, cx: &mut Cx<'_>, bucket: Bucket, id: u64, out: &mut Out) {
        self.errands_refused(bucket, id, out);
        let reads = &mut self.lane(bucket).reads;
        let is_of_copy = reads.is_of_copy(id);
        reads.refused(id);
        if is_of_copy {
            cx.marks.hit("node.errand.refused");
            self.dispatch(cx, bucket, out);
        } else {
            self.seek(cx, bucket, out);
        }
    }

    pub(crate) fn on_session_lost(&mut self, cx: &mut Cx<'_>, bucket: Bucket, session: u64, out: &mut Out) {
        let origin = &mut self.lane(bucket).origin;
        if session != origin.session().0 {
            return;
        }
        cx.marks.hit("node.session.lost");
        let ends = origin.session_lost();
        origin.begin_session(cx.rng.next_u64());
        // Not at once: a leader with a long backlog may not take the new session either.
        origin.pause(cx.now + TICK);
        self.reply(cx, bucket, ends, out);
        self.dispatch(cx, bucket, out);
    }

    pub(crate) fn read_here(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        id: u64,
        requests: Vec<Request>,
        out: &mut Out,
    ) {
        let ticket = self.next_ticket();
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.asked_by.insert(ticket, (from, id));
            self.step_shard(cx, bucket, Event::Input(shard::Input::Read { ticket, requests }), out);
        } else {
            // Nothing was done.
            out.send_early(from, Message::ReadRefused { id }.about(bucket));
        }
    }

    /// Takes back who asked for the read, or the entry, that this node's copy of the bucket has named `ticket`.
    pub(crate) fn asker(&mut self, bucket: Bucket, ticket: u64) -> Option<(NodeId, u64)> {
        self.replicas.get_mut(&bucket)?.asked_by.remove(&ticket)
    }

    pub(crate) fn read_done(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (ticket, applied): (u64, Index),
        replies: Vec<Reply>,
        out: &mut Out,
    ) {
        let Some((from, id)) = self.asker(bucket, ticket) else { return };
        if from == self.config.me.id {
            self.on_read_answers(cx, bucket, (id, applied), replies, out);
        } else {
            // What was read is chosen: a quorum's disks have it.
            out.send_early(from, Message::ReadAnswers { id, applied, replies }.about(bucket));
        }
    }

    pub(crate) fn read_refused(&mut self, bucket: Bucket, ticket: u64, out: &mut Out) {
        match self.asker(bucket, ticket) {
            Some((from, id)) if from == self.config.me.id => self.lane(bucket).reads.refused(id),
            // Nothing was done.
            Some((from, id)) => out.send_early(from, Message::ReadRefused { id }.about(bucket)),
            None => {}
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
