//! Strict reads that this node's own copies answer, for clients who ask for that.
//!
//! The leader of a bucket, certain of leading, names an entry that contains whatever was known to be chosen; the copy answers
//! once it has applied that. Only the question and the entry travel, whatever is read and however many reads wait. Whatever
//! goes wrong on the way, the leader is asked to read instead.

use quorate_api::{Bucket, Consistency};
use quorate_kernel::{Cx, Event, NodeId, Time};
use quorate_replog::Index;
use quorate_shard as shard;

use crate::interface::ClientRequest;
use crate::machine::{Node, Out};
use crate::message::Message;

impl Node {
    /// Whether this node has a copy of a bucket that keeps up.
    pub(crate) fn copies(&self, bucket: Bucket) -> bool {
        self.replicas.get(&bucket).is_some_and(|replica| replica.log().holds())
    }

    /// Takes a strict read. Without a copy here, the leader's is the nearest. `at_leader`: others would have to leave it to that.
    pub(crate) fn take_read(
        &mut self,
        bucket: Bucket,
        (mut request, at_leader): (ClientRequest, bool),
        taken_at: Time,
    ) {
        if request.consistency == Consistency::Near && !self.copies(bucket) {
            request.consistency = Consistency::Strict;
        }
        self.asked.insert(bucket);
        self.lane(bucket).reads.take(request, taken_at, at_leader);
    }

    /// Asks the leader as of which entry the copy here may answer what waits for it.
    pub(crate) fn ask_for_index(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId, out: &mut Out) {
        if leader == self.config.me.id || !self.copies(bucket) {
            return self.lane(bucket).reads.leave_to_leader();
        }
        if let Some(id) = self.lane(bucket).reads.next_near(cx.now) {
            // A question; nothing about this node's disk is told.
            out.send_early(leader, Message::ReadIndex { id }.about(bucket));
        }
    }

    /// Another node asks as of which entry its copy may answer.
    pub(crate) fn on_read_index(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        id: u64,
        out: &mut Out,
    ) {
        let ticket = self.next_ticket();
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.asked_by.insert(ticket, (from, id));
            let question = shard::Input::ReadIndex { ticket, replica: from };
            self.step_shard(cx, bucket, Event::Input(question), out);
        } else {
            // Nothing was done.
            out.send_early(from, Message::ReadRefused { id }.about(bucket));
        }
    }

    /// The log here, leading, has named the entry.
    pub(crate) fn read_indexed(&mut self, bucket: Bucket, ticket: u64, index: Index, out: &mut Out) {
        if let Some((from, id)) = self.asker(bucket, ticket) {
            // It is chosen: a quorum's disks have it.
            out.send_early(from, Message::ReadIndexed { id, index }.about(bucket));
        }
    }

    /// The leader has named the entry.
    pub(crate) fn on_read_indexed(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (id, index): (u64, Index),
        out: &mut Out,
    ) {
        let Some(requests) = self.lane(bucket).reads.indexed(id) else {
            return self.errands_indexed(cx, bucket, (id, index), out);
        };
        let (me, ticket) = (self.config.me.id, self.next_ticket());
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            cx.marks.hit("node.read.near");
            replica.asked_by.insert(ticket, (me, id));
            let read = shard::Input::ReadAt { ticket, index, requests };
            self.step_shard(cx, bucket, Event::Input(read), out);
        } else {
            self.lane(bucket).reads.refused(id);
        }
        // What came meanwhile is asked about now.
        self.dispatch(cx, bucket, out);
    }
}
