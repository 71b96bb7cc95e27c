//! The driver of a node: event loop, sockets, timers, disk, admin door, shutdown.
//!
//! It runs a machine and decides nothing that a protocol should: what comes in becomes an event, what the machine
//! wants is carried out in order, and whatever must not be seen before a record is durable is held until it is.
//!
//! # Glossary
//! - *turn*: one round of the loop, from waiting for events to waiting again.
//! - *held*: an effect that waits for the disk.
//! - *beside*: on a helper thread, while the loop goes on.
//! - *door*: a listening socket: client, peer, admin.

mod accept;
mod admin;
mod awake;
mod buffer;
mod clients;
mod clock;
pub mod config;
mod control;
mod cores;
mod doors;
mod driver;
mod error;
mod founders;
mod founding;
mod hosted;
mod map;
mod metrics;
mod open;
mod peers;
mod process;
mod start;
mod stats;
mod sync;
mod timers;
mod token;

pub use admin::{
    CopiesBody, LeadershipBody, LogBody, MembersBody, OutcomeReport, RecoverBody, SetLogFilter, StatusReport,
    WhyReport,
};
pub use config::{Config, ConfigError};
pub use control::{Addresses, Handle};
pub use driver::{Joined, Room};
pub use error::{HostError, RunError, StartError};
pub use hosted::Hosted;
pub use peers::PeerStats;
pub use peers::hello::Shape;
pub use process::Usage;
pub use start::{Host, Identity, Options, Parts, Running};
pub use stats::{ClientStats, Distributions, Histogram, HostStats, Snapshot};
