//! State and dispatch.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Time, wire};
use quorate_quorum::{Threshold, majority_of};
use quorate_store::{Row, Sequence};

use crate::config::Config;
use crate::election::Candidate;
use crate::leader::Leader;
use crate::log::Log;
use crate::member::ChangeEnd;
use crate::message::{Ballot, Index, Message};
use crate::receive::Receiving;
use crate::record::{Content, Entry, Epoch, Member, Record};

/// The timers of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// No leader was heard of for long enough.
    Election,
    /// A leader's beat.
    Heartbeat,
    /// Look whether an installed snapshot is durable.
    Install,
    /// Remove more rows of abandoned areas.
    Sweep,
    /// Entries were kept back from some members for long enough.
    Spared,
}

/// What the parent asks of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Append a command. Only while [`Replog::can_propose`]; otherwise it is dropped and marked.
    Propose(Bytes),
    /// Tell when, and at which entry, a read that starts now may be answered: [`Output::Read`].
    Read(u64),
    /// Change the members: [`Output::ChangeEnded`] tells how it went.
    Change {
        /// Names the request.
        ticket: u64,
        /// Who joins (or is already there, with new information).
        add: Vec<Member>,
        /// Who leaves.
        remove: Vec<NodeId>,
    },
    /// Give this member change up, unless it is sealed: [`Output::ChangeEnded`] tells.
    GiveUp {
        /// As in [`Input::Change`].
        ticket: u64,
        /// Only as far as it concerns those who are to join and are not ready, if others are, or members are to leave. It ends as done then.
        late: bool,
    },
    /// Let another member lead: the given one or the one best prepared.
    Transfer(Option<NodeId>),
    /// Let this node know up to where entries are chosen, without waiting for the next beat, unless it was told.
    Inform(NodeId),
    /// What was sent to this node before may be lost.
    PeerConnected(NodeId),
    /// This node may have died.
    PeerLost(NodeId),
    /// The state in the store, with its [`Replog::applied_row`], has reached this entry.
    Applied(Index),
    /// Take part in nothing below this epoch any more: see `recover.rs`.
    Fence(u64),
    /// A fenced replica is to go on alone, in the epoch of its fence: only if nobody else is ever told so for that epoch.
    GoOnAlone {
        /// The epoch.
        epoch: u64,
        /// This node.
        me: Member,
    },
    /// Old records of this log, though they may be few, are in the way of letting go of others' newer ones.
    Checkpoint,
}

/// What a replica tells its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// There are chosen entries behind the applied ones.
    Chosen,
    /// The read may be answered from a state that has applied this entry.
    Read {
        /// As in [`Input::Read`].
        ticket: u64,
        /// The entry.
        index: Index,
    },
    /// The read cannot be answered here: this replica does not lead (any more).
    ReadRefused {
        /// As in [`Input::Read`].
        ticket: u64,
    },
    /// Who leads, or is believed to, has changed.
    Role,
    /// The members, or those who are to become members, have changed.
    Peers,
    /// A member change is over.
    ChangeEnded {
        /// As in [`Input::Change`].
        ticket: u64,
        /// How it went.
        end: ChangeEnd,
    },
    /// The state in the store was replaced by a snapshot; see [`Replog::chosen`] and [`Replog::data_prefix`].
    Installed,
    /// This replica is no member any more, and nobody needs it.
    Retired,
}

/// The effect buffer of a replica.
pub type Out = quorate_kernel::Out<Message, Timer, Record, Output>;

/// What a replica is doing.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    Follower,
    Candidate(Candidate),
    Leader(Leader),
}

/// One replica of a replicated log.
#[derive(Debug, Clone)]
pub struct Replog {
    pub(crate) me: NodeId,
    pub(crate) config: Config,
    pub(crate) bootstrap: Vec<Member>,
    pub(crate) restored: bool,
    /// Nothing below this ballot is accepted or promised in the current epoch.
    pub(crate) promised: Ballot,
    /// What is promised in later epochs; before the start, in all.
    pub(crate) ahead: BTreeMap<u64, Ballot>,
    /// The highest ballot of the current epoch heard of, so that a new one can be above it.
    pub(crate) seen: Ballot,
    pub(crate) log: Log,
    /// The newest ballot whose leader's log, up to its takeover, this log has caught up with ("last normal view").
    pub(crate) log_ballot: Ballot,
    pub(crate) chosen: Index,
    pub(crate) applied: Index,
    /// The epochs from that of `applied` on; the last one is current.
    pub(crate) epochs: Vec<Epoch>,
    /// Ids of the current members, sorted.
    pub(crate) voters: Vec<NodeId>,
    pub(crate) generation: u32,
    /// Areas of the store that are to be emptied, the next one last.
    pub(crate) garbage: Vec<u32>,
    /// The area that is being emptied, and the last row that was removed there.
    pub(crate) swept: Option<(u32, Bytes)>,
    pub(crate) role: Role,
    pub(crate) believed_leader: Option<NodeId>,
    pub(crate) heard: Time,
    pub(crate) patience: Duration,
    /// How often this replica has stood since it followed a leader for long: candidates that cross each other wait ever longer.
    pub(crate) contests: u32,
    /// How often in a row it stood and met members of a later epoch who have everything.
    pub(crate) outlived: u32,
    pub(crate) followed_since: Time,
    pub(crate) suspect: bool,
    /// Until then nothing is promised to anyone but the leader of `bound_to`, who may hold a lease.
    pub(crate) bound_until: Time,
    pub(crate) bound_to: Ballot,
    pub(crate) receiving: Option<Receiving>,
    /// Set once nobody needs this replica: the newest members that it was told of, and whether a quorum of them has everything.
    pub(crate) retired: Option<(Epoch, bool)>,
    /// Nothing below this epoch is accepted, promised or led.
    pub(crate) fence: u64,
    /// This replica, once it has applied everything, goes on alone: itself as a member.
    pub(crate) forcing: Option<Member>,
    /// For each record with entries: the last entry and where the record stands.
    pub(crate) journal: VecDeque<(Index, Position)>,
    pub(crate) journal_bytes: usize,
    pub(crate) checkpoint: Option<(Sequence, Index)>,
    /// The records of this log hold up those of others.
    pub(crate) in_the_way: bool,
}

impl Replog {
    /// A replica. `bootstrap` are the first members of a new log, the same on all of them; empty for a node that
    /// is to be added to an existing log. It counts only if nothing survives from an earlier life.
    ///
    /// # Panics
    /// If [`Config::complaints`] has any.
    pub fn new(me: NodeId, config: Config, mut bootstrap: Vec<Member>) -> Self {
        assert!(config.complaints().is_empty(), "{:?}", config.complaints());
        bootstrap.sort_by_key(|member| member.id);
        bootstrap.dedup_by_key(|member| member.id);
        Replog {
            me,
            config,
            bootstrap,
            restored: false,
            promised: Ballot::default(),
            ahead: BTreeMap::new(),
            seen: Ballot::default(),
            log: Log::default(),
            log_ballot: Ballot::default(),
            chosen: 0,
            applied: 0,
            epochs: Vec::new(),
            voters: Vec::new(),
            generation: 0,
            garbage: Vec::new(),
            swept: None,
            role: Role::Follower,
            believed_leader: None,
            heard: Time::default(),
            patience: Duration::ZERO,
            contests: 0,
            outlived: 0,
            followed_since: Time::default(),
            suspect: false,
            bound_until: Time::default(),
            bound_to: Ballot::default(),
            receiving: None,
            retired: None,
            fence: 0,
            forcing: None,
            journal: VecDeque::new(),
            journal_bytes: 0,
            checkpoint: None,
            in_the_way: false,
        }
    }

    /// The newest entry known to be chosen.
    pub fn chosen(&self) -> Index {
        self.chosen
    }

    /// The newest entry the parent has applied.
    pub fn applied(&self) -> Index {
        self.applied
    }

    /// The newest entry of the log, chosen or not.
    pub fn last(&self) -> Index {
        self.log.last()
    }

    /// The oldest entry in memory is the one after this.
    pub fn base(&self) -> Index {
        self.log.base()
    }

    /// A chosen entry that has not been applied yet (or was, a short while ago).
    pub fn chosen_entry(&self, index: Index) -> Option<&Entry> {
        if index > self.chosen { None } else { self.log.get(index) }
    }

    /// The ballot of an entry that is still in memory.
    pub fn ballot_at(&self, index: Index) -> Option<Ballot> {
        self.log.ballot_at(index)
    }

    /// Whether this replica leads, as far as it knows.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Whether this replica leads and everything it took over is chosen.
    pub fn is_ready(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if self.chosen >= leader.takeover)
    }

    /// Whether a command proposed now would be appended: this replica leads, is a member, and neither a seal nor a
    /// handover is under way.
    pub fn can_propose(&self) -> bool {
        let sealed_too = self.breaks(crate::Mutant::WriteAfterSeal);
        matches!(&self.role, Role::Leader(leader)
            if (leader.takes_commands() && self.is_member()) || (sealed_too && leader.transfer.is_none()))
    }

    /// The log's number, as in [`Config::log`].
    pub fn number(&self) -> u16 {
        self.config.log
    }

    /// The ballot this replica leads, if it leads.
    pub fn leading(&self) -> Option<Ballot> {
        match &self.role {
            Role::Leader(leader) => Some(leader.ballot),
            Role::Follower | Role::Candidate(_) => None,
        }
    }

    /// For a leader: the newest entry of its log when it took over.
    pub fn takeover(&self) -> Option<Index> {
        match &self.role {
            Role::Leader(leader) => Some(leader.takeover),
            Role::Follower | Role::Candidate(_) => None,
        }
    }

    /// Who leads, as far as this replica knows.
    pub fn believed_leader(&self) -> Option<NodeId> {
        if self.leads() { Some(self.me) } else { self.believed_leader }
    }

    /// The newest epoch this replica knows to have begun.
    pub fn epoch(&self) -> &Epoch {
        const NONE: &Epoch =
            &Epoch { number: 0, members: Vec::new(), former: Vec::new(), start: 0, heir: ZERO_BALLOT };
        self.epochs.last().unwrap_or(NONE)
    }

    /// Whether this replica counts.
    pub fn is_member(&self) -> bool {
        self.voters.binary_search(&self.me).is_ok()
    }

    /// Whether this replica counts, and neither was told that it does no more nor was given up.
    pub fn holds(&self) -> bool {
        self.is_member() && !self.is_retired() && !self.is_given_up()
    }

    /// Whether it was a member, is none any more and has been told that nobody needs it.
    pub fn is_retired(&self) -> bool {
        self.retired.is_some()
    }

    /// Nodes that catch up before they become members.
    pub fn learners(&self) -> Vec<NodeId> {
        match &self.role {
            Role::Leader(leader) => leader.learners().iter().map(|member| member.id).collect(),
            Role::Follower | Role::Candidate(_) => Vec::new(),
        }
    }

    /// For a leader: the newest entry that each other replica has acknowledged.
    pub fn progress(&self) -> Vec<(NodeId, Index)> {
        match &self.role {
            Role::Leader(leader) => leader.peers.iter().map(|(id, peer)| (*id, peer.matched)).collect(),
            Role::Follower | Role::Candidate(_) => Vec::new(),
        }
    }

    /// Prefix of all rows of the state in use.
    pub fn data_prefix(&self) -> [u8; 5] {
        self.config.rows().area(self.generation)
    }

    /// The row that must stand in the same batch as the effects of entry `applied`.
    ///
    /// # Panics
    /// If that entry is not in memory, or not chosen.
    pub fn applied_row(&self, applied: Index) -> Row {
        assert!(applied <= self.chosen, "only what is chosen may be applied");
        let Some(applied_ballot) = self.log.ballot_at(applied) else { panic!("entry {applied} is gone") };
        let (epoch, generation) = (self.epoch_at(applied), self.generation);
        // As a `StateMeta`, without a copy of the members for it.
        let meta = wire::encode(&(applied, applied_ballot, epoch, generation));
        (self.config.rows().meta_key(), Bytes::from(meta))
    }

    /// The epoch in force once entry `index`, applied or about to be, has been applied.
    fn epoch_at(&self, index: Index) -> &Epoch {
        const NONE: &Epoch = &Epoch::NONE;
        self.epochs.iter().rfind(|epoch| epoch.start <= index).unwrap_or(NONE)
    }

    /// The sets of current members whose word counts.
    pub(crate) fn quorum(&self) -> Threshold<'_> {
        let needed = majority_of(self.voters.len());
        let needed = if self.breaks(crate::Mutant::QuorumOffByOne) { (needed - 1).max(1) } else { needed };
        Threshold::new(&self.voters, needed)
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: crate::Mutant) -> bool {
        self.config.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn breaks(&self, _: crate::Mutant) -> bool {
        false
    }

    /// Persists entries as the new end of the log.
    pub(crate) fn persist_entries(&mut self, first: Index, entries: Vec<Entry>, out: &mut Out) {
        self.journal_bytes += entries.iter().map(Entry::size_bytes).sum::<usize>();
        let last = first + entries.len() as u64 - 1;
        let position = out.persist(Record::Append { first, log_ballot: self.log_ballot, entries });
        self.journal.push_back((last, position));
    }

    /// Moves the chosen mark and enters the epochs whose seals it passes.
    pub(crate) fn choose(&mut self, cx: &mut Cx<'_>, chosen: Index, out: &mut Out) {
        assert!(chosen <= self.log.last(), "chosen {chosen} behind the end of the log {}", self.log.last());
        if chosen <= self.chosen {
            return;
        }
        let mut index = self.chosen + 1;
        self.chosen = chosen;
        while index <= chosen {
            if let Some(Entry { ballot, content: Content::Seal(seal) }) = self.log.get(index)
                && index > self.epoch().start
            {
                let epoch = Epoch::after(seal, *ballot, index);
                self.enter_epoch(cx, epoch, out);
            }
            index += 1;
        }
        out.output(Output::Chosen);
    }

    fn dispatch(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        match event {
            Event::Start => self.start(cx, out),
            Event::Message { from, msg } => self.receive(cx, from, msg, out),
            Event::Timer(Timer::Election) => self.on_election_timer(cx, out),
            Event::Timer(Timer::Heartbeat) => self.on_heartbeat(cx, out),
            Event::Timer(Timer::Install) => self.on_install_timer(cx, out),
            Event::Timer(Timer::Sweep) => self.sweep(cx, out),
            Event::Timer(Timer::Spared) => self.on_spared_timer(cx, out),
            Event::Input(input) => self.input(cx, input, out),
        }
    }

    fn input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match input {
            Input::Propose(command) => self.propose(cx, Content::Command(command), out),
            Input::Read(ticket) => self.read(cx, ticket, out),
            Input::Change { ticket, add, remove } => self.change_members(cx, ticket, add, &remove, out),
            Input::GiveUp { ticket, late: true } => self.leave_out_late(cx, ticket, out),
            Input::GiveUp { ticket, late: false } => self.give_up(cx, ticket, out),
            Input::Transfer(to) => self.transfer(cx, to, out),
            Input::Inform(peer) => self.inform(cx, peer, out),
            Input::PeerConnected(peer) => self.peer_connected(cx, peer, out),
            Input::PeerLost(peer) => self.peer_lost(cx, peer, out),
            Input::Fence(epoch) => self.raise_fence(cx, epoch, out),
            Input::GoOnAlone { epoch, me } => self.go_on_alone(cx, epoch, me, out),
            // As if they were many: seen to after this step.
            Input::Checkpoint => {
                self.in_the_way = true;
                self.journal_bytes = self.journal_bytes.max(self.config.checkpoint_bytes + 1);
            }
            Input::Applied(applied) => {
                assert!(self.applied <= applied && applied <= self.chosen, "applied {applied} out of order");
                self.applied = applied;
                while self.epochs.get(1).is_some_and(|epoch| epoch.start <= applied) {
                    self.epochs.remove(0);
                }
                self.drive_forcing(cx, out);
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
        self.hear_of_epoch(cx, msg.epoch(), out);
        match msg {
            Message::Prepare(prepare) => self.on_prepare(cx, from, &prepare, out),
            Message::Promise { ballot, trial } => self.on_promise(cx, from, ballot, trial, out),
            Message::Append(append) => self.on_append(cx, from, append, out),
            Message::Accepted { ballot, matched, echo } => {
                self.on_accepted(cx, from, ballot, matched, echo, out)
            }
            Message::Conflict { ballot, matched_max, echo } => {
                self.on_conflict(cx, from, ballot, matched_max, echo, out);
            }
            Message::Stale { promised, epoch, settled } => {
                self.on_stale(cx, from, promised, &epoch, settled, out);
            }
            Message::Part(part) => self.on_part(cx, from, part, out),
            Message::NextPart { ballot, applied, part } => {
                self.on_next_part(cx, from, ballot, applied, part, out)
            }
            Message::Handover { ballot } => self.on_handover(cx, from, ballot, out),
            Message::Retire { ballot, epoch } => self.on_retire(cx, from, ballot, &epoch, out),
        }
    }
}

const ZERO_BALLOT: Ballot = Ballot { epoch: 0, number: 0, node: None };

impl Machine for Replog {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, _cx: &mut Cx<'_>, position: Position, record: Record) {
        self.restore_record(position, record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        self.dispatch(cx, event, out);
        self.tend_log(cx, out);
    }

    fn check(&self) {
        self.check_invariants();
    }
}
