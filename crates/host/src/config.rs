//! The configuration of a node: one tree, each field documented once, for the reader of this file, for rustdoc and
//! for `quorate config default` alike.

mod load;
mod macros;
mod validate;

use std::fmt;
use std::num::NonZeroU16;

use quorate_node::Topology;
use serde::{Deserialize, Serialize};

use macros::{document, section};

use crate::peers::hello::Shape;

pub use load::{ConfigError, ENVIRONMENT_PREFIX, Fields};

/// Buckets of a new cluster, unless something else is set.
pub const BUCKETS_DEFAULT: NonZeroU16 = NonZeroU16::MIN;

/// Buckets of a new cluster whose nodes form groups, and the nodes of a group, unless something else is set.
const RING_DEFAULTS: (u16, u8) = (32, 3);

/// So many listed first members form groups, unless something else is set: fewer do best with everything everywhere.
const RING_FROM: usize = 6;

impl Config {
    /// What a new cluster is made of that this node founds, alone or as one of `cluster.members`; no buckets for a node that joins one and
    /// learns it there.
    pub fn shape(&self) -> Shape {
        let Cluster { join, members, .. } = &self.cluster;
        if join.is_empty() { self.shape_of(members.len()) } else { Shape::default() }
    }

    /// What a new cluster is made of whose list of first members has this length; 0: there is no list, one node founds alone.
    pub fn shape_of(&self, listed: usize) -> Shape {
        let Cluster { buckets, copies, topology, .. } = self.cluster;
        let topology = match topology {
            AskedTopology::View => Topology::View,
            AskedTopology::Ring => Topology::Ring,
            AskedTopology::Auto if buckets > 0 || copies > 0 => Topology::View,
            AskedTopology::Auto => match listed {
                // Nobody says how many will join it, and a cluster keeps its topology: thirty nodes must not all hold one log.
                0 | RING_FROM.. => Topology::Ring,
                1..RING_FROM => Topology::View,
            },
        };
        let (buckets_default, copies_default) = match topology {
            Topology::Ring => RING_DEFAULTS,
            Topology::View => (BUCKETS_DEFAULT.get(), 0),
        };
        let buckets = if buckets == 0 { buckets_default } else { buckets };
        let copies = if copies == 0 { copies_default } else { copies };
        Shape { buckets, copies, topology }
    }

    /// What a cluster that exists must be made of, as far as something is set; 0: nothing is. "view" asks for nothing: files that were printed
    /// when it was the default say so, and their nodes join rings.
    pub(crate) fn asked_shape(&self) -> Shape {
        let Cluster { buckets, copies, topology, .. } = self.cluster;
        let topology = if topology == AskedTopology::Ring { Topology::Ring } else { Topology::View };
        Shape { buckets, copies, topology }
    }
}

/// Who decides which nodes hold which buckets, as far as somebody has said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedTopology {
    /// As [`Config::shape`] decides for a new cluster.
    #[default]
    Auto,
    /// [`Topology::View`].
    View,
    /// [`Topology::Ring`].
    Ring,
}

impl AskedTopology {
    /// As settings and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            AskedTopology::Auto => "auto",
            AskedTopology::View => "view",
            AskedTopology::Ring => "ring",
        }
    }
}

impl From<Topology> for AskedTopology {
    fn from(topology: Topology) -> AskedTopology {
        match topology {
            Topology::View => AskedTopology::View,
            Topology::Ring => AskedTopology::Ring,
        }
    }
}

/// How much an acknowledged write may cost, and what it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing is acknowledged before it is on disk. Survives the loss of power of every machine at once.
    #[default]
    Disk,
    /// Written to the operating system at once and to disk every so often. Survives the death of any process. A machine that loses power
    /// forgets what came in the last interval, though it had said that it has it, and takes part again when it is back: while the others that
    /// have a write can be reached, nothing is lost; if one of them fails at the same time, acknowledged writes of that interval can be.
    Interval,
    /// Nothing is written to disk. A node that restarts comes back as a new, empty one, under an id that nobody had: it joins the cluster as
    /// any new node does, and what it held is copied to it. So a cluster begins once all of its first members are there at the same time; one
    /// that comes later, or again, is told by the others that the cluster has begun, and waits if it reaches none of them.
    /// Groups and placed copies let go of who it was; where all nodes hold everything, `quorate node remove` does.
    Memory,
}

/// What groups of nodes do by themselves, in topology `ring`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policies {
    /// As one of the others, by what is measured.
    #[default]
    Auto,
    /// Nodes stay, and are all as far from each other: load is shared.
    Steady,
    /// Nodes stay, and some are far from each other: groups are of nodes that agree fast, and those lead that agree fastest.
    Wide,
    /// The same where nodes come and go: and borders stay where they are.
    Restless,
}

/// When idle processors are kept awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeepAwake {
    /// In virtual machines, as far as the node may.
    #[default]
    Auto,
    /// Always while the node has much to do in little time.
    On,
    /// Never.
    Off,
}

/// A number of bytes, in the file either a plain number or a string such as `"64 MiB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "load::BytesText", into = "load::BytesText")]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// So many KiB.
    pub const fn kib(count: u64) -> ByteCount {
        ByteCount(count << 10)
    }

    /// So many MiB.
    pub const fn mib(count: u64) -> ByteCount {
        ByteCount(count << 20)
    }

    /// As a length in memory.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

section! {
    /// Where this node listens. An address is `host:port`; port 0 lets the system choose; empty closes the door.
    pub struct Listen {
        /// Redis clients, every key on every node. Loopback by default because there is no password yet: an address
        /// that others can reach hands them the data; one they cannot reach leaves them outside.
        client: String = "127.0.0.1:6379".into(),
        /// Redis Cluster clients: the same data, each key at the node that leads its bucket. Empty closes it, which costs
        /// only those clients.
        cluster: String = "127.0.0.1:6380".into(),
        /// Other nodes. Whoever reaches it can speak as a node: keep it inside the network of the cluster.
        peer: String = "127.0.0.1:7379".into(),
        /// Operators: console, metrics, health, members. Whoever reaches it can change the cluster.
        admin: String = "127.0.0.1:8379".into(),
    }
}

section! {
    /// The addresses that others are told. Empty: the address listened on, which is right unless that is 0.0.0.0 or
    /// lies behind a translation of addresses.
    pub struct Advertise {
        /// For Redis clients, as host:port.
        client: String = String::new(),
        /// For Redis Cluster clients, as host:port. A wrong one sends them where nobody answers.
        cluster: String = String::new(),
        /// For other nodes, as host:port. A wrong one lets this node speak but never be answered.
        peer: String = String::new(),
        /// For operators, as host:port.
        admin: String = String::new(),
    }
}

section! {
    /// What this node belongs to.
    pub struct Cluster {
        /// Peer addresses of nodes whose cluster this node joins; one that answers is enough. Empty on a node that has
        /// never run: it starts a cluster of its own. Not needed any more once the node is a member.
        join: Vec<String> = Vec::new(),
        /// Directory for the log, the store and the node's identity. Losing it makes the node a new one, also if `node` says who it was: one
        /// that has an empty directory asks the others of `members` or `join` whether they have met it. None of them may have been started
        /// again since; otherwise take `node` and `members` away first. Sharing it is refused.
        data: String = "quorate-data".into(),
        /// First members of a new cluster, the same list on each of them: "ID@PEER" or "ID@PEER/CLIENT/ADMIN/CLUSTER",
        /// with addresses as host:port. Matters only to a node that has never run. Empty: this node founds alone, or joins. With durable.mode =
        /// "memory" each start is a first one: name nodes in `join` instead once the cluster runs, or all of these that start again at the same
        /// time begin another one.
        members: Vec<String> = Vec::new(),
        /// Id of a node that has never run; 0: drawn at random. An id that another node has or had breaks the cluster; so with durable.mode =
        /// "memory" only first members have the one that is set here, until they come back.
        node: u64 = 0,
        /// With durable.mode = "memory": that no node with the id `node` has ever run, so that this one may join under it. A node that is started
        /// again with this forgets what it acknowledged under its id, which breaks the cluster.
        node_is_new: bool = false,
        /// Id of the new cluster, in hexadecimal. Empty: drawn at random, or taken from the list of first members. With durable.mode = "memory" it
        /// is drawn at each founding, and this tells lists of first members apart.
        id: String = String::new(),
        /// Into how many buckets a new cluster cuts its keys, each with a log and a leader of its own; the same on each of
        /// its first members, and for as long as it lives. Few: few nodes lead and share the load of writes; many (256 at most, or it does
        /// not start): heartbeats for each, and requests that touch several cost more. 0: as the cluster has it; a new one 1, a new "ring" 32.
        buckets: u16 = 0,
        /// How many nodes hold each bucket; the same on each of a new cluster's first members (`quorate copies` changes it
        /// later, unless they form groups). The nodes then agree by themselves who of them is there, and move copies when nodes come and go. 3
        /// survive the loss of one node, 5 of two. 0: as the cluster has it; a new "ring" 3, and in any other new one all members hold everything, and
        /// `quorate node` adds and removes them.
        copies: u8 = 0,
        /// Who decides which nodes hold which buckets; the same on each of a new cluster's first members, and for as long as it lives. "view":
        /// one placement for the whole cluster. "ring": groups of about `copies` nodes (3 if nothing says it) that split, merge and
        /// take nodes in by their own decision, each holding some of the buckets (32 if nothing says it): there can be no more
        /// groups than buckets. "auto": a new cluster is a "ring" if one node founds it alone (neither `members` nor `join`), or if `members` lists
        /// six or more; one of a shorter list is a "view", and so is each for which `buckets` or `copies` say something. A node that joins learns it,
        /// and one that has run keeps it. Up to five nodes that will not become more are fastest as a "view": list them in `members`.
        topology: AskedTopology = AskedTopology::Auto,
        /// Milliseconds for which a copy whose node is gone may be missing before another node gets one. Short: a restart moves data; long: a
        /// bucket can afford fewer further failures meanwhile. 0: 10000, or 3000 where nodes form groups.
        repair_ms: u64 = 0,
        /// What groups of nodes do by themselves where nodes form groups: "auto", "steady", "wide" or "restless".
        policies: Policies = Policies::Auto,
        /// Where nodes form groups, these are as large as it takes to keep so many nines of availability, by how long nodes were seen to
        /// live. 0: as large as `copies` said when the cluster was founded. Can be another after a restart, and should be the same on all nodes.
        nines: u8 = 0,
        /// What this node shares large failures with: a site. Copies are spread over zones.
        zone: String = String::new(),
        /// What it shares small failures with, within its zone: a rack.
        rack: String = String::new(),
        /// How much this node should hold, in proportion to the others.
        capacity: u32 = 1,
        /// How many nodes this process runs, each with a loop and a log of its own on a thread of its own: up to one for each processor. The first
        /// listens as configured and keeps `data`; the next share its door for Redis clients, have the ports that follow its other
        /// three, keep `data/core-2` and so on, and join it. They are on one machine, so no group has two of them if it can do without, and no bucket
        /// where racks have no names. Small: processors idle; large: nodes wait for each other's turns.
        cores: u16 = 1,
    }
}

section! {
    /// What an acknowledgement is worth.
    pub struct Durable {
        /// "disk", "interval" or "memory". "disk" costs a sync of the disk per batch of writes. With "interval", a machine that loses power
        /// forgets up to interval_ms of acknowledged writes: they are lost if others that have them fail as well; with "memory", one that restarts is a new node.
        mode: Durability = Durability::Disk,
        /// Milliseconds between syncs in mode "interval". Small: as slow as "disk"; large: more to lose.
        interval_ms: u64 = 100,
        /// Microseconds a sync may take on average before it moves from the event loop to a thread beside it. Too
        /// large: a slow disk holds up reads and heartbeats; 0: always beside it, about a fifth fewer writes on fast disks.
        inline_us_max: u64 = 2_000,
        /// Free space below which writes are refused, so that the log can still be cleaned up. Too small: the disk runs full
        /// and the node stops; too large: writes are refused on a disk with room.
        reserve_bytes: ByteCount = ByteCount::mib(256),
    }
}

section! {
    /// The store.
    pub struct Storage {
        /// Memory for writes that are not in a table on disk yet. Small: many small tables; large: more to replay after a
        /// restart.
        memtable_bytes: ByteCount = ByteCount::mib(32),
        /// Memory for blocks of tables. Small: reads go to the disk; large: less memory for everything else.
        cache_bytes: ByteCount = ByteCount::mib(64),
        /// With durable.mode = "memory": bytes of keys and values that a node may hold; its last 32nd is kept free. A node without room, and those
        /// that share a bucket with it, refuse commands that could need more as "OOM", and serve all others. The process takes two to three
        /// times as much. Small: refused while the machine has memory; large: the system ends the process.
        memory_bytes_max: ByteCount = ByteCount::mib(4_096),
    }
}

section! {
    /// Clocks of the protocols.
    pub struct Timing {
        /// Milliseconds between a leader's heartbeats. Small: more messages when idle; large: followers doubt later.
        heartbeat_ms: u64 = 50,
        /// Milliseconds without a heartbeat after which a follower stands for election (a random extra is added). Too small:
        /// elections because of a hiccup; too large: a longer gap in writes when a leader dies. The same on all members.
        election_ms: u64 = 300,
        /// Milliseconds for which followers bind themselves to a leader, so that it may answer reads alone. At most
        /// election_ms; the same on all members; needs clocks whose rates differ by less than 1 %. 0: no leases, and a
        /// round trip more per batch of reads.
        lease_ms: u64 = 200,
        /// Milliseconds after which a request is given up. Too small: UNKNOWN under load; too large: clients wait.
        request_ms: u64 = 5_000,
        /// Milliseconds that an orderly stop may take. Too small: leadership is not handed over.
        stop_ms: u64 = 5_000,
    }
}

section! {
    /// The processors of this machine.
    pub struct Processors {
        /// "auto", "on" or "off": whether idle ones stay awake while the node's loop turns more than a thousand times a second. A request waits for
        /// several that wake up, 30 us and more each in a virtual machine, so that a client alone waits longer with "off" (decision 0006). With "on"
        /// each idle processor of the machine uses as much power as a busy one meanwhile. "auto": in virtual machines whose idle
        /// processors go back to their host (driver "haltpoll"). Needs Linux, and the right to write /dev/cpu_dma_latency, which root has.
        awake: KeepAwake = KeepAwake::Auto,
    }
}

section! {
    /// What clients may take. Each limit has a stated answer; none lets memory grow without bound.
    pub struct Limits {
        /// Connections of clients; further ones read "-ERR max number of clients reached". Too large: the process runs out of
        /// file descriptors, which also hurts peers.
        connections_max: usize = 10_000,
        /// Milliseconds after which a silent connection is closed; 0: never. Small: pools of clients reconnect often.
        idle_ms: u64 = 0,
        /// Longest value in bytes that one command may bring, at most 32 MiB, which is also what strings may grow to.
        /// Large values hold up others and are copied to every node.
        value_bytes_max: ByteCount = ByteCount::mib(16),
        /// Longest key in bytes, at most 63 KiB: the store takes 64 KiB with what it puts before a key.
        key_bytes_max: ByteCount = ByteCount::kib(63),
        /// Bytes of one request, all its words together. Must exceed value_bytes_max.
        request_bytes_max: ByteCount = ByteCount::mib(32),
        /// Words of one request (an MSET of n keys has 2n + 1).
        request_words_max: usize = 1_048_576,
        /// Keys in one transaction.
        transaction_keys_max: usize = 1_024,
        /// Requests of one connection under way; beyond, reading from it pauses. It also pauses where the answers to those
        /// under way, guessed from the latest ones, would exceed output_soft_bytes. 1: no pipelining.
        pipeline_max: usize = 128,
        /// Requests of all connections under way; beyond, BUSY. Too small: BUSY under harmless load; too large: long queues
        /// and late answers under overload.
        requests_max: usize = 100_000,
        /// Bytes of all requests under way; beyond, BUSY.
        requests_bytes_max: ByteCount = ByteCount::mib(512),
        /// Bytes of answers waiting for one connection at which reading from it pauses.
        output_soft_bytes: ByteCount = ByteCount::mib(1),
        /// Bytes of answers waiting for one connection at which it is closed. Must exceed the largest answer wanted.
        output_hard_bytes: ByteCount = ByteCount::mib(256),
        /// Bytes read from one connection before the others get their turn. Small: more system calls; large: a
        /// pipeline holds up its neighbours.
        turn_bytes: ByteCount = ByteCount::kib(64),
    }
}

section! {
    /// Connections between nodes.
    pub struct Peers {
        /// Bytes that may wait for one peer; beyond, the newest messages are dropped and counted, and the protocols send
        /// again. Small: drops under bursts; large: memory for a peer that does not read.
        queue_bytes_max: ByteCount = ByteCount::mib(64),
        /// Longest message. Must exceed limits.request_bytes_max by 1 MiB or a large request can never be copied, and
        /// 33 MiB or the longest string cannot.
        frame_bytes_max: ByteCount = ByteCount::mib(48),
        /// Milliseconds before the first attempt to reconnect; doubles up to reconnect_ms_max.
        reconnect_ms_min: u64 = 10,
        /// Most milliseconds between attempts. Large: a node that comes back is noticed late.
        reconnect_ms_max: u64 = 1_000,
        /// Milliseconds for connecting and introducing oneself.
        handshake_ms: u64 = 5_000,
        /// Milliseconds without acknowledgement by the other machine after which a connection counts as broken.
        silent_ms: u64 = 2_000,
        /// Inbound connections; beyond, new ones are closed, the log says "too many peer connections", and they are counted as refused. Too
        /// small: nodes do not reach each other (in a ring of 400 one had 285); large: descriptors.
        connections_max: usize = 1_000,
    }
}

section! {
    /// The operators' door.
    pub struct Admin {
        /// Bytes of a request's body.
        body_bytes_max: ByteCount = ByteCount::kib(64),
        /// Milliseconds an operator's request may take.
        request_ms: u64 = 30_000,
    }
}

section! {
    /// What is told while running.
    pub struct Log {
        /// Level, and levels by module: "info", "warn,quorate_host=debug". Can be changed while running.
        filter: String = "info".into(),
        /// "text" for people, "json" for machines.
        format: String = "text".into(),
    }
}

document! {
    /// Everything that can be set for one node.
    pub struct Config {
        listen: Listen,
        advertise: Advertise,
        cluster: Cluster,
        durable: Durable,
        storage: Storage,
        timing: Timing,
        processors: Processors,
        limits: Limits,
        peers: Peers,
        admin: Admin,
        log: Log,
    }
}

#[cfg(test)]
mod tests;
