//! Scatter's groups: a ring of them, the operations that change it, and the policies that want these.
//!
//! Each group is responsible for a span of the circle of positions and knows its two neighbours exactly. What it is stands at its
//! *home*, where its span begins ([`Seat`]). An operation (member change, split, merge, repartition, migration) compares what was known and
//! replaces it at all homes concerned, at once or not at all: [`Operation::edits`] says what. Policies are functions: they look at figures and name an
//! operation, and know nothing of how it is done.
//!
//! This crate keeps no log, sends nothing and stores no data. `docs/decisions/0018-groups.md` says why it is as it is.
//!
//! | file | what |
//! |---|---|
//! | `span.rs`, `group.rs` | parts of the circle; what is known of a group, and limits |
//! | `operation.rs` | what can be done, and what becomes of groups and their neighbours |
//! | `seat.rs` | what a group's home keeps of it, and what an operation replaces there |
//! | `mend.rs` | what a home has lost, as its neighbours tell it |
//! | `lifetimes.rs`, `resilience.rs` | how likely nodes die and groups fail; sizes, merging, splitting |
//! | `load.rs` | borders, halves and leaders by load |
//! | `join.rs` | which group a node joins, who leads, who goes where in a split |
//! | `preset.rs` | which policies for which deployment |
//!
//! # Glossary
//! - *group*: members that keep a span together. Its *epoch* counts the changes of both.
//! - *link*: between neighbours, named by the *border* where one span ends and the next begins.
//! - *stand*: a group and its neighbours, as it knows them.
//! - *home*: where a group's span begins; *seat*: what is kept there of the group and its neighbours, a *line* each.
#![no_std]

extern crate alloc;

pub mod borders;
mod group;
pub mod join;
pub mod lifetimes;
pub mod load;
mod mend;
mod operation;
pub mod preset;
pub mod resilience;
mod seat;
mod span;

pub use group::{Group, GroupId, MEMBERS_MAX, Misfit, Name, NoGroupId, Stand};
pub use operation::Operation;
pub use seat::{Edit, Edits, Line, Seat, Which};
pub use span::Span;
