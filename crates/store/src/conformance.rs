//! What every [`Store`] must do, as one function that panics where an implementation does not.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::{Batch, Scan, Store, prefix_end};

/// Runs the whole suite; `fresh` must return an empty store each time.
///
/// # Panics
/// At the first difference from the specification.
pub fn check<S: Store>(mut fresh: impl FnMut() -> S) {
    batches_are_atomic_and_ordered(&mut fresh());
    scans_keep_their_bounds(&mut fresh());
    snapshots_stand_still(&mut fresh());
    durability_never_runs_ahead(&mut fresh());
    agrees_with_a_map(&mut fresh());
}

fn put<S: Store>(store: &mut S, rows: &[(&str, &str)]) {
    let mut batch = Batch::default();
    for (key, value) in rows {
        batch.put(Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    }
    store.apply(batch);
}

fn keys<S: Store>(store: &S, scan: Scan<'_>) -> Vec<Bytes> {
    store.scan(scan).into_iter().map(|(key, _)| key).collect()
}

fn batches_are_atomic_and_ordered<S: Store>(store: &mut S) {
    assert_eq!(store.sequence(), 0, "an empty store has applied nothing");
    put(store, &[("a", "1"), ("b", "1")]);
    assert_eq!(store.sequence(), 1);
    let mut batch = Batch::default();
    batch.delete("a");
    batch.put("b", "2");
    batch.delete("never there");
    assert_eq!(store.apply(batch), 2);
    assert_eq!(store.get(b"a"), None);
    assert_eq!(store.get(b"b").as_deref(), Some(&b"2"[..]));
    put(store, &[("a", "")]);
    assert_eq!(store.get(b"a").as_deref(), Some(&b""[..]), "an empty value is a value");
    assert_eq!(store.apply(Batch::default()), 4, "an empty batch counts");
}

fn scans_keep_their_bounds<S: Store>(store: &mut S) {
    put(store, &[("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")]);
    assert_eq!(keys(store, Scan::range(b"", None)), ["a", "ab", "b", "c"]);
    assert_eq!(keys(store, Scan::range(b"ab", Some(b"c"))), ["ab", "b"]);
    assert_eq!(keys(store, Scan::range(b"ab", Some(b"c")).reversed()), ["b", "ab"]);
    assert_eq!(keys(store, Scan::range(b"", None).rows(2)), ["a", "ab"]);
    assert_eq!(keys(store, Scan::range(b"", None).rows(0)), Vec::<Bytes>::new());
    assert_eq!(keys(store, Scan::range(b"", None).bytes(1)), ["a"], "one row at least");
    assert_eq!(
        keys(store, Scan::range(b"", None).bytes(3)),
        ["a", "ab"],
        "the row that reaches the limit is kept"
    );
    assert_eq!(keys(store, Scan::range(b"b", Some(b"b"))), Vec::<Bytes>::new());
    assert_eq!(
        keys(store, Scan::range(b"c", Some(b"a"))),
        Vec::<Bytes>::new(),
        "a range turned round is empty"
    );
    let end = prefix_end(b"a");
    assert_eq!(keys(store, Scan::range(b"a", end.as_deref())), ["a", "ab"]);
    assert_eq!(prefix_end(b"a\xff").as_deref(), Some(&b"b"[..]));
    assert_eq!(prefix_end(b"\xff\xff"), None);
}

fn snapshots_stand_still<S: Store>(store: &mut S) {
    put(store, &[("a", "1"), ("b", "1")]);
    let first = store.snapshot();
    put(store, &[("a", "2"), ("c", "2")]);
    let second = store.snapshot();
    let mut batch = Batch::default();
    batch.delete("a");
    store.apply(batch);
    let all = Scan::range(b"", None);
    let row = |key: &'static str, value: &'static str| (Bytes::from(key), Bytes::from(value));
    assert_eq!(store.scan_snapshot(first, all), Some([row("a", "1"), row("b", "1")].to_vec()));
    assert_eq!(
        store.scan_snapshot(second, all.reversed()),
        Some([row("c", "2"), row("b", "1"), row("a", "2")].to_vec())
    );
    store.release(first);
    store.release(first);
    assert_eq!(store.scan_snapshot(first, all), None, "a released snapshot is gone");
    assert!(store.scan_snapshot(second, all).is_some(), "and no other");
    store.release(second);
}

fn durability_never_runs_ahead<S: Store>(store: &mut S) {
    put(store, &[("a", "1")]);
    assert!(store.durable() <= store.sequence());
    store.checkpoint();
    put(store, &[("a", "2")]);
    store.checkpoint();
    assert!(store.durable() <= store.sequence());
}

/// Random batches and scans against a plain map, from a fixed seed.
fn agrees_with_a_map<S: Store>(store: &mut S) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut model = BTreeMap::new();
    for round in 0..400_u32 {
        let mut batch = BTreeMap::new();
        for _ in 0..draw(6) {
            let key = Bytes::from(format!("{:02}", draw(60)));
            let value = (draw(3) > 0).then(|| Bytes::from(format!("{round}-{}", draw(1000))));
            batch.insert(key, value);
        }
        for (key, value) in &batch {
            match value {
                Some(value) => model.insert(key.clone(), value.clone()),
                None => model.remove(key),
            };
        }
        store.apply(Batch { writes: batch.into_iter().collect() });
        if draw(20) == 0 {
            store.checkpoint();
        }
        let (low, high) = (format!("{:02}", draw(60)), format!("{:02}", draw(60)));
        let expect: Vec<_> = model
            .iter()
            .filter(|(key, _)| **key >= low.as_bytes() && **key < high.as_bytes())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(store.scan(Scan::range(low.as_bytes(), Some(high.as_bytes()))), expect, "round {round}");
        let probe = format!("{:02}", draw(60));
        assert_eq!(store.get(probe.as_bytes()), model.get(probe.as_bytes()).cloned(), "round {round}");
    }
}
