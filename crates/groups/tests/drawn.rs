//! Any operations at the same time, each step of each anywhere in between, and what must hold after every one; and that broken
//! rules are noticed. Groups are single machines here that never fail; outcomes are one, as commitment over their logs makes them.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::ring;
use quorate_commit::TransactionId;
use quorate_groups::ring::{check, check_at_rest};
use quorate_groups::{Group, GroupId, Heir, Name, Operation, Parliament, Part, Stand};
use quorate_kernel::{NodeId, Rng};

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// One of the neighbours is not asked.
    NeighbourForgotten,
    /// A no is taken for a yes.
    NoIsIgnored,
    /// Whoever votes does not look at what the coordinator knew.
    OldKnowledge,
    /// Groups begin before all whose state they need are sealed.
    EarlyHeirs,
    /// Only the changed groups carry it out.
    NeighboursNotTold,
}

struct Deal {
    kind: &'static str,
    parts: BTreeMap<GroupId, Part>,
    votes: BTreeMap<GroupId, bool>,
    decision: Option<bool>,
    told: BTreeSet<GroupId>,
}

struct World {
    rng: Rng,
    broken: Broken,
    live: BTreeMap<GroupId, Parliament>,
    waiting: Vec<Heir>,
    ended: BTreeSet<Name>,
    /// Stands as they once were: what others may still believe.
    old: Vec<Stand>,
    deals: BTreeMap<TransactionId, Deal>,
    count: u64,
    /// How many operations of each kind.
    committed: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64, broken: Broken) -> World {
        let mut rng = Rng::new(seed);
        let count = rng.between(1, 6);
        let borders: BTreeSet<u64> = (0..count).map(|_| rng.next_u64()).collect();
        let groups = ring(&borders.into_iter().collect::<Vec<_>>());
        let live = groups.into_iter().map(|group| (group.stand().group.name.id, group)).collect();
        let (waiting, old) = (Vec::new(), Vec::new());
        let (ended, deals, committed) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        World { rng, broken, live, waiting, ended, old, deals, count: 100, committed }
    }

    fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A group as somebody believes it to be.
    fn believed(&mut self) -> Option<Stand> {
        let stands: Vec<Stand> = match self.rng.chance(1, 8) {
            true => self.old.clone(),
            false => self.live.values().map(|group| group.stand().clone()).collect(),
        };
        self.rng.pick(&stands).cloned()
    }

    fn draw_border(&mut self, group: &Group) -> u64 {
        let inside = self.rng.next_u64() % u64::try_from(group.span.width()).unwrap_or(u64::MAX);
        group.span.start.wrapping_add(inside)
    }

    fn draw(&mut self, own: &Stand, other: &Stand) -> Operation {
        let (group, after) = (&own.group, &own.after);
        let id = group.name.id;
        let names = [self.fresh(), self.fresh()].map(GroupId);
        match self.rng.below(5) {
            0 => {
                let come = self.rng.below(3);
                let add = (0..come).map(|_| NodeId(self.fresh())).collect();
                let remove = group.members.iter().copied().filter(|_| self.rng.chance(1, 4)).collect();
                Operation::Members { group: id, add, remove }
            }
            1 => {
                let first = group.members.iter().copied().filter(|_| self.rng.chance(1, 2)).collect();
                Operation::Split { group: id, border: self.draw_border(group), first, names }
            }
            2 => Operation::Merge { left: id, right: after.name.id, name: names[0] },
            3 => {
                let whose = if self.rng.chance(1, 2) { group } else { after };
                let border = self.draw_border(whose);
                Operation::Repartition { left: id, right: after.name.id, border }
            }
            _ => {
                let node = self.rng.pick(&group.members).copied().unwrap_or(NodeId(0));
                Operation::Migrate { node, from: id, to: other.group.name.id }
            }
        }
    }

    fn begin(&mut self) {
        let (Some(own), Some(other)) = (self.believed(), self.believed()) else { return };
        let operation = self.draw(&own, &other);
        let mut known = vec![own.clone()];
        // The other groups that change are asked for their stands.
        for id in operation.changed().into_iter().filter(|id| *id != own.group.name.id) {
            let current = self.live.get(&id).map(|group| group.stand().clone());
            known.extend(if self.rng.chance(1, 8) { Some(other.clone()) } else { current });
        }
        let Ok(mut parts) = operation.plan(&known) else { return };
        let changed = operation.changed();
        if self.broken == Broken::NeighbourForgotten
            && let Some(forgotten) = parts.keys().copied().find(|id| !changed.contains(id))
        {
            parts.remove(&forgotten);
        }
        let id = TransactionId { age: 0, origin: 1, sequence: self.fresh() };
        let kind = match operation {
            Operation::Members { .. } => "members",
            Operation::Split { .. } => "split",
            Operation::Merge { .. } => "merge",
            Operation::Repartition { .. } => "repartition",
            Operation::Migrate { .. } => "migrate",
        };
        let deal = Deal { kind, parts, votes: BTreeMap::new(), decision: None, told: BTreeSet::new() };
        self.deals.insert(id, deal);
    }

    /// One step of one deal.
    fn go_on(&mut self, id: TransactionId) {
        let broken = self.broken;
        let Some(deal) = self.deals.get_mut(&id) else { return };
        let Some(commits) = deal.decision else {
            let open: Vec<GroupId> =
                deal.parts.keys().filter(|id| !deal.votes.contains_key(id)).copied().collect();
            if let Some(group) = self.rng.pick(&open).copied().filter(|_| !self.rng.chance(1, 40)) {
                let mut part = deal.parts[&group].clone();
                let Some(voter) = self.live.get_mut(&group) else {
                    // Not there any more, or not yet.
                    deal.votes.insert(group, false);
                    return;
                };
                if broken == Broken::OldKnowledge {
                    believe(&mut part, voter.stand());
                }
                deal.votes.insert(group, voter.prepare(id, &part).is_ok());
                return;
            }
            // All have voted, or it has waited for too long.
            let no = deal.votes.values().filter(|yes| !**yes).count();
            let ignored = usize::from(broken == Broken::NoIsIgnored);
            deal.decision = Some(open.is_empty() && no <= ignored);
            return;
        };
        let untold: Vec<GroupId> = deal.parts.keys().filter(|id| !deal.told.contains(id)).copied().collect();
        let Some(group) = self.rng.pick(&untold).copied() else {
            *self.committed.entry(deal.kind).or_default() += u64::from(commits);
            self.deals.remove(&id);
            return;
        };
        deal.told.insert(group);
        let is_neighbour = matches!(deal.parts[&group].effect, quorate_groups::Effect::Neighbours { .. });
        if broken == Broken::NeighboursNotTold && is_neighbour {
            self.live.get_mut(&group).into_iter().for_each(|group| group.release(id));
            return;
        }
        let part = deal.parts[&group].clone();
        self.tell(group, id, commits.then_some(&part));
    }

    fn tell(&mut self, group: GroupId, id: TransactionId, happens: Option<&Part>) {
        let Some(told) = self.live.get_mut(&group) else { return };
        let before = told.stand().clone();
        match happens {
            Some(part) => told.carry_out(id, part),
            None => told.release(id),
        }
        if let Some(heirs) = told.heirs() {
            let heirs = heirs.to_vec();
            self.live.remove(&group);
            self.ended.insert(before.group.name);
            self.old.push(before);
            self.waiting.extend(heirs);
        }
        let early = self.broken == Broken::EarlyHeirs;
        let ended = &self.ended;
        let ready = |heir: &mut Heir| {
            let mut from = heir.from.iter();
            if early { from.any(|name| ended.contains(name)) } else { from.all(|name| ended.contains(name)) }
        };
        for heir in self.waiting.extract_if(.., ready).collect::<Vec<_>>() {
            // Several groups may have the same heir.
            self.live.entry(heir.stand.group.name.id).or_insert_with(|| Parliament::new(heir.stand));
        }
    }

    fn look(&self) -> Result<(), String> {
        check(&self.live.values().collect::<Vec<_>>())
    }

    fn run(mut self) -> Result<BTreeMap<&'static str, u64>, String> {
        for _ in 0..400 {
            match self.rng.chance(1, 6) && self.deals.len() < 6 {
                true => self.begin(),
                false => {
                    let ids: Vec<TransactionId> = self.deals.keys().copied().collect();
                    self.rng.pick(&ids).copied().into_iter().for_each(|id| self.go_on(id));
                }
            }
            self.look()?;
        }
        while let Some(id) = self.deals.keys().next().copied() {
            self.go_on(id);
            self.look()?;
        }
        if !self.waiting.is_empty() {
            return Err(format!("these never began: {:?}", self.waiting));
        }
        check_at_rest(&self.live.values().collect::<Vec<_>>())?;
        Ok(self.committed)
    }
}

/// Changes a part so that the voter believes it.
fn believe(part: &mut Part, stand: &Stand) {
    part.group = stand.group.name;
    for (border, pair) in &mut part.links {
        if *border == stand.group.span.start {
            *pair = (stand.before.name, stand.group.name);
        } else if *border == stand.group.span.end {
            *pair = (stand.group.name, stand.after.name);
        }
    }
}

#[test]
fn a_ring_stays_whole_whatever_happens_at_the_same_time() {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..2_000 {
        let one = World::new(seed, Broken::Nothing).run().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        one.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
    }
    println!("{all:?}");
    assert!(all.len() == 5 && all.values().all(|count| *count > 500), "{all:?}");
}

#[test]
fn every_broken_rule_is_noticed() {
    for broken in [
        Broken::NeighbourForgotten,
        Broken::NoIsIgnored,
        Broken::OldKnowledge,
        Broken::EarlyHeirs,
        Broken::NeighboursNotTold,
    ] {
        let found = (0..500).find_map(|seed| Some((seed, World::new(seed, broken).run().err()?)));
        let (seed, why) = found.unwrap_or_else(|| panic!("nobody noticed {broken:?}"));
        println!("{broken:?}: seed {seed}: {why}");
    }
}
