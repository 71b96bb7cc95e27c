//! The way of requests to the leader: to another node, or to the log here.

use bytes::Bytes;
use core::time::Duration;
use quorate_api::SessionId;
use quorate_kernel::{Cx, Event, NodeId};
use quorate_shard as shard;

use crate::machine::{Node, Out, Timer};
use crate::message::Message;

impl Node {
    /// Sends on what can be sent on. What that brings about at once may ask for more to be sent: then it goes on here,
    /// not deeper.
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if core::mem::replace(&mut self.dispatching, true) {
            return;
        }
        while self.dispatch_some(cx, out) {}
        self.dispatching = false;
    }

    /// Sends one batch and some reads. Returns whether there may be more.
    fn dispatch_some(&mut self, cx: &mut Cx<'_>, out: &mut Out) -> bool {
        let Some(leader) = self.log().believed_leader() else { return false };
        let here = leader == self.config.me.id;
        if here && !self.shard.takes_batches() {
            return false;
        }
        self.origin.turn_to(leader);
        if self.origin.needs_beginning() {
            self.begin_session_at(cx, leader, out);
        }
        let batch = self.origin.next_batch(&self.config.limits, cx.now);
        let reads = self.reads.next(cx.now);
        let more = batch.is_some() || reads.is_some();
        if let Some(batch) = batch {
            self.submit(cx, leader, batch, out);
        }
        match reads {
            Some((id, requests)) if here => {
                self.read_here(cx, leader, id, requests, out);
                if self.reads.has_unasked() {
                    // The answers are long: these must leave before more are made.
                    out.arm(Timer::Tick, Duration::ZERO);
                    return false;
                }
            }
            // A question; nothing about this node's disk is told.
            Some((id, requests)) => out.send_early(leader, Message::Read { id, requests }),
            None => {}
        }
        more
    }

    fn submit(&mut self, cx: &mut Cx<'_>, leader: NodeId, batch: Bytes, out: &mut Out) {
        if leader == self.config.me.id {
            self.step_shard(cx, Event::Input(shard::Input::Submit(batch)), out);
        } else {
            // The batch counts when the log has it; this node keeps nothing of it on disk.
            out.send_early(leader, Message::Submit(batch));
        }
    }

    /// Asks how far the log is: a session must not be taken for an older one, nor an older one for it.
    fn begin_session_at(&mut self, cx: &mut Cx<'_>, leader: NodeId, out: &mut Out) {
        let session = self.origin.session();
        if leader == self.config.me.id {
            self.origin.begun(self.log().chosen());
        } else if cx.now >= self.begin_again_at {
            self.begin_again_at = cx.now + self.config.limits.retry;
            // A question; nothing about this node's disk is told.
            out.send_early(leader, Message::Begin { session });
        }
    }

    pub(crate) fn on_begin(&mut self, from: NodeId, session: SessionId, out: &mut Out) {
        if self.shard.takes_batches() {
            // What is chosen is on a quorum's disks.
            out.send_early(from, Message::Begun { session, since: self.log().chosen() });
        } else {
            self.turn_away(from, out);
        }
    }

    /// Says that nothing was done, and remembers to say when it would be.
    pub(crate) fn turn_away(&mut self, origin: NodeId, out: &mut Out) {
        const TURNED_AWAY_MAX: usize = 256;
        if self.turned_away.len() < TURNED_AWAY_MAX {
            self.turned_away.insert(origin);
        }
        // Nothing was done.
        out.send_early(origin, Message::NotTaken);
    }

    /// After each step: who was turned away is told as soon as there is reason to come again.
    pub(crate) fn look_after_batches(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let takes = self.shard.takes_batches();
        if takes && !self.took {
            for origin in core::mem::take(&mut self.turned_away) {
                // A hint; harmless if forgotten.
                out.send_early(origin, Message::TakesBatches);
            }
            self.origin.resume();
            self.dispatch(cx, out);
        }
        self.took = takes;
    }
}
