//! A stage for transcripts: a few logs whose messages, disks and clocks a script moves by hand.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::{Cx, Effect, Event, Gate, Machine, Marks, NodeId, Out, Position, Rng, Time, Wall};
use quorate_replog::{Config, Content, Entry, Input, Message, Output, Record, Replog, Timer};
use quorate_store::{Batch, MemoryStore, Store};

use super::parent::member;
use super::words::{self, timer_name};

/// One log and what is around it.
struct Actor {
    log: Option<Replog>,
    bootstrap: Vec<NodeId>,
    out: Out<Message, Timer, Record, Output>,
    rng: Rng,
    store: MemoryStore,
    records: VecDeque<Record>,
    first: u64,
    durable: u64,
    /// Nothing becomes durable until the script lets it.
    held: bool,
    gated: VecDeque<(u64, NodeId, Message)>,
    timers: BTreeMap<Timer, Time>,
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
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Stage {
    /// An empty stage; logs that enter it have this configuration.
    pub fn new(config: Config) -> Self {
        Stage {
            config,
            actors: BTreeMap::new(),
            wire: VecDeque::new(),
            // Clocks do not start at zero: a time of zero means never.
            now: Time(1_000_000_000),
            marks: Marks::default(),
            said: String::new(),
        }
    }

    /// The configuration of logs that enter from now on.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// What was said since the last call.
    pub fn take_said(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    /// A log enters and starts.
    pub fn enter(&mut self, node: NodeId, bootstrap: &[NodeId]) {
        let actor = Actor {
            log: None,
            bootstrap: bootstrap.to_vec(),
            out: Out::new(Position(1)),
            rng: Rng::new(node.0),
            store: MemoryStore::with_crash_model(),
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

    /// The log dies. What its disk had not confirmed is lost.
    pub fn crash(&mut self, node: NodeId) {
        let actor = self.actor(node);
        actor.log = None;
        actor.store.crash();
        actor.records.truncate((actor.durable + 1 - actor.first) as usize);
        actor.gated.clear();
        actor.timers.clear();
        actor.held = false;
    }

    /// The log comes back with its records.
    pub fn restart(&mut self, node: NodeId) {
        let (config, now) = (self.config.clone(), self.now);
        let Some(actor) = self.actors.get_mut(&node) else { panic!("{node:?} has not entered") };
        let members = actor.bootstrap.iter().copied().map(member).collect();
        let mut log = Replog::new(node, config, members);
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
            log.restore(&mut cx, Position(position), record.clone());
        }
        actor.log = Some(log);
        self.step(node, Event::Start);
    }

    /// Asks something of a log.
    pub fn ask(&mut self, node: NodeId, input: Input) {
        self.step(node, Event::Input(input));
    }

    /// Appends a command to a log.
    pub fn propose(&mut self, node: NodeId, value: &str) {
        self.ask(node, Input::Propose(Bytes::from(value.to_owned())));
    }

    /// Time passes; no timer fires.
    pub fn wait(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Time passes until a timer of a log is due, and it fires.
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

    /// The disk of a log confirms nothing from now on, or everything.
    pub fn hold_disk(&mut self, node: NodeId, held: bool) {
        self.actor(node).held = held;
        self.sync(node);
    }

    /// Delivers the first message that is on its way and wanted.
    pub fn deliver_one(&mut self, wanted: impl Fn(NodeId, NodeId, &Message) -> bool) {
        let at = self.wire.iter().position(|(from, to, msg)| wanted(*from, *to, msg));
        if let Some((from, to, msg)) = at.and_then(|at| self.wire.remove(at)) {
            self.arrive(from, to, msg);
        }
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

    /// A message arrives that nobody on the stage has sent.
    pub fn inject(&mut self, from: NodeId, to: NodeId, msg: Message) {
        self.arrive(from, to, msg);
    }

    /// Loses what is on its way and wanted.
    pub fn lose(&mut self, wanted: impl Fn(NodeId, NodeId, &Message) -> bool) {
        let before = self.wire.len();
        self.wire.retain(|(from, to, msg)| !wanted(*from, *to, msg));
        let lost = before - self.wire.len();
        self.say(format_args!("{lost} lost"));
    }

    /// The log of a node that lives.
    pub fn log(&self, node: NodeId) -> &Replog {
        match self.actors.get(&node).and_then(|actor| actor.log.as_ref()) {
            Some(log) => log,
            None => panic!("{node:?} does not live"),
        }
    }

    /// How often a mark was hit.
    pub fn mark(&self, name: &str) -> u64 {
        self.marks.count(name)
    }

    /// What is on its way.
    pub fn on_the_way(&self) -> impl Iterator<Item = &(NodeId, NodeId, Message)> {
        self.wire.iter()
    }

    /// Who a node is and what it holds.
    pub fn show(&mut self, node: NodeId) {
        let text = words::state(self.log(node));
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
        if self.actors.get(&to).is_none_or(|actor| actor.log.is_none()) {
            return self.say(format_args!("{to:?} is not there for {text}"));
        }
        if from != to {
            self.say(format_args!("{from:?} -> {to:?} {text}"));
        }
        self.step(to, Event::Message { from, msg });
    }

    fn step(&mut self, node: NodeId, event: Event<Message, Timer, Input>) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(&node) else { panic!("{node:?} has not entered") };
        let Some(log) = actor.log.as_mut() else { return };
        let before = self.marks.clone();
        let mut cx = Cx {
            me: node,
            now,
            wall: Wall::default(),
            rng: &mut actor.rng,
            store: &mut actor.store,
            marks: &mut self.marks,
        };
        log.step(&mut cx, event, &mut actor.out);
        log.check();
        let hit: Vec<&str> = self
            .marks
            .iter()
            .filter(|(name, count)| before.count(name) < *count)
            .map(|(name, _)| name)
            .collect();
        for name in hit {
            let name = name.strip_prefix("replog.").unwrap_or(name);
            writeln!(self.said, "  {node:?} marks {name}").expect("strings grow");
        }
        self.effects(node);
    }

    fn effects(&mut self, node: NodeId) {
        let now = self.now;
        let actor = self.actor(node);
        let effects: Vec<_> = actor.out.drain().collect();
        let mut told = Vec::new();
        let mut early = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { to, msg, gate: Gate::Early } => early.push((node, to, msg)),
                Effect::Send { to, msg, gate: Gate::Durable } => {
                    let written = actor.first + actor.records.len() as u64 - 1;
                    actor.gated.push_back((written, to, msg));
                }
                Effect::Arm { timer, after } => drop(actor.timers.insert(timer, now + after)),
                Effect::Disarm(timer) => drop(actor.timers.remove(&timer)),
                Effect::Persist(record) => actor.records.push_back(record),
                Effect::Discard(position) => {
                    while actor.first < position.0 {
                        actor.records.pop_front();
                        actor.first += 1;
                    }
                }
                Effect::Output { output, .. } => told.push(output),
            }
        }
        self.wire.extend(early);
        for output in told {
            self.heed(node, output);
        }
        self.sync(node);
    }

    /// What a log says; what is chosen is applied at once.
    fn heed(&mut self, node: NodeId, output: Output) {
        match output {
            Output::Chosen => self.apply(node),
            Output::Role | Output::Peers => {}
            output => self.say(format_args!("  {node:?} says {}", words::output(&output))),
        }
    }

    fn apply(&mut self, node: NodeId) {
        let actor = self.actor(node);
        let Some(log) = actor.log.as_ref() else { return };
        let (applied, chosen) = (log.applied(), log.chosen());
        if applied == chosen {
            return;
        }
        let mut text = String::new();
        for index in applied + 1..=chosen {
            let Some(Entry { content, .. }) = log.chosen_entry(index) else {
                panic!("entry {index} is gone")
            };
            write!(text, " {}", words::content(content)).expect("strings grow");
            let mut batch = Batch::default();
            if let Content::Command(bytes) = content {
                batch.put([&log.data_prefix()[..], &index.to_be_bytes()].concat(), bytes.clone());
            }
            let (key, value) = log.applied_row(index);
            batch.put(key, value);
            actor.store.apply(batch);
        }
        self.say(format_args!("  {node:?} applies{text}"));
        self.step(node, Event::Input(Input::Applied(chosen)));
    }

    fn sync(&mut self, node: NodeId) {
        let actor = self.actor(node);
        if actor.held {
            return;
        }
        actor.durable = actor.first + actor.records.len() as u64 - 1;
        let durable = actor.durable;
        let mut open = Vec::new();
        while let Some((_, to, msg)) = actor.gated.pop_front_if(|(written, ..)| *written <= durable) {
            open.push((to, msg));
        }
        for (to, msg) in open {
            if to == node {
                self.step(node, Event::Message { from: node, msg });
            } else {
                self.wire.push_back((node, to, msg));
            }
        }
    }
}
