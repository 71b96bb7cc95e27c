//! The last look shows every acknowledged write.
//!
//! Records marked as final read everything after faults are healed and clients are done. What they must show depends
//! on the kind of data; the checks are cheap and blunt, so that they find losses in histories of any size.

use std::collections::HashMap;

use quorate_api::history::{Check, Ending, Op};

use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};
use crate::{Entry, History, Report};

/// Everything that was done to one key before the last look.
#[derive(Default)]
struct Past<'h> {
    /// Values that were written or added.
    written: Vec<Written<'h>>,
    added: Vec<(i64, &'h Entry)>,
    /// Elements that were taken, with who took them.
    taken: Vec<(&'h str, &'h Entry)>,
    /// Takes of unknown outcome; each may have taken one element.
    maybe_taken: usize,
}

/// A value that somebody wrote or added.
struct Written<'h> {
    value: Option<&'h str>,
    entry: &'h Entry,
    /// Whether it is acknowledged that it took effect.
    is_certain: bool,
}

#[derive(Default)]
struct Judge<'h> {
    past: HashMap<&'h str, Past<'h>>,
    /// Elements may have been moved here from anywhere.
    moves: bool,
    /// Some move may take effect at any time, even between two of the last looks.
    moves_late: bool,
    violations: Vec<Violation>,
}

pub(crate) fn check(history: &History) -> Report {
    let mut judge = Judge::default();
    for entry in history.entries().iter().filter(|entry| !entry.is_final && entry.outcome != Ending::Fail) {
        for op in &entry.ops {
            judge.add(entry, op);
        }
    }
    let (mut keys, mut lists) = (0, HashMap::new());
    for entry in history.entries().iter().filter(|entry| entry.is_final && entry.is_ok()) {
        for op in &entry.ops {
            match op {
                Op::Read { key, result: Some(value) } => judge.register(key, value.as_deref(), entry),
                Op::Count { key, result: Some(sum) } => judge.counter(key, *sum, entry),
                Op::List { key, result: Some(values) } => {
                    lists.insert(key.as_str(), (values, entry));
                    if !judge.moves {
                        judge.list(&[key], &[(values, entry)]);
                    }
                }
                _ => continue,
            }
            keys += 1;
        }
    }
    let unread = judge.past.iter().filter(|(_, past)| !past.written.is_empty());
    let mut unread: Vec<&str> =
        unread.map(|(key, _)| *key).filter(|key| judge.moves && !lists.contains_key(key)).collect();
    unread.sort_unstable();
    let first = lists.values().map(|(_, entry)| entry.line).min();
    let is_torn = judge.moves_late && lists.values().any(|(_, entry)| Some(entry.line) != first);
    if judge.moves && unread.is_empty() && !lists.is_empty() && !is_torn {
        let (mut names, mut looks): (Vec<&str>, Vec<_>) = lists.into_iter().unzip();
        names.sort_unstable();
        looks.sort_by_key(|(_, entry)| entry.line);
        judge.list(&names, &looks);
    }
    let hole = match (keys, unread.first()) {
        (0, _) => Some("there is no acknowledged read marked as final".to_owned()),
        (_, Some(key)) => {
            Some(format!("elements are moved between lists, but the last look leaves out {key:?}"))
        }
        _ if is_torn => Some(
            "nobody knows whether some move took effect, and it may have between two last looks: read all lists in one transaction"
                .to_owned(),
        ),
        _ => None,
    };
    Report::new(Check::Durable, format!("last look at {keys} keys"), judge.violations, hole)
}

impl<'h> Past<'h> {
    fn wrote(&mut self, value: Option<&'h str>, entry: &'h Entry, if_ok: bool) {
        self.written.push(Written { value, entry, is_certain: if_ok && entry.is_ok() });
    }
}

impl<'h> Judge<'h> {
    fn add(&mut self, entry: &'h Entry, op: &'h Op) {
        if matches!(op, Op::Move { .. }) {
            self.moves = true;
            self.moves_late |= !entry.is_ok();
        }
        let past = self.past.entry(op.key()).or_default();
        match op {
            Op::Write { value, .. } => past.wrote(value.as_deref(), entry, true),
            Op::Cas { value, result, .. } if *result != Some(false) => {
                past.wrote(Some(value), entry, *result == Some(true));
            }
            Op::Append { value, .. } | Op::Prepend { value, .. } => past.wrote(Some(value), entry, true),
            Op::Add { amount, .. } => past.added.push((*amount, entry)),
            Op::PopFront { result, .. } | Op::PopBack { result, .. } => match result {
                Some(Some(value)) if entry.is_ok() => past.taken.push((value, entry)),
                Some(None) => {}
                _ => past.maybe_taken += 1,
            },
            _ => {}
        }
    }

    /// The last value was written by somebody, and not certainly overwritten afterwards.
    fn register(&mut self, key: &str, value: Option<&str>, look: &Entry) {
        let nothing = Past::default();
        let written = &self.past.get(key).unwrap_or(&nothing).written;
        let writers: Vec<&Entry> = written.iter().filter(|w| w.value == value).map(|w| w.entry).collect();
        if writers.is_empty() && value.is_some() {
            return self.found("phantom value", key, "nobody wrote what the last look shows", &[look]);
        }
        // The latest moment at which the value can have been written; the beginning if nobody wrote "none".
        let latest = writers.iter().map(|entry| entry.deadline()).max().unwrap_or(0);
        let overwrites = |w: &&Written<'_>| w.is_certain && w.value != value && w.entry.start > latest;
        // Without a writer the key was never touched, which any acknowledged value contradicts.
        let contradicts = |w: &&Written<'_>| w.is_certain && w.value.is_some() && writers.is_empty();
        let lost = written.iter().find(overwrites).or_else(|| written.iter().find(contradicts));
        let lost = lost.map(|w| w.entry);
        if let Some(lost) = lost {
            self.found(
                "lost write",
                key,
                "the last look shows an older value than was acknowledged",
                &[lost, look],
            );
        }
    }

    /// All acknowledged additions count, others may.
    fn counter(&mut self, key: &str, sum: i64, look: &Entry) {
        let nothing = Past::default();
        let past = self.past.get(key).unwrap_or(&nothing);
        let (mut low, mut high) = (0_i128, 0_i128);
        for (amount, entry) in &past.added {
            let amount = i128::from(*amount);
            low += if entry.is_ok() { amount } else { amount.min(0) };
            high += if entry.is_ok() { amount } else { amount.max(0) };
        }
        if i128::from(sum) < low || i128::from(sum) > high {
            let text =
                format!("the last look shows {sum}, but acknowledged additions ask for {low} to {high}");
            self.found("lost or repeated addition", key, &text, &[look]);
        }
    }

    /// Every acknowledged element is there or was taken, once.
    fn list(&mut self, keys: &[&str], looks: &[(&Vec<String>, &Entry)]) {
        let pasts: Vec<&Past<'_>> = keys.iter().filter_map(|key| self.past.get(key)).collect();
        let mut left: HashMap<&str, Option<&Entry>> = HashMap::new();
        let mut found: Vec<(&'static str, String, Option<&Entry>)> = Vec::new();
        for w in pasts.iter().flat_map(|past| &past.written) {
            left.insert(w.value.unwrap_or_default(), Some(w.entry));
        }
        let taken = pasts.iter().flat_map(|past| past.taken.iter().copied());
        let kept = looks.iter().flat_map(|(values, entry)| values.iter().map(move |v| (v.as_str(), *entry)));
        for (value, entry) in taken.chain(kept) {
            match left.get_mut(value) {
                None => found.push(("phantom element", format!("nobody added {value:?}"), Some(entry))),
                Some(None) => {
                    found.push(("repeated element", format!("{value:?} is there twice"), Some(entry)))
                }
                Some(adder) => *adder = None,
            }
        }
        let is_left = |value: &str| left.get(value).is_some_and(Option::is_some);
        let missing = pasts.iter().flat_map(|past| &past.written).filter(|w| w.is_certain);
        let missing = missing.map(|w| (w.value.unwrap_or_default(), w.entry));
        let missing: Vec<_> = missing.filter(|(value, _)| is_left(value)).collect();
        let maybe_taken: usize = pasts.iter().map(|past| past.maybe_taken).sum();
        if missing.len() > maybe_taken {
            for (value, entry) in &missing {
                let text = format!("{value:?} was acknowledged, but is not there, and nobody took it");
                found.push(("lost element", text, Some(entry)));
            }
        }
        let found: Vec<_> = found.into_iter().take(SHOWN_MAX).collect();
        for (name, text, entry) in found {
            let entries: Vec<&Entry> =
                entry.into_iter().chain(looks.iter().take(1).map(|(_, look)| *look)).collect();
            report(&mut self.violations, name, keys, &text, &entries);
        }
    }

    fn found(&mut self, name: &'static str, key: &str, text: &str, entries: &[&Entry]) {
        report(&mut self.violations, name, &[key], text, entries);
    }
}

fn report(
    violations: &mut Vec<Violation>,
    name: &'static str,
    keys: &[&str],
    text: &str,
    entries: &[&Entry],
) {
    if violations.iter().filter(|violation| violation.name == name).count() >= SHOWN_MAX {
        return;
    }
    let mut entries = entries.to_vec();
    entries.dedup_by_key(|entry| entry.line);
    let shown: Vec<String> = entries.iter().map(|entry| format!("  {}", describe(entry))).collect();
    let names: Vec<String> = keys.iter().take(SHOWN_MAX).map(|key| format!("{key:?}")).collect();
    let text = format!("key {}: {text}\n{}", names.join(", "), shown.join("\n"));
    violations.push(Violation { name, text, lines: entries.iter().map(|entry| entry.line).collect() });
}
