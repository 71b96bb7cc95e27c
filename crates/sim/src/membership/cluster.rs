//! The harness: nodes, an operator that lets them join and leave, and the ledger that judges.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::{Marks, NodeId, Rng};
use quorate_membership::{Config, Input, Membership, Message, Meta, Output, Record};

use super::ledger::Ledger;
use crate::{
    Agenda, Boot, Harness, Life, Nodes, Plan, Replacement, Report, Seen, Stressed, Verdict, through_bytes,
};

/// What a kind of run lays stress on; everything else is drawn.
#[derive(Debug, Clone, Default)]
pub struct Stress {
    /// Replaces the drawn settings of all nodes.
    pub config: Option<Config>,
    /// A broken rule.
    #[cfg(feature = "mutants")]
    pub mutant: Option<quorate_membership::Mutant>,
    /// How many nodes found the cluster; drawn if not given. The others join.
    pub founders: Option<usize>,
    /// Longest time between two acts of the operator; drawn if not given, none if zero.
    pub operator: Option<Duration>,
    /// Any removal is a failure: for runs in which nobody fails.
    pub stable: bool,
    /// After the faults some nodes die for good, so many at once at most, and the others must go on.
    pub encore_max: usize,
    /// One link is down, both ways, from the beginning to the end of the faults.
    pub broken_link: bool,
    /// Chance in a thousand that a message of a kind that decides is lost, beyond what the network does.
    pub loses: u64,
    /// Chance in a thousand that a node that sends votes dies just after, for a moment.
    pub voters_die: u64,
    /// Those who die after the faults must be removed within this time.
    pub prompt: Option<Duration>,
}

impl Stressed for Stress {
    fn run(&self, plan: &Plan) -> Report {
        crate::run(plan, |plan| Cluster::new(plan, self))
    }
}

const TEND: u64 = 1;
const OPERATOR: u64 = 2;
const SNARE: u64 = 3;

/// Steps of machines after which a run counts as going in circles.
const STEPS_MAX: u64 = 10_000_000;

/// What comes after all faults are over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Encore {
    /// All are to find together first.
    Pending,
    /// These have died, for good as far as the others know.
    Dead(BTreeSet<NodeId>),
    Over,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    config: Config,
    founders: Vec<NodeId>,
    ids: BTreeSet<NodeId>,
    /// Who stays out for now, until when.
    resting: BTreeMap<NodeId, Duration>,
    operator: Duration,
    slow_parent: Duration,
    encore_max: usize,
    encore: Encore,
    /// When all were together for the first time since they last were not.
    together_since: Duration,
    broken_link: Option<(NodeId, NodeId)>,
    loses: u64,
    voters_die: u64,
    /// Who is to die now.
    doomed: BTreeSet<NodeId>,
    prompt: Option<Duration>,
    struck_at: Duration,
    healed: bool,
    steps: u64,
    /// What a message that left has shown.
    broken: Option<String>,
    ledger: Ledger,
}

impl Cluster {
    /// The cluster that `plan` means.
    pub fn new(plan: &Plan, stress: &Stress) -> Self {
        let mut rng = plan.rng();
        let nodes = plan.world.nodes as u64;
        let drawn = if rng.chance(1, 2) { rng.between(1, nodes) } else { 1 } as usize;
        let founders: Vec<NodeId> = (1..=stress.founders.unwrap_or(drawn) as u64).map(NodeId).collect();
        let config = draw_config(&mut rng);
        let mut config = stress.config.clone().unwrap_or(config);
        #[cfg(feature = "mutants")]
        {
            config.mutant = stress.mutant;
        }
        config.members_max = config.members_max.max(plan.world.nodes * 2);
        let pause = Duration::from_millis(1 << rng.between(8, 13));
        let drawn = if rng.chance(1, 2) { pause } else { Duration::ZERO };
        let slow_parent = if rng.chance(1, 3) { rng.between(0, 50) } else { 0 };
        let broken_link = stress.broken_link.then(|| broken_link(&config, &founders, &mut rng)).flatten();
        let ledger = Ledger::new(stress.stable);
        Cluster {
            rng,
            config,
            founders,
            ids: (1..=nodes).map(NodeId).collect(),
            resting: BTreeMap::new(),
            operator: stress.operator.unwrap_or(drawn),
            slow_parent: Duration::from_millis(slow_parent),
            encore_max: stress.encore_max,
            encore: if stress.encore_max == 0 { Encore::Over } else { Encore::Pending },
            together_since: Duration::ZERO,
            broken_link,
            loses: stress.loses,
            voters_die: stress.voters_die,
            doomed: BTreeSet::new(),
            prompt: stress.prompt,
            struck_at: Duration::ZERO,
            healed: false,
            steps: 0,
            broken: None,
            ledger,
        }
    }

    fn seeds(&mut self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self.ids.iter().copied().collect();
        self.rng.shuffle(&mut ids);
        ids.truncate(4);
        ids
    }

    /// Whoever lives, is no member and should be one tries to join.
    fn tend(&mut self, nodes: &Nodes<Membership>, agenda: &mut Agenda<Input>) {
        if self.healed && self.encore == Encore::Pending {
            // What was lost under faults is remembered for a while: until then one more death may be one too many.
            let calm = self.config.alert_epoch * 2 + Duration::from_secs(3);
            if self.together(nodes).is_err() {
                self.together_since = agenda.now();
            } else if agenda.now() - self.together_since >= calm {
                self.strike(nodes, agenda);
            }
        }
        if let Encore::Dead(dead) = &self.encore {
            // A restart that was due from before the healing.
            for id in dead.iter().filter(|id| nodes.machine(**id).is_some()) {
                agenda.crash(Duration::ZERO, *id, Duration::from_secs(100_000));
            }
        }
        let now = agenda.now();
        let idle: Vec<NodeId> = nodes
            .live()
            .filter(|(_, machine)| machine.view().is_none() && !machine.is_joining())
            .map(|(id, _)| id)
            .collect();
        for id in idle {
            if self.healed || self.resting.get(&id).is_none_or(|until| now >= *until) {
                self.resting.remove(&id);
                let seeds = self.seeds();
                agenda.input(Duration::ZERO, id, Input::Join { seeds });
            }
        }
    }

    /// The operator lets a member leave.
    fn meddle(&mut self, nodes: &Nodes<Membership>, agenda: &mut Agenda<Input>) {
        let members: Vec<NodeId> =
            nodes.live().filter(|(_, machine)| machine.view().is_some()).map(|(id, _)| id).collect();
        // The last one leaving ends the cluster: there would be nobody to join.
        let known = self.ledger.newest().map_or(0, |view| view.members.len());
        if members.len() < 2 || known < 2 || self.resting.len() + 1 >= known {
            return;
        }
        let Some(leaver) = self.rng.pick(&members).copied() else { return };
        let rest = Duration::from_millis(1 << self.rng.between(4, 13));
        self.resting.insert(leaver, agenda.now() + rest);
        agenda.input(Duration::ZERO, leaver, Input::Leave);
    }

    /// Whether the newest view can have no successor: most of its members are gone for good. One that was, while the
    /// living were removed one after the other under partitions, is enough in a small cluster.
    fn is_lost(&self, nodes: &Nodes<Membership>) -> bool {
        self.ledger.newest().is_some_and(|view| {
            let gone = view.members.iter().filter(|member| nodes.life(member.id) == Life::Gone).count();
            view.members.len() - gone <= view.members.len() / 2
        })
    }

    /// Whether all who live have one view, which holds them and nobody else, and nothing is under way.
    fn together(&self, nodes: &Nodes<Membership>) -> Verdict {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let mut first = None;
        for (id, machine) in nodes.live() {
            let Some(view) = machine.view() else {
                return Err(format!("{id:?} is no member"));
            };
            let first = first.get_or_insert((id, view.clone(), machine.state().cloned()));
            if first.1.id != view.id {
                return Err(format!("{id:?} has {view:?}, {:?} has {:?}", first.0, first.1));
            }
            if machine.state() != first.2.as_ref() || machine.state().is_none() {
                return Err(format!("{id:?} has not heard its parent in {view:?}"));
            }
            let members: Vec<NodeId> = view.members.iter().map(|member| member.id).collect();
            if members != sorted(&live) {
                return Err(format!("alive are {live:?}, members are {members:?}"));
            }
            if !machine.is_quiet() || machine.is_leaving() {
                return Err(format!("{id:?} is busy"));
            }
        }
        Ok(())
    }

    /// All are together: some die.
    fn strike(&mut self, nodes: &Nodes<Membership>, agenda: &mut Agenda<Input>) {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let most = (live.len().saturating_sub(1) / 2).min(self.encore_max);
        if most == 0 {
            self.encore = Encore::Over;
            return;
        }
        let mut order = live;
        self.rng.shuffle(&mut order);
        order.truncate(self.rng.between(1, most as u64) as usize);
        for id in &order {
            agenda.crash(Duration::ZERO, *id, Duration::from_secs(100_000));
        }
        self.encore = Encore::Dead(order.into_iter().collect());
        self.struck_at = agenda.now();
    }

    /// Whether those who died are removed soon enough.
    fn is_prompt(&self, nodes: &Nodes<Membership>, now: Duration) -> Verdict {
        let (Encore::Dead(dead), Some(prompt)) = (&self.encore, self.prompt) else { return Ok(()) };
        let late = now > self.struck_at + prompt;
        match self.together(nodes) {
            Err(why) if late => Err(format!("{} ms after {dead:?} died: {why}", prompt.as_millis())),
            _ => Ok(()),
        }
    }
}

/// A pair of founders that watch each other so little that a broken link between them is noise to all others.
fn broken_link(config: &Config, founders: &[NodeId], rng: &mut Rng) -> Option<(NodeId, NodeId)> {
    let rings = quorate_membership::Rings::new(founders.to_vec(), config.rings);
    let over = |observer: NodeId, subject: NodeId| {
        let found = rings.observers(subject).into_iter().find(|(id, _)| *id == observer);
        found.map_or(0, |(_, rings)| rings.len())
    };
    let pairs = founders.iter().flat_map(|one| founders.iter().map(move |other| (*one, *other)));
    let noisy = |(one, other): &(NodeId, NodeId)| {
        let (there, back) = (over(*one, *other), over(*other, *one));
        one < other && there < config.low && back < config.low && there + back > 0
    };
    let pairs: Vec<_> = pairs.filter(noisy).collect();
    rng.pick(&pairs).copied()
}

/// Settings that a run draws.
pub(crate) fn draw_config(rng: &mut Rng) -> Config {
    let ms = |ms| Duration::from_millis(ms);
    let mut config = if rng.chance(3, 4) { Config::tiny() } else { Config::production() };
    config.probe_interval = ms(rng.between(20, 150));
    config.probe_timeout = config.probe_interval * rng.between(1, 3) as u32;
    config.probe_failures = rng.between(3, 6) as u32;
    config.batch_quiet = ms(rng.between(1, 40));
    config.batch_age_max = config.batch_quiet * rng.between(1, 4) as u32;
    config.reinforce = ms(rng.between(500, 3_000));
    config.alert_epoch = ms(rng.between(3_000, 10_000));
    config.unicast_members_max = if rng.chance(1, 2) { 3 } else { 32 };
    config.gossip_fanout = rng.between(1, 4) as usize;
    config.resend = ms(rng.between(100, 800));
    config.fallback = ms(rng.between(50, 600));
    config.fallback_spread = ms(rng.between(10, 100));
    config.join_timeout = ms(rng.between(300, 2_000));
    config.join_attempts = rng.between(2, 10) as u32;
    config.bootstrap = ms(rng.between(1_000, 10_000));
    config
}

/// What a node says of itself.
pub(super) fn meta_of(node: NodeId) -> Meta {
    Meta {
        peer: Bytes::from(format!("10.0.0.{node}:7379")),
        info: Bytes::from(format!("10.0.0.{node}:6379")),
        zone: Bytes::from(format!("z{}", node.0 % 3)),
        rack: Bytes::new(),
        capacity: 100 + node.0 as u32,
    }
}

impl Harness for Cluster {
    type Machine = Membership;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Membership {
        if let Boot::Replacing(old) = boot {
            self.ids.remove(&old);
            self.ids.insert(node);
        }
        self.ledger.booted(node);
        let founders = match self.founders.contains(&node) {
            true => self.founders.iter().map(|id| (*id, meta_of(*id))).collect(),
            false => Vec::new(),
        };
        Membership::new(node, self.config.clone(), meta_of(node), founders)
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(Duration::from_millis(300), TEND);
        if !self.operator.is_zero() {
            agenda.wake(self.operator, OPERATOR);
        }
        if self.voters_die > 0 {
            agenda.wake(Duration::ZERO, SNARE);
        }
    }

    fn observe(&mut self, seen: Seen<'_, Membership>) -> Verdict {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(format!("{STEPS_MAX} steps without an end: is a message or timer going round?"));
        }
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        self.ledger.look(seen.node, seen.machine)
    }

    fn output(&mut self, seen: Seen<'_, Membership>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        if let Some((seq, state)) = self.ledger.told(seen.node, &output)? {
            let most = self.slow_parent.as_micros() as u64;
            let after = Duration::from_micros(self.rng.between(0, most));
            agenda.input(after, seen.node, Input::State { seq, state });
        }
        Ok(())
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Membership>, agenda: &mut Agenda<Input>) -> Verdict {
        if token == SNARE {
            for node in std::mem::take(&mut self.doomed) {
                let span = Duration::from_millis(1 << self.rng.between(0, 5));
                agenda.crash(Duration::ZERO, node, span);
                // Somebody who may have counted the vote falls silent.
                let others: Vec<NodeId> = self.ids.iter().copied().filter(|id| *id != node).collect();
                if let Some(other) = self.rng.pick(&others) {
                    agenda.isolate(Duration::ZERO, *other, Duration::from_millis(400));
                }
            }
            if !self.healed {
                agenda.wake(Duration::from_micros(500), SNARE);
            }
        } else if token == TEND {
            self.is_prompt(nodes, agenda.now())?;
            self.tend(nodes, agenda);
            agenda.wake(Duration::from_millis(self.rng.between(50, 300)), TEND);
        } else if !self.healed {
            self.meddle(nodes, agenda);
            let most = self.operator.as_micros() as u64;
            agenda.wake(Duration::from_micros(self.rng.between(most / 10, most)), OPERATOR);
        }
        Ok(())
    }

    fn loses(&mut self, from: NodeId, to: NodeId, msg: &Message) -> bool {
        if let Err(broken) = self.ledger.sent(from, msg) {
            self.broken.get_or_insert(broken);
        }
        if self.healed {
            return false;
        }
        let votes = matches!(msg, Message::News { votes, .. } if !votes.is_empty());
        if votes && self.voters_die > 0 && self.rng.chance(self.voters_die, 1_000) {
            self.doomed.insert(from);
        }
        let link =
            self.broken_link.is_some_and(|(one, other)| [(one, other), (other, one)].contains(&(from, to)));
        let decides = matches!(
            msg,
            Message::News { .. }
                | Message::Phase1a { .. }
                | Message::Phase1b { .. }
                | Message::Phase2a { .. }
        );
        link || (decides && self.loses > 0 && self.rng.chance(self.loses, 1_000))
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }

    fn disk_lost(&mut self, node: NodeId) -> Replacement {
        if self.rng.chance(1, 4) {
            self.ids.remove(&node);
            return Replacement::Gone;
        }
        Replacement::NewIdentity
    }

    /// Only while nothing is under way, since a decision that only the lost one knows could not be found again; and only
    /// one at a time: while dead members are waiting to be removed, the living ones may be removed first.
    fn may_lose_disk(&mut self, node: NodeId, nodes: &Nodes<Membership>) -> bool {
        let Some(newest) = self.ledger.newest() else { return false };
        let at_rest = |id: NodeId| {
            nodes.machine(id).is_some_and(|machine| {
                machine.is_quiet() && machine.view().is_some_and(|view| view.id == newest.id)
            })
        };
        let gone = |id: NodeId| nodes.life(id) == Life::Gone;
        let is_member = newest.has(node);
        let quiet = newest.members.iter().all(|member| at_rest(member.id) || (gone(member.id) && !is_member));
        // Whoever is about to become a member counts as one.
        let joins = nodes.machine(node).is_none_or(Membership::is_joining);
        quiet && if is_member { newest.members.len() >= 4 } else { !joins }
    }

    fn healed(&mut self, _: &Nodes<Membership>, agenda: &mut Agenda<Input>) {
        self.healed = true;
        self.together_since = agenda.now();
    }

    fn converged(&mut self, nodes: &Nodes<Membership>) -> Verdict {
        if self.is_lost(nodes) {
            return Ok(());
        }
        self.together(nodes)?;
        match &self.encore {
            Encore::Over => Ok(()),
            Encore::Pending => Err("nobody has died yet after the faults".into()),
            Encore::Dead(dead) if dead.iter().any(|id| nodes.machine(*id).is_some()) => {
                Err("those who are to die have not".into())
            }
            Encore::Dead(_) => Ok(()),
        }
    }

    fn finish(&mut self, nodes: &Nodes<Membership>, marks: &mut Marks) -> Verdict {
        marks.hit(if self.is_lost(nodes) { "membership.sim.lost" } else { "membership.sim.together" });
        for (name, count) in
            [("membership.sim.removed", self.ledger.removals), ("membership.sim.joined", self.ledger.joins)]
        {
            (0..count).for_each(|_| marks.hit(name));
        }
        Ok(())
    }
}

fn sorted(ids: &[NodeId]) -> Vec<NodeId> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}
