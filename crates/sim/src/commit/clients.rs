//! Clients: one transaction after the other, on versions they have read or on none, asked of all logs or of the coordinator
//! alone, repeated until there is an outcome; or they die having asked some of the logs.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::history::{Ending, Op, Record};
use quorate_commit::{Cause, LogId, NotTaken, Outcome, Transaction, TransactionId};
use quorate_kernel::{Rng, wire};

use super::shelf::{Act, Cell, Decision, Item, Part};
use crate::Verdict;

/// How clients behave.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    /// Percentage of transactions that compare versions; the others must never fail for what others do.
    pub(super) versioned: u64,
    /// Percentage of clients that die having asked some of the logs, for each transaction.
    pub(super) deaths: u64,
    /// Percentage of transactions whose parts the coordinator hands on.
    pub(super) handed_on: u64,
    /// Percentage of those that may go with others, of all that nothing speaks against.
    pub(super) shared: u64,
    /// Whether the first log of a transaction coordinates it, and not any.
    pub(super) meets: bool,
    /// Whether a transaction that compares no versions must commit, unless what it exports speaks against it.
    pub(super) unlimited: bool,
    /// Percentage of acts that remove a key.
    pub(super) removals: u64,
    /// Percentage of acts that only read.
    pub(super) reads: u64,
    /// Keys of each log.
    pub(super) keys: u8,
    /// How long a client waits before it asks again.
    pub(super) patience: Duration,
    /// How long it waits at most before it does the next thing.
    pub(super) think: Duration,
}

/// A transaction under way.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) id: TransactionId,
    /// What is asked of which log.
    pub(super) requests: Vec<(LogId, Transaction)>,
    versioned: bool,
    /// What it does where, and what it saw there before it asked.
    parts: BTreeMap<LogId, (Part, BTreeMap<u8, Cell>)>,
    start: Duration,
    pub(super) ask_at: Duration,
}

/// One client.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) origin: u64,
    sequence: u64,
    /// How wrong its clock is.
    skew_ms: u64,
    /// The age of something that failed and is tried again.
    age: Option<u64>,
    pub(super) running: Option<Running>,
}

/// All clients and what they did.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) manners: Manners,
    pub(super) clients: Vec<Client>,
    origins: u64,
    labels: u64,
    pub(super) history: Vec<Record>,
    /// Lives of clients that are over.
    pub(super) dead: Vec<u64>,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// What a client wants done now.
pub(super) enum Wish {
    Nothing,
    /// These requests, each sent with whatever luck the network gives.
    Ask(Vec<(LogId, Transaction)>),
}

impl Clients {
    pub(super) fn new(manners: Manners, count: u32, rng: &mut Rng) -> Self {
        let mut clients = Clients {
            manners,
            clients: Vec::new(),
            origins: 0,
            labels: 0,
            history: Vec::new(),
            dead: Vec::new(),
            counts: BTreeMap::new(),
        };
        for _ in 0..count {
            let skew_ms = rng.below(100);
            clients.origins += 1;
            let origin = clients.origins;
            clients.clients.push(Client { origin, sequence: 0, skew_ms, age: None, running: None });
        }
        clients
    }

    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Something a client does of its own accord. `seen` is what it reads at a log now.
    pub(super) fn act(
        &mut self,
        who: usize,
        now: Duration,
        rng: &mut Rng,
        logs: &[LogId],
        seen: &dyn Fn(LogId) -> BTreeMap<u8, Cell>,
    ) -> Wish {
        if let Some(running) = &mut self.clients[who].running {
            if now < running.ask_at {
                return Wish::Nothing;
            }
            running.ask_at = now + self.manners.patience;
            return Wish::Ask(running.requests.clone());
        }
        let running = self.begin(who, now, rng, logs, seen);
        let mut requests = running.requests.clone();
        if rng.chance(self.manners.deaths, 100) {
            rng.shuffle(&mut requests);
            requests.truncate(rng.between(1, requests.len() as u64) as usize);
            let record = self.record(&running, self.clients[who].origin, None, Ending::Unknown, None);
            self.history.push(record);
            self.count("commit.sim.client_died");
            self.die(who);
        } else {
            self.clients[who].running = Some(running);
        }
        Wish::Ask(requests)
    }

    /// The life of a client ends; another begins.
    pub(super) fn die(&mut self, who: usize) {
        self.dead.push(self.clients[who].origin);
        self.origins += 1;
        let client = &mut self.clients[who];
        *client = Client { origin: self.origins, sequence: 0, age: None, running: None, ..*client };
    }

    fn begin(
        &mut self,
        who: usize,
        now: Duration,
        rng: &mut Rng,
        logs: &[LogId],
        seen: &dyn Fn(LogId) -> BTreeMap<u8, Cell>,
    ) -> Running {
        let mut chosen = logs.to_vec();
        rng.shuffle(&mut chosen);
        let count =
            if rng.chance(1, 10) { 1 } else { rng.between(2.min(logs.len() as u64), logs.len() as u64) };
        chosen.truncate(count as usize);
        chosen.sort_unstable();
        let place = rng.below(count) as usize;
        let coordinator = chosen[if self.manners.meets { 0 } else { place }];
        let versioned = rng.chance(self.manners.versioned, 100);
        let needs_all = !versioned && rng.chance(1, 8);
        self.labels += 1;
        let mut parts = BTreeMap::new();
        for log in &chosen {
            let cells = seen(*log);
            let mut items: Vec<Item> = Vec::new();
            for _ in 0..rng.between(1, 2) {
                let key = rng.below(u64::from(self.manners.keys)) as u8;
                if items.iter().all(|item| item.key != key) {
                    let version = cells.get(&key).map_or(0, |cell| cell.version);
                    let expected = versioned.then_some(version);
                    items.push(Item {
                        key,
                        act: self.draw_act(rng),
                        expected,
                        label: self.labels,
                        member: 0,
                    });
                }
            }
            parts.insert(*log, (Part { needs_all, items }, cells));
        }
        let shares = !versioned && !needs_all && rng.chance(self.manners.shared, 100);
        let client = &mut self.clients[who];
        client.sequence += 1;
        let age = client.age.take().unwrap_or(now.as_millis() as u64 + client.skew_ms);
        let id = TransactionId { age, origin: client.origin, sequence: client.sequence };
        let whole = |log: LogId, others| Transaction {
            id,
            coordinator,
            logs: chosen.clone(),
            part: parts[&log].0.encode(),
            others,
            settled_before: id.sequence,
            shares,
            members: Vec::new(),
        };
        let requests = if rng.chance(self.manners.handed_on, 100) {
            let others = chosen.iter().filter(|log| **log != coordinator);
            let others = others.map(|log| (*log, parts[log].0.encode())).collect();
            vec![(coordinator, whole(coordinator, others))]
        } else {
            chosen.iter().map(|log| (*log, whole(*log, Vec::new()))).collect()
        };
        Running { id, requests, versioned, parts, start: now, ask_at: now + self.manners.patience }
    }

    fn draw_act(&self, rng: &mut Rng) -> Act {
        if rng.chance(self.manners.removals, 100) {
            Act::Remove
        } else if rng.chance(self.manners.reads, 100) {
            Act::Read
        } else {
            Act::Append
        }
    }

    /// A client hears how a transaction ended. Gives when it had begun, if that is news.
    pub(super) fn told(
        &mut self,
        id: TransactionId,
        outcome: &Outcome,
        now: Duration,
        again: bool,
    ) -> Result<Option<Duration>, String> {
        let is_his = |client: &Client| client.running.as_ref().is_some_and(|running| running.id == id);
        let Some(who) = self.clients.iter().position(is_his) else { return Ok(None) };
        let Some(running) = self.clients[who].running.take() else { return Ok(None) };
        let ending = if outcome.is_commit() { Ending::Ok } else { Ending::Fail };
        let record = self.record(&running, id.origin, Some(now), ending, Some(outcome));
        self.history.push(record);
        match outcome {
            Outcome::Committed(_) => self.count("commit.sim.committed"),
            Outcome::Aborted(refusal) => {
                self.count("commit.sim.aborted");
                if self.manners.unlimited && !running.versioned && refusal.cause != Cause::Votes {
                    return Err(format!("{id:?} had to commit and is aborted: {refusal:?}"));
                }
                if refusal.cause == Cause::Resource {
                    if !running.versioned {
                        return Err(format!("{id:?} compares nothing and is refused: {refusal:?}"));
                    }
                    if refusal.by.is_none() || refusal.resource.is_empty() {
                        return Err(format!("{id:?} is refused without a reason: {refusal:?}"));
                    }
                    // The same thing once more keeps its age.
                    self.clients[who].age = again.then_some(id.age);
                }
            }
        }
        Ok(Some(running.start))
    }

    /// A request was not taken.
    pub(super) fn not_taken(&mut self, id: TransactionId, why: NotTaken) -> Verdict {
        match why {
            NotTaken::Busy => self.count("commit.sim.busy"),
            NotTaken::NotLeading => self.count("commit.sim.not_leading"),
            NotTaken::Malformed => return Err(format!("{id:?} makes no sense")),
            NotTaken::Settled => {
                // Only copies that come late may be refused so.
                let runs = |client: &Client| client.running.as_ref().is_some_and(|running| running.id == id);
                if self.clients.iter().any(runs) {
                    return Err(format!("{id:?} runs and counts as settled"));
                }
            }
        }
        Ok(())
    }

    fn record(
        &self,
        running: &Running,
        client: u64,
        end: Option<Duration>,
        outcome: Ending,
        told: Option<&Outcome>,
    ) -> Record {
        let decision: Decision = match told {
            Some(Outcome::Committed(decision)) => wire::decode(decision).expect("decisions are ours"),
            _ => Decision::new(),
        };
        let mut ops = Vec::new();
        for (log, (part, seen)) in &running.parts {
            for item in &part.items {
                let key = format!("{log:?}.{}", item.key);
                let exported =
                    decision.get(log).and_then(|found| found.iter().find(|found| found.key == item.key));
                let cell = match running.versioned {
                    true => Some(seen.get(&item.key).cloned().unwrap_or_default()),
                    false => exported.map(|found| found.cell.clone()),
                };
                let labels = cell.map(|cell| cell.labels.iter().map(u64::to_string).collect());
                ops.push(Op::List { key: key.clone(), result: labels });
                if item.act == Act::Append {
                    ops.push(Op::Append { key, value: item.label.to_string(), result: None });
                }
            }
        }
        let nanos = |at: Duration| at.as_nanos() as u64;
        Record { client, start: nanos(running.start), end: end.map(nanos), outcome, ops, is_final: false }
    }
}
