//! What is looked after from time to time.

use core::time::Duration;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Time};
use quorate_replog::Replog;
use quorate_shard::{self as shard, Mutant};

use crate::interface::Output;
use crate::machine::{Node, Out, TICK, Timer};
use crate::message::Message;

/// How often a node of a ring looks around, also while requests make it look after these more often.
const SLOW_TICK: Duration = Duration::from_millis(100);
/// Lanes without requests that are kept, each with its session in its bucket's log.
const LANES_MAX: usize = 1_024;

impl Node {
    /// Looks after what waits.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for bucket in self.asked.clone() {
            self.look_after_lane(cx, bucket, out);
        }
        let lanes = &mut self.lanes;
        self.asked.retain(|bucket| lanes.get(bucket).is_some_and(|lane| !lane.is_idle()));
        if lanes.len() > LANES_MAX {
            lanes.retain(|bucket, _| self.asked.contains(bucket));
        }
        let late = self.transactions.overdue(self.config.limits.deadline, cx.now);
        self.end_transactions(cx, late, out);
        if self.ring().is_some() {
            // Perhaps somebody else leads by now.
            self.transactions.doubted().into_iter().for_each(|bucket| self.seek(cx, bucket, out));
        }
        self.tell_acknowledged(cx, out);
        self.send_transactions(cx, out);
        if self.looks_around(cx.now) {
            self.look_after_members(cx, out);
        }
        if self.full && (self.leads_any() || !self.takes_nothing()) {
            self.spread_fullness(cx, out);
        }
        self.look_after_stopping(cx, out);
        self.is_slow = self.rests();
        out.arm(Timer::Tick, if self.is_slow { SLOW_TICK } else { TICK });
    }

    /// Whether nothing waits here that has to be looked after often.
    fn rests(&self) -> bool {
        let is_idle = self.asked.is_empty() && self.transactions.count() == 0 && self.changes.is_empty();
        self.ring().is_some() && is_idle && self.acknowledged.is_empty() && !self.stopping
    }

    /// Whether it is time to look who is there and what is to become of groups and logs.
    fn looks_around(&mut self, now: Time) -> bool {
        let is_changing = !self.changes.is_empty() || self.stopping;
        let Some(ring) = self.ring_mut() else { return true };
        let is_due = is_changing || now.since(ring.looked_at) >= SLOW_TICK;
        if is_due {
            ring.looked_at = now;
        }
        is_due
    }

    /// Something is to be looked after from now on.
    pub(crate) fn rouse(&mut self, out: &mut Out) {
        if core::mem::take(&mut self.is_slow) {
            out.arm(Timer::Tick, TICK);
        }
    }

    fn look_after_lane(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        let (config, lane) = self.config_and_lane(bucket);
        let limits = &config.limits;
        let mut doubts = lane.reads.ask_again(limits.retry, cx.now);
        let refused = limits.breaks(Mutant::SentIsRefused);
        let mut ends = lane.origin.overdue(limits.deadline, refused, cx.now);
        ends.extend(lane.reads.overdue(limits.deadline, cx.now));
        if lane.origin.doubts(limits.retry, cx.now) {
            doubts = true;
            cx.marks.hit("node.batch.again");
            if limits.breaks(Mutant::RetryWithNewNumber) {
                lane.origin.forget_numbers();
                lane.origin.begin_session(cx.rng.next_u64());
            }
        }
        if doubts {
            // Perhaps somebody else leads by now.
            self.seek(cx, bucket, out);
        }
        self.reply(cx, bucket, ends, out);
        self.dispatch(cx, bucket, out);
    }

    /// A leader whose disk is full says so, and lets somebody with room lead.
    fn spread_fullness(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        // A full disk refuses for itself what a leader asks; where that is taken, its members have to say that they are full.
        let gives_way = self.takes_nothing();
        for (bucket, replica) in self.replicas.iter().filter(|(_, replica)| replica.leads || !gives_way) {
            for peer in replica.log().peers() {
                // A warning; harmless if forgotten.
                out.send_early(peer.id, Message::Full.about(*bucket));
            }
        }
        if gives_way {
            self.step_all(cx, &shard::Input::Transfer(None), out);
        }
    }

    fn look_after_stopping(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if !self.stopping || self.stopped {
            return;
        }
        let alone = |log: &Replog| !log.leads() || log.epoch().members.len() <= 1;
        let alone = self.replicas.values().all(|replica| alone(replica.log()));
        let idle = self.awaited() == 0 && (alone || !self.leads_any());
        if idle || self.config.limits.breaks(Mutant::StopWhileLeading) {
            self.stopped = true;
            // Tells nothing about the disk; and by the time that is done, another bucket may have made this node lead.
            out.output_early(Output::ReadyToStop);
        } else if self.leads_any() {
            self.step_all(cx, &shard::Input::Transfer(None), out);
        }
    }
}
