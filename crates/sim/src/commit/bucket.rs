//! The machine: one log whose members never disagree, with a primary that may die. Its records are the log; an entry is
//! chosen once it is durable, and a crash keeps or cuts what is in flight. Each life is a reign.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use quorate_commit::{
    Commit, Config, Effect, Entry, Ledger, LogId, Message, NotTaken, Outcome, Transaction, TransactionId,
    Turn, View, Word,
};
use quorate_kernel::{Cx, Event, Machine, NodeId, Position};
use serde::{Deserialize, Serialize};

use super::shelf::{Shelf, Ways};

/// What buckets send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// To another bucket.
    Log(Box<Message>),
    /// To itself, once everything up to here is durable.
    Durable(Position),
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A reign begins.
    Reign(u64),
    /// An entry.
    Entry(Box<Entry>),
}

/// The timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Commitment's own.
    Tick,
    /// Versions are to be looked at.
    Verify,
}

/// What is asked of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A transaction, and the view of its coordinator as the client knows it.
    Request(Box<Transaction>, View),
    /// An origin has settled what is below this.
    Settle(u64, u64),
}

/// A moment at which a fault hurts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A vote is appended.
    Voting,
    /// A decision is appended, or what follows from one.
    Deciding,
    /// A revert is appended.
    Reverting,
    /// A coordinator agrees that a vote is taken back.
    Granting {
        /// The participant.
        to: NodeId,
    },
}

/// What a bucket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A transaction has ended.
    Result(TransactionId, Outcome),
    /// A request was not taken.
    NotTaken(TransactionId, NotTaken),
    /// For the harness.
    Moment(Moment),
}

type Out = quorate_kernel::Out<Msg, Timer, Record, Answer>;

/// See the module's documentation.
#[derive(Debug)]
pub struct Bucket {
    me: LogId,
    commit: Commit,
    shelf: Shelf,
    /// What is chosen.
    chosen: Vec<Entry>,
    in_flight: VecDeque<(Position, Entry)>,
    reigns: u64,
    /// The record with which this reign begins; `None`: it has begun.
    begins: Option<Position>,
    /// Origins that are gone for good: nothing is taken from them.
    gone: BTreeSet<u64>,
    /// The rows of the ledger as a store would have them.
    rows: std::collections::BTreeMap<Vec<u8>, bytes::Bytes>,
    config: Config,
    pause: Duration,
}

impl Bucket {
    /// A bucket; `pause` is how long looking at versions takes, none if zero.
    pub fn new(me: LogId, config: Config, keys_max: usize, pause: Duration, ways: Ways) -> Self {
        #[cfg(feature = "mutants")]
        let mutant = config.mutant;
        #[cfg(not(feature = "mutants"))]
        let mutant = None;
        Bucket {
            me,
            commit: Commit::new(me, config.clone(), Ledger::new(me)),
            shelf: Shelf::new(keys_max, !pause.is_zero(), ways, mutant),
            chosen: Vec::new(),
            in_flight: VecDeque::new(),
            reigns: 0,
            begins: None,
            gone: BTreeSet::new(),
            rows: Default::default(),
            config,
            pause,
        }
    }

    /// The log.
    pub fn chosen(&self) -> &[Entry] {
        &self.chosen
    }

    /// Commitment.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// The keys and locks.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Whether everything appended is chosen.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.commit.view().is_some()
    }

    fn call(&mut self, cx: &mut Cx<'_>, out: &mut Out, act: impl FnOnce(&mut Commit, &mut Turn<'_, Shelf>)) {
        let mut effects = Vec::new();
        let mut turn = Turn {
            now: cx.now,
            rng: &mut *cx.rng,
            marks: &mut *cx.marks,
            resources: &mut self.shelf,
            out: &mut effects,
        };
        act(&mut self.commit, &mut turn);
        let mut last = None;
        for effect in effects {
            if let Some(moment) = moment_of(&effect) {
                out.output_early(Answer::Moment(moment)); // The harness alone hears it.
            }
            match effect {
                Effect::Append(entry) => {
                    let position = out.persist(Record::Entry(Box::new(entry.clone())));
                    self.in_flight.push_back((position, entry));
                    last = Some(position);
                }
                // What commitment says is about chosen entries; the gate would hide it if it were not.
                Effect::Send { to, message } => out.send_early(NodeId(to.0), Msg::Log(Box::new(message))),
                // As above.
                Effect::Result { id, outcome } => out.output_early(Answer::Result(id, outcome)),
                Effect::NotTaken { id, why } => out.output_early(Answer::NotTaken(id, why)), // Nothing happened.
                // Nobody asks here.
                Effect::Waits { .. } => {}
                Effect::Arm(after) => out.arm(Timer::Tick, after),
            }
        }
        if let Some(position) = last {
            out.send(cx.me, Msg::Durable(position));
        }
        if !self.shelf.unchecked.is_empty() {
            out.arm(Timer::Verify, self.pause);
        }
        for (row, value) in self.commit.take_changes() {
            match value {
                Some(value) => self.rows.insert(row.to_bytes(), value),
                None => self.rows.remove(&row.to_bytes()),
            };
        }
    }

    fn apply(&mut self, cx: &mut Cx<'_>, entry: Entry, out: &mut Out) {
        if let Entry::Settle { origin, before: u64::MAX } = entry {
            self.gone.insert(origin);
        }
        self.chosen.push(entry.clone());
        self.call(cx, out, |commit, turn| commit.applied(turn, &entry));
    }

    fn durable(&mut self, cx: &mut Cx<'_>, upto: Position, out: &mut Out) {
        if self.begins.is_some_and(|position| position <= upto) {
            self.begins = None;
            self.reload();
            let view = View { epoch: 0, number: self.reigns, node: self.me.0 };
            self.call(cx, out, |commit, turn| commit.lead(turn, view));
        }
        while let Some((_, entry)) = self.in_flight.pop_front_if(|(position, _)| *position <= upto) {
            self.apply(cx, entry, out);
        }
    }

    /// A new primary starts from rows as from a snapshot; they say the same as the log.
    fn reload(&mut self) {
        let mut ledger = Ledger::new(self.me);
        for (name, value) in &self.rows {
            ledger.load(name, value).expect("rows are ours");
        }
        assert!(ledger == *self.commit.ledger(), "the rows that were written are not those of the ledger");
        self.commit = Commit::new(self.me, self.config.clone(), ledger);
    }

    fn verify(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for transaction in std::mem::take(&mut self.shelf.unchecked) {
            if self.shelf.locks().holds(transaction.id) {
                let attempt = self.shelf.verify(&transaction);
                self.call(cx, out, |commit, turn| commit.answered(turn, transaction.id, attempt));
            }
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>, ask: Ask, out: &mut Out) {
        match ask {
            Ask::Request(transaction, _) if self.gone.contains(&transaction.id.origin) => {
                cx.marks.hit("commit.sim.request_of_the_dead");
            }
            Ask::Request(transaction, view) => {
                self.call(cx, out, |commit, turn| commit.request(turn, *transaction, view));
            }
            Ask::Settle(origin, before) => {
                self.call(cx, out, |commit, turn| commit.settle(turn, origin, before));
            }
        }
    }
}

fn moment_of(effect: &Effect) -> Option<Moment> {
    match effect {
        Effect::Append(Entry::Local { .. }) => Some(Moment::Voting),
        Effect::Append(Entry::Global { .. } | Entry::AtOnce { .. }) => Some(Moment::Deciding),
        Effect::Append(Entry::Revert { .. }) => Some(Moment::Reverting),
        Effect::Send { to, message: Message { word: Word::RevertGrant { .. }, .. } } => {
            Some(Moment::Granting { to: NodeId(to.0) })
        }
        _ => None,
    }
}

impl Machine for Bucket {
    type Msg = Msg;
    type Timer = Timer;
    type Record = Record;
    type Input = Ask;
    type Output = Answer;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        match record {
            Record::Reign(number) => self.reigns = number,
            Record::Entry(entry) => {
                let mut out = Out::new(position);
                self.apply(cx, *entry, &mut out);
                assert!(out.is_empty(), "a replica that does not lead does nothing: {:?}", out.effects());
            }
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Msg, Timer, Ask>, out: &mut Out) {
        match event {
            Event::Start => {
                self.reigns += 1;
                let position = out.persist(Record::Reign(self.reigns));
                self.begins = Some(position);
                out.send(cx.me, Msg::Durable(position));
            }
            Event::Message { msg: Msg::Durable(position), .. } => self.durable(cx, position, out),
            Event::Message { msg: Msg::Log(message), .. } => {
                self.call(cx, out, |commit, turn| commit.message(turn, *message));
            }
            Event::Timer(Timer::Tick) => self.call(cx, out, |commit, turn| commit.tick(turn)),
            Event::Timer(Timer::Verify) => self.verify(cx, out),
            Event::Input(ask) => self.ask(cx, ask, out),
        }
    }

    fn check(&self) {
        self.commit.check();
        let mut overlooked = self.shelf.locks().overlooked();
        // One whose abort is on its way to the log is not tried any more.
        overlooked.retain(|id| !self.in_flight.iter().any(|(_, entry)| entry.id() == Some(*id)));
        assert!(overlooked.is_empty(), "{overlooked:?} could go on, and nobody told them");
        for (id, record) in self.commit.ledger().records().filter(|_| self.commit.view().is_some()) {
            let ends = |entry: &Entry| matches!(entry, Entry::Global { id: ended, .. } if *ended == id);
            let holds = self.shelf.locks().holds(id) || self.in_flight.iter().any(|(_, entry)| ends(entry));
            assert!(holds || !record.is_prepared(), "{id:?} is prepared without its locks");
        }
    }
}
