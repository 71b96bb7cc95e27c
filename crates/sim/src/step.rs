//! How a node takes an event, and what becomes of the effects.

use std::mem;

use quorate_kernel::{Cx, Effect, Event, Gate, Machine, NodeId, Out, Position};

use crate::harness::{Harness, Msg, Output, Seen};
use crate::network::{Fate, happens};
use crate::process::{Armed, Held, Life};
use crate::world::{Arrival, Delivery, Happening, World, kind};

type EventOf<M> = Event<<M as Machine>::Msg, <M as Machine>::Timer, <M as Machine>::Input>;

impl<H: Harness> World<H> {
    /// Something reaches a node: it takes it now, or when it is free.
    pub(crate) fn arrive(&mut self, place: usize, arrival: Arrival<H::Machine>) {
        let process = &mut self.nodes.processes[place];
        if process.is_ready() {
            self.take(place, arrival);
            self.begin_sync(place);
        } else {
            process.inbox.push_back(arrival);
        }
    }

    /// The node is free (again): one turn of its loop takes everything that has piled up, and one sync covers it.
    pub(crate) fn turn(&mut self, place: usize) {
        for _ in 0..self.nodes.processes[place].inbox.len() {
            if self.failure.is_some() {
                return;
            }
            if let Some(arrival) = self.nodes.processes[place].inbox.pop_front() {
                self.counts.events += 1;
                self.take(place, arrival);
            }
        }
        self.begin_sync(place);
    }

    fn take(&mut self, place: usize, arrival: Arrival<H::Machine>) {
        let event = match arrival {
            Arrival::Message { from, msg } => Event::Message { from, msg },
            Arrival::Input(input) => Event::Input(input),
            Arrival::Timer { timer, entry } => {
                if !self.fires(place, &timer, entry) {
                    return;
                }
                Event::Timer(timer)
            }
        };
        self.step(place, event);
    }

    /// Whether a timer whose queue entry came up is really due.
    fn fires(&mut self, place: usize, timer: &<H::Machine as Machine>::Timer, entry: u64) -> bool {
        let process = &mut self.nodes.processes[place];
        let Some(armed) = process.timers.get_mut(timer).filter(|armed| armed.entry == entry) else {
            return false;
        };
        match armed.deadline {
            Some(deadline) if deadline > self.now => {
                armed.queued_at = deadline;
                let arrival = Arrival::Timer { timer: timer.clone(), entry };
                let incarnation = process.incarnation;
                self.queue.push(deadline, Happening::Local { place: place as u32, incarnation, arrival });
                false
            }
            due => {
                process.timers.remove(timer);
                due.is_some()
            }
        }
    }

    /// One step of one machine, its checks and its effects.
    pub(crate) fn step(&mut self, place: usize, event: EventOf<H::Machine>) {
        let process = &mut self.nodes.processes[place];
        let Some(machine) = &mut process.machine else { return };
        self.counts.steps += 1;
        self.trace.mix(self.now);
        self.trace.mix((kind(&event) << 16) | place as u64);
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} takes {event:?}", process.id));
        }
        let mut cx = Cx {
            me: process.id,
            now: process.clock.monotonic(self.now),
            wall: process.clock.wall(self.now),
            rng: &mut process.rng,
            store: &mut process.store,
            marks: &mut self.marks,
        };
        machine.step(&mut cx, event, &mut process.out);
        if self.options.checks {
            machine.check();
        }
        self.effects(place);
        self.tend_store(place);
        let process = &self.nodes.processes[place];
        if let Some(machine) = &process.machine {
            let seen = Seen { now: self.now(), node: process.id, machine, nodes: &self.nodes };
            let verdict = self.harness.observe(seen);
            self.judge(verdict);
        }
    }

    fn effects(&mut self, place: usize) {
        let process = &mut self.nodes.processes[place];
        if process.out.is_empty() {
            return;
        }
        let mut out = mem::replace(&mut process.out, Out::new(Position(0)));
        self.trace.mix(out.effects().len() as u64);
        for effect in out.drain() {
            if self.trace.wants_text() {
                let id = self.nodes.processes[place].id;
                self.trace.line(self.now, format_args!("{id:?}   {effect:?}"));
            }
            match effect {
                Effect::Send { to, msg, gate: Gate::Early } => self.send(place, to, msg),
                Effect::Send { to, msg, gate: Gate::Durable } => self.gated(place, Held::Send { to, msg }),
                Effect::Output { output, gate: Gate::Early } => self.output(place, output),
                Effect::Output { output, gate: Gate::Durable } => self.gated(place, Held::Output(output)),
                Effect::Discard(position) => self.gated(place, Held::Discard(position)),
                Effect::Persist(record) => {
                    let record = self.harness.keep(record);
                    self.counts.records += 1;
                    self.nodes.processes[place].disk.append(record);
                }
                Effect::Arm { timer, after } => {
                    let deadline = self.nodes.processes[place].clock.deadline(self.now, after);
                    self.arm(place, timer, deadline);
                }
                Effect::Disarm(timer) => {
                    if let Some(armed) = self.nodes.processes[place].timers.get_mut(&timer) {
                        armed.deadline = None;
                    }
                }
            }
        }
        let process = &mut self.nodes.processes[place];
        assert_eq!(
            out.next_position(),
            process.disk.written().next(),
            "{:?} and its disk number records differently",
            process.id
        );
        process.out = out;
    }

    /// Carries out an effect once everything written before it is durable.
    fn gated(&mut self, place: usize, held: Held<H::Machine>) {
        let process = &mut self.nodes.processes[place];
        if process.disk.durable() == process.disk.written() {
            self.release(place, held);
        } else {
            process.held.push_back((process.disk.written(), held));
        }
    }

    fn release(&mut self, place: usize, held: Held<H::Machine>) {
        match held {
            Held::Send { to, msg } => self.send(place, to, msg),
            Held::Output(output) => self.output(place, output),
            Held::Discard(position) => self.nodes.processes[place].disk.discard(position),
        }
    }

    fn output(&mut self, place: usize, output: Output<H>) {
        let process = &self.nodes.processes[place];
        let Some(machine) = &process.machine else { return };
        self.trace.mix(6);
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} says {output:?}", process.id));
        }
        let seen = Seen { now: self.now(), node: process.id, machine, nodes: &self.nodes };
        self.agenda.set_now(self.now);
        let verdict = self.harness.output(seen, output, &mut self.agenda);
        self.judge(verdict);
    }

    fn arm(&mut self, place: usize, timer: <H::Machine as Machine>::Timer, deadline: u64) {
        let process = &mut self.nodes.processes[place];
        if let Some(armed) = process.timers.get_mut(&timer)
            && armed.queued_at <= deadline
        {
            armed.deadline = Some(deadline);
            return;
        }
        process.entries += 1;
        let entry = process.entries;
        process.timers.insert(timer.clone(), Armed { deadline: Some(deadline), queued_at: deadline, entry });
        let arrival = Arrival::Timer { timer, entry };
        let incarnation = process.incarnation;
        self.queue.push(deadline, Happening::Local { place: place as u32, incarnation, arrival });
    }

    /// A message leaves a node.
    fn send(&mut self, place: usize, to: NodeId, msg: Msg<H>) {
        let process = &self.nodes.processes[place];
        let (from, incarnation) = (process.id, process.incarnation);
        if to == from {
            let arrival = Arrival::Message { from, msg };
            self.queue.push(self.now, Happening::Local { place: place as u32, incarnation, arrival });
            return;
        }
        let Some(to_place) = self.nodes.place(to) else {
            self.marks.hit("sim.network.unknown_destination");
            return;
        };
        let (msg, bytes) = self.harness.carry(msg);
        self.counts.messages_sent += 1;
        self.counts.bytes_sent += bytes as u64;
        self.trace.mix(bytes as u64);
        let fate = match self.harness.loses(from, to, &msg) {
            true => Fate::Lost,
            false => self.network.send(self.now, place, to_place, bytes),
        };
        match fate {
            Fate::Lost => {
                self.trace.mix(7);
                if self.trace.wants_text() {
                    self.trace.line(self.now, format_args!("{to:?} never gets, from {from:?}: {msg:?}"));
                }
            }
            Fate::Arrives { at, again_at, connection } => {
                let (from_place, to_place) = (place as u32, to_place as u32);
                if let Some(again_at) = again_at {
                    self.marks.hit("sim.network.duplicate");
                    let msg = msg.clone();
                    let twin = Delivery { from_place, to_place, from, to, connection, bytes, msg };
                    self.queue.push(again_at, Happening::Deliver(twin));
                }
                let delivery = Delivery { from_place, to_place, from, to, connection, bytes, msg };
                self.queue.push(at, Happening::Deliver(delivery));
            }
        }
    }

    /// Begins a sync if there is something to sync and the disk is free.
    pub(crate) fn begin_sync(&mut self, place: usize) {
        let process = &mut self.nodes.processes[place];
        if process.disk.begin_sync().is_none() {
            return;
        }
        let takes = self.options.disk.sync.draw(&mut self.rng).saturating_mul(process.disk_slowness);
        let incarnation = process.incarnation;
        self.queue
            .push(self.now.saturating_add(takes), Happening::Synced { place: place as u32, incarnation });
    }

    /// A sync is done: gated effects leave, and what came meanwhile is next.
    pub(crate) fn synced(&mut self, place: usize) {
        if self.nodes.processes[place].life == Life::Paused {
            self.nodes.processes[place].synced_unseen = true;
            return;
        }
        self.counts.syncs += 1;
        self.trace.mix(8);
        let process = &mut self.nodes.processes[place];
        process.disk.end_sync();
        let durable = process.disk.durable();
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} is durable up to {durable:?}", process.id));
        }
        loop {
            let held = &mut self.nodes.processes[place].held;
            let Some((_, held)) = held.pop_front_if(|(position, _)| *position <= durable) else { break };
            self.release(place, held);
        }
        if self.nodes.processes[place].is_ready() {
            self.turn(place);
        } else {
            self.begin_sync(place);
        }
    }

    /// Store checkpoints: asked for by the machine, or by the store itself when a buffer fills.
    fn tend_store(&mut self, place: usize) {
        let process = &mut self.nodes.processes[place];
        if happens(&mut self.rng, self.options.disk.checkpoint_unasked_ppm) {
            process.store.complete();
            self.marks.hit("sim.store.checkpoint_unasked");
        }
        if process.store.take_asked() {
            let takes = self.options.disk.checkpoint.draw(&mut self.rng);
            let incarnation = process.incarnation;
            self.queue.push(self.now + takes, Happening::Checkpoint { place: place as u32, incarnation });
        }
    }
}
