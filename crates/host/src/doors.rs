//! The listening sockets of a node.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use mio::net::TcpListener;
use quorate_node::Endpoints;
use quorate_resp::View;

use crate::config::Config;
use crate::control::Addresses;
use crate::error::StartError;

/// Connections that may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4_096;

/// The doors of a node, open.
pub(crate) struct Doors {
    /// For clients, each with what they are shown there.
    pub(crate) clients: Vec<(View, TcpListener)>,
    pub(crate) peer: TcpListener,
    pub(crate) admin: Option<std::net::TcpListener>,
    pub(crate) addresses: Addresses,
}

/// Listens on the first address that `address` stands for.
fn listen(door: &'static str, address: &str) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse { door, address: address.into() },
        _ => StartError::Listen { door, address: address.into(), reason: error.to_string() },
    };
    let found = address.to_socket_addrs().map_err(refused)?.next();
    let found = found.ok_or_else(|| refused(io::Error::other("it has no address")))?;
    let listener = std::net::TcpListener::bind(found).map_err(refused)?;
    // The library asks for room for 128: a crowd that finds no room at the door tries again a second later.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| refused(error.into()))?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

pub(crate) fn open_doors(config: &Config) -> Result<Doors, StartError> {
    let watched = |door: &'static str, address: &str| {
        let (listener, bound) = listen(door, address)?;
        let refused = |error: io::Error| StartError::Listen {
            door,
            address: address.into(),
            reason: error.to_string(),
        };
        listener.set_nonblocking(true).map_err(refused)?;
        Ok::<_, StartError>((TcpListener::from_std(listener), bound))
    };
    let open = |door: &'static str, address: &str| match address {
        "" => Ok((None, None)),
        address => watched(door, address).map(|(listener, bound)| (Some(listener), Some(bound))),
    };
    let mut addresses = Addresses::default();
    let (client, cluster, peer);
    (client, addresses.client) = open("client", &config.listen.client)?;
    (cluster, addresses.cluster) = open("cluster", &config.listen.cluster)?;
    let (listener, bound) = watched("peer", &config.listen.peer)?;
    (peer, addresses.peer) = (listener, Some(bound));
    let admin = if config.listen.admin.is_empty() {
        None
    } else {
        let (listener, bound) = listen("admin", &config.listen.admin)?;
        addresses.admin = Some(bound);
        Some(listener)
    };
    let client = client.map(|listener| (View::Standalone, listener));
    let clients = client.into_iter().chain(cluster.map(|listener| (View::Cluster, listener))).collect();
    Ok(Doors { clients, peer, admin, addresses })
}

impl Doors {
    /// What others are told: what is configured, or else what is listened on.
    pub(crate) fn endpoints(&self, config: &Config) -> Endpoints {
        let told = |advertised: &str, bound: Option<SocketAddr>| match (advertised, bound) {
            ("", Some(bound)) => bound.to_string(),
            (advertised, _) => advertised.to_owned(),
        };
        Endpoints {
            peer: told(&config.advertise.peer, self.addresses.peer),
            client: told(&config.advertise.client, self.addresses.client),
            admin: told(&config.advertise.admin, self.addresses.admin),
            cluster: told(&config.advertise.cluster, self.addresses.cluster),
        }
    }
}
