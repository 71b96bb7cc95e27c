//! What the paper measured with a thousand nodes, with a hundred and twenty: the shape must be the same. The figures of
//! a thousand are in `docs/results/membership.jsonl`.

use quorate_sim::membership::experiment::{self, Fact, Row};

fn only(name: &str, nodes: usize) -> Row {
    let mut rows = experiment::run(name, nodes, 1).expect("an experiment");
    println!("{{{}}}", rows[0]);
    rows.remove(0)
}

fn count(row: &Row, name: &str) -> u64 {
    match row.facts.iter().find(|(known, _)| *known == name) {
        Some((_, Fact::Count(count))) => *count,
        other => panic!("{name} is {other:?}"),
    }
}

fn number(row: &Row, name: &str) -> f64 {
    match row.facts.iter().find(|(known, _)| *known == name) {
        Some((_, Fact::Number(number))) => *number,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn many_crash_and_one_cut_removes_them() {
    let row = only("crashes", 120);
    assert_eq!((count(&row, "crashed"), count(&row, "lagging"), count(&row, "wrongly_removed")), (10, 0, 0));
    assert!(count(&row, "views") <= 2, "{row}");
    assert!(number(&row, "all_agree_s") < 3.0, "{row}");
}

#[test]
fn who_hears_nobody_is_removed_and_nobody_else() {
    let row = only("deaf", 120);
    assert_eq!((count(&row, "victims_removed"), count(&row, "wrongly_removed")), (10, 0), "{row}");
}

#[test]
fn who_loses_most_messages_is_removed_and_nobody_else() {
    let row = only("lossy", 120);
    assert_eq!((count(&row, "victims_removed"), count(&row, "wrongly_removed")), (10, 0), "{row}");
}

#[test]
fn whom_too_few_observers_miss_stays_and_whom_enough_miss_is_removed() {
    let rows = experiment::run("links", 120, 1).expect("an experiment");
    let of =
        |row: &Row| ["victims_removed", "wrongly_removed", "lagging", "views"].map(|name| count(row, name));
    assert_eq!(of(&rows[0]), [0; 4], "below L: {}", rows[0]);
    assert_eq!(of(&rows[1])[..3], [10, 0, 0], "H: {}", rows[1]);
}

#[test]
fn many_join_in_a_few_views() {
    let row = only("bootstrap", 120);
    assert_eq!((count(&row, "together"), count(&row, "wrongly_removed")), (1, 0), "{row}");
    assert!(count(&row, "views") <= 20, "{row}");
}

#[test]
fn a_small_cluster_removes_one_that_crashed_within_a_second() {
    for row in experiment::run("small", 0, 1).expect("an experiment") {
        println!("{{{row}}}");
        assert!(number(&row, "all_agree_s_median") < 1.0, "{row}");
    }
}
