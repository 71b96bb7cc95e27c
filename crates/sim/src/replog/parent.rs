//! The machine around a replicated log: a small table of registers, sessions, and a running sum over its rows.
//!
//! It does what any parent of a log has to do: it applies what is chosen in one batch with the log's row, answers
//! when an entry is applied and starts over from the store when a snapshot was installed.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::{Cx, Event, Machine, NodeId, Out, Position, Told, wire};
use quorate_replog::session::{Admission, Session};
use quorate_replog::{ChangeEnd, Config, Content, Entry, Index, Member, Message, Record, Replog};
use quorate_store::{Batch, Scan, prefix_end};
use serde::{Deserialize, Serialize};

/// What the log carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Names this attempt; no two proposals share one.
    pub attempt: u64,
    /// Whose it is.
    pub client: u64,
    /// The client's number for what it wants done, from 1; 0 without a session.
    pub seq: u64,
    /// All requests before this one are answered.
    pub settled: u64,
    /// Which register.
    pub key: u8,
    /// Makes it as long as it should be.
    pub padding: Bytes,
}

/// What a client or an operator asks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Do this.
    Write(Command),
    /// Read, linearizably.
    Read(u64),
    /// Change the members.
    Change {
        /// Names the request.
        ticket: u64,
        /// The epoch that the asker means.
        epoch: u64,
        /// Who joins.
        add: Vec<NodeId>,
        /// Who leaves.
        remove: Vec<NodeId>,
    },
    /// Let somebody else lead.
    Transfer(Option<NodeId>),
    /// Others wait for room: records are to be let go of.
    Checkpoint,
    /// A hint, right or wrong.
    Lost(NodeId),
    /// A hint, right or wrong.
    Connected(NodeId),
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The command was applied (now, or by an earlier attempt) by this entry.
    Done {
        /// Which attempt is answered.
        attempt: u64,
        /// The entry.
        index: Index,
    },
    /// The command was not applied by this attempt.
    Refused {
        /// Which attempt is answered.
        attempt: u64,
        /// Who may know more.
        leader: Option<NodeId>,
    },
    /// The state as of this entry was read.
    Read {
        /// Which read is answered.
        ticket: u64,
        /// The entry.
        index: Index,
    },
    /// It cannot be read here.
    ReadRefused {
        /// Which read is answered.
        ticket: u64,
        /// Who may know more.
        leader: Option<NodeId>,
    },
    /// A member change is over.
    Changed {
        /// Which change.
        ticket: u64,
        /// How it went.
        end: ChangeEnd,
    },
}

/// Timers of the parent and of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The log's.
    Log(quorate_replog::Timer),
    /// Apply more.
    Apply,
}

/// How a parent goes about its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Entries applied in one step; the rest waits.
    pub apply_max: u64,
    /// How long the rest waits.
    pub apply_pause: Duration,
}

type ParentOut = Out<Message, Timer, Record, Answer>;

/// See the module's documentation.
#[derive(Debug)]
pub struct Parent {
    log: Replog,
    pace: Pace,
    applied: Index,
    /// Wrapping sum over the hashes of all rows but the one that keeps it.
    sum: u64,
    /// Attempts proposed here and not applied yet.
    waiting: BTreeSet<u64>,
    reads: Vec<(Index, u64)>,
    told: VecDeque<Told<quorate_replog::Output>>,
    /// Entries applied in this step: the log may have let go of them at its end.
    fresh: Vec<(Index, Entry)>,
}

const SUM: &[u8] = b"sum";

/// Entries that may wait to be chosen and applied; clients are refused beyond.
const BACKLOG_MAX: u64 = 64;

impl Parent {
    /// A parent of a log that has these first members.
    pub fn new(me: NodeId, config: Config, pace: Pace, bootstrap: &[NodeId]) -> Self {
        let members = bootstrap.iter().copied().map(member).collect();
        Parent {
            log: Replog::new(me, config, members),
            pace,
            applied: 0,
            sum: 0,
            waiting: BTreeSet::new(),
            reads: Vec::new(),
            told: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Replog {
        &self.log
    }

    /// Newest applied entry, and the sum over all rows as of it.
    pub fn state(&self) -> (Index, u64) {
        (self.applied, self.sum)
    }

    /// A chosen entry, if the log still has it or it was applied in the last step.
    pub fn chosen_entry(&self, index: Index) -> Option<&Entry> {
        let fresh = || self.fresh.iter().find(|(at, _)| *at == index).map(|(_, entry)| entry);
        self.log.chosen_entry(index).or_else(fresh)
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.log.data_prefix()[..], name].concat()
    }

    /// Takes the state from the store and checks that no row is missing.
    fn load(&mut self, cx: &mut Cx<'_>) {
        self.applied = self.log.applied();
        let prefix = self.log.data_prefix();
        let end = prefix_end(&prefix);
        let (mut sum, mut kept) = (0_u64, 0);
        for (key, value) in cx.store.scan(Scan::range(&prefix, end.as_deref())) {
            if &key[prefix.len()..] == SUM {
                kept = read_sum(&value);
            } else {
                sum = sum.wrapping_add(row_hash(&key[prefix.len()..], &value));
            }
        }
        assert_eq!(sum, kept, "rows are missing or wrong in the state at entry {}", self.applied);
        self.sum = sum;
        cx.marks.hit("replog.parent.loaded");
    }

    /// Steps the log and does what it says, until it has nothing more to say.
    fn drive(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<Message, quorate_replog::Timer, quorate_replog::Input>,
        out: &mut ParentOut,
    ) {
        let mut child = out.child();
        self.log.step(cx, event, &mut child);
        let told = &mut self.told;
        out.lift(&mut child, |msg| msg, Timer::Log, |record| record, |what| told.push_back(what));
    }

    fn settle(&mut self, cx: &mut Cx<'_>, out: &mut ParentOut) {
        while let Some(told) = self.told.pop_front() {
            match told {
                Told::Discard(position) => out.discard(position),
                Told::Output(output) => self.heed(cx, output, out),
            }
        }
    }

    fn heed(&mut self, cx: &mut Cx<'_>, output: quorate_replog::Output, out: &mut ParentOut) {
        use quorate_replog::Output;
        let leader = self.log.believed_leader();
        match output {
            Output::Chosen => self.apply(cx, out),
            Output::Read { ticket, index } if index <= self.applied => {
                // What was applied is chosen: it cannot be lost with this disk.
                out.output_early(Answer::Read { ticket, index: self.applied });
            }
            Output::Read { ticket, index } => self.reads.push((index, ticket)),
            // Nothing was done.
            Output::ReadRefused { ticket } => out.output_early(Answer::ReadRefused { ticket, leader }),
            Output::ChangeEnded { ticket, end } => out.output(Answer::Changed { ticket, end }),
            Output::Installed => {
                self.load(cx);
                self.apply(cx, out);
            }
            Output::Retired | Output::Role | Output::Peers => {}
        }
    }

    /// Applies what is chosen, as much as the pace allows.
    fn apply(&mut self, cx: &mut Cx<'_>, out: &mut ParentOut) {
        let upto = self.log.chosen().min(self.applied.saturating_add(self.pace.apply_max));
        let before = self.applied;
        while self.applied < upto {
            self.apply_next(cx, out);
        }
        if self.applied < self.log.chosen() {
            out.arm(Timer::Apply, self.pace.apply_pause);
        }
        if self.applied == before {
            return;
        }
        let applied = self.applied;
        let ready = self.reads.extract_if(.., |(index, _)| *index <= applied);
        for (_, ticket) in ready {
            // As in `heed`.
            out.output_early(Answer::Read { ticket, index: applied });
        }
        self.drive(cx, Event::Input(quorate_replog::Input::Applied(applied)), out);
    }

    fn apply_next(&mut self, cx: &mut Cx<'_>, out: &mut ParentOut) {
        let index = self.applied + 1;
        let Some(entry) = self.log.chosen_entry(index).cloned() else {
            panic!("chosen entry {index} is not at hand")
        };
        let command: Option<Command> = match &entry.content {
            Content::Command(bytes) => Some(wire::decode(bytes).expect("only commands of ours are proposed")),
            Content::Seal(_) => None,
        };
        let mut batch = Batch::default();
        if let Some(command) = command {
            let mut sum = self.sum;
            let effect = self.effect(cx, &command, index, &mut batch, &mut sum);
            self.sum = sum;
            if self.waiting.remove(&command.attempt) {
                self.answer(cx, command.attempt, effect, out);
            }
        }
        batch.put(self.key(SUM), self.sum.to_le_bytes().to_vec());
        let (key, value) = self.log.applied_row(index);
        batch.put(key, value);
        cx.store.apply(batch);
        self.applied = index;
        self.fresh.push((index, entry));
    }

    /// What a command does, and the entry that did it; `None` if nothing did.
    fn effect(
        &self,
        cx: &mut Cx<'_>,
        command: &Command,
        index: Index,
        batch: &mut Batch,
        sum: &mut u64,
    ) -> Option<Index> {
        if command.seq == 0 {
            self.write(cx, &[b'k', command.key], register(command, index), batch, sum);
            return Some(index);
        }
        let name = [&b"s"[..], &command.client.to_be_bytes()].concat();
        let row = cx.store.get(&self.key(&name));
        let mut session: Session =
            row.map(|row| wire::decode(&row).expect("a session of ours")).unwrap_or_default();
        let effect = match session.admit(command.seq) {
            Admission::Apply => {
                self.write(cx, &[b'k', command.key], register(command, index), batch, sum);
                session.finish(command.seq, Bytes::from(index.to_le_bytes().to_vec()), index);
                Some(index)
            }
            Admission::Replay(reply) => {
                cx.marks.hit("replog.session.replayed");
                Some(read_sum(&reply))
            }
            Admission::Settled => {
                cx.marks.hit("replog.session.settled");
                None
            }
            Admission::Gap(_) => {
                cx.marks.hit("replog.session.gap");
                None
            }
        };
        session.settle_before(command.settled);
        self.write(cx, &name, wire::encode(&session), batch, sum);
        effect
    }

    fn write(&self, cx: &mut Cx<'_>, name: &[u8], value: Vec<u8>, batch: &mut Batch, sum: &mut u64) {
        let key = self.key(name);
        if let Some(old) = cx.store.get(&key) {
            *sum = sum.wrapping_sub(row_hash(name, &old));
        }
        *sum = sum.wrapping_add(row_hash(name, &value));
        batch.put(key, value);
    }

    fn answer(&self, cx: &mut Cx<'_>, attempt: u64, effect: Option<Index>, out: &mut ParentOut) {
        let answer = match effect {
            Some(index) => Answer::Done { attempt, index },
            None => {
                cx.marks.hit("replog.parent.without_effect");
                Answer::Refused { attempt, leader: self.log.believed_leader() }
            }
        };
        // What was applied is chosen: a quorum has it on disk, whether or not this node does.
        out.output_early(answer);
    }

    fn takes_writes(&self) -> bool {
        self.log.can_propose() && self.log.last() < self.applied + BACKLOG_MAX
    }

    fn asked(&mut self, cx: &mut Cx<'_>, ask: Ask, out: &mut ParentOut) {
        use quorate_replog::Input;
        let input = match ask {
            Ask::Write(command) if self.takes_writes() || cx.rng.chance(1, 100) => {
                // Rarely also when the log does not take it: it is dropped, and the client loses patience.
                self.waiting.insert(command.attempt);
                Input::Propose(Bytes::from(wire::encode(&command)))
            }
            Ask::Write(command) => {
                let leader = self.log.believed_leader();
                // Nothing was done.
                return out.output_early(Answer::Refused { attempt: command.attempt, leader });
            }
            Ask::Read(ticket) => Input::Read(ticket),
            Ask::Change { ticket, epoch, .. } if epoch != self.log.epoch().number => {
                let end = ChangeEnd::Refused("the members have changed meanwhile".into());
                return out.output(Answer::Changed { ticket, end });
            }
            Ask::Change { ticket, add, remove, .. } => {
                Input::Change { ticket, add: add.into_iter().map(member).collect(), remove }
            }
            Ask::Transfer(to) => Input::Transfer(to),
            Ask::Checkpoint => Input::Checkpoint,
            Ask::Lost(node) => Input::PeerLost(node),
            Ask::Connected(node) => Input::PeerConnected(node),
        };
        self.drive(cx, Event::Input(input), out);
    }
}

impl Machine for Parent {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Ask;
    type Output = Answer;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        self.log.restore(cx, position, record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Ask>, out: &mut ParentOut) {
        self.fresh.clear();
        match event {
            Event::Start => {
                self.drive(cx, Event::Start, out);
                self.load(cx);
            }
            Event::Message { from, msg } => self.drive(cx, Event::Message { from, msg }, out),
            Event::Timer(Timer::Log(timer)) => self.drive(cx, Event::Timer(timer), out),
            Event::Timer(Timer::Apply) => self.apply(cx, out),
            Event::Input(ask) => self.asked(cx, ask, out),
        }
        self.settle(cx, out);
    }

    fn check(&self) {
        self.log.check();
        assert_eq!(self.applied, self.log.applied(), "the parent and its log disagree about what is applied");
        assert!(self.told.is_empty());
    }
}

/// A member whose information says who it is.
pub(crate) fn member(id: NodeId) -> Member {
    Member { id, info: Bytes::from(id.0.to_string()) }
}

fn register(command: &Command, index: Index) -> Vec<u8> {
    let mut value = index.to_le_bytes().to_vec();
    value.extend_from_slice(&command.attempt.to_le_bytes());
    value.extend_from_slice(&command.padding);
    value
}

fn read_sum(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// FNV-1a over a row.
fn row_hash(key: &[u8], value: &[u8]) -> u64 {
    let bytes = key.iter().chain(&[0xff]).chain(value);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
