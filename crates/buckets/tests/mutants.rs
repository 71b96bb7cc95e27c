//! Rules that would be wrong, and the properties that tell.

mod common;

use common::*;
use quorate_api::Bucket;
use quorate_buckets::{Change, Cut, Placement, Step, Why};
use quorate_kernel::{NodeId, Rng};

/// The published implementation: contiguous slices of the sorted list of nodes.
fn slices(all: &[NodeId], buckets: usize) -> Vec<Vec<NodeId>> {
    let length = all.len().div_ceil(buckets);
    let slice = |bucket: usize| all.iter().skip(bucket * length).take(length).copied().collect();
    (0..buckets).map(slice).collect()
}

#[test]
fn slices_of_the_sorted_list_move_everybody() {
    let all = ids(1..=20);
    let (mut shifted, mut headless) = (0, 0);
    for leaver in &all {
        let left: Vec<NodeId> = all.iter().copied().filter(|id| id != leaver).collect();
        let (before, after) = (slices(&all, 5), slices(&left, 5));
        let at = before.iter().position(|members| members.contains(leaver)).expect("a node");
        let moved = moved_needlessly(&before, &after, &[], &[*leaver]);
        // The leaver's bucket takes over the next one's first node, that one the first of the one behind it, and so on.
        assert!(moved >= 4 - at, "{leaver}");
        shifted += moved;
        headless += before.iter().zip(&after).filter(|(was, is)| was.first() != is.first()).count();

        let mut ours = founded(5, 4, nodes(1..=20));
        let before = table(&ours);
        ours.advance(&Cut { joins: vec![], leaves: vec![*leaver] }).expect("fits");
        assert_eq!(moved_needlessly(&before, &table(&ours), &[], &[*leaver]), 0);
        assert!(before.iter().zip(table(&ours)).filter(|(was, is)| was.first() != is.first()).count() <= 1);
    }
    // One leaver of twenty: on average more than two of five buckets that it was not in, with another primary each.
    assert!(shifted > 2 * all.len() && headless > 2 * all.len(), "{shifted} {headless}");
    let joined = slices(&ids(0..=20), 5);
    assert!(moved_needlessly(&slices(&all, 5), &joined, &ids([0]), &[]) >= 4);
    assert_eq!(joined[4].len(), 1, "and a joiner can leave a bucket with one copy");
}

fn operator(placement: &Placement, bucket: Bucket, change: Change) -> Step {
    Step { on: placement.number(), bucket, change, why: Why::Operator }
}

/// All moves between two nodes that differ enough in load by a rule.
fn moves(placement: &Placement, helps: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let loads = loads(placement);
    let mut all = vec![];
    for bucket in buckets(placement) {
        for from in placement.members(bucket) {
            let others =
                placement.nodes().iter().filter(|node| !placement.members(bucket).contains(&node.id));
            let to = others.filter(|to| helps(loads[from], loads[&to.id]));
            all.extend(to.map(|to| operator(placement, bucket, Change::Move { from: *from, to: to.id })));
        }
    }
    all
}

#[test]
fn moving_for_a_difference_of_one_never_ends() {
    let mut placement = founded(5, 3, nodes(1..=4));
    assert_eq!(placement.next_step(), None);
    let (mut seen, mut faults) = (std::collections::BTreeSet::new(), 0);
    while seen.insert(table(&placement)) {
        let step = *moves(&placement, |from, to| from > to).first().expect("there is always one more");
        let before = burden(&placement);
        placement.take(&step).expect("fits");
        faults += usize::from(fault(step.change, &before, &burden(&placement)).is_some());
        settle_all(&mut placement);
    }
    assert!(faults > 0, "a placement came again, and each step was said to help");
}

#[test]
fn load_before_spread_is_noticed() {
    let mut caught = 0;
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut landscape = Landscape::draw(&mut rng);
        let placement = founded(4, 3, landscape.nodes(7, &mut rng));
        for step in moves(&placement, |from, to| from > to + 1) {
            let mut mutant = placement.clone();
            if mutant.take(&step).is_ok() && burden(&mutant).load < burden(&placement).load {
                caught += usize::from(fault(step.change, &burden(&placement), &burden(&mutant)).is_some());
            }
        }
    }
    assert!(caught > 100, "{caught}");
}

#[test]
fn without_marks_two_leaders_undo_each_other() {
    let old = founded(1, 3, nodes(1..=4));
    let mut new = old.clone();
    let bucket = Bucket(0);
    let step = operator(&new, bucket, Change::Move { from: new.members(bucket)[2], to: NodeId(4) });
    new.take(&step).expect("fits");
    let run = |heeds_marks: bool| {
        let (mut log, mut mark, mut changes) = (old.members(bucket).to_vec(), old.since(bucket), 0);
        for turn in 0..20 {
            let acting = if turn % 2 == 0 { &new } else { &old };
            let Some(due) = acting.members_due(bucket, &log, mark) else { continue };
            log.retain(|id| !due.remove.contains(id));
            log.extend(due.add);
            changes += 1;
            mark = if heeds_marks { due.number } else { 0 };
        }
        changes
    };
    assert_eq!((run(true), run(false)), (1, 20));
}

#[test]
fn a_mark_is_kept_even_if_nobody_moves() {
    // There and back again: a placement from in between must not act on a log that both others are in line with.
    let old = founded(1, 1, nodes(1..=2));
    let bucket = Bucket(0);
    let (mut between, home) = (old.clone(), old.members(bucket).to_vec());
    let away = NodeId(3 - home[0].0);
    let step = operator(&between, bucket, Change::Move { from: home[0], to: away });
    between.take(&step).expect("fits");
    let mut new = between.clone();
    let step = operator(&new, bucket, Change::Move { from: away, to: home[0] });
    new.take(&step).expect("fits");
    let due = new.members_due(bucket, &home, old.since(bucket)).expect("the mark is due");
    assert!(due.add.is_empty() && due.remove.is_empty());
    assert!(between.members_due(bucket, &home, old.since(bucket)).is_some());
    assert_eq!(between.members_due(bucket, &home, due.number), None);
    assert_eq!(between.leader_due(bucket, &home, due.number), None);
}
