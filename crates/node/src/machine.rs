//! The node as a machine: dispatch, and the way of requests to the leader and of answers back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Consistency, Outcome, Refusal, Request};
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Time, Told};
use quorate_replog::{self as replog, Record, Replog};
use quorate_shard::{self as shard, Mutant, Shard, is_read};

use crate::config::NodeConfig;
use crate::connections::{Connections, Kind, Taken};
use crate::interface::{AdminOutcome, ClientRequest, ConnectionId, Input, Member, Output, Ticket};
use crate::message::Message;
use crate::origin::{Address, Origin, size_of_request};
use crate::reads::Reads;

/// How often the node looks after requests that wait.
pub(crate) const TICK: Duration = Duration::from_millis(25);

/// The timers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// One of its shard's.
    Shard(shard::Timer),
    /// Look after requests that wait.
    Tick,
}

/// The effect buffer of a node.
pub type Out = quorate_kernel::Out<Message, Timer, Record, Output>;

/// A whole node.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) shard: Shard,
    pub(crate) origin: Origin,
    pub(crate) reads: Reads,
    connections: Connections,
    /// Reads that this node, leading, answers: by the shard's ticket, who asked and under which name.
    pub(crate) asked_by: BTreeMap<u64, (NodeId, u64)>,
    tickets: u64,
    /// Nodes whose batches this one did not take. They are told when it does.
    pub(crate) turned_away: BTreeSet<NodeId>,
    /// No sooner is the log's end asked for again.
    pub(crate) begin_again_at: Time,
    /// Whether [`Node::dispatch`] is at work.
    pub(crate) dispatching: bool,
    /// Whether it took batches after the last step.
    pub(crate) took: bool,
    pub(crate) disk_full: bool,
    /// The leader said that its disk is full; until then it is believed.
    pub(crate) leader_full_until: Time,
    pub(crate) stopping: bool,
    stopped: bool,
    /// Nodes that introduced themselves; they are kept connected while no member list says whom to connect to.
    pub(crate) contacts: BTreeMap<NodeId, Member>,
    pub(crate) connected: BTreeSet<NodeId>,
    /// For a leader: nodes that want to be members.
    pub(crate) joiners: BTreeMap<NodeId, Member>,
    pub(crate) joined_at: Time,
    /// Operators' requests under way, by the shard's ticket: who asked, and its name or ticket there.
    pub(crate) changes: BTreeMap<u64, crate::admin::Asker>,
    /// Operators' requests handed to the leader: the ticket here, to whom, and until when.
    pub(crate) handed_on: BTreeMap<u64, (Ticket, NodeId, Time)>,
    pub(crate) peers_told: Vec<Member>,
}

impl Node {
    /// A node that has not started.
    pub fn new(config: NodeConfig) -> Self {
        let bootstrap = config.bootstrap.iter().map(crate::admin::to_log_member).collect();
        let log = Replog::new(config.me.id, config.log.clone(), bootstrap);
        let origin = Origin::new(config.me.id);
        Node {
            shard: Shard::new(log, config.limits.shard.clone()),
            config,
            origin,
            reads: Reads::default(),
            connections: Connections::default(),
            asked_by: BTreeMap::new(),
            tickets: 0,
            turned_away: BTreeSet::new(),
            begin_again_at: Time::default(),
            dispatching: false,
            took: false,
            disk_full: false,
            leader_full_until: Time::default(),
            stopping: false,
            stopped: false,
            contacts: BTreeMap::new(),
            connected: BTreeSet::new(),
            joiners: BTreeMap::new(),
            joined_at: Time::default(),
            changes: BTreeMap::new(),
            handed_on: BTreeMap::new(),
            peers_told: Vec::new(),
        }
    }

    /// The shard, to look at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    pub(crate) fn log(&self) -> &Replog {
        self.shard.log()
    }

    /// Requests taken from clients and not answered.
    pub(crate) fn pending(&self) -> usize {
        self.origin.count() + self.reads.count() + self.connections.waiting()
    }

    /// Requests whose clients wait.
    fn awaited(&self) -> usize {
        self.origin.awaited() + self.reads.count() + self.connections.waiting()
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets = self.tickets.wrapping_add(1);
        self.tickets
    }

    fn input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match input {
            Input::Requests(requests) => {
                for request in requests {
                    self.take(cx, request, out);
                }
                self.dispatch(cx, out);
            }
            Input::ConnectionClosed(connection) => self.connection_closed(cx, connection, out),
            Input::PeerConnected(peer) => {
                self.connected.insert(peer);
                // Says only who and where this node is.
                out.send_early(peer, Message::Contact(self.config.me.clone()));
                self.step_shard(cx, Event::Input(shard::Input::PeerConnected(peer)), out);
            }
            Input::PeerLost(peer) => {
                self.connected.remove(&peer);
                self.step_shard(cx, Event::Input(shard::Input::PeerLost(peer)), out);
            }
            Input::Admin(ticket, request) => self.admin(cx, ticket, request, out),
            Input::DiskFull(full) => {
                if full != self.disk_full {
                    cx.marks.hit(if full { "node.disk.full" } else { "node.disk.room" });
                }
                self.disk_full = full;
            }
            Input::Stop => {
                self.stopping = true;
                let ends = self.origin.refuse_unsent(Refusal::NotServing);
                self.reply(cx, ends, out);
                self.step_shard(cx, Event::Input(shard::Input::Transfer(None)), out);
                self.tick(cx, out);
            }
        }
    }

    /// Takes a client's request, or refuses it.
    fn take(&mut self, cx: &mut Cx<'_>, request: ClientRequest, out: &mut Out) {
        let address = (request.connection, request.ticket);
        let reads = is_read(&request.request);
        if let Some(refusal) = self.refusal(cx, &request.request, reads) {
            // Nothing was begun, so there is nothing to forget.
            return out.output_early(Output::Replies(alloc::vec![(
                address.0,
                address.1,
                Outcome::Refused(refusal)
            )]));
        }
        let kind = if reads { Kind::Read } else { Kind::Write };
        if self.config.limits.breaks(Mutant::OrderIgnored) {
            return self.begin(cx, kind, (request, cx.now), out);
        }
        if let Some(request) = self.connections.admit(kind, (request, cx.now)) {
            self.begin(cx, kind, request, out);
        }
    }

    fn refusal(&self, cx: &Cx<'_>, request: &Request, reads: bool) -> Option<Refusal> {
        let limits = &self.config.limits;
        if self.stopping || self.log().is_retired() {
            return Some(Refusal::NotServing);
        }
        if !reads && (self.disk_full || cx.now < self.leader_full_until) {
            return Some(Refusal::NoSpace);
        }
        let bytes = self.origin.bytes() + size_of_request(request);
        if self.pending() >= limits.requests_max || (bytes > limits.bytes_max && self.origin.count() > 0) {
            return Some(Refusal::Busy);
        }
        None
    }

    fn begin(&mut self, cx: &mut Cx<'_>, kind: Kind, (request, taken_at): Taken, out: &mut Out) {
        match (kind, request.consistency) {
            (Kind::Write, _) => self.origin.take(request, taken_at),
            (Kind::Read, Consistency::Strict) => self.reads.take(request, taken_at),
            (Kind::Read, Consistency::Relaxed) => {
                let reply = self.shard.read_relaxed(cx, &request.request);
                let address = (request.connection, request.ticket);
                self.reply(cx, alloc::vec![(address, Outcome::Done(reply))], out);
            }
        }
    }

    /// Gives ends to clients, and lets what waited for them begin.
    pub(crate) fn reply(&mut self, cx: &mut Cx<'_>, ends: Vec<(Address, Outcome)>, out: &mut Out) {
        if ends.is_empty() {
            return;
        }
        let connections: Vec<ConnectionId> = ends.iter().map(|((connection, _), _)| *connection).collect();
        let replies = ends.into_iter().map(|((connection, ticket), outcome)| (connection, ticket, outcome));
        // What happened is chosen, on a quorum's disks; what was refused never began.
        out.output_early(Output::Replies(replies.collect()));
        for connection in connections {
            for (kind, request) in self.connections.ended(connection) {
                self.begin(cx, kind, request, out);
            }
        }
    }

    fn connection_closed(&mut self, cx: &mut Cx<'_>, connection: ConnectionId, out: &mut Out) {
        self.connections.closed(connection);
        for _ in 0..self.origin.forget_unsent(connection) {
            for (kind, request) in self.connections.ended(connection) {
                self.begin(cx, kind, request, out);
            }
        }
        self.dispatch(cx, out);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
        match msg {
            Message::Log(msg) => self.receive_log(cx, from, msg, out),
            Message::Submit(batch) => {
                if self.disk_full {
                    // A warning; harmless if forgotten.
                    out.send_early(from, Message::Full);
                } else {
                    self.step_shard(cx, Event::Input(shard::Input::Submit(batch)), out);
                }
            }
            Message::Answers { session, first_seq, replies } => {
                self.on_answers(cx, session.0, first_seq, &replies, out);
            }
            Message::Gap { session, expected } => self.on_gap(cx, session.0, expected, out),
            Message::SessionLost { session } => self.on_session_lost(cx, session.0, out),
            Message::NotTaken => self.on_not_taken(cx, from),
            Message::TakesBatches => self.on_takes_batches(cx, from, out),
            Message::Begin { session } => self.on_begin(from, session, out),
            Message::Begun { session, since } => {
                if session == self.origin.session() {
                    self.origin.begun(since);
                    self.dispatch(cx, out);
                }
            }
            Message::Read { id, requests } => self.read_here(cx, from, id, requests, out),
            Message::ReadAnswers { id, applied, replies } => {
                self.on_read_answers(cx, id, applied, replies, out);
            }
            Message::ReadRefused { id } => self.reads.refused(id),
            Message::Full => self.leader_full_until = cx.now + TICK * 10,
            Message::Contact(member) => self.on_contact(from, member, out),
            Message::Join(member) => self.on_join(cx, member, out),
            Message::Admin { id, request } => self.on_admin(cx, from, id, request, out),
            Message::AdminEnded { id, outcome } => self.on_admin_ended(from, id, outcome, out),
        }
    }

    /// Hands a message to the log. With a full disk nothing new is taken: the message becomes one that only says who
    /// leads. It must not be answered as if the log ended too early, or the leader would send again at once, for ever.
    fn receive_log(&mut self, cx: &mut Cx<'_>, from: NodeId, mut msg: replog::Message, out: &mut Out) {
        if self.disk_full {
            match &mut msg {
                replog::Message::Append(append) if !append.entries.is_empty() => {
                    append.entries.clear();
                    (append.prev, append.prev_ballot) = (0, replog::Ballot::default());
                }
                replog::Message::Part(_) => return,
                _ => {}
            }
        }
        self.step_shard(cx, Event::Message { from, msg }, out);
    }

    /// Steps the shard and takes up what it says.
    pub(crate) fn step_shard(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<replog::Message, shard::Timer, shard::Input>,
        out: &mut Out,
    ) {
        let mut child = out.child();
        self.shard.step(cx, event, &mut child);
        let mut told = Vec::new();
        let mut discard = None;
        out.lift(
            &mut child,
            Message::Log,
            Timer::Shard,
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

    fn told(&mut self, cx: &mut Cx<'_>, output: shard::Output, out: &mut Out) {
        let me = self.config.me.id;
        match output {
            shard::Output::Answers { origin, session, first_seq, replies } if origin == me => {
                self.on_answers(cx, session.0, first_seq, &replies, out);
            }
            shard::Output::Answers { origin, session, first_seq, replies } => {
                self.send_answers(origin, session, first_seq, replies, out);
            }
            shard::Output::Gap { origin, session, expected } if origin == me => {
                self.on_gap(cx, session.0, expected, out);
            }
            shard::Output::Gap { origin, session, expected } => {
                // A request to send again; harmless if forgotten.
                out.send_early(origin, Message::Gap { session, expected });
            }
            shard::Output::SessionLost { origin, session } if origin == me => {
                self.on_session_lost(cx, session.0, out);
            }
            shard::Output::SessionLost { origin, session } => {
                // True of the chosen state, which nothing on this disk can change.
                out.send_early(origin, Message::SessionLost { session });
            }
            shard::Output::NotTaken { origin } if origin == me => self.on_not_taken(cx, me),
            shard::Output::NotTaken { origin } => self.turn_away(origin, out),
            shard::Output::Read { ticket, applied, replies } => {
                self.read_done(cx, ticket, applied, replies, out);
            }
            shard::Output::ReadRefused { ticket } => match self.asked_by.remove(&ticket) {
                Some((from, id)) if from == me => self.reads.refused(id),
                // Nothing was done.
                Some((from, id)) => out.send_early(from, Message::ReadRefused { id }),
                None => {}
            },
            shard::Output::Role => self.on_role(cx, out),
            shard::Output::Peers => self.tell_peers(out),
            shard::Output::ChangeEnded { ticket, end } => self.on_change_ended(ticket, end, out),
            shard::Output::Retired => cx.marks.hit("node.retired"),
        }
    }

    fn on_role(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.log().believed_leader().is_some() {
            self.reads.ask_again(Duration::ZERO, cx.now);
            self.dispatch(cx, out);
        }
    }

    /// Looks after what waits.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let (retry, deadline) = (self.config.limits.retry, self.config.limits.deadline);
        self.reads.ask_again(retry, cx.now);
        let refused = self.config.limits.breaks(Mutant::SentIsRefused);
        let mut ends = self.origin.overdue(deadline, refused, cx.now);
        ends.extend(self.reads.overdue(deadline, cx.now));
        self.reply(cx, ends, out);
        if self.origin.doubts(retry, cx.now) {
            cx.marks.hit("node.batch.again");
            if self.config.limits.breaks(Mutant::RetryWithNewNumber) {
                self.origin.forget_numbers();
                self.origin.begin_session(cx.rng.next_u64());
            }
        }
        self.dispatch(cx, out);
        self.look_after_members(cx, out);
        if self.disk_full && self.log().leads() {
            self.spread_fullness(cx, out);
        }
        self.look_after_stopping(cx, out);
        out.arm(Timer::Tick, TICK);
    }

    /// A leader whose disk is full says so, and lets somebody with room lead.
    fn spread_fullness(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for peer in self.log().peers() {
            // A warning; harmless if forgotten.
            out.send_early(peer.id, Message::Full);
        }
        self.step_shard(cx, Event::Input(shard::Input::Transfer(None)), out);
    }

    fn look_after_stopping(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if !self.stopping || self.stopped {
            return;
        }
        let alone = self.log().epoch().members.len() <= 1;
        let idle = self.awaited() == 0 && (alone || !self.log().leads());
        if idle || self.config.limits.breaks(Mutant::StopWhileLeading) {
            self.stopped = true;
            out.output(Output::ReadyToStop);
        } else if self.log().leads() {
            self.step_shard(cx, Event::Input(shard::Input::Transfer(None)), out);
        }
    }

    pub(crate) fn admin_refused(ticket: Ticket, why: &str, out: &mut Out) {
        // Nothing was begun.
        out.output_early(Output::Admin(ticket, AdminOutcome::Refused(why.into())));
    }
}

impl Machine for Node {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        self.shard.restore(cx, position, record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        match event {
            Event::Start => {
                self.origin.begin_session(cx.rng.next_u64());
                // Answers to an earlier life's questions must not be taken for answers to this one's.
                let chance = (cx.rng.next_u64(), cx.rng.next_u64());
                if !self.config.limits.breaks(Mutant::NamesRepeat) {
                    self.reads.begin(chance.0);
                    self.tickets = chance.1;
                }
                self.step_shard(cx, Event::Start, out);
                out.arm(Timer::Tick, TICK);
            }
            Event::Message { from, msg } => self.receive(cx, from, msg, out),
            Event::Timer(Timer::Shard(timer)) => {
                self.step_shard(cx, Event::Timer(timer), out);
                self.dispatch(cx, out);
            }
            Event::Timer(Timer::Tick) => self.tick(cx, out),
            Event::Input(input) => self.input(cx, input, out),
        }
        self.look_after_batches(cx, out);
    }

    fn check(&self) {
        self.shard.check();
        self.origin.check();
        self.reads.check();
    }
}
