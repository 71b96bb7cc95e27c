//! What a node must find again after a restart.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::message::Rank;
use crate::view::{Cut, View, ViewId, shared};

/// A record in the node's log of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The node is a member of this view. Nothing before this record is needed.
    Installed {
        /// The view.
        view: View,
        /// What led to it from the view before; `None` if the node never saw that one. Kept because somebody may be
        /// one view behind, with nobody else left to ask.
        cut: Option<Step>,
        /// What the parent said of this view.
        state: Option<Bytes>,
        /// If it has not said it yet: from where it can find out.
        base: Option<Base>,
    },
    /// What the parent said of the current view.
    State {
        /// Number of the view.
        seq: u64,
        /// What it said.
        state: Bytes,
    },
    /// What the node has promised and voted for in the current view.
    Acceptor {
        /// The view.
        view: ViewId,
        /// Nothing below this rank is accepted or promised.
        promised: Rank,
        /// The newest vote.
        vote: Option<Vote>,
    },
    /// The node is no member any more. Nothing before this record is needed.
    Outside {
        /// The view that has it no more.
        view: View,
        /// What led to it; see `Installed`.
        cut: Option<Step>,
    },
}

/// One decision: what led from one view to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The view before.
    pub from: ViewId,
    /// The cut that was decided in it.
    #[serde(with = "shared")]
    pub cut: Arc<Cut>,
}

/// The newest view that the parent has said its part of, and what was decided since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The view.
    pub view: View,
    /// What the parent said of it.
    pub state: Bytes,
    /// The cuts since.
    pub cuts: Vec<Cut>,
}

/// A vote of an acceptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// In which round.
    pub rank: Rank,
    /// For what.
    #[serde(with = "shared")]
    pub cut: Arc<Cut>,
}
