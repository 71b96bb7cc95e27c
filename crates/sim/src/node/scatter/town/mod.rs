//! Chirp under load, on a town of nodes: figures 15 and 16 of the paper.
//!
//! Nodes have one worker each, so that load queues; nothing fails. Clients know who leads which bucket, as the native client does, ask one
//! thing at a time, and begin the next as soon as it is answered.
//!
//! | file | what |
//! |---|---|
//! | `setup.rs` | what a run is made of |
//! | `chirps.rs` | what users do: whose posts are read and written how often, and whose at which moment above all |
//! | `streets.rs` | who is asked for a key: groups that move, or partitions that were cut once and for all |
//! | `harness.rs` | nodes and clients |
//! | `table.rs` | the same for the hash table without agreement |
//! | `tally.rs` | what is counted in each half second, and what it comes to |
//! | `runs.rs` | the experiments |

mod chirps;
mod harness;
mod runs;
mod setup;
mod streets;
mod table;
mod tally;

pub(super) use runs::{hot_spots, load, of_hot_spots, of_scale, scale};
pub use setup::{Heat, Setup, System};
pub use tally::measure;
