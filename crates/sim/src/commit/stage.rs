//! Logs moved by hand, for schedules of which every step matters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use quorate_commit::{
    Commit, Config, Effect, Entry, Ledger, LogId, Message, Outcome, Transaction, TransactionId, Turn, View,
};
use quorate_kernel::{Marks, Rng, Time};

use super::shelf::{Act, Item, Part, Shelf, Ways};

/// One log with its primary.
#[derive(Debug)]
struct Hand {
    commit: Commit,
    shelf: Shelf,
    chosen: Vec<Entry>,
    in_flight: VecDeque<Entry>,
    reign: u64,
}

/// Some logs, what they say to each other, and nothing that happens by itself.
#[derive(Debug)]
pub struct Stage {
    config: Config,
    ways: Ways,
    hands: BTreeMap<LogId, Hand>,
    /// From, to, what.
    wire: Vec<(LogId, LogId, Message)>,
    /// What origins were told.
    pub told: Vec<(TransactionId, Outcome)>,
    now: Time,
    rng: Rng,
    marks: Marks,
}

impl Stage {
    /// Logs 1 to `logs`, each with a primary.
    pub fn new(logs: u64, config: Config, ways: Ways) -> Self {
        let mut stage = Stage {
            config,
            ways,
            hands: BTreeMap::new(),
            wire: Vec::new(),
            told: Vec::new(),
            now: Time(0),
            rng: Rng::new(1),
            marks: Marks::default(),
        };
        for log in (1..=logs).map(LogId) {
            let hand = stage.hand(log, Vec::new(), 0);
            stage.hands.insert(log, hand);
            stage.lead(log);
        }
        stage
    }

    fn hand(&self, log: LogId, chosen: Vec<Entry>, reign: u64) -> Hand {
        #[cfg(feature = "mutants")]
        let mutant = self.config.mutant;
        #[cfg(not(feature = "mutants"))]
        let mutant = None;
        Hand {
            commit: Commit::new(log, self.config.clone(), Ledger::new(log)),
            shelf: Shelf::new(100, false, self.ways, mutant),
            chosen,
            in_flight: VecDeque::new(),
            reign,
        }
    }

    fn call(&mut self, log: LogId, act: impl FnOnce(&mut Commit, &mut Turn<'_, Shelf>)) {
        let mut effects = Vec::new();
        let Some(hand) = self.hands.get_mut(&log) else { panic!("there is no {log:?}") };
        let mut turn = Turn {
            now: self.now,
            rng: &mut self.rng,
            marks: &mut self.marks,
            resources: &mut hand.shelf,
            out: &mut effects,
        };
        act(&mut hand.commit, &mut turn);
        hand.commit.check();
        for effect in effects {
            match effect {
                Effect::Append(entry) => hand.in_flight.push_back(entry),
                Effect::Send { to, message } => self.wire.push((log, to, message)),
                Effect::Result { id, outcome } => self.told.push((id, outcome)),
                Effect::NotTaken { .. } | Effect::Waits { .. } | Effect::Arm(_) => {}
            }
        }
    }

    fn lead(&mut self, log: LogId) {
        let Some(hand) = self.hands.get_mut(&log) else { return };
        hand.reign += 1;
        let view = View { epoch: 0, number: hand.reign, node: log.0 };
        self.call(log, |commit, turn| commit.lead(turn, view));
    }

    /// Asks `log` for its part of a transaction that appends to these of its keys.
    pub fn request(
        &mut self,
        log: LogId,
        id: TransactionId,
        logs: &[LogId],
        keys: &[u8],
        version: Option<u64>,
    ) {
        let part = append(id, keys, version);
        let transaction = transaction(id, logs, part);
        let view = self.hands[&logs[0]].commit.view().unwrap_or_default();
        self.call(log, |commit, turn| commit.request(turn, transaction, view));
    }

    /// Asks the first of `logs` for a transaction that appends to this key of all of them, and may go with others.
    pub fn request_shared(&mut self, id: TransactionId, logs: &[LogId], key: u8) {
        let part = append(id, &[key], None);
        let others = logs[1..].iter().map(|log| (*log, part.clone())).collect();
        let transaction = Transaction { others, shares: true, ..transaction(id, logs, part) };
        self.call(logs[0], |commit, turn| commit.request(turn, transaction, View::default()));
    }

    /// A log hears that an origin is gone for good.
    pub fn settle(&mut self, log: LogId, origin: u64) {
        self.call(log, |commit, turn| commit.settle(turn, origin, u64::MAX));
    }

    /// The oldest entry of `log` that is in flight is chosen; whether there was one.
    pub fn choose(&mut self, log: LogId) -> bool {
        let Some(hand) = self.hands.get_mut(&log) else { return false };
        let Some(entry) = hand.in_flight.pop_front() else { return false };
        hand.chosen.push(entry.clone());
        self.call(log, |commit, turn| commit.applied(turn, &entry));
        true
    }

    /// Everything in flight is chosen, everywhere.
    pub fn choose_all(&mut self) {
        for log in self.hands.keys().copied().collect::<Vec<_>>() {
            while !self.hands[&log].in_flight.is_empty() {
                self.choose(log);
            }
        }
    }

    /// The primary of `log` dies; of what is in flight nothing is kept. Its successor leads.
    pub fn crash(&mut self, log: LogId) {
        let Some(hand) = self.hands.remove(&log) else { return };
        let fresh = self.hand(log, hand.chosen.clone(), hand.reign);
        self.hands.insert(log, fresh);
        for entry in hand.chosen {
            self.call(log, |commit, turn| commit.applied(turn, &entry));
        }
        self.lead(log);
    }

    /// The first message that is `wanted` arrives; whether there was one.
    pub fn deliver(&mut self, wanted: impl Fn(LogId, LogId, &Message) -> bool) -> bool {
        let found = self.wire.iter().position(|(from, to, message)| wanted(*from, *to, message));
        let Some(at) = found else { return false };
        let (_, to, message) = self.wire.remove(at);
        self.call(to, |commit, turn| commit.message(turn, message));
        true
    }

    /// Takes messages away; [`Stage::put_back`] brings them late.
    pub fn take(&mut self, wanted: impl Fn(LogId, LogId, &Message) -> bool) -> Vec<(LogId, LogId, Message)> {
        self.wire.extract_if(.., |(from, to, message)| wanted(*from, *to, message)).collect()
    }

    /// Messages are on the wire (again).
    pub fn put_back(&mut self, messages: Vec<(LogId, LogId, Message)>) {
        self.wire.splice(0..0, messages);
    }

    /// So long passes, and what is due is looked after.
    pub fn wait(&mut self, span: Duration) {
        self.now = self.now + span;
        for log in self.hands.keys().copied().collect::<Vec<_>>() {
            self.call(log, |commit, turn| commit.tick(turn));
        }
    }

    /// Everything goes well until nothing is left to do, or for a long time.
    pub fn calm(&mut self) {
        for _ in 0..200 {
            self.choose_all();
            while self.deliver(|_, _, _| true) {}
            self.choose_all();
            self.wait(Duration::from_millis(100));
        }
    }

    /// What is remembered of `id` at `log`: `+` committed, `-` aborted, `p` prepared, `r` refused, `w` waiting.
    pub fn standing(&self, log: LogId, id: TransactionId) -> Option<char> {
        use quorate_commit::State;
        let record = self.hands.get(&log)?.commit.ledger().get(id)?;
        Some(match &record.state {
            State::Done(outcome) if outcome.is_commit() => '+',
            State::Done(_) => '-',
            State::Prepared(_) => 'p',
            State::Refused(_) => 'r',
            State::Waiting => 'w',
        })
    }

    /// The standings of `id` at all logs.
    pub fn standings(&self, id: TransactionId) -> String {
        self.hands.keys().map(|log| self.standing(*log, id).unwrap_or('.')).collect()
    }

    /// What was appended to a key, in order.
    pub fn labels(&self, log: LogId, key: u8) -> Vec<u64> {
        let cell = self.hands.get(&log).and_then(|hand| hand.shelf.cells().get(&key));
        cell.map(|cell| cell.labels.clone()).unwrap_or_default()
    }

    /// How often a mark was hit.
    pub fn count(&self, mark: &str) -> u64 {
        self.marks.count(mark)
    }
}

fn append(id: TransactionId, keys: &[u8], version: Option<u64>) -> Bytes {
    let items = keys.iter().map(|key| Item {
        key: *key,
        act: Act::Append,
        expected: version,
        label: id.age,
        member: 0,
    });
    Part { needs_all: false, items: items.collect() }.encode()
}

fn transaction(id: TransactionId, logs: &[LogId], part: Bytes) -> Transaction {
    Transaction {
        id,
        coordinator: logs[0],
        logs: logs.to_vec(),
        part,
        others: Vec::new(),
        settled_before: 0,
        shares: false,
        members: Vec::new(),
    }
}
