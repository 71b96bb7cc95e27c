//! What a test supplies to a world: how to build its machines, what to ask of them, and how to judge them.

use std::fmt::Debug;
use std::time::Duration;

use quorate_kernel::{Machine, Marks, NodeId, wire};
use serde::{Serialize, de::DeserializeOwned};

use crate::latency::nanos;
use crate::process::Nodes;

/// A machine whose messages, records and so on can be copied and printed, as every simulated one must be.
pub trait Simulated:
    Machine<Msg: Clone + Debug, Timer: Clone + Debug, Record: Clone + Debug, Input: Debug, Output: Debug>
{
}

impl<M> Simulated for M where
    M: Machine<Msg: Clone + Debug, Timer: Clone + Debug, Record: Clone + Debug, Input: Debug, Output: Debug>
{
}

/// Which life of a node begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// Its first.
    First,
    /// A later one. Its surviving records are restored next and its store holds what was durable.
    Restart,
    /// The first of a new identity, on the machine that ran the given one until its disk was lost.
    Replacing(NodeId),
}

/// What to do with a node whose records are lost or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// It never comes back.
    Gone,
    /// Its place is taken by a node with a new identity and an empty disk.
    NewIdentity,
}

/// `Err` says which property does not hold, and ends the run.
pub type Verdict = Result<(), String>;

/// The machine of a harness, by short names.
pub type Msg<H> = <<H as Harness>::Machine as Machine>::Msg;
/// What the machine of a harness keeps.
pub type Record<H> = <<H as Harness>::Machine as Machine>::Record;
/// What the machine of a harness is asked.
pub type Input<H> = <<H as Harness>::Machine as Machine>::Input;
/// What the machine of a harness answers.
pub type Output<H> = <<H as Harness>::Machine as Machine>::Output;

/// What a harness may ask of its world at some time from now.
#[derive(Debug)]
pub struct Agenda<Input> {
    now: u64,
    asked: Vec<(u64, Ask<Input>)>,
}

#[derive(Debug)]
pub(crate) enum Ask<Input> {
    Input(NodeId, Input),
    Wake(u64),
    Fault(Aim, NodeId, u64),
}

/// A fault aimed at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Crash,
    Pause,
    Isolate,
    Ruin,
}

impl<Input> Agenda<Input> {
    pub(crate) fn new() -> Self {
        Agenda { now: 0, asked: Vec::new() }
    }

    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<(u64, Ask<Input>)> {
        std::mem::take(&mut self.asked)
    }

    /// True time since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Hands `input` to `node`, `after` from now. If the node is down then, [`Harness::refused`] hears of it.
    pub fn input(&mut self, after: Duration, node: NodeId, input: Input) {
        self.ask(after, Ask::Input(node, input));
    }

    /// Calls [`Harness::woken`] with `token`, `after` from now.
    pub fn wake(&mut self, after: Duration, token: u64) {
        self.ask(after, Ask::Wake(token));
    }

    /// Crashes `node`, `after` from now, and restarts it after `span`. For faults that aim, at a leader for example;
    /// harnesses ask [`crate::Plan::faults`] whether the kind is on.
    pub fn crash(&mut self, after: Duration, node: NodeId, span: Duration) {
        self.ask(after, Ask::Fault(Aim::Crash, node, nanos(span)));
    }

    /// Freezes `node`, `after` from now, for `span`.
    pub fn pause(&mut self, after: Duration, node: NodeId, span: Duration) {
        self.ask(after, Ask::Fault(Aim::Pause, node, nanos(span)));
    }

    /// Cuts `node` off from all others, `after` from now, for `span`.
    pub fn isolate(&mut self, after: Duration, node: NodeId, span: Duration) {
        self.ask(after, Ask::Fault(Aim::Isolate, node, nanos(span)));
    }

    /// Takes the disk of `node`, `after` from now, if the harness may spare it; what replaces it starts after `span`.
    pub fn ruin(&mut self, after: Duration, node: NodeId, span: Duration) {
        self.ask(after, Ask::Fault(Aim::Ruin, node, nanos(span)));
    }

    fn ask(&mut self, after: Duration, ask: Ask<Input>) {
        self.asked.push((self.now.saturating_add(nanos(after)), ask));
    }
}

/// Where something was just seen: one node, and all the others beside it.
#[derive(Debug)]
pub struct Seen<'a, M: Machine> {
    /// True time since the world began. Nodes do not know it.
    pub now: Duration,
    /// The node.
    pub node: NodeId,
    /// Its machine, after the step.
    pub machine: &'a M,
    /// All nodes.
    pub nodes: &'a Nodes<M>,
}

/// What arrives when `value` is encoded, sent or stored, and decoded; and its size. For [`Harness::carry`] and
/// [`Harness::keep`] of machines that speak [`quorate_kernel::wire`].
///
/// # Panics
/// If the bytes do not decode, or decode to something that encodes differently: the format is broken.
pub fn through_bytes<T: Serialize + DeserializeOwned>(value: &T) -> (T, usize) {
    let bytes = wire::encode(value);
    let Ok(decoded) = wire::decode::<T>(&bytes) else {
        panic!("what was encoded does not decode: {bytes:02x?}")
    };
    assert_eq!(wire::encode(&decoded), bytes, "what was decoded encodes differently");
    (decoded, bytes.len())
}

/// Builds machines, plays their clients and judges what they do. Everything but [`Harness::machine`] has a default.
///
/// A harness must be as deterministic as the machines: chance only from [`crate::Plan::rng`] or own seeded
/// generators, no clock, no iteration over hash maps.
pub trait Harness: Sized {
    /// What runs on every node.
    type Machine: Simulated;

    /// Builds the machine of a node that is about to start.
    fn machine(&mut self, node: NodeId, boot: Boot) -> Self::Machine;

    /// The world begins: the place to ask for the first inputs.
    fn start(&mut self, _agenda: &mut Agenda<Input<Self>>) {}

    /// A node made a step. The place for invariants over many nodes.
    ///
    /// # Errors
    /// If a property does not hold.
    fn observe(&mut self, _seen: Seen<'_, Self::Machine>) -> Verdict {
        Ok(())
    }

    /// An output left a node, its gate being open.
    ///
    /// # Errors
    /// If a property does not hold.
    fn output(
        &mut self,
        _seen: Seen<'_, Self::Machine>,
        _output: Output<Self>,
        _agenda: &mut Agenda<Input<Self>>,
    ) -> Verdict {
        Ok(())
    }

    /// A time asked for by [`Agenda::wake`] has come.
    ///
    /// # Errors
    /// If a property does not hold.
    fn woken(
        &mut self,
        _token: u64,
        _nodes: &Nodes<Self::Machine>,
        _agenda: &mut Agenda<Input<Self>>,
    ) -> Verdict {
        Ok(())
    }

    /// An input found its node down.
    fn refused(&mut self, _node: NodeId, _input: Input<Self>, _agenda: &mut Agenda<Input<Self>>) {}

    /// A node died: what it had not answered yet, it never will.
    fn crashed(&mut self, _node: NodeId, _agenda: &mut Agenda<Input<Self>>) {}

    /// What becomes of a message on the wire, and its size in bytes. Harnesses of machines with wire formats encode
    /// and decode here, mostly by [`through_bytes`].
    fn carry(&mut self, msg: Msg<Self>) -> (Msg<Self>, usize) {
        (msg, 64)
    }

    /// Whether a message is lost, whatever the network would do: for scripts that need one message not to arrive.
    fn loses(&mut self, _from: NodeId, _to: NodeId, _msg: &Msg<Self>) -> bool {
        false
    }

    /// What becomes of a record on disk. Harnesses of machines with record formats encode and decode here.
    fn keep(&mut self, record: Record<Self>) -> Record<Self> {
        record
    }

    /// What a node is told when its disk is full (`true`) and when it has room again. Only machines that can be told
    /// get the fault.
    fn disk_full(&mut self, _node: NodeId, _full: bool) -> Option<Input<Self>> {
        None
    }

    /// Whether the nodes can bear to lose the disk of `node` now: the nemesis asks first. What a protocol promises
    /// to survive is for its harness to know.
    fn may_lose_disk(&mut self, _node: NodeId, _nodes: &Nodes<Self::Machine>) -> bool {
        true
    }

    /// A node lost its disk, or recovery found records damaged that had been durable. Whatever is answered, the old
    /// identity is dead.
    fn disk_lost(&mut self, _node: NodeId) -> Replacement {
        Replacement::Gone
    }

    /// All faults are over; every node that can be up is up, and liveness is owed from now on.
    fn healed(&mut self, _nodes: &Nodes<Self::Machine>, _agenda: &mut Agenda<Input<Self>>) {}

    /// Whether the world has come to what liveness demands.
    ///
    /// # Errors
    /// Why not yet.
    fn converged(&mut self, _nodes: &Nodes<Self::Machine>) -> Verdict {
        Ok(())
    }

    /// The run is over: the place for checkers of whole histories, and to count what was covered.
    ///
    /// # Errors
    /// If a property did not hold.
    fn finish(&mut self, _nodes: &Nodes<Self::Machine>, _marks: &mut Marks) -> Verdict {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::through_bytes;

    #[test]
    fn values_go_through_bytes() {
        assert_eq!(through_bytes(&(300_u64, "ab".to_owned())), ((300, "ab".to_owned()), 5));
    }

    #[test]
    #[should_panic(expected = "does not decode")]
    fn a_format_that_cannot_be_read_is_caught() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct OneWay {
            #[serde(skip_serializing)]
            _lost: u64,
        }
        through_bytes(&OneWay { _lost: 1 });
    }
}
