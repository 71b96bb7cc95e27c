//! Load on a cluster over the Redis protocol, measured honestly: many connections on few threads, so that the load
//! takes little of the servers' processors; latencies in an open loop counted from when a request was due; results as
//! JSON lines with the machine they were measured on. It judges nothing and draws nothing.
//!
//! # Glossary
//! - *closed loop*: a client asks again when it was answered. *Open loop*: requests come at a rate, whether or not
//!   earlier ones were answered.
//! - *flight*: an operation between its first request and its last answer.
//! - *outrun*: a transaction that did not happen because a key that it watched had changed.
//! - *gap*: a time in which no write was acknowledged to anybody.

mod chirp;
mod client;
mod clock;
mod driver;
mod facts;
mod judged;
mod load;
mod loading;
mod minutes;
mod plain;
mod player;
mod process;
mod progress;
mod report;
mod script;
mod session;
mod tally;
mod timer;
mod tpcc;
mod transact;
mod ycsb;

pub use chirp::{ChirpReport, ChirpSpec, run_chirp};
pub use client::{Client, ClientError};
pub use clock::now_ns;
pub use facts::Machine;
pub use load::{LoadError, LoadOptions, Pace, Work, fill, finish, read_back, run, setup};
pub use loading::LoadReport;
pub use minutes::Minute;
pub use plain::{Keys, Mix, PlainSpec};
pub use process::ProcessStat;
pub use progress::{Gap, Progress};
pub use report::{Counts, Latency, Report, ServerUse};
pub use tally::{Fates, KindReport, TransactionReport};
pub use tpcc::{CheckReport, check_tpcc, load_tpcc, run_tpcc};
pub use ycsb::{load_ycsb, run_ycsb};
