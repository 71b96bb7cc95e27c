//! The loop: one thread, each step run to completion, batching by what has arrived.
//!
//! One turn: wait; read whatever has come from clients and peers; step the machine through it, writing records to
//! the log's buffer; send what may go early; write and sync the log once; let go what waited for that; send the
//! rest. A sync that takes long runs beside the loop, which meanwhile goes on with everything that need not wait.

mod control;
mod effects;
mod shutdown;
mod sync;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU16;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mio::{Events, Poll};
use quorate_engine::wal::Wal;
use quorate_kernel::{ClusterId, Event, Marks, NodeId, Position, Rng, Time};
use quorate_node::{AdminOutcome, Input, Output, Ticket};
use quorate_store::Store;

use crate::awake::Wakefulness;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::{Config, Durability};
use crate::control::{Control, Handle};
use crate::error::RunError;
use crate::hosted::{EventOf, Hosted, OutOf};
use crate::peers::hello::Shape;
use crate::peers::{PeerEvent, Peers};
use crate::stats::{Distributions, HostStats};
use crate::sync::{SyncPolicy, SyncThread};
use crate::timers::Timers;
use crate::token;
use shutdown::Stopping;
use told::Told;

/// Time between looks at the disk, idle clients and figures that change slowly.
const HOUSEKEEPING: Duration = Duration::from_millis(500);
/// How long nothing must have been appended before the log is settled.
const SETTLE_AFTER: Duration = Duration::from_millis(50);
/// How often effects that come back to the node itself are stepped within one turn; the rest waits for the next.
const ROUNDS_A_TURN: usize = 16;
/// Events taken from the system at once.
const EVENTS: usize = 1_024;

/// An effect that waits for the disk.
enum Held<Msg> {
    Send(NodeId, Msg),
    Output(Output),
    Discard(Position),
}

/// How many bytes the disk has left.
pub type Room = Box<dyn FnMut() -> io::Result<u64>>;
/// Keeps the cluster's id and shape once they are known.
pub type Joined = Box<dyn FnMut(ClusterId, Shape) -> io::Result<()>>;

/// Everything a loop owns.
pub(crate) struct Driver<M: Hosted> {
    pub(crate) poll: Poll,
    pub(crate) handle: Handle,
    pub(crate) controls: mpsc::Receiver<Control>,
    pub(crate) signals: Option<mio::net::UnixStream>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) me: NodeId,
    pub(crate) machine: M,
    pub(crate) store: Box<dyn Store>,
    pub(crate) rng: Rng,
    pub(crate) marks: Marks,
    pub(crate) clients: Clients,
    pub(crate) peers: Peers,
    pub(crate) wal: Wal,
    pub(crate) room: Option<Room>,
    pub(crate) joined: Option<Joined>,
    pub(crate) sync_policy: SyncPolicy,
    pub(crate) sync_thread: Option<SyncThread>,
    pub(crate) wakefulness: Wakefulness,
    pub(crate) live: Live<M>,
}

/// The state that changes from turn to turn.
pub(crate) struct Live<M: Hosted> {
    timers: Timers<M::Timer>,
    out: OutOf<M>,
    /// Events that the node's own effects brought about.
    own: VecDeque<EventOf<M>>,
    /// Effects that wait, each for the records up to its position.
    held: VecDeque<(Position, Held<M::Msg>)>,
    /// The newest record appended.
    appended: Position,
    /// Whether a sync runs beside the loop.
    syncing: bool,
    /// Whether records wait for room on the disk.
    write_blocked: bool,
    /// Bytes appended since the log's last step of housekeeping.
    prepare_owed: u64,
    /// When the log may be settled, if nothing is appended until then.
    settle_at: Option<Time>,
    /// When records must be synced, in mode "interval".
    sync_at: Option<Time>,
    replies: Vec<Output>,
    admin: BTreeMap<Ticket, mpsc::Sender<AdminOutcome>>,
    next_admin: u64,
    stopping: Option<Stopping>,
    /// The machine has said that nothing is left to wait for.
    ready_to_stop: bool,
    housekeeping_at: Time,
    /// Whether writes are refused for want of room.
    full: bool,
    told: Told,
    stats: HostStats,
    commands_before: u64,
    distributions: Distributions,
}

impl<M: Hosted> Live<M> {
    /// As it is when `last` is the newest record found.
    pub(crate) fn new(last: Position) -> Self {
        Live {
            timers: Timers::new(),
            out: OutOf::<M>::new(last.next()),
            own: VecDeque::new(),
            held: VecDeque::new(),
            appended: last,
            syncing: false,
            write_blocked: false,
            // A new log's first segment is not laid out yet.
            prepare_owed: 2 * sync::PREPARE_EVERY,
            settle_at: None,
            sync_at: None,
            replies: Vec::new(),
            admin: BTreeMap::new(),
            next_admin: 0,
            stopping: None,
            ready_to_stop: false,
            housekeeping_at: Time(0),
            full: false,
            told: Told::default(),
            stats: HostStats::default(),
            commands_before: 0,
            distributions: Distributions::default(),
        }
    }
}

impl<M: Hosted> Driver<M> {
    /// Runs until the node has stopped.
    pub(crate) fn run(mut self) -> Result<(), RunError> {
        let mut events = Events::with_capacity(EVENTS);
        self.step(Event::Start);
        self.settle()?;
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(RunError::System { what: "waiting for events", source }),
            }
            self.handle.beat();
            let began = self.clock.now();
            self.wakefulness.turn(began);
            self.turn(&events, began)?;
            let took = self.clock.now().since(began);
            self.live.stats.turns += 1;
            self.live.distributions.turn.record(took);
            if self.stopped()? {
                return Ok(());
            }
        }
    }

    /// How long the loop may wait for events.
    fn timeout(&self) -> Option<Duration> {
        let now = self.clock.now();
        let unwritten = self.wal.staged_bytes() > 0 && !self.live.write_blocked;
        let busy =
            !self.live.own.is_empty() || unwritten || self.clients.has_work(now) || self.peers.has_unread();
        if busy {
            return Some(Duration::ZERO);
        }
        let log_is_free = !self.live.syncing && !self.live.write_blocked;
        let deadlines = [
            self.live.timers.next(),
            self.peers.deadline(),
            self.clients.deadline(),
            self.live.sync_at.filter(|_| log_is_free),
            self.live.settle_at.filter(|_| log_is_free),
            self.live.stopping.as_ref().map(|stopping| stopping.deadline(now)),
            Some(self.live.housekeeping_at),
        ];
        deadlines.into_iter().flatten().min().map(|at| at.since(now))
    }

    /// One turn.
    fn turn(&mut self, events: &Events, now: Time) -> Result<(), RunError> {
        self.take_events(events, now);
        self.take_sync()?;
        self.take_controls();
        while let Some(timer) = self.live.timers.due(now) {
            self.step(Event::Timer(timer));
        }
        self.read_peers(now)?;
        self.read_clients();
        // What was put off until all that has arrived is taken.
        let now = self.clock.now();
        while let Some(timer) = self.live.timers.due(now) {
            self.step(Event::Timer(timer));
        }
        self.settle()?;
        if now >= self.live.housekeeping_at {
            self.housekeeping(now)?;
            self.settle()?;
        }
        Ok(())
    }

    /// Sorts the events of the poll.
    fn take_events(&mut self, events: &Events, now: Time) {
        for event in events {
            match event.token() {
                token::WAKER => {}
                token::SIGNAL => self.signalled(),
                token::CLIENT_DOOR | token::CLUSTER_DOOR => self.clients.door(now),
                token::PEER_DOOR => self.peers.door(now),
                at => match token::family(at) {
                    token::Family::Client => self.clients.event(event),
                    _ => self.peers.ready(event, now),
                },
            }
        }
    }

    /// Takes in what peers have sent, and what has become of connections to them.
    fn read_peers(&mut self, now: Time) -> Result<(), RunError> {
        self.peers.tick(self.poll.registry(), now);
        let mut events = self.peers.take_events();
        let lost = events.iter().position(|event| matches!(event, PeerEvent::Lost(_)));
        // What a peer said before its connection ended comes first: its last words would pass for a sign of life.
        let mut later = events.split_off(lost.unwrap_or(events.len()));
        self.connection_events(events)?;
        let mut messages = Vec::new();
        self.peers.read(now, |from, bytes| match quorate_kernel::wire::decode::<M::Msg>(bytes) {
            Ok(msg) => {
                messages.push((from, msg));
                true
            }
            Err(_) => false,
        });
        for (from, msg) in messages {
            self.step(Event::Message { from, msg });
        }
        later.extend(self.peers.take_events());
        self.connection_events(later)
    }

    fn connection_events(&mut self, events: Vec<PeerEvent>) -> Result<(), RunError> {
        for event in events {
            self.clients.keeper.doubt();
            match event {
                PeerEvent::Connected(id) => self.step(Event::Input(Input::PeerConnected(id))),
                PeerEvent::Lost(id) => self.step(Event::Input(Input::PeerLost(id))),
                PeerEvent::Joined(cluster, shape) => self.join(cluster, shape)?,
            }
        }
        Ok(())
    }

    /// The cluster's shape must be on disk before a record of one of its buckets is.
    fn join(&mut self, cluster: ClusterId, shape: Shape) -> Result<(), RunError> {
        tracing::info!(%cluster, %shape, "joined a cluster");
        if let Some(keep) = &mut self.joined {
            let failed = |source| RunError::Disk { doing: "keeping which cluster it joined", source };
            keep(cluster, shape).map_err(failed)?;
        }
        if let Some(buckets) = NonZeroU16::new(shape.buckets).filter(|_| shape != Shape::PLAIN) {
            let Shape { copies, topology, .. } = shape;
            self.step(Event::Input(Input::Shape { buckets, copies, topology }));
        }
        Ok(())
    }

    /// Takes in what clients have sent.
    fn read_clients(&mut self) {
        let (now, wall_us) = (self.clock.now(), Clock::wall_us());
        if self.clients.show_cluster() {
            let machine = &self.machine;
            self.clients.keeper.refresh(self.me, machine.believed_leaders(), || machine.map());
        }
        self.clients.accept(self.poll.registry(), now, wall_us);
        self.clients.read(now, wall_us);
        self.clients.refuse_excess(now, wall_us);
        for connection in std::mem::take(&mut self.clients.closed) {
            self.step(Event::Input(Input::ConnectionClosed(connection)));
        }
        if !self.clients.batch.is_empty() {
            let batch = std::mem::take(&mut self.clients.batch);
            self.step(Event::Input(Input::Requests(batch)));
        }
    }

    /// Lets everything that the turn has brought about take its way: early messages, the disk, what waited for it,
    /// answers.
    fn settle(&mut self) -> Result<(), RunError> {
        // Nobody waits for the disk who need not.
        self.send_out();
        self.persist()?;
        for _ in 0..ROUNDS_A_TURN {
            self.release()?;
            if self.live.own.is_empty() {
                break;
            }
            while let Some(event) = self.live.own.pop_front() {
                self.step(event);
            }
        }
        self.send_out();
        Ok(())
    }

    /// Gives all that is ready to the system.
    fn send_out(&mut self) {
        let now = self.clock.now();
        self.peers.flush(now);
        if !self.live.replies.is_empty() {
            self.answer(now);
        }
        self.clients.flush(now);
    }
}

/// The waker as a plain function.
pub(crate) fn waking(waker: &Arc<mio::Waker>) -> impl Fn() + Send + Sync + 'static {
    let waker = Arc::clone(waker);
    move || {
        // A loop that has ended needs no waking.
        let _ = waker.wake();
    }
}

/// Whether records reach a disk at all.
pub(crate) fn has_disk(mode: Durability) -> bool {
    mode != Durability::Memory
}
