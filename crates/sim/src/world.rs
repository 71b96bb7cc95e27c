//! The world: what happens when, and to whom.

use std::time::Duration;

use quorate_kernel::{Event, Machine, Marks, NodeId, Rng};

use crate::clock::{Clock, ClockOptions};
use crate::disk::{Disk, DiskOptions, SimStore};
use crate::faults::{Cure, Fault, Nemesis};
use crate::harness::{Agenda, Aim, Ask, Boot, Harness, Input, Verdict};
use crate::latency::nanos;
use crate::network::{LinkState, Network, NetworkOptions};
use crate::process::{Life, Nodes, OutOf, Process};
use crate::queue::Queue;
use crate::run::Failure;
use crate::service::{Service, Workers};
use crate::trace::{Trace, TraceLevel};

/// Messages and timers under way at the same time: more than any protocol needs in a thousand nodes, less than fills the
/// memory.
const UNDER_WAY_MAX: usize = 1 << 22;

/// What a world is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldOptions {
    /// Everything left to chance follows from it.
    pub seed: u64,
    /// How many nodes: identities 1 to this.
    pub nodes: usize,
    /// The network.
    pub network: NetworkOptions,
    /// The disks.
    pub disk: DiskOptions,
    /// The clocks.
    pub clock: ClockOptions,
    /// How long nodes work on what reaches them; `None`: no time at all.
    pub service: Option<Service>,
    /// Nodes start for the first time within this span.
    pub start_within: Duration,
    /// Events that a node has not taken yet (paused, or waiting for its disk) above which messages to it are lost.
    pub inbox_max: usize,
    /// Whether machines check themselves after every step; it takes the longer the more they hold. Off where nothing but time is
    /// measured.
    pub checks: bool,
    /// Events after which the run counts as running in circles.
    pub events_max: u64,
    /// How much is recorded.
    pub trace: TraceLevel,
}

impl WorldOptions {
    /// A calm world of `nodes` nodes.
    pub fn calm(seed: u64, nodes: usize) -> Self {
        WorldOptions {
            seed,
            nodes,
            network: NetworkOptions::default(),
            disk: DiskOptions::default(),
            clock: ClockOptions::default(),
            service: None,
            start_within: Duration::from_millis(1),
            inbox_max: 10_000,
            checks: true,
            events_max: 50_000_000,
            trace: TraceLevel::Cheap,
        }
    }
}

/// Something that reaches a node.
pub(crate) enum Arrival<M: Machine> {
    Message { from: NodeId, msg: M::Msg },
    Timer { timer: M::Timer, entry: u64 },
    Input(M::Input),
}

/// Something that happens at some time.
pub(crate) enum Happening<M: Machine> {
    Deliver(Delivery<M>),
    /// A timer, or a message to oneself: void if the node has died since.
    Local {
        place: u32,
        incarnation: u32,
        arrival: Arrival<M>,
    },
    Input {
        node: NodeId,
        input: M::Input,
    },
    /// A worker is done with it.
    Served {
        place: u32,
        incarnation: u32,
        arrival: Arrival<M>,
    },
    Synced {
        place: u32,
        incarnation: u32,
    },
    Checkpoint {
        place: u32,
        incarnation: u32,
    },
    Boot {
        place: u32,
        incarnation: u32,
    },
    Wake(u64),
    Strike(Fault),
    Cure {
        cure: Cure,
        healings: u64,
    },
    Aim {
        aim: Aim,
        node: NodeId,
        span: u64,
    },
}

/// A message on its way.
pub(crate) struct Delivery<M: Machine> {
    pub(crate) from_place: u32,
    pub(crate) to_place: u32,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) connection: u32,
    pub(crate) bytes: usize,
    pub(crate) msg: M::Msg,
}

/// How much of what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events taken from the queue and by machines.
    pub events: u64,
    /// Steps of machines.
    pub steps: u64,
    /// Messages handed to the network.
    pub messages_sent: u64,
    /// Bytes of these.
    pub bytes_sent: u64,
    /// Messages that reached a living node.
    pub messages_delivered: u64,
    /// Records written.
    pub records: u64,
    /// Syncs completed.
    pub syncs: u64,
}

/// A simulated cluster: the machines of a harness, and everything that can go wrong around them.
///
/// Scripted tests drive it by hand ([`World::run_for`], [`World::crash`], [`World::cut`], ...); [`crate::run`] plays a
/// whole drawn plan.
pub struct World<H: Harness> {
    pub(crate) harness: H,
    pub(crate) nodes: Nodes<H::Machine>,
    pub(crate) network: Network,
    pub(crate) queue: Queue<Happening<H::Machine>>,
    pub(crate) agenda: Agenda<Input<H>>,
    pub(crate) clogged: Vec<Delivery<H::Machine>>,
    pub(crate) nemesis: Option<Nemesis>,
    pub(crate) healings: u64,
    pub(crate) marks: Marks,
    pub(crate) counts: Counts,
    pub(crate) trace: Trace,
    pub(crate) failure: Option<Failure>,
    pub(crate) rng: Rng,
    pub(crate) options: WorldOptions,
    pub(crate) now: u64,
}

impl<H: Harness> std::fmt::Debug for World<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl<H: Harness> World<H> {
    /// A world whose nodes are about to start.
    pub fn new(options: WorldOptions, harness: H) -> Self {
        let mut rng = Rng::new(options.seed);
        let network = Network::new(options.network.clone(), options.nodes, rng.fork());
        let processes =
            (1..=options.nodes as u64).map(|id| new_process(NodeId(id), &options, &mut rng)).collect();
        let mut world = World {
            harness,
            nodes: Nodes { processes, places: (0..options.nodes as u32).collect() },
            network,
            queue: Queue::default(),
            agenda: Agenda::new(),
            clogged: Vec::new(),
            nemesis: None,
            healings: 0,
            marks: Marks::default(),
            counts: Counts::default(),
            trace: Trace::new(options.trace),
            failure: None,
            rng,
            options,
            now: 0,
        };
        for place in 0..world.options.nodes as u32 {
            let at = world.rng.between(0, nanos(world.options.start_within));
            world.queue.push(at, Happening::Boot { place, incarnation: 0 });
        }
        world.harness.start(&mut world.agenda);
        world.take_agenda();
        world
    }

    /// True time since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// All nodes.
    pub fn nodes(&self) -> &Nodes<H::Machine> {
        &self.nodes
    }

    /// The harness.
    pub fn harness(&self) -> &H {
        &self.harness
    }

    /// The harness, to change it between runs.
    pub fn harness_mut(&mut self) -> &mut H {
        &mut self.harness
    }

    /// Marks hit so far, by machines and by the world.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// How much of what happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A hash over everything that happened so far.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// The lines kept so far, with [`TraceLevel::Keep`].
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }

    /// The first property found broken, if one was. Nothing happens any more then.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Hands `input` to `node`, `after` from now.
    pub fn input(&mut self, after: Duration, node: NodeId, input: Input<H>) {
        self.queue.push(self.now.saturating_add(nanos(after)), Happening::Input { node, input });
    }

    /// Lets the world go on for a while.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now() + span);
    }

    /// Lets the world go on until `until`, or until a property is found broken.
    pub fn run_until(&mut self, until: Duration) {
        let until = nanos(until);
        while self.failure.is_none() && self.queue.next_at().is_some_and(|at| at <= until) {
            self.next();
        }
        if self.failure.is_none() {
            self.now = self.now.max(until);
        }
    }

    /// Lets the world go on until `done`, for `most` at most. Returns whether it came to that.
    pub fn run_until_done(&mut self, most: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now.saturating_add(nanos(most));
        while !done(self) {
            if self.failure.is_some() || self.queue.next_at().is_none_or(|at| at > until) {
                return false;
            }
            self.next();
        }
        true
    }

    /// Takes the next happening.
    fn next(&mut self) {
        let Some((at, happening)) = self.queue.pop() else { return };
        assert!(at >= self.now, "time goes forward");
        self.now = at;
        self.counts.events += 1;
        if self.counts.events > self.options.events_max {
            self.failure = Some(Failure::Liveness(format!(
                "{} events without an end: is a message or timer going round?",
                self.options.events_max
            )));
        }
        if self.queue.len() > UNDER_WAY_MAX && self.failure.is_none() {
            self.failure = Some(Failure::Liveness(format!(
                "{UNDER_WAY_MAX} messages and timers are under way: does one make two?"
            )));
        }
        match happening {
            Happening::Deliver(delivery) => self.deliver(delivery),
            Happening::Local { place, incarnation, arrival } => {
                if self.lives(place, incarnation) {
                    self.arrive(place as usize, arrival);
                }
            }
            Happening::Input { node, input } => self.hand_over(node, input),
            Happening::Served { place, incarnation, arrival } => {
                if self.lives(place, incarnation) {
                    self.nodes.processes[place as usize].workers.waiting -= 1;
                    self.arrive(place as usize, arrival);
                    self.serve_callers(place as usize);
                }
            }
            Happening::Synced { place, incarnation } => {
                if self.lives(place, incarnation) {
                    self.synced(place as usize);
                }
            }
            Happening::Checkpoint { place, incarnation } => {
                if self.lives(place, incarnation) {
                    self.nodes.processes[place as usize].store.complete();
                }
            }
            Happening::Boot { place, incarnation } => self.boot(place as usize, incarnation),
            Happening::Wake(token) => self.wake(token),
            Happening::Strike(fault) => self.strike(fault),
            Happening::Cure { cure, healings } => self.cure(cure, healings),
            Happening::Aim { aim, node, span } => self.aim(aim, node, span),
        }
        self.take_agenda();
    }

    fn lives(&self, place: u32, incarnation: u32) -> bool {
        let process = &self.nodes.processes[place as usize];
        process.machine.is_some() && process.incarnation == incarnation
    }

    fn deliver(&mut self, delivery: Delivery<H::Machine>) {
        let (from_place, to_place) = (delivery.from_place as usize, delivery.to_place as usize);
        match self.network.state(from_place, to_place, delivery.connection) {
            LinkState::Cut => return self.lose("cut", &delivery),
            LinkState::Clogged => {
                self.clogged.push(delivery);
                return;
            }
            LinkState::Open => {}
        }
        let process = &self.nodes.processes[to_place];
        if process.id != delivery.to || process.machine.is_none() {
            return self.lose("down", &delivery);
        }
        if process.inbox.len() + process.workers.waiting >= self.options.inbox_max {
            self.marks.hit("sim.network.inbox_full");
            return self.lose("inbox full", &delivery);
        }
        self.counts.messages_delivered += 1;
        self.serve(to_place, delivery.bytes, Arrival::Message { from: delivery.from, msg: delivery.msg });
    }

    /// Something from outside has reached a node, which takes it at once or when a worker is done with it.
    fn serve(&mut self, place: usize, bytes: usize, arrival: Arrival<H::Machine>) {
        let Some(service) = &self.options.service else { return self.arrive(place, arrival) };
        let process = &mut self.nodes.processes[place];
        if service.peers_first && matches!(arrival, Arrival::Input(_)) {
            process.callers.push_back(arrival);
            return self.serve_callers(place);
        }
        let done = process.workers.take(service, self.now, bytes, &mut self.rng);
        let incarnation = process.incarnation;
        self.queue.push(done, Happening::Served { place: place as u32, incarnation, arrival });
    }

    /// Workers that have nothing else to do take what came from outside.
    fn serve_callers(&mut self, place: usize) {
        let Some(service) = &self.options.service else { return };
        let process = &mut self.nodes.processes[place];
        while process.workers.waiting < service.workers
            && let Some(arrival) = process.callers.pop_front()
        {
            let done = process.workers.take(service, self.now, 0, &mut self.rng);
            let incarnation = process.incarnation;
            self.queue.push(done, Happening::Served { place: place as u32, incarnation, arrival });
        }
    }

    fn lose(&mut self, why: &str, delivery: &Delivery<H::Machine>) {
        self.trace.mix(1);
        if self.trace.wants_text() {
            let Delivery { from, to, msg, .. } = delivery;
            self.trace.line(self.now, format_args!("{to:?} lost ({why}) from {from:?}: {msg:?}"));
        }
    }

    /// Lets what a link held back go on, where the link is open again.
    pub(crate) fn release_clogged(&mut self) {
        for delivery in std::mem::take(&mut self.clogged) {
            self.queue.push(self.now, Happening::Deliver(delivery));
        }
    }

    fn hand_over(&mut self, node: NodeId, input: Input<H>) {
        let up = self.nodes.place(node).filter(|place| {
            let process = &self.nodes.processes[*place];
            process.id == node && process.machine.is_some()
        });
        match up {
            Some(place) => self.serve(place, 0, Arrival::Input(input)),
            None => {
                self.trace.mix(2);
                if self.trace.wants_text() {
                    self.trace.line(self.now, format_args!("{node:?} is down and refuses {input:?}"));
                }
                self.agenda.set_now(self.now);
                self.harness.refused(node, input, &mut self.agenda);
            }
        }
    }

    fn wake(&mut self, token: u64) {
        self.trace.mix(token);
        self.agenda.set_now(self.now);
        let verdict = self.harness.woken(token, &self.nodes, &mut self.agenda);
        self.judge(verdict);
    }

    /// Takes a verdict of the harness.
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        if let Err(broken) = verdict
            && self.failure.is_none()
        {
            self.trace.line(self.now, format_args!("BROKEN: {broken}"));
            self.failure = Some(Failure::Safety(broken));
        }
    }

    /// Queues what the harness asked for.
    pub(crate) fn take_agenda(&mut self) {
        if self.agenda.is_empty() {
            return;
        }
        for (at, ask) in self.agenda.take() {
            let happening = match ask {
                Ask::Input(node, input) => Happening::Input { node, input },
                Ask::Wake(token) => Happening::Wake(token),
                Ask::Fault(aim, node, span) => Happening::Aim { aim, node, span },
            };
            self.queue.push(at, happening);
        }
    }
}

/// A node with an empty disk that has not started yet.
pub(crate) fn new_process<M: Machine>(id: NodeId, options: &WorldOptions, rng: &mut Rng) -> Process<M> {
    let mut own = rng.fork();
    Process {
        id,
        incarnation: 0,
        life: Life::Down,
        next_boot: Boot::First,
        machine: None,
        out: OutOf::<M>::new(quorate_kernel::Position(1)),
        clock: Clock::new(&options.clock, 0, &mut own),
        rng: own,
        disk: Disk::new(options.disk),
        store: SimStore::new(options.disk),
        held: Default::default(),
        timers: Default::default(),
        entries: 0,
        inbox: Default::default(),
        workers: Workers::default(),
        callers: Default::default(),
        synced_unseen: false,
        disk_full: false,
        disk_slowness: 1,
    }
}

/// The kind of an event, for the cheap hash.
pub(crate) fn kind<Msg, Timer, Input>(event: &Event<Msg, Timer, Input>) -> u64 {
    match event {
        Event::Start => 3,
        Event::Message { from, .. } => 16 + from.0,
        Event::Timer(_) => 4,
        Event::Input(_) => 5,
    }
}
