//! The ground under every protocol: identities, time, chance, the machine interface and wire frames.
//!
//! A **machine** is a deterministic state machine that does no input or output. It takes one [`Event`] and fills an
//! [`Out`] with [`Effect`]s; it reads the clock and chance only from the [`Cx`] it is handed. The same machine runs
//! on a real network (`quorate-host`) and in a simulated world (`quorate-sim`), unchanged.
//!
//! This crate knows no protocol. `docs/decisions/0001-effects.md` says why the effects are what they are.
//!
//! # Glossary
//! - *driver*: whatever owns a machine, feeds it events and carries out its effects: the host or the simulator.
//! - *durability gate*: a send leaves only after every record persisted before it is on disk; see [`Gate`].
//! - *lifting*: a parent machine takes the effects of a child and wraps them into its own; see [`Out::lift`].
#![no_std]

extern crate alloc;

mod cx;
pub mod frame;
mod id;
mod machine;
mod out;
mod rng;
mod time;
pub mod wire;

pub use cx::{Cx, Marks};
pub use id::{ClusterId, NodeId, Position};
pub use machine::{Effect, Event, Gate, Machine};
pub use out::{Out, Told};
pub use rng::Rng;
pub use time::{Time, Wall};

/// Checks that cost more than constant time and are therefore run only where the feature `costly` or debug
/// assertions are on: always in the simulator, never in a released server.
#[macro_export]
macro_rules! costly {
    ($($check:tt)*) => {
        if cfg!(debug_assertions) || $crate::COSTLY {
            $($check)*
        }
    };
}

/// Whether [`costly!`] checks run in this build.
pub const COSTLY: bool = cfg!(feature = "costly");
