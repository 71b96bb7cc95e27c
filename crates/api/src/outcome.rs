//! How a request ends: done, refused, or unknown. Nothing else.

use core::fmt;
use serde::{Deserialize, Serialize};

use crate::Reply;

/// The three ways a request can end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// It happened, exactly once; an error reply of a command (a wrong type, say) is such a happening, too.
    Done(Reply),
    /// It did not happen and never will.
    Refused(Refusal),
    /// It entered a log but its deadline passed: it may have happened, may still happen, or never will.
    Unknown,
}

/// Why nothing happened. Each is told to the client in words of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// No leader, or no quorum, could be reached before the deadline.
    NoLeader,
    /// A queue on the way is full.
    Busy,
    /// The disk has no room for more.
    NoSpace,
    /// The memory limit is reached.
    NoMemory,
    /// The node starts, or stops, and does not serve.
    NotServing,
    /// The request is larger than a limit.
    TooLarge,
    /// What it moves, or is answered, from bucket to bucket is larger than a limit.
    ValuesTooLarge,
    /// Of a request with a name of its client: this name has come to an end for reasons that pass.
    Aborted,
    /// Of a request with a name of its client: the client is known to have settled the name. It was not taken this time; what
    /// came of it when it was asked for before is forgotten.
    Settled,
    /// Of a request with a name of its client: it claims to be older than any can be that waits for its turn, as if the client's
    /// clock were wrong.
    Outdated,
    /// The bucket of its keys has lost its majority, and waits for its nodes to come back or for an operator.
    Halted,
}

impl Refusal {
    /// The error reply of the Redis doors: first word and explanation.
    pub fn message(self) -> &'static str {
        match self {
            Refusal::NoLeader => "TRYAGAIN no leader or no quorum was reached in time, nothing was changed",
            Refusal::Halted => {
                "CLUSTERDOWN most copies of the bucket of these keys are lost, nothing was changed: it is halted until their nodes \
                 come back, or until an operator recovers it (see `quorate recover`)"
            }
            Refusal::Busy => "BUSY a queue of this node is full, nothing was changed",
            Refusal::NoSpace => "NOSPACE the disk is full, nothing was changed",
            Refusal::NoMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Refusal::NotServing => "LOADING this node is starting or stopping, nothing was changed",
            Refusal::ValuesTooLarge => {
                "ERR keys of the request lie in several buckets, and the values it needs of them, or its replies, are \
                 larger than what buckets tell each other at once, nothing was changed: keys with the same {tag} lie \
                 in one bucket"
            }
            Refusal::Aborted => {
                "ABORTED others were in its way, or a node that had it was lost, nothing was changed nor will be under this \
                 number: ask with the next"
            }
            Refusal::Settled => {
                "SETTLED this number was settled, or its origin was silent for too long and is forgotten, nothing was changed \
                 now: ask under a new origin"
            }
            Refusal::Outdated => {
                "CLOCK by this node's clock the request was first wanted more than a minute ago, nothing was changed: set the \
                 client's clock, or the node's"
            }
            Refusal::TooLarge => "ERR the request is larger than this node's limit, nothing was changed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// The error reply of the Redis doors for [`Outcome::Unknown`].
pub const UNKNOWN_MESSAGE: &str =
    "UNKNOWN the deadline passed after the command entered a log: it may have been applied or may still be";
