//! The harness: clients that want operations, and what must hold of the ring after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_commit::{Config, LogId, Transaction, TransactionId};
use quorate_groups::ring::{check, check_at_rest};
use quorate_groups::{
    Effect, Group, GroupId, Mutant, Name, Operation, Parliament, Part, Span, Stand, transaction,
};
use quorate_kernel::{Marks, NodeId, Rng, wire};

use super::site::{Answer, Ask, Hall, Msg, Record, Site, site_of};
use crate::{Agenda, Boot, Harness, Nodes, Plan, Seen, Stressed, Verdict, through_bytes};

const SETTLE: u64 = 1 << 32;
const SETTLE_EVERY: Duration = Duration::from_millis(300);
/// How long a client waits for an answer before it asks again.
const AGAIN: Duration = Duration::from_millis(200);

/// What a kind of run lays stress on; everything else is drawn.
#[derive(Debug, Clone, Default)]
pub struct Stress {
    /// A broken rule.
    pub mutant: Option<Mutant>,
}

impl Stressed for Stress {
    type Harness = Cluster;

    fn harness(&self, plan: &Plan) -> Cluster {
        Cluster::new(plan, self)
    }
}

/// An operation that somebody waits for.
#[derive(Debug)]
struct Running {
    kind: &'static str,
    transaction: Transaction,
    asked: Duration,
}

/// A group as it was seen last.
#[derive(Debug, Clone)]
struct Sighting {
    group: Parliament,
    ended: bool,
    /// See [`Hall::turns`].
    turns: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    config: Config,
    sites: u64,
    first: Vec<Stand>,
    mutant: Option<Mutant>,
    healed: bool,
    clients: Vec<Option<Running>>,
    /// Operations of which nobody asks for anything any more.
    over: BTreeSet<u64>,
    count: u64,
    seen: BTreeMap<LogId, Sighting>,
    /// How operations ended, as somebody was told.
    told: BTreeMap<TransactionId, bool>,
    /// The logs of groups that have to end, since that was told.
    must_end: BTreeSet<LogId>,
    think: u64,
    done: BTreeMap<&'static str, u64>,
}

/// A ring of groups with three members each.
fn ring(borders: &BTreeSet<u64>) -> Vec<Stand> {
    let borders: Vec<u64> = borders.iter().copied().collect();
    let count = borders.len();
    let group = |index: usize| {
        let id = (index % count) as u64 + 1;
        let span = Span { start: borders[index % count], end: borders[(index + 1) % count] };
        let members = (10 * id..10 * id + 3).map(NodeId).collect();
        Group { name: Name { id: GroupId(id), epoch: 1 }, span, members }
    };
    let stand =
        |index| Stand { group: group(index), before: group(index + count - 1), after: group(index + 1) };
    (0..count).map(stand).collect()
}

impl Cluster {
    /// The cluster that `plan` means.
    pub fn new(plan: &Plan, stress: &Stress) -> Self {
        let mut rng = plan.rng();
        let mut config = Config::production();
        config.retry = Duration::from_millis(1 << rng.between(4, 8));
        config.retry_max = config.retry * 16;
        config.patience = rng.chance(1, 4).then(|| config.retry * rng.between(4, 40) as u32);
        let borders = (0..rng.between(1, 6)).map(|_| rng.next_u64()).collect();
        Cluster {
            config,
            sites: plan.world.nodes as u64,
            first: ring(&borders),
            mutant: stress.mutant,
            healed: false,
            clients: (0..plan.clients).map(|_| None).collect(),
            over: BTreeSet::new(),
            count: 1_000,
            seen: BTreeMap::new(),
            told: BTreeMap::new(),
            must_end: BTreeSet::new(),
            think: 1 << rng.between(1, 9),
            done: BTreeMap::new(),
            rng,
        }
    }

    fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn border_in(&mut self, span: Span) -> u64 {
        let inside = u128::from(self.rng.next_u64()) % span.width();
        span.start.wrapping_add(inside as u64)
    }

    /// A group as somebody knows it: mostly as it is.
    fn known(&mut self) -> Option<Stand> {
        let old = self.rng.chance(1, 10);
        let sightings: Vec<&Sighting> =
            self.seen.values().filter(|sighting| old || !sighting.ended).collect();
        self.rng.pick(&sightings).map(|sighting| sighting.group.stand().clone())
    }

    fn draw(&mut self, own: &Stand, other: &Stand) -> (&'static str, Operation) {
        let (group, after) = (&own.group, &own.after);
        let id = group.name.id;
        let names = [self.fresh(), self.fresh()].map(GroupId);
        match self.rng.below(5) {
            0 => {
                let add = (0..self.rng.below(3)).map(|_| NodeId(self.fresh())).collect();
                let remove = group.members.iter().copied().filter(|_| self.rng.chance(1, 4)).collect();
                ("groups.members", Operation::Members { group: id, add, remove })
            }
            1 => {
                let first = group.members.iter().copied().filter(|_| self.rng.chance(1, 2)).collect();
                (
                    "groups.split",
                    Operation::Split { group: id, border: self.border_in(group.span), first, names },
                )
            }
            2 => ("groups.merge", Operation::Merge { left: id, right: after.name.id, name: names[0] }),
            3 => {
                let span = if self.rng.chance(1, 2) { group.span } else { after.span };
                let border = self.border_in(span);
                ("groups.repartition", Operation::Repartition { left: id, right: after.name.id, border })
            }
            _ => {
                let node = self.rng.pick(&group.members).copied().unwrap_or(NodeId(0));
                ("groups.migrate", Operation::Migrate { node, from: id, to: other.group.name.id })
            }
        }
    }

    /// An operation that makes sense to somebody.
    fn want(&mut self, now: Duration) -> Option<Running> {
        let (own, other) = (self.known()?, self.known()?);
        let (kind, operation) = self.draw(&own, &other);
        let mut stands = vec![own.clone()];
        for id in operation.changed().into_iter().filter(|id| *id != own.group.name.id) {
            let is_it = |sighting: &&Sighting| sighting.group.stand().group.name.id == id && !sighting.ended;
            stands.extend(self.seen.values().find(is_it).map(|sighting| sighting.group.stand().clone()));
        }
        let parts = operation.plan(&stands).ok()?;
        // Any group concerned may coordinate.
        let concerned: Vec<GroupId> = parts.keys().copied().collect();
        let coordinator = match self.rng.chance(3, 4) {
            true => own.group.name.id,
            false => *self.rng.pick(&concerned)?,
        };
        let sequence = self.fresh();
        let id = TransactionId { age: now.as_micros() as u64, origin: sequence, sequence };
        Some(Running { kind, transaction: transaction(id, coordinator, &parts)?, asked: now })
    }

    fn play(&mut self, who: usize, agenda: &mut Agenda<Ask>) {
        let pause = Duration::from_micros(self.rng.between(100, self.think * 1_000));
        agenda.wake(pause, who as u64);
        let now = agenda.now();
        if self.clients[who].is_none() && !self.healed {
            self.clients[who] = self.want(now);
        } else if self.clients[who].as_ref().is_none_or(|running| now < running.asked + AGAIN) {
            return;
        }
        let sites = self.sites;
        if let Some(running) = &mut self.clients[who] {
            running.asked = now;
            let site = site_of(running.transaction.coordinator, sites);
            let after = Duration::from_micros(self.rng.below(5_000));
            agenda.input(after, site, Ask::Operate(Box::new(running.transaction.clone())));
        }
    }

    /// Somebody is told how an operation has ended.
    fn end(&mut self, id: TransactionId, commits: bool) -> Verdict {
        if *self.told.entry(id).or_insert(commits) != commits {
            return Err(format!("{id:?} has happened, and has not"));
        }
        for client in &mut self.clients {
            let Some(running) = client.take_if(|running| running.transaction.id == id) else { continue };
            self.over.insert(id.origin);
            *self.done.entry(if commits { running.kind } else { "groups.refused" }).or_default() += 1;
            let Transaction { part, others, .. } = &running.transaction;
            for part in others.iter().map(|(_, part)| part).chain([part]).filter(|_| commits) {
                let part: Part = wire::decode(part).map_err(|why| format!("no part: {why:?}"))?;
                self.must_end.extend(matches!(part.effect, Effect::Succeed(_)).then(|| part.group.log()));
            }
        }
        Ok(())
    }

    /// Takes note of what a process has; whether anything is new.
    fn note(&mut self, site: &Site) -> bool {
        let mut is_new = false;
        for hall in site.halls() {
            let (log, turns) = (hall.parliament().stand().group.name.log(), hall.turns());
            if self.seen.get(&log).is_none_or(|sighting| sighting.turns != turns) {
                let ended = hall.parliament().heirs().is_some();
                self.seen.insert(log, Sighting { group: hall.agreed(), ended, turns });
                is_new = true;
            }
        }
        is_new
    }

    fn live(&self) -> Vec<&Parliament> {
        self.seen.values().filter(|sighting| !sighting.ended).map(|sighting| &sighting.group).collect()
    }
}

impl Harness for Cluster {
    type Machine = Site;

    fn machine(&mut self, node: NodeId, _: Boot) -> Site {
        Site::new(node, self.sites, &self.first, self.config.clone(), self.mutant)
    }

    fn start(&mut self, agenda: &mut Agenda<Ask>) {
        for who in 0..self.clients.len() {
            agenda.wake(Duration::from_millis(self.rng.between(1, 50)), who as u64);
        }
        agenda.wake(SETTLE_EVERY, SETTLE);
    }

    fn observe(&mut self, seen: Seen<'_, Site>) -> Verdict {
        if self.note(seen.machine) { check(&self.live()) } else { Ok(()) }
    }

    fn output(&mut self, _: Seen<'_, Site>, output: Answer, _: &mut Agenda<Ask>) -> Verdict {
        match output {
            Answer::Result(id, outcome) => self.end(id, outcome.is_commit()),
            // It is asked again.
            Answer::NotTaken(..) => Ok(()),
        }
    }

    fn woken(&mut self, token: u64, _: &Nodes<Site>, agenda: &mut Agenda<Ask>) -> Verdict {
        if token == SETTLE {
            agenda.wake(SETTLE_EVERY, SETTLE);
            for site in 1..=self.sites {
                agenda.input(Duration::ZERO, NodeId(site), Ask::Settle(self.over.clone()));
            }
        } else {
            self.play(token as usize, agenda);
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, _: &mut Agenda<Ask>) {
        // Its next life counts anew.
        let sites = self.sites;
        let lost = self.seen.iter_mut().filter(|(log, _)| site_of(**log, sites) == node);
        lost.for_each(|(_, sighting)| sighting.turns = u64::MAX);
    }

    fn carry(&mut self, msg: Msg) -> (Msg, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }

    fn healed(&mut self, _: &Nodes<Site>, _: &mut Agenda<Ask>) {
        self.healed = true;
    }

    fn converged(&mut self, nodes: &Nodes<Site>) -> Verdict {
        if let Some(running) = self.clients.iter().flatten().next() {
            return Err(format!("the client of {:?} waits", running.transaction.id));
        }
        if nodes.live().count() < self.sites as usize {
            return Err("a process is down".into());
        }
        for (node, site) in nodes.live() {
            let is_open = |hall: &&Hall| hall.parliament().is_open() || hall.agreed().is_open();
            if let Some(hall) = site.halls().find(is_open) {
                return Err(format!("{:?} at {node:?} has locks", hall.parliament().stand().group.name));
            }
            if site.is_busy() {
                return Err(format!("{node:?} is at work"));
            }
        }
        let stays = |log: &&LogId| self.seen.get(log).is_none_or(|sighting| !sighting.ended);
        if let Some(log) = self.must_end.iter().find(stays) {
            return Err(format!("an operation has happened, and the group of {log:?} has not ended"));
        }
        check_at_rest(&self.live())
    }

    fn finish(&mut self, _: &Nodes<Site>, marks: &mut Marks) -> Verdict {
        for (name, count) in &self.done {
            (0..*count).for_each(|_| marks.hit(name));
        }
        Ok(())
    }
}
