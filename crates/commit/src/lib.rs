//! Atomic commitment over replicated logs: transactions that several logs carry out all together or not at all.
//!
//! A participant is a log, named by an opaque [`LogId`]; what it has at stake is its parent's business ([`Resources`]):
//! keys of a shard, links between groups. This crate knows no keys, no nodes and no store, sends nothing itself and
//! is not a distributed lock service. It is the two-phase commitment of SconeKV with its reverts (a transaction that holds
//! locks an older one needs gives them back, as long as nothing is decided), corrected where the paper's algorithms are
//! wrong; `docs/decisions/0008-atomic-commitment.md` says where.
//!
//! | file | what |
//! |---|---|
//! | `id.rs`, `record.rs`, `message.rs`, `config.rs` | names, what stands in logs, what logs tell each other, limits |
//! | `ledger.rs` | the replicated part: what all replicas of a log agree on by applying entries |
//! | `machine.rs`, `reign.rs` | the machine, and the volatile part of whoever leads the log |
//! | `coordinator.rs`, `participant.rs` | the two roles |
//! | `bundle.rs` | requests that go together as one transaction |
//! | `applied.rs`, `retry.rs` | what an entry sets going; timers, a new primary, forgetting |
//! | `locks.rs` | locks for parents that have keys |
//!
//! # Glossary
//! - *part*: what a transaction does at one log; opaque here.
//! - *coordinator*: the participant that collects votes and decides.
//! - *vote*: yes (everything is locked and checked, and this is *exported* to whoever decides) or no (a *refusal*).
//! - *revert*: a yes taken back before the decision, so that an older transaction gets the locks first; the *epoch* of a
//!   transaction at a log counts them.
//! - *view*: names the reign of one primary of a log; `cv` is the coordinator's, `pv` the participant's.
//! - *bundle*: one transaction made of several requests of one coordinator, its *members*; only their coordinator and
//!   their origins know them by name.
//! - *tombstone*: an abort in the log of a transaction whose request never came.
//! - *horizon* of an origin: it never asks again for anything numbered below it.
#![no_std]

extern crate alloc;

mod applied;
mod bundle;
mod config;
mod coordinator;
mod explain;
mod id;
mod invariant;
mod ledger;
pub mod locks;
mod machine;
mod message;
mod mutant;
mod participant;
mod record;
mod reign;
mod retry;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use id::{LogId, TransactionId, View};
pub use ledger::{Ledger, Row};
pub use machine::{Attempt, Commit, Effect, NotTaken, Resources, Turn, Verdict};
pub use message::{Message, Word};
pub use mutant::Mutant;
pub use record::{Cause, Entry, Member, Outcome, Record, Refusal, State, Transaction, Vote, Wait};
