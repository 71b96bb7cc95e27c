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

use crate::{Failure, Row};

pub use setup::Setup;
pub use tally::measure;

/// 100 to 10,000 nodes.
pub(super) fn size(seed: u64, told: &mut dyn FnMut(Row)) -> Result<(), Failure> {
    for nodes in [100, 200, 500, 1_000, 2_000, 5_000, 10_000] {
        told(measure(&Setup::of(nodes, seed))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
