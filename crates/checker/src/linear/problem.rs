//! Prepares calls for the search: what follows from their results before any order is tried.

use std::borrow::Cow;
use std::collections::HashMap;

use super::component::{Call, Component};
use super::model::{Action, Kind, NONE, Value};

/// Stands for every value that no result mentions: such values cannot be told apart.
const UNSEEN: Value = Value::MAX;

/// A call with what could be derived about it.
#[derive(Debug, Clone)]
pub(super) struct Prepared<'c> {
    /// Its place in the component.
    pub(super) call: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) required: bool,
    pub(super) actions: Cow<'c, [Action]>,
    /// Whether it changes nothing whatever the state is.
    pub(super) is_read: bool,
    /// Calls of one class do the same in every state.
    pub(super) class: usize,
}

/// What is known about all orders that can work.
#[derive(Debug)]
pub(super) enum Guide {
    /// Nothing.
    None,
    /// One register, each value written once, each successful swap known: a value never comes back once it is left.
    Register(RegisterGuide),
    /// Lists that only grow, each element added once: for each slot the longest read tells the order.
    Appends(Vec<Vec<Value>>),
}

/// For each value of a register what its observers (reads and swaps away from it) need.
#[derive(Debug)]
pub(super) struct RegisterGuide {
    /// How many calls observe it.
    pub(super) observers: Vec<u32>,
    /// When the last of them starts.
    pub(super) last_start: Vec<u64>,
}

/// What the search works on.
#[derive(Debug)]
pub(super) struct Problem<'c> {
    pub(super) kinds: &'c [Kind],
    pub(super) calls: Vec<Prepared<'c>>,
    pub(super) guide: Guide,
}

/// A part of a component: for each of its calls nothing, or the end that it is to have there.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kept: Vec<usize>,
    /// Calls that end later are optional here, and calls that start later were left out.
    pub(super) until: u64,
}

impl Part {
    pub(super) fn all(component: &Component<'_>) -> Part {
        Part { kept: (0..component.calls.len()).collect(), until: u64::MAX }
    }

    pub(super) fn before(component: &Component<'_>, until: u64) -> Part {
        let kept = (0..component.calls.len()).filter(|call| component.calls[*call].start <= until);
        Part { kept: kept.collect(), until }
    }

    /// Whether `call` must take effect within this part.
    pub(super) fn requires(&self, call: &Call) -> bool {
        call.required && call.end <= self.until
    }
}

impl<'c> Problem<'c> {
    /// The problem of the calls of `part`.
    pub(super) fn new(component: &'c Component<'_>, part: &Part) -> Self {
        let take = |place: &usize| {
            let call = &component.calls[*place];
            let required = part.requires(call);
            Prepared {
                call: *place,
                start: call.start,
                end: if required { call.end } else { u64::MAX },
                required,
                actions: Cow::Borrowed(&call.actions[..]),
                is_read: call.actions.iter().all(Action::is_read),
                class: 0,
            }
        };
        let calls: Vec<Prepared<'c>> = part.kept.iter().map(take).collect();
        let mut problem = Problem { kinds: &component.kinds, calls, guide: Guide::None };
        problem.calls.retain(|call| call.required || !call.is_read);
        let producers = Producers::of(&problem.calls, component.values.len());
        problem.settle(&producers);
        if component.is_one(Kind::Register) && producers.unique && problem.swaps_are_known() {
            // Whatever is still optional is seen by nobody, so it may as well not have happened.
            problem.calls.retain(|call| call.required);
            problem.guide = Guide::Register(problem.register_guide(component.values.len()));
        } else {
            if component.kinds.iter().all(|kind| *kind == Kind::List) && producers.unique {
                problem.guide_appends();
            }
            problem.blur(component.values.len());
            problem.classify();
        }
        problem
    }

    /// A value that some required call saw was certainly produced before that call ended. Where only one call can
    /// have produced it, that call is required, too, and must be as early.
    fn settle(&mut self, producers: &Producers) {
        let mut pending: Vec<usize> =
            (0..self.calls.len()).filter(|place| self.calls[*place].required).collect();
        while let Some(observer) = pending.pop() {
            let end = self.calls[observer].end;
            let mut seen = Vec::new();
            self.calls[observer].actions.iter().for_each(|action| action.observes(|value| seen.push(value)));
            for value in seen {
                let Some(place) = producers.only[value as usize] else { continue };
                let producer = &mut self.calls[place];
                let swapped = confirm_swap(producer, value);
                if place != observer && (!producer.required || producer.end > end || swapped) {
                    producer.required = true;
                    producer.end = producer.end.min(end);
                    pending.push(place);
                }
            }
        }
    }

    fn swaps_are_known(&self) -> bool {
        self.calls.iter().all(|call| {
            call.actions.len() == 1
                && (!call.required
                    || !matches!(call.actions[0], Action::Cas { result, .. } if result != Some(true)))
                && !matches!(call.actions[0], Action::Cas { result: Some(false), .. })
        })
    }

    fn register_guide(&self, value_count: usize) -> RegisterGuide {
        let mut guide = RegisterGuide { observers: vec![0; value_count], last_start: vec![0; value_count] };
        for call in &self.calls {
            for action in call.actions.iter() {
                action.observes(|value| {
                    guide.observers[value as usize] += 1;
                    let last = &mut guide.last_start[value as usize];
                    *last = call.start.max(*last);
                });
            }
        }
        guide
    }

    fn guide_appends(&mut self) {
        let mut longest: Vec<&[Value]> = vec![&[]; self.kinds.len()];
        let mut lengths_known = false;
        for call in &self.calls {
            for action in call.actions.iter() {
                match action {
                    Action::Append { result, .. } => lengths_known |= result.is_some(),
                    Action::List { slot, result: Some(values) } if call.required => {
                        if values.len() > longest[*slot].len() {
                            longest[*slot] = values;
                        }
                    }
                    Action::List { .. } => {}
                    // Elements come and go in other ways as well.
                    _ => return,
                }
            }
        }
        self.guide = Guide::Appends(longest.into_iter().map(<[Value]>::to_vec).collect());
        if !lengths_known && self.kinds.len() == 1 {
            // Optional elements that no read shows may as well not have been added.
            self.calls.retain(|call| call.required);
        }
    }

    /// Gives all values that no result mentions one name, so that states which differ in them only are equal.
    fn blur(&mut self, value_count: usize) {
        let mut seen = vec![false; value_count];
        seen[NONE as usize] = true;
        for action in self.calls.iter().flat_map(|call| call.actions.iter()) {
            action.observes(|value| seen[value as usize] = true);
            if let Action::Cas { expect, .. } = action {
                seen[*expect as usize] = true;
            }
        }
        for call in &mut self.calls {
            let unseen = |action: &Action| action.produces().is_some_and(|value| !seen[value as usize]);
            if !call.actions.iter().any(unseen) {
                continue;
            }
            for action in call.actions.to_mut() {
                let dull = unseen(action);
                match action {
                    Action::Write { value, .. }
                    | Action::Cas { value, .. }
                    | Action::Append { value, .. }
                    | Action::Prepend { value, .. }
                        if dull =>
                    {
                        *value = UNSEEN;
                    }
                    _ => {}
                }
            }
        }
    }

    fn classify(&mut self) {
        let mut classes: HashMap<Vec<Action>, usize> = HashMap::new();
        for call in self.calls.iter_mut().filter(|call| !call.is_read) {
            // 0 is left to reads, which are never compared.
            let fresh = classes.len() + 1;
            call.class = *classes.entry(call.actions.to_vec()).or_insert(fresh);
        }
    }
}

/// A swap whose new value was seen did swap; true if that was news.
fn confirm_swap(producer: &mut Prepared<'_>, seen: Value) -> bool {
    let is_news =
        |action: &Action| matches!(action, Action::Cas { value, result: None, .. } if *value == seen);
    if !producer.actions.iter().any(is_news) {
        return false;
    }
    for action in producer.actions.to_mut() {
        if let Action::Cas { value, result, .. } = action
            && *value == seen
            && result.is_none()
        {
            *result = Some(true);
        }
    }
    true
}

/// Which call is the only one that can have produced a value.
struct Producers {
    only: Vec<Option<usize>>,
    /// Whether no value has two producers and nobody goes back to "none".
    unique: bool,
}

impl Producers {
    fn of(calls: &[Prepared<'_>], value_count: usize) -> Producers {
        let (mut only, mut counts) = (vec![None; value_count], vec![0_u32; value_count]);
        for (place, call) in calls.iter().enumerate() {
            for value in call.actions.iter().filter_map(Action::produces) {
                only[value as usize] = Some(place);
                counts[value as usize] += 1;
            }
        }
        let unique = counts[NONE as usize] == 0 && counts.iter().all(|count| *count <= 1);
        for (value, count) in counts.iter().enumerate() {
            if *count != 1 || value == NONE as usize {
                only[value] = None;
            }
        }
        Producers { only, unique }
    }
}
