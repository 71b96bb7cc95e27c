//! Quorum arithmetic: majority, flexible, fast and joint.
//!
//! This crate keeps no protocol state and sends nothing. A quorum system is a view of a member list that somebody
//! else owns; its size follows from the number of members, never from an assumed number of failures: with n > 2f + 1
//! members, f + 1 of them are no quorum.
//!
//! # Glossary
//! - *quorum*: a set of members such that any two sets that must see each other's work have a member in common.
//! - *member list*: sorted, without duplicates. The empty list has no quorum.
//! - *tally*: what distinct senders said, so that a message delivered twice counts once.
#![no_std]

extern crate alloc;

mod fast;
mod flexible;
mod system;
mod tally;

pub use fast::Fast;
pub use flexible::{Flexible, FlexibleError};
pub use system::{Joint, Majority, QuorumSystem, Threshold, majority_of};
pub use tally::Tally;
