//! What SconeKV's evaluation measured (section 6 of the paper), measured again in virtual time, with whole placed nodes.
//!
//! Nodes have workers and messages take time, so that load queues; nothing fails. Clients ask one thing at a time and begin
//! the next transaction as soon as one has ended. What is counted is what ends within a window after a while of warming up.
//!
//! | experiment | what happens |
//! |---|---|
//! | `calibrate` | 16 clients over networks of several lengths: which makes an operation take as long as in the paper |
//! | `contention` | YCSB A on 20 nodes, 16 to 256 clients, each manner of asking |
//! | `patience` | the same with 256 clients, all at once, where what waits too long for a lock is aborted |
//! | `buckets` | A with all records alike, cut into more buckets than the paper's five |
//! | `mixes` | YCSB B, C and F, and A with all records alike, 256 clients |
//! | `scale` | YCSB A and B on 20 to 160 nodes, with clients and records in proportion |
//! | `tpcc` | TPC-C on 20 to 160 nodes, with clients and warehouses in proportion |
//! | `cost` | both, cut into 40 buckets whatever the number of nodes |
//! | `starvation` | 16 to 256 clients that want the same keys: how long anybody waits |
//! | `durable` | YCSB A again, where nodes wait for their disks |
//!
//! | file | what |
//! |---|---|
//! | `setup.rs` | what a run is made of |
//! | `client.rs` | one client |
//! | `contest.rs` | transactions that want what others want |
//! | `crowd.rs` | the harness: nodes, their clients, and those who load |
//! | `tally.rs` | what is counted, and what it comes to |
//! | `runs.rs` | the experiments |

mod client;
mod contest;
mod crowd;
mod runs;
mod setup;
mod tally;

pub use contest::Skew;
pub use runs::{NAMES, run};
pub use setup::{Load, Manner, Setup};
pub use tally::measure;
