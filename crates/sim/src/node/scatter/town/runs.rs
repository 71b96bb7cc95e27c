//! The experiments.

use std::time::Duration;

use super::setup::{Heat, Setup, System};
use super::tally::measure;
use crate::{Audience, Failure};

/// Figure 16: as many operations as can be, on 20 to 160 nodes with clients and trending authors in proportion.
pub(in crate::node::scatter) fn scale(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for system in [System::Groups, System::Partitions, System::Spread] {
        for nodes in [20, 40, 80, 160] {
            measure("scale", &Setup::chirp(nodes, system, seed), told)?;
        }
    }
    Ok(())
}

/// One point of it, by its name without the experiment's: `groups-160`.
pub(in crate::node::scatter) fn of_scale(
    point: &str,
    seed: u64,
    told: &mut dyn Audience,
) -> Option<Result<(), Failure>> {
    let (name, nodes) = point.rsplit_once('-')?;
    let systems = [System::Groups, System::Partitions, System::Spread];
    let system = systems.into_iter().find(|system| system.name() == name)?;
    let setup = Setup::chirp(nodes.parse().ok()?, system, seed);
    Some(measure("scale", &setup, told))
}

/// Figure 15: 10,000 fetches a second of all followers of users, on 40 nodes.
pub(in crate::node::scatter) fn load(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for system in [System::Groups, System::Partitions, System::Spread, System::Hashes] {
        measure("load", &fetches(system, seed), told)?;
    }
    Ok(())
}

fn fetches(system: System, seed: u64) -> Setup {
    Setup {
        eagerness: 1.0,
        reads_per_post: None,
        heat: Heat::Even,
        throttle: Some(10_000),
        ..Setup::chirp(40, system, seed)
    }
}

const HEATS: [(&str, Heat); 2] =
    [("authors", Heat::Authors { percent: 20 }), ("region", Heat::Region { percent: 20, width: 8 })];

/// What is hot becomes something else every minute.
pub(in crate::node::scatter) fn hot_spots(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for (_, heat) in HEATS {
        for system in [System::Groups, System::Spread] {
            measure("hot-spots", &moving(40, heat, system, seed), told)?;
        }
    }
    Ok(())
}

/// One of them, by its name without the experiment's: `groups-region`.
pub(in crate::node::scatter) fn of_hot_spots(
    point: &str,
    seed: u64,
    told: &mut dyn Audience,
) -> Option<Result<(), Failure>> {
    let (system, heat) = point.rsplit_once('-')?;
    let system = [System::Groups, System::Spread].into_iter().find(|it| it.name() == system)?;
    let (_, heat) = HEATS.into_iter().find(|(name, _)| *name == heat)?;
    Some(measure("hot-spots", &moving(40, heat, system, seed), told))
}

fn moving(nodes: usize, heat: Heat, system: System, seed: u64) -> Setup {
    let minute = Duration::from_secs(60);
    Setup { heat, moves_every: Some(minute), span: 3 * minute, ..Setup::chirp(nodes, system, seed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::row::Fact;

    fn small(system: System) -> Row {
        let setup = Setup {
            users: 5_000,
            clients_per_node: 8,
            // Leaders go where they are named at once: while they were looked at every two seconds it was 1.4 to 1.7 times the mean then.
            warm: Duration::from_secs(4),
            span: Duration::from_secs(1),
            ..Setup::chirp(10, system, 3)
        };
        let mut rows = Vec::new();
        let ended = measure("scale", &setup, &mut |row| rows.push(row));
        ended.expect("it forms, and answers make sense");
        rows.remove(0)
    }

    fn number(row: &Row, name: &str) -> f64 {
        match row.facts.iter().find(|(known, _)| *known == name) {
            Some((_, Fact::Number(number))) => *number,
            Some((_, Fact::Count(count))) => *count as f64,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Without members that go where a group splits soon, some are larger than is wanted for good.
    #[test]
    fn no_group_stays_larger_than_is_wanted() {
        let second = Duration::from_secs(1);
        let small = Setup {
            users: 500,
            clients_per_node: 1,
            warm: second,
            span: second,
            ..Setup::chirp(25, System::Groups, 1)
        };
        for seed in 1..=3 {
            let mut rows = Vec::new();
            let ended = measure("scale", &Setup { seed, ..small.clone() }, &mut |row| rows.push(row));
            ended.expect("it forms, and answers make sense");
            // A group of eight may have split in two of four while it formed.
            assert!([5.0, 6.0].contains(&number(&rows[0], "groups")), "{rows:?}");
            assert_eq!(number(&rows[0], "members_most"), 5.0, "{rows:?}");
        }
    }

    #[test]
    fn groups_use_all_of_their_nodes_and_partitions_one_of_five() {
        let (groups, partitions) = (small(System::Groups), small(System::Partitions));
        assert_eq!(small(System::Partitions), partitions, "the same seed gives the same row");
        let rates = [&groups, &partitions].map(|row| number(row, "operations_s"));
        assert!(rates[0] > 1.3 * rates[1], "{groups:?} {partitions:?}");
        assert!(number(&groups, "most_over_mean") < 1.3, "{groups:?}");
        assert!(number(&partitions, "most_over_mean") > 4.0, "one of five does all: {partitions:?}");
    }
    /// Places that are hashes are uneven, and so is what users do.
    #[test]
    fn a_hash_table_is_loaded_as_its_hashes_fall() {
        let row = small(System::Hashes);
        assert_eq!(small(System::Hashes), row, "the same seed gives the same row");
        assert_eq!(number(&row, "failed"), 0.0, "{row:?}");
        assert!(number(&row, "most_over_mean") > 1.5, "{row:?}");
    }
}
