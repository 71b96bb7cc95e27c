//! What Scatter's evaluation measured (section 7 of the paper), measured again in virtual time, with whole nodes that form groups.
//!
//! | experiment | what happens |
//! |---|---|
//! | `sizes` | figure 7: the model of how likely a group fails, by its size |
//! | `operations` | table 2: what failures, joins, splits and merges take, in one room and at the three sites of figure 8 |
//! | `latencies` | figure 9: what clients' operations take in groups of 3 to 13 |
//! | `joins` | figure 10: what writes take in groups of volunteers' machines, by the policies by which they join and lead |
//! | `reconfigurations` | figure 12: what operations of groups take among such machines, by the same policies |
//! | `load` | figure 15b: how uneven nodes are loaded by fetches of popular users |
//! | `scale` | figure 16: throughput of 20 to 160 nodes, beside clusters of five that were cut once and for all |
//! | `hot-spots` | what is hot becomes something else every minute |
//! | `churn` | figures 13 and 14: 840 nodes that come and go, all over the world; `churn-poisson-180` is one point |
//! | `size` | rings of 100 to 10,000 nodes: whether they stay whole, and what a node knows, sends and is connected to |
//!
//! | file | what |
//! |---|---|
//! | `setup.rs` | what a run is made of, and where nodes stand |
//! | `ring.rs` | the harness: nodes, and what is seen of their groups |
//! | `runs.rs` | the experiments |
//! | `steps.rs` | crashes between any two steps of an operation |
//! | `lost.rs` | homes that lose what they agreed to with others |
//! | `town/` | those under load |
//! | `land/` | large ones |

mod land;
mod lost;
mod ring;
mod runs;
mod setup;
mod steps;
mod town;

pub use land::{Lives, Setup as LandSetup, measure as measure_land, measure_baseline};
pub use lost::{Losses, lose_homes};
pub use runs::{HEAVY, NAMES, run};
pub use setup::{Setup, Sites};
pub use steps::{Role, crash_at_steps};
pub use town::{Heat, Setup as LoadSetup, System, measure};
