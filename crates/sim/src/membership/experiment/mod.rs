//! What the paper measured (Suresh et al. 2018, section 7), measured again in virtual time, with the machine itself.
//!
//! | experiment | what happens |
//! |---|---|
//! | `crashes` | ten of the members crash at once |
//! | `deaf` | ten members hear nobody for 20 s, hear again for 20 s, and so on |
//! | `lossy` | four of five messages from and to one in a hundred members are lost |
//! | `links` | ten members are not heard by some observers for 20 s, heard for 20 s, and so on: on fewer than L of their rings, and on H |
//! | `bootstrap` | all but one start within a second and join |
//! | `conflicts` | how often two nodes propose different cuts, by watermarks and number of failures |
//! | `churn` | members live for 20 to 60 s in the mean, crash for good, and others join in their places, for half an hour |
//! | `small` | how long clusters of three to nine take to remove one that crashed |

mod churn;
mod conflicts;
mod fleet;
mod runs;

pub use crate::{Fact, Row};

/// The names of all experiments.
pub const NAMES: [&str; 8] =
    ["crashes", "deaf", "lossy", "links", "bootstrap", "conflicts", "churn", "small"];

/// Runs one experiment with so many nodes; `None` if there is none of that name.
pub fn run(name: &str, nodes: usize, seed: u64) -> Option<Vec<Row>> {
    Some(match name {
        "crashes" => vec![runs::crashes(nodes, seed)],
        "deaf" => vec![runs::deaf(nodes, seed)],
        "lossy" => vec![runs::lossy(nodes, seed)],
        "links" => runs::links(nodes, seed),
        "bootstrap" => vec![runs::bootstrap(nodes, seed)],
        "conflicts" => conflicts::table(nodes, seed),
        "churn" => [20.0, 40.0, 60.0].map(|lifetime_s| churn::churn(nodes, lifetime_s, seed)).into(),
        "small" => runs::small(seed),
        _ => return None,
    })
}
