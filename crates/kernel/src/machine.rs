//! What every protocol implements, and the closed vocabulary it speaks.

use core::time::Duration;

use crate::{Cx, NodeId, Out, Position};

/// A deterministic protocol without input or output.
///
/// A driver calls [`Machine::restore`] once per surviving record, in order, then [`Machine::step`] with
/// [`Event::Start`], then `step` for whatever happens. A machine never fails: nonsense from a peer is ignored and
/// marked, its own nonsense is an assertion, a failed disk stops the node before the machine can notice.
pub trait Machine {
    /// What it sends to other nodes, and to itself (see [`Out::send`]).
    type Msg;
    /// The names of its timers. Arming a name again replaces the timer.
    type Timer: Ord;
    /// What it must find again after a restart.
    type Record;
    /// What its parent or driver asks of it.
    type Input;
    /// What it tells its parent or driver.
    type Output;

    /// Takes back a record that survived a restart.
    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Self::Record);

    /// Takes one event and fills `out` with what has to happen.
    fn step(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<Self::Msg, Self::Timer, Self::Input>,
        out: &mut OutOf<Self>,
    );

    /// Asserts the invariants of the whole state. The simulator calls it after every step.
    fn check(&self) {}
}

/// The effect buffer that fits a machine.
type OutOf<M> =
    Out<<M as Machine>::Msg, <M as Machine>::Timer, <M as Machine>::Record, <M as Machine>::Output>;

/// What can happen to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<Msg, Timer, Input> {
    /// The node runs (again); all surviving records have been restored. Always the first event of a lifetime.
    Start,
    /// A message arrived. It may be late, doubled or from a former life of its sender.
    Message {
        /// Who sent it, as far as the transport knows; trusted within one cluster.
        from: NodeId,
        /// What was sent.
        msg: Msg,
    },
    /// A timer ran out. Never one that was disarmed or armed again since.
    Timer(Timer),
    /// The parent or driver asks for something.
    Input(Input),
}

/// When an effect may leave the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// As soon as every record persisted before it, by any machine of the node, is as durable as the keyspace
    /// asks. The default: forgetting it can only be slow.
    Durable,
    /// At once. Every use says why that is safe.
    Early,
}

/// What a machine wants to happen, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<Msg, Timer, Record, Output> {
    /// Send a message; to the own node it comes back as an event once the gate opens.
    Send {
        /// Who is to receive it.
        to: NodeId,
        /// What is sent.
        msg: Msg,
        /// When it may leave.
        gate: Gate,
    },
    /// Fire `timer` once, `after` from now, whatever it was set to before.
    Arm {
        /// Which timer.
        timer: Timer,
        /// How long from now.
        after: Duration,
    },
    /// Make sure that `timer` does not fire.
    Disarm(Timer),
    /// Keep this record over restarts.
    Persist(Record),
    /// No record before this position is needed any more.
    Discard(Position),
    /// Tell the parent or driver.
    Output {
        /// What is told.
        output: Output,
        /// When it may leave the node. A parent machine sees a child's output at once, whatever the gate.
        gate: Gate,
    },
}
