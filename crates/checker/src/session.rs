//! Session guarantees (Terry et al. 1994): each client sees its own writes, never goes back in time, and its writes
//! are seen in the order in which they were made and after what they follow.
//!
//! Written values must be unique. The order of a key's versions is not given; what each guarantee says about it makes
//! arrows between versions, and the guarantees hold if these have no cycle. Lists count as well: their last element is
//! the version, and each read shows the order of the elements in it.

use std::collections::HashMap;

use quorate_api::history::{Check, Ending, Op};

use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};
use crate::{Entry, History, Report};

/// What makes one version not newer than another; a cycle is named after the first that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Guarantee {
    ReadYourWrites,
    MonotonicReads,
    MonotonicWrites,
    WritesFollowReads,
    /// Both stand in one list.
    ListOrder,
    /// Nothing is older than no value.
    Beginning,
}

impl Guarantee {
    fn name(self) -> &'static str {
        match self {
            Guarantee::ReadYourWrites => "read your writes",
            Guarantee::MonotonicReads => "monotonic reads",
            Guarantee::MonotonicWrites => "monotonic writes",
            Guarantee::WritesFollowReads => "writes follow reads",
            Guarantee::ListOrder => "order of a list",
            Guarantee::Beginning => "the beginning",
        }
    }
}

/// One arrow: the version of `from` is not newer than the version it points to, as the record at `entry` shows.
#[derive(Debug, Clone, Copy)]
struct Arrow {
    to: u32,
    entry: u32,
    guarantee: Guarantee,
}

/// What one client did to one key: place in its session, version, place in the history.
type Trace = Vec<(usize, usize, usize)>;

/// What one client did to one key.
struct KeyTrace {
    client: usize,
    reads: Trace,
    writes: Trace,
}

/// One read, in the order of the history.
struct Look {
    entry: usize,
    client: usize,
    key: usize,
    version: usize,
}

#[derive(Default)]
struct Judge<'h> {
    keys: HashMap<&'h str, usize>,
    clients: HashMap<u64, usize>,
    /// How many steps each client has taken.
    steps: Vec<usize>,
    versions: HashMap<(usize, Option<&'h str>), usize>,
    names: Vec<(&'h str, Option<&'h str>)>,
    arrows: Vec<Vec<Arrow>>,
    /// Who wrote a version: client, place in its session, place in the history.
    writers: HashMap<usize, (usize, usize, usize)>,
    /// For each key what each client did to it.
    traces: Vec<Vec<KeyTrace>>,
    trace_of: HashMap<(usize, usize), usize>,
    looks: Vec<Look>,
}

pub(crate) fn check(history: &History) -> Report {
    let mut judge = Judge::default();
    let looked_at = format!("{} records", history.entries().len());
    match judge.collect(history) {
        Err(hole) => Report::new(Check::Session, looked_at, Vec::new(), Some(hole)),
        Ok(()) => {
            judge.relate();
            let looked_at = format!("{looked_at} of {} clients", judge.clients.len());
            Report::new(Check::Session, looked_at, judge.cycles(history), None)
        }
    }
}

/// The version that `op` wrote.
fn written(op: &Op) -> Option<&str> {
    match op {
        Op::Write { value, .. } => value.as_deref(),
        Op::Cas { value, result, .. } if *result != Some(false) => Some(value),
        Op::Append { value, .. } => Some(value),
        _ => None,
    }
}

/// The version that `op` saw, `Some(None)` for the beginning.
fn seen(op: &Op) -> Option<Option<&str>> {
    match op {
        Op::Read { result: Some(value), .. } => Some(value.as_deref()),
        Op::Cas { expect, result: Some(true), .. } => Some(expect.as_deref()),
        Op::List { result: Some(values), .. } => Some(values.last().map(String::as_str)),
        _ => None,
    }
}

impl<'h> Judge<'h> {
    fn key(&mut self, key: &'h str) -> usize {
        *self.keys.entry(key).or_insert_with(|| {
            self.traces.push(Vec::new());
            self.traces.len() - 1
        })
    }

    fn client(&mut self, client: u64) -> usize {
        *self.clients.entry(client).or_insert_with(|| {
            self.steps.push(0);
            self.steps.len() - 1
        })
    }

    fn version(&mut self, key: usize, name: &'h str, value: Option<&'h str>) -> usize {
        *self.versions.entry((key, value)).or_insert_with(|| {
            self.names.push((name, value));
            self.arrows.push(Vec::new());
            self.names.len() - 1
        })
    }

    fn trace(&mut self, key: usize, client: usize) -> &mut KeyTrace {
        let traces = &mut self.traces[key];
        let place = *self.trace_of.entry((key, client)).or_insert_with(|| {
            traces.push(KeyTrace { client, reads: Vec::new(), writes: Vec::new() });
            traces.len() - 1
        });
        &mut traces[place]
    }

    /// `from` is not newer than `to`.
    fn arrow(&mut self, from: usize, to: usize, guarantee: Guarantee, entry: usize) {
        if from != to {
            let entry = u32::try_from(entry).unwrap_or(u32::MAX);
            self.arrows[from].push(Arrow { to: to as u32, entry, guarantee });
        }
    }

    /// Takes down who wrote what and what each client did, in order.
    fn collect(&mut self, history: &'h History) -> Result<(), String> {
        if u32::try_from(history.entries().len().saturating_mul(2)).is_err() {
            return Err("it has more records than can be numbered: judge parts of it".into());
        }
        for (place, entry) in history.entries().iter().enumerate() {
            if entry.outcome == Ending::Fail {
                continue;
            }
            for op in &entry.ops {
                if !matches!(
                    op,
                    Op::Read { .. } | Op::Write { .. } | Op::Cas { .. } | Op::Append { .. } | Op::List { .. }
                ) {
                    let what = "only registers and lists that grow have versions to compare";
                    return Err(format!("line {} has the operation {:?}: {what}", entry.line, op.name()));
                }
                if matches!(op, Op::Write { value: None, .. }) {
                    return Err(format!("line {} removes a key, so its versions are not unique", entry.line));
                }
                self.add(place, entry, op)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, place: usize, entry: &'h Entry, op: &'h Op) -> Result<(), String> {
        let name = op.key();
        let (key, client) = (self.key(name), self.client(entry.client));
        if let Op::List { result: Some(values), .. } = op
            && entry.is_ok()
        {
            self.add_order(place, key, name, values);
        }
        let read = seen(op).filter(|_| entry.is_ok()).map(|value| self.version(key, name, value));
        let write = written(op).map(|value| self.version(key, name, Some(value)));
        self.steps[client] += 2;
        let step = self.steps[client];
        if let Some(version) = read {
            self.trace(key, client).reads.push((step - 1, version, place));
            self.looks.push(Look { entry: place, client, key, version });
        }
        let Some(version) = write else { return Ok(()) };
        // A write of unknown outcome can be seen by others, but promises nothing.
        if entry.is_ok() {
            self.trace(key, client).writes.push((step, version, place));
        }
        match self.writers.insert(version, (client, step, place)) {
            None => Ok(()),
            Some(_) => Err(format!(
                "line {} writes a value to {name:?} for the second time: values must be unique",
                entry.line
            )),
        }
    }

    /// The order that a list shows, without what another list showed just before.
    fn add_order(&mut self, place: usize, key: usize, name: &'h str, values: &'h [String]) {
        let mut before = None;
        for value in values {
            let version = self.version(key, name, Some(value));
            if let Some(before) = before {
                let arrows: &Vec<Arrow> = &self.arrows[before];
                if arrows.last().is_none_or(|last| last.to as usize != version) {
                    self.arrow(before, version, Guarantee::ListOrder, place);
                }
            }
            before = Some(version);
        }
    }

    /// Makes the arrows that the four guarantees demand.
    fn relate(&mut self) {
        let traces = std::mem::take(&mut self.traces);
        for trace in traces.iter().flatten() {
            let KeyTrace { reads, writes, .. } = trace;
            self.pairs(writes, writes, Guarantee::MonotonicWrites);
            self.pairs(writes, reads, Guarantee::ReadYourWrites);
            self.pairs(reads, writes, Guarantee::WritesFollowReads);
            self.pairs(reads, reads, Guarantee::MonotonicReads);
        }
        self.relate_across_keys(&traces);
        for version in 0..self.names.len() {
            let (name, value) = self.names[version];
            let Some(beginning) = self.versions.get(&(self.keys[name], None)).copied() else { continue };
            if value.is_some() {
                let entry = self.writers.get(&version).map_or(usize::MAX, |(_, _, entry)| *entry);
                self.arrow(beginning, version, Guarantee::Beginning, entry);
            }
        }
    }

    /// An arrow from each of `older` to the first of `newer` that comes after it, which suffices: `newer` are related
    /// among themselves by the guarantee of their own kind.
    fn pairs(&mut self, older: &Trace, newer: &Trace, guarantee: Guarantee) {
        for (step, version, _) in older {
            let next = newer.partition_point(|(other, ..)| other <= step);
            if let Some((_, to, entry)) = newer.get(next).copied() {
                self.arrow(*version, to, guarantee, entry);
            }
        }
    }

    /// Who saw a write must afterwards see what its writer wrote or read before it, also of other keys.
    fn relate_across_keys(&mut self, traces: &[Vec<KeyTrace>]) {
        // For each client and each other one the last of its writes that was seen, as a place in its session.
        let mut known: Vec<HashMap<usize, usize>> = vec![HashMap::new(); self.steps.len()];
        let looks = std::mem::take(&mut self.looks);
        // What one record saw counts only for later ones.
        for looks in looks.chunk_by(|left, right| left.entry == right.entry) {
            for look in looks {
                let mut older: Vec<(usize, Guarantee)> = Vec::new();
                for trace in &traces[look.key] {
                    let Some(until) = known[look.client].get(&trace.client) else { continue };
                    for (trace, guarantee) in [
                        (&trace.writes, Guarantee::MonotonicWrites),
                        (&trace.reads, Guarantee::WritesFollowReads),
                    ] {
                        let before = trace.partition_point(|(step, ..)| step < until);
                        let last = before.checked_sub(1).map(|last| trace[last].1);
                        older.extend(last.map(|version| (version, guarantee)));
                    }
                }
                // The same version may be known in several ways; one arrow says it.
                older.sort_unstable();
                older.dedup_by_key(|(version, _)| *version);
                for (version, guarantee) in older {
                    self.arrow(version, look.version, guarantee, look.entry);
                }
            }
            for look in looks {
                let Some((writer, step, _)) = self.writers.get(&look.version).copied() else { continue };
                if writer != look.client {
                    let known = known[look.client].entry(writer).or_insert(0);
                    *known = step.max(*known);
                }
            }
        }
    }

    /// One violation for each shortest cycle that is met, walking from every version that has not been in one.
    fn cycles(&self, history: &History) -> Vec<Violation> {
        let mut violations = Vec::new();
        for component in components(&self.arrows) {
            if violations.len() == SHOWN_MAX {
                break;
            }
            let Some(cycle) = shortest_cycle(&self.arrows, &component) else { continue };
            violations.push(self.tell(history, &cycle));
        }
        violations
    }

    fn tell(&self, history: &History, cycle: &[(usize, Arrow)]) -> Violation {
        let (key, _) = self.names[cycle[0].0];
        let show =
            |version: usize| self.names[version].1.map_or("none".to_owned(), |value| format!("{value:?}"));
        let mut text = format!("key {key:?}: no order of its versions is in keeping with what clients saw\n");
        let mut lines = Vec::new();
        for (from, arrow) in cycle {
            text += &format!(
                "  {} is older than {} ({})",
                show(*from),
                show(arrow.to as usize),
                arrow.guarantee.name()
            );
            match history.entries().get(arrow.entry as usize) {
                Some(entry) => {
                    text += &format!(", as shows\n    {}\n", describe(entry));
                    lines.push(entry.line);
                }
                None => text.push('\n'),
            }
        }
        lines.sort_unstable();
        let name =
            cycle.iter().map(|(_, arrow)| arrow.guarantee).min().unwrap_or(Guarantee::Beginning).name();
        Violation { name, text, lines }
    }
}

/// The versions that lie on cycles, by cycle: what is left after taking away, again and again, all without an arrow
/// in or out, cut into parts that are connected.
fn components(arrows: &[Vec<Arrow>]) -> Vec<Vec<usize>> {
    let count = arrows.len();
    let mut alive = vec![true; count];
    let mut backward: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, list) in arrows.iter().enumerate() {
        list.iter().for_each(|arrow| backward[arrow.to as usize].push(from));
    }
    let forward = |node: usize| arrows[node].iter().map(|arrow| arrow.to as usize).collect::<Vec<usize>>();
    let mut ins: Vec<usize> = backward.iter().map(Vec::len).collect();
    let mut outs: Vec<usize> = arrows.iter().map(Vec::len).collect();
    let mut idle: Vec<usize> = (0..count).filter(|node| ins[*node] == 0 || outs[*node] == 0).collect();
    while let Some(node) = idle.pop() {
        if !std::mem::replace(&mut alive[node], false) {
            continue;
        }
        for next in forward(node).into_iter().filter(|next| alive[*next]) {
            ins[next] -= 1;
            if ins[next] == 0 {
                idle.push(next);
            }
        }
        for before in backward[node].iter().copied().filter(|before| alive[*before]) {
            outs[before] -= 1;
            if outs[before] == 0 {
                idle.push(before);
            }
        }
    }
    let (mut components, mut seen) = (Vec::new(), vec![false; count]);
    for root in (0..count).filter(|node| alive[*node]) {
        let (mut component, mut open) = (Vec::new(), vec![root]);
        while let Some(node) = open.pop() {
            if alive[node] && !std::mem::replace(&mut seen[node], true) {
                component.push(node);
                open.extend(forward(node));
                open.extend(&backward[node]);
            }
        }
        if !component.is_empty() {
            components.push(component);
        }
    }
    components
}

/// The shortest cycle through one of the first nodes of `component`.
fn shortest_cycle(arrows: &[Vec<Arrow>], component: &[usize]) -> Option<Vec<(usize, Arrow)>> {
    const STARTS_MAX: usize = 64;
    let around = |start: usize| {
        let mut came: HashMap<usize, (usize, Arrow)> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for arrow in &arrows[node] {
                let to = arrow.to as usize;
                if to == start {
                    let back =
                        std::iter::successors(Some((node, *arrow)), |(node, _)| came.get(node).copied());
                    let mut cycle: Vec<(usize, Arrow)> = back.collect();
                    cycle.reverse();
                    return Some(cycle);
                }
                if let std::collections::hash_map::Entry::Vacant(place) = came.entry(to) {
                    place.insert((node, *arrow));
                    queue.push_back(to);
                }
            }
        }
        None
    };
    let mut best: Option<Vec<(usize, Arrow)>> = None;
    for (tried, start) in component.iter().enumerate() {
        // A node of the component may lie between cycles only, so go on until one is found.
        if tried >= STARTS_MAX && best.is_some() {
            break;
        }
        if let Some(cycle) = around(*start)
            && best.as_ref().is_none_or(|best| cycle.len() < best.len())
        {
            best = Some(cycle);
        }
    }
    best
}
