//! Scatter's groups: a ring of them, the operations that change it, and the policies that want these.
//!
//! Each group is responsible for a span of the circle of positions and keeps a log, its *parliament*. It knows its two neighbours
//! exactly. An operation (member change, split, merge, repartition, migration) is a transaction between the groups concerned, whose
//! resources are the links between them: [`Operation::plan`] says what each group is asked, [`Parliament`] is the part of a group's
//! replicated state that votes and carries out, and `quorate-commit` brings them to one outcome. [`ring::check`] is what must hold after
//! every step. Policies are functions: they look at figures and name an operation, and know nothing of how it is done.
//!
//! This crate keeps no log, sends nothing and stores no data. `docs/decisions/0018-groups.md` says why it is as it is.
//!
//! | file | what |
//! |---|---|
//! | `span.rs`, `group.rs` | parts of the circle; what is known of a group, and limits |
//! | `operation.rs` | what can be done, and what that means for each group concerned |
//! | `parliament.rs` | what a group and its leader know: stand, locks, end |
//! | `seat.rs` | what a group's home keeps of it, and what an operation replaces there |
//! | `links.rs` | links as what transactions between logs are about |
//! | `ring.rs`, `mutant.rs` | what always holds; rules to break |
//! | `lifetimes.rs`, `resilience.rs` | how likely nodes die and groups fail; sizes, merging, splitting |
//! | `load.rs` | borders, halves and leaders by load |
//! | `join.rs` | which group a node joins, who leads, who goes where in a split |
//! | `preset.rs` | which policies for which deployment |
//!
//! # Glossary
//! - *group*: members that keep a span together. Its *epoch* counts the changes of both.
//! - *link*: between neighbours, named by the *border* where one span ends and the next begins.
//! - *stand*: a group and its neighbours, as it knows them.
//! - *heir*: a group that goes on in the place of one that was sealed.
#![no_std]

extern crate alloc;

mod group;
pub mod join;
pub mod lifetimes;
mod links;
pub mod load;
mod mutant;
mod operation;
mod parliament;
pub mod preset;
pub mod resilience;
pub mod ring;
mod seat;
mod span;

pub use group::{Group, GroupId, MEMBERS_MAX, Misfit, Name, NoGroupId, Stand};
pub use links::transaction;
pub use mutant::Mutant;
pub use operation::{Effect, Heir, Operation, Part};
pub use parliament::{Parliament, Refusal};
pub use seat::{Edit, Edits, Line, Seat, Which};
pub use span::Span;
