//! The machine: the logs of some groups, with their leaders. An entry is chosen once it is durable; a crash keeps or cuts what is in
//! flight. Where the log of a group is follows from its name, so that everybody finds the log of a group that is yet to begin.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_commit::{
    Commit, Config, Effect, Entry, Ledger, LogId, Message, NotTaken, Outcome, Transaction, TransactionId,
    Turn, View,
};
use quorate_groups::{Heir, Mutant, Name, Parliament, Part, Stand};
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, wire};
use serde::{Deserialize, Serialize};

/// How often heirs are told that a group has ended, until they have begun.
const TELL_EVERY: Duration = Duration::from_millis(40);

/// What processes send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// To the log of a group.
    Log(LogId, Box<Message>),
    /// A group has ended, and this is an heir of it.
    Ended {
        /// Which group.
        from: Name,
        /// Its heir.
        heir: Box<Heir>,
    },
    /// An heir has begun.
    Begun {
        /// Which.
        heir: Name,
        /// The group that was asking.
        from: Name,
    },
    /// To itself, once everything up to here is durable.
    Durable(Position),
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A reign begins.
    Reign(u64),
    /// A group begins.
    Begins(Box<Stand>),
    /// An entry of a group's log.
    Entry(LogId, Box<Entry>),
}

/// The timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Commitment's own, of one log.
    Tick(LogId),
    /// Heirs are to be told again.
    Tell,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// An operation, of the log that coordinates it.
    Operate(Box<Transaction>),
    /// Nobody asks for anything of these origins any more.
    Settle(BTreeSet<u64>),
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An operation has ended.
    Result(TransactionId, Outcome),
    /// It was not taken.
    NotTaken(TransactionId, NotTaken),
}

type Out = quorate_kernel::Out<Msg, Timer, Record, Answer>;

/// A group with its log.
#[derive(Debug)]
pub struct Hall {
    commit: Commit,
    parliament: Parliament,
    /// Heirs that have begun, as far as was told.
    begun: BTreeSet<Name>,
    /// Counts what happened to it in this life.
    turns: u64,
}

impl Hall {
    /// The group.
    pub fn parliament(&self) -> &Parliament {
        &self.parliament
    }

    /// Commitment.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Counts what happened to it: as long as this is the same, so is everything else.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// The group with the locks that its log says it has, whatever its leader knows.
    pub fn agreed(&self) -> Parliament {
        let mut sober = Parliament::new(self.parliament.stand().clone());
        for (id, record) in self.commit.ledger().records().filter(|(_, record)| record.is_prepared()) {
            if let Ok(part) = wire::decode::<Part>(&record.transaction.part) {
                sober.relock(id, &part);
            }
        }
        sober
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Site {
    sites: u64,
    config: Config,
    halls: BTreeMap<LogId, Hall>,
    /// Heirs that wait for others to end.
    nursery: BTreeMap<Name, (Heir, BTreeSet<Name>)>,
    in_flight: VecDeque<(Position, Record)>,
    reigns: u64,
    mutant: Option<Mutant>,
}

/// Where the log of a group is.
pub(super) fn site_of(log: LogId, sites: u64) -> NodeId {
    NodeId(log.0 % sites + 1)
}

impl Site {
    /// A process, one of so many, that holds its share of these groups at first.
    pub fn new(me: NodeId, sites: u64, first: &[Stand], config: Config, mutant: Option<Mutant>) -> Site {
        let (halls, nursery, in_flight) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let mut site = Site { sites, config, halls, nursery, in_flight, reigns: 0, mutant };
        for stand in first.iter().filter(|stand| site_of(stand.group.name.log(), sites) == me) {
            site.open(stand.clone());
        }
        site
    }

    /// The groups that are here, also those that have ended.
    pub fn halls(&self) -> impl Iterator<Item = &Hall> {
        self.halls.values()
    }

    /// Whether something is on its way into a log, or an heir waits to begin.
    pub fn is_busy(&self) -> bool {
        let untold =
            |hall: &Hall| hall.parliament.heirs().is_some_and(|heirs| heirs.len() > hall.begun.len());
        !self.in_flight.is_empty() || !self.nursery.is_empty() || self.halls.values().any(untold)
    }

    fn open(&mut self, stand: Stand) {
        let log = stand.group.name.log();
        let parliament = Parliament::new(stand);
        #[cfg(feature = "mutants")]
        let parliament = parliament.broken(self.mutant);
        let commit = Commit::new(log, self.config.clone(), Ledger::new(log));
        self.halls.insert(log, Hall { commit, parliament, begun: BTreeSet::new(), turns: 0 });
    }

    fn call(
        &mut self,
        cx: &mut Cx<'_>,
        log: LogId,
        out: &mut Out,
        act: impl FnOnce(&mut Commit, &mut Turn<'_, Parliament>),
    ) {
        let Some(hall) = self.halls.get_mut(&log) else { return cx.marks.hit("groups.message.nobody") };
        hall.turns += 1;
        let mut effects = Vec::new();
        let mut turn = Turn {
            now: cx.now,
            rng: &mut *cx.rng,
            marks: &mut *cx.marks,
            resources: &mut hall.parliament,
            out: &mut effects,
        };
        act(&mut hall.commit, &mut turn);
        drop(hall.commit.take_changes());
        for effect in effects {
            match effect {
                Effect::Append(entry) => self.append(cx, Record::Entry(log, Box::new(entry)), out),
                // What commitment says is about chosen entries.
                Effect::Send { to, message } => {
                    out.send_early(site_of(to, self.sites), Msg::Log(to, Box::new(message)));
                }
                // As above.
                Effect::Result { id, outcome } => out.output_early(Answer::Result(id, outcome)),
                Effect::NotTaken { id, why } => out.output_early(Answer::NotTaken(id, why)), // Nothing happened.
                // Nobody waits here.
                Effect::Waits { .. } => {}
                Effect::Arm(after) => out.arm(Timer::Tick(log), after),
            }
        }
    }

    fn append(&mut self, cx: &Cx<'_>, record: Record, out: &mut Out) {
        let position = out.persist(record.clone());
        self.in_flight.push_back((position, record));
        out.send(cx.me, Msg::Durable(position));
    }

    /// What is in a log has its effect, in a new life and in the one that put it there.
    fn apply(&mut self, cx: &mut Cx<'_>, record: Record, out: &mut Out) {
        match record {
            Record::Reign(number) => self.reigns = number,
            Record::Begins(stand) => {
                self.nursery.remove(&stand.group.name);
                self.open(*stand);
            }
            Record::Entry(log, entry) => {
                let ended =
                    |site: &Site| site.halls.get(&log).is_some_and(|hall| hall.parliament.heirs().is_some());
                let before = ended(self);
                self.call(cx, log, out, |commit, turn| commit.applied(turn, &entry));
                if ended(self) != before {
                    cx.marks.hit("groups.ended");
                }
            }
        }
    }

    fn lead(&mut self, cx: &mut Cx<'_>, log: LogId, out: &mut Out) {
        let view = View { epoch: 0, number: self.reigns, node: cx.me.0 };
        self.call(cx, log, out, |commit, turn| commit.lead(turn, view));
    }

    fn durable(&mut self, cx: &mut Cx<'_>, upto: Position, out: &mut Out) {
        while let Some((_, record)) = self.in_flight.pop_front_if(|(position, _)| *position <= upto) {
            let leads: Vec<LogId> = match &record {
                Record::Reign(_) => self.halls.keys().copied().collect(),
                Record::Begins(stand) => vec![stand.group.name.log()],
                Record::Entry(..) => Vec::new(),
            };
            let begins = matches!(record, Record::Reign(_));
            self.apply(cx, record, out);
            leads.into_iter().for_each(|log| self.lead(cx, log, out));
            if begins && self.mutant == Some(Mutant::HeirsForgotten) {
                // What ended in an earlier life is taken for told.
                for hall in self.halls.values_mut() {
                    let heirs = hall.parliament.heirs().unwrap_or_default();
                    hall.begun = heirs.iter().map(|heir| heir.stand.group.name).collect();
                }
            }
        }
        self.tell(cx, out);
    }

    /// Tells heirs of groups that have ended.
    fn tell(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let mut told = false;
        for hall in self.halls.values() {
            let from = hall.parliament.stand().group.name;
            for heir in hall.parliament.heirs().unwrap_or_default() {
                let name = heir.stand.group.name;
                if !hall.begun.contains(&name) {
                    told = true;
                    let to = site_of(name.log(), self.sites);
                    // The end is applied, so it is chosen.
                    out.send_early(to, Msg::Ended { from, heir: Box::new(heir.clone()) });
                }
            }
        }
        if told {
            cx.marks.hit("groups.heirs.told");
            out.arm(Timer::Tell, TELL_EVERY);
        }
    }

    /// These origins are gone, says whoever knows: news where something of them is remembered.
    fn settle(&mut self, cx: &mut Cx<'_>, origins: &BTreeSet<u64>, out: &mut Out) {
        let known = |hall: &Hall| -> BTreeSet<u64> {
            let named = hall.commit.ledger().records().map(|(id, _)| id.origin);
            named.filter(|origin| origins.contains(origin)).collect()
        };
        let all: Vec<(LogId, BTreeSet<u64>)> =
            self.halls.iter().map(|(log, hall)| (*log, known(hall))).collect();
        for (log, origins) in all {
            for origin in origins {
                self.call(cx, log, out, |commit, turn| commit.settle(turn, origin, u64::MAX));
            }
        }
    }

    fn ended(&mut self, cx: &mut Cx<'_>, sender: NodeId, from: Name, heir: Heir, out: &mut Out) {
        let name = heir.stand.group.name;
        if self.halls.contains_key(&name.log()) && self.mutant != Some(Mutant::BeginsAgain) {
            // It has begun, which is in the log.
            return out.send_early(sender, Msg::Begun { heir: name, from });
        }
        let (_, ended) = self.nursery.entry(name).or_insert_with(|| (heir.clone(), BTreeSet::new()));
        ended.insert(from);
        let all =
            heir.from.iter().all(|from| ended.contains(from)) || self.mutant == Some(Mutant::HeirsDoNotWait);
        let begins = |record: &Record| matches!(record, Record::Begins(stand) if stand.group.name == name);
        if all && !self.in_flight.iter().any(|(_, record)| begins(record)) {
            cx.marks.hit("groups.begun");
            self.append(cx, Record::Begins(Box::new(heir.stand)), out);
        }
    }
}

impl Machine for Site {
    type Msg = Msg;
    type Timer = Timer;
    type Record = Record;
    type Input = Ask;
    type Output = Answer;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        let mut out = Out::new(position);
        self.apply(cx, record, &mut out);
        assert!(out.is_empty(), "who does not lead does nothing: {:?}", out.effects());
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Msg, Timer, Ask>, out: &mut Out) {
        match event {
            Event::Start => {
                let next = Record::Reign(self.reigns + 1);
                self.append(cx, next, out);
            }
            Event::Message { msg: Msg::Durable(position), .. } => self.durable(cx, position, out),
            Event::Message { msg: Msg::Log(log, message), .. } => {
                self.call(cx, log, out, |commit, turn| commit.message(turn, *message));
            }
            Event::Message { from: sender, msg: Msg::Ended { from, heir } } => {
                self.ended(cx, sender, from, *heir, out);
            }
            Event::Message { msg: Msg::Begun { heir, from }, .. } => {
                if let Some(hall) = self.halls.get_mut(&from.log()) {
                    hall.begun.insert(heir);
                }
            }
            Event::Timer(Timer::Tick(log)) => self.call(cx, log, out, |commit, turn| commit.tick(turn)),
            Event::Timer(Timer::Tell) => self.tell(cx, out),
            Event::Input(Ask::Operate(transaction)) => {
                let log = transaction.coordinator;
                self.call(cx, log, out, |commit, turn| commit.request(turn, *transaction, View::default()));
            }
            Event::Input(Ask::Settle(origins)) => self.settle(cx, &origins, out),
        }
    }

    fn check(&self) {
        self.halls.values().for_each(|hall| hall.commit.check());
    }
}
