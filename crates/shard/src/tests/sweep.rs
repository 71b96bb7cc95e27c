//! What nobody can see any more is removed bit by bit; what has expired is gone, removed or not.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quorate_api::{Reply, Request};
use quorate_kernel::Rng;

use super::metamorphic::draw;
use super::{Bench, START_MS, command};
use crate::sessions::Limits;
use crate::sweep::Fronts;

/// Applies entries without requests until nothing more happens to the store.
fn settle(bench: &mut Bench) -> usize {
    let mut entries = 0;
    loop {
        let before = bench.row_count();
        bench.apply(&[]);
        entries += 1;
        if bench.row_count() == before && bench.state.keyspace_oldest == bench.state.keyspace {
            return entries;
        }
        assert!(entries < 10_000, "no end of sweeping");
    }
}

#[test]
fn elements_of_a_removed_list_are_swept() {
    let mut bench = Bench::new();
    for number in 0..300 {
        bench.run(&["RPUSH", "list", &number.to_string()]);
    }
    assert!(bench.row_count() > 300);
    bench.run(&["DEL", "list"]);
    assert_eq!(bench.run(&["LLEN", "list"]), Reply::Int(0));
    bench.run(&["RPUSH", "list", "new"]);
    let entries = settle(&mut bench);
    assert!(entries >= 8, "at most a bounded part goes with each entry: {entries}");
    assert_eq!(bench.row_count(), 2, "the header and the element of the new list");
    assert_eq!(bench.state.dead_collections, 0);
    assert_eq!(bench.run(&["LRANGE", "list", "0", "-1"]), Reply::Array([Reply::bulk("new")].into()));
}

#[test]
fn everything_before_a_flush_is_swept() {
    let mut bench = Bench::new();
    for number in 0..100 {
        bench.run(&["SET", &number.to_string(), "x", "PX", "1000000"]);
        bench.run(&["RPUSH", "list", "x"]);
    }
    bench.run(&["FLUSHALL"]);
    bench.run(&["FLUSHALL"]);
    assert_eq!(bench.run(&["DBSIZE"]), Reply::Int(0));
    assert_eq!(bench.run(&["KEYS", "*"]), Reply::Array([].into()));
    bench.run(&["SET", "a", "new"]);
    settle(&mut bench);
    assert_eq!(bench.row_count(), 1);
    assert_eq!((bench.state.keys, bench.state.expiring, bench.state.next_expiry_ms), (1, 0, None));
    assert_eq!(bench.run(&["GET", "a"]), Reply::bulk("new"));
}

#[test]
fn more_keys_than_one_entry_removes_expire_at_once() {
    let mut bench = Bench::new();
    for number in 0..200 {
        bench.run(&["SET", &number.to_string(), "x", "PX", "50"]);
    }
    bench.run(&["SET", "stays", "x", "PX", "5000"]);
    bench.now_ms += 50;
    let (reply, pending) = bench.read_at(bench.now_ms, &["GET", "7"]);
    assert_eq!((reply, pending), (Reply::Nil, Some(START_MS + 50)), "the log has not said so yet");
    assert_eq!(bench.run(&["MGET", "0", "99", "199"]), Reply::Array([const { Reply::Nil }; 3].into()));
    assert!(bench.state.keys > 1, "not all are removed yet");
    assert_eq!(bench.read_at(bench.now_ms, &["GET", "7"]), (Reply::Nil, None));
    settle(&mut bench);
    assert_eq!((bench.state.keys, bench.state.expiring), (1, 1));
    assert_eq!(bench.state.next_expiry_ms, Some(START_MS + 5_000));
    assert_eq!(bench.row_count(), 2, "one header and one expiry");
}

#[test]
fn a_new_key_does_not_inherit_the_expiry_of_an_older_one() {
    let mut bench = Bench::new();
    bench.run(&["SET", "a", "1", "PX", "10"]);
    bench.run(&["DEL", "a"]);
    bench.run(&["SET", "a", "2"]);
    bench.run(&["SET", "b", "1", "PX", "10"]);
    bench.run(&["SET", "b", "2"]);
    bench.now_ms += 20;
    assert_eq!(bench.run(&["GET", "a"]), Reply::bulk("2"));
    assert_eq!(bench.run(&["PTTL", "b"]), Reply::Int(-1));
    assert_eq!((bench.state.expiring, bench.state.next_expiry_ms), (0, None));
}

#[test]
fn time_does_not_run_backwards() {
    let mut bench = Bench::new();
    bench.run(&["SET", "a", "1", "PX", "10"]);
    bench.now_ms += 10;
    assert_eq!(bench.run(&["GET", "a"]), Reply::Nil);
    bench.now_ms -= 1_000;
    assert_eq!(bench.run(&["GET", "a"]), Reply::Nil, "another primary's clock is slow");
    assert_eq!(bench.read_at(0, &["GET", "a"]), (Reply::Nil, None));
}

#[test]
fn a_list_that_dies_after_younger_ones_is_swept() {
    let mut bench = Bench::new();
    for list in ["old", "young"] {
        for number in 0..100 {
            bench.run(&["RPUSH", list, &number.to_string()]);
        }
    }
    bench.run(&["DEL", "young"]);
    bench.apply(&[]);
    bench.run(&["DEL", "old"]);
    settle(&mut bench);
    assert_eq!((bench.row_count(), bench.state.dead_collections), (0, 0));
}

/// Runs the same entries at two replicas, one of which begins anew now and then; the step at which their rows differ.
fn differ(seed: u64, steps: usize, limits: &Limits) -> Option<usize> {
    let mut rng = Rng::new(seed);
    let mut benches = [Bench::new(), Bench::new()];
    benches.iter_mut().for_each(|bench| bench.limits = limits.clone());
    for step in 0..steps {
        let later_ms = rng.below(60);
        let words: Vec<Vec<String>> = (0..rng.between(1, 6)).map(|_| draw(&mut rng)).collect();
        let request = |words: &Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Request::One(command(&words))
        };
        let requests: Vec<Request> = words.iter().map(request).collect();
        for bench in &mut benches {
            bench.now_ms += later_ms;
            bench.apply(&requests);
        }
        if rng.chance(1, 4) {
            benches[1].fronts = Fronts::default();
        }
        let [first, second] = &benches;
        if first.rows() != second.rows() || first.state != second.state {
            return Some(step);
        }
    }
    None
}

#[test]
fn where_a_replica_goes_on_sweeping_changes_nothing() {
    let limits = Limits::production();
    for seed in 0..40 {
        assert_eq!(differ(seed, 300, &limits), None, "seed {seed}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rows_that_are_passed_over_are_noticed() {
    let limits = Limits { mutant: Some(crate::Mutant::FrontsStay), ..Limits::production() };
    assert!((0..40).any(|seed| differ(seed, 300, &limits).is_some()));
}
