//! Looks for an order of the calls of one component that explains all results.
//!
//! The search of Wing and Gong (1993) with the memory of Lowe (2017): configurations (which calls are placed, and the
//! state) that were left without success are not entered again. A call is placed only when something has to be, the
//! most urgent first, and reads are placed as soon as they fit, because they cannot be in anybody's way.

use std::collections::HashSet;

use super::Limits;
use super::model::{Action, NONE, State, Value, salt};
use super::problem::{Guide, Problem, RegisterGuide};

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// An order exists.
    Order,
    /// None exists; at best so many required calls can be placed.
    Nothing { deepest: usize },
    /// The limits were reached before it was known.
    GaveUp,
    /// The order that [`Search::until`] asked for, as places in the component.
    Prefix(Vec<usize>),
}

const END: usize = usize::MAX;

/// A list through all required calls from which calls are taken and to which they return in reverse.
#[derive(Debug)]
struct Chain {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The place of the sentinel.
    head: usize,
}

impl Chain {
    fn new(order: &[usize], count: usize) -> Self {
        let mut chain = Chain { next: vec![END; count + 1], previous: vec![count; count + 1], head: count };
        let mut last = count;
        for place in order {
            chain.next[last] = *place;
            chain.previous[*place] = last;
            last = *place;
        }
        chain
    }

    fn first(&self) -> Option<usize> {
        self.after(self.head)
    }

    fn after(&self, place: usize) -> Option<usize> {
        Some(self.next[place]).filter(|next| *next != END)
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first(), |place| self.after(*place))
    }

    fn take(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = next;
        if next != END {
            self.previous[next] = previous;
        }
    }

    fn put_back(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = place;
        if next != END {
            self.previous[next] = place;
        }
    }
}

/// One placed call and what else could have been placed instead.
#[derive(Debug)]
struct Move {
    call: usize,
    mark: usize,
    /// Other calls to try at this point, the best last.
    others: Vec<usize>,
    /// Whether the optional calls are among `others`, or need not be tried.
    all_tried: bool,
}

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search<'p, 'c> {
    problem: &'p Problem<'c>,
    state: State,
    by_start: Chain,
    by_end: Chain,
    /// Optional calls by class in order of their starts, and how many of each are placed.
    optional: Vec<(Vec<usize>, usize)>,
    class_of_optional: Vec<usize>,
    placed: u128,
    moves: Vec<Move>,
    open: usize,
    /// Observers of each value that are not yet placed, where the guide knows.
    waiting: Vec<u32>,
    visited: HashSet<u128>,
    steps: u64,
}

impl<'p, 'c> Search<'p, 'c> {
    pub(super) fn new(problem: &'p Problem<'c>) -> Self {
        let calls = &problem.calls;
        let mut order: Vec<usize> = (0..calls.len()).filter(|place| calls[*place].required).collect();
        let open = order.len();
        order.sort_by_key(|place| calls[*place].start);
        let by_start = Chain::new(&order, calls.len());
        order.sort_by_key(|place| calls[*place].end);
        let by_end = Chain::new(&order, calls.len());
        let waiting = match &problem.guide {
            Guide::Register(guide) => guide.observers.clone(),
            Guide::None | Guide::Appends(_) => Vec::new(),
        };
        let (optional, class_of_optional) = optional_classes(problem);
        Search {
            problem,
            state: State::new(problem.kinds),
            by_start,
            by_end,
            optional,
            class_of_optional,
            placed: 0,
            moves: Vec::new(),
            open,
            waiting,
            visited: HashSet::new(),
            steps: 0,
        }
    }

    /// Steps taken so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The state after the placed calls.
    pub(super) fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// Required calls that are not placed but would have to come before the most urgent one ends.
    pub(super) fn stuck(&self) -> Vec<usize> {
        self.candidates().into_iter().map(|place| self.problem.calls[place].call).collect()
    }

    /// Searches within `limits`.
    pub(super) fn run(&mut self, limits: &Limits) -> Found {
        self.until(limits, usize::MAX)
    }

    /// Searches until `depth` required calls are placed.
    pub(super) fn until(&mut self, limits: &Limits, depth: usize) -> Found {
        let total = self.open;
        let mut deepest = 0;
        loop {
            let done = total - self.open;
            deepest = deepest.max(done);
            if done == depth {
                return Found::Prefix(self.moves.iter().map(|m| self.problem.calls[m.call].call).collect());
            }
            if self.open == 0 {
                return Found::Order;
            }
            if self.steps >= limits.steps_max || self.visited.len() >= limits.states_max {
                return Found::GaveUp;
            }
            if !self.advance() && !self.go_back() {
                return Found::Nothing { deepest };
            }
        }
    }

    /// Places one more call; false if none can be placed here, or this configuration was met before.
    fn advance(&mut self) -> bool {
        if let Some(call) = self.forced() {
            return self.place(call, Vec::new(), true);
        }
        if !self.visited.insert(self.placed ^ self.state.fingerprint()) {
            return false;
        }
        let mut choices = self.required_choices();
        if let Some(call) = choices.pop() {
            return self.place(call, choices, self.optional.is_empty());
        }
        let mut choices = self.optional_choices();
        match choices.pop() {
            Some(call) => self.place(call, choices, true),
            None => false,
        }
    }

    /// Takes moves back until another choice can be made; false if there is none.
    fn go_back(&mut self) -> bool {
        while let Some(last) = self.moves.pop() {
            self.unplace(&last);
            let Move { mut others, mut all_tried, .. } = last;
            if others.is_empty() && !all_tried {
                others = self.optional_choices();
                all_tried = true;
            }
            if let Some(call) = others.pop() {
                return self.place(call, others, all_tried);
            }
        }
        false
    }

    /// Places a call that is known to fit.
    fn place(&mut self, call: usize, others: Vec<usize>, all_tried: bool) -> bool {
        self.steps += 1;
        let mark = self.state.mark();
        let prepared = &self.problem.calls[call];
        assert!(self.state.apply(&prepared.actions), "a choice fits");
        self.placed ^= salt(4, call as u64, 0);
        if prepared.required {
            self.by_start.take(call);
            self.by_end.take(call);
            self.open -= 1;
        } else {
            self.optional[self.class_of_optional[call]].1 += 1;
        }
        self.count_observed(call, u32::wrapping_sub);
        self.moves.push(Move { call, mark, others, all_tried });
        true
    }

    fn unplace(&mut self, last: &Move) {
        self.state.rewind(last.mark);
        self.placed ^= salt(4, last.call as u64, 0);
        if self.problem.calls[last.call].required {
            self.by_end.put_back(last.call);
            self.by_start.put_back(last.call);
            self.open += 1;
        } else {
            self.optional[self.class_of_optional[last.call]].1 -= 1;
        }
        self.count_observed(last.call, u32::wrapping_add);
    }

    fn count_observed(&mut self, call: usize, change: fn(u32, u32) -> u32) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = &mut self.waiting;
        for action in self.problem.calls[call].actions.iter() {
            action.observes(|value| waiting[value as usize] = change(waiting[value as usize], 1));
        }
    }

    /// Required calls that may come next: none that is left ended before they started.
    fn candidates(&self) -> Vec<usize> {
        let Some(urgent) = self.by_end.first() else { return Vec::new() };
        let calls = &self.problem.calls;
        self.by_start.iter().take_while(|place| calls[*place].start <= calls[urgent].end).collect()
    }

    /// A call that can be placed now without loss of any order.
    fn forced(&mut self) -> Option<usize> {
        let urgent_end = self.problem.calls[self.by_end.first()?].end;
        let mut next = self.by_start.first();
        while let Some(place) = next {
            let call = &self.problem.calls[place];
            if call.start > urgent_end {
                return None;
            }
            if call.is_read {
                if self.state.fits(&call.actions) {
                    return Some(place);
                }
            } else if self.is_dead_write(place) {
                return Some(place);
            }
            next = self.by_start.after(place);
        }
        None
    }

    /// A write that nobody sees, at a time when nobody waits for the present value any more: whatever is placed next
    /// but reads covers it.
    fn is_dead_write(&self, place: usize) -> bool {
        let Guide::Register(guide) = &self.problem.guide else { return false };
        let Action::Write { value, .. } = self.problem.calls[place].actions[0] else { return false };
        guide.observers[value as usize] == 0 && self.waiting[self.state.register() as usize] == 0
    }

    /// Required calls to try here, the best last.
    fn required_choices(&mut self) -> Vec<usize> {
        let problem = self.problem;
        let mut choices = self.candidates();
        match &problem.guide {
            Guide::Register(guide) => {
                choices.retain(|place| self.register_allows(*place));
                choices.sort_by_key(|place| {
                    let value = problem.calls[*place].actions[0].produces().unwrap_or(NONE);
                    std::cmp::Reverse(guide.last_start[value as usize])
                });
                return choices;
            }
            Guide::Appends(_) | Guide::None => {}
        }
        // Reads that fit were placed before; those that do not fit must wait.
        choices.retain(|place| {
            let call = &problem.calls[*place];
            !call.is_read && self.order_allows(&call.actions) && self.state.fits(&call.actions)
        });
        choices.sort_by_key(|place| problem.calls[*place].end);
        let mut classes = HashSet::new();
        choices.retain(|place| classes.insert(problem.calls[*place].class));
        choices.reverse();
        choices
    }

    /// Whether a write or swap can come next given that no value of the register comes back.
    fn register_allows(&mut self, place: usize) -> bool {
        let problem = self.problem;
        let Guide::Register(guide) = &problem.guide else { return true };
        let call = &problem.calls[place];
        if call.is_read || !self.state.fits(&call.actions) {
            return false;
        }
        let present = self.state.register();
        let own = u32::from(matches!(call.actions[0], Action::Cas { .. }));
        if self.waiting[present as usize] != own {
            return false;
        }
        // Until the last observer of the new value has started, nothing may end but its observers and dead writes.
        let new = call.actions[0].produces().unwrap_or(NONE);
        let until = guide.last_start[new as usize];
        let ends_before = |other: &usize| problem.calls[*other].end < until;
        let mut ending = self.by_end.iter().take_while(ends_before);
        ending.all(|other| other == place || goes_with(&problem.calls[other].actions[0], new, guide))
    }

    /// Whether elements are added in the order that the longest read tells.
    fn order_allows(&self, actions: &[Action]) -> bool {
        let Guide::Appends(orders) = &self.problem.guide else { return true };
        actions.iter().enumerate().all(|(number, action)| {
            let Action::Append { slot, value, .. } = action else { return true };
            let is_here = |other: &&Action| matches!(other, Action::Append { slot: at, .. } if at == slot);
            let before = actions[..number].iter().filter(is_here).count();
            let expected = orders[*slot].get(self.state.list_len(*slot) + before);
            expected.is_none_or(|expected| expected == value)
        })
    }

    /// Optional calls to try here: one of each class, and only if it makes a difference.
    fn optional_choices(&mut self) -> Vec<usize> {
        let Some(urgent) = self.by_end.first() else { return Vec::new() };
        let problem = self.problem;
        let end = problem.calls[urgent].end;
        let required: HashSet<usize> =
            self.candidates().iter().map(|place| problem.calls[*place].class).collect();
        let mut choices = Vec::new();
        for number in 0..self.optional.len() {
            let (calls, used) = &self.optional[number];
            let Some(place) = calls.get(*used).copied() else { continue };
            let call = &problem.calls[place];
            if call.start <= end && !required.contains(&call.class) && self.changes(&call.actions) {
                choices.push(place);
            }
        }
        choices.reverse();
        choices
    }

    fn changes(&mut self, actions: &[Action]) -> bool {
        self.steps += 1;
        if !self.order_allows(actions) {
            return false;
        }
        let (mark, before) = (self.state.mark(), self.state.fingerprint());
        let changes = self.state.apply(actions) && self.state.fingerprint() != before;
        self.state.rewind(mark);
        changes
    }
}

/// Whether a call can be placed while the register holds `value`, or unseen just before it.
fn goes_with(action: &Action, value: Value, guide: &RegisterGuide) -> bool {
    let mut observes = false;
    action.observes(|seen| observes |= seen == value);
    observes || matches!(action, Action::Write { value, .. } if guide.observers[*value as usize] == 0)
}

fn optional_classes(problem: &Problem<'_>) -> (Vec<(Vec<usize>, usize)>, Vec<usize>) {
    let calls = &problem.calls;
    let mut optional: Vec<usize> = (0..calls.len()).filter(|place| !calls[*place].required).collect();
    optional.sort_by_key(|place| calls[*place].start);
    let mut classes: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut numbers = std::collections::HashMap::new();
    let mut class_of = vec![END; if optional.is_empty() { 0 } else { calls.len() }];
    for place in optional {
        let number = *numbers.entry(calls[place].class).or_insert(classes.len());
        if number == classes.len() {
            classes.push((Vec::new(), 0));
        }
        classes[number].0.push(place);
        class_of[place] = number;
    }
    (classes, class_of)
}
