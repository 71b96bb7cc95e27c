//! Carrying out what the machine wants.

use quorate_kernel::{Cx, Effect, Event, Gate, NodeId, Time, wire};
use quorate_node::Output;

use super::sync::failed;
use super::{Driver, Held};
use crate::clock::Clock;
use crate::error::RunError;
use crate::hosted::{EventOf, Hosted};

impl<M: Hosted> Driver<M> {
    /// Steps the machine once. Effects that may take place at once do, as far as they stay in memory; the others are
    /// held in their order.
    pub(super) fn step(&mut self, event: EventOf<M>) {
        let now = self.clock.now();
        let mut cx = Cx {
            me: self.me,
            now,
            wall: Clock::wall(),
            rng: &mut self.rng,
            store: &mut *self.store,
            marks: &mut self.marks,
        };
        self.machine.step(&mut cx, event, &mut self.live.out);
        let mut out =
            std::mem::replace(&mut self.live.out, quorate_kernel::Out::new(self.live.appended.next()));
        for effect in out.drain() {
            match effect {
                Effect::Send { to, msg, gate: Gate::Early } => self.send(to, msg),
                Effect::Send { to, msg, gate: Gate::Durable } => self.hold(Held::Send(to, msg)),
                Effect::Output { output, gate: Gate::Early } => self.live.replies.push(output),
                Effect::Output { output, gate: Gate::Durable } => self.hold(Held::Output(output)),
                Effect::Discard(position) => self.hold(Held::Discard(position)),
                Effect::Arm { timer, after } => self.live.timers.arm(timer, now + after),
                Effect::Disarm(timer) => self.live.timers.disarm(&timer),
                Effect::Persist(record) => self.append(&record),
            }
        }
        assert_eq!(
            out.next_position(),
            self.live.appended.next(),
            "the log and the machine count records alike"
        );
        self.live.out = out;
    }

    fn append(&mut self, record: &M::Record) {
        let position = self.wal.append(|bytes| wire::encode_after(record, bytes));
        assert_eq!(position, self.live.appended.next(), "the log numbers records without gaps");
        self.live.appended = position;
        self.live.stats.records += 1;
    }

    fn hold(&mut self, held: Held<M::Msg>) {
        self.live.held.push_back((self.live.appended, held));
    }

    fn send(&mut self, to: NodeId, msg: M::Msg) {
        if to == self.me {
            self.live.own.push_back(Event::Message { from: to, msg });
        } else {
            let now = self.clock.now();
            self.peers.send(to, now, |bytes| wire::encode_after(&msg, bytes));
        }
    }

    /// Lets go of what waited for records that are durable by now.
    pub(super) fn release(&mut self) -> Result<(), RunError> {
        let durable = self.wal.durable();
        while self.live.held.front().is_some_and(|(position, _)| *position <= durable) {
            let Some((_, held)) = self.live.held.pop_front() else { break };
            match held {
                Held::Send(to, msg) => self.send(to, msg),
                Held::Output(output) => self.live.replies.push(output),
                Held::Discard(position) => {
                    self.wal.discard(position).map_err(failed("letting go of old records"))?;
                }
            }
        }
        if self.live.held.is_empty() && self.live.held.capacity() > 65_536 {
            self.live.held.shrink_to(1_024);
        }
        Ok(())
    }

    /// Hands out what the machine has said.
    pub(super) fn answer(&mut self, now: Time) {
        let wall_us = Clock::wall_us();
        for output in std::mem::take(&mut self.live.replies) {
            match output {
                Output::Replies(replies) => {
                    for (connection, ticket, outcome) in replies {
                        self.clients.complete(connection, ticket, outcome, now, wall_us);
                    }
                }
                Output::Reason(connection, ticket, reason) => self.clients.note(connection, ticket, *reason),
                Output::Peers(members) => self.peers.set_members(&members, now),
                Output::Admin(ticket, outcome) => {
                    if let Some(waiting) = self.live.admin.remove(&ticket) {
                        // Whoever asked may have gone.
                        let _ = waiting.send(outcome);
                    }
                }
                Output::ReadyToStop => self.live.ready_to_stop = true,
            }
        }
    }
}
