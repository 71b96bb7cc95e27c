//! The shard as a machine: a log and what it does to the store.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reply, Request, SessionId};
use quorate_commit::{Ledger, LogId, Outcome, Transaction, TransactionId};
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Told, wire};
use quorate_replog::{self as replog, ChangeEnd, Index, Member, Message, Record, Replog};

use crate::Mutant;
use crate::layout::{State, counters_key};
use crate::notes::{Note, Notes};
use crate::part::wants_of;
use crate::sessions::{Limits, Sessions};
use crate::shield::Shield;
use crate::transact::Transactions;
use crate::view::View;

/// The timers of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// One of its log's.
    Log(replog::Timer),
    /// More entries wait to be applied.
    Apply,
    /// A key expires.
    Expiry,
    /// What has arrived together is taken: it goes into the log.
    Propose,
    /// Transactions are looked after.
    Commit,
}

/// What the node asks of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Put this encoded batch into the log.
    Submit(Bytes),
    /// Answer these reads, strictly.
    Read {
        /// Names the read.
        ticket: u64,
        /// What to read.
        requests: Vec<Request>,
    },
    /// Change the members.
    Change {
        /// Names the request.
        ticket: u64,
        /// Who joins.
        add: Vec<Member>,
        /// Who leaves.
        remove: Vec<NodeId>,
    },
    /// Give this member change up, unless it is sealed.
    GiveUp {
        /// As in [`Input::Change`].
        ticket: u64,
    },
    /// Let another member lead.
    Transfer(Option<NodeId>),
    /// What was sent to this node before may be lost.
    PeerConnected(NodeId),
    /// This node may have died.
    PeerLost(NodeId),
    /// Old records of this shard are in the way of letting go of others'.
    Checkpoint,
    /// Take part in this transaction, of which this shard is the coordinator.
    Transact(Box<Transaction>),
    /// Put this note in the place of the one with its name, unless that is another than it builds on.
    Note(Note),
    /// The primary of another shard says something about a transaction.
    Told(Box<quorate_commit::Message>),
}

/// What a shard tells its node.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Requests that this node, leading, has applied, with their encoded replies (an empty one: the reply is no
    /// longer known).
    Answers {
        /// Who wants them.
        origin: NodeId,
        /// Whose requests.
        session: SessionId,
        /// Number of the first of them.
        first_seq: u64,
        /// Their replies, in order.
        replies: Vec<Bytes>,
    },
    /// A batch was refused because requests before it are missing.
    Gap {
        /// Who sent it.
        origin: NodeId,
        /// Whose requests.
        session: SessionId,
        /// The first one that is missing.
        expected: u64,
    },
    /// A batch was refused because the log does not know its session (any more).
    SessionLost {
        /// Who sent it.
        origin: NodeId,
        /// Which session.
        session: SessionId,
    },
    /// A batch was dropped because this node does not lead, or not yet: it is to be sent again.
    NotTaken {
        /// Who sent it.
        origin: NodeId,
    },
    /// The answers to a read.
    Read {
        /// As in [`Input::Read`].
        ticket: u64,
        /// The newest entry that what was read contains.
        applied: Index,
        /// One reply for each request, or for the first of them: the others, whose answers would be too many bytes
        /// together, are to be asked again.
        replies: Vec<Reply>,
    },
    /// A read cannot be answered here.
    ReadRefused {
        /// As in [`Input::Read`].
        ticket: u64,
    },
    /// Who leads, or whether this node does, has changed.
    Role,
    /// Members or learners have changed.
    Peers,
    /// A member change is over.
    ChangeEnded {
        /// As in [`Input::Change`].
        ticket: u64,
        /// How it went.
        end: ChangeEnd,
    },
    /// This node is no member any more.
    Retired,
    /// A note has changed, or the state was taken from the store: see [`Shard::note`].
    Noted,
    /// To be carried to the primary of another shard.
    Tell {
        /// Which shard.
        to: LogId,
        /// What is said.
        message: quorate_commit::Message,
    },
    /// A transaction that this shard coordinates has ended.
    Transacted {
        /// Which.
        id: TransactionId,
        /// How.
        outcome: Outcome,
    },
    /// A transaction was not taken.
    TransactionNotTaken {
        /// Which.
        id: TransactionId,
        /// Why.
        why: quorate_commit::NotTaken,
    },
}

/// The effect buffer of a shard.
pub type Out = quorate_kernel::Out<Message, Timer, Record, Output>;

/// A read under way.
#[derive(Debug, Clone)]
struct Reading {
    ticket: u64,
    requests: Vec<Request>,
}

/// A log applied to the store.
#[derive(Debug)]
pub struct Shard {
    pub(crate) log: Replog,
    pub(crate) limits: Limits,
    pub(crate) state: State,
    pub(crate) sessions: Sessions,
    /// For a leader: the number behind the newest request of each session that it put into the log, or gathered for it.
    pub(crate) appended: BTreeMap<u64, u64>,
    /// Batches that arrived together and go into the log as one entry.
    pub(crate) gathered: Vec<Bytes>,
    pub(crate) gathered_bytes: usize,
    /// Reads that the log has not allowed yet, by the log's ticket.
    asked: BTreeMap<u64, Reading>,
    tickets: u64,
    /// Allowed reads that wait for an entry to be applied.
    allowed: VecDeque<(Index, Reading)>,
    /// Allowed reads that wait for logged time to pass a key's expiry.
    untimely: Vec<Reading>,
    /// Allowed reads that wait for the outcome of transactions.
    behind: Vec<Reading>,
    pub(crate) transactions: Transactions,
    pub(crate) notes: Notes,
    /// Whether `state` and `sessions` are those of the store.
    pub(crate) loaded: bool,
    /// The newest time that was proposed without a batch.
    pub(crate) ticked_ms: u64,
}

impl Shard {
    /// The shard over this log.
    pub fn new(log: Replog, limits: Limits) -> Self {
        let me = LogId(log.number().into());
        Shard {
            log,
            state: State::default(),
            sessions: Sessions::default(),
            appended: BTreeMap::new(),
            gathered: Vec::new(),
            gathered_bytes: 0,
            asked: BTreeMap::new(),
            tickets: 0,
            allowed: VecDeque::new(),
            untimely: Vec::new(),
            behind: Vec::new(),
            transactions: Transactions::new(me, &limits, Ledger::new(me)),
            notes: Notes::default(),
            loaded: false,
            ticked_ms: 0,
            limits,
        }
    }

    /// The log, to look at.
    pub fn log(&self) -> &Replog {
        &self.log
    }

    /// The counters, as of the newest applied entry.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A note of the node's, as of the newest applied entry.
    pub fn note(&self, name: u8) -> Option<&Note> {
        self.notes.get(name)
    }

    /// Its side of transactions over several shards, to look at.
    pub fn commitment(&self) -> &quorate_commit::Commit {
        &self.transactions.commit
    }

    /// Whether a batch would be taken now: this node leads and has applied all that it took over.
    pub fn takes_batches(&self) -> bool {
        let reigns = self.transactions.commit.view().is_some_and(|view| Some(view) == self.reign());
        reigns && self.log.can_propose() && self.has_caught_up()
    }

    /// Whether this node leads, everything before its leadership is chosen and applied, and it would read and write.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.log.is_ready() && self.log.takeover().is_some_and(|takeover| self.log.applied() >= takeover)
    }

    /// Answers from the state as it is here now, however old.
    pub fn read_relaxed(&self, cx: &mut Cx<'_>, request: &Request) -> Reply {
        let area = self.log.data_prefix();
        let (now_ms, seed) = (cx.wall.unix_ms, cx.rng.next_u64());
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, now_ms, seed);
        crate::run::run_request(&mut view, request)
    }

    fn input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match input {
            Input::Submit(batch) => self.submit(cx, batch, out),
            Input::Read { ticket, requests } => {
                self.tickets += 1;
                self.asked.insert(self.tickets, Reading { ticket, requests });
                self.step_log(cx, Event::Input(replog::Input::Read(self.tickets)), out);
            }
            Input::Change { ticket, add, remove } => {
                self.step_log(cx, Event::Input(replog::Input::Change { ticket, add, remove }), out);
            }
            Input::GiveUp { ticket } => {
                self.step_log(cx, Event::Input(replog::Input::GiveUp { ticket }), out)
            }
            Input::Transfer(to) => self.step_log(cx, Event::Input(replog::Input::Transfer(to)), out),
            Input::PeerConnected(peer) => {
                self.step_log(cx, Event::Input(replog::Input::PeerConnected(peer)), out)
            }
            Input::Transact(transaction) => self.transact(cx, *transaction, out),
            Input::Told(message) => self.told_by(cx, *message, out),
            Input::Note(note) => self.propose_note(cx, note, out),
            Input::Checkpoint => self.step_log(cx, Event::Input(replog::Input::Checkpoint), out),
            Input::PeerLost(peer) => self.step_log(cx, Event::Input(replog::Input::PeerLost(peer)), out),
        }
    }

    /// Steps the log and takes up what it says.
    pub(crate) fn step_log(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<Message, replog::Timer, replog::Input>,
        out: &mut Out,
    ) {
        let mut child = out.child();
        self.log.step(cx, event, &mut child);
        let mut told = Vec::new();
        let mut discard = None;
        out.lift(
            &mut child,
            |msg| msg,
            Timer::Log,
            |record| record,
            |what| match what {
                Told::Output(output) => told.push(output),
                Told::Discard(position) => discard = Some(position),
            },
        );
        if let Some(position) = discard {
            out.discard(position);
        }
        for output in told {
            self.told(cx, output, out);
        }
    }

    fn told(&mut self, cx: &mut Cx<'_>, output: replog::Output, out: &mut Out) {
        match output {
            replog::Output::Chosen => self.apply(cx, out),
            replog::Output::Read { ticket, index } => {
                if let Some(reading) = self.asked.remove(&ticket) {
                    self.allowed.push_back((index, reading));
                    self.serve_reads(cx, out);
                }
            }
            replog::Output::ReadRefused { ticket } => {
                if let Some(reading) = self.asked.remove(&ticket) {
                    out.output(Output::ReadRefused { ticket: reading.ticket });
                }
            }
            replog::Output::Role => {
                self.appended.clear();
                let batches = core::mem::take(&mut self.gathered);
                self.gathered_bytes = 0;
                self.turn_away(&batches, out);
                self.ticked_ms = 0;
                if !self.log.leads() {
                    for reading in self.untimely.drain(..).chain(self.behind.drain(..)) {
                        out.output(Output::ReadRefused { ticket: reading.ticket });
                    }
                }
                self.arm_expiry(cx, out);
                out.output(Output::Role);
            }
            replog::Output::Peers => out.output(Output::Peers),
            replog::Output::ChangeEnded { ticket, end } => out.output(Output::ChangeEnded { ticket, end }),
            replog::Output::Installed => {
                self.reload(cx, out);
                if self.limits.breaks(Mutant::SessionsNotInSnapshot) {
                    self.sessions = Sessions::default();
                }
            }
            replog::Output::Retired => out.output(Output::Retired),
        }
    }

    /// Takes the state from the store.
    fn reload(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let area = self.log.data_prefix();
        self.state = match cx.store.get(&counters_key(area)).map(|row| wire::decode(&row)) {
            Some(Ok(state)) => state,
            Some(Err(error)) => panic!("the counters of the shard: {error}"),
            None => State::default(),
        };
        self.sessions = Sessions::load(cx, area);
        let me = LogId(self.log.number().into());
        self.transactions = Transactions::load(cx, area, me, &self.limits);
        self.notes = Notes::load(cx, area);
        out.output(Output::Noted);
        self.loaded = true;
        self.serve_reads(cx, out);
    }

    /// Answers the allowed reads whose entry is applied.
    pub(crate) fn serve_reads(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        while let Some((index, _)) = self.allowed.front() {
            if *index > self.log.applied() && !self.limits.breaks(Mutant::ReadBeforeApplied) {
                break;
            }
            if let Some((_, reading)) = self.allowed.pop_front() {
                self.serve(cx, reading, out);
            }
        }
        for reading in core::mem::take(&mut self.behind) {
            self.serve(cx, reading, out);
        }
        if !self.untimely.is_empty() {
            let now_ms = self.state.now_ms;
            let waiting = core::mem::take(&mut self.untimely);
            // Time has gone on, or leadership will be lost: each pass makes progress or waits for the next entry.
            for reading in waiting {
                if now_ms >= self.ticked_ms || !self.log.leads() {
                    self.serve(cx, reading, out);
                } else {
                    self.untimely.push(reading);
                }
            }
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, reading: Reading, out: &mut Out) {
        let area = self.log.data_prefix();
        let now_ms = cx.wall.unix_ms;
        let seed = cx.rng.next_u64();
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, now_ms, seed);
        view.shield = core::mem::take(&mut self.transactions.shield);
        let (mut replies, mut bytes) = (Vec::with_capacity(reading.requests.len()), 0);
        let mut waits = false;
        for request in &reading.requests {
            let passes = self.limits.breaks(Mutant::ReadsPassTransactions);
            if !passes && !view.shield.is_empty() && view.shield.is_in_the_way(&wants_of(request)) {
                // Its outcome may be known elsewhere, and what is seen here must not be older.
                cx.marks.hit("shard.read.waits_for_transaction");
                waits = replies.is_empty();
                break;
            }
            let reply = crate::run::run_request(&mut view, request);
            if view.leans {
                // A key is past its time and there only because a transaction that found it waits for its outcome: whoever
                // sees it now would see it for as long as that takes.
                cx.marks.hit("shard.read.leans");
                waits = replies.is_empty();
                break;
            }
            bytes += reply.size_bytes();
            if bytes > self.limits.replies_bytes_max && !replies.is_empty() {
                cx.marks.hit("shard.read.answered_in_part");
                break;
            }
            replies.push(reply);
        }
        self.transactions.shield = core::mem::take(&mut view.shield);
        if waits {
            return self.behind.push(reading);
        }
        if view.expiry_pending.is_none() || self.limits.breaks(Mutant::ExpiryByLocalClock) {
            // What was read is chosen and applied: other nodes' disks have it.
            let (ticket, applied) = (reading.ticket, self.log.applied());
            return out.output_early(Output::Read { ticket, applied, replies });
        }
        // By this clock a key has expired, but the log does not say so yet. Were it read as gone now, another leader
        // with a slower clock could show it again: let the log decide, then read.
        cx.marks.hit("shard.read.waits_for_expiry");
        if self.takes_batches() {
            self.untimely.push(reading);
            self.tick(cx, now_ms, out);
        } else {
            out.output(Output::ReadRefused { ticket: reading.ticket });
        }
    }
}

impl Machine for Shard {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        self.log.restore(cx, position, record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        match event {
            Event::Start => {
                self.step_log(cx, Event::Start, out);
                self.reload(cx, out);
                self.apply(cx, out);
            }
            Event::Message { from, msg } => self.step_log(cx, Event::Message { from, msg }, out),
            Event::Timer(Timer::Log(timer)) => self.step_log(cx, Event::Timer(timer), out),
            Event::Timer(Timer::Apply) => self.apply(cx, out),
            Event::Timer(Timer::Expiry) => self.on_expiry(cx, out),
            Event::Timer(Timer::Propose) => self.propose_gathered(cx, out),
            Event::Timer(Timer::Commit) => self.commit(cx, out, |commit, turn| commit.tick(turn)),
            Event::Input(input) => self.input(cx, input, out),
        }
        self.look_after_reign(cx, out);
    }

    fn check(&self) {
        self.log.check();
        assert!(self.state.keyspace_oldest <= self.state.keyspace);
        assert!(self.state.expiring <= self.state.keys, "{:?}", self.state);
        self.transactions.check();
        let shield = Shield::of(self.transactions.commit.ledger());
        assert!(!self.loaded || self.transactions.shield == shield, "the shield is not that of the ledger");
    }
}
