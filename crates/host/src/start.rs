//! From a configuration to a running node.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Interest, Poll, Waker};
use quorate_engine::wal::{Recovery, Wal};
use quorate_kernel::{ClusterId, Cx, Marks, NodeId, Position, Rng, wire};
use quorate_node::Endpoints;
use quorate_resp::View;
use quorate_store::Store;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::admin::{Admin, SetLogFilter};
use crate::awake::Wakefulness;
use crate::clients::{About, Clients};
use crate::clock::Clock;
use crate::config::{Config, Durability};
use crate::control::{Addresses, Handle};
use crate::doors::{Doors, open_doors};
use crate::driver::{Driver, Joined, Live, Room, has_disk, waking};
use crate::error::{RunError, StartError};
use crate::hosted::Hosted;
use crate::peers::hello::{Myself, Shape};
use crate::peers::{Peers, Resolver};
use crate::process::{raise_descriptors, refuse_huge_pages};
use crate::sync::{SyncPolicy, SyncThread};
use crate::token;

/// Who a node is, as far as its data directory and its doors know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub id: NodeId,
    /// Its cluster; 0 until it has joined one.
    pub cluster: ClusterId,
    /// Where it can be reached.
    pub endpoints: Endpoints,
    /// What its cluster is made of; no buckets until it has joined one.
    pub shape: Shape,
}

/// What a node stands on: its identity, its log and its store.
pub struct Parts {
    /// The node.
    pub id: NodeId,
    /// Its cluster; 0 if it is to join one.
    pub cluster: ClusterId,
    /// What its cluster is made of; no buckets if it is to join one.
    pub shape: Shape,
    /// The materialised state.
    pub store: Box<dyn Store>,
    /// The log.
    pub wal: Wal,
    /// The records found in it.
    pub recovery: Recovery,
    /// Bytes free on the disk, if there is one.
    pub room: Option<Room>,
    /// Keeps the cluster's id and shape once they are known.
    pub joined: Option<Joined>,
    /// Seed of the node's chance.
    pub seed: u64,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("id", &self.id).field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What the program around a node lends it.
#[derive(Clone, Default)]
pub struct Options {
    /// Whether SIGTERM and SIGINT stop the node (a second one at once). They concern the whole process.
    pub handle_signals: bool,
    /// Sets the levels that are logged.
    pub set_log_filter: Option<SetLogFilter>,
    /// The configuration file, as INFO tells it.
    pub config_file: String,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("handle_signals", &self.handle_signals).finish_non_exhaustive()
    }
}

/// Starts nodes.
#[derive(Debug)]
pub struct Host;

/// A node that is ready to run on the thread that started it.
pub struct Running<M: Hosted> {
    driver: Driver<M>,
    handle: Handle,
    /// Closes its door when the node has ended.
    _admin: Option<Admin>,
}

impl<M: Hosted> std::fmt::Debug for Running<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl<M: Hosted> Running<M> {
    /// A way to the node from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs the node on this thread until it is asked to stop.
    ///
    /// # Errors
    /// [`RunError`] if it ends for another reason; what was not durable has not been acknowledged.
    pub fn run(self) -> Result<(), RunError> {
        self.driver.run()
    }
}

impl Host {
    /// Starts a node on what `parts` gives it; `make` makes the machine.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start_with<M: Hosted>(
        config: Config,
        options: Options,
        parts: Parts,
        make: impl FnOnce(&Identity) -> M,
    ) -> Result<Running<M>, StartError> {
        config.validate()?;
        let doors = open_doors(&config)?;
        launch(config, options, doors, parts, make)
    }
}

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Starts a node behind doors that are open.
pub(crate) fn launch<M: Hosted>(
    config: Config,
    options: Options,
    doors: Doors,
    parts: Parts,
    make: impl FnOnce(&Identity) -> M,
) -> Result<Running<M>, StartError> {
    let clock = Clock::start();
    refuse_huge_pages();
    check_descriptors(&config);
    let poll = Poll::new().map_err(system("an event queue"))?;
    let waker = Waker::new(poll.registry(), token::WAKER).map_err(system("a way to wake the loop"))?;
    let waker = Arc::new(waker);
    let endpoints = doors.endpoints(&config);
    let identity = Identity { id: parts.id, cluster: parts.cluster, endpoints, shape: parts.shape };
    let mut revived = restore(&identity, parts, clock, make)?;

    let (asking, controls) = mpsc::channel();
    let mut handle = Handle::new(asking, Arc::clone(&waker), clock.origin());
    handle.addresses = doors.addresses;
    handle.beat();
    let about = about(&config, &options, &doors.addresses);
    let mut clients = Clients::new(doors.clients, config.limits.clone(), about);
    let mut peers = Peers::new(
        doors.peer,
        Myself::new(&identity, config.asked_shape()).of(doors.founding),
        config.peers.clone(),
        Resolver::new(Arc::new(waking(&waker))),
        revived.rng.fork(),
        &config.cluster.join,
        clock.now(),
    );
    watch_doors(&poll, &mut clients, &mut peers).map_err(system("watching a door"))?;
    let signals = options.handle_signals.then(|| watch_signals(&poll)).transpose();
    let signals = signals.map_err(system("handling signals"))?;
    let sync_thread = has_disk(config.durable.mode).then(|| SyncThread::spawn(waking(&waker))).transpose();
    let sync_thread = sync_thread.map_err(system("a thread"))?;
    let admin = doors
        .admin
        .map(|listener| Admin::open(listener, handle.clone(), config.admin.clone(), options.set_log_filter));
    let admin = admin.transpose().map_err(system("the threads of the admin door"))?;
    tracing::info!(node = %identity.id, cluster = %identity.cluster, addresses = ?handle.addresses, "started");
    let driver = Driver {
        poll,
        handle: handle.clone(),
        controls,
        signals,
        clock,
        me: identity.id,
        machine: revived.machine,
        store: revived.store,
        rng: revived.rng,
        marks: revived.marks,
        clients,
        peers,
        live: Live::new(Position(revived.wal.next_position().0 - 1)),
        wal: revived.wal,
        room: revived.room,
        joined: revived.joined,
        sync_policy: SyncPolicy::new(Duration::from_micros(config.durable.inline_us_max)),
        sync_thread,
        wakefulness: Wakefulness::open(config.processors.awake),
        config,
    };
    Ok(Running { driver, handle, _admin: admin })
}

/// The machine with its memory back.
struct Revived<M> {
    machine: M,
    store: Box<dyn Store>,
    wal: Wal,
    rng: Rng,
    marks: Marks,
    room: Option<Room>,
    joined: Option<Joined>,
}

/// Makes the machine and gives it back what it persisted.
fn restore<M: Hosted>(
    identity: &Identity,
    parts: Parts,
    clock: Clock,
    make: impl FnOnce(&Identity) -> M,
) -> Result<Revived<M>, StartError> {
    let mut machine = make(identity);
    let mut store = parts.store;
    let (mut rng, mut marks) = (Rng::new(parts.seed), Marks::default());
    for record in parts.recovery {
        let (position, bytes) =
            record.map_err(|source| StartError::System { what: "reading the log", source })?;
        let Ok(record) = wire::decode::<M::Record>(&bytes) else {
            return Err(StartError::Record { position: position.0 });
        };
        let mut cx = Cx {
            me: identity.id,
            now: clock.now(),
            wall: Clock::wall(),
            rng: &mut rng,
            store: &mut *store,
            marks: &mut marks,
        };
        machine.restore(&mut cx, position, record);
    }
    Ok(Revived { machine, store, wal: parts.wal, rng, marks, room: parts.room, joined: parts.joined })
}

/// Every connection takes a descriptor; running out of them hurts peers and the log as well.
fn check_descriptors(config: &Config) {
    let of_one = config.limits.connections_max as u64 + config.peers.connections_max as u64;
    let wanted = of_one * u64::from(config.cluster.cores);
    let allowed = raise_descriptors(wanted);
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "the system allows fewer open files than limits.connections_max and peers.connections_max need: lower \
             them, or raise the limit (ulimit -n)"
        );
    }
}

fn watch_doors(poll: &Poll, clients: &mut Clients, peers: &mut Peers) -> io::Result<()> {
    let registry = poll.registry();
    for (view, listener) in clients.listeners() {
        let door = match view {
            View::Standalone => token::CLIENT_DOOR,
            View::Cluster => token::CLUSTER_DOOR,
        };
        registry.register(listener, door, Interest::READABLE)?;
    }
    registry.register(peers.listener(), token::PEER_DOOR, Interest::READABLE)
}

fn about(config: &Config, options: &Options, addresses: &Addresses) -> About {
    let mut run_id = Rng::new(Clock::wall_us() ^ u64::from(std::process::id()) << 40);
    let facts = quorate_resp::Facts {
        operating_system: std::env::consts::OS.into(),
        process_id: std::process::id(),
        run_id: format!(
            "{:016x}{:016x}{:08x}",
            run_id.next_u64(),
            run_id.next_u64(),
            run_id.next_u64() as u32
        ),
        port: addresses.client.map_or(0, |address| address.port()),
        cluster_port: addresses.cluster.map_or(0, |address| address.port()),
        executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
        config_file: options.config_file.clone(),
        durable: config.durable.mode == Durability::Disk,
        memory_max_bytes: if has_disk(config.durable.mode) { 0 } else { config.storage.memory_bytes_max.0 },
        loading: true,
        ..quorate_resp::Facts::default()
    };
    About { facts, replicas: 0, data: config.cluster.data.clone(), has_disk: has_disk(config.durable.mode) }
}

/// Turns SIGTERM and SIGINT into events; from the second on they end the process at once.
fn watch_signals(poll: &Poll) -> io::Result<UnixStream> {
    /// What shells report for a process that an interrupt has ended.
    const EXIT_INTERRUPTED: i32 = 130;
    let (sender, receiver) = std::os::unix::net::UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED, Arc::clone(&seen))?;
        signal_hook::flag::register(signal, Arc::clone(&seen))?;
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let mut receiver = UnixStream::from_std(receiver);
    poll.registry().register(&mut receiver, token::SIGNAL, Interest::READABLE)?;
    Ok(receiver)
}
