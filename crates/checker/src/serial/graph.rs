//! Who must come before whom.

use std::collections::{HashMap, HashSet};

use super::orders::{KeyOrder, Orders};
use crate::History;

/// Why one node comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// Its element stands before the other's.
    WriteWrite,
    /// The other saw its element.
    WriteRead,
    /// It did not see the other's element.
    ReadWrite,
    /// An element that no read shows comes after all that were seen.
    Unseen,
    /// It ended before the other started.
    Time,
}

/// An arrow of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) to: usize,
    pub(super) cause: Cause,
    /// The list, for other causes than time.
    pub(super) key: usize,
}

/// Nodes are first the committed transactions, then helpers for elements that no read shows, then moments of time.
#[derive(Debug)]
pub(super) struct Graph {
    transactions: Vec<usize>,
    edges: Vec<Vec<Edge>>,
}

/// The transactions with elements of one list that no read shows.
struct Unseen {
    /// The first helper; there are two for each transaction.
    first: usize,
    count: usize,
    /// The place of each transaction among them.
    places: HashMap<usize, usize>,
}

impl Graph {
    pub(super) fn new(history: &History, orders: &Orders<'_>) -> Graph {
        let transactions: Vec<usize> = (0..orders.committed.len()).filter(|p| orders.committed[*p]).collect();
        let mut node_of = vec![usize::MAX; orders.committed.len()];
        for (node, place) in transactions.iter().enumerate() {
            node_of[*place] = node;
        }
        let mut graph = Graph { edges: vec![Vec::new(); transactions.len()], transactions };
        let writer = |list: &KeyOrder<'_>, version: usize| {
            let writer = list.writers.get(list.order.get(version)?)?;
            Some(node_of[writer.entry]).filter(|node| *node != usize::MAX)
        };
        let mut ends = Vec::with_capacity(orders.lists.len());
        for (key, list) in orders.lists.iter().enumerate() {
            for version in 1..list.order.len() {
                graph.arrow(writer(list, version - 1), writer(list, version), Cause::WriteWrite, key);
            }
            ends.push(graph.add_unseen(list, key, &node_of));
            let last = list.order.len().checked_sub(1).and_then(|last| writer(list, last));
            graph.arrow_to_unseen(last, &ends[key], Cause::WriteWrite, key);
        }
        for look in &orders.looks {
            let (list, reader) = (&orders.lists[look.key], Some(node_of[look.entry]));
            let last = look.version.checked_sub(1).and_then(|last| writer(list, last));
            graph.arrow(last, reader, Cause::WriteRead, look.key);
            if look.version < list.order.len() {
                graph.arrow(reader, writer(list, look.version), Cause::ReadWrite, look.key);
            } else {
                graph.arrow_to_unseen(reader, &ends[look.key], Cause::ReadWrite, look.key);
            }
        }
        graph.add_time(history);
        graph
    }

    /// Helpers by which one arrow leads to all transactions that added elements which no read shows.
    ///
    /// Such a transaction may itself be the one from which the arrow starts, and must not lead to itself then. So there
    /// is a helper that leads to it and all later ones, and one that leads to it and all earlier ones.
    fn add_unseen(&mut self, list: &KeyOrder<'_>, key: usize, node_of: &[usize]) -> Unseen {
        let seen: HashSet<&str> = list.order.iter().copied().collect();
        let unseen = list.writers.iter().filter(|(value, _)| !seen.contains(*value));
        let unseen = unseen.map(|(_, writer)| node_of[writer.entry]).filter(|node| *node != usize::MAX);
        // In the order of the history, so that the same history gives the same report.
        let mut nodes: Vec<usize> = unseen.collect();
        nodes.sort_unstable();
        nodes.dedup();
        let (first, count) = (self.edges.len(), nodes.len());
        self.edges.resize(first + 2 * count, Vec::new());
        for (place, node) in nodes.iter().enumerate() {
            let (later, earlier) = (first + place, first + count + place);
            self.arrow(Some(later), Some(*node), Cause::Unseen, key);
            self.arrow(Some(earlier), Some(*node), Cause::Unseen, key);
            if place > 0 {
                self.arrow(Some(later - 1), Some(later), Cause::Unseen, key);
                self.arrow(Some(earlier), Some(earlier - 1), Cause::Unseen, key);
            }
        }
        Unseen { first, count, places: nodes.into_iter().zip(0..).collect() }
    }

    /// Arrows from `from` to all transactions of `unseen` but itself.
    fn arrow_to_unseen(&mut self, from: Option<usize>, unseen: &Unseen, cause: Cause, key: usize) {
        let Some(from) = from.filter(|_| unseen.count > 0) else { return };
        let Some(own) = unseen.places.get(&from).copied() else {
            return self.arrow(Some(from), Some(unseen.first), cause, key);
        };
        if own + 1 < unseen.count {
            self.arrow(Some(from), Some(unseen.first + own + 1), cause, key);
        }
        if own > 0 {
            self.arrow(Some(from), Some(unseen.first + unseen.count + own - 1), cause, key);
        }
    }

    /// The place of each transaction in the history.
    pub(super) fn transactions(&self) -> &[usize] {
        &self.transactions
    }

    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    pub(super) fn edges(&self, node: usize) -> &[Edge] {
        &self.edges[node]
    }

    /// The place in the history of a node that is a transaction.
    pub(super) fn place(&self, node: usize) -> Option<usize> {
        self.transactions.get(node).copied()
    }

    fn arrow(&mut self, from: Option<usize>, to: Option<usize>, cause: Cause, key: usize) {
        let (Some(from), Some(to)) = (from, to) else { return };
        if from != to {
            self.edges[from].push(Edge { to, cause, key });
        }
    }

    /// One node for each end, chained: a transaction points to its end, the last end before a start to the starter.
    fn add_time(&mut self, history: &History) {
        let entries = history.entries();
        let acknowledged =
            (0..self.transactions.len()).filter(|node| entries[self.transactions[*node]].is_ok());
        let mut ends: Vec<(u64, usize)> =
            acknowledged.map(|node| (entries[self.transactions[node]].deadline(), node)).collect();
        ends.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + ends.len(), Vec::new());
        for (number, (_, node)) in ends.iter().enumerate() {
            self.arrow(Some(*node), Some(first + number), Cause::Time, 0);
            if number > 0 {
                self.arrow(Some(first + number - 1), Some(first + number), Cause::Time, 0);
            }
        }
        for node in 0..self.transactions.len() {
            let start = entries[self.transactions[node]].start;
            let before = ends.partition_point(|(end, _)| *end < start);
            let last = before.checked_sub(1).map(|last| first + last);
            self.arrow(last, Some(node), Cause::Time, 0);
        }
    }
}
