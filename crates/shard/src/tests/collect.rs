//! Whether anything has changed since it was read last.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reply, Request, Version};
use quorate_kernel::wire;

use super::{Bench, command};
use crate::collect::{Collected, decode_collected};
use crate::part::Part;

fn collect(bench: &mut Bench, part: &Part, known: &[u64]) -> Collected {
    let request =
        Request::Collect { part: Bytes::from(wire::encode(part)), known: known.to_vec(), hold: None };
    decode_collected(bench.apply(&[request]).remove(0)).expect("an answer")
}

fn stamps(bench: &mut Bench, part: &Part) -> Vec<u64> {
    match collect(bench, part, &[]) {
        Collected::New { stamps, .. } => stamps,
        other => panic!("{other:?}"),
    }
}

fn part_of(words: &[&str]) -> Part {
    Part { commands: [(7, command(words))].into(), ..Part::default() }
}

#[test]
fn stamps_never_come_back_after_a_change() {
    let mut bench = Bench::new();
    let part = part_of(&["MGET", "a", "b"]);
    let mut seen = Vec::new();
    for words in [
        &["SET", "a", "1"][..],
        &["SET", "a", "1"],
        &["PEXPIRE", "a", "100"],
        &["DEL", "a"],
        &["SET", "b", "1", "PX", "10"],
        &["RENAME", "b", "a"],
        &["FLUSHALL"],
        &["RPUSH", "a", "x"],
        &["RPUSH", "a", "y"],
        &["LPOP", "a", "2"],
    ] {
        bench.run(words);
        let now = stamps(&mut bench, &part);
        assert!(!seen.contains(&now), "{words:?}");
        assert_eq!(collect(&mut bench, &part, &now), Collected::Same);
        seen.push(now.clone());
        bench.run(&["SET", "other", "1"]);
        assert_eq!(collect(&mut bench, &part, &now), Collected::Same, "another key");
    }
}

#[test]
fn a_key_past_its_time_is_another_than_one_that_never_was() {
    let mut bench = Bench::new();
    let part = part_of(&["GET", "k64"]);
    let absent = stamps(&mut bench, &part);
    // More than are removed at once.
    for number in 0..=64 {
        bench.run(&["SET", &alloc::format!("k{number}"), "1", "PX", "10"]);
    }
    let alive = stamps(&mut bench, &part);
    bench.now_ms += 10;
    let over = stamps(&mut bench, &part);
    bench.run(&["SET", "other", "1"]);
    assert!(absent != alive && alive != over && over != absent);
}

#[test]
fn what_is_about_all_keys_has_changed_with_any() {
    let mut bench = Bench::new();
    let part = part_of(&["DBSIZE"]);
    let before = stamps(&mut bench, &part);
    bench.run(&["GET", "a"]);
    assert_eq!(collect(&mut bench, &part, &before), Collected::Same);
    bench.run(&["SET", "a", "1"]);
    let Collected::New { stamps, replies, .. } = collect(&mut bench, &part, &before) else {
        panic!("it has changed")
    };
    assert!(stamps != before);
    assert_eq!(replies, [(7, Reply::Int(1))]);
}

#[test]
fn a_watched_key_must_be_as_it_was() {
    let mut bench = Bench::new();
    let watched = [(Bytes::from_static(b"w"), Version(0))].into();
    let part = Part { watched, ..part_of(&["GET", "a"]) };
    assert!(matches!(collect(&mut bench, &part, &[]), Collected::New { .. }));
    bench.run(&["SET", "w", "1"]);
    assert_eq!(collect(&mut bench, &part, &[]), Collected::Moved);
}

#[test]
fn parts_that_change_something_are_no_reads() {
    assert!(part_of(&["MGET", "a"]).only_reads() && part_of(&["KEYS", "*"]).only_reads());
    assert!(!part_of(&["SET", "a", "1"]).only_reads() && !part_of(&["GETEX", "a", "PERSIST"]).only_reads());
}
