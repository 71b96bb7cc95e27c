//! What a machine must offer to be run here.

use quorate_kernel::{Event, Machine, NodeId, Out};
use quorate_node::{Agreement, Input, Journal, Map, Output, Status};
use serde::{Serialize, de::DeserializeOwned};

/// A whole node: a machine with the surface of `quorate-node`, whose messages and records have a form on the wire
/// and on disk.
pub trait Hosted:
    Machine<
        Input = Input,
        Output = Output,
        Msg: Serialize + DeserializeOwned,
        Record: Serialize + DeserializeOwned,
        Timer: Clone,
    >
{
    /// How it sees itself and its cluster.
    fn status(&self) -> Status;

    /// What it did for groups, and why; `None` where nodes form no groups.
    fn journal(&self) -> Option<&Journal>;

    /// What it waits for to agree with the others who of them is there; `None` if for nothing.
    fn agreement(&self) -> Option<Agreement>;

    /// Who leads and holds which slots, as far as it knows.
    fn map(&self) -> Map;

    /// Whom it believes to lead each bucket, in their order. Asked often: it must cost little.
    fn believed_leaders(&self) -> impl Iterator<Item = Option<NodeId>>;
}

/// What happens to the machine.
pub(crate) type EventOf<M> = Event<<M as Machine>::Msg, <M as Machine>::Timer, Input>;

/// What it wants to happen.
pub(crate) type OutOf<M> = Out<<M as Machine>::Msg, <M as Machine>::Timer, <M as Machine>::Record, Output>;
