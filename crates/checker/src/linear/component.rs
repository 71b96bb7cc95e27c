//! Cuts a history into components: keys that must be judged together, with the calls on them.

use std::collections::HashMap;

use quorate_api::history::{Ending, Op};

use super::model::{Action, Kind, NONE, Value};
use crate::{Entry, History};

/// A record as the search sees it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Its place in the history.
    pub(super) entry: usize,
    pub(super) start: u64,
    /// The time before which it took effect; the end of time if it is optional.
    pub(super) end: u64,
    pub(super) required: bool,
    pub(super) actions: Vec<Action>,
}

/// Keys that some record touches together, and everything that happened to them.
#[derive(Debug)]
pub(super) struct Component<'h> {
    pub(super) keys: Vec<&'h str>,
    pub(super) kinds: Vec<Kind>,
    /// In order of their starts.
    pub(super) calls: Vec<Call>,
    /// What the numbers of values stand for; the first is "none".
    pub(super) values: Vec<&'h str>,
}

/// A key that is used as two kinds of data.
#[derive(Debug)]
pub(super) struct Mixed {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) first: Kind,
    pub(super) second: Kind,
}

/// The keys of `op` with the kind that it takes each for.
fn uses(op: &Op) -> impl Iterator<Item = (&str, Kind)> {
    let kind = match op {
        Op::Read { .. } | Op::Write { .. } | Op::Cas { .. } => Kind::Register,
        Op::Add { .. } | Op::Count { .. } => Kind::Counter,
        Op::Append { .. }
        | Op::Prepend { .. }
        | Op::List { .. }
        | Op::PopFront { .. }
        | Op::PopBack { .. }
        | Op::Move { .. } => Kind::List,
    };
    let second = match op {
        Op::Move { to, .. } => Some((to.as_str(), kind)),
        _ => None,
    };
    std::iter::once((op.key(), kind)).chain(second)
}

/// The records that belong to each component, by place in the history, in order.
pub(super) fn partition(history: &History) -> Vec<Vec<usize>> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut parents: Vec<usize> = Vec::new();
    let mut first_keys = Vec::with_capacity(history.entries().len());
    for entry in history.entries() {
        let mut first = None;
        for (key, _) in entry.ops.iter().flat_map(uses).filter(|_| entry.outcome != Ending::Fail) {
            let number = *numbers.entry(key).or_insert_with(|| {
                parents.push(parents.len());
                parents.len() - 1
            });
            let root = root_of(&mut parents, number);
            match first {
                None => first = Some(root),
                Some(other) => parents[root] = root_of(&mut parents, other),
            }
        }
        first_keys.push(first);
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (place, first) in first_keys.iter().enumerate() {
        if let Some(key) = first {
            members[root_of(&mut parents, *key)].push(place);
        }
    }
    members.retain(|places| !places.is_empty());
    members
}

fn root_of(parents: &mut [usize], mut node: usize) -> usize {
    while parents[node] != node {
        parents[node] = parents[parents[node]];
        node = parents[node];
    }
    node
}

impl<'h> Component<'h> {
    /// The component of the records at `places`.
    pub(super) fn new(history: &'h History, places: &[usize]) -> Result<Self, Mixed> {
        let entries = history.entries();
        let moves = places.iter().any(|p| entries[*p].ops.iter().any(|op| matches!(op, Op::Move { .. })));
        let mut builder = Builder {
            component: Component { keys: Vec::new(), kinds: Vec::new(), calls: Vec::new(), values: vec![""] },
            slots: HashMap::new(),
            values: HashMap::new(),
            moves,
        };
        for place in places {
            builder.add(*place, &entries[*place])?;
        }
        Ok(builder.component)
    }

    /// Whether it is one key of this kind.
    pub(super) fn is_one(&self, kind: Kind) -> bool {
        self.kinds.as_slice() == [kind]
    }
}

struct Builder<'h> {
    component: Component<'h>,
    slots: HashMap<&'h str, usize>,
    values: HashMap<(usize, &'h str), Value>,
    moves: bool,
}

impl<'h> Builder<'h> {
    fn add(&mut self, place: usize, entry: &'h Entry) -> Result<(), Mixed> {
        for (key, kind) in entry.ops.iter().flat_map(uses) {
            self.use_as(key, kind, entry.line)?;
        }
        let actions: Vec<Action> = entry.ops.iter().map(|op| self.action(op)).collect();
        let required = entry.is_ok();
        let idle = actions.iter().all(Action::is_idle);
        let asked_in_vain = !required && actions.iter().all(Action::is_read);
        if !idle && !asked_in_vain {
            let (start, end) = (entry.start, entry.deadline());
            self.component.calls.push(Call { entry: place, start, end, required, actions });
        }
        Ok(())
    }

    fn use_as(&mut self, key: &'h str, kind: Kind, line: usize) -> Result<(), Mixed> {
        let Some(slot) = self.slots.get(key) else {
            self.slots.insert(key, self.component.keys.len());
            self.component.keys.push(key);
            self.component.kinds.push(kind);
            return Ok(());
        };
        let first = self.component.kinds[*slot];
        if first == kind { Ok(()) } else { Err(Mixed { key: key.into(), line, first, second: kind }) }
    }

    fn value(&mut self, slot: usize, text: &'h str) -> Value {
        // Moves carry values from key to key; without them equal values of different keys are unrelated.
        let scope = if self.moves { 0 } else { slot };
        *self.values.entry((scope, text)).or_insert_with(|| {
            self.component.values.push(text);
            (self.component.values.len() - 1) as Value
        })
    }

    fn optional(&mut self, slot: usize, text: Option<&'h str>) -> Value {
        text.map_or(NONE, |text| self.value(slot, text))
    }

    fn action(&mut self, op: &'h Op) -> Action {
        let slot = self.slots[op.key()];
        let mut maybe = |result: &'h Option<Option<String>>| {
            result.as_ref().map(|result| self.optional(slot, result.as_deref()))
        };
        match op {
            Op::Read { result, .. } => Action::Read { slot, result: maybe(result) },
            Op::PopFront { result, .. } => Action::PopFront { slot, result: maybe(result) },
            Op::PopBack { result, .. } => Action::PopBack { slot, result: maybe(result) },
            Op::Move { to, result, .. } => {
                let result = maybe(result);
                Action::Move { slot, to: self.slots[to.as_str()], result }
            }
            Op::Write { value, .. } => Action::Write { slot, value: self.optional(slot, value.as_deref()) },
            Op::Cas { expect, value, result, .. } => {
                let expect = self.optional(slot, expect.as_deref());
                Action::Cas { slot, expect, value: self.value(slot, value), result: *result }
            }
            Op::Add { amount, result, .. } => Action::Add { slot, amount: *amount, result: *result },
            Op::Count { result, .. } => Action::Count { slot, result: *result },
            Op::Append { value, result, .. } => {
                Action::Append { slot, value: self.value(slot, value), result: *result }
            }
            Op::Prepend { value, result, .. } => {
                Action::Prepend { slot, value: self.value(slot, value), result: *result }
            }
            Op::List { result, .. } => {
                let numbers = result.as_ref().map(|list| list.iter().map(|v| self.value(slot, v)).collect());
                Action::List { slot, result: numbers }
            }
        }
    }
}
