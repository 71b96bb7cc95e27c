//! Clients' connections to nodes, and every request that waits for its answer.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::{Consistency, Outcome, Request};
use quorate_kernel::NodeId;
use quorate_node::{ClientRequest, ConnectionId, Ticket};

/// Who asked: a client of the harness, and its own name for the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) who: u64,
    pub(crate) what: u64,
}

/// A request that was handed to a node.
#[derive(Debug, Clone)]
struct Waiting {
    connection: ConnectionId,
    asker: Asker,
    since: Duration,
    request: Request,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    /// As in [`Doors::new`].
    near: u64,
    tickets: u64,
    connections: u64,
    open: BTreeMap<ConnectionId, NodeId>,
    waiting: BTreeMap<Ticket, Waiting>,
}

impl Doors {
    /// `near`: of a hundred connections, so many have their strict reads answered by the copies of the nodes they lead to.
    pub(crate) fn new(near: u64) -> Doors {
        Doors { near, ..Doors::default() }
    }

    /// A new connection to `node`.
    pub(crate) fn open(&mut self, node: NodeId) -> ConnectionId {
        self.connections += 1;
        let id = ConnectionId(self.connections);
        self.open.insert(id, node);
        id
    }

    /// Where a connection leads, while it stands.
    pub(crate) fn node(&self, connection: ConnectionId) -> Option<NodeId> {
        self.open.get(&connection).copied()
    }

    /// How a connection's strict reads are to be answered: where depends on the connection alone, so that nothing is drawn; some
    /// change their minds with each request.
    fn strictly(&self, connection: ConnectionId, ticket: Ticket) -> Consistency {
        let is_near = connection.0 * 37 % 100 < self.near;
        let wavers = connection.0.is_multiple_of(3) && ticket.0.is_multiple_of(2);
        if is_near && !wavers { Consistency::Near } else { Consistency::Strict }
    }

    /// A request to be handed to the connection's node.
    pub(crate) fn request(
        &mut self,
        connection: ConnectionId,
        asker: Asker,
        request: Request,
        consistency: Consistency,
        now: Duration,
    ) -> ClientRequest {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let consistency = match consistency {
            Consistency::Strict => self.strictly(connection, ticket),
            other => other,
        };
        self.waiting.insert(ticket, Waiting { connection, asker, since: now, request: request.clone() });
        ClientRequest { connection, ticket, request, consistency, identity: None }
    }

    /// A node answered. `None` if nobody listens any more.
    ///
    /// # Errors
    /// If nobody asked, or somebody was answered already.
    pub(crate) fn answered(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        ticket: Ticket,
        outcome: &Outcome,
    ) -> Result<Option<Asker>, String> {
        if self.open.get(&connection) != Some(&node) {
            return Ok(None);
        }
        match self.waiting.remove(&ticket) {
            Some(waiting) if waiting.connection == connection => Ok(Some(waiting.asker)),
            Some(waiting) => Err(format!(
                "{node:?} answered {ticket:?} on {connection:?}, but it was asked on {:?}",
                waiting.connection
            )),
            None => Err(format!(
                "{node:?} answered {ticket:?} on {connection:?} for the second time: {outcome:?}"
            )),
        }
    }

    /// What was asked under this ticket, if it waits for its answer and somebody listens.
    pub(crate) fn asked(&self, node: NodeId, connection: ConnectionId, ticket: Ticket) -> Option<&Request> {
        let listens = self.open.get(&connection) == Some(&node);
        let waiting = self.waiting.get(&ticket).filter(|waiting| listens && waiting.connection == connection);
        waiting.map(|waiting| &waiting.request)
    }

    /// A request never reached its node.
    pub(crate) fn bounced(&mut self, ticket: Ticket) -> Option<Asker> {
        self.waiting.remove(&ticket).map(|waiting| waiting.asker)
    }

    /// A connection is closed: whoever waits on it is never answered.
    pub(crate) fn close(&mut self, connection: ConnectionId) -> Vec<Asker> {
        self.open.remove(&connection);
        let lost = self.waiting.extract_if(.., |_, waiting| waiting.connection == connection);
        lost.map(|(_, waiting)| waiting.asker).collect()
    }

    /// All connections of a node that died are gone.
    pub(crate) fn died(&mut self, node: NodeId) -> Vec<(ConnectionId, Vec<Asker>)> {
        let gone: Vec<ConnectionId> =
            self.open.iter().filter(|(_, to)| **to == node).map(|(id, _)| *id).collect();
        gone.into_iter().map(|id| (id, self.close(id))).collect()
    }

    /// A request that has waited for longer than `most`, in words.
    pub(crate) fn overdue(&self, now: Duration, most: Duration) -> Option<String> {
        let late = self.waiting.iter().find(|(_, waiting)| now > waiting.since + most)?;
        let (ticket, Waiting { connection, since, request, .. }) = late;
        let node = self.open.get(connection);
        Some(format!("{ticket:?} at {node:?} has waited since {since:?} for the end of {request:?}"))
    }

    /// Requests under way.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
