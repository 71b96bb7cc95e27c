//! Reads of nodes without a copy, which copies answer while the leader is slow.
//!
//! All strict reads of a bucket meet at its leader, so that a bucket with popular keys is as fast as one machine. A node whose questions it answers late
//! ([`Prompt`](crate::prompt::Prompt)) asks a copy in its place, and the more of them the later it answers. The copy asks the leader as of which entry it may
//! answer, once for all that wait here, as for its own clients ([`near`](crate::near)). Whatever goes wrong on the way, the leader is asked to read instead.

use alloc::vec::Vec;
use quorate_api::{Bucket, Request};
use quorate_kernel::{Cx, Event, NodeId, Time};
use quorate_replog::Index;
use quorate_shard::{self as shard, Mutant};

use crate::machine::{Node, Out};
use crate::message::Message;
use crate::origin::size_of_request;

/// So many questions of other nodes wait at a copy, and so many bytes of them; more are refused, and asked of the leader.
const ERRANDS_MAX: usize = 256;
const ERRANDS_BYTES_MAX: usize = 4 << 20;

/// A question of another node.
#[derive(Debug)]
struct Errand {
    from: NodeId,
    id: u64,
    requests: Vec<Request>,
    bytes: usize,
}

/// Those of one copy.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    waiting: Vec<Errand>,
    /// The question that is under way for an entry, since when, and for whom.
    asking: Option<(u64, Time, Vec<Errand>)>,
}

impl Errands {
    fn have_room(&self, bytes: usize) -> bool {
        let asking = self.asking.iter().flat_map(|(.., asking)| asking);
        let all = self.waiting.iter().chain(asking).map(|errand| errand.bytes);
        let (count, sum) = all.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        count < ERRANDS_MAX && sum + bytes <= ERRANDS_BYTES_MAX
    }

    /// The question of this name is over: for whom it was asked.
    fn end(&mut self, name: u64) -> Vec<Errand> {
        self.asking.take_if(|(asking, ..)| *asking == name).map_or_else(Vec::new, |(.., errands)| errands)
    }
}

impl Node {
    /// Whom to ask a question that any copy may answer: its leader, unless that is slow.
    pub(crate) fn reader(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId) -> NodeId {
        if !self.is_large() || self.copies(bucket) || self.lane(bucket).reads.elsewhere(cx.now, 0) == 0 {
            return leader;
        }
        // Where all are late, so are copies.
        let late = self.lanes.values().filter_map(|lane| lane.reads.late(cx.now));
        let promptest = late.min().unwrap_or_default();
        let elsewhere = self.lane(bucket).reads.elsewhere(cx.now, promptest);
        if cx.rng.below(1 << 16) >= u64::from(elsewhere) {
            return leader;
        }
        let members = self.placement().map_or(&[][..], |placement| placement.members(bucket));
        let others = members.iter().copied().filter(|id| *id != leader && self.connected.contains(id));
        let others: Vec<NodeId> = others.collect();
        cx.rng.pick(&others).copied().unwrap_or(leader)
    }

    /// Another node wants to read. A copy that does not lead takes that for an errand.
    pub(crate) fn on_read(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (from, id, requests): (NodeId, u64, Vec<Request>),
        out: &mut Out,
    ) {
        let leader = self.believed_leader(bucket).filter(|leader| *leader != self.config.me.id);
        let may = self.placement().is_some() && self.copies(bucket);
        let replica = self.replicas.get_mut(&bucket);
        match (leader, replica) {
            (Some(leader), Some(replica)) if may && !replica.leads => {
                let bytes = requests.iter().map(size_of_request).sum();
                if !replica.errands.have_room(bytes) {
                    cx.marks.hit("node.errand.full");
                    // Nothing was done.
                    return out.send_early(from, Message::ReadRefused { id }.about(bucket));
                }
                replica.errands.waiting.push(Errand { from, id, requests, bytes });
                self.ask_for_errands(cx, bucket, leader, out);
            }
            _ => self.read_here(cx, bucket, from, id, requests, out),
        }
    }

    /// Asks the leader as of which entry the copy here may answer what waits for it, unless it is being asked.
    fn ask_for_errands(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId, out: &mut Out) {
        let retry = self.config.limits.retry;
        let joins = self.config.limits.breaks(Mutant::ErrandsJoin);
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        let errands = &mut replica.errands;
        if let Some((_, at, asking)) = &mut errands.asking
            && cx.now.since(*at) < retry
        {
            if joins {
                asking.append(&mut errands.waiting);
            }
            return;
        }
        let waiting = core::mem::take(&mut errands.waiting);
        if waiting.is_empty() {
            return;
        }
        // Whoever waits for an answer to an older question has asked the leader by now.
        let name = self.lane(bucket).reads.name();
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.errands.asking = Some((name, cx.now, waiting));
        }
        // A question; nothing about this node's disk is told.
        out.send_early(leader, Message::ReadIndex { id: name }.about(bucket));
    }

    /// The leader has named an entry: what was asked before is answered as of that, and what came since is asked about.
    pub(crate) fn errands_indexed(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (name, index): (u64, Index),
        out: &mut Out,
    ) {
        let errands = self.replicas.get_mut(&bucket).map(|replica| replica.errands.end(name));
        for Errand { from, id, requests, .. } in errands.unwrap_or_default() {
            let ticket = self.next_ticket();
            let Some(replica) = self.replicas.get_mut(&bucket) else { return };
            cx.marks.hit("node.errand.read");
            replica.asked_by.insert(ticket, (from, id));
            let read = shard::Input::ReadAt { ticket, index, requests };
            self.step_shard(cx, bucket, Event::Input(read), out);
        }
        if let Some(leader) = self.believed_leader(bucket) {
            self.ask_for_errands(cx, bucket, leader, out);
        }
    }

    /// The leader names no entry: perhaps it leads no more, and others know who does.
    pub(crate) fn errands_refused(&mut self, bucket: Bucket, name: u64, out: &mut Out) {
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        let asked = replica.errands.end(name);
        let waiting =
            if asked.is_empty() { Vec::new() } else { core::mem::take(&mut replica.errands.waiting) };
        for Errand { from, id, .. } in asked.into_iter().chain(waiting) {
            // Nothing was done.
            out.send_early(from, Message::ReadRefused { id }.about(bucket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand(id: u64, bytes: usize) -> Errand {
        Errand { from: NodeId(1), id, requests: Vec::new(), bytes }
    }

    #[test]
    fn those_under_way_and_those_that_wait_are_bounded_together() {
        let asking = (0..ERRANDS_MAX as u64 - 1).map(|id| errand(id, 1)).collect();
        let mut errands = Errands { waiting: Vec::new(), asking: Some((7, Time(0), asking)) };
        assert!(errands.have_room(ERRANDS_BYTES_MAX / 2) && !errands.have_room(ERRANDS_BYTES_MAX));
        errands.waiting.push(errand(1_000, 1));
        assert!(!errands.have_room(1), "so many");
        assert!(errands.end(8).is_empty(), "another question");
        assert_eq!(errands.end(7).len(), ERRANDS_MAX - 1);
        assert!(errands.end(7).is_empty() && errands.have_room(1), "once");
    }
}
