//! Worlds of whole nodes: real machines from the clients' requests down to the log, clients that pipeline, move and
//! lose patience, an operator who changes members and stops nodes, and checkers of what everybody was told.
//!
//! | file | what |
//! |---|---|
//! | `cluster.rs` | the harness |
//! | `doors.rs` | connections, and the request that every answer belongs to |
//! | `claims.rs` | reasons why requests did nothing, and whether they are true |
//! | `lanes.rs` | clients driven by `quorate-workload`, judged by `quorate-checker` |
//! | `pipeline.rs` | order within a connection, and exactly once |
//! | `callers.rs` | requests that their clients name, and ask for again elsewhere: at most once, and true answers |
//! | `keys.rs` | expiry, renaming, copying, removal, FLUSHALL, SCAN |
//! | `pebbles.rs` | values that move from key to key, and are neither lost nor doubled |
//! | `operator.rs` | member changes, handovers, orderly stops, connections and rumours |
//! | `equality.rs` | replicas that hold the same state |
//! | `figures/` | experiments: load, service times, what the paper measured |
//! | `placed.rs` | buckets placed on nodes that come and go |
//! | `recovery.rs`, `recovered.rs` | buckets that lose most of their copies and are recovered |
//! | `witness.rs` | invariants of groups, and of transactions across them, after every step |
//! | `spread.rs` | everybody has what they should have, in the end |
//! | `stress.rs` | what is drawn for a run |
//! | `profile.rs`, `broken.rs` | kinds of runs, and what they must reach |

#[cfg(feature = "mutants")]
mod broken;
mod callers;
mod claims;
mod cluster;
mod doors;
mod equality;
pub mod figures;
mod grouped;
mod keys;
mod lanes;
mod operator;
mod pebbles;
mod pipeline;
mod placed;
mod profile;
mod recovered;
mod recovery;
pub mod scatter;
mod spread;
mod stress;
mod witness;
mod words;

#[cfg(feature = "mutants")]
pub use broken::kind_for;
pub use cluster::Cluster;
pub use profile::{Kind, bundles, carried, grouped, placed, swarm};
pub use recovered::recovered;
pub use recovery::{Losses, Recovered};
pub use stress::{Play, Stress};
