//! Decides registers whose values are each written once, without a search (Gibbons and Korach 1997).
//!
//! The calls on one value, its write and its reads, form a cluster, and in any order that explains all results clusters
//! stand one after the other. One cluster must come before another if some call of it ended before some call of the other
//! started: if its first end is before the other's last start. An order exists exactly if no two clusters must each
//! come before the other, for in every longer circle there are two such. Swaps chain clusters together, and a chain
//! counts as one cluster of which the order inside is given.

use std::collections::HashMap;

use super::model::{Action, NONE, Value};
use super::problem::Problem;

/// The first end and the last start of some calls.
#[derive(Debug, Clone, Copy)]
struct Zone {
    /// `None` before the beginning of time: the register's first state.
    first_end: Option<u64>,
    last_start: u64,
}

impl Zone {
    const NOTHING: Zone = Zone { first_end: Some(u64::MAX), last_start: 0 };

    fn join(self, other: Zone) -> Zone {
        Zone {
            first_end: self.first_end.min(other.first_end),
            last_start: self.last_start.max(other.last_start),
        }
    }

    /// Whether some call of it ended before some call of `other` started.
    fn must_precede(&self, other: &Zone) -> bool {
        self.first_end.is_none_or(|end| end < other.last_start)
    }

    /// Whether its own calls do not all overlap at one instant.
    fn is_forward(&self) -> bool {
        self.must_precede(self)
    }
}

#[derive(Debug, Default)]
struct Clusters {
    zones: HashMap<Value, Zone>,
    /// When the one write of a value started.
    written: HashMap<Value, u64>,
    /// By which value a swap followed a value.
    next: HashMap<Value, Value>,
}

/// Whether some order explains all results of a problem whose guide is a register's.
pub(super) fn has_order(problem: &Problem<'_>) -> bool {
    let Some(clusters) = Clusters::of(problem) else { return false };
    let Some(chains) = clusters.chains() else { return false };
    are_orderable(chains)
}

impl Clusters {
    /// `None` if two swaps leave the same value, or something is seen before or without its write.
    fn of(problem: &Problem<'_>) -> Option<Clusters> {
        let mut clusters = Clusters::default();
        clusters.zones.insert(NONE, Zone { first_end: None, last_start: 0 });
        for call in &problem.calls {
            let value = match call.actions[0] {
                Action::Read { result: Some(value), .. } => value,
                Action::Write { value, .. } => value,
                Action::Cas { expect, value, .. } => {
                    if clusters.next.insert(expect, value).is_some() {
                        return None;
                    }
                    value
                }
                _ => panic!("a register's guide is made of reads, writes and swaps with results"),
            };
            if call.actions[0].produces().is_some() {
                clusters.written.insert(value, call.start);
            }
            let zone = clusters.zones.entry(value).or_insert(Zone::NOTHING);
            *zone = zone.join(Zone { first_end: Some(call.end), last_start: call.start });
        }
        let is_explained = |value: &Value, zone: &Zone| {
            *value == NONE
                || clusters
                    .written
                    .get(value)
                    .is_some_and(|start| zone.first_end.is_some_and(|end| *start <= end))
        };
        let all_explained = clusters.zones.iter().all(|(value, zone)| is_explained(value, zone));
        let all_there = clusters.next.keys().all(|expect| clusters.zones.contains_key(expect));
        (all_explained && all_there).then_some(clusters)
    }

    /// The zones of all chains; `None` if one contradicts itself.
    fn chains(&self) -> Option<Vec<Zone>> {
        let followers: std::collections::HashSet<Value> = self.next.values().copied().collect();
        let mut chains = Vec::new();
        let mut seen = 0;
        for first in self.zones.keys().filter(|value| !followers.contains(value)) {
            let (mut whole, mut last_start) = (self.zones[first], self.zones[first].last_start);
            let mut at = *first;
            seen += 1;
            while let Some(next) = self.next.get(&at) {
                let zone = self.zones[next];
                // Nothing of a later cluster may end before something of an earlier one starts.
                if zone.first_end.is_none_or(|end| end < last_start) {
                    return None;
                }
                last_start = last_start.max(zone.last_start);
                whole = whole.join(zone);
                at = *next;
                seen += 1;
            }
            chains.push(whole);
        }
        // What was not met lies on a circle of swaps.
        (seen == self.zones.len()).then_some(chains)
    }
}

/// Whether no two zones must each precede the other.
fn are_orderable(chains: Vec<Zone>) -> bool {
    let (mut forward, backward): (Vec<Zone>, Vec<Zone>) = chains.into_iter().partition(Zone::is_forward);
    forward.sort_unstable_by_key(|zone| zone.first_end);
    if forward.windows(2).any(|pair| pair[1].must_precede(&pair[0])) {
        return false;
    }
    // Forward zones follow each other now, so of those that must precede a backward one only the last can also have
    // to follow it.
    backward.iter().all(|zone| {
        let before = forward.partition_point(|other| other.must_precede(zone));
        before == 0 || !zone.must_precede(&forward[before - 1])
    })
}
