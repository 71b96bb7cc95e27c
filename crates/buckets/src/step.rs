//! One step at a time: repair, spread, load, leadership.
//!
//! What is wrong with a placement, its burden, has ranks: copies that are missing; copies too many; copies where none should be; pairs of
//! members that share a zone or a rack; the load's unevenness; the leaderships' unevenness. A step that is proposed lowers
//! one rank and leaves those before it as they are, so that steps end, and none undoes another. One exception is free
//! of charge: a leadership may go to a node that is loaded no more by it than the giver was, if that opens the shortest way to a step
//! that helps; the way gets shorter each time.
//!
//! A copy is added to a bucket when the one before has arrived. Copies that could stay where they are move only when all have
//! arrived everywhere: a cluster that is busy with repair has no time for beauty.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use quorate_api::Bucket;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::node::{MEMBERS_MAX, Misfit};
use crate::placement::Placement;
use crate::survey::Survey;

/// A change of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the placement it was proposed for. It fits no other.
    pub on: u64,
    /// Which bucket.
    pub bucket: Bucket,
    /// What changes.
    pub change: Change,
    /// What it is good for.
    pub why: Why,
}

/// What a step changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A node gets a copy.
    Add(NodeId),
    /// A node gives its copy up.
    Drop(NodeId),
    /// A copy goes from one node to another, and its place in the order with it.
    Move {
        /// Who gives it up.
        from: NodeId,
        /// Who gets it.
        to: NodeId,
    },
    /// A member should lead.
    Lead(NodeId),
}

/// What a step is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// The bucket has too few copies.
    Missing,
    /// It has too many.
    Excess,
    /// One is on a node that should hold none.
    Drained,
    /// Its members share zones or racks more than they must.
    Spread,
    /// One node holds more, for its capacity, than another.
    Load,
    /// One node leads more, for its capacity, than another.
    Leadership,
    /// Somebody wanted it so.
    Operator,
}

impl Placement {
    /// The next step that makes this placement better; `None`: it is at rest, or waits for copies to arrive.
    pub fn next_step(&self) -> Option<Step> {
        let survey = Survey::of(self);
        let proposals = Proposals { placement: self, survey: &survey };
        let due = proposals.missing().or_else(|| proposals.excess());
        let settled = self.places.iter().all(|place| place.is_halted() || place.has_arrived());
        let due = due.or_else(|| settled.then(|| proposals.moves()).flatten());
        let (index, change, why) = due.or_else(|| proposals.leadership())?;
        Some(Step { on: self.number(), bucket: Bucket(index as u16), change, why })
    }

    /// Carries a step out: one that was proposed, or any other that an operator wants.
    ///
    /// # Errors
    /// If it does not fit, because something else was applied since it was proposed.
    pub fn take(&mut self, step: &Step) -> Result<(), Misfit> {
        let Step { on, bucket, change, .. } = *step;
        if on != self.number() {
            return Err(Misfit::Stale { on, number: self.number() });
        }
        let place = self.places.get(usize::from(bucket.0)).ok_or(Misfit::UnknownBucket(bucket))?;
        if place.is_halted() {
            return Err(Misfit::Halted(bucket));
        }
        let member = |id: NodeId| place.members.contains(&id);
        let stranger = |id: NodeId| {
            let node = self.node(id).ok_or(Misfit::UnknownNode(id))?;
            Ok(node.takes_copies() && !member(id))
        };
        let fits = match change {
            Change::Add(id) => stranger(id)? && place.members.len() < MEMBERS_MAX,
            Change::Drop(id) => member(id) && place.members.len() > 1,
            Change::Move { from, to } => member(from) && stranger(to)?,
            Change::Lead(id) => member(id) && place.members[0] != id,
        };
        if !fits {
            return Err(Misfit::Impossible(bucket));
        }
        self.carry_out(step);
        Ok(())
    }

    pub(crate) fn carry_out(&mut self, step: &Step) {
        let number = self.count_on();
        let place = &mut self.places[usize::from(step.bucket.0)];
        place.since = number;
        let members = &mut place.members;
        let at = |id: NodeId| members.iter().position(|member| *member == id);
        match step.change {
            Change::Add(id) => members.push(id),
            Change::Drop(id) => members.retain(|member| *member != id),
            Change::Move { from, to } => {
                if let Some(at) = at(from) {
                    members[at] = to;
                }
            }
            Change::Lead(id) => {
                if let Some(at) = at(id) {
                    members[..=at].rotate_right(1);
                }
            }
        }
    }
}

/// A bucket by its index, and what is due there.
type Proposal = (usize, Change, Why);

struct Proposals<'a> {
    placement: &'a Placement,
    survey: &'a Survey,
}

impl Proposals<'_> {
    fn id(&self, node: usize) -> NodeId {
        self.placement.nodes[node].id
    }

    /// Buckets that can be changed, with their members.
    fn buckets(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let live = |(index, _): &(usize, _)| !self.placement.places[*index].is_halted();
        self.survey.members.iter().enumerate().filter(live)
    }

    /// The nodes that could get a copy.
    fn strangers<'s>(&'s self, members: &'s [usize]) -> impl Iterator<Item = usize> + 's {
        self.survey.able().filter(|node| !members.contains(node))
    }

    fn moved(&self, index: usize, from: usize, to: usize, why: Why) -> Proposal {
        (index, Change::Move { from: self.id(from), to: self.id(to) }, why)
    }

    /// A copy for the bucket that has fewest.
    fn missing(&self) -> Option<Proposal> {
        let wanted = self.placement.members_wanted();
        let open = |(index, members): &(usize, &Vec<usize>)| {
            members.len() < wanted && self.placement.places[*index].has_arrived()
        };
        let (index, members) =
            self.buckets().filter(open).min_by_key(|(index, members)| (members.len(), *index))?;
        let holders = &self.placement.places[index].holders;
        let cost = |node: &usize| {
            let new = holders.binary_search(&self.id(*node)).is_err();
            (self.survey.crowd(*node, members, None), new, self.survey.copies_up(*node), *node)
        };
        let node = self.strangers(members).min_by_key(cost)?;
        Some((index, Change::Add(self.id(node)), Why::Missing))
    }

    /// A copy too many, once all have arrived.
    fn excess(&self) -> Option<Proposal> {
        // Where nobody takes copies, what is there stays there.
        let wanted = Some(self.placement.members_wanted()).filter(|wanted| *wanted > 0)?;
        let full = |(index, members): &(usize, &Vec<usize>)| {
            members.len() > wanted && self.placement.places[*index].has_arrived()
        };
        let (index, members) = self.buckets().find(full)?;
        let cost = |node: &usize| {
            let unable = !self.survey.takes_copies(*node);
            let follows = members.first() != Some(node);
            (unable, self.survey.crowd(*node, members, None), self.survey.copies_down(*node), follows, *node)
        };
        let node = members.iter().copied().max_by_key(cost)?;
        Some((index, Change::Drop(self.id(node)), Why::Excess))
    }

    fn moves(&self) -> Option<Proposal> {
        self.drained().or_else(|| self.spread()).or_else(|| self.load())
    }

    fn drained(&self) -> Option<Proposal> {
        let unable = |(index, members): (usize, &Vec<usize>)| {
            members.iter().copied().find(|node| !self.survey.takes_copies(*node)).map(|node| (index, node))
        };
        let (index, from) = self.buckets().find_map(unable)?;
        let members = &self.survey.members[index];
        let cost = |node: &usize| {
            (self.survey.crowd(*node, members, Some(from)), self.survey.copies_up(*node), *node)
        };
        let to = self.strangers(members).min_by_key(cost)?;
        Some(self.moved(index, from, to, Why::Drained))
    }

    /// The exchange that spreads the first badly spread bucket best.
    fn spread(&self) -> Option<Proposal> {
        let wanted = self.placement.members_wanted();
        let best = self.survey.fewest_pairs(wanted);
        let bad = |(_, members): &(usize, &Vec<usize>)| {
            members.len() == wanted && self.survey.pairs(members) > best
        };
        self.buckets().filter(bad).find_map(|(index, members)| {
            let exchanges = members.iter().flat_map(|from| self.strangers(members).map(|to| (*from, to)));
            let gain = |(from, to): (usize, usize)| {
                let before = self.survey.crowd(from, members, None);
                let after = self.survey.crowd(to, members, Some(from));
                let difference = |after: usize, before: usize| after as isize - before as isize;
                let gain = (difference(after.0, before.0), difference(after.1, before.1));
                let leads = members.first() == Some(&from);
                let load = (Reverse(self.survey.copies_down(from)), self.survey.copies_up(to));
                (gain < (0, 0)).then_some((gain, load, leads, from, to))
            };
            let (.., from, to) = exchanges.filter_map(gain).min()?;
            Some(self.moved(index, from, to, Why::Spread))
        })
    }

    /// A copy from the most to the least loaded of the nodes between which one can go without worse spread.
    fn load(&self) -> Option<Proposal> {
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); self.survey.copies.len()];
        for (index, members) in self.buckets() {
            members.iter().for_each(|node| held[*node].push(index));
        }
        let mut receivers: Vec<_> =
            self.survey.able().map(|node| (self.survey.copies_up(node), node)).collect();
        receivers.sort_unstable();
        let all = 0..self.survey.copies.len();
        let mut donors: Vec<_> =
            all.filter_map(|node| Some((Reverse(self.survey.copies_down(node)?), node))).collect();
        donors.sort_unstable();
        for (Reverse(down), from) in donors {
            for (_, to) in receivers.iter().take_while(|(up, _)| *up < down) {
                let can = |index: &&usize| {
                    let members = &self.survey.members[**index];
                    let (crowd, without) = (self.survey.crowd(from, members, None), Some(from));
                    !members.contains(to) && self.survey.crowd(*to, members, without) <= crowd
                };
                // Rather a copy that does not lead.
                let leads = |index: &&usize| self.survey.members[**index].first() == Some(&from);
                if let Some(index) = held[from].iter().filter(can).min_by_key(|index| (leads(index), **index))
                {
                    return Some(self.moved(*index, from, *to, Why::Load));
                }
            }
        }
        None
    }

    /// The first step of the shortest way to make leaderships more even (cost-reducing paths: Harvey, Ladner, Lovasz and
    /// Tamir 2003; where there is none, they are as even as the members allow if all capacities are equal).
    fn leadership(&self) -> Option<Proposal> {
        let (survey, count) = (self.survey, self.survey.leads.len());
        let mut followed: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (index, members) in self.buckets() {
            members.iter().skip(1).for_each(|node| followed[*node].push(index));
        }
        let mut receivers: Vec<_> = survey.able().map(|node| (survey.lead_up(node), node)).collect();
        receivers.sort_unstable();
        let mut seen = vec![false; count];
        for level in receivers.chunk_by(|left, right| left.0 == right.0) {
            // Nodes that could lead one more, and the first step on the way there.
            let mut open: VecDeque<(usize, Option<(usize, usize)>)> =
                level.iter().map(|(_, node)| (*node, None)).collect();
            while let Some((to, first)) = open.pop_front() {
                for index in &followed[to] {
                    let leader = survey.members[*index][0];
                    let Some(down) = survey.lead_down(leader) else { continue };
                    let first = first.unwrap_or((*index, to));
                    if down > level[0].0 {
                        return Some((first.0, Change::Lead(self.id(first.1)), Why::Leadership));
                    }
                    if down == level[0].0 && !core::mem::replace(&mut seen[leader], true) {
                        open.push_back((leader, Some(first)));
                    }
                }
            }
        }
        None
    }
}
