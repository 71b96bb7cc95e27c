//! The operator: changes members, moves leadership, spreads rumours; at the end puts everything in order.

use std::time::Duration;

use quorate_kernel::{NodeId, Rng};
use quorate_replog::Epoch;

use super::ledger::Ledger;
use super::parent::{Ask, Parent};
use crate::{Agenda, Life, Nodes};

/// What an operator does how often.
#[derive(Debug, Clone)]
pub(crate) struct Zeal {
    /// Longest time between two member changes or handovers; none if zero.
    pub(crate) pause: Duration,
    /// Percentage of handovers among them.
    pub(crate) transfers: u64,
    /// Longest time between two rumours; none if zero.
    pub(crate) rumours: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) zeal: Zeal,
    tickets: u64,
    /// The change under way, and when it is not waited for any longer.
    pending: Option<(u64, Duration)>,
    /// Member lists asked for, and in which epoch: they may still come.
    asked: Vec<(u64, Vec<NodeId>)>,
}

impl Operator {
    pub(crate) fn new(zeal: Zeal) -> Self {
        Operator { zeal, tickets: 0, pending: None, asked: Vec::new() }
    }

    /// How long until the next thing.
    pub(crate) fn pause(&self, rng: &mut Rng) -> Duration {
        let most = self.zeal.pause.as_micros() as u64;
        Duration::from_micros(rng.between(most / 10, most))
    }

    pub(crate) fn ended(&mut self, ticket: u64) {
        self.pending.take_if(|(pending, _)| *pending == ticket);
    }

    /// Does one thing under faults.
    pub(crate) fn meddle(&mut self, nodes: &Nodes<Parent>, rng: &mut Rng, agenda: &mut Agenda<Ask>) {
        if self.pending.is_some_and(|(_, until)| agenda.now() < until) {
            return;
        }
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let anyone = rng.pick(&live).copied();
        let target = if rng.chance(1, 8) { anyone } else { leader(nodes).or(anyone) };
        let Some(target) = target else { return };
        if rng.chance(self.zeal.transfers, 100) {
            let to = if rng.chance(1, 2) { anyone } else { None };
            return agenda.input(Duration::ZERO, target, Ask::Transfer(to));
        }
        let Some(machine) = nodes.machine(target) else { return };
        let members = members(machine.log().epoch());
        let all: Vec<NodeId> = nodes.ids().collect();
        let wanted = wish(&members, &all, target, rng);
        // A list that needs the disk of a node that just died for good would be the operator's fault.
        if keeps_majority(&wanted, nodes, None) {
            self.change(target, machine.log().epoch(), &wanted, rng.between(500, 8_000), agenda);
        }
    }

    /// Replaces members that will never come back. Called again and again after all faults are over.
    pub(crate) fn tidy(&mut self, nodes: &Nodes<Parent>, agenda: &mut Agenda<Ask>) {
        let Some(leader) = leader(nodes) else { return };
        let Some(machine) = nodes.machine(leader) else { return };
        let members = members(machine.log().epoch());
        let (alive, dead): (Vec<NodeId>, Vec<NodeId>) =
            members.iter().partition(|id| nodes.machine(**id).is_some());
        if dead.is_empty() || self.pending.is_some_and(|(_, until)| agenda.now() < until) {
            return;
        }
        let spare = nodes.live().map(|(id, _)| id).filter(|id| !members.contains(id)).take(dead.len());
        let wanted: Vec<NodeId> = alive.into_iter().chain(spare).collect();
        self.change(leader, machine.log().epoch(), &wanted, 2_000, agenda);
    }

    fn change(
        &mut self,
        target: NodeId,
        epoch: &Epoch,
        wanted: &[NodeId],
        patience_ms: u64,
        agenda: &mut Agenda<Ask>,
    ) {
        let members = members(epoch);
        self.tickets += 1;
        let ticket = self.tickets;
        self.pending = Some((ticket, agenda.now() + Duration::from_millis(patience_ms)));
        self.asked.push((epoch.number, wanted.to_vec()));
        let add = wanted.iter().copied().filter(|id| !members.contains(id)).collect();
        let remove = members.iter().copied().filter(|id| !wanted.contains(id)).collect();
        agenda.input(Duration::ZERO, target, Ask::Change { ticket, epoch: epoch.number, add, remove });
    }

    /// Tells some node that it lost or found another, which may or may not be so, or that its records take too much room.
    pub(crate) fn spread(&self, ids: &[NodeId], rng: &mut Rng, agenda: &mut Agenda<Ask>) {
        let (Some(to), Some(about)) = (rng.pick(ids).copied(), rng.pick(ids).copied()) else { return };
        let rumour = match rng.below(3) {
            0 => Ask::Lost(about),
            1 => Ask::Connected(about),
            _ => Ask::Checkpoint,
        };
        agenda.input(Duration::ZERO, to, rumour);
    }

    /// Whether every member list that counts, or may come to count, keeps a majority of disks without that of `node`.
    /// Before the newest epoch's members have everything, those of the one before are needed as well.
    pub(crate) fn can_spare(&self, node: NodeId, ledger: &Ledger, nodes: &Nodes<Parent>) -> bool {
        let newest = ledger.epochs.keys().max().copied().unwrap_or(0);
        let current = ledger.epochs.range(newest.saturating_sub(1)..).map(|(_, epoch)| members(epoch));
        let coming = self.asked.iter().filter(|(number, _)| *number >= newest).map(|(_, list)| list.clone());
        current.chain(coming).all(|list| keeps_majority(&list, nodes, Some(node)))
    }
}

/// Whether more than half of `list` have their disks, not counting `lost`.
fn keeps_majority(list: &[NodeId], nodes: &Nodes<Parent>, lost: Option<NodeId>) -> bool {
    let kept = list.iter().filter(|id| Some(**id) != lost && nodes.life(**id) != Life::Gone).count();
    kept > list.len() / 2
}

/// Who leads, by the newest ballot.
pub(crate) fn leader(nodes: &Nodes<Parent>) -> Option<NodeId> {
    let leading = nodes.live().filter_map(|(id, machine)| Some((machine.log().leading()?, id)));
    leading.max().map(|(_, id)| id)
}

pub(crate) fn members(epoch: &Epoch) -> Vec<NodeId> {
    epoch.members.iter().map(|member| member.id).collect()
}

/// Another member list.
fn wish(members: &[NodeId], all: &[NodeId], leader: NodeId, rng: &mut Rng) -> Vec<NodeId> {
    let mut spare: Vec<NodeId> = all.iter().copied().filter(|id| !members.contains(id)).collect();
    rng.shuffle(&mut spare);
    let mut wanted = members.to_vec();
    rng.shuffle(&mut wanted);
    match rng.below(8) {
        0 => wanted.extend(spare.first()),
        1 => drop(wanted.pop()),
        2 => wanted.retain(|id| *id != leader),
        3 => {
            wanted.retain(|id| *id != leader);
            wanted.extend(spare.first());
        }
        // As many others as there are: disjoint if there are enough.
        4 | 5 => {
            let count = spare.len().min(members.len());
            wanted.truncate(members.len() - count);
            wanted.extend(spare.into_iter().take(count));
        }
        6 => {
            wanted.pop();
            wanted.extend(spare.first());
        }
        _ => wanted = all.iter().copied().filter(|_| rng.chance(1, 2)).collect(),
    }
    wanted.sort();
    wanted
}
