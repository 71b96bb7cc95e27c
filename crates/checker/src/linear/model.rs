//! What registers, counters and lists are, as one changeable state with undo.

use std::collections::VecDeque;

/// A value by number; 0 is "none".
pub(super) type Value = u32;

/// No value.
pub(super) const NONE: Value = 0;

/// What one key of a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Register,
    Counter,
    List,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Register => "register",
            Kind::Counter => "counter",
            Kind::List => "list",
        }
    }
}

/// One operation on the slot of one key; a result of `None` fits everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Read { slot: usize, result: Option<Value> },
    Write { slot: usize, value: Value },
    Cas { slot: usize, expect: Value, value: Value, result: Option<bool> },
    Add { slot: usize, amount: i64, result: Option<i64> },
    Count { slot: usize, result: Option<i64> },
    Append { slot: usize, value: Value, result: Option<u64> },
    Prepend { slot: usize, value: Value, result: Option<u64> },
    List { slot: usize, result: Option<Vec<Value>> },
    PopFront { slot: usize, result: Option<Value> },
    PopBack { slot: usize, result: Option<Value> },
    Move { slot: usize, to: usize, result: Option<Value> },
}

impl Action {
    /// Whether it never changes anything.
    pub(super) fn is_read(&self) -> bool {
        matches!(self, Action::Read { .. } | Action::Count { .. } | Action::List { .. })
    }

    /// Whether every state fits and none is changed.
    pub(super) fn is_idle(&self) -> bool {
        matches!(
            self,
            Action::Read { result: None, .. }
                | Action::Count { result: None, .. }
                | Action::List { result: None, .. }
        )
    }

    /// The value that it alone brings into being.
    pub(super) fn produces(&self) -> Option<Value> {
        match self {
            Action::Write { value, .. } => Some(*value),
            Action::Cas { value, result, .. } if *result != Some(false) => Some(*value),
            Action::Append { value, .. } | Action::Prepend { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Calls `seen` with every value whose presence the result proves.
    pub(super) fn observes(&self, mut seen: impl FnMut(Value)) {
        match self {
            Action::Read { result: Some(value), .. }
            | Action::PopFront { result: Some(value), .. }
            | Action::PopBack { result: Some(value), .. }
            | Action::Move { result: Some(value), .. } => seen(*value),
            Action::Cas { expect, result: Some(true), .. } => seen(*expect),
            Action::List { result: Some(values), .. } => values.iter().copied().for_each(seen),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Elements {
    values: VecDeque<Value>,
    /// Place of the first element; places before it were popped or are yet to be prepended to.
    first: i64,
}

#[derive(Debug, Clone)]
pub(super) enum Slot {
    Register(Value),
    Counter(i64),
    List(Elements),
}

/// How to take one change back.
#[derive(Debug, Clone, Copy)]
enum Undo {
    Register { slot: usize, old: Value },
    Counter { slot: usize, old: i64 },
    PushedBack { slot: usize },
    PushedFront { slot: usize },
    PoppedBack { slot: usize, value: Value },
    PoppedFront { slot: usize, value: Value },
}

/// The state of all keys of a component, with the way back to every earlier state.
#[derive(Debug)]
pub(super) struct State {
    slots: Vec<Slot>,
    hash: u128,
    undo: Vec<Undo>,
}

/// 128 well mixed bits of two numbers and a purpose (two SplitMix64 streams).
pub(super) fn salt(purpose: u64, left: u64, right: u64) -> u128 {
    let mix = |mut word: u64| {
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let low = mix(mix(left.wrapping_add(0x9e37_79b9_7f4a_7c15))
        ^ right.wrapping_mul(0xd6e8_feb8_6659_fd93)
        ^ purpose);
    let high = mix(low ^ mix(right.wrapping_add(0x632b_e59b_d9b4_e019)) ^ left.rotate_left(17));
    (u128::from(high) << 64) | u128::from(low)
}

impl State {
    /// Nothing is written yet.
    pub(super) fn new(kinds: &[Kind]) -> Self {
        let slot = |kind: &Kind| match kind {
            Kind::Register => Slot::Register(NONE),
            Kind::Counter => Slot::Counter(0),
            Kind::List => Slot::List(Elements::default()),
        };
        State { slots: kinds.iter().map(slot).collect(), hash: 0, undo: Vec::new() }
    }

    /// A fingerprint of the state. Two states with one fingerprint are taken to be equal; with 128 bits a mistake is
    /// less likely than a failing machine, and could only make a search give a wrong alarm, never a wrong "fine".
    pub(super) fn fingerprint(&self) -> u128 {
        self.hash
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The value of the only register, where a component is one register.
    pub(super) fn register(&self) -> Value {
        match self.slots[0] {
            Slot::Register(value) => value,
            Slot::Counter(_) | Slot::List(_) => panic!("asked only of components that are one register"),
        }
    }

    /// The number of elements of a list.
    pub(super) fn list_len(&self, slot: usize) -> usize {
        self.elements(slot).values.len()
    }

    /// A mark to come back to.
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Applies all of `actions` if each fits in turn; otherwise changes nothing and says false.
    pub(super) fn apply(&mut self, actions: &[Action]) -> bool {
        let mark = self.mark();
        for action in actions {
            if !self.apply_one(action) {
                self.rewind(mark);
                return false;
            }
        }
        true
    }

    /// Whether all of `actions` fit in turn.
    pub(super) fn fits(&mut self, actions: &[Action]) -> bool {
        let mark = self.mark();
        let fits = self.apply(actions);
        self.rewind(mark);
        fits
    }

    /// Goes back to the state at `mark`.
    pub(super) fn rewind(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let Some(undo) = self.undo.pop() else { return };
            match undo {
                Undo::Register { slot, old } => self.set_register(slot, old),
                Undo::Counter { slot, old } => self.set_counter(slot, old),
                Undo::PushedBack { slot } => drop(self.take_back(slot)),
                Undo::PushedFront { slot } => drop(self.take_front(slot)),
                Undo::PoppedBack { slot, value } => self.put_back(slot, value),
                Undo::PoppedFront { slot, value } => self.put_front(slot, value),
            }
        }
    }

    fn apply_one(&mut self, action: &Action) -> bool {
        match action {
            Action::Read { slot, result } => result.is_none_or(|result| self.value(*slot) == result),
            Action::Write { slot, value } => self.write(*slot, *value),
            Action::Cas { slot, expect, value, result } => {
                let swaps = self.value(*slot) == *expect;
                result.is_none_or(|result| result == swaps) && (!swaps || self.write(*slot, *value))
            }
            Action::Count { slot, result } => result.is_none_or(|result| self.sum(*slot) == result),
            Action::Add { slot, amount, result } => self.add(*slot, *amount, *result),
            Action::Append { slot, value, result } => {
                self.put_back(*slot, *value);
                self.undo.push(Undo::PushedBack { slot: *slot });
                result.is_none_or(|result| self.elements(*slot).values.len() as u64 == result)
            }
            Action::Prepend { slot, value, result } => {
                self.put_front(*slot, *value);
                self.undo.push(Undo::PushedFront { slot: *slot });
                result.is_none_or(|result| self.elements(*slot).values.len() as u64 == result)
            }
            Action::List { slot, result } => {
                let values = &self.elements(*slot).values;
                result.as_ref().is_none_or(|result| values.len() == result.len() && values.iter().eq(result))
            }
            Action::PopFront { slot, result } => self.pop_front(*slot, *result).is_some(),
            Action::PopBack { slot, result } => {
                let last = self.elements(*slot).values.back().copied();
                if result.is_some_and(|result| result != last.unwrap_or(NONE)) {
                    return false;
                }
                if let Some(value) = self.take_back(*slot) {
                    self.undo.push(Undo::PoppedBack { slot: *slot, value });
                }
                true
            }
            Action::Move { slot, to, result } => {
                let Some(value) = self.pop_front(*slot, *result) else { return false };
                if value != NONE {
                    self.put_back(*to, value);
                    self.undo.push(Undo::PushedBack { slot: *to });
                }
                true
            }
        }
    }

    fn write(&mut self, slot: usize, value: Value) -> bool {
        let old = self.value(slot);
        self.undo.push(Undo::Register { slot, old });
        self.set_register(slot, value);
        true
    }

    fn add(&mut self, slot: usize, amount: i64, result: Option<i64>) -> bool {
        let old = self.sum(slot);
        let Some(sum) = old.checked_add(amount) else { return false };
        if result.is_some_and(|result| result != sum) {
            return false;
        }
        self.undo.push(Undo::Counter { slot, old });
        self.set_counter(slot, sum);
        true
    }

    /// The popped value, [`NONE`] from an empty list; `None` if that is not the result.
    fn pop_front(&mut self, slot: usize, result: Option<Value>) -> Option<Value> {
        let first = self.elements(slot).values.front().copied().unwrap_or(NONE);
        if result.is_some_and(|result| result != first) {
            return None;
        }
        if let Some(value) = self.take_front(slot) {
            self.undo.push(Undo::PoppedFront { slot, value });
        }
        Some(first)
    }

    fn value(&self, slot: usize) -> Value {
        match self.slots[slot] {
            Slot::Register(value) => value,
            Slot::Counter(_) | Slot::List(_) => panic!("kinds were checked when the component was made"),
        }
    }

    fn sum(&self, slot: usize) -> i64 {
        match self.slots[slot] {
            Slot::Counter(sum) => sum,
            Slot::Register(_) | Slot::List(_) => panic!("kinds were checked when the component was made"),
        }
    }

    fn elements(&self, slot: usize) -> &Elements {
        match &self.slots[slot] {
            Slot::List(elements) => elements,
            Slot::Register(_) | Slot::Counter(_) => panic!("kinds were checked when the component was made"),
        }
    }

    fn elements_mut(&mut self, slot: usize) -> &mut Elements {
        match &mut self.slots[slot] {
            Slot::List(elements) => elements,
            Slot::Register(_) | Slot::Counter(_) => panic!("kinds were checked when the component was made"),
        }
    }

    fn set_register(&mut self, slot: usize, value: Value) {
        let old = self.value(slot);
        self.hash ^= salt(slot as u64, u64::from(old), 1) ^ salt(slot as u64, u64::from(value), 1);
        self.slots[slot] = Slot::Register(value);
    }

    fn set_counter(&mut self, slot: usize, sum: i64) {
        let old = self.sum(slot);
        self.hash ^= salt(slot as u64, old as u64, 2) ^ salt(slot as u64, sum as u64, 2);
        self.slots[slot] = Slot::Counter(sum);
    }

    fn put_back(&mut self, slot: usize, value: Value) {
        let elements = self.elements_mut(slot);
        let place = elements.first + elements.values.len() as i64;
        elements.values.push_back(value);
        self.hash ^= element_salt(slot, value, place);
    }

    fn put_front(&mut self, slot: usize, value: Value) {
        let elements = self.elements_mut(slot);
        elements.first -= 1;
        let place = elements.first;
        elements.values.push_front(value);
        self.hash ^= element_salt(slot, value, place);
    }

    fn take_back(&mut self, slot: usize) -> Option<Value> {
        let elements = self.elements_mut(slot);
        let value = elements.values.pop_back()?;
        let place = elements.first + elements.values.len() as i64;
        self.hash ^= element_salt(slot, value, place);
        Some(value)
    }

    fn take_front(&mut self, slot: usize) -> Option<Value> {
        let elements = self.elements_mut(slot);
        let value = elements.values.pop_front()?;
        let place = elements.first;
        elements.first += 1;
        self.hash ^= element_salt(slot, value, place);
        Some(value)
    }
}

/// Equal elements at different places differ, so that the order of a list is in its fingerprint.
fn element_salt(slot: usize, value: Value, place: i64) -> u128 {
    salt(((slot as u64) << 32) | 3, u64::from(value), place as u64)
}

impl Elements {
    pub(super) fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.values.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_can_be_taken_back() {
        let mut state = State::new(&[Kind::Register, Kind::Counter, Kind::List, Kind::List]);
        assert!(state.apply(&[Action::Append { slot: 2, value: 9, result: Some(1) }]));
        let (mark, before) = (state.mark(), state.fingerprint());
        let shown = format!("{:?}", state.slots());
        let actions = [
            Action::Write { slot: 0, value: 4 },
            Action::Cas { slot: 0, expect: 4, value: 5, result: Some(true) },
            Action::Add { slot: 1, amount: -3, result: Some(-3) },
            Action::Prepend { slot: 2, value: 7, result: Some(2) },
            Action::Move { slot: 2, to: 3, result: Some(7) },
            Action::PopBack { slot: 3, result: Some(7) },
            Action::PopFront { slot: 3, result: Some(NONE) },
            Action::Move { slot: 3, to: 2, result: Some(NONE) },
            Action::List { slot: 2, result: Some(vec![9]) },
        ];
        assert!(state.apply(&actions));
        assert_ne!(state.fingerprint(), before);
        state.rewind(mark);
        assert_eq!((state.fingerprint(), format!("{:?}", state.slots())), (before, shown));
    }

    #[test]
    fn a_transaction_that_fails_half_way_changes_nothing() {
        let mut state = State::new(&[Kind::Counter]);
        let before = state.fingerprint();
        let add = Action::Add { slot: 0, amount: 1, result: None };
        assert!(!state.apply(&[add, Action::Count { slot: 0, result: Some(5) }]));
        assert_eq!((state.fingerprint(), state.mark()), (before, 0));
    }
}
