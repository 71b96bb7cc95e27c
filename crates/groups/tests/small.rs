//! Single operations, by hand.

mod common;

use std::collections::BTreeMap;

use common::ring;
use quorate_commit::TransactionId;
use quorate_groups::ring::{check, check_at_rest};
use quorate_groups::{Effect, GroupId, Misfit, Operation, Parliament, Part, Refusal, Span, Stand};
use quorate_kernel::NodeId;

fn id(sequence: u64) -> TransactionId {
    TransactionId { age: 0, origin: 1, sequence }
}

fn stands(groups: &[Parliament]) -> Vec<Stand> {
    groups.iter().map(|group| group.stand().clone()).collect()
}

fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<NodeId> {
    ids.into_iter().map(NodeId).collect()
}

fn agree(groups: &mut [Parliament], sequence: u64, parts: &BTreeMap<GroupId, Part>) {
    for group in groups.iter_mut() {
        if let Some(part) = parts.get(&group.stand().group.name.id) {
            group.prepare(id(sequence), part).expect("it fits");
        }
    }
}

/// Carries an operation out everywhere at once; the ring as it is then, in order.
fn happens(mut groups: Vec<Parliament>, operation: &Operation) -> Vec<Parliament> {
    let parts = operation.plan(&stands(&groups)).expect("it makes sense");
    agree(&mut groups, 1, &parts);
    let mut next: Vec<Parliament> = Vec::new();
    for mut group in groups {
        parts.get(&group.stand().group.name.id).into_iter().for_each(|part| group.carry_out(id(1), part));
        match group.heirs() {
            None => next.push(group),
            Some(heirs) => next.extend(heirs.iter().map(|heir| Parliament::new(heir.stand.clone()))),
        }
    }
    next.sort_by_key(|group| group.stand().group.span.start);
    next.dedup();
    check_at_rest(&next.iter().collect::<Vec<_>>()).expect("it is whole");
    next
}

fn split(group: u64, border: u64, first: &[u64], names: [u64; 2]) -> Operation {
    let first = nodes(first.iter().copied());
    Operation::Split { group: GroupId(group), border, first, names: names.map(GroupId) }
}

#[test]
fn a_split_makes_two_and_tells_both_neighbours() {
    // Scatter's figure 5.
    let groups = ring(&[0, 100, 200]);
    let parts = split(2, 150, &[20, 21], [7, 8]).plan(&stands(&groups)).expect("it makes sense");
    assert_eq!(parts.keys().copied().collect::<Vec<_>>(), [GroupId(1), GroupId(2), GroupId(3)]);
    let Effect::Neighbours { before: None, after: Some(after) } = &parts[&GroupId(1)].effect else {
        panic!("{:?}", parts[&GroupId(1)])
    };
    assert_eq!((after.name.id, after.span), (GroupId(7), Span { start: 100, end: 150 }));
    let Effect::Succeed(heirs) = &parts[&GroupId(2)].effect else { panic!("it ends") };
    assert_eq!(heirs.iter().map(|heir| heir.stand.group.members.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(heirs[1].stand.before, heirs[0].stand.group);
    let next = happens(groups, &split(2, 150, &[20, 21], [7, 8]));
    assert_eq!(next.len(), 4);
}

#[test]
fn rings_of_one_and_two_groups_change_as_any_other() {
    let one = ring(&[500]);
    check_at_rest(&one.iter().collect::<Vec<_>>()).expect("one group has everything");
    let two = happens(one, &split(1, 40, &[10], [5, 6]));
    assert_eq!(two.len(), 2);
    let add = Operation::Members { group: GroupId(5), add: nodes([99]), remove: nodes([10]) };
    let two = happens(two, &add);
    assert_eq!(two.iter().map(|group| group.stand().after.name.epoch).collect::<Vec<_>>(), [3, 2]);
    let moved = Operation::Repartition { left: GroupId(6), right: GroupId(5), border: 450 };
    let two = happens(two, &moved);
    let one = happens(two, &Operation::Merge { left: GroupId(5), right: GroupId(6), name: GroupId(9) });
    assert_eq!(one.len(), 1);
    let group = &one[0].stand().group;
    assert_eq!((group.span, group.members.clone()), (Span::whole(450), nodes([11, 12, 99])));
    let alone = Operation::Members { group: GroupId(9), add: nodes([7]), remove: Vec::new() };
    assert_eq!(happens(one, &alone)[0].stand().before.members, nodes([7, 11, 12, 99]));
}

#[test]
fn a_node_migrates_between_any_two_groups() {
    for (from, to) in [(1, 2), (2, 1), (1, 3), (4, 1)] {
        let node = NodeId(10 * from + 1);
        let migrate = Operation::Migrate { node, from: GroupId(from), to: GroupId(to) };
        let next = happens(ring(&[0, 100, 200, 300]), &migrate);
        let sizes: Vec<usize> = next.iter().map(|group| group.stand().group.members.len()).collect();
        assert_eq!((sizes[from as usize - 1], sizes[to as usize - 1]), (2, 4));
    }
}

#[test]
fn of_two_merges_that_meet_at_most_one_is_agreed_to() {
    // Scatter's figure 4: groups 2 and 3, and 3 and 4, of five.
    let mut groups = ring(&[0, 100, 200, 300, 400]);
    let merge = |left, right, name| Operation::Merge {
        left: GroupId(left),
        right: GroupId(right),
        name: GroupId(name),
    };
    let first = merge(2, 3, 7).plan(&stands(&groups)).expect("it makes sense");
    let second = merge(3, 4, 8).plan(&stands(&groups)).expect("it makes sense");
    // Each coordinator has locked its own links.
    groups[1].prepare(id(1), &first[&GroupId(2)]).expect("free");
    groups[2].prepare(id(2), &second[&GroupId(3)]).expect("free");
    let refused = groups[2].prepare(id(1), &first[&GroupId(3)]);
    assert_eq!(refused, Err(Refusal::Locked { border: 200, by: id(2) }));
    assert!(groups[1].prepare(id(2), &second[&GroupId(2)]).is_err());
    groups[1].release(id(1));
    groups[2].release(id(2));
    let again = merge(2, 3, 7).plan(&stands(&groups)).expect("it makes sense");
    agree(&mut groups, 3, &again);
    // Two apart, nothing is in the way.
    let change = Operation::Members { group: GroupId(5), add: nodes([99]), remove: Vec::new() };
    let change = change.plan(&stands(&groups)).expect("it makes sense");
    assert_eq!(groups.iter().filter(|group| group.is_open()).count(), 4, "1 to 4");
    agree(&mut groups, 4, &change);
    check(&groups.iter().collect::<Vec<_>>()).expect("nothing has happened");
}

#[test]
fn what_is_out_of_date_is_refused() {
    let old = ring(&[0, 100, 200]);
    let add = Operation::Members { group: GroupId(2), add: nodes([99]), remove: Vec::new() };
    let mut new = happens(ring(&[0, 100, 200]), &add);
    for operation in [
        split(2, 150, &[20], [7, 8]),
        Operation::Repartition { left: GroupId(1), right: GroupId(2), border: 50 },
        Operation::Members { group: GroupId(1), add: nodes([98]), remove: Vec::new() },
    ] {
        for (group, part) in operation.plan(&stands(&old)).expect("it made sense") {
            let place = new.iter_mut().find(|it| it.stand().group.name.id == group).expect("it is there");
            let knows = !part.links.values().any(|(left, right)| [left.id, right.id].contains(&GroupId(2)));
            let vote = place.prepare(id(2), &part);
            assert_eq!(vote.is_ok(), knows, "{operation:?} at {group:?}: {vote:?}");
            place.release(id(2));
        }
    }
}

#[test]
fn groups_that_were_seen_at_different_times_are_not_planned_with() {
    // Found by seed 84 of the drawn runs: group 1 has become 7 and 8, and 3 knows that. A plan that believed both stands asked 1 for nothing,
    // and its node became a member of two groups.
    let old = ring(&[0, 100, 200]);
    let new = happens(ring(&[0, 100, 200]), &split(1, 50, &[10, 11], [7, 8]));
    let seen = [old[0].stand().clone(), new[3].stand().clone()];
    let migrate = Operation::Migrate { node: NodeId(10), from: GroupId(1), to: GroupId(3) };
    assert_eq!(seen[1].group.name.id, GroupId(3));
    assert_eq!(migrate.plan(&seen), Err(Misfit::Contradiction(GroupId(3))));
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    let groups = stands(&ring(&[0, 100, 200]));
    let plan = |operation: Operation| operation.plan(&groups).map(|_| ()).expect_err("it makes no sense");
    let members = |add: &[u64], remove: &[u64]| Operation::Members {
        group: GroupId(1),
        add: nodes(add.iter().copied()),
        remove: nodes(remove.iter().copied()),
    };
    assert_eq!(plan(members(&[10], &[])), Misfit::Member(NodeId(10)));
    assert_eq!(plan(members(&[], &[20])), Misfit::NoMember(NodeId(20)));
    assert_eq!(plan(members(&[20], &[])), Misfit::Members, "it is the neighbour's");
    assert_eq!(plan(split(1, 50, &[], [7, 8])), Misfit::Members);
    let mut torn = groups[0].clone();
    torn.after.span.start += 1;
    let alone = Operation::Members { group: GroupId(1), add: nodes([99]), remove: Vec::new() };
    assert_eq!(alone.plan(&[torn]), Err(Misfit::Contradiction(GroupId(1))));
    assert_eq!(plan(members(&[], &[])), Misfit::Nothing);
    assert_eq!(plan(members(&[], &[10, 11, 12])), Misfit::Members);
    assert_eq!(plan(members(&(100..170).collect::<Vec<_>>(), &[])), Misfit::Members);
    assert_eq!(plan(split(1, 100, &[10], [7, 8])), Misfit::Border(100));
    assert_eq!(plan(split(1, 50, &[10, 11, 12], [7, 8])), Misfit::Members);
    assert_eq!(plan(split(1, 50, &[10], [7, 7])), Misfit::NameTaken(GroupId(7)));
    assert_eq!(plan(split(1, 50, &[10], [7, 3])), Misfit::NameTaken(GroupId(3)));
    assert_eq!(plan(split(4, 50, &[10], [7, 8])), Misfit::Unknown(GroupId(4)));
    let (left, right) = (GroupId(2), GroupId(1));
    assert_eq!(plan(Operation::Merge { left, right, name: GroupId(9) }), Misfit::NotNeighbours(left, right));
    assert_eq!(plan(Operation::Repartition { left: right, right: left, border: 100 }), Misfit::Nothing);
    assert_eq!(plan(Operation::Repartition { left: right, right: left, border: 201 }), Misfit::Border(201));
    let migrate = Operation::Migrate { node: NodeId(10), from: GroupId(2), to: GroupId(1) };
    assert_eq!(plan(migrate).to_string(), "node 10 is no member");
}
