//! The doors for clients, and who comes in.

use std::io;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use quorate_kernel::Time;
use quorate_resp::View;

use super::Clients;
use super::client::Client;
use crate::token;

/// Connections accepted before others get their turn.
const ACCEPTS_A_TURN: usize = 128;
/// How long a client's machine may be silent before the system asks whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

impl Clients {
    pub(crate) fn listeners(&mut self) -> impl Iterator<Item = (View, &mut TcpListener)> {
        self.listeners.iter_mut().map(|(view, listener)| (*view, listener))
    }

    /// Takes no new connections any more.
    pub(crate) fn close_doors(&mut self) {
        self.listeners.clear();
    }

    /// Whether anybody can be shown the cluster.
    pub(crate) fn show_cluster(&self) -> bool {
        self.listeners.iter().any(|(view, _)| *view == View::Cluster)
    }

    /// Somebody waits at a door.
    pub(crate) fn door(&mut self, now: Time) {
        self.accept_at = Some(now);
    }

    /// Accepts whoever waits.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time, wall_us: u64) {
        if self.accept_at.is_none_or(|at| at > now) {
            return;
        }
        let mut accepted = Vec::new();
        self.accept_at = None;
        for (view, listener) in &self.listeners {
            let mut again = Some(now);
            for _ in 0..ACCEPTS_A_TURN {
                match listener.accept() {
                    Ok((stream, address)) => accepted.push((*view, stream, address)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        again = None;
                        break;
                    }
                    Err(error) if crate::accept::concerns_one(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, connections = self.stats.connections, "cannot accept clients; resting a moment");
                        self.stats.accept_failures += 1;
                        again = Some(now + crate::accept::PAUSE);
                        break;
                    }
                }
            }
            self.accept_at = self.accept_at.max(again);
        }
        for new in accepted {
            self.admit(new, registry, now, wall_us);
        }
    }

    fn admit(
        &mut self,
        (view, mut stream, address): (View, TcpStream, std::net::SocketAddr),
        registry: &Registry,
        now: Time,
        wall_us: u64,
    ) {
        if self.table.len() >= self.tunable.connections_max {
            self.stats.turned_away += 1;
            // Whoever cannot even take this line is turned away without it.
            let _ = io::Write::write(&mut stream, b"-ERR max number of clients reached\r\n");
            return;
        }
        crate::accept::set_options(&stream, KEEP_ALIVE);
        self.next_id += 1;
        let id = self.next_id;
        let at = token::client(usize::try_from(id).unwrap_or(usize::MAX));
        if let Err(error) = registry.register(&mut stream, at, Interest::READABLE | Interest::WRITABLE) {
            tracing::warn!(%error, "cannot watch a connection; closed");
            self.stats.accept_failures += 1;
            return;
        }
        self.stats.accepted += 1;
        self.stats.connections += 1;
        let local_address = stream.local_addr().map(|local| local.to_string()).unwrap_or_default();
        let (address, since_us) = (address.to_string(), wall_us);
        let connection = quorate_resp::Connection { id, address, local_address, since_us, view };
        let client = Client::new(connection, stream, self.wire_limits.clone(), now);
        self.table.insert(id, Some(Box::new(client)));
    }
}
