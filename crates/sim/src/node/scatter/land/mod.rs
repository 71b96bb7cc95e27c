//! Rings of hundreds and thousands of nodes under little load, some of which die and are replaced all the time: whether they stay whole, and what a
//! node has to know, send and be connected to.
//!
//! | file | what |
//! |---|---|
//! | `setup.rs` | what a run is made of |
//! | `harness.rs` | nodes, connections, deaths and clients |
//! | `tally.rs` | what is counted, and what it comes to |

mod harness;
mod setup;
mod tally;

use std::time::Duration;

use crate::{Failure, Row};

pub use setup::{Lives, Setup};
pub use tally::measure;

/// 100 to 10,000 nodes.
pub(super) fn size(seed: u64, told: &mut dyn FnMut(Row)) -> Result<(), Failure> {
    for nodes in [100, 200, 500, 1_000, 2_000, 5_000, 10_000] {
        told(measure(&Setup::of(nodes, seed))?);
    }
    Ok(())
}

/// One point, by its name without the experiment's: how lifetimes are spread, and their mean in seconds.
pub(super) fn churn(point: &str, seed: u64, told: &mut dyn FnMut(Row)) -> Option<Result<(), Failure>> {
    let (lives, seconds) = point.split_once('-')?;
    let lives = [Lives::Exponential, Lives::Pareto].into_iter().find(|it| it.name() == lives)?;
    let lifetime = Duration::from_secs(seconds.parse().ok()?);
    Some(measure(&Setup::churn(840, lives, lifetime, seed)).map(told))
}

/// Figures 13 and 14: 840 nodes all over the world, lifetimes of 100 to 1,000 s.
pub(super) fn churns(seed: u64, told: &mut dyn FnMut(Row)) -> Result<(), Failure> {
    for lives in [Lives::Exponential, Lives::Pareto] {
        for seconds in [100, 180, 300, 500, 1_000] {
            let setup = Setup::churn(840, lives, Duration::from_secs(seconds), seed);
            told(measure(&setup)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Fact;

    fn number(row: &Row, name: &str) -> f64 {
        match row.facts.iter().find(|(known, _)| *known == name) {
            Some((_, Fact::Number(number))) => *number,
            Some((_, Fact::Count(count))) => *count as f64,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn a_hundred_nodes_form_a_ring_and_stay_whole() {
        let setup =
            Setup { span: Duration::from_secs(10), lifetime: Duration::from_secs(100), ..Setup::of(100, 1) };
        let row = measure(&setup).expect("it forms and stays whole");
        assert_eq!(measure(&setup).expect("again"), row, "the same seed gives the same row");
        assert!(number(&row, "deaths") > 3.0, "{row:?}");
        assert!(number(&row, "answered_percent") > 99.0, "{row:?}");
    }
}
