//! A real node: its data directory, its log, its store, its machine.

use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_engine::data_dir::{DataDir, Meta};
use quorate_engine::lsm::{self, LsmStore};
use quorate_engine::wal::{self, Wal};
use quorate_kernel::{ClusterId, NodeId, wire};
use quorate_node::{
    Agreement, Endpoints, Journal, LABEL_BYTES_MAX, LogConfig, Map, Member, Node, NodeConfig, Placing,
    Preset, Status, Storage, Topology,
};
use quorate_store::{MemoryStore, Store};

use crate::config::{AskedTopology, Config, ConfigError, Durability, Policies};
use crate::doors::open_doors;
use crate::driver::has_disk;
use crate::error::StartError;
use crate::founders;
use crate::founding;
use crate::hosted::Hosted;
use crate::peers::hello::Shape;
use crate::start::{Host, Options, Parts, Running, launch, system};

impl Hosted for Node {
    fn status(&self) -> Status {
        Node::status(self)
    }

    fn journal(&self) -> Option<&Journal> {
        Node::journal(self)
    }

    fn agreement(&self) -> Option<Agreement> {
        Node::agreement(self)
    }

    fn map(&self) -> Map {
        Node::map(self)
    }

    fn believed_leaders(&self) -> impl Iterator<Item = Option<NodeId>> {
        Node::believed_leaders(self)
    }
}

impl Host {
    /// Starts a node as its configuration says. A node that has never run founds a cluster of its own, or joins one
    /// if it is told where. One of the first members of a cluster that keeps nothing on disk waits until the others are there.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then, and nothing was changed but that a new data directory may have been made.
    pub fn start(mut config: Config, options: Options) -> Result<Running<Node>, StartError> {
        config.validate()?;
        let dir = match config.durable.mode {
            Durability::Memory => None,
            Durability::Disk | Durability::Interval => Some(DataDir::open(Path::new(&config.cluster.data))?),
        };
        let mut doors = open_doors(&config)?;
        if dir.as_ref().is_none_or(|dir| dir.meta().is_none()) {
            founding::settle(&mut config, &mut doors)?;
        }
        let endpoints = doors.endpoints(&config);
        let (parts, bootstrap) = match dir {
            Some(dir) => on_disk(&config, dir, endpoints)?,
            None => in_memory(&config, endpoints)?,
        };
        check_cores(&config, parts.shape)?;
        let (log, limits, mut placing) = (log_config(&config), node_limits(&config), placing(&config));
        let has_neighbours = config.cluster.cores > 1;
        launch(config, options, doors, parts, |identity| {
            let me = Member { id: identity.id, endpoints: identity.endpoints.clone().into() };
            if has_neighbours && identity.shape.topology == Topology::View && placing.rack.is_empty() {
                // Groups look at machines by themselves.
                placing.rack = machine(&identity.endpoints).as_bytes().to_vec().into();
            }
            // A node that joins is told before it hears from anybody.
            let buckets = NonZeroU16::new(identity.shape.buckets).unwrap_or(NonZeroU16::MIN);
            let (cluster, Shape { copies, topology, .. }) = (identity.cluster, identity.shape);
            Node::new(NodeConfig { me, cluster, bootstrap, buckets, copies, topology, placing, log, limits })
        })
    }
}

/// A number nobody else has drawn. 53 bits, so that it survives tools that read JSON numbers as floating point.
pub(crate) fn draw() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    let refused = |error: rustix::io::Errno| system("random numbers")(error.into());
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(refused)?;
    Ok((u64::from_le_bytes(bytes) >> 11).max(1))
}

fn topology_of(meta: &Meta) -> Topology {
    if meta.ring { Topology::Ring } else { Topology::View }
}

fn placing(config: &Config) -> Placing {
    let cluster = &config.cluster;
    Placing {
        zone: cluster.zone.clone().into(),
        rack: cluster.rack.clone().into(),
        capacity: cluster.capacity,
        repair_after: (cluster.repair_ms > 0).then(|| Duration::from_millis(cluster.repair_ms)),
        preset: match cluster.policies {
            Policies::Auto => None,
            Policies::Steady => Some(Preset::Steady),
            Policies::Wide => Some(Preset::Wide),
            Policies::Restless => Some(Preset::Restless),
        },
        nines: cluster.nines,
        ..Placing::production()
    }
}

/// Several nodes on one machine are of no use where all hold everything.
fn check_cores(config: &Config, Shape { buckets, copies, topology }: Shape) -> Result<(), StartError> {
    let cores = config.cluster.cores;
    let all_hold_all = buckets > 0 && copies == 0 && topology == Topology::View;
    if cores > 1 && all_hold_all { Err(StartError::Cores { cores }) } else { Ok(()) }
}

/// The machine, as far as an address tells it, and a label may be long.
fn machine(endpoints: &Endpoints) -> &str {
    let host = endpoints.peer.rsplit_once(':').map_or(&*endpoints.peer, |(host, _)| host);
    &host[..host.floor_char_boundary(LABEL_BYTES_MAX)]
}

/// Who a node is that has never run, and the first members of its cluster if it founds one.
fn newborn(config: &Config, endpoints: Endpoints) -> Result<(NodeId, ClusterId, Vec<Member>), StartError> {
    let wanted = &config.cluster;
    let id = NodeId(if wanted.node == 0 { draw()? } else { wanted.node });
    if !wanted.join.is_empty() {
        return Ok((id, ClusterId(0), Vec::new()));
    }
    // It can never become another: whoever did not choose it should see it.
    tracing::info!(node = %id, shape = %config.shape(), "founding a cluster");
    let founders = founders::parse(&wanted.members).map_err(|complaints| ConfigError { complaints })?;
    if !founders.is_empty() {
        return Ok((id, founders::cluster_id(&wanted.id, &founders), founders));
    }
    let alone = vec![Member { id, endpoints: endpoints.into() }];
    let cluster =
        if wanted.id.is_empty() { ClusterId(draw()?) } else { founders::cluster_id(&wanted.id, &alone) };
    Ok((id, cluster, alone))
}

fn wal_options(config: &Config, id: NodeId) -> wal::Options {
    // The log names no cluster: a node that joins does not know it yet when its log begins, and node ids are drawn
    // so that no two clusters share one.
    let mut options = wal::Options::new(ClusterId(0), id);
    options.durability = match config.durable.mode {
        Durability::Disk => wal::Durability::Disk,
        Durability::Interval => wal::Durability::Interval(Duration::from_millis(config.durable.interval_ms)),
        Durability::Memory => wal::Durability::Memory,
    };
    options
}

fn on_disk(
    config: &Config,
    mut dir: DataDir,
    endpoints: Endpoints,
) -> Result<(Parts, Vec<Member>), StartError> {
    let meta = match dir.meta() {
        Some(meta) => meta.clone(),
        None => {
            // Before the directory belongs to a cluster.
            check_cores(config, config.shape())?;
            let (node, cluster, bootstrap) = newborn(config, endpoints)?;
            let (bootstrap, Shape { buckets, copies, topology }) = (wire::encode(&bootstrap), config.shape());
            let ring = topology == Topology::Ring;
            let meta = Meta { cluster, node, started: false, bootstrap, buckets, copies, ring };
            dir.set_meta(meta.clone())?;
            meta
        }
    };
    let (kept, asked) = (meta.buckets, config.cluster.buckets);
    if kept != 0 && asked != 0 && kept != asked {
        return Err(StartError::Buckets { path: dir.path().to_owned(), kept, asked });
    }
    if meta.buckets != 0 && config.cluster.topology == AskedTopology::Ring && !meta.ring {
        return Err(StartError::Topology { path: dir.path().to_owned() });
    }
    let (kept, asked) = (meta.copies, config.cluster.copies);
    if meta.buckets != 0 && asked != 0 && kept != asked {
        return Err(StartError::Copies { path: dir.path().to_owned(), kept, asked });
    }
    let Ok(bootstrap) = wire::decode::<Vec<Member>>(&meta.bootstrap) else {
        return Err(StartError::Meta { path: dir.path().to_owned() });
    };
    let mut options = wal_options(config, meta.node);
    options.existing = meta.started;
    let (wal, recovery) = Wal::open(&dir.log(), options)?;
    if recovery.torn() {
        tracing::warn!("the log ended in records that had never been synced; they were dropped");
    }
    if !meta.started || dir.is_older() {
        dir.set_meta(Meta { started: true, ..meta.clone() })?;
    }
    let store = LsmStore::open(&dir.store(), store_options(config))?;
    let path = dir.path().to_owned();
    let parts = Parts {
        id: meta.node,
        cluster: meta.cluster,
        shape: Shape { buckets: meta.buckets, copies: meta.copies, topology: topology_of(&meta) },
        store: Box::new(store),
        wal,
        recovery,
        room: Some(Box::new(move || free_bytes(&path))),
        // Holds the directory, and with it its lock, for as long as the node runs.
        joined: Some(Box::new(move |cluster, Shape { buckets, copies, topology }| {
            let Some(meta) = dir.meta().cloned() else {
                return Err(io::Error::other("the directory has no owner"));
            };
            let ring = topology == Topology::Ring;
            dir.set_meta(Meta { cluster, buckets, copies, ring, ..meta }).map_err(io::Error::other)
        })),
        seed: draw()?,
    };
    Ok((parts, bootstrap))
}

fn in_memory(config: &Config, endpoints: Endpoints) -> Result<(Parts, Vec<Member>), StartError> {
    let (id, cluster, bootstrap) = newborn(config, endpoints)?;
    let (wal, recovery) = Wal::open(&PathBuf::new(), wal_options(config, id))?;
    let store: Box<dyn Store> = Box::new(MemoryStore::default());
    let (shape, seed) = (config.shape(), draw()?);
    let parts = Parts { id, cluster, shape, store, wal, recovery, room: None, joined: None, seed };
    Ok((parts, bootstrap))
}

fn store_options(config: &Config) -> lsm::Options {
    lsm::Options {
        memtable_bytes: config.storage.memtable_bytes.0,
        cache_bytes: config.storage.cache_bytes.0,
        ..lsm::Options::default()
    }
}

fn log_config(config: &Config) -> LogConfig {
    let timing = &config.timing;
    LogConfig {
        heartbeat: Duration::from_millis(timing.heartbeat_ms),
        election: Duration::from_millis(timing.election_ms),
        lease: Duration::from_millis(timing.lease_ms),
        ..LogConfig::production()
    }
}

fn node_limits(config: &Config) -> quorate_node::Limits {
    quorate_node::Limits {
        deadline: Duration::from_millis(config.timing.request_ms),
        requests_max: config.limits.requests_max,
        bytes_max: config.limits.requests_bytes_max.get(),
        storage: if has_disk(config.durable.mode) { Storage::Disk } else { Storage::Memory },
        ..quorate_node::Limits::production()
    }
}

/// Bytes that this program may still write to the file system of `path`.
fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_protocols() {
        assert_eq!(log_config(&Config::default()), LogConfig::production());
        assert_eq!(node_limits(&Config::default()).deadline, quorate_node::Limits::production().deadline);
        assert_eq!(store_options(&Config::default()).complaints(), Vec::<String>::new());
    }

    #[test]
    fn the_disk_tells_its_room() {
        assert!(free_bytes(Path::new("/")).expect("a file system") > 0);
        assert!(free_bytes(Path::new("/no/such/place")).is_err());
    }
}
