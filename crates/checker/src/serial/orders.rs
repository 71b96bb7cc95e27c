//! The order of the versions of each list, and what can be wrong with single reads.

use std::collections::{HashMap, HashSet};

use quorate_api::history::{Ending, Op};

use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};
use crate::{Entry, History};

/// Who appended an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    /// Place in the history.
    pub(super) entry: usize,
    /// How many elements the same record appended to the same list before it.
    number: usize,
    /// Whether the same record appends to the same list again after it.
    is_intermediate: bool,
}

/// The first look of a record at a list, before its own appends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Place of the reader in the history.
    pub(super) entry: usize,
    pub(super) key: usize,
    /// How many elements it saw.
    pub(super) version: usize,
    /// Whether the record appends to the list afterwards.
    pub(super) updates: bool,
}

/// What is known about one list.
#[derive(Debug, Default)]
pub(super) struct KeyOrder<'h> {
    /// The longest read of a committed transaction.
    pub(super) order: Vec<&'h str>,
    longest: usize,
    pub(super) writers: HashMap<&'h str, Writer>,
}

/// All lists of a history.
#[derive(Debug, Default)]
pub(super) struct Orders<'h> {
    keys: Vec<&'h str>,
    numbers: HashMap<&'h str, usize>,
    pub(super) lists: Vec<KeyOrder<'h>>,
    pub(super) looks: Vec<Look>,
    /// For each record whether it certainly took effect: acknowledged, or unknown and one of its elements was seen.
    pub(super) committed: Vec<bool>,
    anomalies: Vec<Violation>,
    counts: HashMap<&'static str, usize>,
}

impl<'h> Orders<'h> {
    /// What the reads of `history` show; an error if elements are not unique, so that nothing can be told.
    pub(super) fn of(history: &'h History) -> Result<Self, String> {
        let mut orders = Orders::default();
        for (place, entry) in history.entries().iter().enumerate() {
            orders.add_writes(place, entry)?;
        }
        for (place, entry) in history.entries().iter().enumerate().filter(|(_, entry)| entry.is_ok()) {
            orders.add_longest(place, entry);
        }
        orders.committed = history.entries().iter().map(Entry::is_ok).collect();
        for list in &orders.lists {
            for writer in list.order.iter().filter_map(|value| list.writers.get(value)) {
                orders.committed[writer.entry] |= history.entries()[writer.entry].outcome == Ending::Unknown;
            }
        }
        for (place, entry) in history.entries().iter().enumerate().filter(|(_, entry)| entry.is_ok()) {
            orders.judge_reads(history, place, entry);
        }
        orders.judge_updates(history);
        orders.judge_batches(history);
        Ok(orders)
    }

    pub(super) fn keys(&self) -> &[&'h str] {
        &self.keys
    }

    /// What is wrong without looking at cycles.
    pub(super) fn anomalies(&self, _history: &History) -> Vec<Violation> {
        self.anomalies.clone()
    }

    fn number(&mut self, key: &'h str) -> usize {
        *self.numbers.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.lists.push(KeyOrder::default());
            self.keys.len() - 1
        })
    }

    fn add_writes(&mut self, place: usize, entry: &'h Entry) -> Result<(), String> {
        let mut last: HashMap<usize, (usize, &'h str)> = HashMap::new();
        for op in &entry.ops {
            let key = self.number(op.key());
            let Op::Append { value, .. } = op else { continue };
            let writers = &mut self.lists[key].writers;
            let number = last.get(&key).map_or(0, |(number, _)| number + 1);
            if writers.insert(value, Writer { entry: place, number, is_intermediate: false }).is_some() {
                return Err(format!(
                    "line {} appends {value:?} to {:?}, as another operation does: elements must be unique",
                    entry.line, self.keys[key]
                ));
            }
            if let Some((_, before)) = last.insert(key, (number, value))
                && let Some(writer) = writers.get_mut(before)
            {
                writer.is_intermediate = true;
            }
        }
        Ok(())
    }

    fn add_longest(&mut self, place: usize, entry: &'h Entry) {
        for op in &entry.ops {
            let Op::List { key, result: Some(values) } = op else { continue };
            let key = self.number(key);
            let list = &mut self.lists[key];
            if values.len() > list.order.len() {
                list.order = values.iter().map(String::as_str).collect();
                list.longest = place;
            }
        }
    }

    fn judge_reads(&mut self, history: &'h History, place: usize, entry: &'h Entry) {
        // For each list what the record must see: its first look and its own appends since.
        let mut expected: HashMap<usize, Vec<&'h str>> = HashMap::new();
        let mut own: HashMap<usize, Vec<&'h str>> = HashMap::new();
        for (step, op) in entry.ops.iter().enumerate() {
            let key = self.numbers[op.key()];
            match op {
                Op::Append { value, .. } => {
                    own.entry(key).or_default().push(value);
                    expected.entry(key).and_modify(|seen| seen.push(value));
                }
                Op::List { result: Some(values), .. } => {
                    let values: Vec<&'h str> = values.iter().map(String::as_str).collect();
                    let appended = own.get(&key).map_or(&[][..], Vec::as_slice);
                    let fits = match expected.get(&key) {
                        Some(seen) => *seen == values,
                        None => values.ends_with(appended),
                    };
                    if !fits {
                        let text = "it does not see what it saw or appended itself before";
                        self.found("internal inconsistency", &[entry], key, text);
                        continue;
                    }
                    if !expected.contains_key(&key) {
                        let version = values.len() - appended.len();
                        let later = &entry.ops[step..];
                        let updates = later
                            .iter()
                            .any(|op| matches!(op, Op::Append { key: k, .. } if *k == *self.keys[key]));
                        self.judge_version(history, place, key, &values, version);
                        self.looks.push(Look { entry: place, key, version, updates });
                    }
                    expected.insert(key, values);
                }
                _ => {}
            }
        }
    }

    fn judge_version(
        &mut self,
        history: &'h History,
        place: usize,
        key: usize,
        values: &[&'h str],
        version: usize,
    ) {
        let entries = history.entries();
        let (reader, longest) = (&entries[place], &entries[self.lists[key].longest]);
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(**value)) {
            self.found("duplicate element", &[reader], key, &format!("it sees {twice:?} twice"));
        }
        if !self.lists[key].order.starts_with(values) {
            let text = "neither read is a beginning of the other, so no order of versions explains both";
            self.found("incompatible order", &[reader, longest], key, text);
        }
        for value in values {
            match self.lists[key].writers.get(value).copied() {
                None => {
                    self.found("phantom element", &[reader], key, &format!("nobody appended {value:?}"));
                }
                Some(writer) if entries[writer.entry].outcome == Ending::Fail => {
                    let text = format!("it sees {value:?}, which a transaction that failed appended");
                    self.found("aborted read (G1a)", &[reader, &entries[writer.entry]], key, &text);
                }
                Some(_) => {}
            }
        }
        let last = version.checked_sub(1).and_then(|last| self.lists[key].writers.get(values[last]).copied());
        if let Some(writer) = last.filter(|writer| writer.is_intermediate && writer.entry != place) {
            let text = format!("it sees {:?} as the last element, between two appends", values[version - 1]);
            self.found("intermediate read (G1b)", &[reader, &entries[writer.entry]], key, &text);
        }
    }

    /// What one record appends to one list must stand in that order and from its beginning.
    fn judge_batches(&mut self, history: &'h History) {
        let mut wrong = Vec::new();
        for (key, list) in self.lists.iter().enumerate() {
            let mut counts: HashMap<usize, usize> = HashMap::new();
            for value in &list.order {
                let Some(writer) = list.writers.get(value) else { continue };
                let count = counts.entry(writer.entry).or_insert(0);
                if writer.number != *count {
                    wrong.push((key, list.longest, *writer, *value));
                    break;
                }
                *count += 1;
            }
        }
        for (key, reader, writer, value) in wrong {
            let text = format!("{value:?} does not stand where the transaction that appended it says");
            let entries = [&history.entries()[reader], &history.entries()[writer.entry]];
            self.found("torn transaction", &entries, key, &text);
        }
    }

    fn judge_updates(&mut self, history: &'h History) {
        let mut updates: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        for look in self.looks.iter().filter(|look| look.updates) {
            updates.entry((look.key, look.version)).or_default().push(look.entry);
        }
        let mut lost: Vec<_> = updates.into_iter().filter(|(_, entries)| entries.len() > 1).collect();
        lost.sort_unstable();
        for ((key, _), places) in lost {
            let entries: Vec<&Entry> = places.iter().map(|place| &history.entries()[*place]).collect();
            let text = "all of them read the same version and appended to it, so one did not see the other";
            self.found("lost update", &entries, key, text);
        }
    }

    fn found(&mut self, name: &'static str, entries: &[&Entry], key: usize, text: &str) {
        let count = self.counts.entry(name).or_insert(0);
        *count += 1;
        if *count > SHOWN_MAX {
            return;
        }
        let shown: Vec<String> = entries.iter().map(|entry| format!("  {}", describe(entry))).collect();
        let text = format!("key {:?}: {text}\n{}", self.keys[key], shown.join("\n"));
        let mut lines: Vec<usize> = entries.iter().map(|entry| entry.line).collect();
        lines.sort_unstable();
        self.anomalies.push(Violation { name, text, lines });
    }
}
