//! Why a request did nothing, was tried anew or took long: for whoever asks (`QUORATE EXPLAIN`).
//!
//! Reasons travel beside outcomes and are kept in no log: one may be lost with the node that knew it, and nothing depends on
//! it. What a reason says is true all the same.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Bucket, Version};

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What kind.
    pub kind: ReasonKind,
    /// Where it was found.
    pub bucket: Bucket,
    /// The key that had changed or was locked; `None`: it was all keys, or nobody knows.
    pub key: Option<Bytes>,
    /// The version that was watched, and the one that was found.
    pub versions: Option<(Version, Version)>,
    /// Who changed or locked it, as far as that is known.
    pub by: Culprit,
    /// How long the request had waited there.
    pub waited_ms: u64,
}

/// Kinds of reasons. All but the first two end an attempt, after which the node that took the request begins another, or
/// tells its client that nothing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReasonKind {
    /// A watched key had changed.
    Changed,
    /// It waited for a lock, and got it or waits still.
    Waited,
    /// It waited longer than it may.
    GaveUp,
    /// A bucket was concerned with too many transactions.
    Busy,
    /// A bucket's leader was lost with it, or it never came there.
    Lost,
    /// A bucket had taken the node that asked, silent for long, for dead.
    Forgotten,
    /// It moves more from bucket to bucket than it may.
    TooLarge,
}

impl ReasonKind {
    /// Its name for clients.
    pub fn name(self) -> &'static str {
        match self {
            ReasonKind::Changed => "changed",
            ReasonKind::Waited => "waited",
            ReasonKind::GaveUp => "gave-up",
            ReasonKind::Busy => "busy",
            ReasonKind::Lost => "lost",
            ReasonKind::Forgotten => "forgotten",
            ReasonKind::TooLarge => "too-large",
        }
    }

    /// Whether the attempt ended with it and another may follow.
    pub fn ends_attempt(self) -> bool {
        match self {
            ReasonKind::Changed | ReasonKind::Waited | ReasonKind::TooLarge => false,
            ReasonKind::GaveUp | ReasonKind::Busy | ReasonKind::Lost | ReasonKind::Forgotten => true,
        }
    }
}

/// Who was in the way, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// The transaction, if it was one over several buckets or one that its client named.
    pub transaction: Option<TransactionName>,
    /// The node whose client it was.
    pub node: Option<u64>,
    /// That client's connection there.
    pub client: Option<u64>,
    /// Nobody: the key's time was over.
    pub expiry: bool,
}

/// The name of a transaction, as commitment knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransactionName {
    /// When it was first attempted, in milliseconds since 1970.
    pub age_ms: u64,
    /// One life of a node, or of a client.
    pub origin: u64,
    /// Counts what the origin asks.
    pub sequence: u64,
}
