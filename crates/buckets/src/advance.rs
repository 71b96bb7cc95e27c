//! What a view changes. A leaver is taken out and moves nobody else; a joiner fills vacancies, and moves nobody either.

use alloc::vec::Vec;
use quorate_kernel::NodeId;

use crate::node::{Cut, MEMBERS_MAX, Misfit, Node, check_nodes};
use crate::placement::{Placement, sorted};
use crate::settle::Lost;
use crate::survey::Survey;

impl Placement {
    /// Applies what a view changes, and says which buckets lost their majority by it.
    ///
    /// # Errors
    /// If the cut is not one of this placement's nodes: the placements' chain is not that of the views.
    pub fn advance(&mut self, cut: &Cut) -> Result<Vec<Lost>, Misfit> {
        self.nodes = self.nodes_after(cut)?;
        let number = self.count_on();
        let mut joined: Vec<NodeId> = cut.joins.iter().map(|node| node.id).collect();
        joined.retain(|id| !cut.leaves.contains(id));
        let lost = self.take_out(number);
        self.welcome_back(&joined, number);
        let joined: Vec<usize> = sorted(joined).into_iter().filter_map(|id| self.index(id)).collect();
        self.fill(&joined);
        Ok(lost)
    }

    fn nodes_after(&self, cut: &Cut) -> Result<Vec<Node>, Misfit> {
        let leaves = sorted(cut.leaves.clone());
        if let Some(unknown) = leaves.iter().find(|id| !self.has(**id)) {
            return Err(Misfit::UnknownNode(*unknown));
        }
        let stays = |node: &&Node| leaves.binary_search(&node.id).is_err();
        let mut nodes: Vec<_> = self.nodes.iter().filter(stays).chain(&cut.joins).cloned().collect();
        nodes.sort_by_key(|node| node.id);
        check_nodes(&nodes)?;
        Ok(nodes)
    }

    /// Takes out of all buckets who is no node any more.
    fn take_out(&mut self, number: u64) -> Vec<Lost> {
        let mut lost = Vec::new();
        for index in 0..self.places.len() {
            let place = &self.places[index];
            let here = |id: &NodeId| self.has(*id);
            let stay: Vec<NodeId> = place.members.iter().copied().filter(here).collect();
            if stay.len() == place.members.len() && place.holders.iter().all(here) {
                continue;
            }
            let was = sorted(place.members.clone());
            let changed = stay.len() < was.len();
            // The log may be one of the old members or, unreported as yet, of the new: lost is what is lost both ways.
            let halts =
                !place.is_halted() && self.lacks_majority(&was) && self.lacks_majority(&place.holders);
            let gone = |list: &[NodeId]| list.iter().copied().filter(|id| !self.has(*id)).collect::<Vec<_>>();
            let newly_gone = sorted([gone(&was), gone(&place.holders)].concat());
            let place = &mut self.places[index];
            place.members = stay;
            if changed {
                place.since = number;
            }
            if let Some(gone) = &mut place.gone {
                *gone = sorted([core::mem::take(gone), newly_gone].concat());
            } else if halts {
                place.gone = Some(newly_gone);
                lost.extend(self.lost_at(index));
            }
        }
        lost
    }

    /// Whoever comes back to a halted bucket brings its copy along: the id stands for the disk.
    fn welcome_back(&mut self, joined: &[NodeId], number: u64) {
        for index in 0..self.places.len() {
            let place = &mut self.places[index];
            let Some(gone) = &mut place.gone else { continue };
            let room = MEMBERS_MAX.saturating_sub(place.members.len());
            let mut back: Vec<NodeId> =
                gone.iter().copied().filter(|id| joined.contains(id)).take(room).collect();
            if back.is_empty() {
                continue;
            }
            gone.retain(|id| !back.contains(id));
            back.retain(|id| !place.members.contains(id));
            place.members.extend(back);
            place.since = number;
            if !self.lacks_majority(&self.places[index].holders) {
                self.places[index].gone = None;
            }
        }
    }

    /// Lets `joined` (by index) fill vacancies, the emptiest buckets first. A vacancy for which others are better spread is left
    /// to a step: the copy would only move again.
    pub(crate) fn fill(&mut self, joined: &[usize]) {
        let wanted = self.members_wanted();
        let number = self.number();
        let mut survey = Survey::of(self);
        let able: Vec<usize> = survey.able().collect();
        for count in 0..wanted {
            for index in 0..self.places.len() {
                let place = &self.places[index];
                let members = &survey.members[index];
                if members.len() != count || place.is_halted() {
                    continue;
                }
                let open = |node: &&usize| !members.contains(*node) && survey.takes_copies(**node);
                let spread = |node: &usize| survey.crowd(*node, members, None);
                let Some(best) = able.iter().filter(open).map(spread).min() else { continue };
                let fits = joined.iter().filter(open).filter(|node| spread(node) == best);
                let id = |node: usize| self.nodes[node].id;
                // Who was a holder has most of the data.
                let new = |node: &usize| place.holders.binary_search(&id(*node)).is_err();
                let Some(node) = fits.min_by_key(|node| (new(node), survey.copies_up(**node), **node)) else {
                    continue;
                };
                let id = id(*node);
                survey.members[index].push(*node);
                survey.copies[*node] += 1;
                self.places[index].members.push(id);
                self.places[index].since = number;
            }
        }
    }
}
