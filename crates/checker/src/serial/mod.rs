//! Strict serializability of transactions that append unique elements to lists and read whole lists.
//!
//! The order of a list's elements shows the order of its versions, so that dependencies between transactions follow
//! from results (Kingsbury and Alvaro 2020, "Elle"). The history is strictly serializable only if the graph of these
//! dependencies and of real time has no cycle; the anomalies are named as Adya (1999) names them. Reads of transactions
//! that failed are ignored: a store may show them what it likes.

mod cycles;
mod graph;
mod orders;

use quorate_api::history::{Check, Op};

use crate::{History, Report};
use graph::Graph;
use orders::Orders;

pub(crate) fn check(history: &History) -> Report {
    let foreign = history.entries().iter().find_map(|entry| {
        let op = entry.ops.iter().find(|op| !matches!(op, Op::Append { .. } | Op::List { .. }))?;
        Some((entry.line, op.name()))
    });
    if let Some((line, name)) = foreign {
        let hole =
            format!("line {line} has the operation {name:?}, but only \"append\" and \"list\" can be judged");
        return Report::new(Check::Serial, "nothing".into(), Vec::new(), Some(hole));
    }
    let orders = match Orders::of(history) {
        Ok(orders) => orders,
        Err(hole) => return Report::new(Check::Serial, "nothing".into(), Vec::new(), Some(hole)),
    };
    let mut violations = orders.anomalies(history);
    let graph = Graph::new(history, &orders);
    violations.extend(cycles::find(history, &orders, &graph));
    let looked_at = format!("{} transactions on {} keys", graph.transactions().len(), orders.keys().len());
    Report::new(Check::Serial, looked_at, violations, None)
}
