//! Worlds of groups on a ring. A process holds the logs of any number of groups, as those of which no members disagree; its life is
//! the reign of their leaders. Groups begin and end, and a group that has ended answers for what it agreed to as long as anybody asks.
//!
//! | file | what |
//! |---|---|
//! | `site.rs` | the machine: groups with [`quorate_commit::Commit`] over the links of [`quorate_groups::Parliament`] |
//! | `cluster.rs` | the harness: who wants operations, and what must hold of the ring after every step |
//! | `profile.rs` | kinds of runs, and what they must reach |

mod cluster;
mod profile;
mod site;

pub use cluster::{Cluster, Stress};
#[cfg(feature = "mutants")]
pub use profile::kind_for;
pub use profile::{Kind, swarm};
pub use site::{Answer, Ask, Hall, Msg, Record, Site, Timer};
