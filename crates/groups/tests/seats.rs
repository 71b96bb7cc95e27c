//! Operations as what they replace at homes: whatever whoever plans them believes, what fits keeps the ring whole.

use std::collections::{BTreeMap, BTreeSet};

use quorate_groups::{Edits, Group, GroupId, Operation, Seat, Which};
use quorate_kernel::{NodeId, Rng};

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Lines are replaced whatever they say by then.
    Uncompared,
    /// Lines are replaced where they are as expected, though others are not.
    InPart,
    /// The neighbours' lines are left as they are.
    NeighboursLeft,
}

#[derive(Clone, Default)]
struct World {
    homes: BTreeMap<u64, Seat>,
    /// The greatest epoch that was responsible, by position of a home.
    epochs: BTreeMap<u64, u64>,
}

impl World {
    fn seat(&self, home: u64) -> Seat {
        self.homes.get(&home).cloned().unwrap_or_default()
    }

    fn groups(&self) -> Vec<Group> {
        self.homes.values().filter_map(|seat| seat.line(Which::Own).group.as_deref().cloned()).collect()
    }

    /// Carries it out, if it fits.
    fn apply(&mut self, edits: &Edits, broken: Broken) -> bool {
        let fits =
            |(home, which): &(u64, Which)| self.seat(*home).line(*which).number == edits[&(*home, *which)].on;
        if [Broken::Nothing, Broken::NeighboursLeft].contains(&broken) && !edits.keys().all(fits) {
            return false;
        }
        for ((home, which), edit) in edits {
            let mut edit = edit.clone();
            let seat = self.homes.entry(*home).or_default();
            if broken == Broken::Uncompared {
                edit.on = seat.line(*which).number;
                edit.line.number = edit.line.number.max(edit.on + 1);
            }
            seat.apply(*which, &edit);
        }
        true
    }

    fn check(&mut self) -> Result<(), String> {
        let mut nodes = BTreeSet::new();
        let groups = self.groups();
        for group in &groups {
            if !group.members.iter().all(|node| nodes.insert(*node)) {
                return Err(format!("a member of {group:?} is in another group"));
            }
            let next = self.seat(group.span.end);
            let own = self.seat(group.span.start);
            if own.line(Which::After).group != next.line(Which::Own).group
                || next.line(Which::Before).group.as_deref() != Some(group)
            {
                return Err(format!("{group:?} and the next do not know each other: {own:?} {next:?}"));
            }
            let (end, begin) = (own.line(Which::After), next.line(Which::Before));
            if end.link != begin.link {
                return Err("the lines of a link were replaced apart".into());
            }
            if end.number != next.far(Which::Before) || begin.number != own.far(Which::After) {
                return Err("the lines of a link are not those that the other end tells".into());
            }
            for (home, epoch) in self.epochs.iter_mut().filter(|(home, _)| group.span.contains(**home)) {
                if *epoch > group.name.epoch {
                    return Err(format!("at {home} {group:?} follows one of epoch {epoch}"));
                }
                *epoch = group.name.epoch;
            }
        }
        let width: u128 = groups.iter().map(|group| group.span.width()).sum();
        if width != 1 << 64 { Err(format!("{width} positions have groups")) } else { Ok(()) }
    }
}

fn draw(rng: &mut Rng, world: &World, own: &Group, fresh: &mut u64) -> Operation {
    let mut next = || {
        *fresh += 1;
        *fresh
    };
    let names = [next(), next()].map(GroupId);
    // Homes are at a few borders alone, so that many are used again.
    let border = rng.below(12) << 60;
    let id = own.name.id;
    let seat = world.seat(own.span.start);
    let after = seat.line(Which::After).group.as_ref().map_or(id, |group| group.name.id);
    match rng.below(5) {
        0 => {
            let add = (0..rng.below(3)).map(|_| NodeId(next())).collect();
            let remove = own.members.iter().copied().filter(|_| rng.chance(1, 4)).collect();
            Operation::Members { group: id, add, remove }
        }
        1 => {
            let first = own.members.iter().copied().filter(|_| rng.chance(1, 2)).collect();
            Operation::Split { group: id, border, first, names }
        }
        2 => Operation::Merge { left: id, right: after, name: names[0] },
        3 => Operation::Repartition { left: id, right: after, border },
        _ => {
            let groups = world.groups();
            let to = rng.pick(&groups).map_or(id, |group| group.name.id);
            let node = rng.pick(&own.members).copied().unwrap_or(NodeId(0));
            Operation::Migrate { node, from: id, to }
        }
    }
}

/// The homes of the groups that an operation changes, and the one that it makes.
fn concerned(seen: &World, operation: &Operation) -> (Vec<Seat>, Seat) {
    let changed = operation.changed();
    let is_changed = |seat: &&Seat| {
        seat.line(Which::Own).group.as_ref().is_some_and(|group| changed.contains(&group.name.id))
    };
    let seats: Vec<Seat> = seen.homes.values().filter(is_changed).cloned().collect();
    let home = operation.new_home(&seats).map(|home| seen.seat(home)).unwrap_or_default();
    (seats, home)
}

/// Plans and carries out operations, some by what was true a while ago; how many happened, or what broke.
fn run(seed: u64, broken: Broken) -> Result<usize, String> {
    let mut rng = Rng::new(seed);
    let mut world = World::default();
    world.homes.insert(0, Seat::founded(Group::founded((1..=7).map(NodeId).collect())));
    world.epochs = (0..12).map(|place| (place << 60, 0)).collect();
    let (mut old, mut fresh, mut done) = (vec![world.clone()], 100, 0);
    for _ in 0..120 {
        let seen = if rng.chance(1, 3) { rng.pick(&old).cloned().unwrap_or_default() } else { world.clone() };
        let Some(own) = rng.pick(&seen.groups()).cloned() else { continue };
        let operation = draw(&mut rng, &seen, &own, &mut fresh);
        let (seats, home) = concerned(&seen, &operation);
        let Ok(mut edits) = operation.edits(&seats, &home) else { continue };
        if broken == Broken::NeighboursLeft {
            let own = |home: &u64| {
                seats.iter().any(|seat| {
                    seat.line(Which::Own).group.as_ref().is_some_and(|own| own.span.start == *home)
                })
            };
            edits.retain(|(home, _), edit| own(home) || edit.on == 0);
        }
        done += usize::from(world.apply(&edits, broken));
        world.check().map_err(|wrong| format!("{operation:?}: {wrong}"))?;
        old.push(world.clone());
        if old.len() > 8 {
            old.remove(0);
        }
    }
    Ok(done)
}

#[test]
fn what_fits_keeps_the_ring_whole() {
    let mut done = 0;
    for seed in 0..400 {
        done += run(seed, Broken::Nothing).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(done > 8_000, "{done} operations are few");
}

#[test]
fn broken_rules_are_noticed() {
    for broken in [Broken::Uncompared, Broken::InPart, Broken::NeighboursLeft] {
        let noticed = (0..50).any(|seed| run(seed, broken).is_err());
        assert!(noticed, "{broken:?} was not noticed");
    }
}

/// The newest group that any home names for a position, as nodes reckon it.
fn newest(world: &World, position: u64) -> Option<Group> {
    let named = world.homes.values().flat_map(Seat::groups);
    let covers = named.filter(|group| group.span.contains(position));
    covers.max_by_key(|group| group.name.epoch).cloned()
}

/// A home puts right what it lacks, if it can be told.
fn mend(world: &World, home: u64) -> Option<Seat> {
    let (seat, known) = (world.seat(home), newest(world, home)?);
    if known.span.start != home {
        let own = seat.line(Which::Own).group.as_ref()?;
        return (own.name.epoch < known.name.epoch).then(|| seat.vacated());
    }
    let beside = |position| newest(world, position).map(|group| world.seat(group.span.start));
    seat.mended(home, &beside(home.wrapping_sub(1))?, &beside(known.span.end)?)
}

/// A ring after some operations, as it was before each of the last few.
fn grown(rng: &mut Rng) -> (World, Vec<World>) {
    let mut world = World::default();
    world.homes.insert(0, Seat::founded(Group::founded((1..=7).map(NodeId).collect())));
    let (mut old, mut fresh) = (Vec::new(), 100);
    for _ in 0..rng.between(5, 60) {
        let Some(own) = rng.pick(&world.groups()).cloned() else { continue };
        let operation = draw(rng, &world, &own, &mut fresh);
        let (seats, home) = concerned(&world, &operation);
        let Ok(edits) = operation.edits(&seats, &home) else { continue };
        old.push(world.clone());
        assert!(world.apply(&edits, Broken::Nothing));
    }
    (world, old)
}

/// A ring of which some homes lack the last operations, and what they were.
fn poorer(rng: &mut Rng, homes: u64) -> Option<(World, World, Vec<u64>)> {
    let (world, old) = grown(rng);
    let before = old.iter().rev().nth(rng.below(4) as usize)?;
    let mut poorer = world.clone();
    let mut all: Vec<u64> = world.homes.keys().copied().collect();
    rng.shuffle(&mut all);
    all.truncate(homes as usize);
    for home in &all {
        poorer.homes.insert(*home, before.seat(*home));
    }
    Some((world, poorer, all))
}

/// All homes are mended in any order, until none is.
fn mend_all(poorer: &mut World, rng: &mut Rng) -> bool {
    for _ in 0..20 {
        let mut homes: Vec<u64> = poorer.homes.keys().copied().collect();
        rng.shuffle(&mut homes);
        let mut is_done = true;
        for home in homes {
            if let Some(mended) = mend(poorer, home) {
                poorer.homes.insert(home, mended);
                is_done = false;
            }
        }
        if is_done {
            return true;
        }
    }
    false
}

#[test]
fn a_home_that_has_lost_its_last_operations_is_told_by_its_neighbours() {
    let (mut lost, mut alone) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let Some((world, mut poorer, homes)) = poorer(&mut rng, 1) else { continue };
        let home = homes[0];
        if world.groups().len() == 1 && newest(&world, 0).is_some_and(|group| group.span.start == home) {
            // Nobody else knows.
            alone += 1;
            continue;
        }
        lost += u64::from(poorer.seat(home) != world.seat(home));
        assert!(mend_all(&mut poorer, &mut rng), "seed {seed}: it has no end");
        poorer.epochs = BTreeMap::new();
        let (wrong, is, was) = (poorer.check(), poorer.seat(home), world.seat(home));
        assert_eq!((wrong, is.stand()), (Ok(()), was.stand()), "seed {seed}: {is:?} {was:?}");
        let is_home = was.stand().is_some();
        assert!(
            !is_home || is.age() >= was.age(),
            "seed {seed}: others remember the older one: {is:?} {was:?}"
        );
        let others = homes.iter().filter(|other| **other != home);
        others.for_each(|other| {
            assert_eq!(poorer.seat(*other), world.seat(*other), "seed {seed}: it has lost nothing")
        });
    }
    assert!(lost > 500 && alone < lost / 2, "{lost} homes lacked something, {alone} alone");
}

#[test]
fn homes_that_have_lost_something_together_are_told_as_long_as_somebody_knows() {
    let (mut whole, mut torn) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let homes = rng.between(2, 4);
        let Some((world, mut poorer, _)) = poorer(&mut rng, homes) else { continue };
        if poorer.homes == world.homes || world.groups().len() < 3 {
            continue;
        }
        assert!(mend_all(&mut poorer, &mut rng), "seed {seed}: it has no end");
        poorer.epochs = BTreeMap::new();
        match poorer.check() {
            Ok(()) => whole += 1,
            // Nobody else knew all of it.
            Err(_) => torn += 1,
        }
    }

    assert!(torn < whole / 10, "{whole} rings were whole again, {torn} were not");
}
