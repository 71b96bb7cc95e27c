//! Worlds of memberships: nodes that join, leave, crash and come back, an operator that makes them, a parent that derives
//! a state from the views, and a ledger of every view there ever was.
//!
//! | file | what |
//! |---|---|
//! | `cluster.rs` | the harness |
//! | `ledger.rs` | what must never happen |
//! | `profile.rs`, `broken.rs` | kinds of runs, and what they must reach |
//! | `stage.rs`, `words.rs` | nodes moved by hand, for transcripts |
//! | `experiment/` | what the paper measured, measured again |

#[cfg(feature = "mutants")]
mod broken;
mod cluster;
pub mod experiment;
mod ledger;
mod profile;
mod stage;
mod words;

#[cfg(feature = "mutants")]
pub use broken::kind_for;
pub(crate) use cluster::draw_config;
pub use cluster::{Cluster, Stress};
pub use profile::{Kind, calm, swarm};
pub use stage::Stage;
