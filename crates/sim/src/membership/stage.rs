//! A stage for transcripts: a few nodes whose messages, disks and clocks a script moves by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::{Cx, Effect, Event, Gate, Machine, Marks, NodeId, Out, Position, Rng, Time, Wall};
use quorate_membership::{
    Config, Digest, Input, JoinerMeta, Membership, Message, Output, Rank, Record, Report, RingSet, Timer,
};
use quorate_store::MemoryStore;

use super::cluster::meta_of;
use super::words::{self, timer_name};

/// One node and what is around it.
struct Actor {
    machine: Option<Membership>,
    founders: Vec<NodeId>,
    out: Out<Message, Timer, Record, Output>,
    rng: Rng,
    store: MemoryStore,
    records: VecDeque<Record>,
    first: u64,
    durable: u64,
    /// Nothing becomes durable until the script lets it.
    held: bool,
    gated: VecDeque<(u64, Gated)>,
    timers: BTreeMap<Timer, Time>,
}

enum Gated {
    Send(NodeId, Message),
    Output(Output),
}

/// See the module's documentation.
pub struct Stage {
    config: Config,
    actors: BTreeMap<NodeId, Actor>,
    /// What is on its way, in the order of sending.
    wire: VecDeque<(NodeId, NodeId, Message)>,
    now: Time,
    marks: Marks,
    said: String,
    /// What each node said it voted for, by the number of the view and the round.
    votes: BTreeMap<(NodeId, u64, Rank), BTreeSet<Digest>>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Stage {
    /// An empty stage; nodes that enter it have this configuration.
    pub fn new(config: Config) -> Self {
        Stage {
            config,
            actors: BTreeMap::new(),
            wire: VecDeque::new(),
            now: Time(1_000_000_000),
            marks: Marks::default(),
            said: String::new(),
            votes: BTreeMap::new(),
        }
    }

    /// The configuration of nodes that enter from now on.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// What was said since the last call.
    pub fn take_said(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    /// A node enters and starts.
    pub fn enter(&mut self, node: NodeId, founders: &[NodeId]) {
        let actor = Actor {
            machine: None,
            founders: founders.to_vec(),
            out: Out::new(Position(1)),
            rng: Rng::new(node.0),
            store: MemoryStore::default(),
            records: VecDeque::new(),
            first: 1,
            durable: 0,
            held: false,
            gated: VecDeque::new(),
            timers: BTreeMap::new(),
        };
        self.actors.insert(node, actor);
        self.restart(node);
    }

    /// A node dies. What its disk had not confirmed is lost.
    pub fn crash(&mut self, node: NodeId) {
        let actor = self.actor(node);
        actor.machine = None;
        actor.records.truncate((actor.durable + 1 - actor.first) as usize);
        actor.gated.clear();
        actor.timers.clear();
        actor.held = false;
    }

    /// A node comes back with its records.
    pub fn restart(&mut self, node: NodeId) {
        let (config, now) = (self.config.clone(), self.now);
        let Some(actor) = self.actors.get_mut(&node) else { panic!("{node:?} has not entered") };
        let founders = actor.founders.iter().map(|id| (*id, meta_of(*id))).collect();
        let mut machine = Membership::new(node, config, meta_of(node), founders);
        actor.out = Out::new(Position(actor.first + actor.records.len() as u64));
        let mut cx = Cx {
            me: node,
            now,
            wall: Wall::default(),
            rng: &mut actor.rng,
            store: &mut actor.store,
            marks: &mut self.marks,
        };
        for (record, position) in actor.records.iter().zip(actor.first..) {
            machine.restore(&mut cx, Position(position), record.clone());
        }
        actor.machine = Some(machine);
        self.step(node, Event::Start);
    }

    /// Asks something of a node.
    pub fn ask(&mut self, node: NodeId, input: Input) {
        self.step(node, Event::Input(input));
    }

    /// All observers of a subject have alerted, as far as a node is told by another.
    pub fn alert(&mut self, node: NodeId, from: NodeId, subject: NodeId) {
        let Some(view) = self.actor(node).machine.as_ref().and_then(Membership::view) else { return };
        let meta = (!view.has(subject)).then(|| JoinerMeta(Arc::new(meta_of(subject))));
        let view = view.id;
        let now = RingSet(((1_u64 << self.config.rings) - 1) as u32);
        let report = Report { subject, now, before: RingSet::default(), meta };
        let msg = Message::News { view, epoch: 1, reports: vec![report], votes: Vec::new() };
        self.step(node, Event::Message { from, msg });
    }

    /// Time passes until a timer of a node is due, and it fires.
    pub fn fire(&mut self, node: NodeId, timer: Timer) {
        let Some(at) = self.actor(node).timers.remove(&timer) else {
            return self.say(format_args!("{node:?} has no timer {}", timer_name(timer)));
        };
        self.now = self.now.max(at);
        self.step(node, Event::Timer(timer));
    }

    /// Time passes for `nodes`: their timers fire when they are due, and what they send each other arrives at once.
    pub fn run(&mut self, span: Duration, nodes: &[NodeId]) {
        let end = self.now + span;
        let among = |from: NodeId, to: NodeId, _: &Message| nodes.contains(&from) && nodes.contains(&to);
        loop {
            self.deliver(true, among);
            let due = self
                .actors
                .iter()
                .filter(|(id, _)| nodes.contains(id))
                .flat_map(|(id, actor)| actor.timers.iter().map(|(timer, at)| (*at, *id, *timer)));
            match due.min() {
                Some((at, node, timer)) if at <= end => self.fire(node, timer),
                _ => break,
            }
        }
        self.now = end;
    }

    /// The disk of a node confirms nothing from now on, or everything.
    pub fn hold_disk(&mut self, node: NodeId, held: bool) {
        self.actor(node).held = held;
        self.sync(node);
    }

    /// Delivers what is on its way and wanted, in order; with `all`, also what that causes, until nothing is left.
    pub fn deliver(&mut self, all: bool, wanted: impl Fn(NodeId, NodeId, &Message) -> bool) {
        for _ in 0..10_000 {
            let (now, later): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.wire)
                .into_iter()
                .partition(|(from, to, msg)| wanted(*from, *to, msg));
            self.wire = later;
            if now.is_empty() {
                return;
            }
            for (from, to, msg) in now {
                self.arrive(from, to, msg);
            }
            if !all {
                return;
            }
        }
        panic!("messages go round and round");
    }

    /// Loses what is on its way and wanted.
    pub fn lose(&mut self, wanted: impl Fn(NodeId, NodeId, &Message) -> bool) {
        let before = self.wire.len();
        self.wire.retain(|(from, to, msg)| !wanted(*from, *to, msg));
        let lost = before - self.wire.len();
        self.say(format_args!("{lost} lost"));
    }

    /// For how many values a node said it voted in one round of one view, at most: one, unless a rule is broken.
    pub fn votes_in_one_round(&self, node: NodeId) -> usize {
        let own = self.votes.iter().filter(|((voter, ..), _)| *voter == node);
        own.map(|(_, digests)| digests.len()).max().unwrap_or(0)
    }

    /// Who a node is and what it knows.
    pub fn show(&mut self, node: NodeId) {
        let text = self.actor(node).machine.as_ref().map_or("is dead".to_owned(), words::state);
        self.say(format_args!("{node:?} {text}"));
    }

    fn actor(&mut self, node: NodeId) -> &mut Actor {
        match self.actors.get_mut(&node) {
            Some(actor) => actor,
            None => panic!("{node:?} has not entered"),
        }
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        writeln!(self.said, "{what}").expect("strings grow");
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, msg: Message) {
        let text = words::message(&msg);
        if self.actors.get(&to).is_none_or(|actor| actor.machine.is_none()) {
            return;
        }
        if from != to && !text.is_empty() {
            self.say(format_args!("{from:?} -> {to:?} {text}"));
        }
        self.step(to, Event::Message { from, msg });
    }

    fn step(&mut self, node: NodeId, event: Event<Message, Timer, Input>) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(&node) else { panic!("{node:?} has not entered") };
        let Some(machine) = actor.machine.as_mut() else { return };
        let before = self.marks.clone();
        let mut cx = Cx {
            me: node,
            now,
            wall: Wall::default(),
            rng: &mut actor.rng,
            store: &mut actor.store,
            marks: &mut self.marks,
        };
        machine.step(&mut cx, event, &mut actor.out);
        machine.check();
        let hit = self.marks.iter().filter(|(name, count)| before.count(name) < *count);
        for (name, _) in hit {
            let name = name.strip_prefix("membership.").unwrap_or(name);
            writeln!(self.said, "  {node:?} marks {name}").expect("strings grow");
        }
        self.effects(node);
    }

    fn effects(&mut self, node: NodeId) {
        let now = self.now;
        let actor = self.actor(node);
        let effects: Vec<_> = actor.out.drain().collect();
        let mut early = Vec::new();
        for effect in effects {
            let written = actor.first + actor.records.len() as u64 - 1;
            match effect {
                Effect::Send { to, msg, gate: Gate::Early } => early.push((to, msg)),
                Effect::Send { to, msg, gate: Gate::Durable } => {
                    actor.gated.push_back((written, Gated::Send(to, msg)));
                }
                Effect::Output { output, .. } => actor.gated.push_back((written, Gated::Output(output))),
                Effect::Arm { timer, after } => drop(actor.timers.insert(timer, now + after)),
                Effect::Disarm(timer) => drop(actor.timers.remove(&timer)),
                Effect::Persist(record) => actor.records.push_back(record),
                Effect::Discard(position) => {
                    while actor.first < position.0 {
                        actor.records.pop_front();
                        actor.first += 1;
                    }
                }
            }
        }
        for (to, msg) in early {
            self.send(node, to, msg);
        }
        self.sync(node);
    }

    fn send(&mut self, from: NodeId, to: NodeId, msg: Message) {
        if let Message::News { view, votes, .. } = &msg
            && let Some(known) = self.actors.get(&from).and_then(|actor| actor.machine.as_ref()?.view())
            && let Some(index) = known.members.iter().position(|member| member.id == from)
        {
            for vote in votes.iter().filter(|vote| vote.voters.has(index)) {
                self.votes.entry((from, view.seq, vote.rank)).or_default().insert(vote.digest);
            }
        }
        self.wire.push_back((from, to, msg));
    }

    /// What a node says; a parent answers every view at once.
    fn heed(&mut self, node: NodeId, output: Output) {
        self.say(format_args!("  {node:?} says {}", words::output(&output)));
        if let Output::Installed { view, .. } | Output::NextView { view, .. } = output {
            let state = Bytes::from(format!("state {}", view.seq()));
            self.step(node, Event::Input(Input::State { seq: view.seq(), state }));
        }
    }

    fn sync(&mut self, node: NodeId) {
        let actor = self.actor(node);
        if actor.held {
            return;
        }
        actor.durable = actor.first + actor.records.len() as u64 - 1;
        let durable = actor.durable;
        let mut open = Vec::new();
        while let Some((_, gated)) = actor.gated.pop_front_if(|(written, _)| *written <= durable) {
            open.push(gated);
        }
        for gated in open {
            match gated {
                Gated::Send(to, msg) if to == node => self.step(node, Event::Message { from: node, msg }),
                Gated::Send(to, msg) => self.send(node, to, msg),
                Gated::Output(output) => self.heed(node, output),
            }
        }
    }
}
