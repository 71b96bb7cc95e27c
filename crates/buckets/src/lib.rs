//! Which nodes hold which buckets, as a deterministic function of the chain of membership views.
//!
//! Keys belong to buckets by position, buckets to nodes by the [`Placement`]. Its founders compute it once; after that it
//! changes only by what is agreed in one order: a view's [`Cut`], a [`Step`], a report of a log ([`Placement::settle`]), an
//! operator's word. Whoever applied the same things in the same order has the same placement, number and hash.
//!
//! This crate keeps no log, sends nothing and proves nothing about stored data. A placement says who *should* hold a bucket and
//! lead it; the bucket's log decides who does. A node that acts on an old placement can only be slow.
//! `docs/decisions/0009-placement.md` says why it is as it is.
//!
//! | file | what |
//! |---|---|
//! | `node.rs` | inputs, limits, refusals |
//! | `placement.rs` | the placement: founding, looking at it, what an operator sets, its bytes and hash |
//! | `advance.rs` | a view's cut |
//! | `settle.rs` | what logs report; buckets that lost their majority, and their recovery |
//! | `step.rs` | one step at a time: repair, spread, load, leadership |
//! | `survey.rs`, `even.rs` | the arithmetic of spread, and of evenness |
//! | `due.rs` | what the leader of a bucket has to do |
//!
//! # Glossary
//! - *members* of a bucket: the nodes that should hold it, in order; the first should lead.
//! - *holders*: the members of its log as they were last reported.
//! - *vacancy*: a bucket has fewer members than it should: the copies wanted, or as many as there are nodes that take some.
//! - *halted*: no majority of those who may hold the newest state is among the nodes.
//! - *mark*: an opaque number that a bucket's log keeps, which says which placement it was last brought in line with.
#![no_std]

extern crate alloc;

mod advance;
mod due;
mod even;
mod node;
mod placement;
mod settle;
mod step;
mod survey;

pub use due::Due;
pub use node::{COPIES_MAX, Cut, LABEL_BYTES_MAX, MEMBERS_MAX, Misfit, NODES_MAX, Node};
pub use placement::Placement;
pub use settle::{Lost, Recovered};
pub use step::{Change, Step, Why};
