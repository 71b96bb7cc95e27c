//! Single operations, by hand.

use std::collections::BTreeMap;

use quorate_groups::{Edits, Group, GroupId, Line, Misfit, Name, Operation, Seat, Span, Which};
use quorate_kernel::NodeId;

type Ring = BTreeMap<u64, Seat>;

/// A ring whose groups begin at these borders; group `n` has the nodes `10 n` to `10 n + 2`.
fn ring(borders: &[u64]) -> Ring {
    let count = borders.len();
    let group = |index: usize| {
        let (start, end) = (borders[index % count], borders[(index + 1) % count]);
        let id = (index % count) as u64 + 1;
        let members = (10 * id..10 * id + 3).map(NodeId).collect();
        Group { name: Name { id: GroupId(id), epoch: 1 }, span: Span { start, end }, members }
    };
    let line = |index: usize| Line { number: 1, link: 1, group: Some(group(index).into()) };
    let seat = |index: usize| Seat::new(line(index), line(index + count - 1), line(index + 1));
    (0..count).map(|index| (borders[index], seat(index))).collect()
}

fn own(seat: &Seat) -> Option<&Group> {
    seat.line(Which::Own).group.as_deref()
}

fn edits(ring: &Ring, operation: &Operation) -> Result<Edits, Misfit> {
    let changed = operation.changed();
    let is_changed = |seat: &&Seat| own(seat).is_some_and(|group| changed.contains(&group.name.id));
    let seats: Vec<Seat> = ring.values().filter(is_changed).cloned().collect();
    let fresh = operation.new_home(&seats).and_then(|home| ring.get(&home).cloned()).unwrap_or_default();
    operation.edits(&seats, &fresh)
}

/// Carries it out; whether it fits.
fn apply(ring: &mut Ring, edits: &Edits) -> bool {
    let number = |home: &u64, which: &Which| ring.get(home).map_or(0, |seat: &Seat| seat.line(*which).number);
    let fits = edits.iter().all(|((home, which), edit)| number(home, which) == edit.on);
    for ((home, which), edit) in edits.iter().filter(|_| fits) {
        assert!(ring.entry(*home).or_default().apply(*which, edit));
    }
    fits
}

/// Carries an operation out; the groups as they are then, in order.
fn happens(ring: &mut Ring, operation: &Operation) -> Vec<Group> {
    let edits = edits(ring, operation).expect("it makes sense");
    assert!(apply(ring, &edits));
    for seat in ring.values().filter(|seat| own(seat).is_some()) {
        let stand = seat.stand().expect("it knows its neighbours");
        assert_eq!(ring[&stand.group.span.end].line(Which::Before).group.as_deref(), Some(&stand.group));
    }
    ring.values().filter_map(own).cloned().collect()
}

fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<NodeId> {
    ids.into_iter().map(NodeId).collect()
}

fn split(group: u64, border: u64, first: &[u64], names: [u64; 2]) -> Operation {
    let first = nodes(first.iter().copied());
    Operation::Split { group: GroupId(group), border, first, names: names.map(GroupId) }
}

#[test]
fn a_split_makes_two_and_tells_both_neighbours() {
    // Scatter's figure 5.
    let mut ring = ring(&[0, 100, 200]);
    let edits = edits(&ring, &split(2, 150, &[20, 21], [7, 8])).expect("it makes sense");
    let all = |home| Which::ALL.map(|which| (home, which));
    let expected = [&[(0, Which::After)][..], &all(100), &all(150), &[(200, Which::Before)]].concat();
    assert_eq!(edits.keys().copied().collect::<Vec<_>>(), expected);
    assert!(edits.values().all(|edit| edit.line.number == 2));
    assert!(apply(&mut ring, &edits));
    let groups: Vec<&Group> = ring.values().filter_map(own).collect();
    let sizes: Vec<(u64, usize, u64)> =
        groups.iter().map(|group| (group.name.id.0, group.members.len(), group.name.epoch)).collect();
    assert_eq!(sizes, [(1, 3, 1), (7, 2, 2), (8, 1, 2), (3, 3, 1)]);
    assert_eq!(ring[&0].line(Which::After).group.as_deref(), Some(groups[1]));
    assert_eq!(ring[&150].line(Which::Before).group.as_deref(), Some(groups[1]));
}

#[test]
fn rings_of_one_and_two_groups_change_as_any_other() {
    let mut ring = ring(&[500]);
    assert_eq!(happens(&mut ring, &split(1, 40, &[10], [5, 6])).len(), 2);
    let add = Operation::Members { group: GroupId(5), add: nodes([99]), remove: nodes([10]) };
    let two = happens(&mut ring, &add);
    assert_eq!(two.iter().map(|group| group.name.epoch).collect::<Vec<_>>(), [2, 3]);
    let moved = Operation::Repartition { left: GroupId(6), right: GroupId(5), border: 450 };
    let two = happens(&mut ring, &moved);
    assert_eq!(two.iter().map(|group| group.name.epoch).collect::<Vec<_>>(), [4, 4], "above both");
    let one = happens(&mut ring, &Operation::Merge { left: GroupId(5), right: GroupId(6), name: GroupId(9) });
    assert_eq!(one.len(), 1);
    assert_eq!((one[0].span, one[0].members.clone()), (Span::whole(450), nodes([11, 12, 99])));
    let alone = Operation::Members { group: GroupId(9), add: nodes([7]), remove: Vec::new() };
    assert_eq!(happens(&mut ring, &alone)[0].members, nodes([7, 11, 12, 99]));
    // A home that was one before.
    assert_eq!(happens(&mut ring, &split(9, 40, &[7], [20, 21])).len(), 2);
}

#[test]
fn a_node_migrates_between_any_two_groups() {
    for (from, to) in [(1, 2), (2, 1), (1, 3), (4, 1)] {
        let node = NodeId(10 * from + 1);
        let migrate = Operation::Migrate { node, from: GroupId(from), to: GroupId(to) };
        let next = happens(&mut ring(&[0, 100, 200, 300]), &migrate);
        let sizes: Vec<usize> = next.iter().map(|group| group.members.len()).collect();
        assert_eq!((sizes[from as usize - 1], sizes[to as usize - 1]), (2, 4));
    }
}

#[test]
fn of_two_merges_that_meet_one_happens_and_two_apart_both() {
    // Scatter's figure 4: groups 2 and 3, and 3 and 4, of five.
    let mut ring = ring(&[0, 100, 200, 300, 400]);
    let merge = |left, right, name| Operation::Merge {
        left: GroupId(left),
        right: GroupId(right),
        name: GroupId(name),
    };
    let [first, second] =
        [merge(2, 3, 7), merge(3, 4, 8)].map(|merge| edits(&ring, &merge).expect("it makes sense"));
    let change = Operation::Members { group: GroupId(5), add: nodes([99]), remove: Vec::new() };
    let change = edits(&ring, &change).expect("it makes sense");
    assert!(apply(&mut ring, &first));
    assert!(!apply(&mut ring, &second), "group 3 is no more");
    assert!(apply(&mut ring, &change), "nothing is in its way");
}

#[test]
fn groups_that_were_seen_at_different_times_are_not_planned_with() {
    // Group 1 has become 7 and 8, and 3 knows that. A plan that believed both would ask 1 for nothing.
    let old = ring(&[0, 100, 200]);
    let mut new = old.clone();
    happens(&mut new, &split(1, 50, &[10, 11], [7, 8]));
    let seen = [old[&0].clone(), new[&200].clone()];
    let migrate = Operation::Migrate { node: NodeId(10), from: GroupId(1), to: GroupId(3) };
    assert_eq!(migrate.edits(&seen, &Seat::default()), Err(Misfit::Contradiction(GroupId(3))));
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    let ring = ring(&[0, 100, 200]);
    let plan = |operation: Operation| edits(&ring, &operation).expect_err("it makes no sense");
    let members = |add: &[u64], remove: &[u64]| Operation::Members {
        group: GroupId(1),
        add: nodes(add.iter().copied()),
        remove: nodes(remove.iter().copied()),
    };
    assert_eq!(plan(members(&[10], &[])), Misfit::Member(NodeId(10)));
    assert_eq!(plan(members(&[], &[20])), Misfit::NoMember(NodeId(20)));
    assert_eq!(plan(members(&[20], &[])), Misfit::Members, "it is the neighbour's");
    assert_eq!(plan(split(1, 50, &[], [7, 8])), Misfit::Members);
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

#[test]
fn names_are_read_as_they_are_written() {
    for id in [GroupId(1), GroupId(0xfe2)] {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    assert!(["", "g", "12", "gx", "g-1"].iter().all(|text| text.parse::<GroupId>().is_err()));
}

#[test]
fn neighbours_change_their_members_at_the_same_time() {
    for borders in [&[0, 1 << 62, 1 << 63][..], &[0, 1 << 63]] {
        let mut ring = ring(borders);
        let change = |id: u64| Operation::Members {
            group: GroupId(id),
            add: nodes([10 * id + 5]),
            remove: nodes([10 * id]),
        };
        // Both are planned before either happens.
        let (first, second) = (edits(&ring, &change(1)), edits(&ring, &change(2)));
        for edits in [first, second] {
            assert!(apply(&mut ring, &edits.expect("it makes sense")), "{borders:?}");
        }
        let groups =
            happens(&mut ring, &Operation::Members { group: GroupId(1), add: nodes([16]), remove: vec![] });
        assert_eq!(groups[0].members, nodes([11, 12, 15, 16]));
        assert_eq!(groups[1].members, nodes([21, 22, 25]));
        // A border between them was planned on what they were.
        let moved = Operation::Repartition { left: GroupId(1), right: GroupId(2), border: 1 << 61 };
        let planned = edits(&ring, &moved).expect("it makes sense");
        happens(&mut ring, &change_back(2));
        assert!(!apply(&mut ring, &planned), "{borders:?}");
    }
}

#[test]
fn neighbours_that_took_in_the_same_nodes_let_them_go() {
    let mut ring = ring(&[0, 100, 200]);
    let change = |id: u64, add: &[u64], remove: &[u64]| Operation::Members {
        group: GroupId(id),
        add: nodes(add.iter().copied()),
        remove: nodes(remove.iter().copied()),
    };
    let both = [1, 2].map(|id| edits(&ring, &change(id, &[5, 6, 7], &[])).expect("it makes sense"));
    assert!(both.iter().all(|edits| apply(&mut ring, edits)));
    assert_eq!(edits(&ring, &change(3, &[5], &[])), Err(Misfit::Members), "two are enough");
    happens(&mut ring, &change(1, &[], &[5]));
    assert_eq!(edits(&ring, &change(1, &[5], &[])), Err(Misfit::Members), "it is the neighbour's now");
    happens(&mut ring, &split(2, 150, &[5, 6, 20], [7, 8]));
    let groups = happens(&mut ring, &change(1, &[], &[6, 7]));
    assert_eq!(groups[0].members, nodes([10, 11, 12]));
    assert_eq!([&groups[1].members, &groups[2].members], [&nodes([5, 6, 20]), &nodes([7, 21, 22])]);
}

fn change_back(id: u64) -> Operation {
    Operation::Members { group: GroupId(id), add: nodes([10 * id]), remove: nodes([10 * id + 5]) }
}
