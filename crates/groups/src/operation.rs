//! What can be done to groups, and what it means for each group concerned (Scatter 4.2; Table of operations: member change, split,
//! merge, migrate, repartition).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use quorate_kernel::NodeId;

use crate::group::{Group, GroupId, MEMBERS_MAX, Misfit, Name, Stand};
use crate::span::Span;

/// Something that changes the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nodes come and go, any number at once.
    Members {
        /// Whose.
        group: GroupId,
        /// Who becomes a member.
        add: Vec<NodeId>,
        /// Who is one no more.
        remove: Vec<NodeId>,
    },
    /// One group becomes two, which divide its span and its members.
    Split {
        /// Which.
        group: GroupId,
        /// Where the second begins.
        border: u64,
        /// The members of the first; the others are the second's.
        first: Vec<NodeId>,
        /// Names of the two.
        names: [GroupId; 2],
    },
    /// Two neighbours become one.
    Merge {
        /// The first.
        left: GroupId,
        /// The one that follows it.
        right: GroupId,
        /// Name of the one.
        name: GroupId,
    },
    /// Neighbours move the border between them.
    Repartition {
        /// The first.
        left: GroupId,
        /// The one that follows it.
        right: GroupId,
        /// Where the second begins from now on.
        border: u64,
    },
    /// A member of one group becomes one of another.
    Migrate {
        /// Who.
        node: NodeId,
        /// From which group.
        from: GroupId,
        /// To which.
        to: GroupId,
    },
}

/// What an operation makes of a stretch of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The groups that go on in the place of those that change.
    pub(crate) heirs: Vec<Stand>,
    /// Neighbours that stay as they are: who stands before and after them then, if that is somebody else or changes.
    pub(crate) neighbours: Vec<(Group, [Option<Group>; 2])>,
}

/// What is known of a stretch of the ring: groups, and who follows whom at which border.
#[derive(Debug, Clone, Default)]
struct Sight {
    groups: BTreeMap<GroupId, Group>,
    links: BTreeMap<u64, (GroupId, GroupId)>,
}

impl Sight {
    /// Puts stands together. If one contradicts another, they were not seen at the same time: a group that changes could be
    /// taken for one that nobody has to ask.
    fn of(stands: &[Stand]) -> Result<Sight, Misfit> {
        let mut sight = Sight::default();
        for stand in stands {
            for group in [&stand.before, &stand.group, &stand.after] {
                let id = group.name.id;
                if sight.groups.entry(id).or_insert_with(|| group.clone()) != group {
                    return Err(Misfit::Contradiction(id));
                }
            }
            let Stand { group, before, after } = stand;
            if before.span.end != group.span.start || group.span.end != after.span.start {
                return Err(Misfit::Contradiction(group.name.id));
            }
            let (before, id, after) = (stand.before.name.id, stand.group.name.id, stand.after.name.id);
            for (border, pair) in
                [(stand.group.span.start, (before, id)), (stand.group.span.end, (id, after))]
            {
                if *sight.links.entry(border).or_insert(pair) != pair {
                    return Err(Misfit::Contradiction(id));
                }
            }
        }
        Ok(sight)
    }

    fn group(&self, id: GroupId) -> Result<&Group, Misfit> {
        self.groups.get(&id).ok_or(Misfit::Unknown(id))
    }

    /// Both, if the second follows the first.
    fn pair(&self, left: GroupId, right: GroupId) -> Result<(&Group, &Group), Misfit> {
        let pair = (self.group(left)?, self.group(right)?);
        let follows = self.links.get(&pair.1.span.start) == Some(&(left, right));
        if follows && left != right { Ok(pair) } else { Err(Misfit::NotNeighbours(left, right)) }
    }
}

/// What an operation makes of groups: for each that ends or changes, those that go on in its place, in order.
type Heirs = BTreeMap<GroupId, Vec<Group>>;

impl Operation {
    /// The groups that it changes. Their stands have to be known to plan it.
    pub fn changed(&self) -> Vec<GroupId> {
        match self {
            Operation::Members { group, .. } | Operation::Split { group, .. } => vec![*group],
            Operation::Merge { left, right, .. } | Operation::Repartition { left, right, .. } => {
                vec![*left, *right]
            }
            Operation::Migrate { from, to, .. } => vec![*from, *to],
        }
    }

    /// What it makes of the groups that it changes, and of their neighbours. `stands` are those of the groups that it changes; they
    /// may be out of date.
    pub(crate) fn plan(&self, stands: &[Stand]) -> Result<Plan, Misfit> {
        for id in self.changed() {
            if !stands.iter().any(|stand| stand.group.name.id == id) {
                return Err(Misfit::Unknown(id));
            }
        }
        let old = Sight::of(stands)?;
        let heirs = self.heirs(&old)?;
        check(&old, &heirs)?;
        let new = self.after(&old, &heirs);
        let touches = |pair: &(GroupId, GroupId)| heirs.contains_key(&pair.0) || heirs.contains_key(&pair.1);
        let touched: BTreeMap<u64, (GroupId, GroupId)> = old
            .links
            .iter()
            .filter(|(_, pair)| touches(pair))
            .map(|(border, pair)| (*border, *pair))
            .collect();
        let concerned: BTreeSet<GroupId> =
            touched.values().flat_map(|(left, right)| [*left, *right]).collect();
        let mut plan = Plan { heirs: Vec::new(), neighbours: Vec::new() };
        for group in heirs.values().flatten() {
            // The one that two become is the heir of both.
            if !plan.heirs.iter().any(|heir| heir.group == *group) {
                plan.heirs.push(stand(&new, group));
            }
        }
        for id in concerned.into_iter().filter(|id| !heirs.contains_key(id)) {
            let own = &new.groups[&id];
            let beside = |border: u64, before: bool| {
                touched.contains_key(&border).then(|| {
                    let (left, right) = new.links[&border];
                    new.groups[if before { &left } else { &right }].clone()
                })
            };
            let both = [beside(own.span.start, true), beside(own.span.end, false)];
            plan.neighbours.push((own.clone(), both));
        }
        Ok(plan)
    }

    fn heirs(&self, sight: &Sight) -> Result<Heirs, Misfit> {
        match self {
            Operation::Members { group, add, remove } => {
                let known = sight.group(*group)?;
                let members = changed_members(known, add, remove)?;
                Ok([(*group, vec![follow(&[known], *group, known.span, members)])].into())
            }
            Operation::Split { group, border, first, names } => {
                let known = sight.group(*group)?;
                let (left, right) = known.span.cut(*border).ok_or(Misfit::Border(*border))?;
                if first.is_empty() {
                    return Err(Misfit::Members);
                }
                let rest = changed_members(known, &[], first)?;
                let halves = [(left, sorted(first)), (right, rest)];
                let born = halves.into_iter().zip(names);
                let born = born.map(|((span, members), id)| follow(&[known], *id, span, members));
                Ok([(*group, born.collect())].into())
            }
            Operation::Merge { left, right, name } => {
                let (first, second) = sight.pair(*left, *right)?;
                let span = first.span.joined(second.span).ok_or(Misfit::NotNeighbours(*left, *right))?;
                let members = sorted(&[&first.members[..], &second.members].concat());
                let one = vec![follow(&[first, second], *name, span, members)];
                Ok([(*left, one.clone()), (*right, one)].into())
            }
            Operation::Repartition { left, right, border } => {
                let (first, second) = sight.pair(*left, *right)?;
                let both = first.span.joined(second.span).ok_or(Misfit::NotNeighbours(*left, *right))?;
                let (now_first, now_second) = both.cut(*border).ok_or(Misfit::Border(*border))?;
                if now_first == first.span {
                    return Err(Misfit::Nothing);
                }
                let changed = |group: &Group, span| {
                    vec![follow(&[first, second], group.name.id, span, group.members.clone())]
                };
                Ok([(*left, changed(first, now_first)), (*right, changed(second, now_second))].into())
            }
            Operation::Migrate { node, from, to } => {
                let (source, target) = (sight.group(*from)?, sight.group(*to)?);
                let left = changed_members(source, &[], &[*node])?;
                let come = changed_members(target, &[*node], &[])?;
                let changed =
                    |group: &Group, members| vec![follow(&[group], group.name.id, group.span, members)];
                Ok([(*from, changed(source, left)), (*to, changed(target, come))].into())
            }
        }
    }

    /// The stretch of the ring when it has happened.
    fn after(&self, old: &Sight, heirs: &Heirs) -> Sight {
        let mut new = Sight::default();
        for (id, group) in &old.groups {
            match heirs.get(id) {
                Some(groups) => new.groups.extend(groups.iter().map(|group| (group.name.id, group.clone()))),
                None => drop(new.groups.insert(*id, group.clone())),
            }
        }
        let end =
            |id: GroupId| heirs.get(&id).and_then(|groups| groups.last()).map_or(id, |group| group.name.id);
        let start =
            |id: GroupId| heirs.get(&id).and_then(|groups| groups.first()).map_or(id, |group| group.name.id);
        for (border, (left, right)) in &old.links {
            let between = matches!(self, Operation::Merge { right: second, .. } if old.groups[second].span.start == *border);
            let moved = match self {
                Operation::Repartition { right: second, border: to, .. }
                    if old.groups[second].span.start == *border =>
                {
                    *to
                }
                _ => *border,
            };
            if !between {
                new.links.insert(moved, (end(*left), start(*right)));
            }
        }
        if let Operation::Split { border, names: [first, second], .. } = self {
            new.links.insert(*border, (*first, *second));
        }
        new
    }
}

/// A group that goes on, with its new neighbours.
fn stand(new: &Sight, group: &Group) -> Stand {
    let at = |border: u64| new.links.get(&border).copied().unwrap_or((group.name.id, group.name.id));
    let known = |id: GroupId| new.groups.get(&id).unwrap_or(group).clone();
    let (before, after) = (known(at(group.span.start).0), known(at(group.span.end).1));
    Stand { group: group.clone(), before, after }
}

/// A group that comes after these.
fn follow(parents: &[&Group], id: GroupId, span: Span, members: Vec<NodeId>) -> Group {
    let epoch = parents.iter().map(|group| group.name.epoch).max().unwrap_or_default() + 1;
    Group { name: Name { id, epoch }, span, members }
}

fn sorted(nodes: &[NodeId]) -> Vec<NodeId> {
    let nodes: BTreeSet<NodeId> = nodes.iter().copied().collect();
    nodes.into_iter().collect()
}

fn changed_members(group: &Group, add: &[NodeId], remove: &[NodeId]) -> Result<Vec<NodeId>, Misfit> {
    if let Some(node) = add.iter().find(|node| group.members.contains(node)) {
        return Err(Misfit::Member(*node));
    }
    if let Some(node) = remove.iter().find(|node| !group.members.contains(node)) {
        return Err(Misfit::NoMember(*node));
    }
    if add.is_empty() && remove.is_empty() {
        return Err(Misfit::Nothing);
    }
    let stay = group.members.iter().filter(|node| !remove.contains(node));
    Ok(sorted(&stay.chain(add).copied().collect::<Vec<_>>()))
}

/// Refuses groups that cannot be.
fn check(old: &Sight, heirs: &Heirs) -> Result<(), Misfit> {
    let mut names = BTreeMap::new();
    for (place, group) in heirs.iter().flat_map(|(id, groups)| groups.iter().map(move |group| (id, group))) {
        if !(1..=MEMBERS_MAX).contains(&group.members.len()) {
            return Err(Misfit::Members);
        }
        let id = group.name.id;
        let is_taken = id != *place && old.groups.contains_key(&id);
        // The one that two become is named by both; the two that one becomes have two names.
        if is_taken
            || names.insert(id, (group, *place)).is_some_and(|(other, at)| other != group || at == *place)
        {
            return Err(Misfit::NameTaken(id));
        }
    }
    // Also of neighbours that stay as they are: whoever is theirs cannot come here. Neighbours that take members in at the same time may have taken
    // in the same; that is mended by letting them go, by one of the groups and one after the other if need be.
    let stay = old.groups.values().filter(|group| !heirs.contains_key(&group.name.id));
    let before = how_often(old.groups.values());
    let after = how_often(stay.chain(names.into_values().map(|(group, _)| group)));
    let is_more = |(node, times): (&NodeId, &usize)| *times > before.get(node).copied().unwrap_or(1);
    if after.iter().any(is_more) { Err(Misfit::Members) } else { Ok(()) }
}

/// In how many of some groups each of their members is.
fn how_often<'a>(groups: impl Iterator<Item = &'a Group>) -> BTreeMap<NodeId, usize> {
    let mut times = BTreeMap::new();
    groups.flat_map(|group| &group.members).for_each(|node| *times.entry(*node).or_default() += 1);
    times
}
