//! The replicated log: one sequence of commands that a changing set of nodes agrees on.
//!
//! This crate does not know what a command means, does not pick the members, and is not Raft, though it borrows from
//! it. It is Multi-Paxos in the dress of Viewstamped Replication:
//!
//! - *ballots* (Lamport 1998) are ordered triples (epoch, number, node), so that a ballot has one leader;
//! - an *election* gathers promises from a quorum; a promise is given only to a log that is at least as far as the own
//!   one by (newest ballot caught up with, newest entry), VSR's choice of log (Liskov and Cowling 2012, section 4.2)
//!   turned into a condition of the vote;
//! - *replication* compares (index, ballot) of the preceding entry, as in Raft (Ongaro 2014, section 3.5), and never
//!   cuts a log back before what replaces it is there;
//! - entries of earlier leaders count once the whole log that the leader took over is on a quorum's disks;
//! - *members* change by seal and succeed (stop-sign reconfiguration): see `member.rs`;
//! - *reads* need no entry: a lease, or a round shared by all reads that wait;
//! - *sessions* ([`session`]) make retries harmless.
//!
//! `docs/decisions/0003-replicated-log.md` argues safety and says where this departs from the papers.
//!
//! # Glossary
//! - *chosen*: on the disks of a quorum, never to be replaced (Paxos); VSR says committed.
//! - *takeover*: the newest entry of a leader's log when its ballot began.
//! - *epoch*: the time of one member list; *seal*: the entry that ends it; *heir*: who leads the next one unelected.
//! - *learner*: receives everything, counts for nothing; *caretaker*: a former member that still holds what the new
//!   members need.
//! - *era*: the epochs since a log last went on without a majority because an operator said so; *fence*: the epoch below which
//!   a replica takes part in nothing. See `recover.rs`.
//! - *part*: a piece of a snapshot; *area*: the rows of one state in the store.
#![no_std]

extern crate alloc;

mod accept;
mod config;
mod election;
mod invariant;
mod leader;
mod log;
mod machine;
mod member;
mod message;
mod mutant;
mod promise;
mod read;
mod receive;
mod record;
mod recover;
mod restart;
mod rows;
mod send;
pub mod session;
mod thrift;

pub use config::Config;
pub use machine::{Input, Out, Output, Replog, Timer};
pub use member::ChangeEnd;
pub use message::{Append, Ballot, Echo, Index, Message, Part, Prepare};
pub use mutant::Mutant;
pub use record::{Content, Entry, Epoch, Member, Record, Seal, StateMeta};
pub use recover::{ERA_ENTRIES, ERA_EPOCHS, Standing, era_epoch, era_start};
