//! The shard as a machine: a log and what it does to the store.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reason, Reply, Request, SessionId};
use quorate_commit::{Ledger, LogId, Outcome, Transaction, TransactionId};
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Told, costly, wire};
use quorate_replog::{self as replog, ChangeEnd, Index, Member, Message, Record, Replog, era_start};

use crate::Mutant;
use crate::layout::{State, counters_key};
use crate::notes::{Note, Notes};
use crate::reads::{Reading, Reads, Wanted};
use crate::reasons::{Asked, Writers};
use crate::sessions::{Limits, Sessions};
use crate::shield::Shield;
use crate::sweep::Fronts;
use crate::transact::Transactions;

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
    /// What was held has lasted long enough.
    Holds,
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
    /// For a leader: tell as of which entry a copy may answer reads that came before this: [`Output::ReadIndex`].
    ReadIndex {
        /// Names the question.
        ticket: u64,
        /// The node that has the copy.
        replica: NodeId,
    },
    /// Answer these reads, whether this node leads or not, once this entry is applied; then as if it led.
    ReadAt {
        /// Names the read.
        ticket: u64,
        /// The entry.
        index: Index,
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
        /// Only as far as it concerns those who are to join and are not ready.
        late: bool,
    },
    /// Let another member lead.
    Transfer(Option<NodeId>),
    /// What was sent to this node before may be lost.
    PeerConnected(NodeId),
    /// This node may have died.
    PeerLost(NodeId),
    /// What is the log's business alone.
    Log(replog::Input),
    /// Take part in this transaction, of which this shard is the coordinator.
    Transact(Box<Transaction>),
    /// Put each of these notes in the place of the one with its name, unless that is another than it builds on.
    Notes(Vec<Note>),
    /// The primary of another shard says something about a transaction.
    Told(Box<quorate_commit::Message>),
    /// Another shard has another primary: what was said to the one before may be lost.
    Succeeded(LogId),
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
    /// As of this entry, or a newer one, a copy may answer.
    ReadIndex {
        /// As in [`Input::ReadIndex`].
        ticket: u64,
        /// The entry.
        index: Index,
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
    /// Why a request did nothing, or what it waits for; before its answer. Harmless if forgotten.
    Reason {
        /// Who took it from its client, if the node does not know by itself.
        to: Option<NodeId>,
        /// Which request; a read by its ticket.
        asked: Asked,
        /// Why.
        reason: Box<Reason>,
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
    pub(crate) reads: Reads,
    pub(crate) transactions: Transactions,
    pub(crate) notes: Notes,
    /// Of this replica alone.
    pub(crate) fronts: Fronts,
    /// Who gave which versions, for explanations.
    pub(crate) writers: Writers,
    /// Why requests did nothing that were applied in this step.
    pub(crate) reasons: Vec<Output>,
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
            reads: Reads::default(),
            transactions: Transactions::new(me, &limits, Ledger::new(me)),
            notes: Notes::default(),
            fronts: Fronts::default(),
            writers: Writers::default(),
            reasons: Vec::new(),
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

    /// Transactions with other shards that this primary is concerned with.
    pub fn transactions_under_way(&self) -> usize {
        self.transactions.commit.live_count()
    }

    /// Whether this node leads, everything before its leadership is chosen and applied, and it would read and write.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.log.is_ready() && self.log.takeover().is_some_and(|takeover| self.log.applied() >= takeover)
    }

    fn input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match input {
            Input::Submit(batch) => self.submit(cx, batch, out),
            Input::Read { ticket, requests } => {
                self.ask_log(cx, Wanted::Answers { ticket, requests }, out);
            }
            Input::ReadIndex { ticket, replica } => {
                self.ask_log(cx, Wanted::Index { ticket, replica }, out);
            }
            Input::ReadAt { ticket, index, requests } => {
                self.read_at(cx, Reading::new(index, ticket, requests), out);
            }
            Input::Change { ticket, add, remove } => {
                self.step_log(cx, Event::Input(replog::Input::Change { ticket, add, remove }), out);
            }
            Input::GiveUp { ticket, late } => {
                self.step_log(cx, Event::Input(replog::Input::GiveUp { ticket, late }), out)
            }
            Input::Transfer(to) => self.step_log(cx, Event::Input(replog::Input::Transfer(to)), out),
            Input::PeerConnected(peer) => {
                self.step_log(cx, Event::Input(replog::Input::PeerConnected(peer)), out)
            }
            Input::Transact(transaction) => self.transact(cx, *transaction, out),
            Input::Told(message) => self.told_by(cx, *message, out),
            Input::Succeeded(log) => self.commit(cx, out, |commit, turn| commit.say_again(turn, log)),
            Input::Notes(notes) => self.propose_notes(cx, notes, out),
            Input::Log(input) => self.step_log(cx, Event::Input(input), out),
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
            replog::Output::Read { ticket, index } => self.read_allowed(cx, ticket, index, out),
            replog::Output::ReadRefused { ticket } => self.reads.refused(ticket, out),
            replog::Output::Role => {
                self.appended.clear();
                let batches = core::mem::take(&mut self.gathered);
                self.gathered_bytes = 0;
                self.turn_away(&batches, out);
                self.ticked_ms = 0;
                if !self.log.leads() {
                    self.reads.led_elsewhere(out);
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
        // Numbers given to what is lost must not be given again.
        let floor = era_start(self.log.applied());
        self.state.versions = self.state.versions.max(floor);
        self.sessions = Sessions::load(cx, area, floor);
        let me = LogId(self.log.number().into());
        self.transactions = Transactions::load(cx, area, me, &self.limits, floor > 0);
        self.notes = Notes::load(cx, area);
        self.fronts = Fronts::default();
        out.output(Output::Noted);
        self.loaded = true;
        self.serve_reads(cx, out);
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
            Event::Timer(Timer::Holds) => self.end_holds(cx, out),
            Event::Timer(Timer::Commit) => {
                self.leave_old_places(cx, out);
                self.commit(cx, out, |commit, turn| commit.tick(turn));
            }
            Event::Input(input) => self.input(cx, input, out),
        }
        self.look_after_reign(cx, out);
    }

    fn check(&self) {
        self.log.check();
        assert!(self.state.keyspace_oldest <= self.state.keyspace);
        assert!(self.state.expiring <= self.state.keys, "{:?}", self.state);
        self.transactions.check();
        costly! {
            let shield = Shield::of(self.transactions.commit.ledger());
            assert!(!self.loaded || self.transactions.shield == shield, "the shield is not that of the ledger");
        }
    }
}
