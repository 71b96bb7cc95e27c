//! Which machines make a node, and how requests find them.
//!
//! The whole node is itself a machine: [`Input`] and [`Output`] are all that a driver exchanges with it. This crate
//! does no input or output, knows no frames and keeps no sockets.
//!
//! A request goes from the node that took it (its *origin*) to the node that leads the log, one hop at most; reads are
//! answered there, writes become entries of the log and are answered when they are applied.
#![no_std]

extern crate alloc;

mod acknowledged;
mod admin;
mod ages;
mod answers;
mod beat;
mod buckets;
mod carry;
mod changing;
mod collect;
mod config;
mod connections;
mod deeds;
mod dispatch;
mod endpoints;
mod errands;
#[cfg(test)]
mod fixture;
mod gate;
mod gathering;
mod govern;
mod grouping;
mod handing;
mod holders;
mod interface;
mod joining;
mod journal;
mod lane;
mod load;
mod machine;
mod meetings;
mod mending;
mod message;
mod motive;
mod named;
mod near;
mod origin;
mod people;
mod placing;
mod plan;
mod policies;
mod popular;
mod prompt;
mod reads;
mod reasons;
mod record;
mod recovery;
mod replica;
mod requests;
mod ring;
mod roster;
mod route;
mod routing;
mod seats;
mod spans;
mod status;
mod tick;
mod transact;
mod transactions;

pub use config::{BUCKETS_MAX, Limits, NodeConfig, Placing, Storage, Topology};
pub use deeds::{Deed, DeedKind, End, How, What};
pub use endpoints::Endpoints;
pub use interface::{
    AdminOutcome, AdminRequest, BucketStatus, ClientRequest, ConnectionId, GroupRequest, GroupStatus, Halt,
    Input, Map, Member, Output, Status, Ticket,
};
pub use journal::{Begun, Clocks, DEEDS_MAX, Journal, TOOK_BOUNDS_US, Tally};
pub use machine::{Node, Out, Timer};
pub use message::{Message, PURPOSES};
pub use motive::{Burden, Motive, Policy, SizeByLifetimes, SizeWanted};
pub use people::{Knowledge, Person};
pub use quorate_buckets::{COPIES_MAX, LABEL_BYTES_MAX, Placement};
pub use quorate_groups::preset::Preset;
pub use quorate_groups::{Group, GroupId, Line, Name, Seat, Span, Which};
pub use quorate_membership::{Agreement, Config as MembershipConfig};
pub use quorate_replog::Config as LogConfig;
pub use record::Record;
pub use recovery::Recovery;
pub use ring::Word;
pub use routing::Found;
