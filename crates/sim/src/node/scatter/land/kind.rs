//! What can be a node here: one of ours, or one of the baseline.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_api::{Consistency, Outcome, Reply};
use quorate_kernel::{ClusterId, NodeId};
use quorate_node::{
    ClientRequest, ConnectionId, Input, Message, Node, NodeConfig, Output, Placing, Preset, Ticket, Topology,
};

use super::setup::{FOUNDERS, Setup};
use crate::Simulated;
use crate::node::operator::member;
use crate::node::words;

/// What a client is told.
#[derive(Debug)]
pub(in crate::node::scatter) enum Answer {
    Value(Option<String>),
    Written,
    /// It did not happen.
    Refused,
    /// It may have happened.
    Unknown,
    /// What no client should ever see.
    Nonsense(String),
}

/// What a node says to its host.
pub(super) enum Said {
    /// Whom it wants to be connected to.
    Peers(BTreeSet<NodeId>),
    Answers(Vec<(Ticket, Answer)>),
    Nothing,
}

/// A machine that joins, serves clients and dies.
pub(super) trait Kind: Simulated + Sized {
    fn of(setup: &Setup, node: NodeId, is_founder: bool) -> Self;
    /// Whether it serves clients.
    fn serves(&self) -> bool;
    /// Whether it has a place among the others.
    fn has_place(&self, me: NodeId) -> bool;
    /// Whether the address that it was told was of no use.
    fn is_stranger(&self) -> bool;
    /// A connection stands; to a node that knows nobody: the address that it was told.
    fn connected(peer: NodeId) -> Self::Input;
    fn lost(peer: NodeId) -> Self::Input;
    /// A client reads keys, or writes them, all at once.
    fn ask(ticket: Ticket, keys: &[u64], value: Option<&str>) -> Self::Input;
    /// The client of this request goes.
    fn goes(ticket: Ticket) -> Self::Input;
    fn said(output: Self::Output) -> Said;
    /// What a message is for, for those who count.
    fn purpose(msg: &Self::Msg) -> &'static str;
}

impl Kind for Node {
    fn of(setup: &Setup, node: NodeId, is_founder: bool) -> Node {
        let founders = if is_founder { 1..FOUNDERS + 1 } else { 0..0 };
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(9),
            bootstrap: founders.map(NodeId).map(member).collect(),
            buckets: setup.buckets(),
            copies: setup.copies,
            topology: Topology::Ring,
            placing: Placing {
                preset: Some(Preset::Steady),
                nines: setup.nines,
                repair_after: Some(Duration::from_secs(1)),
                ..Placing::production()
            },
            log: setup.log(),
            limits: setup.limits(),
        })
    }

    fn serves(&self) -> bool {
        self.is_ready()
    }

    fn has_place(&self, me: NodeId) -> bool {
        self.groups().iter().any(|group| group.members.contains(&me))
    }

    fn is_stranger(&self) -> bool {
        self.groups().is_empty()
    }

    fn connected(peer: NodeId) -> Input {
        Input::PeerConnected(peer)
    }

    fn lost(peer: NodeId) -> Input {
        Input::PeerLost(peer)
    }

    fn ask(ticket: Ticket, keys: &[u64], value: Option<&str>) -> Input {
        let names: Vec<String> = keys.iter().map(|key| format!("key:{key}")).collect();
        let request = match (names.as_slice(), value) {
            ([key], Some(value)) => words::one(&["SET", key, value]),
            ([key], None) => words::one(&["GET", key]),
            (keys, Some(value)) => {
                let pairs = keys.iter().flat_map(|key| [key.as_str(), value]);
                words::one(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>())
            }
            (keys, None) => {
                let keys = keys.iter().map(String::as_str);
                words::one(&["MGET"].into_iter().chain(keys).collect::<Vec<_>>())
            }
        };
        let (connection, consistency) = (ConnectionId(ticket.0), Consistency::Strict);
        Input::Requests(vec![ClientRequest { connection, ticket, request, consistency, identity: None }])
    }

    fn goes(ticket: Ticket) -> Input {
        Input::ConnectionClosed(ConnectionId(ticket.0))
    }

    fn said(output: Output) -> Said {
        let answer = |outcome: Outcome| match outcome {
            Outcome::Done(Reply::Error(error)) => Answer::Nonsense(format!("answered with {error:?}")),
            Outcome::Done(Reply::Bulk(bytes)) => {
                Answer::Value(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Outcome::Done(Reply::Nil) => Answer::Value(None),
            Outcome::Done(_) => Answer::Written,
            Outcome::Refused(_) => Answer::Refused,
            _ => Answer::Unknown,
        };
        match output {
            Output::Peers(peers) => Said::Peers(peers.into_iter().map(|peer| peer.id).collect()),
            Output::Replies(replies) => Said::Answers(
                replies.into_iter().map(|(_, ticket, outcome)| (ticket, answer(outcome))).collect(),
            ),
            _ => Said::Nothing,
        }
    }

    fn purpose(msg: &Message) -> &'static str {
        msg.purpose()
    }
}
