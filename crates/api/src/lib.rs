//! The words that everything above the protocols shares: keys and their positions, versions, commands, replies,
//! refusals, outcomes and reasons.
//!
//! This crate depends on no protocol, and the checker, which must not believe the code it judges, depends on this
//! crate alone.
#![no_std]

extern crate alloc;

mod command;
pub mod history;
mod outcome;
mod place;
mod reason;
mod reply;

pub use command::{Command, CommandCode, Hold, Identity, Request, RequestId, SessionId, Version};
pub use outcome::{Outcome, Refusal, UNKNOWN_MESSAGE};
pub use place::{Bucket, SLOT_COUNT, hash_tag, key_in_slot, position_of, slot_of};
pub use reason::{Culprit, Reason, ReasonKind, TransactionName};
pub use reply::{ErrorReply, Reply};

/// How fresh an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Consistency {
    /// Linearizable: as if there were one copy.
    #[default]
    Strict,
    /// As [`Consistency::Strict`], and answered by the copy of the node that is asked, if it has one: the leader only tells
    /// it how far that copy has to be.
    Near,
    /// A value that was current at some time, from the nearest replica.
    Relaxed,
}
