//! What replicas of one log say to each other.

use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use quorate_kernel::{NodeId, Time};
use serde::{Deserialize, Serialize};

use crate::record::{Entry, Epoch, StateMeta};

/// The place of an entry in the log, from 1. It goes on over seals.
pub type Index = u64;

/// Who leads when. Each ballot belongs to one node for ever, so one ballot has one leader.
///
/// The epoch comes first: whatever happens in a successor overrides what is left of the log it succeeded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Ballot {
    /// Number of the member list under which it is used.
    pub epoch: u64,
    /// Grows with every election.
    pub number: u64,
    /// Whose ballot it is.
    pub node: Option<NodeId>,
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "{}.{}.{node}", self.epoch, self.number),
            None => write!(f, "{}.{}.-", self.epoch, self.number),
        }
    }
}

/// A message between two replicas of one log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a candidate to all members: will you (or, in a trial, would you) promise this ballot?
    Prepare(Prepare),
    /// The answer to a granted [`Message::Prepare`].
    Promise {
        /// The ballot promised.
        ballot: Ballot,
        /// Whether only a trial was answered; nothing is promised then.
        trial: bool,
    },
    /// From a leader to a follower or learner, when there is something new and at every heartbeat.
    Append(Append),
    /// From a follower, also from the leader to itself: the log agrees with the leader's up to `matched`, on disk.
    Accepted {
        /// The leader's ballot.
        ballot: Ballot,
        /// Up to where the logs agree.
        matched: Index,
        /// Copied from the message that is answered.
        echo: Echo,
    },
    /// From a follower whose log does not continue where the leader's message begins.
    Conflict {
        /// The leader's ballot.
        ballot: Ballot,
        /// The logs may agree up to here, and not beyond.
        matched_max: Index,
        /// Copied from the message that is answered.
        echo: Echo,
    },
    /// From anyone who promised a higher ballot, to the sender of something older.
    Stale {
        /// The ballot promised.
        promised: Ballot,
        /// The newest member list the sender knows.
        epoch: Epoch,
        /// The sender knows that a quorum of these members has everything that came before them.
        settled: bool,
    },
    /// From a leader to a follower that needs entries the leader no longer has: a part of its state.
    Part(Part),
    /// From the receiver of a snapshot: the part it wants next.
    NextPart {
        /// The leader's ballot.
        ballot: Ballot,
        /// Which snapshot: the entry up to which it has everything.
        applied: Index,
        /// Number of the part it wants.
        part: u64,
    },
    /// From a leader that wants to be succeeded to the follower that should: stand for election at once.
    Handover {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// From the leader of a successor to a former member: a quorum of the successor holds all that you hold.
    Retire {
        /// The leader's ballot.
        ballot: Ballot,
        /// The member list of the successor, should the receiver not know it.
        epoch: Epoch,
    },
}

impl Message {
    /// The newest epoch that the sender speaks of.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Message::Prepare(Prepare { ballot, .. })
            | Message::Promise { ballot, .. }
            | Message::Append(Append { ballot, .. })
            | Message::Accepted { ballot, .. }
            | Message::Conflict { ballot, .. }
            | Message::Part(Part { ballot, .. })
            | Message::NextPart { ballot, .. }
            | Message::Handover { ballot }
            | Message::Retire { ballot, .. } => ballot.epoch,
            Message::Stale { promised, epoch, .. } => promised.epoch.max(epoch.number),
        }
    }
}

/// See [`Message::Prepare`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// The ballot that the candidate wants to lead.
    pub ballot: Ballot,
    /// The newest ballot whose leader's log the candidate's log has caught up with.
    pub log_ballot: Ballot,
    /// Newest entry of its log.
    pub last: Index,
    /// Nothing is promised; the candidate asks whether it would be of use to stand (pre-vote).
    pub trial: bool,
    /// The leader of this ballot, which gave up its lease, asked the candidate to stand: no need to wait.
    pub handed_over_by: Option<Ballot>,
}

/// What an answer carries back so that its receiver knows to which message it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Echo {
    /// When the answered message was sent, on the leader's clock.
    pub sent_at: Time,
    /// The newest read round at that time.
    pub round: u64,
}

/// See [`Message::Append`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// Newest entry of the leader's log when it took over.
    pub takeover: Index,
    /// The entry before the first of `entries`; 0 asks for no comparison and nothing is claimed.
    pub prev: Index,
    /// The ballot of that entry.
    pub prev_ballot: Ballot,
    /// New entries.
    pub entries: Vec<Entry>,
    /// Every entry up to this one is chosen.
    pub chosen: Index,
    /// To be copied into the answer.
    pub echo: Echo,
}

/// A part of a snapshot; see [`Message::Part`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// What the snapshot holds: also its name.
    pub meta: StateMeta,
    /// Number of this part, from 0.
    pub part: u64,
    /// Rows, in order, without the prefix of their area.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Whether this is the last part.
    pub last: bool,
}
