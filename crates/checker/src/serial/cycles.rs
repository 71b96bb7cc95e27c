//! Finds short cycles and names them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use super::graph::{Cause, Graph};
use super::orders::Orders;
use crate::History;
use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};

/// So many nodes of a component are tried as beginnings of a short cycle, fewer if it is large.
const STARTS_MAX: usize = 64;
/// So many anti-dependencies of a component are tried for a cycle with no other, fewer if it is large.
const ANTI_MAX: usize = 2_000;
/// About so many nodes are visited for one component.
const VISITS_MAX: usize = 4_000_000;

/// What arrows a kind of cycle consists of, from the worst to the mildest.
struct Kind {
    name: &'static str,
    causes: &'static [Cause],
    /// Exactly one of its arrows is an anti-dependency.
    is_single: bool,
}

const KINDS: [Kind; 8] = {
    use Cause::{ReadWrite, Time, Unseen, WriteRead, WriteWrite};
    const fn kind(name: &'static str, causes: &'static [Cause], is_single: bool) -> Kind {
        Kind { name, causes, is_single }
    }
    [
        kind("write cycle (G0)", &[WriteWrite, Unseen], false),
        kind("circular information flow (G1c)", &[WriteWrite, Unseen, WriteRead], false),
        kind("read skew (G-single)", &[WriteWrite, Unseen, WriteRead, ReadWrite], true),
        kind("anti-dependency cycle (G2)", &[WriteWrite, Unseen, WriteRead, ReadWrite], false),
        kind("write cycle with real time (G0-realtime)", &[WriteWrite, Unseen, Time], false),
        kind("stale information flow (G1c-realtime)", &[WriteWrite, Unseen, WriteRead, Time], false),
        kind("stale read (G-single-realtime)", &[WriteWrite, Unseen, WriteRead, ReadWrite, Time], true),
        kind(
            "anti-dependency cycle with real time (G2-realtime)",
            &[WriteWrite, Unseen, WriteRead, ReadWrite, Time],
            false,
        ),
    ]
};

/// A step of a cycle: a node and why the next one comes after it.
type Step = (usize, Cause, usize);

pub(super) fn find(history: &History, orders: &Orders<'_>, graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    // Most histories are fine, and then one look suffices; otherwise kinds are sought among what lies on cycles.
    let all = KINDS[KINDS.len() - 1].causes;
    let mut on_cycle = vec![false; graph.len()];
    let cyclic = components(graph, all, &vec![true; graph.len()]);
    cyclic.iter().flatten().for_each(|node| on_cycle[*node] = true);
    if cyclic.is_empty() {
        return violations;
    }
    let mut reported: HashSet<usize> = HashSet::new();
    for kind in &KINDS {
        let mut shown = 0;
        for component in components(graph, kind.causes, &on_cycle) {
            if shown == SHOWN_MAX || component.iter().any(|node| reported.contains(node)) {
                continue;
            }
            let inside: HashSet<usize> = component.iter().copied().collect();
            let found = if kind.is_single {
                single(graph, &component, &inside, kind.causes)
            } else {
                shortest(graph, &component, &inside, kind.causes)
            };
            if let Some(steps) = found {
                reported.extend(component);
                violations.push(tell(history, orders, graph, kind.name, &steps));
                shown += 1;
            }
        }
    }
    violations
}

/// A short cycle through one of the first transactions of a component.
fn shortest(
    graph: &Graph,
    component: &[usize],
    inside: &HashSet<usize>,
    causes: &[Cause],
) -> Option<Vec<Step>> {
    let tries = (VISITS_MAX / component.len()).clamp(1, STARTS_MAX);
    let starts = component.iter().filter(|node| graph.place(**node).is_some()).take(tries);
    starts.filter_map(|start| way(graph, *start, *start, inside, causes)).min_by_key(Vec::len)
}

/// A short cycle with one anti-dependency.
fn single(
    graph: &Graph,
    component: &[usize],
    inside: &HashSet<usize>,
    causes: &[Cause],
) -> Option<Vec<Step>> {
    let tries = (VISITS_MAX / component.len()).clamp(1, ANTI_MAX);
    let rest: Vec<Cause> = causes.iter().copied().filter(|cause| *cause != Cause::ReadWrite).collect();
    let anti = component.iter().flat_map(|from| graph.edges(*from).iter().map(move |edge| (*from, edge)));
    let anti = anti.filter(|(_, edge)| edge.cause == Cause::ReadWrite && inside.contains(&edge.to));
    let cycles = anti.take(tries).filter_map(|(from, edge)| {
        let mut steps = vec![(from, edge.cause, edge.key)];
        steps.extend(way(graph, edge.to, from, inside, &rest)?);
        Some(steps)
    });
    cycles.min_by_key(Vec::len)
}

/// A shortest way from `from` to `to` (around, if they are the same), as steps that do not include the arrival.
fn way(
    graph: &Graph,
    from: usize,
    to: usize,
    inside: &HashSet<usize>,
    causes: &[Cause],
) -> Option<Vec<Step>> {
    let mut came: HashMap<usize, Step> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for edge in graph.edges(node) {
            if !causes.contains(&edge.cause) || !inside.contains(&edge.to) {
                continue;
            }
            let step = (node, edge.cause, edge.key);
            if edge.to == to {
                let back = std::iter::successors(Some(step), |(node, ..)| came.get(node).copied());
                let mut steps: Vec<Step> = back.collect();
                steps.reverse();
                return Some(steps);
            }
            if edge.to != from && !came.contains_key(&edge.to) {
                came.insert(edge.to, step);
                queue.push_back(edge.to);
            }
        }
    }
    None
}

/// The strongly connected components of more than one node among `within` (Tarjan 1972, with a stack of its own).
fn components(graph: &Graph, causes: &[Cause], within: &[bool]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let count = graph.len();
    let (mut index, mut low, mut on_stack) = (vec![UNSEEN; count], vec![0; count], vec![false; count]);
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..count {
        if index[root] != UNSEEN || !within[root] {
            continue;
        }
        let mut visits: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some((node, edge)) = visits.pop() {
            if edge == 0 {
                (index[node], low[node], on_stack[node]) = (next, next, true);
                next += 1;
                stack.push(node);
            }
            let edges = graph.edges(node);
            if let Some(way) = edges.get(edge) {
                visits.push((node, edge + 1));
                if !causes.contains(&way.cause) || !within[way.to] {
                    continue;
                }
                if index[way.to] == UNSEEN {
                    visits.push((way.to, 0));
                } else if on_stack[way.to] {
                    low[node] = low[node].min(index[way.to]);
                }
                continue;
            }
            if low[node] == index[node] {
                let start =
                    stack.iter().rposition(|n| *n == node).expect("a node stays until its component ends");
                let component = stack.split_off(start);
                component.iter().for_each(|member| on_stack[*member] = false);
                if component.len() > 1 {
                    found.push(component);
                }
            }
            if let Some((parent, _)) = visits.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
        }
    }
    found
}

fn tell(
    history: &History,
    orders: &Orders<'_>,
    graph: &Graph,
    name: &'static str,
    steps: &[Step],
) -> Violation {
    let turn = steps.iter().position(|(node, ..)| graph.place(*node).is_some()).unwrap_or(0);
    let mut steps = steps.to_vec();
    steps.rotate_left(turn);
    let (mut text, mut lines) = (
        String::from("each of these must come before the next, and the last before the first:\n"),
        Vec::new(),
    );
    for (place, (node, cause, key)) in steps.iter().enumerate() {
        let Some(entry) = graph.place(*node) else { continue };
        let entry = &history.entries()[entry];
        lines.push(entry.line);
        // Arrows through helper nodes: what counts is how the way left the transaction, unless time carried it on.
        let through = steps[place + 1..].iter().take_while(|(node, ..)| graph.place(*node).is_none());
        let by_time = *cause == Cause::Time || through.clone().any(|(_, cause, _)| *cause == Cause::Time);
        let key = orders.keys().get(*key).copied().unwrap_or_default();
        let why = match cause {
            _ if by_time => "it ended before the next started".to_owned(),
            Cause::WriteWrite | Cause::Unseen => {
                format!("in {key:?} its element stands before that of the next")
            }
            Cause::WriteRead => format!("the next saw its element in {key:?}"),
            Cause::ReadWrite => format!("it did not see what the next appended to {key:?}"),
            Cause::Time => "it ended before the next started".to_owned(),
        };
        _ = writeln!(text, "  {}\n    -> {why}", describe(entry));
    }
    lines.sort_unstable();
    Violation { name, text, lines }
}
