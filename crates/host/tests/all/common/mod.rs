//! A small machine to host, a client to talk to it, and a disk that does as it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_api::{Bucket, Culprit, Outcome, Reason, ReasonKind, Refusal, Reply, Request, Version};
use quorate_engine::files::{File, Files};
use quorate_engine::testing::MemoryFiles;
use quorate_engine::wal::{self, Wal};
use quorate_host::config::Durability;
use quorate_host::{Config, Handle, Host, Hosted, Identity, Options, Parts, RunError, Running, StartError};
use quorate_kernel::{ClusterId, Cx, Event, Machine, NodeId, Out, Position};
use quorate_node::{
    AdminOutcome, AdminRequest, Agreement, ClientRequest, GroupId, GroupRequest, How, Input, Journal, Map,
    Member, Motive, Output, Status, What,
};
use quorate_store::MemoryStore;
use serde::{Deserialize, Serialize};

/// Longest wait for anything in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Polls until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < give_up, "waited too long until {what}");
        thread::yield_now();
    }
}

/// A key-value machine that is alone, but sends a copy of every write to each peer.
pub(crate) struct Toy {
    identity: Identity,
    data: BTreeMap<Vec<u8>, Vec<u8>>,
    peers: Vec<Member>,
    /// Peers to which a connection stands.
    connected: Vec<NodeId>,
    /// How often connections broke.
    lost: u64,
    /// How many keys there were when a peer was lost last.
    known_at_loss: u64,
    disk_full: bool,
    stopping: bool,
    /// Requests for key `hold`, answered when the connection closes or never.
    held: u64,
    journal: Journal,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Msg {
    Copy(Vec<u8>, Vec<u8>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record(Vec<u8>, Vec<u8>);

type Effects = Out<Msg, u8, Record, Output>;

impl Toy {
    pub(crate) fn new(identity: &Identity, peers: Vec<Member>) -> Toy {
        Toy {
            identity: identity.clone(),
            data: BTreeMap::new(),
            peers,
            connected: Vec::new(),
            lost: 0,
            known_at_loss: 0,
            disk_full: false,
            stopping: false,
            held: 0,
            journal: Journal::default(),
        }
    }

    fn request(&mut self, one: ClientRequest, out: &mut Effects) {
        let end = |outcome| Output::Replies(vec![(one.connection, one.ticket, outcome)]);
        let command = match &one.request {
            Request::One(command) => command,
            Request::Versions(keys) => {
                return out.output(end(Outcome::Done(Reply::Array(vec![Reply::Int(1); keys.len()]))));
            }
            Request::Transaction { watched, .. } if !watched.is_empty() => {
                let reason = outrun(watched);
                out.output_early(Output::Reason(one.connection, one.ticket, Box::new(reason)));
                // Later than what comes behind it.
                return out.output(end(Outcome::Done(Reply::NilArray)));
            }
            Request::Transaction { .. } | Request::Collect { .. } => {
                return out.output(end(Outcome::Done(Reply::Array(Vec::new()))));
            }
        };
        let name = quorate_values::by_code(command.code).expect("known").name;
        let key = command.args[0].to_vec();
        match name {
            "set" if self.disk_full => {
                out.output_early(end(Outcome::Refused(quorate_api::Refusal::NoSpace)));
            }
            "set" => {
                let value = command.args[1].to_vec();
                out.persist(Record(key.clone(), value.clone()));
                let sent = if key == b"huge" { value.repeat(20) } else { value.clone() };
                for peer in self.peers.iter().filter(|peer| peer.id != self.identity.id) {
                    out.send(peer.id, Msg::Copy(key.clone(), sent.clone()));
                }
                self.data.insert(key, value);
                out.output(end(Outcome::Done(Reply::Ok)));
            }
            _ if key == b"hold" => self.held += 1,
            _ if key == b"gone" => out.output_early(end(Outcome::Refused(Refusal::NotServing))),
            _ if key == b"big" => out.output_early(end(Outcome::Done(Reply::bulk(vec![b'x'; 100_000])))),
            _ => {
                let reply = self.data.get(&key).map_or(Reply::Nil, |value| Reply::bulk(value.clone()));
                // Answered at once although writes may wait for the disk: shows that answers keep their order.
                out.output_early(end(Outcome::Done(reply)));
            }
        }
    }
}

/// All that is watched has changed.
fn outrun(watched: &[(Bytes, Version)]) -> Reason {
    let (key, version) = watched[0].clone();
    Reason {
        kind: ReasonKind::Changed,
        bucket: Bucket(0),
        key: Some(key),
        versions: Some((version, Version(version.0 + 1))),
        by: Culprit::default(),
        waited_ms: 0,
    }
}

impl Machine for Toy {
    type Msg = Msg;
    type Timer = u8;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, _cx: &mut Cx<'_>, _position: Position, record: Record) {
        self.data.insert(record.0, record.1);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Msg, u8, Input>, out: &mut Effects) {
        match event {
            Event::Start => {
                out.output(Output::Peers(self.peers.clone()));
                out.arm(7, Duration::from_millis(5));
            }
            Event::Timer(_) => {
                cx.marks.hit("toy.timer");
                out.arm(7, Duration::from_millis(5));
            }
            Event::Message { msg: Msg::Copy(key, value), .. } => {
                self.data.insert(key, value);
            }
            Event::Input(Input::Requests(all)) => all.into_iter().for_each(|one| self.request(one, out)),
            Event::Input(Input::PeerConnected(id)) => {
                assert!(!self.connected.contains(&id), "connected twice");
                self.connected.push(id);
            }
            Event::Input(Input::PeerLost(id)) => {
                self.connected.retain(|other| *other != id);
                self.lost += 1;
                self.known_at_loss = self.data.len() as u64;
            }
            Event::Input(Input::ConnectionClosed(_)) => self.held = 0,
            Event::Input(Input::Admin(ticket, AdminRequest::Group(GroupRequest::Split { group }))) => {
                let into = [GroupId(8), GroupId(9)];
                let what = What::Split { group, into, nodes: Default::default(), border: Bucket(1) };
                let begun = self.journal.begin((cx.now, cx.wall), what, Motive::Asked);
                self.journal.end(cx.now, begun, How::Done);
                out.output(Output::Admin(ticket, AdminOutcome::Done));
            }
            Event::Input(Input::Admin(
                ticket,
                AdminRequest::TransferLeadership { .. }
                | AdminRequest::SetCopies { copies: 1..=9 }
                | AdminRequest::Recover { bucket: Bucket(0) },
            )) => {
                out.output(Output::Admin(ticket, AdminOutcome::Done));
            }
            Event::Input(Input::Admin(
                ticket,
                AdminRequest::ChangeMembers { .. } | AdminRequest::SetCopies { .. } | AdminRequest::Group(_),
            )) => {
                out.output(Output::Admin(ticket, AdminOutcome::Refused("toys do not change".into())));
            }
            Event::Input(Input::Admin(ticket, AdminRequest::Recover { .. })) => {
                out.output(Output::Admin(ticket, AdminOutcome::Refused("that one is not halted".into())));
            }
            Event::Input(Input::Shape { .. }) => {}
            Event::Input(Input::Full(full)) => self.disk_full = full,
            Event::Input(Input::Stop) => {
                self.stopping = true;
                out.output(Output::ReadyToStop);
            }
        }
    }
}

impl Hosted for Toy {
    fn status(&self) -> Status {
        Status {
            id: self.identity.id,
            role: "toy".into(),
            ready: !self.disk_full,
            believed_leader: None,
            epoch: self.lost,
            copies: 0,
            members: self.peers.clone(),
            learners: self.connected.clone(),
            log_last: self.known_at_loss,
            log_chosen: 0,
            log_applied: 0,
            log_first: 0,
            keys: self.data.len() as u64,
            store_bytes: 0,
            requests_pending: self.held,
            followers: Vec::new(),
            groups: Vec::new(),
            buckets: Vec::new(),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.journal)
    }

    fn agreement(&self) -> Option<Agreement> {
        None
    }

    fn map(&self) -> Map {
        Map { epoch: 0, members: Vec::new(), reachable: BTreeSet::new(), buckets: Vec::new() }
    }

    fn believed_leaders(&self) -> impl Iterator<Item = Option<NodeId>> {
        [None].into_iter()
    }
}

/// A file system whose syncs can be made slow, stopped or failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    pub(crate) files: MemoryFiles,
    pub(crate) control: Arc<DiskControl>,
}

#[derive(Debug, Default)]
pub(crate) struct DiskControl {
    /// Syncs wait while this is set.
    stopped: Mutex<bool>,
    moved: Condvar,
    /// Microseconds each sync takes longer.
    pub(crate) delay_us: AtomicU64,
    pub(crate) fail: AtomicBool,
    pub(crate) waiting: AtomicU64,
}

impl DiskControl {
    pub(crate) fn stop(&self, stopped: bool) {
        *self.stopped.lock().expect("not poisoned") = stopped;
        self.moved.notify_all();
    }

    fn sync(&self) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let stopped = self.stopped.lock().expect("not poisoned");
        drop(self.moved.wait_while(stopped, |stopped| *stopped).expect("not poisoned"));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let until = Instant::now() + Duration::from_micros(self.delay_us.load(Ordering::SeqCst));
        while Instant::now() < until {
            thread::yield_now();
        }
        if self.fail.load(Ordering::SeqCst) { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct DiskFile(Arc<dyn File>, Arc<DiskControl>);

impl File for DiskFile {
    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        self.1.sync()?;
        self.0.write_durably(offset, bytes)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.sync()?;
        self.0.sync()
    }
}

impl Disk {
    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(DiskFile(file, Arc::clone(&self.control)))
    }
}

impl Files for Disk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.files.open(path)?))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.files.create(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
}

/// What a test wants.
pub(crate) struct Wish {
    pub(crate) id: u64,
    pub(crate) cluster: u64,
    pub(crate) config: Config,
    pub(crate) disk: Disk,
    pub(crate) peers: Vec<Member>,
    /// Free bytes the node is told of.
    pub(crate) free: Arc<AtomicU64>,
    pub(crate) options: Options,
}

/// A configuration with every door on a port of the system's choice.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.listen.client = "127.0.0.1:0".into();
    config.listen.cluster = "127.0.0.1:0".into();
    config.listen.peer = "127.0.0.1:0".into();
    config.listen.admin = String::new();
    config.cluster.data = "unused".into();
    config
}

pub(crate) fn wish() -> Wish {
    Wish {
        id: 1,
        cluster: 7,
        config: config(),
        disk: Disk::default(),
        peers: Vec::new(),
        free: Arc::new(AtomicU64::new(u64::MAX)),
        options: Options::default(),
    }
}

/// A node that runs on a thread of its own.
pub(crate) struct Node {
    pub(crate) handle: Handle,
    thread: Option<NodeThread>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

/// What a node's thread ends with.
pub(crate) type NodeThread = JoinHandle<Result<(), RunError>>;

/// Starts a node on a thread of its own, and runs it there.
pub(crate) fn on_a_thread<M: Hosted>(
    start: impl FnOnce() -> Result<Running<M>, StartError> + Send + 'static,
) -> Result<(Handle, NodeThread), StartError> {
    let (told, started) = mpsc::channel();
    let thread = thread::spawn(move || match start() {
        Ok(running) => {
            told.send(Ok(running.handle())).expect("the test waits");
            running.run()
        }
        Err(error) => {
            told.send(Err(error)).expect("the test waits");
            Ok(())
        }
    });
    Ok((started.recv().expect("the node says how it started")?, thread))
}

pub(crate) fn start(wish: Wish) -> Result<Node, StartError> {
    let (handle, thread) = on_a_thread(move || {
        let mut options = wal::Options::new(ClusterId(wish.cluster), NodeId(wish.id));
        options.segment_bytes = 64 << 10;
        options.durability = match wish.config.durable.mode {
            Durability::Disk => wal::Durability::Disk,
            Durability::Interval => {
                wal::Durability::Interval(Duration::from_millis(wish.config.durable.interval_ms))
            }
            Durability::Memory => wal::Durability::Memory,
        };
        let (wal, recovery) =
            Wal::open_on(Arc::new(wish.disk.clone()), Path::new("/log"), options).expect("a log");
        let free = wish.free;
        let parts = Parts {
            id: NodeId(wish.id),
            cluster: ClusterId(wish.cluster),
            shape: quorate_host::Shape { buckets: u16::from(wish.cluster != 0), ..Default::default() },
            store: Box::new(MemoryStore::default()),
            wal,
            recovery,
            room: Some(Box::new(move || Ok(free.load(Ordering::SeqCst)))),
            joined: None,
            seed: wish.id,
        };
        let peers = wish.peers;
        Host::start_with(wish.config, wish.options, parts, |identity| Toy::new(identity, peers))
    })?;
    Ok(Node { handle, thread: Some(thread) })
}

impl Node {
    pub(crate) fn client_address(&self) -> SocketAddr {
        self.handle.addresses().client.expect("a client door")
    }

    pub(crate) fn peer_address(&self) -> SocketAddr {
        self.handle.addresses().peer.expect("a peer door")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.client_address())
    }

    pub(crate) fn status(&self) -> Status {
        self.handle.snapshot(PATIENCE).expect("an answer").node
    }

    pub(crate) fn stats(&self) -> quorate_host::HostStats {
        self.handle.snapshot(PATIENCE).expect("an answer").host
    }

    /// Stops the node and says how it ended.
    pub(crate) fn stop(mut self) -> Result<(), RunError> {
        self.handle.stop();
        self.join()
    }

    /// Waits for its end.
    pub(crate) fn join(&mut self) -> Result<(), RunError> {
        self.thread.take().expect("joined once").join().expect("no panic")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.stop();
            if !thread::panicking() {
                drop(thread.join().expect("no panic"));
            }
        }
    }
}

/// A client that speaks bytes.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Client { stream }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the node reads");
    }

    /// Reads exactly what is expected.
    pub(crate) fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut got = vec![0; expected.len()];
        let mut filled = 0;
        while filled < got.len() {
            match self.stream.read(&mut got[filled..]) {
                Ok(0) => panic!("closed after {:?}", String::from_utf8_lossy(&got[..filled])),
                Ok(count) => filled += count,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&got[..filled])),
            }
        }
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected));
    }

    /// Reads until the node closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = Vec::new();
        match self.stream.read_to_end(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Asserts that nothing has come.
    pub(crate) fn expect_silence(&mut self) {
        self.stream.set_nonblocking(true).expect("a socket");
        let got = self.stream.read(&mut [0; 16]).map_err(|error| error.kind());
        assert_eq!(got, Err(io::ErrorKind::WouldBlock));
        self.stream.set_nonblocking(false).expect("a socket");
    }
}

/// A command as Redis clients send it.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
