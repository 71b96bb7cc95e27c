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
        let changed = operation.changed();
        let is_changed = |seat: &&Seat| {
            seat.line(Which::Own).group.as_ref().is_some_and(|group| changed.contains(&group.name.id))
        };
        let seats: Vec<Seat> = seen.homes.values().filter(is_changed).cloned().collect();
        let home = operation.new_home(&seats).map(|home| seen.seat(home)).unwrap_or_default();
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
