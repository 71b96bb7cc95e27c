//! Linearizability: each component of keys behaves as one copy on which everything happens at one instant.
//!
//! By locality (Herlihy and Wing 1990, theorem 1) keys can be judged one by one; keys that one record touches together
//! are judged together.

mod component;
mod explain;
mod model;
mod problem;
mod search;
mod zones;

pub(crate) use explain::describe;

use quorate_api::history::Check;

use crate::report::SHOWN_MAX;
use crate::{History, Report};
use component::{Component, partition};
use problem::{Guide, Part, Problem};
use search::{Found, Search};

/// How hard to try. A search that reaches a limit gives up; it never says "ok" then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Steps on one component. More takes longer; too few make hard but fine histories end as "gave up".
    pub steps_max: u64,
    /// Configurations remembered for one component, about 32 bytes each.
    pub states_max: usize,
    /// Steps on all components together.
    pub steps_total_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps_max: 20_000_000, states_max: 4_000_000, steps_total_max: 200_000_000 }
    }
}

/// Whether `problem` has an order, and the steps that it took to tell.
fn decide(problem: &Problem<'_>, limits: &Limits) -> (Found, u64) {
    if matches!(problem.guide, Guide::Register(_)) {
        let found = if zones::has_order(problem) { Found::Order } else { Found::Nothing { deepest: 0 } };
        return (found, problem.calls.len() as u64);
    }
    let mut search = Search::new(problem);
    (search.run(limits), search.steps())
}

pub(crate) fn check(history: &History, limits: &Limits) -> Report {
    let components = partition(history);
    let (mut violations, mut too_hard, mut mixed, mut bad) = (Vec::new(), Vec::new(), None, 0_usize);
    let (mut keys, mut calls, mut left) = (0, 0, limits.steps_total_max);
    for places in &components {
        let component = match Component::new(history, places) {
            Ok(component) => component,
            Err(error) => {
                mixed.get_or_insert(error);
                continue;
            }
        };
        keys += component.keys.len();
        calls += component.calls.len();
        let within = Limits { steps_max: limits.steps_max.min(left), ..limits.clone() };
        let problem = Problem::new(&component, &Part::all(&component));
        let (found, steps) = decide(&problem, &within);
        left = left.saturating_sub(steps);
        match found {
            Found::Order | Found::Prefix(_) => {}
            Found::GaveUp => too_hard.push(component.keys[0].to_owned()),
            Found::Nothing { .. } => {
                bad += 1;
                if violations.len() < SHOWN_MAX {
                    violations.push(explain::explain(history, &component, limits));
                }
            }
        }
    }
    let more = if bad > violations.len() { format!(", {bad} keys are wrong") } else { String::new() };
    let looked_at = format!("{calls} operations on {keys} keys{more}");
    let hole = mixed.map(|mixed| {
        format!(
            "line {} uses key {:?} as a {}, but earlier it was a {}: give each kind its own keys",
            mixed.line,
            mixed.key,
            mixed.second.name(),
            mixed.first.name()
        )
    });
    let hole = hole.or_else(|| {
        let first = too_hard.first()?;
        let (count, steps) = (too_hard.len(), limits.steps_max);
        Some(format!(
            "too hard: {count} keys, {first:?} among them, need more than {steps} steps or {} remembered states; fewer \
             clients per key make it easier",
            limits.states_max
        ))
    });
    Report::new(Check::Linear, looked_at, violations, hole)
}
