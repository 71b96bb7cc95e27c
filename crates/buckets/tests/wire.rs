//! The bytes of a placement, and its hash. A change of either is a new format.

mod common;

use common::*;
use quorate_api::Bucket;
use quorate_buckets::{Change, Cut, Placement, Step, Why};
use quorate_kernel::{NodeId, wire};

fn sample() -> Placement {
    let all = vec![node_in(1, 1, 2, 1), node_in(2, 2, 1, 2), node(3)];
    let mut placement = founded(2, 3, all);
    placement.advance(&Cut { joins: nodes([4]), leaves: ids([1, 2]) }).expect("fits");
    placement
}

#[test]
fn golden_bytes() {
    let placement = sample();
    let mut expected = vec![2, 3, 2];
    expected.extend([3, 0, 0, 1, 4, 0, 0, 1]);
    expected.push(2);
    for _ in 0..2 {
        expected.extend([1, 3, 2, 3, 1, 2, 3, 1, 1, 2, 1, 2]);
    }
    assert_eq!(wire::encode(&placement), expected);
    assert_eq!(placement.hash(), 6_447_275_078_711_098_899);
    let step = Step {
        on: 300,
        bucket: Bucket(1),
        change: Change::Move { from: NodeId(1), to: NodeId(2) },
        why: Why::Load,
    };
    assert_eq!(wire::encode(&step), [0xac, 2, 1, 2, 1, 2, 4]);
    let cut = Cut { joins: vec![node_in(7, 1, 2, 5)], leaves: ids([9]) };
    assert_eq!(wire::encode(&cut), [&[1, 7, 5][..], b"zone1", &[5], b"rack2", &[5, 1, 9]].concat());
}

#[test]
fn founders_are_placed_as_ever() {
    // A cluster's placement is computed again from its founders: what comes out is a format, too.
    let zoned = (1..=9).map(|id| node_in(id, id % 3, id % 2, 1 + (id % 2) as u32)).collect();
    let placement = founded(6, 3, zoned);
    let text: Vec<String> = table(&placement).iter().map(|members| format!("{members:?}")).collect();
    assert_eq!(
        text,
        ["[n1, n6, n5]", "[n3, n4, n2]", "[n5, n1, n9]", "[n7, n8, n3]", "[n9, n5, n7]", "[n2, n3, n1]"]
    );
    assert_eq!(placement.hash(), 8_487_262_879_526_955_642);
}

#[test]
fn what_is_not_sound_does_not_decode() {
    let bytes = wire::encode(&sample());
    assert_eq!(wire::decode::<Placement>(&bytes), Ok(sample()));
    // By place in the bytes: what becomes of it, and why it is refused.
    for (at, byte, why) in [
        (0, 1, "a place newer than the placement"),
        (1, 0, "no copies"),
        (1, 17, "too many copies"),
        (3, 4, "a node twice"),
        (13, 2, "a member that is no node"),
        (17, 3, "holders out of order"),
        (22, 9, "those who are gone out of order"),
    ] {
        let mut damaged = bytes.clone();
        damaged[at] = byte;
        assert!(wire::decode::<Placement>(&damaged).is_err(), "{why}");
    }
    let mut twice = wire::encode(&founded(1, 2, nodes(1..=2)));
    assert_eq!(twice[12..15], [2, 1, 2], "the members");
    twice[14] = 1;
    assert!(wire::decode::<Placement>(&twice).is_err(), "a member twice");
    for end in 0..bytes.len() {
        assert!(wire::decode::<Placement>(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn hashes_tell_histories_apart() {
    let mut seen = std::collections::BTreeSet::new();
    let mut placement = founded(5, 3, nodes(1..=7));
    seen.insert(placement.hash());
    for id in 8..=40 {
        placement.advance(&Cut { joins: nodes([id]), leaves: vec![] }).expect("fits");
        assert!(seen.insert(placement.hash()));
        let step = placement.next_step();
        step.into_iter().for_each(|step| placement.take(&step).expect("fits"));
        settle_all(&mut placement);
        seen.insert(placement.hash());
    }
}

/// Founders compute the first placement each for itself, at every start: another choice for the same founders would found a
/// bucket twice. It must never change.
#[test]
fn what_founders_choose_never_changes() {
    let hashes = [(1, 1, 1), (1, 3, 3), (5, 4, 20), (16, 3, 7)]
        .map(|(buckets, copies, count)| founded(buckets, copies, nodes(1..=count)).hash());
    let never = [
        11_253_508_851_687_972_913,
        2_588_142_489_382_989_290,
        17_061_221_391_322_252_635,
        11_948_079_461_632_301_747,
    ];
    assert_eq!(hashes, never);
}
