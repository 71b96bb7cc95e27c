//! The connections of clients: who sits where, and what becomes of what is under way when one ends.

use std::time::Duration;

use quorate_api::{Consistency, Outcome, Request};
use quorate_node::{ConnectionId, Input};

use super::{Asker, CLAIM, Cluster};
use crate::Agenda;
use crate::node::claims::Claim;

impl Cluster {
    /// Hands a request to a node.
    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        asker: Asker,
        request: Request,
        agenda: &mut Agenda<Input>,
    ) {
        let node = self.doors.node(connection).expect("whoever uses a connection hears of its end");
        let request = self.doors.request(connection, asker, request, Consistency::Strict, agenda.now());
        agenda.input(Duration::ZERO, node, Input::Requests(vec![request]));
    }

    /// The connection of a seat; a new one, to anybody, if there is none.
    pub(super) fn seat(&mut self, number: usize) -> ConnectionId {
        let number = number % self.seats.len();
        if let Some(connection) = self.seats[number] {
            return connection;
        }
        let connection = self.connect();
        self.seats[number] = Some(connection);
        connection
    }

    pub(super) fn connect(&mut self) -> ConnectionId {
        let node = *self.rng.pick(&self.nodes).expect("there are nodes");
        self.doors.open(node)
    }

    /// Looks whether a key has the version by which a request was explained: anywhere, on a connection that nobody else uses.
    pub(super) fn verify(&mut self, claim: Claim, agenda: &mut Agenda<Input>) {
        let connection = self.connect();
        let request = Request::Versions(vec![claim.key.clone()]);
        self.claims.verify(connection.0, claim);
        self.send(connection, Asker { who: CLAIM, what: connection.0 }, request, agenda);
    }

    /// A client closes its connection without waiting for what is under way.
    pub(super) fn hang_up(&mut self, connection: ConnectionId, agenda: &mut Agenda<Input>) {
        if let Some(node) = self.doors.node(connection) {
            agenda.input(Duration::ZERO, node, Input::ConnectionClosed(connection));
        }
        let lost = self.doors.close(connection);
        self.forget(connection);
        self.lose(lost, agenda);
    }

    /// A connection is gone: nobody uses it any more.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.seats.iter_mut().filter(|seat| **seat == Some(connection)).for_each(|seat| *seat = None);
        for pipeline in &mut self.pipelines {
            pipeline.connection.take_if(|one| *one == connection);
        }
        for caller in &mut self.callers {
            caller.connection.take_if(|one| *one == connection);
        }
    }

    /// These will never be answered.
    pub(super) fn lose(&mut self, askers: Vec<Asker>, agenda: &mut Agenda<Input>) {
        for asker in askers {
            self.counts.lost += 1;
            // What is lost surprises nobody.
            if let Err(why) = self.ended(asker, Outcome::Unknown, agenda) {
                panic!("a lost answer was judged: {why}");
            }
        }
    }
}
