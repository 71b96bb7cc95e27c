//! The way of requests to a bucket's leader: to another node, or to the log here.

use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::{Bucket, SessionId};
use quorate_commit::LogId;
use quorate_kernel::{Cx, Event, NodeId, Time};
use quorate_replog as replog;
use quorate_shard as shard;

use crate::machine::{Node, Out, Timer};
use crate::message::Message;
use crate::reads::Question;

impl Node {
    /// The leader of a bucket may be another now: if one is known, what was asked of the one before is asked again.
    pub(crate) fn on_role(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        if self.believed_leader(bucket).is_some() {
            self.on_reign(cx, bucket, out);
            // Of most buckets of a large ring nobody asks this node anything.
            if let Some(lane) = self.lanes.get_mut(&bucket) {
                lane.leader_changed(cx.now);
                self.dispatch(cx, bucket, out);
            }
        }
    }

    /// Whoever leads a bucket begins anew there, be it the same node, with other members: what it was told of transactions and had not
    /// written down is lost.
    pub(crate) fn on_reign(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        self.transactions.ask_again(bucket);
        if self.spoken_to.remove(&bucket) {
            self.say_again(cx, bucket, out);
        }
    }

    /// What buckets that this node leads said to another, whose leader is another now, may be lost.
    fn say_again(&mut self, cx: &mut Cx<'_>, to: Bucket, out: &mut Out) {
        let under_way = self.replicas.iter().filter(|(_, here)| here.shard.transactions_under_way() > 0);
        let concerned = under_way.map(|(bucket, _)| *bucket).filter(|bucket| *bucket != to);
        for bucket in concerned.collect::<Vec<_>>() {
            let input = shard::Input::Succeeded(LogId(to.0.into()));
            self.step_shard(cx, bucket, Event::Input(input), out);
        }
    }

    /// Sends on what can be sent on. What that brings about at once may ask for more to be sent: then it goes on here,
    /// not deeper.
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        if core::mem::replace(&mut self.lane(bucket).dispatching, true) {
            return;
        }
        while self.dispatch_some(cx, bucket, out) {}
        self.lane(bucket).dispatching = false;
    }

    /// Sends one batch and some reads. Returns whether there may be more.
    fn dispatch_some(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) -> bool {
        let Some(leader) = self.believed_leader(bucket) else {
            if !self.lane(bucket).is_idle() {
                self.seek(cx, bucket, out);
            }
            return false;
        };
        let here = leader == self.config.me.id;
        if !here && !self.lane(bucket).is_idle() {
            self.want_if_missing(cx, bucket, leader, out);
        }
        if here && !self.takes_batches(bucket) {
            return false;
        }
        self.lane(bucket).origin.turn_to(leader);
        if self.lane(bucket).origin.needs_beginning() {
            self.begin_session_at(cx, bucket, leader, out);
        }
        self.ask_for_index(cx, bucket, leader, out);
        let (config, lane) = self.config_and_lane(bucket);
        let batch = lane.origin.next_batch(&config.limits, cx.now);
        let reads = lane.reads.next(cx.now);
        let more = batch.is_some() || reads.is_some();
        if let Some(batch) = batch {
            self.submit(cx, bucket, leader, batch, out);
        }
        match reads {
            Some(Question { id, requests, .. }) if here => {
                self.read_here(cx, bucket, leader, id, requests, out);
                if self.lane(bucket).reads.has_unasked() {
                    // The answers are long: these must leave before more are made.
                    out.arm(Timer::Tick, Duration::ZERO);
                    return false;
                }
            }
            Some(Question { id, requests, at_leader }) => {
                let to = if at_leader { leader } else { self.reader(cx, bucket, leader) };
                if to != leader {
                    cx.marks.hit("node.errand.asked");
                    self.lane(bucket).reads.asks_copy(id);
                }
                // A question; nothing about this node's disk is told.
                out.send_early(to, Message::Read { id, requests }.about(bucket));
            }
            None => {}
        }
        more
    }

    fn submit(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId, batch: Bytes, out: &mut Out) {
        if leader == self.config.me.id {
            self.step_shard(cx, bucket, Event::Input(shard::Input::Submit(batch)), out);
        } else {
            // The batch counts when the log has it; this node keeps nothing of it on disk.
            out.send_early(leader, Message::Submit(batch).about(bucket));
        }
    }

    /// Asks how far the log is: a session must not be taken for an older one, nor an older one for it.
    fn begin_session_at(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId, out: &mut Out) {
        let retry = self.config.limits.retry;
        if leader == self.config.me.id {
            let chosen = self.replicas.get(&bucket).map_or(0, |replica| replica.log().chosen());
            self.lane(bucket).origin.begun(chosen);
            return;
        }
        let lane = self.lane(bucket);
        if cx.now >= lane.begin_again_at {
            let is_again = lane.begin_again_at > Time::default();
            lane.begin_again_at = cx.now + retry;
            // A question; nothing about this node's disk is told.
            out.send_early(leader, Message::Begin { session: lane.origin.session() }.about(bucket));
            if is_again {
                self.seek(cx, bucket, out);
            }
        }
    }

    pub(crate) fn on_begin(&mut self, bucket: Bucket, from: NodeId, session: SessionId, out: &mut Out) {
        if let Some(replica) = self.replicas.get(&bucket).filter(|replica| replica.takes) {
            // What is chosen is on a quorum's disks.
            let begun = Message::Begun { session, since: replica.log().chosen() };
            out.send_early(from, begun.about(bucket));
        } else {
            self.turn_away(bucket, from, out);
        }
    }

    pub(crate) fn on_begun(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        session: SessionId,
        since: replog::Index,
        out: &mut Out,
    ) {
        let origin = &mut self.lane(bucket).origin;
        if session == origin.session() {
            origin.begun(since);
            self.dispatch(cx, bucket, out);
        }
    }

    /// Hands a message to a log. With a full disk nothing new is taken: the message becomes one that only says who
    /// leads. It must not be answered as if the log ended too early, or the leader would send again at once, for ever.
    pub(crate) fn receive_log(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        mut msg: replog::Message,
        out: &mut Out,
    ) {
        if self.roster.is_some() {
            self.open_replica(cx, bucket, out);
        }
        if self.takes_nothing() {
            match &mut msg {
                replog::Message::Append(append) if !append.entries.is_empty() => {
                    append.entries.clear();
                    (append.prev, append.prev_ballot) = (0, replog::Ballot::default());
                }
                replog::Message::Part(_) => return,
                _ => {}
            }
        }
        self.step_shard(cx, bucket, Event::Message { from, msg }, out);
    }

    /// Takes a batch of an origin into the log, unless there is no room for it or another leads.
    pub(crate) fn on_submit(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        batch: Bytes,
        out: &mut Out,
    ) {
        if self.full {
            // A warning; harmless if forgotten.
            out.send_early(from, Message::Full.about(bucket));
        }
        if self.takes_nothing() {
            cx.marks.hit("node.submit.no_room");
        } else if self.replicas.contains_key(&bucket) {
            self.step_shard(cx, bucket, Event::Input(shard::Input::Submit(batch)), out);
        } else {
            self.turn_away(bucket, from, out);
        }
    }

    /// Says that nothing was done, and remembers to say when it would be.
    pub(crate) fn turn_away(&mut self, bucket: Bucket, origin: NodeId, out: &mut Out) {
        const TURNED_AWAY_MAX: usize = 256;
        if let Some(replica) = self.replicas.get_mut(&bucket)
            && replica.turned_away.len() < TURNED_AWAY_MAX
        {
            replica.turned_away.insert(origin);
        }
        // Nothing was done.
        out.send_early(origin, Message::NotTaken.about(bucket));
    }

    /// After each step: who was turned away is told as soon as there is reason to come again.
    pub(crate) fn look_after_batches(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let mut stepped = core::mem::take(&mut self.stepped);
        stepped.sort_unstable();
        stepped.dedup();
        let ring = self.roster.as_ref().and_then(|roster| roster.ring.as_ref());
        stepped.retain(|bucket| {
            let Some(replica) = self.replicas.get_mut(bucket) else { return false };
            let took = core::mem::replace(&mut replica.took, replica.takes);
            let is_new = replica.takes && !took;
            if is_new {
                for origin in core::mem::take(&mut replica.turned_away) {
                    // A hint; harmless if forgotten.
                    out.send_early(origin, Message::TakesBatches.about(*bucket));
                }
                replica.led_since = cx.now;
                replica.meter.begin(cx.now, ring.map_or(0.0, |ring| ring.load_of(*bucket)));
            }
            is_new
        });
        self.announce(&stepped, out);
        for bucket in stepped {
            self.note_elected(cx.wall, bucket);
            self.lane(bucket).origin.resume();
            self.dispatch(cx, bucket, out);
        }
    }
}
