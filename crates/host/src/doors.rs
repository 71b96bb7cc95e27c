//! The listening sockets of a node.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use mio::net::TcpListener;
use quorate_node::Endpoints;
use quorate_resp::View;

use crate::config::Config;
use crate::control::Addresses;
use crate::error::StartError;
use crate::founding::Founding;

/// Connections that may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4_096;

/// The doors of a node, open.
pub(crate) struct Doors {
    /// For clients, each with what they are shown there.
    pub(crate) clients: Vec<(View, TcpListener)>,
    pub(crate) peer: TcpListener,
    pub(crate) admin: Option<std::net::TcpListener>,
    pub(crate) addresses: Addresses,
    /// What is said at the door for peers of how the cluster was founded.
    pub(crate) founding: Founding,
}

/// Whose a listening socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// One node's.
    Alone,
    /// Several nodes of this process listen on the address, and the system shares out who comes.
    Among,
}

/// Refuses if somebody listens on the address. Who shares an address would not notice that another process does.
pub(crate) fn check_free(door: &'static str, address: &str) -> Result<(), StartError> {
    if address.is_empty() { Ok(()) } else { listen(door, address, Share::Alone).map(drop) }
}

/// Listens on the first address that `address` stands for.
fn listen(
    door: &'static str,
    address: &str,
    share: Share,
) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse { door, address: address.into() },
        _ => StartError::Listen { door, address: address.into(), reason: error.to_string() },
    };
    let found = address.to_socket_addrs().map_err(refused)?.next();
    let found = found.ok_or_else(|| refused(io::Error::other("it has no address")))?;
    let listener = match share {
        Share::Alone => std::net::TcpListener::bind(found),
        Share::Among => bind_among(found),
    };
    let listener = listener.map_err(refused)?;
    // The library asks for room for 128: a crowd that finds no room at the door tries again a second later.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| refused(error.into()))?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// A socket on an address that others of this process may have as well.
fn bind_among(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

pub(crate) fn open_doors(config: &Config) -> Result<Doors, StartError> {
    let watched = |door: &'static str, address: &str, share| {
        let (listener, bound) = listen(door, address, share)?;
        let refused = |error: io::Error| StartError::Listen {
            door,
            address: address.into(),
            reason: error.to_string(),
        };
        listener.set_nonblocking(true).map_err(refused)?;
        Ok::<_, StartError>((TcpListener::from_std(listener), bound))
    };
    let open = |door: &'static str, address: &str, share| match address {
        "" => Ok((None, None)),
        address => watched(door, address, share).map(|(listener, bound)| (Some(listener), Some(bound))),
    };
    let share = if config.cluster.cores > 1 { Share::Among } else { Share::Alone };
    let mut addresses = Addresses::default();
    let (client, cluster, peer);
    (client, addresses.client) = open("client", &config.listen.client, share)?;
    (cluster, addresses.cluster) = open("cluster", &config.listen.cluster, Share::Alone)?;
    let (listener, bound) = watched("peer", &config.listen.peer, Share::Alone)?;
    (peer, addresses.peer) = (listener, Some(bound));
    let admin = if config.listen.admin.is_empty() {
        None
    } else {
        let (listener, bound) = listen("admin", &config.listen.admin, Share::Alone)?;
        addresses.admin = Some(bound);
        Some(listener)
    };
    let client = client.map(|listener| (View::Standalone, listener));
    let clients = client.into_iter().chain(cluster.map(|listener| (View::Cluster, listener))).collect();
    Ok(Doors { clients, peer, admin, addresses, founding: Founding::default() })
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
