//! The buffer a machine fills with effects, and how a parent takes over a child's.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::{Effect, Gate, NodeId, Position};

/// Effects in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Out<Msg, Timer, Record, Output> {
    effects: Vec<Effect<Msg, Timer, Record, Output>>,
    next_position: Position,
}

impl<Msg, Timer, Record, Output> Out<Msg, Timer, Record, Output> {
    /// An empty buffer; the first record persisted through it will stand at `next_position`.
    pub fn new(next_position: Position) -> Self {
        Out { effects: Vec::new(), next_position }
    }

    /// Sends once everything persisted so far is durable. Sending to oneself is how a machine learns of that.
    pub fn send(&mut self, to: NodeId, msg: Msg) {
        self.effects.push(Effect::Send { to, msg, gate: Gate::Durable });
    }

    /// Sends at once. The caller says beside the call why nobody can be misled if this node forgets what it just
    /// persisted.
    pub fn send_early(&mut self, to: NodeId, msg: Msg) {
        self.effects.push(Effect::Send { to, msg, gate: Gate::Early });
    }

    /// Arms (or re-arms) a timer.
    pub fn arm(&mut self, timer: Timer, after: Duration) {
        self.effects.push(Effect::Arm { timer, after });
    }

    /// Disarms a timer, armed or not.
    pub fn disarm(&mut self, timer: Timer) {
        self.effects.push(Effect::Disarm(timer));
    }

    /// Persists a record and returns where it will stand.
    pub fn persist(&mut self, record: Record) -> Position {
        let position = self.next_position;
        self.next_position = position.next();
        self.effects.push(Effect::Persist(record));
        position
    }

    /// Lets go of all records before `position`.
    pub fn discard(&mut self, position: Position) {
        self.effects.push(Effect::Discard(position));
    }

    /// Tells the parent or driver, once everything persisted so far is durable.
    pub fn output(&mut self, output: Output) {
        self.effects.push(Effect::Output { output, gate: Gate::Durable });
    }

    /// Tells the parent or driver at once; to be justified like [`Out::send_early`].
    pub fn output_early(&mut self, output: Output) {
        self.effects.push(Effect::Output { output, gate: Gate::Early });
    }

    /// Where the next record will stand.
    pub fn next_position(&self) -> Position {
        self.next_position
    }

    /// What was asked for so far.
    pub fn effects(&self) -> &[Effect<Msg, Timer, Record, Output>] {
        &self.effects
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Takes everything out, in order; the position goes on from where it is.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<Msg, Timer, Record, Output>> + '_ {
        self.effects.drain(..)
    }

    /// Puts messages to the same node behind the same gate together, of those whose `bytes` are told and if there are several: at most `most` into
    /// one, of at most `bytes_max` bytes unless a single one is longer. It takes the place of the last of them, so that none leaves sooner than it would have.
    pub fn gather(
        &mut self,
        (most, bytes_max): (usize, usize),
        bytes: impl Fn(&Msg) -> Option<usize>,
        together: impl Fn(Vec<Msg>) -> Msg,
    ) {
        let mut left: BTreeMap<(NodeId, Gate), usize> = BTreeMap::new();
        for effect in &self.effects {
            if let Effect::Send { to, msg, gate } = effect
                && bytes(msg).is_some()
            {
                *left.entry((*to, *gate)).or_default() += 1;
            }
        }
        if left.values().all(|count| *count < 2) {
            return;
        }
        let whole = |mut all: Vec<Msg>| match all.pop() {
            Some(only) if all.is_empty() => Some(only),
            Some(last) => {
                all.push(last);
                Some(together(all))
            }
            None => None,
        };
        let mut waiting: BTreeMap<(NodeId, Gate), (usize, Vec<Msg>)> = BTreeMap::new();
        for effect in core::mem::take(&mut self.effects) {
            let (to, msg, gate, size) = match effect {
                Effect::Send { to, msg, gate } if let Some(size) = bytes(&msg) => (to, msg, gate, size),
                other => {
                    self.effects.push(other);
                    continue;
                }
            };
            let (sum, all) = waiting.entry((to, gate)).or_default();
            let is_too_long = *sum + size > bytes_max;
            let before = if is_too_long { core::mem::take(all) } else { Vec::new() };
            *sum = if is_too_long { size } else { *sum + size };
            all.push(msg);
            let left = left.entry((to, gate)).or_default();
            *left = left.saturating_sub(1);
            let full = if *left == 0 || all.len() >= most { core::mem::take(all) } else { Vec::new() };
            if !full.is_empty() {
                *sum = 0;
            }
            let gone = [whole(before), whole(full)].into_iter().flatten();
            self.effects.extend(gone.map(|msg| Effect::Send { to, msg, gate }));
        }
    }

    /// An empty buffer for a child machine, whose records will stand where this buffer's next ones would.
    ///
    /// It must be lifted back ([`Out::lift`]) before anything else is persisted here.
    pub fn child<M, T, R, O>(&self) -> Out<M, T, R, O> {
        Out::new(self.next_position)
    }

    /// Takes over the effects of a child: messages, timers and records wrapped into the parent's, outputs handed to
    /// `output` together with this buffer, in their place in the order. `Discard` is handed to `discard`: only the
    /// parent knows what its other children still need.
    ///
    /// # Panics
    /// If records were persisted here since [`Out::child`], because positions would then be wrong.
    pub fn lift<M, T, R, O>(
        &mut self,
        child: &mut Out<M, T, R, O>,
        mut wrap_msg: impl FnMut(M) -> Msg,
        mut wrap_timer: impl FnMut(T) -> Timer,
        mut wrap_record: impl FnMut(R) -> Record,
        mut told: impl FnMut(Told<O>),
    ) {
        let persisted =
            child.effects.iter().filter(|effect| matches!(effect, Effect::Persist(_))).count() as u64;
        assert_eq!(
            self.next_position.0 + persisted,
            child.next_position.0,
            "a child's effects must be lifted before the parent persists"
        );
        for effect in child.effects.drain(..) {
            match effect {
                Effect::Send { to, msg, gate } => {
                    self.effects.push(Effect::Send { to, msg: wrap_msg(msg), gate })
                }
                Effect::Arm { timer, after } => self.arm(wrap_timer(timer), after),
                Effect::Disarm(timer) => self.disarm(wrap_timer(timer)),
                Effect::Persist(record) => {
                    self.persist(wrap_record(record));
                }
                Effect::Discard(position) => told(Told::Discard(position)),
                Effect::Output { output, .. } => told(Told::Output(output)),
            }
        }
    }
}

/// What a parent must decide itself when it lifts a child's effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<Output> {
    /// The child said something.
    Output(Output),
    /// The child needs none of its records before this position.
    Discard(Position),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Parent = Out<(u8, char), (u8, char), (u8, char), char>;

    #[test]
    fn lifting_keeps_order_gates_and_positions() {
        let mut parent = Parent::new(Position(5));
        parent.persist((0, 'p'));
        let mut child: Out<char, char, char, char> = parent.child();
        child.send_early(NodeId(1), 'e');
        assert_eq!(child.persist('r'), Position(6));
        child.send(NodeId(2), 'd');
        child.output('o');
        child.discard(Position(4));
        let mut told = vec![];
        parent.lift(&mut child, |m| (1, m), |t| (1, t), |r| (1, r), |what| told.push(what));
        assert_eq!(parent.next_position(), Position(7));
        assert_eq!(told, [Told::Output('o'), Told::Discard(Position(4))]);
        assert_eq!(
            parent.effects(),
            [
                Effect::Persist((0, 'p')),
                Effect::Send { to: NodeId(1), msg: (1, 'e'), gate: Gate::Early },
                Effect::Persist((1, 'r')),
                Effect::Send { to: NodeId(2), msg: (1, 'd'), gate: Gate::Durable },
            ]
        );
    }

    #[test]
    fn what_is_gathered_leaves_with_the_last_of_it() {
        let mut out: Out<alloc::string::String, (), u8, ()> = Out::new(Position(1));
        out.send(NodeId(1), "a".into());
        out.send_early(NodeId(1), "b".into());
        out.send(NodeId(2), "c".into());
        out.persist(7);
        out.send(NodeId(1), "LARGE".into());
        for text in ["d", "e", "f"] {
            out.send(NodeId(1), text.into());
        }
        out.gather((3, 99), |text| (text.len() == 1).then_some(1), |all| all.concat());
        let send = |to, text: &str, gate| Effect::Send { to: NodeId(to), msg: text.into(), gate };
        assert_eq!(
            out.effects(),
            [
                send(1, "b", Gate::Early),
                send(2, "c", Gate::Durable),
                Effect::Persist(7),
                send(1, "LARGE", Gate::Durable),
                send(1, "ade", Gate::Durable),
                send(1, "f", Gate::Durable),
            ]
        );
    }

    #[test]
    fn what_is_gathered_is_not_too_long() {
        let mut out: Out<alloc::string::String, (), u8, ()> = Out::new(Position(1));
        for text in ["aa", "b", "c", "dddd", "ee", "f"] {
            out.send(NodeId(1), text.into());
        }
        out.gather((9, 3), |text| Some(text.len()), |all| all.concat());
        let texts: Vec<&str> = out
            .effects()
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send { msg, .. } => Some(msg.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["aab", "c", "dddd", "eef"]);
    }

    #[test]
    #[should_panic(expected = "lifted before the parent persists")]
    fn a_parent_that_persists_in_between_is_caught() {
        let mut parent = Parent::new(Position(1));
        let mut child: Out<char, char, char, char> = parent.child();
        child.persist('r');
        parent.persist((0, 'p'));
        parent.lift(&mut child, |m| (1, m), |t| (1, t), |r| (1, r), |_| ());
    }
}
