//! The node as a machine: dispatch, and the way of requests to the leader and of answers back.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Bucket, Refusal};
use quorate_commit::TransactionId;
use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Rng, Time, Told};
use quorate_replog::{self as replog, Replog};
use quorate_shard::{self as shard, Mutant, Shard};

use crate::acknowledged::Acknowledged;
use crate::carry::Carried;
use crate::collect::Collects;
use crate::config::NodeConfig;
use crate::gate::Gates;
use crate::interface::{Input, Member, Output, Ticket};
use crate::lane::Lane;
use crate::message::Message;
use crate::reasons::Lives;
use crate::record::Record;
use crate::replica::Replica;
use crate::roster::Roster;
use crate::transact::TurnedAway;
use crate::transactions::Transactions;

/// How often the node looks after requests that wait.
pub(crate) const TICK: Duration = Duration::from_millis(25);

/// The timers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// One of its copy of a bucket's.
    Shard(Bucket, shard::Timer),
    /// One of the membership's.
    Membership(quorate_membership::Timer),
    /// Look after requests that wait.
    Tick,
    /// Send what meets.
    Meet,
    /// Send on what other nodes' requests meet with.
    Carry,
}

/// The effect buffer of a node.
pub type Out = quorate_kernel::Out<Message, Timer, Record, Output>;

/// A whole node.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: NodeConfig,
    /// The copies of buckets that this node holds or held. Without a roster, bucket 0's log says who the members of the
    /// cluster are.
    pub(crate) replicas: BTreeMap<Bucket, Replica>,
    /// Those of buckets that were asked of here. There may be thousands of buckets, and a node is asked about few.
    pub(crate) lanes: BTreeMap<Bucket, Lane>,
    /// Chance that names what lanes ask.
    names: Rng,
    /// Buckets whose lanes may have requests; those of all others have none.
    pub(crate) asked: BTreeSet<Bucket>,
    /// If buckets are placed on nodes that come and go: what is known of these.
    pub(crate) roster: Option<Box<Roster>>,
    pub(crate) transactions: Transactions,
    pub(crate) collects: Collects,
    pub(crate) turned_away: TurnedAway,
    pub(crate) carried: Carried,
    pub(crate) gates: Gates,
    /// Who asks this node to coordinate transactions.
    pub(crate) askers: BTreeMap<TransactionId, NodeId>,
    pub(crate) lives: Lives,
    /// Buckets whose leaders were told something about transactions by buckets that this node leads.
    pub(crate) spoken_to: BTreeSet<Bucket>,
    /// What these told buckets of other nodes, and can wait.
    pub(crate) acknowledged: Acknowledged,
    /// What buckets that this node leads say to each other.
    pub(crate) own: VecDeque<(Bucket, Box<quorate_commit::Message>)>,
    tickets: u64,
    /// Every record before this one was let go of.
    pub(crate) discarded: Position,
    /// The oldest record that was needed when that was looked at last: whoever needed a younger one does not change it.
    pub(crate) needed: Position,
    /// Bytes of entries among the records persisted in this life.
    pub(crate) persisted_bytes: u64,
    /// Buckets whose copies here made a step since [`Node::look_after_batches`] looked.
    pub(crate) stepped: Vec<Bucket>,
    pub(crate) full: bool,
    /// Whether the next tick is far.
    pub(crate) is_slow: bool,
    pub(crate) stopping: bool,
    pub(crate) stopped: bool,
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
        let roster = Roster::new(&config);
        let buckets = (0..config.buckets.get()).map(Bucket);
        let mut node = Node {
            replicas: BTreeMap::new(),
            lanes: BTreeMap::new(),
            names: Rng::new(config.me.id.0),
            asked: BTreeSet::new(),
            roster,
            config,
            transactions: Transactions::default(),
            collects: Collects::default(),
            turned_away: TurnedAway::default(),
            carried: Carried::default(),
            gates: Gates::default(),
            askers: BTreeMap::new(),
            spoken_to: BTreeSet::new(),
            acknowledged: Acknowledged::default(),
            lives: Lives::default(),
            own: VecDeque::new(),
            tickets: 0,
            discarded: Position::default(),
            needed: Position(u64::MAX),
            persisted_bytes: 0,
            stepped: Vec::new(),
            full: false,
            is_slow: false,
            stopping: false,
            stopped: false,
            contacts: BTreeMap::new(),
            connected: BTreeSet::new(),
            joiners: BTreeMap::new(),
            joined_at: Time::default(),
            changes: BTreeMap::new(),
            handed_on: BTreeMap::new(),
            peers_told: Vec::new(),
        };
        node.found_replicas(buckets);
        node
    }

    /// This node's copy of a bucket, to look at.
    pub fn shard(&self, bucket: Bucket) -> Option<&Shard> {
        self.replicas.get(&bucket).map(|replica| &*replica.shard)
    }

    /// The buckets of which this node has a copy.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.replicas.keys().copied()
    }

    /// The log of bucket 0, which without a roster says who the members are.
    pub(crate) fn log(&self) -> &Replog {
        let Some(replica) = self.replicas.get(&Bucket(0)) else {
            panic!("every node has a copy of bucket 0")
        };
        replica.log()
    }

    pub(crate) fn lane(&mut self, bucket: Bucket) -> &mut Lane {
        self.config_and_lane(bucket).1
    }

    pub(crate) fn config_and_lane(&mut self, bucket: Bucket) -> (&NodeConfig, &mut Lane) {
        let (config, names) = (&self.config, &mut self.names);
        (config, self.lanes.entry(bucket).or_insert_with(|| Lane::new(config, names)))
    }

    /// Whether this node's copy of the bucket would take a batch now.
    pub(crate) fn takes_batches(&self, bucket: Bucket) -> bool {
        self.replicas.get(&bucket).is_some_and(|replica| replica.takes)
    }

    /// Whether this node leads any bucket.
    pub(crate) fn leads_any(&self) -> bool {
        self.replicas.values().any(|replica| replica.leads)
    }

    pub(crate) fn every_bucket(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.config.buckets.get()).map(Bucket)
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets = self.tickets.wrapping_add(1);
        self.tickets
    }

    fn input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match input {
            Input::Requests(requests) => {
                self.rouse(out);
                let taken = requests.into_iter().filter_map(|request| self.take(cx, request, out));
                let buckets: BTreeSet<Bucket> = taken.collect();
                buckets.into_iter().for_each(|bucket| self.dispatch(cx, bucket, out));
            }
            Input::ConnectionClosed(connection) => self.connection_closed(cx, connection, out),
            Input::PeerConnected(peer) => {
                self.connected.insert(peer);
                // Says only who and where this node is.
                out.send_early(peer, Message::Contact(self.config.me.clone()));
                self.introduce_to(peer, out);
                self.announce_to(peer, out);
                self.reach(cx, peer, out);
                self.tell_eras(peer, out);
                self.step_all(cx, &shard::Input::PeerConnected(peer), out);
            }
            Input::PeerLost(peer) => {
                self.connected.remove(&peer);
                self.step_all(cx, &shard::Input::PeerLost(peer), out);
            }
            Input::Admin(ticket, request) => {
                self.rouse(out);
                self.admin(cx, ticket, request, out);
            }
            Input::Shape { buckets, copies, topology } => {
                self.learn_shape(cx, buckets, (copies, topology), out);
            }
            Input::Full(full) => {
                if full != self.full {
                    cx.marks.hit(if full { "node.disk.full" } else { "node.disk.room" });
                }
                self.full = full;
            }
            Input::Stop => {
                self.rouse(out);
                self.stopping = true;
                for bucket in self.asked.clone() {
                    let ends = self.lane(bucket).origin.refuse_unsent(Refusal::NotServing);
                    self.reply(cx, bucket, ends, out);
                }
                self.step_all(cx, &shard::Input::Transfer(None), out);
                self.tick(cx, out);
            }
        }
    }

    pub(crate) fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
        let (bucket, msg) = match msg {
            Message::In(bucket, msg) => (bucket, *msg),
            other => (Bucket(0), other),
        };
        if bucket.0 >= self.config.buckets.get() {
            return cx.marks.hit("node.message.no_such_bucket");
        }
        if msg.is_for_leaders() {
            self.correct(cx.now, bucket, from, out);
        }
        match msg {
            Message::Log(msg) => {
                let replica = self.replicas.get_mut(&bucket);
                replica.into_iter().for_each(|replica| replica.meter.count_message());
                self.receive_log(cx, bucket, from, msg, out);
            }
            Message::Submit(batch) => self.on_submit(cx, bucket, from, batch, out),
            Message::Answers { session, first_seq, replies } => {
                self.on_answers(cx, bucket, session.0, first_seq, &replies, out);
            }
            Message::Gap { session, expected } => self.on_gap(cx, bucket, session.0, expected, out),
            Message::SessionLost { session } => self.on_session_lost(cx, bucket, session.0, out),
            Message::NotTaken => self.on_not_taken(cx, bucket, from, out),
            Message::TakesBatches => self.on_takes_batches(cx, bucket, from, out),
            Message::Begin { session } => self.on_begin(bucket, from, session, out),
            Message::Begun { session, since } => self.on_begun(cx, bucket, session, since, out),
            Message::Read { id, requests } => self.on_read(cx, bucket, (from, id, requests), out),
            Message::ReadAnswers { id, applied, replies } => {
                self.on_read_answers(cx, bucket, (id, applied), replies, out);
            }
            Message::ReadRefused { id } => self.on_read_refused(cx, bucket, id, out),
            Message::ReadIndex { id } => self.on_read_index(cx, bucket, from, id, out),
            Message::ReadIndexed { id, index } => self.on_read_indexed(cx, bucket, (id, index), out),
            Message::Full => self.lane(bucket).leader_full_until = cx.now + TICK * 10,
            Message::Contact(member) => self.on_contact(from, member, out),
            Message::Membership(msg) => self.step_membership(cx, Event::Message { from, msg: *msg }, out),
            Message::Acquaint(members) => self.on_acquaint(members, out),
            Message::Leads { ballot } => self.on_leads(cx, from, &[(bucket, ballot)], out),
            Message::Logs(all) => self.receive_logs(cx, from, all, out),
            Message::LeadsAll(all) => self.on_leads(cx, from, &all, out),
            Message::Charter(content) => drop(self.on_charter(cx, &content)),
            Message::CharterWanted { number } => self.on_charter_wanted(from, number, out),
            Message::Report { mark, members } => self.on_report(bucket, mark, members),
            Message::Stands(node) => self.on_stands(cx, from, *node),
            Message::Group(word) => self.on_word(cx, bucket, from, *word, out),
            Message::Recovery(word) => self.on_recovery(cx, bucket, from, word, out),
            Message::Join(member) => self.on_join(cx, from, member, out),
            Message::Admin { id, request } => self.on_admin(cx, from, id, request, out),
            Message::AdminEnded { id, outcome } => self.on_admin_ended(from, id, outcome, out),
            Message::In(..) => cx.marks.hit("node.message.nested"),
            Message::Together(all) => self.receive_together(cx, from, all, out),
            Message::Carry { origin, transaction } => self.on_carry(cx, from, (origin, transaction), out),
            Message::Transact(transaction) => self.transact(cx, bucket, from, *transaction, out),
            Message::Reason { asked, reason } => self.on_reason(bucket, asked, *reason, out),
            Message::Transacted { id, outcome } => self.on_transacted(cx, id, &outcome, out),
            Message::TransactionNotTaken { id, why } => self.on_transaction_not_taken(cx, id, why, out),
            Message::Told(message) => self.hear(cx, bucket, message, out),
        }
    }

    /// Hands the same to all copies of buckets here.
    pub(crate) fn step_all(&mut self, cx: &mut Cx<'_>, input: &shard::Input, out: &mut Out) {
        let here: Vec<Bucket> = self.buckets().collect();
        for bucket in here {
            self.step_shard(cx, bucket, Event::Input(input.clone()), out);
        }
    }

    /// Steps this node's copy of a bucket, if it has one, and takes up what it says.
    pub(crate) fn step_shard(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        event: Event<replog::Message, shard::Timer, shard::Input>,
        out: &mut Out,
    ) {
        let Some(replica) = self.replicas.get_mut(&bucket) else {
            return cx.marks.hit("node.bucket.not_here");
        };
        if let Event::Input(input) = &event {
            replica.meter.count(input, !self.config.log.lease.is_zero());
        }
        self.stepped.push(bucket);
        let (mut child, first) = (out.child(), out.next_position());
        replica.shard.step(cx, event, &mut child);
        replica.stepped();
        let (mut told, mut bytes) = (Vec::new(), 0);
        let mut discard = None;
        out.lift(
            &mut child,
            |msg| Message::Log(msg).about(bucket),
            |timer| Timer::Shard(bucket, timer),
            |record| {
                bytes += record.size_bytes() as u64;
                Record::Log { bucket, record }
            },
            |what| match what {
                Told::Output(output) => told.push(output),
                Told::Discard(position) => discard = Some(position),
            },
        );
        if out.next_position() > first {
            replica.needs.get_or_insert(first);
        }
        self.persisted_bytes += bytes;
        if let Some(position) = discard {
            let before = replica.needs.replace(position);
            replica.tidied_at = self.persisted_bytes;
            self.discard(before, position, out);
        }
        for output in told {
            self.told(cx, bucket, output, out);
        }
    }

    fn told(&mut self, cx: &mut Cx<'_>, bucket: Bucket, output: shard::Output, out: &mut Out) {
        let me = self.config.me.id;
        match output {
            shard::Output::Answers { origin, session, first_seq, replies } if origin == me => {
                self.on_answers(cx, bucket, session.0, first_seq, &replies, out);
            }
            shard::Output::Answers { origin, session, first_seq, replies } => {
                self.send_answers(bucket, origin, (session, first_seq), replies, out);
            }
            shard::Output::Gap { origin, session, expected } if origin == me => {
                self.on_gap(cx, bucket, session.0, expected, out);
            }
            shard::Output::Gap { origin, session, expected } => {
                // A request to send again; harmless if forgotten.
                out.send_early(origin, Message::Gap { session, expected }.about(bucket));
            }
            shard::Output::SessionLost { origin, session } if origin == me => {
                self.on_session_lost(cx, bucket, session.0, out);
            }
            shard::Output::SessionLost { origin, session } => {
                // True of the chosen state, which nothing on this disk can change.
                out.send_early(origin, Message::SessionLost { session }.about(bucket));
            }
            shard::Output::NotTaken { origin } if origin == me => self.on_not_taken(cx, bucket, me, out),
            shard::Output::NotTaken { origin } => self.turn_away(bucket, origin, out),
            shard::Output::Read { ticket, applied, replies } => {
                self.read_done(cx, bucket, (ticket, applied), replies, out);
            }
            shard::Output::ReadIndex { ticket, index } => self.read_indexed(bucket, ticket, index, out),
            shard::Output::ReadRefused { ticket } => self.read_refused(bucket, ticket, out),
            shard::Output::Role => self.on_role(cx, bucket, out),
            shard::Output::Peers => self.tell_peers(out),
            shard::Output::ChangeEnded { ticket, end } => self.on_change_ended(ticket, end, out),
            shard::Output::Noted => self.on_noted(cx, bucket, out),
            shard::Output::Retired => cx.marks.hit("node.retired"),
            shard::Output::Tell { to, message } => self.tell(cx, to, message, out),
            shard::Output::Reason { to, asked, reason } => {
                self.tell_reason(bucket, (to, asked), reason, out);
            }
            shard::Output::Transacted { id, outcome } => self.transacted(cx, id, outcome, out),
            shard::Output::TransactionNotTaken { id, why } => {
                if let Some(asker) = self.askers.remove(&id) {
                    self.transaction_not_taken(cx, asker, id, why, out);
                }
            }
        }
    }
}

impl Machine for Node {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        match record {
            Record::Log { bucket, record } => {
                assert!(bucket.0 < self.config.buckets.get(), "a record of bucket {}", bucket.0);
                self.make_replica(bucket, Vec::new());
                let Some(replica) = self.replicas.get_mut(&bucket) else { return };
                replica.needs.get_or_insert(position);
                replica.shard.restore(cx, position, record);
                replica.stepped();
            }
            Record::Membership(record) => {
                let Some(roster) = &mut self.roster else { panic!("a record of a membership, without one") };
                // A ring wrote such records once; it needs none.
                if let Some(membership) = &mut roster.membership {
                    roster.needs.get_or_insert(position);
                    membership.restore(cx, position, record);
                }
            }
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        match event {
            Event::Start => {
                self.names = cx.rng.fork();
                let (tickets, origin) = (cx.rng.next_u64(), cx.rng.next_u64());
                let all_forgotten = self.config.limits.breaks(Mutant::AllForgotten);
                self.transactions.begin(origin, all_forgotten);
                if !self.config.limits.breaks(Mutant::NamesRepeat) {
                    self.tickets = tickets;
                }
                for bucket in self.every_bucket() {
                    if self.roster.is_some() && Replog::survives(cx.store, bucket.0) {
                        self.make_replica(bucket, Vec::new());
                    }
                    if self.replicas.contains_key(&bucket) {
                        self.step_shard(cx, bucket, Event::Start, out);
                    }
                }
                if self.roster.is_some() {
                    self.begin_roster(cx, out);
                    self.tell_peers_now(out);
                }
                out.arm(Timer::Tick, TICK);
            }
            Event::Message { from, msg } => self.receive(cx, from, msg, out),
            Event::Timer(Timer::Shard(_, shard::Timer::Log(replog::Timer::Heartbeat))) => self.beat(cx, out),
            Event::Timer(Timer::Shard(bucket, timer)) => {
                self.step_shard(cx, bucket, Event::Timer(timer), out);
                self.dispatch(cx, bucket, out);
            }
            Event::Timer(Timer::Membership(timer)) => self.step_membership(cx, Event::Timer(timer), out),
            Event::Timer(Timer::Tick) => self.tick(cx, out),
            Event::Timer(Timer::Meet) => self.send_transactions(cx, out),
            Event::Timer(Timer::Carry) => self.carry_on(cx, out),
            Event::Input(input) => self.input(cx, input, out),
        }
        self.follow_news(cx, out);
        self.hear_own(cx, out);
        self.look_after_batches(cx, out);
        self.say_together(out);
    }

    fn check(&self) {
        self.replicas.values().for_each(|replica| replica.shard.check());
        for (bucket, lane) in &self.lanes {
            lane.origin.check();
            lane.reads.check();
            assert!(lane.is_idle() || self.asked.contains(bucket), "requests nobody knows of");
        }
        self.transactions.check();
    }
}
