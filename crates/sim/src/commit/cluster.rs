//! The harness: buckets, clients, and the judge.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::history::Check;
use quorate_checker::History;
use quorate_commit::{Config, LogId};
use quorate_kernel::{Marks, NodeId, Rng};

use super::bucket::{Answer, Ask, Bucket, Moment, Msg, Record};
use super::clients::{Clients, Manners, Wish};
use super::judge::Judge;
use super::shelf::{Cell, Ways};
use crate::{
    Agenda, Boot, Fault, FaultSet, Harness, Nodes, Plan, Report, Seen, Stressed, Verdict, through_bytes,
};

/// What a kind of run lays stress on; everything else is drawn.
#[derive(Debug, Clone, Default)]
pub struct Stress {
    /// A broken rule.
    #[cfg(feature = "mutants")]
    pub mutant: Option<quorate_commit::Mutant>,
    /// Chance in a thousand that a bucket crashes at a moment that matters.
    pub aimed: u64,
    /// Whether coordinators that have just granted a revert crash instead, and their participants soon after.
    pub grants: bool,
    /// Whether origins that are gone are settled only once nothing is unfinished; drawn if not given.
    pub late: Option<bool>,
    /// Percentage of transactions that compare versions; drawn if not given.
    pub versioned: Option<u64>,
    /// Percentage of acts that remove a key; drawn if not given.
    pub removals: Option<u64>,
    /// Percentage of acts that only read; drawn if not given.
    pub reads: Option<u64>,
    /// Percentage of transactions whose parts the coordinator hands on; drawn if not given.
    pub handed_on: Option<u64>,
    /// Whether all may go with others, and meet at the first of their logs.
    pub shared: bool,
    /// Whether nothing limits transactions, so that none may fail but for what it demands.
    pub unlimited: bool,
    /// Keys of each log; drawn if not given.
    pub keys: Option<u8>,
    /// Percentage of transactions whose client dies; drawn if not given.
    pub deaths: Option<u64>,
}

impl Stressed for Stress {
    fn run(&self, plan: &Plan) -> Report {
        crate::run(plan, |plan| Cluster::new(plan, self))
    }
}

const SETTLE: u64 = 1 << 32;
const SETTLE_EVERY: Duration = Duration::from_millis(300);

/// See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    rng: Rng,
    config: Config,
    keys_max: usize,
    pause: Duration,
    ways: Ways,
    logs: Vec<LogId>,
    faults: FaultSet,
    stress: Stress,
    healed: bool,
    clients: Clients,
    judge: Judge,
    /// How long a request is under way at most.
    journey_ms: u64,
    has_removals: bool,
    settled: usize,
    late: bool,
}

impl Cluster {
    /// The cluster that `plan` means.
    pub fn new(plan: &Plan, stress: &Stress) -> Self {
        let mut rng = plan.rng();
        let ms = |ms| Duration::from_millis(ms);
        let mut config = Config::tiny();
        if rng.chance(2, 3) {
            config.live_max = 200;
            config.records_max = 400;
            config.tick_max = 50;
        }
        config.retry = ms(1 << rng.between(4, 8));
        config.retry_max = config.retry * 16;
        config.members_max = rng.between(2, 5) as usize;
        config.bundles_max = rng.between(1, 2) as usize;
        config.bundle_wait = ms(1 << rng.between(2, 9));
        config.patience = rng.chance(1, 4).then(|| config.retry * rng.between(4, 40) as u32);
        if stress.unlimited {
            config.live_max = 1_000;
            config.records_max = 10_000;
            config.origins_max = 1_000;
            config.payload_bytes_max = 1 << 20;
            config.patience = None;
        }
        #[cfg(feature = "mutants")]
        {
            config.mutant = stress.mutant;
        }
        let removals = stress.removals.unwrap_or(if rng.chance(1, 2) { 0 } else { 20 });
        let manners = Manners {
            versioned: stress.versioned.unwrap_or([0, 30, 60, 100][rng.below(4) as usize]),
            deaths: stress.deaths.unwrap_or(if rng.chance(1, 2) { 0 } else { rng.between(1, 20) }),
            handed_on: stress.handed_on.unwrap_or([0, 50, 100][rng.below(3) as usize]),
            shared: if stress.shared || rng.chance(2, 3) { 100 } else { 0 },
            meets: stress.shared || rng.chance(1, 3),
            unlimited: stress.unlimited,
            removals,
            reads: stress.reads.unwrap_or([10, 40, 80][rng.below(3) as usize]),
            keys: stress.keys.unwrap_or(rng.between(1, 3) as u8),
            patience: ms(1 << rng.between(6, 10)),
            think: ms(1 << rng.between(0, 6)),
        };
        Cluster {
            keys_max: if rng.chance(1, 8) && !stress.unlimited { 2 } else { 100 },
            pause: if rng.chance(1, 3) { Duration::from_micros(rng.between(100, 20_000)) } else { ms(0) },
            ways: Ways { hands_over: rng.chance(2, 3), stays: rng.chance(2, 3) },
            late: stress.late.unwrap_or(rng.chance(1, 4)),
            logs: (1..=plan.world.nodes as u64).map(LogId).collect(),
            faults: plan.faults,
            stress: stress.clone(),
            healed: false,
            journey_ms: 1 << rng.between(0, 7),
            has_removals: removals > 0,
            clients: Clients::new(manners, plan.clients, &mut rng),
            judge: Judge::default(),
            rng,
            config,
            settled: 0,
        }
    }

    fn deliver(&mut self, nodes: &Nodes<Bucket>, wish: Wish, agenda: &mut Agenda<Ask>) {
        let Wish::Ask(requests) = wish else { return };
        for (log, transaction) in requests {
            let bucket = nodes.machine(NodeId(transaction.coordinator.0));
            let view = bucket.and_then(|bucket| bucket.commit().view());
            let view = view.filter(|_| self.rng.chance(2, 3)).unwrap_or_default();
            let copies = match (self.rng.below(20), self.healed) {
                (0, false) if self.faults.has(Fault::Loss) => 0,
                (1 | 2, _) if self.faults.has(Fault::Duplicate) => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let after = Duration::from_micros(self.rng.below(self.journey_ms * 1_000));
                agenda.input(after, NodeId(log.0), Ask::Request(Box::new(transaction.clone()), view));
            }
        }
    }

    /// A client does the next thing, unless it is done for good.
    fn play(&mut self, who: usize, nodes: &Nodes<Bucket>, agenda: &mut Agenda<Ask>) {
        if self.healed && self.clients.clients[who].running.is_none() {
            return self.clients.die(who);
        }
        let read = |log: LogId| -> BTreeMap<u8, Cell> {
            // A log whose primary is down is read elsewhere: what it held last.
            let bucket = nodes.machine(NodeId(log.0));
            bucket.map_or_else(|| self.judge.cells(log), |bucket| bucket.shelf().cells().clone())
        };
        let wish = self.clients.act(who, agenda.now(), &mut self.rng, &self.logs, &read);
        self.deliver(nodes, wish, agenda);
        let think = self.clients.manners.think.as_micros() as u64;
        agenda.wake(Duration::from_micros(self.rng.between(100, think.max(100))), who as u64);
    }

    /// Parents tell the logs which origins are gone; after healing again and again, for what late messages left.
    fn settle(&mut self, nodes: &Nodes<Bucket>, agenda: &mut Agenda<Ask>) {
        agenda.wake(SETTLE_EVERY, SETTLE);
        let unfinished = nodes.live().any(|(_, bucket)| bucket.commit().ledger().unfinished() > 0);
        if self.late && (!self.healed || unfinished) {
            return;
        }
        let from = if self.healed { 0 } else { self.settled };
        for origin in &self.clients.dead[from..] {
            for log in &self.logs {
                let after = Duration::from_micros(self.rng.below(self.journey_ms * 1_000));
                agenda.input(after, NodeId(log.0), Ask::Settle(*origin, u64::MAX));
            }
        }
        self.settled = self.clients.dead.len();
        self.settle_bundles(nodes, agenda);
    }

    /// Reigns that made bundles are origins as well, and say no more than others that they are gone: once nobody asks for
    /// anything they are; before, a log may believe it for no good reason.
    fn settle_bundles(&mut self, nodes: &Nodes<Bucket>, agenda: &mut Agenda<Ask>) {
        let over = self.healed && self.clients.clients.iter().all(|client| client.running.is_none());
        let slandered = !over && !self.stress.unlimited && self.rng.chance(1, 8);
        if !over && !slandered {
            return;
        }
        let mut origins = self.judge.makers();
        if over {
            // Of some no coordinator's log ever knew.
            let records = nodes.live().flat_map(|(_, bucket)| bucket.commit().ledger().records());
            origins.extend(records.map(|(id, _)| id.origin));
        }
        for origin in origins {
            for log in &self.logs {
                if over || self.rng.chance(1, 8) {
                    let after = Duration::from_micros(self.rng.below(self.journey_ms * 1_000));
                    agenda.input(after, NodeId(log.0), Ask::Settle(origin, u64::MAX));
                }
            }
        }
    }

    fn aim(&mut self, node: NodeId, moment: Moment, agenda: &mut Agenda<Ask>) {
        if self.healed || !self.faults.has(Fault::Crash) || !self.rng.chance(self.stress.aimed, 1_000) {
            return;
        }
        let micros = |rng: &mut Rng, most| Duration::from_micros(rng.below(most));
        match (self.stress.grants, moment) {
            (true, Moment::Granting { to }) => {
                agenda.crash(micros(&mut self.rng, 500), node, Duration::from_millis(1));
                if self.rng.chance(1, 2) {
                    agenda.crash(micros(&mut self.rng, 100_000), to, Duration::from_millis(1));
                }
            }
            (true, _) => {}
            (false, _) => {
                let after = micros(&mut self.rng, 2_000);
                agenda.crash(after, node, Duration::from_millis(1 << self.rng.between(0, 8)));
            }
        }
    }
}

impl Harness for Cluster {
    type Machine = Bucket;

    fn machine(&mut self, node: NodeId, _: Boot) -> Bucket {
        Bucket::new(LogId(node.0), self.config.clone(), self.keys_max, self.pause, self.ways)
    }

    fn start(&mut self, agenda: &mut Agenda<Ask>) {
        for who in 0..self.clients.clients.len() {
            agenda.wake(Duration::from_millis(self.rng.between(1, 50)), who as u64);
        }
        agenda.wake(SETTLE_EVERY, SETTLE);
    }

    fn observe(&mut self, seen: Seen<'_, Bucket>) -> Verdict {
        self.judge.look(LogId(seen.node.0), seen.machine.chosen(), seen.machine.shelf().cells())
    }

    fn output(&mut self, seen: Seen<'_, Bucket>, output: Answer, agenda: &mut Agenda<Ask>) -> Verdict {
        match output {
            Answer::Moment(moment) => self.aim(seen.node, moment, agenda),
            Answer::NotTaken(id, why) => self.clients.not_taken(id, why)?,
            Answer::Result(id, outcome) => {
                self.judge.look(LogId(seen.node.0), seen.machine.chosen(), seen.machine.shelf().cells())?;
                self.judge.told(id, &outcome)?;
                let again = self.rng.chance(3, 4);
                if let Some(start) = self.clients.told(id, &outcome, seen.now, again)? {
                    self.judge.ran(id, start, Some(seen.now));
                }
            }
        }
        Ok(())
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Bucket>, agenda: &mut Agenda<Ask>) -> Verdict {
        if token == SETTLE {
            self.settle(nodes, agenda);
        } else {
            self.play(token as usize, nodes, agenda);
        }
        Ok(())
    }

    fn carry(&mut self, msg: Msg) -> (Msg, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }

    fn healed(&mut self, _: &Nodes<Bucket>, _: &mut Agenda<Ask>) {
        self.healed = true;
    }

    fn converged(&mut self, nodes: &Nodes<Bucket>) -> Verdict {
        for client in &self.clients.clients {
            if let Some(running) = &client.running {
                return Err(format!("the client of {:?} waits", running.id));
            }
        }
        for (node, bucket) in nodes.live() {
            let (ledger, locks) = (bucket.commit().ledger(), bucket.shelf().locks());
            if let Some((id, record)) = ledger.records().next() {
                return Err(format!(
                    "{node:?} remembers {} transactions, {id:?} as {record:?}",
                    ledger.count()
                ));
            }
            if bucket.commit().live_count() > 0 || locks.count() > 0 || !bucket.is_idle() {
                return Err(format!("{node:?} is at work: {} hold or wait", locks.count()));
            }
        }
        if nodes.live().count() < self.logs.len() { Err("a bucket is down".into()) } else { Ok(()) }
    }

    fn finish(&mut self, _: &Nodes<Bucket>, marks: &mut Marks) -> Verdict {
        self.judge.order.check()?;
        if !self.has_removals {
            let history = History::from_records(self.clients.history.clone());
            let history = history.map_err(|error| format!("no history: {error}"))?;
            let report = quorate_checker::check(&history, Check::Serial);
            if !report.is_ok() {
                return Err(format!("T6, by the checker: {report:?}"));
            }
            marks.hit("commit.sim.history_checked");
        }
        let counts = self.clients.counts.iter().chain(&self.judge.counts);
        for (name, count) in counts {
            (0..*count).for_each(|_| marks.hit(name));
        }
        (0..self.judge.order.committed()).for_each(|_| marks.hit("commit.sim.carried_out"));
        Ok(())
    }
}
