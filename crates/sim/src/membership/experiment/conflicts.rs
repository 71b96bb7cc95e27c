//! How often nodes that hear the same alerts in different orders propose different cuts.
//!
//! As in the paper: F of the members have crashed, every other node hears all alerts of those who are alive, each in a
//! random order of its own, and the first cut it comes to is its proposal. A run is in conflict at a node if its
//! proposal is not the whole set of the crashed.

use quorate_kernel::{NodeId, Rng};
use quorate_membership::{Config, RingSet, Rings, first_cut};

use super::Row;

const RECEIVERS: u64 = 100;
const REPETITIONS: u64 = 20;

/// The share of conflicts for each pair of watermarks and number of failures.
pub(super) fn table(nodes: usize, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for high in 6..=9 {
        for low in 1..=4 {
            for failures in [2, 4, 8, 16] {
                let share = conflicts(nodes, seed, high, low, failures);
                let row = Row::new("conflicts")
                    .count("nodes", nodes as u64)
                    .count("h", high as u64)
                    .count("l", low as u64)
                    .count("failures", failures as u64);
                rows.push(row.number("conflicts_percent", share * 100.0));
            }
        }
    }
    rows
}

fn conflicts(nodes: usize, seed: u64, high: usize, low: usize, failures: usize) -> f64 {
    let config = Config { high, low, ..Config::production() };
    let mut rng = Rng::new(seed);
    let ids: Vec<NodeId> = (1..=nodes as u64).map(NodeId).collect();
    let rings = Rings::new(ids.clone(), config.rings);
    let mut conflicts = 0_u64;
    for _ in 0..REPETITIONS {
        let mut dead = ids.clone();
        rng.shuffle(&mut dead);
        dead.truncate(failures);
        dead.sort();
        let mut alerts: Vec<(NodeId, RingSet)> = Vec::new();
        for subject in &dead {
            for ring in 0..config.rings {
                if rings.observer(ring, *subject).is_some_and(|observer| !dead.contains(&observer)) {
                    alerts.push((*subject, RingSet::default().with(ring)));
                }
            }
        }
        for _ in 0..RECEIVERS {
            rng.shuffle(&mut alerts);
            conflicts += u64::from(first_cut(&rings, &config, &alerts).as_ref() != Some(&dead));
        }
    }
    conflicts as f64 / (RECEIVERS * REPETITIONS) as f64
}
