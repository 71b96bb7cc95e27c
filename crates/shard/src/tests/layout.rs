//! The bytes of the rows, version 1: they are on disks and in snapshots.

use alloc::vec::Vec;
use quorate_kernel::wire;

use super::{Bench, START_MS};
use crate::layout::{Header, State, counters_key, decode_value, encode_value, session_key};

#[test]
fn rows_keep_their_bytes() {
    let mut bench = Bench::new();
    bench.run(&["SET", "k", "value", "PX", "1000"]);
    bench.run(&["RPUSH", "l", "x"]);
    let rows = bench.rows();
    let find =
        |tag: u8| -> Vec<&(Vec<u8>, Vec<u8>)> { rows.iter().filter(|(key, _)| key[4] == tag).collect() };
    let [string, list] = find(b'k')[..] else { panic!("two keys: {rows:?}") };
    let (string, list) = if string.0.ends_with(b"k") { (string, list) } else { (list, string) };
    // Keyspace, tag, position on the ring, key; version, kind, expiry, collection, body.
    assert_eq!(
        string.0,
        [&[0, 0, 0, 0, b'k'][..], &quorate_api::position_of(b"k").to_be_bytes(), b"k"].concat()
    );
    let expiry = [1, 0xe8, 0xd7, 0x95, 0xff, 0xbc, 0x31];
    assert_eq!(wire::encode(&(START_MS + 1_000)), expiry[1..]);
    assert_eq!(string.1, [&[1, 0][..], &expiry, &[0], b"value"].concat());
    assert_eq!(list.1[..4], [2, 1, 0, 2], "version 2, a list, no expiry, collection 2");
    let [expiry] = find(b'e')[..] else { panic!("one expiry: {rows:?}") };
    assert_eq!(expiry.0, [&[0, 0, 0, 0, b'e'][..], &(START_MS + 1_000).to_be_bytes(), b"k"].concat());
    assert!(expiry.1.is_empty());
    let [element] = find(b'd')[..] else { panic!("one element: {rows:?}") };
    assert_eq!(element.0[..13], [0, 0, 0, 0, b'd', 0, 0, 0, 0, 0, 0, 0, 2]);
    bench.run(&["DEL", "l"]);
    let rows = bench.rows();
    let removal = rows.iter().find(|(key, _)| key.starts_with(&[255, 255, 255, 255, b'd'])).expect("noted");
    assert_eq!((removal.0.len(), removal.1.as_slice()), (7, &[0, 0, 0, 0, 0, 0, 0, 3][..]));
}

#[test]
fn shared_rows_keep_their_keys_and_bytes() {
    let area = [b'r', 0, 0, 0, 1];
    assert_eq!(counters_key(area), [&area[..], &[255; 4], b"c"].concat());
    assert_eq!(session_key(area, 258), [&area[..], &[255; 4], b"s", &[0, 0, 0, 0, 0, 0, 1, 2]].concat());
    let state = State {
        now_ms: 300,
        versions: 2,
        keys: 3,
        keyspace: 4,
        dead_collections: 5,
        expiring: 6,
        next_expiry_ms: Some(7),
        keyspace_oldest: 8,
        cleared: 9,
    };
    let bytes = wire::encode(&state);
    assert_eq!(bytes, [0xac, 0x02, 2, 3, 4, 5, 6, 1, 7, 8, 9]);
    assert_eq!(wire::decode::<State>(&bytes), Ok(state));
}

#[test]
fn a_body_is_a_slice_of_its_row() {
    let header = Header { version: 9, kind: quorate_values::Kind::String, expire_ms: None, collection: 0 };
    let row = encode_value(&header, b"body");
    let (read, body) = decode_value(row.clone());
    assert_eq!((read, &body[..]), (header, &b"body"[..]));
    assert_eq!(body.as_ptr(), row[row.len() - 4..].as_ptr(), "nothing is copied");
}

#[test]
#[should_panic(expected = "the row of a key")]
fn a_damaged_row_stops_the_node() {
    decode_value(bytes::Bytes::from_static(&[1, 9]));
}
