//! The Redis protocol without sockets: frames in, requests out, replies back to bytes.
//!
//! Not here: sockets, buffers' lifetimes, the order of answers on a connection (all the host's), data commands (in
//! `quorate-values`), and anything that decides what the data is. A host drives one [`Parser`] and one [`Session`]
//! per connection:
//!
//! 1. bytes read go to [`Parser::next`], which yields one command at a time as words;
//! 2. the words go to [`Session::command`], which either answers at once or hands out a request for the node
//!    ([`Step`]); see [`Session`] for what may be pipelined;
//! 3. the node's outcome goes back to [`Session::complete`];
//! 4. answers are turned to bytes with [`render`] and sent in the order in which their commands came.
//!
//! Words used here: a *word* is one argument of a command line, the name included; a *local* command is one the
//! session answers itself; a *data* command is one of the `quorate-values` table.
#![no_std]

extern crate alloc;

mod error;
mod explain;
mod glob;
mod inline;
mod limits;
mod local;
mod map;
mod number;
mod primary;
mod render;
mod request;
mod session;
mod step;
mod table;
mod transaction;
mod world;

pub use error::ProtocolError;
pub use limits::Limits;
pub use map::{ClusterMap, MapBucket, MapNode};
pub use render::{Protocol, render};
pub use request::Parser;
pub use session::{Connection, Session, SessionFacts, View};
pub use step::{Act, Answer, Step, Then};
pub use world::{ClientRow, Facts, Setting, World};

/// The Redis version this server claims, on which clients decide what they may send.
pub const REDIS_VERSION: &str = "7.2.4";

/// The version of Quorate itself.
pub const QUORATE_VERSION: &str = env!("CARGO_PKG_VERSION");
