//! Worlds of transactions over several logs. A log is one simulated process whose records are the log and whose life is the
//! reign of a primary: a crash loses everything volatile and keeps or cuts what is in flight.
//!
//! | file | what |
//! |---|---|
//! | `bucket.rs` | the machine: a log around [`quorate_commit::Commit`] |
//! | `shelf.rs` | what transactions are about: keys with versions, and their locks |
//! | `clients.rs` | who asks for transactions |
//! | `judge.rs`, `order.rs` | what must never happen |
//! | `cluster.rs` | the harness |
//! | `stage.rs` | logs moved by hand |
//! | `profile.rs`, `broken.rs` | kinds of runs, and what they must reach |

#[cfg(feature = "mutants")]
mod broken;
mod bucket;
mod clients;
mod cluster;
mod judge;
mod order;
mod profile;
mod shelf;
mod stage;

#[cfg(feature = "mutants")]
pub use broken::kind_for;
pub use bucket::{Answer, Ask, Bucket, Moment, Msg, Record, Timer};
pub use cluster::{Cluster, Stress};
pub use profile::{Kind, bundles, swarm, unlimited};
pub use shelf::{Act, Cell, Decision, Export, Found, Item, Part, Shelf, Ways};
pub use stage::Stage;
