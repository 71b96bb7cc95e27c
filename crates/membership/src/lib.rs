//! Who is a member: a chain of numbered views that all members agree on, link by link, and that does not flap.
//!
//! This is Rapid (Suresh et al., USENIX ATC 2018), decentralized, with what its paper and published code leave open or get
//! wrong settled; `docs/decisions/0007-membership.md` says what and why. It does not place data, does not elect
//! leaders, and is no basis for safety of anything else: a late view may cost time, never correctness.
//!
//! - *monitoring*: everybody is probed by K observers, its predecessors on K rings ([`Rings`], `detect.rs`, `monitor.rs`);
//! - *cut detection*: alerts gather until every subject has either fewer than L or at least H of them (`alert.rs`);
//! - *consensus*: each view makes one decision, a *cut* of all joins and removals at once (`consensus.rs`);
//! - *dissemination*: to all in small views, by gossip of merged alerts and votes in large ones (`spread.rs`);
//! - *joining* through any member, *leaving*, and *catching up* (`joiner.rs`, `admit.rs`, `outside.rs`, `install.rs`).
//!
//! A parent that derives something from the views, such as which member keeps what, folds [`Output::NextView`] over its
//! state and hands the result back ([`Input::State`]): it travels with the view to those who did not see the chain.
//!
//! # Glossary
//! - *view*: a numbered link of the chain; Rapid says configuration.
//! - *observer*, *subject*: the two ends of a monitoring edge; *alert*: an observer's word about its subject.
//! - *cut*: the changes that lead from one view to the next.
//! - *rank*: names a round of consensus; *fast*: the first one, which nobody coordinates.
//! - *state*: what a parent says of a view; opaque here.
//! - *past*: what a former member still knows, and others may need.
#![no_std]

extern crate alloc;

mod admit;
mod agreement;
mod alert;
mod chain;
mod config;
mod consensus;
mod detect;
mod hash;
mod install;
mod invariant;
mod joiner;
mod machine;
mod message;
mod monitor;
mod mutant;
mod outside;
mod record;
mod restart;
mod ring;
mod seat;
mod spread;
mod view;

pub use agreement::Agreement;
pub use alert::first_cut;
pub use config::Config;
pub use hash::Digest;
pub use machine::{Input, Membership, Out, Output, Timer};
pub use message::{JoinerMeta, Message, Rank, Refusal, Report, Voters, Votes};
pub use mutant::Mutant;
pub use record::{Base, Record, Step, Vote};
pub use ring::{RingSet, Rings};
pub use view::{Change, Cut, Member, Members, Meta, View, ViewId};
