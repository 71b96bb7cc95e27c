//! A shard: one replicated log applied to the store. Values with versions and expiry, sessions, reads.
//!
//! This crate does not pick the log's members, does not route and keeps no connections. Scatter calls a shard a
//! committee, SconeKV a bucket.
//!
//! # Glossary
//! - *origin*: the node that took a request from its client; *primary*: the node that leads the shard's log.
//! - *batch*: consecutive requests of one session that enter the log together.
//! - *logged time*: the largest wall-clock time that a primary has logged. It alone decides whether a key has expired,
//!   so all replicas agree and no key comes back because another primary's clock is slow.
#![no_std]

extern crate alloc;

mod apply;
mod aside;
mod batch;
mod bundle;
mod collect;
mod desk;
mod expiry;
mod held;
mod holds;
mod layout;
mod loan;
mod look;
mod machine;
mod mutant;
mod notes;
mod overlay;
mod part;
mod reads;
mod reasons;
mod replies;
mod run;
mod script;
mod sessions;
mod shield;
mod submit;
mod sweep;
#[cfg(test)]
mod tests;
mod time;
mod transact;
mod view;

pub use apply::decode_reply;
pub use batch::{BatchHeader, batch_header, decode_batch, encode_batch};
pub use collect::{Collected, decode_collected};
pub use layout::State;
pub use machine::{Input, Out, Output, Shard, Timer};
pub use mutant::Mutant;
pub use notes::Note;
pub use part::{Change, Decision, Export, Loan, Part, Rest, Share, Sight, decode_decision};
pub use reasons::{Asked, reason_of_refusal, reason_of_wait};
pub use run::{is_read, may_grow};
pub use sessions::Limits;
