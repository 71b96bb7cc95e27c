//! Worlds of replicated logs: a small parent around each log, clients, an operator, and a ledger of everything that
//! was ever chosen.
//!
//! | file | what |
//! |---|---|
//! | `parent.rs` | the machine: registers and sessions on top of a [`quorate_replog::Replog`] |
//! | `clients.rs` | writes and reads, with and without sessions |
//! | `operator.rs` | member changes, handovers, rumours |
//! | `ledger.rs` | what must never happen |
//! | `snare.rs` | faults that wait for the moment at which they hurt most |
//! | `cluster.rs` | the harness |
//! | `stage.rs`, `words.rs` | logs moved by hand, for transcripts |
//! | `profile.rs`, `broken.rs` | kinds of runs, and what they must reach |

#[cfg(feature = "mutants")]
mod broken;
mod clients;
mod cluster;
mod ledger;
mod operator;
mod parent;
mod profile;
mod snare;
mod stage;
mod words;

#[cfg(feature = "mutants")]
pub use broken::kind_for;
pub use cluster::{Cluster, Stress};
pub use parent::{Answer, Ask, Command, Pace, Parent, Timer};
pub use profile::{Kind, swarm};
pub use snare::{Bait, Snare, Trap};
pub use stage::Stage;
