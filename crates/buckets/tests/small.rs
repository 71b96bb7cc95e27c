//! Clusters small enough to say what must come out.

mod common;

use std::collections::BTreeSet;

use common::*;
use quorate_api::Bucket;
use quorate_buckets::{Change, Cut, Misfit, Node, Placement, Step, Why};
use quorate_kernel::{NodeId, Rng};

fn join(placement: &mut Placement, nodes: Vec<Node>) {
    assert_eq!(placement.advance(&Cut { joins: nodes, leaves: vec![] }), Ok(vec![]));
}

fn leave(placement: &mut Placement, leaves: Vec<NodeId>) {
    assert_eq!(placement.advance(&Cut { joins: vec![], leaves }), Ok(vec![]));
}

#[test]
fn twenty_nodes_in_five_buckets_of_four() {
    let placement = founded(5, 4, nodes(1..=20));
    assert!(loads(&placement).values().all(|load| *load == 1), "each node is in exactly one bucket");
    let mut mixed = nodes(1..=20);
    Rng::new(1).shuffle(&mut mixed);
    assert_eq!(founded(5, 4, mixed), placement);
    // In four zones, no two members of a bucket share one.
    let zoned = founded(5, 4, (1..=20).map(|id| node_in(id, id % 4, 0, 1)).collect());
    assert!(loads(&zoned).values().all(|load| *load == 1));
    assert_eq!(burden(&zoned).pairs, (0, 0));
    // And in three of different sizes.
    let uneven = founded(5, 4, (1..=20).map(|id| node_in(id, id % 3, 0, 1)).collect());
    assert!(loads(&uneven).values().all(|load| *load == 1));
}

#[test]
fn one_node_then_three_then_forty() {
    let mut placement = founded(16, 3, nodes(1..=1));
    assert_eq!(placement.buckets_of(NodeId(1)).count(), 16);
    assert_eq!(placement.next_step(), None);

    join(&mut placement, nodes(2..=3));
    assert!(loads(&placement).values().all(|load| *load == 16), "every node in every bucket");
    assert!(table(&placement).iter().all(|members| members[0] == NodeId(1)), "who has the data leads");
    rest(&mut placement);
    assert!(gap(&leads(&placement)) <= 1);

    let before = placement.clone();
    join(&mut placement, nodes(4..=40));
    assert_eq!(table(&before), table(&placement), "nothing is vacant: nobody moves");
    let steps = rest(&mut placement);
    // 48 copies on 40 nodes: the first three keep at most two each.
    assert!((42..=42 + 16).contains(&steps), "no copy moves twice: {steps}");
    assert!(gap(&loads(&placement)) <= 1 && gap(&leads(&placement)) <= 1);
    for id in 4..=40 {
        leave(&mut placement, ids([id]));
        rest(&mut placement);
        assert!(gap(&loads(&placement)) <= 1);
    }
    assert!(loads(&placement).values().all(|load| *load == 16));
}

#[test]
fn a_failure_costs_its_copies_and_no_more() {
    let mut placement = founded(100, 3, nodes(1..=10));
    let held: Vec<Bucket> = placement.buckets_of(NodeId(4)).collect();
    assert_eq!(held.len(), 30);
    leave(&mut placement, ids([4]));
    let mut adds = 0;
    settle_all(&mut placement);
    while let Some(step) = placement.next_step() {
        if let Change::Lead(_) = step.change {
            break;
        }
        assert!(matches!(step.change, Change::Add(_)) && held.contains(&step.bucket), "{step:?}");
        adds += 1;
        placement.take(&step).expect("fits");
        settle_all(&mut placement);
    }
    assert_eq!(adds, held.len());
    assert!(gap(&loads(&placement)) <= 1);
}

#[test]
fn a_joiner_goes_where_it_is_needed() {
    let mut placement = founded(4, 3, nodes(1..=6));
    leave(&mut placement, ids([2]));
    let vacant: Vec<Bucket> =
        buckets(&placement).filter(|bucket| placement.members(*bucket).len() == 2).collect();
    assert_eq!(vacant.len(), 2);
    join(&mut placement, nodes([99]));
    assert!(placement.buckets_of(NodeId(99)).eq(vacant));
    // Whoever comes back goes to where its data is, though others come with it.
    let mut placement = founded(8, 3, nodes(1..=8));
    let held: Vec<Bucket> = placement.buckets_of(NodeId(5)).collect();
    leave(&mut placement, ids([1]));
    leave(&mut placement, ids([5]));
    join(&mut placement, nodes([2_000, 5, 3_000]));
    assert!(held.iter().all(|bucket| placement.members(*bucket).contains(&NodeId(5))));
}

#[test]
fn a_joiner_from_the_wrong_zone_does_not_fill() {
    let zoned = |id, zone| node_in(id, zone, 0, 1);
    let mut placement = founded(1, 3, vec![zoned(1, 1), zoned(2, 2), zoned(3, 3), zoned(4, 3)]);
    let gone = *placement.members(Bucket(0)).iter().find(|id| id.0 > 2).expect("in three zones");
    let third = if gone == NodeId(3) { NodeId(4) } else { NodeId(3) };
    placement.advance(&Cut { joins: vec![zoned(9, 1)], leaves: vec![gone] }).expect("fits");
    assert_eq!(placement.members(Bucket(0)).len(), 2, "it would only have to move again");
    settle_all(&mut placement);
    let step = placement.next_step().expect("a vacancy");
    assert_eq!((step.change, step.why), (Change::Add(third), Why::Missing));
}

#[test]
fn capacity_is_a_share() {
    let mut all = nodes(1..=4);
    all[0].capacity = 3;
    let placement = founded(60, 1, all);
    assert_eq!(loads(&placement).into_values().collect::<Vec<_>>(), [30, 10, 10, 10]);
    assert_eq!(leads(&placement), loads(&placement));
}

#[test]
fn a_node_is_emptied_before_it_leaves() {
    let mut placement = founded(10, 3, nodes(1..=5));
    placement.set_capacity(NodeId(3), 0).expect("a node");
    let steps = rest(&mut placement);
    assert_eq!(placement.buckets_of(NodeId(3)).count(), 0);
    assert!(steps <= 6 + 10, "{steps}");
    let before = table(&placement);
    leave(&mut placement, ids([3]));
    assert_eq!(table(&placement), before);
    assert_eq!(placement.next_step(), None);
}

#[test]
fn founders_say_where_they_stand_and_copies_follow() {
    let mut placement = founded(12, 3, nodes(1..=6));
    for id in 1..=6 {
        assert_eq!(placement.describe(&node_in(id, id % 3 + 1, 0, 1)), Ok(true));
        assert_eq!(placement.describe(&node_in(id, id % 3 + 1, 0, 1)), Ok(false), "known");
    }
    rest(&mut placement);
    let zones = |members: &Vec<NodeId>| members.iter().map(|id| id.0 % 3).collect::<BTreeSet<_>>().len();
    assert!(table(&placement).iter().all(|members| zones(members) == 3), "one copy in each");
    placement.set_capacity(NodeId(3), 0).expect("a node");
    assert_eq!(placement.describe(&node_in(3, 1, 0, 5)), Ok(false), "emptied by an operator");
    assert_eq!(placement.describe(&node_in(9, 1, 0, 5)), Err(Misfit::UnknownNode(NodeId(9))));
}

#[test]
fn copies_are_added_and_taken_away() {
    let mut placement = founded(7, 3, nodes(1..=9));
    for copies in [5, 1, 9, 2] {
        placement.set_copies(copies).expect("few");
        rest(&mut placement);
        assert!(table(&placement).iter().all(|members| members.len() == usize::from(copies)));
        assert!(gap(&loads(&placement)) <= 1 && gap(&leads(&placement)) <= 1);
    }
    assert_eq!(placement.set_copies(0), Err(Misfit::Copies(0)));
}

#[test]
fn copies_move_when_all_have_arrived() {
    let mut placement = founded(3, 1, nodes(1..=1));
    join(&mut placement, nodes(2..=3));
    let step = placement.next_step().expect("one node holds all");
    assert_eq!(step.why, Why::Load);
    placement.take(&step).expect("fits");
    assert_eq!(placement.take(&step), Err(Misfit::Stale { on: step.on, number: placement.number() }));
    assert_eq!(placement.next_step(), None, "the copy is on its way");
    let to = placement.members(step.bucket).to_vec();
    assert_eq!(placement.settle(step.bucket, placement.since(step.bucket), &to), Ok(None));
    assert!(placement.next_step().is_some());
    // The same for copies that are missing.
    placement.set_copies(3).expect("few");
    for _ in 0..3 {
        let step = placement.next_step().expect("copies are missing");
        assert_eq!(step.why, Why::Missing);
        placement.take(&step).expect("fits");
    }
    assert!(table(&placement).iter().all(|members| members.len() == 2), "one each");
    assert!(placement.next_step().is_none_or(|step| step.why == Why::Leadership), "all have one on its way");
}

#[test]
fn cheap_moves_come_first() {
    // Who gave a copy up still has most of it.
    let mut placement = founded(1, 3, nodes(3..=5));
    join(&mut placement, nodes(1..=2));
    let change = Change::Drop(NodeId(5));
    let step = Step { on: placement.number(), bucket: Bucket(0), change, why: Why::Operator };
    placement.take(&step).expect("fits");
    assert_eq!(placement.next_step().map(|step| step.change), Some(Change::Add(NodeId(5))));
    // A copy that does not lead goes before one that does.
    let mut placement = founded(4, 2, nodes(1..=2));
    join(&mut placement, nodes(3..=3));
    let step = placement.next_step().expect("node 3 has nothing");
    assert_eq!(step.change, Change::Move { from: NodeId(1), to: NodeId(3) });
    assert_eq!(placement.members(step.bucket)[0], NodeId(2));
}

#[test]
fn operators_may_take_steps_of_their_own() {
    let mut placement = founded(2, 2, nodes(1..=4));
    let [one, two] = [placement.members(Bucket(0))[0], placement.members(Bucket(0))[1]];
    let other = placement.members(Bucket(1))[0];
    let step = |on, change| Step { on, bucket: Bucket(0), change, why: Why::Operator };
    let on = placement.number();
    for change in [
        Change::Add(one),
        Change::Drop(other),
        Change::Lead(one),
        Change::Lead(other),
        Change::Move { from: other, to: one },
        Change::Move { from: one, to: two },
    ] {
        assert_eq!(placement.take(&step(on, change)), Err(Misfit::Impossible(Bucket(0))), "{change:?}");
    }
    assert_eq!(placement.take(&step(on, Change::Add(NodeId(9)))), Err(Misfit::UnknownNode(NodeId(9))));
    placement.take(&step(on, Change::Lead(two))).expect("fits");
    assert_eq!(placement.members(Bucket(0)), [two, one]);
    let on = placement.number();
    placement.take(&step(on, Change::Move { from: two, to: other })).expect("fits");
    assert_eq!(placement.members(Bucket(0)), [other, one]);
    let on = placement.number();
    placement.take(&step(on, Change::Drop(other))).expect("fits");
    let on = placement.number();
    assert_eq!(placement.take(&step(on, Change::Drop(one))), Err(Misfit::Impossible(Bucket(0))));
}

/// The least sum of squares over all choices of one leader for each bucket.
fn most_even_leads(lists: &[Vec<NodeId>], leads: &mut Vec<NodeId>) -> usize {
    let Some((members, rest)) = lists.split_first() else {
        let count = |id| leads.iter().filter(|lead| *lead == id).count();
        return leads.iter().map(count).sum();
    };
    let mut best = usize::MAX;
    for id in members {
        leads.push(*id);
        best = best.min(most_even_leads(rest, leads));
        leads.pop();
    }
    best
}

#[test]
fn leaderships_are_as_even_as_members_allow() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut placement = founded(rng.between(1, 6) as u16, 3, nodes(1..=rng.between(3, 8)));
        // Any members at all, not only those that steps would choose.
        for _ in 0..12 {
            let bucket = Bucket(rng.below(placement.bucket_count().get().into()) as u16);
            let from = *rng.pick(placement.members(bucket)).expect("not empty");
            let to = rng.pick(placement.nodes()).expect("not empty").id;
            let step = Step {
                on: placement.number(),
                bucket,
                change: Change::Move { from, to },
                why: Why::Operator,
            };
            let _ = placement.take(&step);
        }
        // Copies are under way, so that only leaderships move.
        for _ in 0..60 {
            let Some(step) = placement.next_step().filter(|step| step.why == Why::Leadership) else { break };
            check_step(&mut placement, &step);
        }
        assert!(placement.next_step().is_none_or(|step| step.why != Why::Leadership), "it ends");
        if !table(&placement).iter().any(Vec::is_empty) {
            let is: usize = leads(&placement).values().map(|count| count * count).sum();
            assert_eq!(is, most_even_leads(&table(&placement), &mut vec![]), "seed {seed}");
        }
    }
}

#[test]
fn many_buckets_and_nodes() {
    let all = (1..=300).map(|id| node_in(id, id % 5, id % 7, 1 + (id % 3) as u32)).collect();
    let mut placement = founded(2_048, 3, all);
    assert_eq!(burden(&placement).pairs, (0, 0));
    placement.advance(&Cut { joins: nodes(301..=303), leaves: ids(1..=1) }).expect("fits");
    assert!(placement.next_step().is_some());
}
