//! What a node is told and what it says: the whole surface between a node and its driver.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU16;
use quorate_api::{Bucket, Consistency, Identity, Outcome, Reason, Request};
use quorate_groups::GroupId;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::config::Topology;
use crate::endpoints::Endpoints;

/// A connection of a client; the driver numbers them and never reuses a number in one lifetime of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectionId(pub u64);

/// Names one request among those of its driver's lifetime, so that the answer finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// Who it is.
    pub id: NodeId,
    /// Where it is.
    pub endpoints: Arc<Endpoints>,
}

/// A request with the way back to its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// The connection it came from. Requests of one connection take effect in the order in which they came.
    pub connection: ConnectionId,
    /// Where the answer belongs.
    pub ticket: Ticket,
    /// What is asked.
    pub request: Request,
    /// How fresh the answer must be.
    pub consistency: Consistency,
    /// The name that its client gave it, if it did: then it happens at most once, by whichever nodes it is asked.
    pub identity: Option<Box<Identity>>,
}

/// What an operator asks of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// Change the members of the cluster: all additions and removals in one step.
    ChangeMembers {
        /// Nodes that are to hold copies; each must run and have been started to join this cluster.
        add: Vec<Member>,
        /// Nodes that are to leave; they may be dead.
        remove: Vec<NodeId>,
    },
    /// Hand leadership over, to the given member or to the one best prepared.
    TransferLeadership {
        /// To whom.
        to: Option<NodeId>,
    },
    /// Let a bucket that lost its majority go on with what is left of it; the rest is given up.
    Recover {
        /// Which.
        bucket: Bucket,
    },
    /// Change how many copies there are of each bucket, where buckets are placed on nodes that come and go.
    SetCopies {
        /// So many, or as many as there are nodes if these are fewer.
        copies: u8,
    },
    /// Change groups, where these hold the buckets.
    Group(GroupRequest),
}

/// What an operator asks of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupRequest {
    /// Become two, which share buckets and members.
    Split {
        /// Which.
        group: GroupId,
    },
    /// Become one with the group after it.
    Merge {
        /// Which.
        group: GroupId,
    },
    /// Begin at another place: the border between it and the group before it moves.
    Repartition {
        /// Which.
        group: GroupId,
        /// It begins with the bucket that has this slot.
        slot: u16,
    },
    /// A node leaves its group for another.
    Move {
        /// Who.
        node: NodeId,
        /// To which group.
        to: GroupId,
    },
}

/// What a node knows of a group. Not for decisions: it may be out of date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Which.
    pub id: GroupId,
    /// Counts the changes of its members and its span.
    pub epoch: u64,
    /// What it holds, in the order of the ring; its home first.
    pub buckets: Vec<Bucket>,
    /// Its members.
    pub members: Vec<NodeId>,
    /// Whoever leads its home, and so speaks for it.
    pub speaker: Option<NodeId>,
    /// Whether all its buckets have leaders.
    pub quorum: bool,
    /// Whether all its buckets are where it is; nobody but its members knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// What its buckets have to do in a second: requests, and messages that their logs have for their leaders because of them. Of each bucket as
    /// whoever speaks for the group has said it last.
    pub load: u64,
}

/// How an operator's request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminOutcome {
    /// It is done.
    Done,
    /// Nothing was changed, for this reason.
    Refused(String),
    /// It was begun, and its end was not seen: look at the members before trying again.
    Unknown(String),
}

/// What the driver tells a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Requests that arrived together.
    Requests(Vec<ClientRequest>),
    /// A client's connection is gone: no more answers for it. What is under way goes on.
    ConnectionClosed(ConnectionId),
    /// A connection *to* this peer stands now; messages sent before may have been lost.
    PeerConnected(NodeId),
    /// The connection to this peer broke. A hint that it may have died; carries no safety.
    PeerLost(NodeId),
    /// An operator asks for something; answered with [`Output::Admin`].
    Admin(Ticket, AdminRequest),
    /// Learnt by a node that joins, before it hears from anybody else: what the cluster is made of.
    Shape {
        /// As in [`NodeConfig::buckets`](crate::NodeConfig::buckets).
        buckets: NonZeroU16,
        /// As in [`NodeConfig::copies`](crate::NodeConfig::copies).
        copies: u8,
        /// As in [`NodeConfig::topology`](crate::NodeConfig::topology).
        topology: Topology,
    },
    /// Whether the node has no room for more, see [`Storage`](crate::Storage).
    Full(bool),
    /// The node is to stop: refuse what is new, hand leadership over, then say [`Output::ReadyToStop`].
    Stop,
}

/// What a node tells its driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Ends of requests, in any order across connections.
    Replies(Vec<(ConnectionId, Ticket, Outcome)>),
    /// Why a request that has not ended did nothing, was tried anew, or waits. Harmless if forgotten.
    Reason(ConnectionId, Ticket, Box<Reason>),
    /// Everybody this node wants connections to from now on, itself excluded. Others may be let go.
    Peers(Vec<Member>),
    /// The end of an operator's request.
    Admin(Ticket, AdminOutcome),
    /// Nothing is left to wait for: the driver may stop the node.
    ReadyToStop,
}

/// What a node knows of a bucket. Not for decisions: it may be out of date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketStatus {
    /// Which bucket.
    pub bucket: Bucket,
    /// Its first slot.
    pub slot_first: u16,
    /// Its last slot.
    pub slot_last: u16,
    /// Whom this node believes to lead it.
    pub believed_leader: Option<NodeId>,
    /// Who holds copies of it and counts.
    pub members: Vec<NodeId>,
    /// Whether it is led and a majority of its members can be reached, as far as this node sees: then it takes writes.
    pub quorum: bool,
    /// Whether this node holds a copy; without one it knows nothing of what follows.
    pub here: bool,
    /// Number of its member list.
    pub epoch: u64,
    /// Newest entry in the log of this node's copy.
    pub log_last: u64,
    /// Newest entry that this node knows to be chosen.
    pub log_chosen: u64,
    /// Newest entry applied to this node's store.
    pub log_applied: u64,
    /// Number of keys in this node's copy.
    pub keys: u64,
    /// Set if it lost its majority: it answers nothing until members come back or an operator recovers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
}

impl BucketStatus {
    /// What an operator has to know of a bucket that lost its majority.
    pub fn alarm(&self) -> Option<String> {
        let Halt { survivors, gone, blocked } = self.halt.as_ref()?;
        let list = |ids: &[NodeId]| match ids {
            [] => "nobody".into(),
            ids => ids.iter().map(ToString::to_string).collect::<Vec<String>>().join(", "),
        };
        let number = self.bucket.0;
        let waits = match blocked {
            0 => String::new(),
            count => format!(
                ". Transactions that other buckets agreed to and whose outcome it has to say: {count}; the keys of these are locked until then"
            ),
        };
        Some(format!(
            "bucket {number} (slots {} to {}) is halted, most of its copies are lost: on nodes {}; left: on nodes {}. It answers \
             nothing until those nodes come back, or until an operator gives them up: quorate recover {number}{waits}",
            self.slot_first,
            self.slot_last,
            list(gone),
            list(survivors),
        ))
    }
}

/// What is left of a bucket that lost its majority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// Those who hold it, or were about to, and are still there.
    pub survivors: Vec<NodeId>,
    /// Those who may hold what no survivor has.
    pub gone: Vec<NodeId>,
    /// Transactions that buckets led by the node that says so have agreed to, and whose outcome is this bucket's to say: their
    /// keys are locked there until it does.
    #[serde(default)]
    pub blocked: u64,
}

/// Which nodes there are, and which of them lead and hold which slots, as a node believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Number of the cluster's member list.
    pub epoch: u64,
    /// The members of the cluster.
    pub members: Vec<Member>,
    /// Those of them that can be reached, this node among them.
    pub reachable: BTreeSet<NodeId>,
    /// All buckets, in the order of their slots.
    pub buckets: Vec<BucketStatus>,
}

/// A node's view of itself and its cluster, for operators. Not for decisions: it may be out of date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node.
    pub id: NodeId,
    /// What it does in the log: `leader`, `follower`, `candidate`, `learner`, `joining` or `retired`; where buckets are placed
    /// on nodes that come and go: `leader` (of any bucket), `member` or `joining`.
    pub role: String,
    /// Whether it would serve a strict request now.
    pub ready: bool,
    /// Whom it believes to lead.
    pub believed_leader: Option<NodeId>,
    /// Number of the member list, or of the view.
    pub epoch: u64,
    /// How many copies of each bucket there should be; 0: one on each node.
    #[serde(default)]
    pub copies: u8,
    /// The members.
    pub members: Vec<Member>,
    /// Nodes that catch up before they become members.
    pub learners: Vec<NodeId>,
    /// Newest entry in the log.
    pub log_last: u64,
    /// Newest entry known to be chosen.
    pub log_chosen: u64,
    /// Newest entry applied to the store.
    pub log_applied: u64,
    /// Oldest entry still in memory.
    pub log_first: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes the store occupies.
    pub store_bytes: u64,
    /// Requests taken and not yet answered.
    pub requests_pending: u64,
    /// For a leader, how far each follower is: newest entry it acknowledged.
    pub followers: Vec<(NodeId, u64)>,
    /// The groups that hold the buckets, if such do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupStatus>,
    /// The buckets. What is said above of a log is about that of bucket 0, whose members are those of the cluster.
    #[serde(default)]
    pub buckets: Vec<BucketStatus>,
}
