//! The node as a machine: dispatch, and the way of requests to the leader and of answers back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::{Consistency, Outcome, Refusal, Request, SessionId};
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
const TICK: Duration = Duration::from_millis(25);

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
    asked_by: BTreeMap<u64, (NodeId, u64)>,
    tickets: u64,
    /// Nodes whose batches this one did not take. They are told when it does.
    turned_away: BTreeSet<NodeId>,
    /// No sooner is the log's end asked for again.
    begin_again_at: Time,
    /// Whether [`Node::dispatch`] is at work.
    dispatching: bool,
    /// Whether it took batches after the last step.
    took: bool,
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

    /// Sends on what can be sent on. What that brings about at once may ask for more to be sent: then it goes on here,
    /// not deeper.
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if core::mem::replace(&mut self.dispatching, true) {
            return;
        }
        while self.dispatch_some(cx, out) {}
        self.dispatching = false;
    }

    /// Sends one batch and some reads. Returns whether there may be more.
    fn dispatch_some(&mut self, cx: &mut Cx<'_>, out: &mut Out) -> bool {
        let Some(leader) = self.log().believed_leader() else { return false };
        let here = leader == self.config.me.id;
        if here && !self.shard.takes_batches() {
            return false;
        }
        self.origin.turn_to(leader);
        if self.origin.needs_beginning() {
            self.begin_session_at(cx, leader, out);
        }
        let batch = self.origin.next_batch(&self.config.limits, cx.now);
        let reads = self.reads.next(cx.now);
        let more = batch.is_some() || reads.is_some();
        if let Some(batch) = batch {
            self.submit(cx, leader, batch, out);
        }
        match reads {
            Some((id, requests)) if here => self.read_here(cx, leader, id, requests, out),
            // A question; nothing about this node's disk is told.
            Some((id, requests)) => out.send_early(leader, Message::Read { id, requests }),
            None => {}
        }
        more
    }

    fn submit(&mut self, cx: &mut Cx<'_>, leader: NodeId, batch: Bytes, out: &mut Out) {
        if leader == self.config.me.id {
            self.step_shard(cx, Event::Input(shard::Input::Submit(batch)), out);
        } else {
            // The batch counts when the log has it; this node keeps nothing of it on disk.
            out.send_early(leader, Message::Submit(batch));
        }
    }

    /// Asks how far the log is: a session must not be taken for an older one, nor an older one for it.
    fn begin_session_at(&mut self, cx: &mut Cx<'_>, leader: NodeId, out: &mut Out) {
        let session = self.origin.session();
        if leader == self.config.me.id {
            self.origin.begun(self.log().chosen());
        } else if cx.now >= self.begin_again_at {
            self.begin_again_at = cx.now + self.config.limits.retry;
            // A question; nothing about this node's disk is told.
            out.send_early(leader, Message::Begin { session });
        }
    }

    fn on_begin(&mut self, from: NodeId, session: SessionId, out: &mut Out) {
        if self.shard.takes_batches() {
            // What is chosen is on a quorum's disks.
            out.send_early(from, Message::Begun { session, since: self.log().chosen() });
        } else {
            self.turn_away(from, out);
        }
    }

    /// Says that nothing was done, and remembers to say when it would be.
    fn turn_away(&mut self, origin: NodeId, out: &mut Out) {
        const TURNED_AWAY_MAX: usize = 256;
        if self.turned_away.len() < TURNED_AWAY_MAX {
            self.turned_away.insert(origin);
        }
        // Nothing was done.
        out.send_early(origin, Message::NotTaken);
    }

    fn read_here(&mut self, cx: &mut Cx<'_>, from: NodeId, id: u64, requests: Vec<Request>, out: &mut Out) {
        let ticket = self.next_ticket();
        self.asked_by.insert(ticket, (from, id));
        self.step_shard(cx, Event::Input(shard::Input::Read { ticket, requests }), out);
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
            Message::ReadAnswers { id, replies } => {
                self.on_read_answers(cx, id, replies, out);
            }
            Message::ReadRefused { id } => self.reads.refused(id),
            Message::Full => self.leader_full_until = cx.now + TICK * 10,
            Message::Contact(member) => self.on_contact(from, member, out),
            Message::Join(member) => self.on_join(cx, member, out),
            Message::Admin { id, request } => self.on_admin(cx, from, id, request, out),
            Message::AdminEnded { id, outcome } => self.on_admin_ended(from, id, outcome, out),
        }
    }

    /// Hands a message to the log. With a full disk nothing new is taken: the entries are as good as lost on the way.
    fn receive_log(&mut self, cx: &mut Cx<'_>, from: NodeId, mut msg: replog::Message, out: &mut Out) {
        if self.disk_full {
            match &mut msg {
                replog::Message::Append(append) => append.entries.clear(),
                replog::Message::Part(_) => return,
                _ => {}
            }
        }
        self.step_shard(cx, Event::Message { from, msg }, out);
    }

    fn on_answers(
        &mut self,
        cx: &mut Cx<'_>,
        session: u64,
        first_seq: u64,
        replies: &[Bytes],
        out: &mut Out,
    ) {
        if session == self.origin.session().0 {
            let ends = self.origin.answered(first_seq, replies, cx.now);
            self.reply(cx, ends, out);
            self.dispatch(cx, out);
        }
    }

    fn on_gap(&mut self, cx: &mut Cx<'_>, session: u64, expected: u64, out: &mut Out) {
        if session != self.origin.session().0 {
            return;
        }
        if self.origin.gap(expected, self.config.limits.retry, cx.now) {
            cx.marks.hit("node.batch.gap");
            self.dispatch(cx, out);
        }
    }

    fn on_not_taken(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        cx.marks.hit("node.batch.not_taken");
        if self.origin.target == Some(from) {
            self.origin.pause(cx.now + TICK);
        }
    }

    fn on_takes_batches(&mut self, cx: &mut Cx<'_>, from: NodeId, out: &mut Out) {
        if self.log().believed_leader() == Some(from) {
            cx.marks.hit("node.batch.takes");
            self.origin.resume();
            self.begin_again_at = cx.now;
            self.dispatch(cx, out);
        }
    }

    fn on_read_answers(&mut self, cx: &mut Cx<'_>, id: u64, replies: Vec<quorate_api::Reply>, out: &mut Out) {
        let overtake = self.config.limits.breaks(Mutant::ReadsOvertake);
        let ends = self.reads.answered(id, replies, overtake);
        self.reply(cx, ends, out);
        self.dispatch(cx, out);
    }

    fn on_session_lost(&mut self, cx: &mut Cx<'_>, session: u64, out: &mut Out) {
        if session != self.origin.session().0 {
            return;
        }
        cx.marks.hit("node.session.lost");
        let ends = self.origin.session_lost();
        self.origin.begin_session(cx.rng.next_u64());
        // Not at once: a leader with a long backlog may not take the new session either.
        self.origin.pause(cx.now + TICK);
        self.reply(cx, ends, out);
        self.dispatch(cx, out);
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
            shard::Output::Answers { origin, session, mut first_seq, mut replies } => {
                while !replies.is_empty() {
                    let behind = replies.split_off(fitting(&replies, self.config.limits.batch_bytes_max));
                    let count = replies.len() as u64;
                    // The entries are chosen: a quorum's disks have them.
                    out.send_early(origin, Message::Answers { session, first_seq, replies });
                    (first_seq, replies) = (first_seq + count, behind);
                }
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
            shard::Output::Read { ticket, replies } => self.read_done(cx, ticket, replies, out),
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

    fn read_done(&mut self, cx: &mut Cx<'_>, ticket: u64, replies: Vec<quorate_api::Reply>, out: &mut Out) {
        let Some((from, id)) = self.asked_by.remove(&ticket) else { return };
        if from == self.config.me.id {
            self.on_read_answers(cx, id, replies, out);
        } else {
            // What was read is chosen: a quorum's disks have it.
            out.send_early(from, Message::ReadAnswers { id, replies });
        }
    }

    fn on_role(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.log().believed_leader().is_some() {
            self.reads.ask_again(Duration::ZERO, cx.now);
            self.dispatch(cx, out);
        }
    }

    /// After each step: who was turned away is told as soon as there is reason to come again.
    fn look_after_batches(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let takes = self.shard.takes_batches();
        if takes && !self.took {
            for origin in core::mem::take(&mut self.turned_away) {
                // A hint; harmless if forgotten.
                out.send_early(origin, Message::TakesBatches);
            }
            self.origin.resume();
            self.dispatch(cx, out);
        }
        self.took = takes;
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

/// How many of these replies, at least one, travel together.
fn fitting(replies: &[Bytes], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fit = |reply: &&Bytes| {
        bytes += reply.len();
        bytes <= bytes_max
    };
    replies.iter().take_while(fit).count().max(1)
}
