//! What is asked for stays as it is for a moment.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::{Hold, Request, SessionId};
use quorate_commit::locks::{Mode, Taken, Want};
use quorate_commit::{LogId, Transaction, TransactionId};
use quorate_kernel::{Cx, Effect, Event, Machine, Marks, NodeId, Position, Rng, Time, Wall};
use quorate_replog::{self as replog, Replog};
use quorate_store::MemoryStore;

use super::{START_MS, command, request};
use crate::batch::{BatchHeader, encode_batch};
use crate::collect::{Collected, decode_collected};
use crate::holds::HOLDS_MAX;
use crate::machine::{Input, Out, Output, Shard, Timer};
use crate::part::{Part, Place};
use crate::sessions::Limits;

const ME: NodeId = NodeId(1);

/// A shard with one member, which leads.
struct Alone {
    shard: Shard,
    store: MemoryStore,
    rng: Rng,
    marks: Marks,
    now: Time,
    persisted: u64,
    timers: BTreeMap<Timer, Time>,
    outputs: Vec<Output>,
    batches: u64,
}

impl Alone {
    fn new() -> Alone {
        let config = replog::Config::tiny();
        let log = Replog::new(ME, config, [replog::Member { id: ME, info: Bytes::new() }].into());
        let mut alone = Alone {
            shard: Shard::new(log, Limits::tiny()),
            store: MemoryStore::new(),
            rng: Rng::new(1),
            marks: Marks::default(),
            now: Time(1),
            persisted: 0,
            timers: BTreeMap::new(),
            outputs: Vec::new(),
            batches: 0,
        };
        alone.step(Event::Start);
        alone.pass(Duration::from_secs(5));
        alone
    }

    fn step(&mut self, event: Event<replog::Message, Timer, Input>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let unix_ms = START_MS + self.now.0 / 1_000_000;
            let mut cx = Cx {
                me: ME,
                now: self.now,
                wall: Wall { unix_ms, error_ms: 0 },
                rng: &mut self.rng,
                store: &mut self.store,
                marks: &mut self.marks,
            };
            let mut out = Out::new(Position(self.persisted + 1));
            self.shard.step(&mut cx, event, &mut out);
            for effect in out.drain().collect::<Vec<_>>() {
                match effect {
                    Effect::Send { to, msg, .. } if to == ME => {
                        events.push_back(Event::Message { from: ME, msg })
                    }
                    Effect::Send { .. } | Effect::Discard(_) => {}
                    Effect::Arm { timer, after } => {
                        self.timers.insert(timer, self.now + after);
                    }
                    Effect::Disarm(timer) => {
                        self.timers.remove(&timer);
                    }
                    Effect::Persist(_) => self.persisted += 1,
                    Effect::Output { output, .. } => self.outputs.push(output),
                }
            }
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((timer, at)) =
            self.timers.iter().map(|(timer, at)| (*timer, *at)).min_by_key(|(_, at)| *at)
            && at <= end
        {
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            self.step(Event::Timer(timer));
        }
        self.now = end;
    }

    /// Asks for a key, and holds it for so long.
    fn ask(&mut self, key: &str, known: &[u64], ms: u32) {
        self.read([question(7, key, known, ms)].into());
    }

    fn read(&mut self, requests: Vec<Request>) {
        self.step(Event::Input(Input::Read { ticket: 1, requests }));
    }

    /// What was answered to questions since this was asked last.
    fn answer(&mut self) -> Option<Collected> {
        let mut answers = self.outputs.extract_if(.., |output| matches!(output, Output::Read { .. }));
        match answers.next()? {
            Output::Read { mut replies, .. } => decode_collected(replies.remove(0)),
            _ => None,
        }
    }

    fn stamps(&mut self) -> Vec<u64> {
        match self.answer() {
            Some(Collected::New { stamps, .. }) => stamps,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a key, in a session of its own.
    fn set(&mut self, key: &str) {
        self.batches += 1;
        let header = BatchHeader {
            origin: NodeId(2),
            session: SessionId(self.batches),
            first_seq: 1,
            count: 1,
            settled_before: 1,
            since: self.shard.log.last(),
        };
        self.step(Event::Input(Input::Submit(encode_batch(&header, [&request(&["SET", key, "1"])]))));
        self.pass(Duration::ZERO);
    }

    /// Begins a transaction that writes a key.
    fn transact(&mut self, age: u64, key: &str) {
        self.transact_with(age, key, None);
    }

    /// Begins one that writes a key, and the same at another shard.
    fn transact_with(&mut self, age: u64, key: &str, other: Option<LogId>) {
        let me = LogId(self.shard.log.number().into());
        let part = Part { commands: [(0, command(&["SET", key, "1"]))].into(), ..Part::default() };
        let transaction = Transaction {
            id: TransactionId { age, origin: 9, sequence: age },
            coordinator: me,
            logs: core::iter::once(me).chain(other).collect(),
            part: part.encode(),
            others: other.map(|other| (other, part.encode())).into_iter().collect(),
            settled_before: 0,
            shares: false,
            members: Vec::new(),
        };
        self.step(Event::Input(Input::Transact(transaction.into())));
        self.pass(Duration::ZERO);
    }

    /// How many transactions have ended since this was asked last.
    fn transacted(&mut self) -> usize {
        self.outputs.extract_if(.., |output| matches!(output, Output::Transacted { .. })).count()
    }

    /// How many writes have been done since this was asked last.
    fn written(&mut self) -> usize {
        self.outputs.extract_if(.., |output| matches!(output, Output::Answers { .. })).count()
    }
}

/// A question about a key that holds it for so long, of a request of this name.
fn question(name: u64, key: &str, known: &[u64], ms: u32) -> Request {
    let part = Part { commands: [(0, command(&["GET", key]))].into(), ..Part::default() };
    Request::Collect {
        part: part.encode(),
        known: known.to_vec(),
        hold: Some(Hold { name, age: 5, ms }.into()),
    }
}

#[test]
fn what_is_held_changes_once_it_was_asked_for_again() {
    let mut alone = Alone::new();
    alone.set("a");
    assert_eq!(alone.written(), 1);
    alone.ask("a", &[], 100);
    let stamps = alone.stamps();
    alone.set("a");
    alone.set("b");
    alone.pass(Duration::from_millis(99));
    assert_eq!(alone.written(), 1, "the other key");
    alone.ask("a", &stamps, 0);
    assert_eq!(alone.answer(), Some(Collected::Same));
    alone.pass(Duration::ZERO);
    assert_eq!(alone.written(), 1);
    assert_eq!(alone.shard.transactions.desk.locks.count(), 0);
    alone.ask("a", &stamps, 0);
    assert_ne!(alone.stamps(), stamps, "nothing is held any more");
}

#[test]
fn a_hold_ends_by_itself() {
    let mut alone = Alone::new();
    alone.ask("a", &[], 100);
    let stamps = alone.stamps();
    alone.set("a");
    assert_eq!(alone.written(), 0);
    alone.pass(Duration::from_millis(100));
    assert_eq!(alone.written(), 1);
    alone.ask("a", &stamps, 0);
    assert_ne!(alone.stamps(), stamps);
}

#[test]
fn a_hold_waits_its_turn_but_not_for_ever() {
    let mut alone = Alone::new();
    let owner = TransactionId { age: 1, origin: 9, sequence: 1 };
    let want = Want { key: Place::Key(Bytes::from_static(b"a")), mode: Mode::Write, expected: None };
    assert_eq!(alone.shard.transactions.desk.locks.try_all(owner, &[want]), Taken::All);
    alone.ask("a", &[], 100);
    alone.pass(Duration::from_millis(50));
    assert_eq!(alone.answer(), None);
    alone.shard.transactions.desk.locks.release(owner);
    // Whatever is applied has it look again.
    alone.set("b");
    let stamps = alone.stamps();
    alone.set("a");
    alone.pass(Duration::from_millis(99));
    assert_eq!(alone.written(), 1, "held since the answer");
    alone.pass(Duration::from_millis(1));
    assert_eq!(alone.written(), 1);
    let want = Want { key: Place::Key(Bytes::from_static(b"a")), mode: Mode::Write, expected: None };
    assert_eq!(alone.shard.transactions.desk.locks.try_all(owner, &[want]), Taken::All);
    alone.ask("a", &stamps, 100);
    alone.pass(Duration::from_millis(99));
    assert_eq!(alone.answer(), None);
    alone.pass(Duration::from_millis(1));
    assert_ne!(alone.stamps(), stamps, "without a hold");
    assert_eq!(alone.shard.transactions.desk.locks.count(), 1);
}

#[test]
fn an_older_transaction_ends_a_hold_and_a_younger_one_waits() {
    let mut alone = Alone::new();
    alone.ask("a", &[], 100);
    let stamps = alone.stamps();
    alone.transact(9, "a");
    alone.pass(Duration::from_millis(99));
    assert_eq!(alone.transacted(), 0);
    alone.transact(1, "b");
    assert_eq!(alone.transacted(), 1, "another key");
    alone.transact(2, "a");
    assert_eq!(alone.transacted(), 2, "the younger one has nothing to wait for either");
    alone.ask("a", &stamps, 0);
    assert_ne!(alone.stamps(), stamps);
}

#[test]
fn a_hold_ends_also_among_other_reads() {
    let mut alone = Alone::new();
    alone.read([question(7, "a", &[], 100)].into());
    alone.read([question(8, "b", &[], 100)].into());
    assert_eq!(alone.shard.transactions.desk.locks.count(), 2);
    alone.read([question(8, "b", &[0], 0), question(7, "a", &[0], 0)].into());
    assert_eq!(alone.shard.transactions.desk.locks.count(), 0);
    alone.read([question(8, "b", &[], 100), question(7, "a", &[], 100)].into());
    assert_eq!(alone.shard.transactions.desk.locks.count(), 0, "nobody is to wait for what others ask");
}

#[test]
fn a_younger_transaction_that_is_undecided_gives_way_at_once() {
    let mut alone = Alone::new();
    alone.transact_with(9, "a", Some(LogId(77)));
    assert_eq!(alone.shard.transactions.desk.locks.count(), 1, "it waits for the other shard's vote");
    alone.ask("a", &[], 100);
    assert!(alone.answer().is_some(), "with nothing else going on");
    alone.transact_with(2, "b", Some(LogId(77)));
    alone.read([question(8, "b", &[], 100)].into());
    assert_eq!(alone.answer(), None, "an older one does not");
}

#[test]
fn all_that_is_held_gives_way_together() {
    let mut alone = Alone::new();
    for name in 0..HOLDS_MAX as u64 {
        alone.read([question(name, "a", &[], 100)].into());
    }
    let readers = alone.shard.transactions.desk.locks.count();
    assert_eq!(readers, HOLDS_MAX);
    alone.read([question(HOLDS_MAX as u64, "a", &[], 100)].into());
    assert_eq!(alone.shard.transactions.desk.locks.count(), readers, "there is no room for more");
    assert_eq!(alone.marks.count("shard.hold.without"), 1);
    alone.transact(1, "a");
    assert_eq!(alone.transacted(), 1, "the older one");
    assert_eq!(alone.shard.transactions.desk.locks.count(), 0);
}
