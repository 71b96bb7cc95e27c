//! Connections between nodes.
//!
//! Each node dials every peer it wants to talk to and sends on that connection; it receives on those the others
//! opened. A message is sent at most once: it is dropped where no connection stands or its queue is full, and the
//! protocols send again. Messages on one connection keep their order.

pub(crate) mod hello;
mod inbound;
mod outbound;
mod resolve;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use mio::Registry;
use mio::event::Event;
use mio::net::TcpListener;
use quorate_kernel::{ClusterId, NodeId, Rng, Time};
use quorate_node::{Endpoints, Member};

use crate::config::Peers as Config;
use crate::token;
use hello::{Myself, Shape};
use inbound::Inbound;
use outbound::{Change, Outbound};
pub(crate) use resolve::Resolver;

/// What the loop is told about peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerEvent {
    /// A connection to this node stands.
    Connected(NodeId),
    /// The connection to this node broke.
    Lost(NodeId),
    /// This node joined this cluster, which is made so.
    Joined(ClusterId, Shape),
}

/// Sums for the operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PeerStats {
    /// Peers to which a connection stands.
    pub connected: u64,
    /// Connections opened by others.
    pub inbound: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages queued for sending.
    pub messages_out: u64,
    /// Messages dropped because no connection stood or its queue was full.
    pub dropped: u64,
    /// Connections refused: wrong cluster, version, id, or too many.
    pub refused: u64,
    /// Connections closed because of bytes that mean nothing.
    pub garbage: u64,
}

/// All connections between this node and others.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) me: Myself,
    config: Config,
    inbound: Inbound,
    outbound: BTreeMap<usize, Outbound>,
    by_id: BTreeMap<NodeId, usize>,
    /// Where nodes that introduced themselves can be reached, for answers to those that are not peers (yet).
    known: BTreeMap<NodeId, String>,
    /// Connections with something to send.
    unsent: Vec<usize>,
    next_index: usize,
    resolver: Resolver,
    rng: Rng,
    events: Vec<PeerEvent>,
    /// Sums of connections that are gone.
    past: PeerStats,
}

/// How many unasked-for introductions are remembered.
const KNOWN_MAX: usize = 4_096;

impl Peers {
    pub(crate) fn new(
        listener: TcpListener,
        me: Myself,
        config: Config,
        resolver: Resolver,
        rng: Rng,
        join: &[String],
        now: Time,
    ) -> Peers {
        let mut peers = Peers {
            me,
            inbound: Inbound::new(listener, config.clone()),
            config,
            outbound: BTreeMap::new(),
            by_id: BTreeMap::new(),
            known: BTreeMap::new(),
            unsent: Vec::new(),
            next_index: 0,
            resolver,
            rng,
            events: Vec::new(),
            past: PeerStats::default(),
        };
        for address in join {
            peers.add(address.clone(), None, now);
        }
        peers
    }

    fn add(&mut self, address: String, id: Option<NodeId>, now: Time) -> usize {
        self.next_index += 1;
        let index = self.next_index;
        self.outbound.insert(index, Outbound::new(index, address, id, now));
        if let Some(id) = id {
            self.by_id.insert(id, index);
        }
        index
    }

    fn remove(&mut self, index: usize) {
        let Some(gone) = self.outbound.remove(&index) else { return };
        self.past.bytes_out += gone.bytes_out;
        self.past.messages_out += gone.messages_out;
        self.past.dropped += gone.dropped;
        if let Some(id) = gone.id
            && self.by_id.get(&id) == Some(&index)
        {
            self.by_id.remove(&id);
            if gone.stands() {
                self.events.push(PeerEvent::Lost(id));
            }
        }
    }

    /// Wants connections to exactly these nodes from now on. An empty list changes nothing: a node that joins names
    /// nobody before it has learnt of somebody.
    pub(crate) fn set_members(&mut self, members: &[Member], now: Time) {
        let others: Vec<_> = members.iter().filter(|member| member.id != self.me.id).collect();
        if others.is_empty() {
            return;
        }
        let wanted = |one: &Outbound| {
            others.iter().any(|member| one.id == Some(member.id) && one.address == member.endpoints.peer)
                || (one.stands() && others.iter().any(|member| one.id == Some(member.id)))
        };
        let unwanted: Vec<_> =
            self.outbound.values().filter(|one| !wanted(one)).map(|one| one.index).collect();
        unwanted.into_iter().for_each(|index| self.remove(index));
        for member in others {
            if !self.by_id.contains_key(&member.id) {
                self.add(member.endpoints.peer.clone(), Some(member.id), now);
            }
        }
    }

    /// Queues a message. To a node that is no peer, but introduced itself here, a connection is opened for the next
    /// one.
    pub(crate) fn send(&mut self, to: NodeId, now: Time, fill: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let Some(index) = self.by_id.get(&to).copied() else {
            self.past.dropped += 1;
            if let Some(address) = self.known.get(&to).cloned() {
                self.add(address, Some(to), now);
            }
            return;
        };
        let Some(one) = self.outbound.get_mut(&index) else { return };
        let idle = one.waiting() == 0;
        if one.send(&self.config, fill) && idle {
            self.unsent.push(index);
        }
    }

    /// Writes what waits, one connection after the other.
    pub(crate) fn flush(&mut self, now: Time) {
        for index in std::mem::take(&mut self.unsent) {
            let Some(one) = self.outbound.get_mut(&index) else { continue };
            let change = one.flush(&self.config, &mut self.rng, now);
            self.changed(index, change);
        }
    }

    fn changed(&mut self, index: usize, change: Change) {
        let id = self.outbound.get(&index).and_then(|one| one.id);
        match (change, id) {
            (Change::Connected(welcome), Some(id)) => {
                if self.me.cluster == ClusterId(0) {
                    (self.me.cluster, self.me.shape) = (welcome.cluster, welcome.shape);
                    self.events.push(PeerEvent::Joined(welcome.cluster, welcome.shape));
                }
                tracing::info!(peer = %id, address = %welcome.endpoints.peer, "connected to a peer");
                // An address may be answered by another node than before.
                self.by_id.retain(|known, at| *at != index || *known == id);
                let other = self.by_id.get(&id).copied().filter(|other| *other != index);
                if other.and_then(|other| self.outbound.get(&other)).is_some_and(Outbound::stands) {
                    // Two addresses of one node: the connection that stands stays.
                    self.remove(index);
                    return;
                }
                self.by_id.insert(id, index);
                if let Some(other) = other {
                    self.remove(other);
                }
                self.events.push(PeerEvent::Connected(id));
            }
            (Change::Lost, Some(id)) => self.events.push(PeerEvent::Lost(id)),
            _ => {}
        }
    }

    /// An event of the poll.
    pub(crate) fn ready(&mut self, event: &Event, now: Time) {
        let at = event.token();
        match token::family(at) {
            token::Family::PeerIn => self.inbound.ready(event),
            token::Family::PeerOut => {
                let index = token::index(at);
                let Some(one) = self.outbound.get_mut(&index) else { return };
                let change = one.ready(&self.me, &self.config, &mut self.rng, now);
                self.changed(index, change);
            }
            token::Family::Fixed | token::Family::Client => {}
        }
    }

    /// Somebody waits at the door.
    pub(crate) fn door(&mut self, now: Time) {
        self.inbound.door(now);
    }

    pub(crate) fn listener(&mut self) -> &mut TcpListener {
        self.inbound.listener()
    }

    /// Reads messages; `take` says whether one decoded.
    pub(crate) fn read(&mut self, now: Time, take: impl FnMut(NodeId, &[u8]) -> bool) {
        for (id, endpoints) in self.inbound.read(&self.me, take) {
            self.introduced(id, endpoints, now);
        }
    }

    /// A node has just connected here: it runs, so dialing it is worth while at once.
    fn introduced(&mut self, id: NodeId, endpoints: Endpoints, now: Time) {
        tracing::info!(peer = %id, address = %endpoints.peer, "a peer introduced itself");
        if let Some(one) = self.by_id.get(&id).and_then(|index| self.outbound.get_mut(index)) {
            one.hurry(&endpoints.peer, now);
        }
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&id) {
            self.known.insert(id, endpoints.peer);
        }
    }

    /// Whether something was read less than wholly.
    pub(crate) fn has_unread(&self) -> bool {
        self.inbound.has_unread()
    }

    /// Dials, and gives up what takes too long.
    pub(crate) fn tick(&mut self, registry: &Registry, now: Time) {
        self.inbound.accept(registry, now);
        self.inbound.expire(now);
        for one in self.outbound.values_mut() {
            one.expire(&self.config, &mut self.rng, now);
            if one.begin(now) {
                self.resolver.begin(one.index, &one.address, one.failures());
            }
        }
        while let Some((index, found)) = self.resolver.done() {
            self.dial(index, found, registry, now);
        }
    }

    fn dial(&mut self, index: usize, found: io::Result<SocketAddr>, registry: &Registry, now: Time) {
        if let Some(one) = self.outbound.get_mut(&index) {
            one.dial(found, registry, &self.config, &mut self.rng, now);
        }
    }

    /// When [`Peers::tick`] has to be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.outbound.values().filter_map(Outbound::deadline).chain(self.inbound.accept_at()).min()
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<PeerEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.outbound.values().all(|one| one.waiting() == 0)
    }

    pub(crate) fn stats(&self) -> PeerStats {
        let counts = &self.inbound.counts;
        let mut stats = self.past;
        stats.inbound = self.inbound.count() as u64;
        stats.bytes_in = counts.bytes_in;
        stats.messages_in = counts.messages_in;
        stats.refused = counts.refused;
        stats.garbage = counts.garbage;
        for one in self.outbound.values() {
            stats.connected += u64::from(one.stands());
            stats.queued_bytes += one.waiting() as u64;
            stats.bytes_out += one.bytes_out;
            stats.messages_out += one.messages_out;
            stats.dropped += one.dropped;
        }
        stats
    }
}
