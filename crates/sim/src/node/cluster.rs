//! The harness: whole nodes, their clients and their operator.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::{Bucket, Outcome, Refusal};
use quorate_kernel::{ClusterId, Marks, NodeId, Rng};
use quorate_node::{
    ConnectionId, Input, Limits, Message, Node, NodeConfig, Output, Placing, Record, Topology,
};
use quorate_replog::Config;
use quorate_shard::Shard;
use quorate_workload::{Kind, Spec, Workload};

use super::callers::Caller;
use super::claims::Claims;
use super::doors::{Asker, Doors};
use super::equality::Equality;
use super::grouped::is_grouped;
use super::keys::{Keeper, Rules};
use super::lanes::{Course, Duty, Lane, Stage};
use super::operator::{Links, Operator, Zeal, leader, member, member_beside};
use super::pebbles::Player;
use super::pipeline::Pipeline;
use super::placed::{is_placed, placed};
use super::spread::{is_clean, is_spread, unfinished};
use super::stress::{Play, Stress, draw_limits, draw_log, draw_near, draw_placing};
use super::witness::Witness;
use crate::{Agenda, Boot, FaultSet, Harness, Nodes, Plan, Seen, Verdict, through_bytes};

mod seats;
mod wake;

const OPERATOR: u64 = 1 << 40;
const LINKS: u64 = OPERATOR + 1;
const LANE: u64 = 1 << 41;
const KEEPER: u64 = 1 << 42;
const PLAYER: u64 = 3 << 41;
const PIPELINE: u64 = 1 << 43;
const CALLER: u64 = 1 << 44;
const CLAIM: u64 = u64::MAX - 1;
/// Marks the question of a pipeline or caller as the last look at a key.
const LOOK: u64 = 1 << 63;

/// How long clients go on after all faults are over.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// How long a node may take to end requests beyond its deadline, once all faults are over.
const GRACE: Duration = Duration::from_secs(5);
const LINKS_EVERY: Duration = Duration::from_millis(40);

/// What was answered.
#[derive(Debug, Clone, Default)]
struct Counts {
    done: u64,
    unknown: u64,
    refused: BTreeMap<&'static str, u64>,
    lost: u64,
    inconclusive: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    limits: Limits,
    log: Config,
    priorities: bool,
    buckets: NonZeroU16,
    copies: u8,
    topology: Topology,
    placing: Placing,
    first: Vec<NodeId>,
    faults: FaultSet,
    aimed: u64,
    short_lives: u64,
    brief: bool,
    think: Duration,
    relaxed: u64,
    /// Requests beside all others that wait for their answers.
    asides: usize,
    healed: Option<Duration>,
    stage: Stage,
    now: Duration,
    nodes: Vec<NodeId>,
    doors: Doors,
    /// Connections that several clients share.
    seats: Vec<Option<ConnectionId>>,
    courses: Vec<Course>,
    lanes: Vec<Lane>,
    keepers: Vec<Keeper>,
    players: Vec<Player>,
    rules: Rules,
    pipelines: Vec<Pipeline>,
    callers: Vec<Caller>,
    operator: Operator,
    links: Links,
    equality: Equality,
    witness: Witness,
    claims: Claims,
    counts: Counts,
}

impl Cluster {
    /// The cluster that `plan` means.
    pub fn new(plan: &Plan, stress: &Stress) -> Self {
        let mut rng = plan.rng();
        let nodes = plan.world.nodes as u64;
        let most = nodes.min(5);
        let drawn = if rng.chance(1, 3) { rng.between(1, most) } else { most.min(3) } as usize;
        let first: Vec<NodeId> = (1..=stress.members.unwrap_or(drawn) as u64).map(NodeId).collect();
        let log = draw_log(&mut rng, plan);
        let limits = draw_limits(&mut rng);
        let pause = Duration::from_millis(1 << rng.between(8, 13));
        let pause = if rng.chance(2, 3) { pause } else { Duration::ZERO };
        let zeal = Zeal {
            pause: stress.operator.unwrap_or(pause),
            transfers: stress.transfers.unwrap_or([0, 30, 80][rng.below(3) as usize]),
            stops: [0, 10, 40][rng.below(3) as usize],
            rumours: [0, 5, 50][rng.below(3) as usize],
        };
        let rules = Rules::draw(plan, &mut rng);
        let placed = if stress.placed { draw_placing(&mut rng) } else { (0, Placing::production()) };
        let mut cluster = Cluster {
            limits: stress.limits.clone().unwrap_or(limits),
            log: stress.log.clone().unwrap_or(log),
            priorities: rng.chance(1, 4),
            buckets: NonZeroU16::MIN,
            copies: placed.0,
            topology: stress.topology,
            placing: placed.1,
            links: Links::new(first.clone()),
            first,
            faults: plan.faults,
            aimed: if rng.chance(1, 2) { stress.aimed } else { 0 },
            short_lives: stress.short_lives,
            brief: stress.brief,
            think: Duration::from_millis(1 << rng.between(1, 7)),
            relaxed: if stress.brief { 50 } else { [0, 10][rng.below(2) as usize] },
            asides: 0,
            healed: None,
            stage: Stage::Work,
            now: Duration::ZERO,
            nodes: (1..=nodes).map(NodeId).collect(),
            doors: Doors::new(stress.near.unwrap_or_else(|| draw_near(plan))),
            seats: vec![None; plan.clients as usize],
            courses: Vec::new(),
            lanes: Vec::new(),
            keepers: Vec::new(),
            players: Vec::new(),
            rules,
            pipelines: (0..u64::from(plan.clients.div_ceil(2))).map(Pipeline::new).collect(),
            callers: (0..u64::from(plan.clients)).map(Caller::new).collect(),
            operator: Operator::new(zeal),
            equality: Equality::new([1, 16, 16, 16][rng.below(4) as usize]),
            witness: Witness::default(),
            claims: Claims::default(),
            counts: Counts::default(),
            rng,
        };
        cluster.log.clock_error_ppm = cluster.log.clock_error_ppm.max(plan.world.clock.rate_error_ppm_max);
        #[cfg(feature = "mutants")]
        {
            cluster.limits.shard.mutant = stress.mutant;
            cluster.limits.shard.commit.mutant = stress.commit_mutant;
            cluster.log.mutant = stress.log_mutant;
        }
        cluster.cast(plan, stress);
        cluster
    }

    /// Gives the clients their parts.
    fn cast(&mut self, plan: &Plan, stress: &Stress) {
        let rng = &mut self.rng;
        let play = stress.play.unwrap_or_else(|| match rng.below(14) {
            place @ 0..9 => Play::Workload(Kind::ALL[place as usize]),
            9 => Play::Pipelines,
            10 | 11 => Play::Keys,
            _ => Play::Pebbles,
        });
        let count = u64::from(plan.clients) * rng.between(1, 3);
        let drawn = if rng.chance(1, 2) { rng.between(2, 4) as u16 } else { 1 };
        self.buckets = stress.buckets.or(NonZeroU16::new(drawn)).unwrap_or(NonZeroU16::MIN);
        match play {
            // FLUSHALL would take the keys of pipelines and callers, too.
            Play::Keys if self.rules.flushes > 0 => {
                (self.pipelines, self.callers) = (Vec::new(), Vec::new());
                self.keepers = (0..count.max(2)).map(Keeper::new).collect();
            }
            Play::Keys => self.keepers = (0..count).map(Keeper::new).collect(),
            Play::Pebbles => self.players = (0..count).map(Player::new).collect(),
            Play::Pipelines => {}
            Play::Workload(kind) => {
                let least = Spec::new(kind).keys.min(4);
                let keys = rng.between(least, 6);
                let (keys, read_percent) = stress.busy.unwrap_or((keys, rng.between(20, 70)));
                let spec = Spec { keys, read_percent, ..Spec::new(kind) };
                let workload = match Workload::new(spec) {
                    Ok(workload) => workload,
                    Err(error) => panic!("a workload of the harness: {error}"),
                };
                self.courses.push(Course::new(workload));
                self.lanes.push(Lane::new(0, 0, Duty::Frame, rng.fork()));
                self.lanes.extend((1..=count).map(|id| Lane::new(id, 0, Duty::Work, rng.fork())));
            }
        }
    }

    /// A request of one of the clients has ended.
    fn ended(&mut self, asker: Asker, outcome: Outcome, agenda: &mut Agenda<Input>) -> Verdict {
        let Asker { who, what } = asker;
        match who {
            CLAIM => {
                self.doors.close(ConnectionId(what));
                self.claims.verified(what, &outcome)
            }
            u64::MAX => {
                self.asides -= 1;
                self.doors.close(ConnectionId(what));
                Ok(())
            }
            CALLER.. => {
                let caller = &mut self.callers[(who - CALLER) as usize];
                match what & LOOK {
                    0 => caller.ended(outcome, &mut self.rng),
                    _ => caller.looked(what & !LOOK, &outcome),
                }
            }
            PIPELINE.. if what & LOOK != 0 => {
                let pipeline = &mut self.pipelines[(who - PIPELINE) as usize];
                pipeline.in_flight -= 1;
                pipeline.looked(what & !LOOK, &outcome)
            }
            PIPELINE.. => {
                let pipeline = &mut self.pipelines[(who - PIPELINE) as usize];
                pipeline.ended(what, outcome, self.healed.is_some())
            }
            PLAYER.. => self.players[(who - PLAYER) as usize].ended(&outcome),
            KEEPER.. => {
                let keeper = &mut self.keepers[(who - KEEPER) as usize];
                keeper.ended(&outcome, &mut self.rules, agenda.now())
            }
            _ => {
                let number = (who - LANE) as usize;
                self.lanes[number].answered(outcome)?;
                self.drive_lane(number, agenda)
            }
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Done(_) => self.counts.done += 1,
            Outcome::Unknown => self.counts.unknown += 1,
            Outcome::Refused(why) => *self.counts.refused.entry(super::words::mark_of(why)).or_default() += 1,
        }
    }

    /// Moves on from work to leaving to the last look.
    fn turn(&mut self, nodes: &Nodes<Node>) {
        let Some(healed) = self.healed else { return };
        let alive = self.pipelines.iter().all(|pipeline| pipeline.done_since_healing);
        if self.stage == Stage::Work
            && self.now > healed + LAST_WORDS
            && alive
            && is_clean(nodes, self.buckets)
        {
            self.stage = Stage::Leave;
        }
        if self.stage == Stage::Leave && self.doors.waiting() == 0 {
            self.stage = Stage::Look;
        }
    }

    fn judge(&mut self) -> Verdict {
        for course in &mut self.courses {
            self.counts.inconclusive += course.judge()?;
        }
        Ok(())
    }
}

impl Harness for Cluster {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, _: Boot) -> Node {
        self.links.booted(node);
        self.equality.booted(node);
        self.witness.booted(node);
        let mut log = self.log.clone();
        log.priority = if self.priorities { (node.0 % 3) as u8 } else { 0 };
        let member = if self.topology == Topology::Ring { member_beside } else { member };
        let founders = self.first.contains(&node).then_some(&self.first);
        let bootstrap = founders.into_iter().flatten().copied().map(member).collect();
        let (limits, buckets) = (self.limits.clone(), self.buckets);
        let (me, copies, placing) = (member(node), self.copies, placed(node, self.placing.clone()));
        let (cluster, topology) = (ClusterId(7), self.topology);
        Node::new(NodeConfig { me, cluster, bootstrap, buckets, copies, topology, placing, log, limits })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        let tokens = (0..self.lanes.len() as u64).map(|number| LANE + number);
        let tokens = tokens.chain((0..self.keepers.len() as u64).map(|number| KEEPER + number));
        let tokens = tokens.chain((0..self.players.len() as u64).map(|number| PLAYER + number));
        let tokens = tokens.chain((0..self.pipelines.len() as u64).map(|number| PIPELINE + number));
        let tokens = tokens.chain((0..self.callers.len() as u64).map(|number| CALLER + number));
        tokens.chain([OPERATOR, LINKS]).for_each(|token| agenda.wake(Duration::from_millis(5), token));
    }

    fn observe(&mut self, seen: Seen<'_, Node>) -> Verdict {
        self.witness.look(seen.node, seen.machine, self.buckets)?;
        let Some(store) = seen.nodes.store(seen.node) else { return Ok(()) };
        self.equality.look(seen.node, seen.machine, store)
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        self.now = seen.now;
        match output {
            Output::Reason(connection, ticket, reason) => {
                let request = self.doors.asked(seen.node, connection, ticket);
                if let Some(claim) = self.claims.told((ticket, request), &reason, self.buckets)? {
                    self.verify(claim, agenda);
                }
            }
            Output::Replies(replies) => {
                for (connection, ticket, outcome) in replies {
                    let request = self.doors.asked(seen.node, connection, ticket);
                    self.claims.ended(ticket, request, &outcome)?;
                    let asker = self.doors.answered(seen.node, connection, ticket, &outcome)?;
                    let Some(asker) = asker else { continue };
                    self.count(&outcome);
                    // Whoever gets nowhere tries another node.
                    let stuck = matches!(&outcome, Outcome::Refused(Refusal::NoLeader | Refusal::NotServing));
                    self.ended(asker, outcome, agenda)?;
                    if stuck && self.rng.chance(1, 3) {
                        self.hang_up(connection, agenda);
                    }
                    self.aim(seen.node, agenda);
                }
            }
            Output::Peers(peers) => self.links.wants(seen.node, &peers),
            Output::Admin(ticket, outcome) => self.operator.ended(ticket, &outcome)?,
            Output::ReadyToStop => {
                self.operator.is_ready_to_stop(seen.node, seen.machine, &mut self.rng, agenda)?;
            }
        }
        Ok(())
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        self.now = agenda.now();
        match token {
            OPERATOR => {
                if self.operator.zeal.pause.is_zero() {
                    return Ok(());
                }
                let patience = self.limits.deadline + GRACE;
                self.operator.lose_patience(patience, agenda);
                if self.healed.is_none() {
                    self.operator.meddle(nodes, &mut self.rng, agenda);
                }
                agenda.wake(self.operator.pause(&mut self.rng), OPERATOR);
            }
            LINKS => {
                let rumours = if self.healed.is_some() { 0 } else { self.operator.zeal.rumours };
                if self.healed.is_some() && self.rng.chance(1, 20) {
                    self.links.tell_again();
                    if self.topology == Topology::Ring {
                        self.operator.fill(nodes, agenda);
                    }
                }
                self.links.look(nodes, rumours, &mut self.rng, agenda);
                self.turn(nodes);
                agenda.wake(LINKS_EVERY, LINKS);
            }
            CALLER.. => self.wake_caller((token - CALLER) as usize, agenda),
            PIPELINE.. => self.wake_pipeline((token - PIPELINE) as usize, agenda),
            PLAYER.. => self.wake_player((token - PLAYER) as usize, agenda),
            KEEPER.. => self.wake_keeper((token - KEEPER) as usize, agenda),
            _ => self.wake_lane((token - LANE) as usize, agenda)?,
        }
        Ok(())
    }

    fn refused(&mut self, _: NodeId, input: Input, agenda: &mut Agenda<Input>) {
        let Input::Requests(requests) = input else { return };
        for request in &requests {
            let Some(asker) = self.doors.bounced(request.ticket) else { continue };
            if let Err(why) = self.ended(asker, Outcome::Refused(Refusal::NotServing), agenda) {
                panic!("a refused connection was judged: {why}");
            }
        }
        for request in requests {
            let lost = self.doors.close(request.connection);
            self.forget(request.connection);
            self.lose(lost, agenda);
        }
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        self.operator.died(node);
        self.links.died(node, &mut self.rng, agenda);
        let lost = self.doors.died(node);
        lost.iter().for_each(|(connection, _)| self.forget(*connection));
        for (_, askers) in lost {
            self.lose(askers, agenda);
        }
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }

    fn disk_full(&mut self, _: NodeId, full: bool) -> Option<Input> {
        Some(Input::Full(full))
    }

    fn healed(&mut self, _: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        self.healed = Some(agenda.now());
    }

    fn converged(&mut self, nodes: &Nodes<Node>) -> Verdict {
        let most = self.limits.deadline + GRACE;
        if let Some(late) = self.doors.overdue(self.now, most)
            && self.healed.is_some_and(|healed| self.now > healed + most)
        {
            return Err(late);
        }
        let Some(id) = leader(nodes, Bucket(0)) else { return Err("nobody leads".into()) };
        let Some(first) = nodes.machine(id) else { return Err("nobody leads".into()) };
        if !first.is_ready() {
            return Err(format!("{id:?} leads and is not ready: {:?}", first.status()));
        }
        if let Some((node, since)) = self.operator.stopping.first_key_value() {
            return Err(format!("{node:?} was told to stop at {since:?} and is not ready to"));
        }
        if self.stage < Stage::Look || self.doors.waiting() > 0 {
            return Err(format!(
                "clients are not done: {:?}, {} requests, garbage {:?}, transactions {:?}",
                self.stage,
                self.doors.waiting(),
                first.shard(Bucket(0)).map(Shard::state),
                unfinished(nodes, self.buckets)
            ));
        }
        if self.courses.iter().any(|course| !course.is_over())
            || self.pipelines.iter().any(|pipeline| pipeline.last_look().is_some())
            || self.callers.iter().any(|caller| caller.last_look().is_some())
            || self.lanes.iter().any(|lane| !lane.is_idle())
        {
            let transactions = unfinished(nodes, self.buckets);
            return Err(format!("the last look is not done; transactions: {transactions:?}"));
        }
        if self.topology == Topology::Ring {
            return is_grouped(nodes, self.buckets, self.copies);
        }
        if self.copies > 0 {
            return is_placed(nodes, self.buckets);
        }
        (0..self.buckets.get()).map(Bucket).try_for_each(|bucket| is_spread(nodes, bucket))
    }

    fn finish(&mut self, nodes: &Nodes<Node>, marks: &mut Marks) -> Verdict {
        for (id, machine) in nodes.live() {
            if let Some(store) = nodes.store(id) {
                self.equality.compare(id, machine, store)?;
            }
        }
        let verdict = self.judge();
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>();
        let mut counts = vec![
            ("node.sim.done", self.counts.done),
            ("node.sim.unknown", self.counts.unknown),
            ("node.sim.lost", self.counts.lost),
            ("node.sim.gave_up", self.counts.inconclusive),
            ("node.sim.compared", self.equality.compared),
            ("node.sim.stopped", self.operator.stopped),
            ("node.sim.admin_done", self.operator.changed),
            ("node.sim.expired_seen", self.rules.expired_seen),
            ("node.sim.scanned", self.rules.scanned),
            ("node.sim.keys", sum(&mut self.keepers.iter().map(|keeper| keeper.done))),
            ("node.sim.played", sum(&mut self.players.iter().map(|player| player.done))),
            ("node.sim.operations", sum(&mut self.lanes.iter().map(|lane| lane.acknowledged))),
            ("node.sim.named", sum(&mut self.callers.iter().map(|caller| caller.done))),
            ("node.sim.found_again", sum(&mut self.callers.iter().map(|caller| caller.found))),
            ("node.sim.pipelined", sum(&mut self.pipelines.iter().map(|pipeline| pipeline.done))),
        ];
        counts.extend(self.claims.counts());
        counts.extend(self.witness.counts());
        counts.extend(self.counts.refused.iter().map(|(name, count)| (*name, *count)));
        for (name, count) in counts {
            (0..count).for_each(|_| marks.hit(name));
        }
        verdict
    }
}
