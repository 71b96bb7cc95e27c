//! Small machines to test worlds with.
#![allow(dead_code, reason = "each test file uses some of them")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_kernel::{Cx, Event, Machine, Marks, NodeId, Out, Position, Rng, Time};
use quorate_sim::{Agenda, Boot, Harness, Nodes, Plan, Replacement, Seen, Verdict};
use quorate_store::Batch;

/// What a [`Probe`] is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Do {
    Send(u64, u32),
    SendEarly(u64, u32),
    Persist(u32),
    Discard(u64),
    Arm(char, u64),
    Disarm(char),
    Output(u32),
    Put(u32),
    Checkpoint,
    Mark(&'static str),
}

/// What a [`Probe`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Saw {
    Restored(u64, u32),
    Started,
    Got(u64, u32),
    Fired(char),
    Asked,
}

/// Does what it is told and remembers what it saw, and when by its own clock.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) saw: Vec<Saw>,
    pub(crate) at: Vec<Time>,
}

impl Machine for Probe {
    type Msg = u32;
    type Timer = char;
    type Record = u32;
    type Input = Vec<Do>;
    type Output = u32;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: u32) {
        self.at.push(cx.now);
        self.saw.push(Saw::Restored(position.0, record));
    }

    fn step(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<u32, char, Vec<Do>>,
        out: &mut Out<u32, char, u32, u32>,
    ) {
        self.at.push(cx.now);
        let todo = match event {
            Event::Start => return self.saw.push(Saw::Started),
            Event::Message { from, msg } => return self.saw.push(Saw::Got(from.0, msg)),
            Event::Timer(name) => return self.saw.push(Saw::Fired(name)),
            Event::Input(todo) => todo,
        };
        self.saw.push(Saw::Asked);
        for what in todo {
            match what {
                Do::Send(to, msg) => out.send(NodeId(to), msg),
                Do::SendEarly(to, msg) => out.send_early(NodeId(to), msg),
                Do::Persist(record) => drop(out.persist(record)),
                Do::Discard(position) => out.discard(Position(position)),
                Do::Arm(name, ms) => out.arm(name, Duration::from_millis(ms)),
                Do::Disarm(name) => out.disarm(name),
                Do::Output(output) => out.output(output),
                Do::Put(value) => {
                    let mut batch = Batch::default();
                    batch.put("key", value.to_be_bytes().to_vec());
                    cx.store.apply(batch);
                }
                Do::Mark(name) => cx.marks.hit(name),
                Do::Checkpoint => cx.store.checkpoint(),
            }
        }
    }
}

/// Probes, and what they said.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    pub(crate) said: Vec<(u64, u32)>,
    pub(crate) refused: Vec<u64>,
    pub(crate) replace: bool,
    pub(crate) keep_disks: bool,
    pub(crate) censored: Option<u32>,
    pub(crate) aims: bool,
    pub(crate) boots: Vec<(u64, Boot)>,
}

impl Harness for Probes {
    type Machine = Probe;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Probe {
        self.boots.push((node.0, boot));
        Probe::default()
    }

    fn output(&mut self, seen: Seen<'_, Probe>, output: u32, _: &mut Agenda<Vec<Do>>) -> Verdict {
        self.said.push((seen.node.0, output));
        Ok(())
    }

    fn refused(&mut self, node: NodeId, _: Vec<Do>, _: &mut Agenda<Vec<Do>>) {
        self.refused.push(node.0);
    }

    fn start(&mut self, agenda: &mut Agenda<Vec<Do>>) {
        let ms = Duration::from_millis;
        if self.aims {
            agenda.crash(ms(10), NodeId(1), ms(20));
            agenda.pause(ms(40), NodeId(2), ms(20));
            agenda.isolate(ms(70), NodeId(2), ms(20));
            agenda.crash(ms(70), NodeId(9), ms(20));
        }
    }

    fn loses(&mut self, _: NodeId, _: NodeId, msg: &u32) -> bool {
        self.censored == Some(*msg)
    }

    fn disk_full(&mut self, _: NodeId, full: bool) -> Option<Vec<Do>> {
        Some(vec![Do::Mark(if full { "probe.full" } else { "probe.room" })])
    }

    fn may_lose_disk(&mut self, _: NodeId, _: &Nodes<Probe>) -> bool {
        !self.keep_disks
    }

    fn disk_lost(&mut self, _: NodeId) -> Replacement {
        if self.replace { Replacement::NewIdentity } else { Replacement::Gone }
    }
}

/// What no seed governs.
static OUTSIDE: AtomicU64 = AtomicU64::new(0);

/// How a [`Keeper`] is broken, for canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Answers before its record is durable.
    AcksEarly,
    /// Counts doubled answers twice.
    CountsTwice,
    /// Never asks again.
    NeverRetries,
    /// Holds a false belief about what it finds at its start.
    Asserts,
    /// Takes chance from outside.
    Unseeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    Store(u64),
    Stored(u64),
}

/// Keeps numbers on a majority of nodes: a number is done when a majority has it on disk.
#[derive(Debug)]
pub(crate) struct Keeper {
    members: u64,
    flaw: Flaw,
    pub(crate) known: BTreeSet<u64>,
    waiting: BTreeMap<u64, Vec<NodeId>>,
}

impl Keeper {
    fn majority(&self) -> usize {
        self.members as usize / 2 + 1
    }

    fn broadcast(&self, me: NodeId, number: u64, out: &mut Out<Note, (), u64, u64>) {
        for peer in (1..=self.members).map(NodeId).filter(|peer| *peer != me) {
            // Early: it asks others to store, and promises nothing.
            out.send_early(peer, Note::Store(number));
        }
        if self.flaw != Flaw::NeverRetries {
            out.arm((), Duration::from_millis(40));
        }
    }

    fn ack(&mut self, from: NodeId, number: u64, out: &mut Out<Note, (), u64, u64>) {
        let enough = self.majority();
        let Some(acks) = self.waiting.get_mut(&number) else { return };
        if self.flaw == Flaw::CountsTwice || !acks.contains(&from) {
            acks.push(from);
        }
        if acks.len() >= enough {
            self.waiting.remove(&number);
            out.output(number);
        }
    }
}

impl Machine for Keeper {
    type Msg = Note;
    type Timer = ();
    type Record = u64;
    type Input = u64;
    type Output = u64;

    fn restore(&mut self, _: &mut Cx<'_>, _: Position, record: u64) {
        self.known.insert(record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Note, (), u64>, out: &mut Out<Note, (), u64, u64>) {
        match event {
            Event::Start => {
                assert!(self.flaw != Flaw::Asserts || self.known.len() < 4, "more numbers than expected");
            }
            Event::Input(number) => {
                self.known.insert(number);
                self.waiting.insert(number, Vec::new());
                out.persist(number);
                out.send(cx.me, Note::Stored(number));
                self.broadcast(cx.me, number, out);
            }
            Event::Message { from, msg: Note::Store(number) } => {
                if self.known.insert(number) {
                    out.persist(number);
                }
                cx.marks.hit("keeper.stored");
                match self.flaw {
                    Flaw::AcksEarly => out.send_early(from, Note::Stored(number)),
                    _ => out.send(from, Note::Stored(number)),
                }
            }
            Event::Message { from, msg: Note::Stored(number) } => self.ack(from, number, out),
            Event::Timer(()) => {
                cx.marks.hit("keeper.retried");
                for number in self.waiting.keys() {
                    self.broadcast(cx.me, *number, out);
                }
            }
        }
    }

    fn check(&self) {
        assert!(self.waiting.keys().all(|number| self.known.contains(number)));
    }
}

/// Clients that have numbers kept and want every one that was done to stay with a majority.
#[derive(Debug)]
pub(crate) struct Keepers {
    members: u64,
    clients: u32,
    flaw: Flaw,
    rng: Rng,
    next: u64,
    healed: bool,
    owed: BTreeMap<u64, NodeId>,
    pub(crate) done: BTreeSet<u64>,
}

impl Keepers {
    pub(crate) fn of(plan: &Plan, flaw: Flaw) -> Self {
        Keepers {
            members: plan.world.nodes as u64,
            clients: plan.clients,
            flaw,
            rng: plan.rng(),
            next: 0,
            healed: false,
            owed: BTreeMap::new(),
            done: BTreeSet::new(),
        }
    }

    fn ask(&mut self, agenda: &mut Agenda<u64>) {
        self.next += 1;
        let node = NodeId(self.rng.between(1, self.members));
        agenda.input(Duration::ZERO, node, self.next);
        self.owed.insert(self.next, node);
    }

    fn kept(&self, nodes: &Nodes<Keeper>, number: u64) -> usize {
        nodes.live().filter(|(_, keeper)| keeper.known.contains(&number)).count()
    }
}

impl Harness for Keepers {
    type Machine = Keeper;

    fn machine(&mut self, _: NodeId, _: Boot) -> Keeper {
        let (members, flaw) = (self.members, self.flaw);
        Keeper { members, flaw, known: BTreeSet::new(), waiting: BTreeMap::new() }
    }

    fn start(&mut self, agenda: &mut Agenda<u64>) {
        (0..self.clients).for_each(|client| agenda.wake(Duration::from_millis(5), u64::from(client)));
    }

    fn woken(&mut self, token: u64, _: &Nodes<Keeper>, agenda: &mut Agenda<u64>) -> Verdict {
        if !self.healed {
            self.ask(agenda);
            let mut pause = self.rng.between(1, 60);
            if self.flaw == Flaw::Unseeded {
                pause += OUTSIDE.fetch_add(1, Ordering::Relaxed);
            }
            agenda.wake(Duration::from_millis(pause), token);
        }
        Ok(())
    }

    fn output(&mut self, _: Seen<'_, Keeper>, output: u64, _: &mut Agenda<u64>) -> Verdict {
        self.done.insert(output);
        self.owed.remove(&output);
        Ok(())
    }

    fn refused(&mut self, _: NodeId, number: u64, _: &mut Agenda<u64>) {
        self.owed.remove(&number);
    }

    fn crashed(&mut self, node: NodeId, _: &mut Agenda<u64>) {
        // What a node had not answered, it has forgotten: its clients will never know.
        self.owed.retain(|_, asked| *asked != node);
    }

    fn healed(&mut self, _: &Nodes<Keeper>, agenda: &mut Agenda<u64>) {
        self.healed = true;
        self.ask(agenda);
    }

    fn converged(&mut self, _: &Nodes<Keeper>) -> Verdict {
        match self.owed.first_key_value() {
            None => Ok(()),
            Some((number, node)) => Err(format!("{node:?} owes an answer for {number}")),
        }
    }

    fn finish(&mut self, nodes: &Nodes<Keeper>, marks: &mut Marks) -> Verdict {
        let majority = self.members as usize / 2 + 1;
        for number in &self.done {
            marks.hit("keeper.done");
            let kept = self.kept(nodes, *number);
            if kept < majority {
                return Err(format!("{number} was done and only {kept} nodes keep it"));
            }
        }
        Ok(())
    }
}
