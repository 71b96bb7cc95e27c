//! The order of requests within a connection.
//!
//! A client that pipelines expects its requests to take effect in order. Writes of one node enter the log in order, and
//! reads change nothing; so reads may run beside reads and writes beside writes, and only where one kind follows the
//! other must the second wait for the first to end.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use quorate_kernel::Time;

use crate::interface::{ClientRequest, ConnectionId};

/// What kind of requests a connection has under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A request and when it came.
pub(crate) type Taken = (ClientRequest, Time);

#[derive(Debug)]
struct Connection {
    running: Kind,
    count: usize,
    waiting: VecDeque<(Kind, Taken)>,
}

/// The connections that have requests under way.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    busy: BTreeMap<ConnectionId, Connection>,
    waiting: usize,
}

impl Connections {
    /// Takes a request: returns it if it may run at once, keeps it otherwise.
    pub(crate) fn admit(&mut self, kind: Kind, request: Taken) -> Option<Taken> {
        let connection = self.busy.entry(request.0.connection).or_insert_with(|| Connection {
            running: kind,
            count: 0,
            waiting: VecDeque::new(),
        });
        if connection.running == kind && connection.waiting.is_empty() {
            connection.count += 1;
            return Some(request);
        }
        connection.waiting.push_back((kind, request));
        self.waiting += 1;
        None
    }

    /// One of a connection's requests has ended: returns what may run now.
    pub(crate) fn ended(&mut self, id: ConnectionId) -> Vec<(Kind, Taken)> {
        let Some(connection) = self.busy.get_mut(&id) else { return Vec::new() };
        connection.count -= 1;
        if connection.count > 0 {
            return Vec::new();
        }
        let Some((kind, _)) = connection.waiting.front() else {
            self.busy.remove(&id);
            return Vec::new();
        };
        let kind = *kind;
        connection.running = kind;
        let mut next = Vec::new();
        while connection.waiting.front().is_some_and(|(other, _)| *other == kind) {
            next.extend(connection.waiting.pop_front());
        }
        connection.count = next.len();
        self.waiting -= next.len();
        next
    }

    /// Whether a connection has requests that have not ended.
    pub(crate) fn is_busy(&self, id: ConnectionId) -> bool {
        self.busy.contains_key(&id)
    }

    /// The connection is gone: what has not begun never will. What runs still ends.
    pub(crate) fn closed(&mut self, id: ConnectionId) {
        if let Some(connection) = self.busy.get_mut(&id) {
            self.waiting -= connection.waiting.len();
            connection.waiting.clear();
        }
    }

    /// Requests that wait for others of their connection.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Ticket;
    use quorate_api::{Consistency, Request};

    fn request(connection: u64, ticket: u64) -> Taken {
        let request = ClientRequest {
            connection: ConnectionId(connection),
            ticket: Ticket(ticket),
            request: Request::Versions(Vec::new()),
            consistency: Consistency::Strict,
            identity: None,
        };
        (request, Time(ticket))
    }

    #[test]
    fn kinds_take_turns_and_keep_their_order() {
        let mut connections = Connections::default();
        assert!(connections.admit(Kind::Write, request(1, 1)).is_some());
        assert!(connections.admit(Kind::Write, request(1, 2)).is_some());
        assert!(connections.admit(Kind::Read, request(1, 3)).is_none());
        assert!(connections.admit(Kind::Write, request(1, 4)).is_none(), "not past the read");
        assert!(connections.admit(Kind::Read, request(2, 5)).is_some(), "another connection is free");
        assert!(connections.ended(ConnectionId(1)).is_empty());
        let next = connections.ended(ConnectionId(1));
        assert_eq!(
            next.iter().map(|(kind, (request, _))| (*kind, request.ticket.0)).collect::<Vec<_>>(),
            [(Kind::Read, 3)]
        );
        let next = connections.ended(ConnectionId(1));
        assert_eq!(next.iter().map(|(_, (request, _))| request.ticket.0).collect::<Vec<_>>(), [4]);
        assert!(connections.ended(ConnectionId(1)).is_empty());
        assert!(connections.ended(ConnectionId(1)).is_empty(), "nothing is left");
    }

    #[test]
    fn a_closed_connection_begins_nothing() {
        let mut connections = Connections::default();
        assert!(connections.admit(Kind::Write, request(1, 1)).is_some());
        assert!(connections.admit(Kind::Read, request(1, 2)).is_none());
        assert_eq!(connections.waiting(), 1);
        connections.closed(ConnectionId(1));
        assert_eq!(connections.waiting(), 0);
        assert!(connections.ended(ConnectionId(1)).is_empty());
    }
}
