//! The keyspace in memory, and the commands whose replies depend on positions, chance or weight, which no recording
//! of another server can tell.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_api::{Reply, position_of};
use quorate_values::model::MemorySpace;
use quorate_values::{Kind, Meta, Space, find};

fn run(space: &mut MemorySpace, line: &str) -> Reply {
    let mut words = line.split(' ');
    let spec = find(words.next().unwrap().as_bytes()).unwrap();
    let args: Vec<Bytes> = words.map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    (spec.run)(space, &args)
}

fn string(body: &'static str, expire_ms: Option<u64>) -> Meta {
    Meta { kind: Kind::String, expire_ms, body: Bytes::from_static(body.as_bytes()) }
}

/// A keyspace with so many keys: k0, k1 and so on.
fn with_keys(count: usize) -> (MemorySpace, BTreeSet<Bytes>) {
    let mut space = MemorySpace::new(1, 7);
    let keys: BTreeSet<Bytes> = (0..count).map(|number| Bytes::from(format!("k{number}"))).collect();
    for key in &keys {
        space.set(key, string("v", None));
    }
    (space, keys)
}

fn keys_in(reply: Reply) -> Vec<Bytes> {
    let Reply::Array(items) = reply else { panic!("not an array: {reply:?}") };
    let key = |item| match item {
        Reply::Bulk(key) => key,
        other => panic!("not a key: {other:?}"),
    };
    items.into_iter().map(key).collect()
}

#[test]
fn a_scan_tells_every_key_once_and_cursors_are_positions() {
    let (mut space, keys) = with_keys(300);
    for count in [1, 7, 299, 300, 100_000] {
        let (mut told, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let Reply::Array(parts) = run(&mut space, &format!("SCAN {cursor} COUNT {count}")) else {
                panic!()
            };
            let [Reply::Bulk(next), found] = &parts[..] else { panic!("{parts:?}") };
            let found = keys_in(found.clone());
            assert!(found.len() <= count);
            told.extend(found);
            cursor = String::from_utf8(next.to_vec()).unwrap();
            if cursor == "0" {
                break;
            }
            let position: u64 = cursor.parse().unwrap();
            assert!(keys.iter().any(|key| position_of(key) == position));
        }
        assert!(told.is_sorted_by_key(|key| position_of(key)));
        assert_eq!(told.len(), keys.len());
        assert_eq!(BTreeSet::from_iter(told), keys);
    }
}

#[test]
fn keys_come_from_many_steps() {
    let (mut space, keys) = with_keys(9_000);
    assert_eq!(BTreeSet::from_iter(keys_in(run(&mut space, "KEYS k*"))), keys);
    assert_eq!(keys_in(run(&mut space, "KEYS k123")), [&b"k123"[..]]);
}

#[test]
fn a_random_key_is_any_key_and_the_seed_decides() {
    let (mut space, keys) = with_keys(40);
    let mut drawn = BTreeSet::new();
    for seed in 0..2_000 {
        space.set_seed(seed);
        let first = run(&mut space, "RANDOMKEY");
        space.set_seed(seed);
        assert_eq!(run(&mut space, "RANDOMKEY"), first);
        let Reply::Bulk(key) = first else { panic!("{first:?}") };
        drawn.insert(key);
    }
    assert_eq!(drawn, keys);
}

#[test]
fn keys_expire_when_their_time_has_come() {
    let mut space = MemorySpace::new(1_000, 1);
    space.set(b"a", string("v", Some(2_000)));
    space.set(b"b", string("v", None));
    space.set(b"gone", string("v", Some(1_000)));
    assert_eq!(space.key_count(), 2);
    assert_eq!(run(&mut space, "PTTL a"), Reply::Int(1_000));
    assert_eq!(run(&mut space, "TTL a"), Reply::Int(1));
    space.set_now_ms(1_501);
    assert_eq!((run(&mut space, "PTTL a"), run(&mut space, "TTL a")), (Reply::Int(499), Reply::Int(0)));
    space.set(b"a", string("w", Some(3_000)));
    space.set_now_ms(2_999);
    assert!(space.get(b"a").is_some());
    space.set_now_ms(3_000);
    assert_eq!(space.get(b"a"), None);
    assert_eq!(space.keys(0, 10).0, [(Bytes::from_static(b"b"), Kind::String)]);
}

#[test]
fn rows_come_in_order_from_either_side() {
    let mut space = MemorySpace::new(1, 1);
    space.set(b"k", Meta { kind: Kind::List, expire_ms: None, body: Bytes::new() });
    for row in [b"b", b"d", b"a", b"c"] {
        space.set_row(b"k", row, Bytes::from_static(b"v"));
    }
    let mut names = |start: &[u8], end: Option<&[u8]>, reverse, rows_max| -> Vec<u8> {
        space.rows(b"k", start, end, reverse, rows_max).iter().map(|(row, _)| row[0]).collect()
    };
    assert_eq!(names(b"", None, false, 9), b"abcd");
    assert_eq!(names(b"", None, true, 2), b"dc");
    assert_eq!(names(b"b", Some(b"d"), false, 9), b"bc");
    assert_eq!(names(b"b", Some(b"d"), true, 1), b"c");
    assert_eq!(names(b"c", Some(b"b"), false, 9), b"");
    assert!(space.remove(b"k"));
    assert!(!space.remove(b"k"));
    assert_eq!(space.row_count(b"k"), 0);
}

#[test]
#[should_panic(expected = "without being removed")]
fn a_change_of_kind_without_removal_is_noticed() {
    let mut space = MemorySpace::new(1, 1);
    space.set(b"k", string("v", None));
    space.set(b"k", Meta { kind: Kind::List, ..string("", None) });
}

#[test]
#[should_panic(expected = "a key that exists")]
fn rows_without_a_key_are_noticed() {
    MemorySpace::new(1, 1).set_row(b"k", b"r", Bytes::new());
}

#[test]
#[should_panic(expected = "time runs backwards")]
fn time_does_not_run_backwards() {
    MemorySpace::new(2, 1).set_now_ms(1);
}

#[test]
fn memory_usage_grows_with_what_is_kept() {
    let mut space = MemorySpace::new(1, 1);
    let mut usage = |line: &str| match run(&mut space, line) {
        Reply::Int(bytes) => bytes,
        other => panic!("{line}: {other:?}"),
    };
    usage("APPEND short v");
    usage("APPEND long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert!(usage("MEMORY USAGE long") > usage("MEMORY USAGE short"));
    usage("RPUSH list a b c d e f g h i j");
    let few = usage("MEMORY USAGE list");
    assert_eq!(usage("MEMORY USAGE list SAMPLES 0"), few);
    usage("RPUSH list a b c d e f g h i j");
    assert!(usage("MEMORY USAGE list SAMPLES 1") > few);
}

#[test]
fn the_parts_of_a_common_subsequence_have_names() {
    let mut space = MemorySpace::new(1, 1);
    run(&mut space, "MSET a xaw b yaz");
    let range = |place| Reply::Array(vec![Reply::Int(place), Reply::Int(place)]);
    let matches = Reply::Array(vec![Reply::Array(vec![range(1), range(1)])]);
    let expected = Reply::Map(vec![(Reply::bulk("matches"), matches), (Reply::bulk("len"), Reply::Int(1))]);
    assert_eq!(run(&mut space, "LCS a b IDX"), expected);

    let long = "a".repeat(5_000);
    run(&mut space, &format!("MSET a {long} b {long}"));
    assert!(matches!(run(&mut space, "LCS a b LEN"), Reply::Error(_)));
}

#[test]
fn help_is_given_line_by_line() {
    let mut space = MemorySpace::new(1, 1);
    for container in ["OBJECT", "MEMORY"] {
        let Reply::Array(lines) = run(&mut space, &format!("{container} HELP")) else { panic!() };
        assert!(lines.iter().all(|line| matches!(line, Reply::Simple(_))));
    }
}
