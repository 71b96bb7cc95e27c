//! Buckets that lose their majority, and what becomes of them.

mod common;

use common::*;
use quorate_api::Bucket;
use quorate_buckets::{Change, Cut, Lost, Misfit, Placement, Recovered, Step, Why};
use quorate_kernel::NodeId;

const BUCKET: Bucket = Bucket(0);

fn lost(survivors: &[u64], gone: &[u64]) -> Lost {
    Lost { bucket: BUCKET, survivors: ids(survivors.to_vec()), gone: ids(gone.to_vec()) }
}

fn leave(placement: &mut Placement, leaves: &[u64]) -> Vec<Lost> {
    placement.advance(&Cut { joins: vec![], leaves: ids(leaves.to_vec()) }).expect("fits")
}

fn join(placement: &mut Placement, joins: &[u64]) -> Vec<Lost> {
    placement.advance(&Cut { joins: nodes(joins.to_vec()), leaves: vec![] }).expect("fits")
}

/// One bucket with the first of `count` nodes as members, in order.
fn one(copies: u8, count: u64) -> Placement {
    let placement = founded(1, copies, nodes(1..=count));
    assert_eq!(placement.members(BUCKET), ids(1..=u64::from(copies)));
    placement
}

#[test]
fn half_is_no_majority() {
    let mut placement = one(4, 5);
    assert_eq!(leave(&mut placement, &[4]), []);
    let mut placement = one(4, 5);
    assert_eq!(leave(&mut placement, &[2, 4]), [lost(&[1, 3], &[2, 4])]);
    let mut placement = one(3, 5);
    assert_eq!(leave(&mut placement, &[1, 2]), [lost(&[3], &[1, 2])]);
    assert_eq!(placement.halted().collect::<Vec<_>>(), [lost(&[3], &[1, 2])]);
}

#[test]
fn halted_buckets_wait_for_an_operator() {
    let mut placement = one(3, 5);
    leave(&mut placement, &[1, 2]);
    join(&mut placement, &[8, 9]);
    settle_all(&mut placement);
    assert_eq!(placement.members(BUCKET), ids([3]), "no copy can be made of it");
    assert_eq!(placement.next_step(), None);
    let step =
        Step { on: placement.number(), bucket: BUCKET, change: Change::Add(NodeId(8)), why: Why::Operator };
    assert_eq!(placement.take(&step), Err(Misfit::Halted(BUCKET)));
    let before = placement.number();
    let recovered = placement.recover(BUCKET).expect("halted");
    assert_eq!(recovered, Recovered { bucket: BUCKET, slots: 0..16_384, from: ids([3]), gone: ids([1, 2]) });
    assert_eq!(
        recovered.to_string(),
        "bucket 0 goes on with what [n3] have: in slots 0 to 16383, writes that only [n1, n2] acknowledged are missing"
    );
    assert_eq!(placement.recover(BUCKET), Err(Misfit::NotHalted(BUCKET)));
    assert!(placement.since(BUCKET) > before);
    rest(&mut placement);
    assert_eq!(placement.members(BUCKET).len(), 3);
    assert_eq!(placement.members(BUCKET)[0], NodeId(3));
}

#[test]
fn a_bucket_of_which_nothing_is_left() {
    let mut placement = one(3, 5);
    assert_eq!(leave(&mut placement, &[1, 2]).len(), 1);
    assert_eq!(leave(&mut placement, &[3]), [], "it was told already");
    assert_eq!(placement.halted().collect::<Vec<_>>(), [lost(&[], &[1, 2, 3])]);
    assert_eq!(placement.members_due(BUCKET, &ids([1]), 0), None);
    let recovered = placement.recover(BUCKET).expect("halted");
    assert_eq!(recovered.from, []);
    assert_eq!(recovered.to_string(), "bucket 0 starts empty: all keys of slots 0 to 16383 are missing");
    assert_eq!(placement.halted().count(), 0);
    rest(&mut placement);
    assert_eq!(placement.members(BUCKET).len(), 2);
}

#[test]
fn who_comes_back_brings_the_majority_back() {
    let mut placement = one(3, 5);
    leave(&mut placement, &[1, 2]);
    join(&mut placement, &[7]);
    assert_eq!(placement.halted().count(), 1);
    join(&mut placement, &[2]);
    assert_eq!(placement.halted().count(), 0);
    assert_eq!(placement.members(BUCKET)[..2], ids([3, 2]));
}

#[test]
fn learners_that_leave_do_not_halt() {
    // The log is still that of node 1 alone.
    let mut placement = one(1, 1);
    placement.set_copies(3).expect("few");
    join(&mut placement, &[2, 3]);
    assert_eq!(leave(&mut placement, &[2, 3]), []);
    assert_eq!(placement.members(BUCKET), ids([1]));
}

#[test]
fn the_log_knows_better() {
    // Either {1} or {1, 2, 3} is in power when 1 goes: only the log knows.
    let mut placement = one(1, 1);
    placement.set_copies(3).expect("few");
    join(&mut placement, &[2, 3]);
    let mark = placement.since(BUCKET);
    assert_eq!(leave(&mut placement, &[1]), []);
    let mut other = placement.clone();
    assert_eq!(other.settle(BUCKET, mark, &ids([1, 2, 3])), Ok(None));
    assert_eq!(other.halted().count(), 0);
    // A learner reports whose word its log still waits for.
    assert_eq!(
        placement.settle(BUCKET, 1, &ids([1])),
        Ok(None),
        "that was known, and does not say what is now"
    );
    assert_eq!(placement.settle(BUCKET, 2, &ids([1])), Ok(Some(lost(&[2, 3], &[1]))));
    assert_eq!(placement.settle(BUCKET, 3, &ids([1])), Ok(None), "it was told already");
    assert_eq!(placement.settle(BUCKET, 1, &ids([1, 2, 3])), Ok(None), "too old to count");
    assert_eq!(placement.halted().count(), 1);
    // A log that agreed on something later is alive.
    assert_eq!(placement.settle(BUCKET, placement.since(BUCKET), &ids([2, 3])), Ok(None));
    assert_eq!(placement.halted().count(), 0);
}

#[test]
fn removals_one_after_the_other_count_from_the_log() {
    // Nobody has told that the log gave up node 3, so it may still need two of three.
    let mut placement = one(3, 4);
    assert_eq!(leave(&mut placement, &[3]), []);
    assert_eq!(leave(&mut placement, &[2]), [lost(&[1], &[2, 3])]);
    let mut placement = one(4, 5);
    assert_eq!(leave(&mut placement, &[4]), []);
    let known = placement.reported(BUCKET).0;
    assert_eq!(placement.stall(BUCKET, known, &ids(1..=4)), None, "three of four are enough");
    assert_eq!(leave(&mut placement, &[3]), [], "the log may be that of three by now, of which two are left");
    assert_eq!(placement.stall(BUCKET, known, &ids(1..=3)), None, "then nobody says that it is stuck");
    assert_eq!(placement.stall(BUCKET, known, &ids(1..=4)), Some(lost(&[1, 2], &[3, 4])));
    assert_eq!(placement.stall(BUCKET, known, &ids(1..=4)), None, "it was told already");
    assert_eq!(placement.settle(BUCKET, placement.since(BUCKET), &ids([1, 2])), Ok(None));
    assert_eq!(placement.halted().count(), 0, "it was alive after all");
    let mut placement = one(4, 4);
    assert_eq!(leave(&mut placement, &[4]), []);
    settle_all(&mut placement);
    assert_eq!(leave(&mut placement, &[3]), []);
    assert_eq!(leave(&mut placement, &[2]), [lost(&[1], &[2, 3])]);
}
