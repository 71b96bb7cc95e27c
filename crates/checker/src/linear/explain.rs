//! Makes a short story of a component that has no order.

use std::fmt::Write as _;

use super::component::{Call, Component};
use super::model::{Action, Kind, NONE, Slot, Value};
use super::problem::{Part, Problem};
use super::search::{Found, Search};
use super::{Limits, decide};
use crate::report::Violation;
use crate::{Entry, History};
use quorate_api::history::Op;

/// So many of the last placed operations are shown.
const PREFIX_SHOWN_MAX: usize = 8;
/// So many operations of every other list are shown.
const LINES_SHOWN_MAX: usize = 12;
/// Steps spent on making the story shorter.
const SHRINK_STEPS_MAX: u64 = 30_000_000;
/// Elements of one list that are shown.
const ELEMENTS_SHOWN_MAX: usize = 12;

/// The violation that `component`, which is known to have no order, shows.
pub(super) fn explain(history: &History, component: &Component<'_>, limits: &Limits) -> Violation {
    let mut shrinker = Shrinker { component, limits, left: SHRINK_STEPS_MAX };
    let part = shrinker.shortest_prefix();
    let part = shrinker.without_groups(part);
    let part = shrinker.without_reads(part);
    tell(history, component, &part, limits)
}

struct Shrinker<'a, 'h> {
    component: &'a Component<'h>,
    limits: &'a Limits,
    left: u64,
}

impl Shrinker<'_, '_> {
    /// Whether the search can tell within what is left that `part` has no order.
    fn is_impossible(&mut self, part: &Part) -> bool {
        // A search costs at least the preparation of its calls.
        self.left = self.left.saturating_sub(part.kept.len() as u64);
        let limits = Limits { steps_max: self.left, ..self.limits.clone() };
        let problem = Problem::new(self.component, part);
        let (found, steps) = decide(&problem, &limits);
        self.left = self.left.saturating_sub(steps);
        matches!(found, Found::Nothing { .. })
    }

    /// The part up to the first end at which no order is left.
    fn shortest_prefix(&mut self) -> Part {
        let calls = &self.component.calls;
        let mut ends: Vec<u64> = calls.iter().filter(|call| call.required).map(|call| call.end).collect();
        ends.sort_unstable();
        ends.dedup();
        let (mut low, mut high) = (0, ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_impossible(&Part::before(self.component, ends[middle])) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        match ends.get(low) {
            Some(until) if self.is_impossible(&Part::before(self.component, *until)) => {
                Part::before(self.component, *until)
            }
            _ => Part::all(self.component),
        }
    }

    /// Leaves out whole values of a register, each with everybody who wrote or saw it: if there is an order with them,
    /// there is one without.
    fn without_groups(&mut self, part: Part) -> Part {
        let component = self.component;
        if !component.is_one(Kind::Register) || !part.kept.iter().all(|c| is_plain(&component.calls[*c])) {
            return part;
        }
        let mut parents: Vec<usize> = (0..component.values.len()).collect();
        let mut writers = vec![0_u32; component.values.len()];
        for call in &part.kept {
            let action = &component.calls[*call].actions[0];
            writers[action.produces().unwrap_or(NONE) as usize] += u32::from(action.produces().is_some());
            if let Action::Cas { expect, value, .. } = action {
                let (left, right) = (root(&parents, *expect), root(&parents, *value));
                parents[left] = right;
            }
        }
        if writers[NONE as usize] > 0 || writers.iter().any(|count| *count > 1) {
            return part;
        }
        let group = |call: &usize| match &component.calls[*call].actions[0] {
            Action::Write { value, .. } | Action::Cas { value, .. } => root(&parents, *value),
            Action::Read { result, .. } => root(&parents, result.unwrap_or(NONE)),
            _ => NONE as usize,
        };
        let mut groups: Vec<usize> = part.kept.iter().map(group).collect();
        groups.sort_unstable();
        groups.dedup();
        self.leave_out(part, groups, |call, gone| gone.binary_search(&group(call)).is_ok())
    }

    /// Leaves out reads: they change nothing.
    fn without_reads(&mut self, part: Part) -> Part {
        let component = self.component;
        let is_read = |call: &usize| component.calls[*call].actions.iter().all(Action::is_read);
        let reads: Vec<usize> = part.kept.iter().copied().filter(is_read).collect();
        self.leave_out(part, reads, |call, gone| gone.binary_search(call).is_ok())
    }

    /// Leaves out as many units as it can find, in halves, quarters and so on.
    fn leave_out(
        &mut self,
        part: Part,
        mut units: Vec<usize>,
        is_in: impl Fn(&usize, &[usize]) -> bool,
    ) -> Part {
        let mut part = part;
        let mut size = units.len();
        while size > 0 && self.left > 0 {
            let mut start = 0;
            while start < units.len() && self.left > 0 {
                let end = (start + size).min(units.len());
                let gone = &units[start..end];
                let kept = part.kept.iter().copied().filter(|call| !is_in(call, gone)).collect();
                let smaller = Part { kept, until: part.until };
                if self.is_impossible(&smaller) {
                    part = smaller;
                    units.drain(start..end);
                } else {
                    start = end;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        part
    }
}

fn is_plain(call: &Call) -> bool {
    call.actions.len() == 1
        && match &call.actions[0] {
            Action::Read { .. } | Action::Write { .. } => true,
            // A swap that failed saw only what was not there.
            Action::Cas { result, .. } => *result == Some(true),
            _ => false,
        }
}

fn root(parents: &[usize], value: Value) -> usize {
    let mut node = value as usize;
    while parents[node] != node {
        node = parents[node];
    }
    node
}

fn tell(history: &History, component: &Component<'_>, part: &Part, limits: &Limits) -> Violation {
    let problem = Problem::new(component, part);
    let entry = |call: usize| &history.entries()[component.calls[call].entry];
    let line = |call: &usize| describe(entry(*call));
    let keys = component.keys.iter().take(ELEMENTS_SHOWN_MAX).map(|key| format!("{key:?}"));
    let mut text = format!(
        "key {}: {} of its {} operations are enough to show that no order explains all results\n",
        keys.collect::<Vec<_>>().join(", "),
        problem.calls.len(),
        component.calls.len()
    );
    let Some((prefix, mut search)) = longest_prefix(&problem, limits) else {
        list(&mut text, "these are", problem.calls.iter().map(|call| line(&call.call)));
        let lines = problem.calls.iter().map(|call| entry(call.call).line).take(LINES_SHOWN_MAX).collect();
        return Violation { name: "not linearizable", text, lines };
    };
    let stuck = search.stuck();
    let skipped = prefix.len().saturating_sub(PREFIX_SHOWN_MAX);
    let before = if skipped > 0 { format!("after {skipped} others, ") } else { String::new() };
    list(
        &mut text,
        &format!("{before}these can be placed, in this order"),
        prefix[skipped..].iter().map(line),
    );
    let state = state_text(component, search.state().slots());
    let why = |call: &usize| match search.state().fits(&component.calls[*call].actions) {
        true => format!("{}: fits, but then others never can", line(call)),
        false => format!("{}: does not fit", line(call)),
    };
    list(
        &mut text,
        &format!("then the state is {state} and none of these can come next"),
        stuck.iter().map(why),
    );
    let placed: std::collections::HashSet<usize> = prefix.iter().chain(&stuck).copied().collect();
    let rest = |required: bool| {
        let calls = problem.calls.iter().filter(move |call| call.required == required).map(|call| call.call);
        calls.filter(|call| !placed.contains(call)).collect::<Vec<usize>>()
    };
    list(&mut text, "these were to come later", rest(true).iter().map(line));
    list(&mut text, "these may have happened, but do not help", rest(false).iter().map(line));
    let shown = prefix[skipped..].iter().chain(&stuck);
    let mut lines: Vec<usize> = shown.map(|call| entry(*call).line).collect();
    lines.sort_unstable();
    Violation { name: "not linearizable", text, lines }
}

/// The most that can be placed, if the search can tell; for large problems of one register it may not.
fn longest_prefix<'p, 'c>(problem: &'p Problem<'c>, limits: &Limits) -> Option<(Vec<usize>, Search<'p, 'c>)> {
    let Found::Nothing { deepest } = Search::new(problem).run(limits) else { return None };
    let mut search = Search::new(problem);
    match search.until(limits, deepest) {
        Found::Prefix(prefix) => Some((prefix, search)),
        Found::Order | Found::Nothing { .. } | Found::GaveUp => None,
    }
}

/// A headline and some lines below it; nothing if there are none.
fn list(text: &mut String, headline: &str, lines: impl ExactSizeIterator<Item = String>) {
    let count = lines.len();
    if count == 0 {
        return;
    }
    _ = writeln!(text, "{headline}:");
    for line in lines.take(LINES_SHOWN_MAX) {
        _ = writeln!(text, "  {line}");
    }
    if count > LINES_SHOWN_MAX {
        _ = writeln!(text, "  ({} more)", count - LINES_SHOWN_MAX);
    }
}

fn state_text(component: &Component<'_>, slots: &[Slot]) -> String {
    let value = |value: Value| match component.values.get(value as usize) {
        _ if value == NONE => "none".to_owned(),
        Some(text) => format!("{text:?}"),
        None => "(a value that nobody saw)".to_owned(),
    };
    let slot = |slot: &Slot| match slot {
        Slot::Register(number) => value(*number),
        Slot::Counter(sum) => sum.to_string(),
        Slot::List(elements) => shorten(elements.iter().map(value).collect()),
    };
    let texts = slots.iter().zip(&component.keys).take(ELEMENTS_SHOWN_MAX);
    match slots {
        [only] => slot(only),
        _ => texts.map(|(one, key)| format!("{key:?} {}", slot(one))).collect::<Vec<_>>().join(", "),
    }
}

/// The last elements; the front of a list that only grows tells little.
fn shorten(elements: Vec<String>) -> String {
    let skipped = elements.len().saturating_sub(ELEMENTS_SHOWN_MAX);
    let shown = elements[skipped..].join(", ");
    if skipped > 0 { format!("[({skipped} before), {shown}]") } else { format!("[{shown}]") }
}

/// One record in one line.
pub(crate) fn describe(entry: &Entry) -> String {
    let ops: Vec<String> = entry.ops.iter().map(describe_op).collect();
    let end = if entry.is_ok() { entry.deadline().to_string() } else { "unknown".to_owned() };
    format!("line {} client {} [{} .. {end}] {}", entry.line, entry.client, entry.start, ops.join("; "))
}

fn describe_op(op: &Op) -> String {
    let maybe =
        |value: &Option<String>| value.as_ref().map_or("none".to_owned(), |value| format!("{value:?}"));
    let arrow = |text: Option<String>| text.map_or(String::new(), |text| format!(" -> {text}"));
    let (name, key) = (op.name(), op.key());
    match op {
        Op::Read { result, .. } | Op::PopFront { result, .. } | Op::PopBack { result, .. } => {
            format!("{name} {key:?}{}", arrow(result.as_ref().map(maybe)))
        }
        Op::Write { value, .. } => format!("{name} {key:?} {}", maybe(value)),
        Op::Cas { expect, value, result, .. } => {
            let swapped = result.map(|swapped| (if swapped { "swapped" } else { "refused" }).to_owned());
            format!("{name} {key:?} {} to {value:?}{}", maybe(expect), arrow(swapped))
        }
        Op::Add { amount, result, .. } => {
            format!("{name} {key:?} {amount:+}{}", arrow(result.map(|sum| sum.to_string())))
        }
        Op::Count { result, .. } => format!("{name} {key:?}{}", arrow(result.map(|sum| sum.to_string()))),
        Op::Append { value, result, .. } | Op::Prepend { value, result, .. } => {
            format!("{name} {key:?} {value:?}{}", arrow(result.map(|length| format!("length {length}"))))
        }
        Op::List { result, .. } => {
            let quoted =
                |list: &Vec<String>| shorten(list.iter().map(|value| format!("{value:?}")).collect());
            format!("{name} {key:?}{}", arrow(result.as_ref().map(quoted)))
        }
        Op::Move { to, result, .. } => {
            format!("{name} {key:?} to {to:?}{}", arrow(result.as_ref().map(maybe)))
        }
    }
}
