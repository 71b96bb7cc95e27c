//! Keys that name each other stay one ring.
//!
//! Each register holds the name of the next one. Transactions exchange two neighbours, so that the ring changes its
//! order but stays whole; a transaction that is applied in part, or that overwrites another, breaks it.

use std::collections::{HashMap, HashSet};

use quorate_api::history::{Check, Op};

use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};
use crate::{Entry, History, Report};

pub(crate) fn check(history: &History) -> Report {
    let entries = history.entries();
    let ops = entries.iter().flat_map(|entry| &entry.ops);
    let keys: HashSet<&str> =
        ops.filter(|op| matches!(op, Op::Read { .. } | Op::Write { .. })).map(Op::key).collect();
    let (mut violations, mut rings) = (Vec::new(), 0_usize);
    for entry in entries.iter().filter(|entry| entry.is_ok()) {
        let Some(nexts) = nexts_of(entry) else { continue };
        let is_whole = nexts.len() == keys.len();
        rings += usize::from(is_whole);
        let wrong = if is_whole { broken(&nexts) } else { crossed(&nexts) };
        if let Some(wrong) = wrong.filter(|_| violations.len() < SHOWN_MAX) {
            let text = format!("{wrong}\n  {}", describe(entry));
            violations.push(Violation { name: "broken ring", text, lines: vec![entry.line] });
        }
    }
    let hole = (rings == 0)
        .then(|| format!("no transaction reads all {} keys at once, so no ring can be compared", keys.len()));
    Report::new(Check::Cycle, format!("{rings} reads of {} keys", keys.len()), violations, hole)
}

/// What each key named when the transaction looked first; `None` if it read nothing, or before setup.
fn nexts_of(entry: &Entry) -> Option<HashMap<&str, Option<&str>>> {
    let (mut nexts, mut written) = (HashMap::new(), HashSet::new());
    for op in &entry.ops {
        match op {
            Op::Read { key, result: Some(next) } if !written.contains(key.as_str()) => {
                nexts.entry(key.as_str()).or_insert(next.as_deref());
            }
            Op::Write { key, .. } => _ = written.insert(key.as_str()),
            _ => {}
        }
    }
    // Nothing is there yet: setup is one transaction, too.
    let is_set_up = nexts.values().any(Option::is_some);
    is_set_up.then_some(nexts)
}

/// Why a look at all keys shows no ring.
fn broken(nexts: &HashMap<&str, Option<&str>>) -> Option<String> {
    let first = nexts.keys().copied().min()?;
    let (mut at, mut steps) = (first, 0);
    loop {
        let Some(next) = nexts.get(at).copied().flatten() else {
            return Some(format!("{at:?} names no other key, or is no key of the ring"));
        };
        (at, steps) = (next, steps + 1);
        if at == first && steps == nexts.len() {
            return None;
        }
        if at == first || steps > nexts.len() {
            return Some(format!("from {first:?} the ring does not lead through all {} keys", nexts.len()));
        }
    }
}

/// Why a look at some keys cannot be a part of a ring.
fn crossed(nexts: &HashMap<&str, Option<&str>>) -> Option<String> {
    let mut named: HashMap<&str, &str> = HashMap::new();
    let mut sorted: Vec<_> = nexts.iter().collect();
    sorted.sort_unstable();
    for (key, next) in sorted {
        let Some(next) = next else { return Some(format!("{key:?} names no other key")) };
        if let Some(other) = named.insert(next, key) {
            return Some(format!("{other:?} and {key:?} both name {next:?}"));
        }
    }
    None
}
