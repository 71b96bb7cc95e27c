//! The harness: nodes with logs, clients, an operator, and the ledger that judges.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_kernel::{Marks, NodeId, Rng};
use quorate_replog::{Config, Message, Record};

use super::clients::{Clients, Manners};
use super::ledger::Ledger;
use super::operator::{Operator, Zeal, leader, members};
use super::parent::{Answer, Ask, Pace, Parent};
use super::snare::{Snare, Snares};
use crate::{
    Agenda, Boot, Fault, FaultSet, Harness, Nodes, Plan, Replacement, Report, Seen, Stressed, Verdict,
    through_bytes,
};

/// What a kind of run lays stress on; everything else is drawn.
#[derive(Debug, Clone, Default)]
pub struct Stress {
    /// Replaces the drawn settings of all replicas.
    pub config: Option<Config>,
    /// A broken rule.
    #[cfg(feature = "mutants")]
    pub mutant: Option<quorate_replog::Mutant>,
    /// Chance in a thousand that a node that just answered a write crashes, freezes or is cut off.
    pub aimed: u64,
    /// Percentage of reads among requests; drawn if not given.
    pub reads: Option<u64>,
    /// How many nodes are members at first; drawn if not given.
    pub members: Option<usize>,
    /// Longest time between two acts of the operator; drawn if not given, none if zero.
    pub operator: Option<Duration>,
    /// Percentage of handovers among them.
    pub transfers: Option<u64>,
    /// Faults that wait for certain messages.
    pub snares: Vec<Snare>,
    /// Bytes of a command's padding at most; drawn if not given.
    pub padding: Option<u64>,
    /// How long clients wait for an answer; drawn if not given.
    pub patience: Option<Duration>,
}

impl Stressed for Stress {
    fn run(&self, plan: &Plan) -> Report {
        crate::run(plan, |plan| Cluster::new(plan, self))
    }
}

const OPERATOR: u64 = 1 << 32;
const RUMOURS: u64 = OPERATOR + 1;
const SNARES: u64 = OPERATOR + 2;

/// Steps of machines after which a run counts as going in circles.
const STEPS_MAX: u64 = 1_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    config: Config,
    pace: Pace,
    priorities: bool,
    first: Vec<NodeId>,
    ids: BTreeSet<NodeId>,
    faults: FaultSet,
    aimed: u64,
    healed: bool,
    /// When the leader is to fall silent once more, after all faults are over.
    encore: Option<Duration>,
    steps: u64,
    snares: Snares,
    clients: Clients,
    operator: Operator,
    ledger: Ledger,
}

impl Cluster {
    /// The cluster that `plan` means.
    pub fn new(plan: &Plan, stress: &Stress) -> Self {
        let mut rng = plan.rng();
        let nodes = plan.world.nodes as u64;
        let drawn = if rng.chance(1, 3) { rng.between(1, nodes) } else { nodes.min(3) } as usize;
        let first = (1..=stress.members.unwrap_or(drawn) as u64).map(NodeId).collect();
        let config = draw_config(&mut rng, plan);
        let mut config = stress.config.clone().unwrap_or(config);
        #[cfg(feature = "mutants")]
        {
            config.mutant = stress.mutant;
        }
        config.clock_error_ppm = config.clock_error_ppm.max(plan.world.clock.rate_error_ppm_max);
        let slow = rng.chance(1, 4);
        let pace = Pace {
            apply_max: if slow { rng.between(1, 5) } else { u64::MAX },
            apply_pause: Duration::from_micros(rng.between(10, 20_000)),
        };
        let ms = |ms| Duration::from_millis(ms);
        let manners = Manners {
            sessions: rng.chance(1, 2),
            window: rng.between(1, 6) as usize,
            think: ms(1 << rng.between(1, 7)),
            patience: stress.patience.unwrap_or(ms(1 << rng.between(6, 11))),
            reads: stress.reads.unwrap_or([0, 20, 50, 80][rng.below(4) as usize]),
            padding_max: stress.padding.unwrap_or(1 << rng.between(0, 7)),
        };
        let pause = ms(1 << rng.between(7, 13));
        let zeal = Zeal {
            pause: stress.operator.unwrap_or(if rng.chance(2, 3) { pause } else { Duration::ZERO }),
            transfers: stress.transfers.unwrap_or([0, 30, 90][rng.below(3) as usize]),
            rumours: if rng.chance(1, 2) { ms(1 << rng.between(5, 10)) } else { ms(0) },
        };
        let aimed = if rng.chance(1, 2) { stress.aimed } else { 0 };
        Cluster {
            priorities: rng.chance(1, 4),
            rng,
            config,
            pace,
            first,
            ids: (1..=nodes).map(NodeId).collect(),
            faults: plan.faults,
            aimed,
            healed: false,
            encore: None,
            steps: 0,
            snares: Snares::new(&stress.snares),
            clients: Clients::new(manners, plan.clients),
            operator: Operator::new(zeal),
            ledger: Ledger::default(),
        }
    }

    fn ids(&self) -> Vec<NodeId> {
        self.ids.iter().copied().collect()
    }

    /// Strikes at a node at the moment at which it hurts most: it has just answered.
    fn aim(&mut self, node: NodeId, agenda: &mut Agenda<Ask>) {
        if self.healed || !self.rng.chance(self.aimed, 1_000) {
            return;
        }
        let span = Duration::from_millis(1 << self.rng.between(0, 10));
        match self.rng.below(3) {
            0 if self.faults.has(Fault::Crash) => agenda.crash(Duration::ZERO, node, span),
            1 if self.faults.has(Fault::Pause) => agenda.pause(Duration::ZERO, node, span),
            2 if self.faults.has(Fault::Halves) => agenda.isolate(Duration::ZERO, node, span),
            _ => {}
        }
        self.tell_lost(node, agenda);
    }

    /// The others hear, as a transport would tell them, that `node` is gone.
    fn tell_lost(&mut self, node: NodeId, agenda: &mut Agenda<Ask>) {
        for other in self.ids().into_iter().filter(|other| *other != node) {
            let after = Duration::from_micros(self.rng.between(100, 5_000));
            agenda.input(after, other, Ask::Lost(node));
        }
    }

    /// After the healing the leader dies once more for a while: the others must be able to go on without it.
    fn encore(&mut self, nodes: &Nodes<Parent>, agenda: &mut Agenda<Ask>) {
        if self.encore.is_none_or(|at| agenda.now() < at) {
            return;
        }
        let Some(leader) = leader(nodes) else { return };
        let Some(log) = nodes.machine(leader).map(Parent::log) else { return };
        let members = members(log.epoch());
        if members.iter().any(|id| nodes.machine(*id).is_none()) {
            return;
        }
        self.encore = None;
        if members.len() >= 3 && log.is_ready() {
            agenda.crash(Duration::ZERO, leader, Duration::from_secs(3));
        }
    }

    /// Whoever else still believes to lead when a write was answered is asked to read.
    fn probe(&mut self, node: NodeId, nodes: &Nodes<Parent>, agenda: &mut Agenda<Ask>) {
        let others = nodes.live().filter(|(id, machine)| *id != node && machine.log().leads());
        for (id, _) in others {
            self.clients.read_from(id, &self.ledger, agenda);
        }
    }
}

fn draw_config(rng: &mut Rng, plan: &Plan) -> Config {
    let ms = |ms| Duration::from_millis(ms);
    let mut config = if rng.chance(7, 8) { Config::tiny() } else { Config::production() };
    config.heartbeat = ms(rng.between(5, 40));
    config.election = config.heartbeat * rng.between(3, 8) as u32;
    config.lease = match rng.below(3) {
        0 => Duration::ZERO,
        1 => config.election,
        _ => config.election * rng.between(1, 9) as u32 / 10,
    };
    config.clock_error_ppm = plan.world.clock.rate_error_ppm_max;
    config.change_deadline = ms(rng.between(100, 5_000));
    config.learner_lag_max = rng.between(0, 10);
    config.log_bytes_max = rng.between(100, 3_000) as usize;
    config.checkpoint_bytes = rng.between(100, 3_000) as usize;
    // Not at the cost of the runs that other draws follow.
    config.spare = ms(rng.clone().below(20));
    config
}

impl Harness for Cluster {
    type Machine = Parent;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Parent {
        if let Boot::Replacing(old) = boot {
            self.ids.remove(&old);
            self.ids.insert(node);
        }
        self.ledger.booted(node);
        let mut config = self.config.clone();
        config.priority = if self.priorities { (node.0 % 3) as u8 } else { 0 };
        let bootstrap: &[NodeId] = if self.first.contains(&node) { &self.first } else { &[] };
        Parent::new(node, config, self.pace, bootstrap)
    }

    fn start(&mut self, agenda: &mut Agenda<Ask>) {
        (0..self.clients.count()).for_each(|client| agenda.wake(Duration::from_millis(5), client));
        agenda.wake(Duration::from_millis(100), OPERATOR);
        agenda.wake(Duration::from_millis(100), RUMOURS);
        if self.snares.are_laid() {
            agenda.wake(Duration::ZERO, SNARES);
        }
    }

    fn observe(&mut self, seen: Seen<'_, Parent>) -> Verdict {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(format!("{STEPS_MAX} steps without an end: is a message or timer going round?"));
        }
        self.ledger.look(seen.node, seen.machine)
    }

    fn output(&mut self, seen: Seen<'_, Parent>, answer: Answer, agenda: &mut Agenda<Ask>) -> Verdict {
        match answer {
            Answer::Done { attempt, index } => {
                self.ledger.look(seen.node, seen.machine)?;
                self.clients.done(attempt, index, &mut self.ledger)?;
                self.probe(seen.node, seen.nodes, agenda);
                self.aim(seen.node, agenda);
            }
            Answer::Refused { attempt, leader } => {
                let ids = self.ids();
                self.clients.refused(attempt, leader, &ids, &mut self.rng);
            }
            Answer::Read { ticket, index } => self.clients.was_read(ticket, index, &mut self.ledger)?,
            Answer::ReadRefused { ticket, leader } => {
                self.clients.read_refused(ticket, leader, &mut self.rng);
            }
            Answer::Changed { ticket, .. } => self.operator.ended(ticket),
        }
        Ok(())
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Parent>, agenda: &mut Agenda<Ask>) -> Verdict {
        let ids = self.ids();
        match token {
            OPERATOR if self.healed => {
                self.operator.tidy(nodes, agenda);
                self.encore(nodes, agenda);
                agenda.wake(Duration::from_millis(100), OPERATOR);
            }
            OPERATOR if self.operator.zeal.pause.is_zero() => {}
            OPERATOR => {
                self.operator.meddle(nodes, &mut self.rng, agenda);
                agenda.wake(self.operator.pause(&mut self.rng), OPERATOR);
            }
            RUMOURS if self.healed || self.operator.zeal.rumours.is_zero() => {}
            RUMOURS => {
                self.operator.spread(&ids, &mut self.rng, agenda);
                let most = self.operator.zeal.rumours.as_micros() as u64;
                agenda.wake(Duration::from_micros(self.rng.between(0, most)), RUMOURS);
            }
            SNARES if self.healed => {}
            SNARES => {
                for node in self.snares.spring(agenda) {
                    self.tell_lost(node, agenda);
                }
                agenda.wake(Duration::from_micros(500), SNARES);
            }
            client => self.clients.wake(client as usize, &self.ledger, &ids, &mut self.rng, agenda),
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Ask>) {
        if self.operator.zeal.rumours.is_zero() {
            return;
        }
        self.tell_lost(node, agenda);
    }

    fn loses(&mut self, from: NodeId, to: NodeId, msg: &Message) -> bool {
        !self.healed && self.snares.pass(from, to, msg, &mut self.rng)
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

    fn may_lose_disk(&mut self, node: NodeId, nodes: &Nodes<Parent>) -> bool {
        self.operator.can_spare(node, &self.ledger, nodes)
    }

    fn healed(&mut self, _: &Nodes<Parent>, agenda: &mut Agenda<Ask>) {
        self.healed = true;
        self.encore = Some(agenda.now() + Duration::from_millis(500));
        self.clients.healed(agenda.now());
        agenda.wake(Duration::from_millis(100), OPERATOR);
    }

    fn converged(&mut self, nodes: &Nodes<Parent>) -> Verdict {
        if self.encore.is_some() {
            return Err("the leader was not put to the test yet".into());
        }
        self.clients.content()?;
        let Some(leader) = leader(nodes) else { return Err("nobody leads".into()) };
        let Some(first) = nodes.machine(leader).map(Parent::log) else { return Err("nobody leads".into()) };
        if !first.is_ready() || !first.is_member() || !first.can_propose() {
            return Err(format!("{leader:?} leads and is not ready: {:?}", first.leading()));
        }
        if first.applied() < first.last() {
            return Err(format!("{leader:?} has applied {} of {}", first.applied(), first.last()));
        }
        for id in members(first.epoch()) {
            let Some(log) = nodes.machine(id).map(Parent::log) else {
                return Err(format!("{id:?} is a member and dead"));
            };
            if log.applied() != first.applied() || log.epoch() != first.epoch() {
                return Err(format!("{id:?} has applied {} of {}", log.applied(), first.applied()));
            }
        }
        for (id, machine) in nodes.live() {
            let log = machine.log();
            if id != leader && log.leads() {
                return Err(format!("{id:?} believes to lead beside {leader:?}"));
            }
            // Of what came after its epoch only those can tell it whom it knows as members. Where their disks are lost, nobody can:
            // a node's view of who holds what does that.
            let asks_somebody =
                members(log.epoch()).iter().any(|&other| other != id && nodes.machine(other).is_some());
            if log.epoch().has(id) && !first.epoch().has(id) && !log.is_retired() && asks_somebody {
                return Err(format!("{id:?} does not know that it is no member any more"));
            }
            if first.epoch().had(id) && !log.is_retired() {
                return Err(format!("{id:?} was a member and does not know that nobody needs it"));
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Nodes<Parent>, marks: &mut Marks) -> Verdict {
        for (name, count) in [
            ("replog.sim.acknowledged", self.clients.acknowledged),
            ("replog.sim.read", self.clients.read),
            ("replog.sim.chosen", self.ledger.chosen_count()),
        ] {
            (0..count).for_each(|_| marks.hit(name));
        }
        self.ledger.finish()
    }
}
