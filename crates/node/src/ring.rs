//! The groups that hold the buckets, as this node knows them: topology `ring`.
//!
//! A group keeps what it is in the log of the bucket where its span begins, its *home*, as three notes: itself and its two neighbours
//! (`quorate_groups::Seat`). Whoever leads the home speaks for the group: tells everybody what the notes say, and changes them together with
//! those of others by transactions (`govern.rs`). The logs of a group's buckets follow what is known of it, as they follow a charter. The
//! group with the greatest epoch that covers a bucket is the one it belongs to: epochs grow along the history of every position.
//!
//! Nothing of this carries safety: the log of a bucket decides who its members are.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_buckets::Due;
use quorate_groups::join::Place;
use quorate_groups::preset::Preset;
use quorate_groups::{Group, GroupId, Line, Seat, Which};
use quorate_kernel::{Cx, Event, NodeId, Time, wire};
use quorate_shard::{self as shard, Note};
use serde::{Deserialize, Serialize};

use crate::admin::Asker;
use crate::config::{NodeConfig, Topology};
use crate::deeds::How;
use crate::govern::Effort;
use crate::handing::Handing;
use crate::interface::AdminOutcome;
use crate::journal::{Begun, Journal};
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::placing::{MARK, member_ids};
use crate::policies::Sights;
use crate::replica::Following;
use crate::roster::Roster;

/// The note that names the group whose home a bucket is; those of its neighbours follow.
const SEAT: u8 = 2;
/// How often those who speak for groups say what these are.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What nodes say to each other about groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// From whoever speaks for a group to all, now and then and when it changes.
    Seat {
        /// What the group's home keeps.
        seat: Box<Seat>,
        /// Of each of its buckets, what is asked of it in a second, and who should lead it.
        figures: Vec<Figures>,
        /// Which policies the group follows.
        preset: Preset,
    },
    /// From a node that is in no group to whoever speaks for one: let me in.
    Wants,
    /// From a member that is to be emptied to whoever speaks for its group: let me go.
    Leaves,
    /// From whoever leads a bucket to whoever speaks for its group: so much is asked of it in a second.
    Load(u32),
    /// There and back: how far is it.
    Echo {
        /// When it was sent, by the clock of who did.
        at: Time,
        /// Whether it is on its way back.
        is_back: bool,
    },
    /// From a member to whoever speaks for its group: agreements would take so many microseconds if it led.
    Agrees(u32),
}

/// A bucket, what is asked of it in a second, and who should lead it.
type Figures = (Bucket, u32, Option<NodeId>);

/// What a node knows of groups.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) count: NonZeroU16,
    /// What homes keep, as it was heard last.
    pub(crate) seats: BTreeMap<Bucket, Seat>,
    /// By bucket: the group that it belongs to.
    groups: Vec<Option<Group>>,
    /// Buckets that came to another group of late, and when that was looked at first.
    pub(crate) moved: BTreeMap<Bucket, Option<Time>>,
    /// For whoever speaks for a group: who wants to join it.
    pub(crate) joiners: BTreeSet<(Bucket, NodeId)>,
    /// The same: who wants to leave it.
    pub(crate) leavers: BTreeSet<(Bucket, NodeId)>,
    /// Whether this node is to be in no group.
    pub(crate) drained: bool,
    /// Who asked for that, and has not been answered.
    pub(crate) drained_for: Option<Asker>,
    /// By bucket: what is asked of it in a second, as was said last.
    pub(crate) loads: Vec<u32>,
    /// By bucket: who should lead it, as was said last.
    pub(crate) leaders: Vec<Option<NodeId>>,
    /// Members of groups that this node speaks for which have left the view, and when.
    pub(crate) missing: BTreeMap<NodeId, Time>,
    /// By home: how its operations go.
    pub(crate) efforts: BTreeMap<Bucket, Effort>,
    /// What the policies go by.
    pub(crate) sights: Sights,
    /// Groups of which this node, in none, has asked how far they are.
    pub(crate) sampled: Vec<GroupId>,
    /// What was done here for groups, and why.
    pub(crate) journal: Journal,
    /// The group that this node, in none, asked last, as it was noted.
    pub(crate) asked: Option<(GroupId, Begun)>,
    /// Buckets that are to get other leaders, of groups that this node speaks for.
    pub(crate) handings: Vec<Handing>,
    /// The policies that this node chose last for a group that it speaks for.
    pub(crate) preset_noted: Preset,
    /// Whether logs may have to follow something that was just learnt.
    pub(crate) is_news: bool,
    told_at: Time,
    pub(crate) asked_at: Time,
    founded_at: Time,
}

/// The note of a line of a seat.
pub(crate) fn note_name(which: Which) -> u8 {
    SEAT + which as u8
}

/// What the note of a line says.
pub(crate) fn note_content(group: Option<&Group>) -> Bytes {
    Bytes::from(wire::encode(&group))
}

impl Ring {
    /// What a node begins with; `None` in clusters of another topology.
    pub(crate) fn new(config: &NodeConfig) -> Option<Ring> {
        (config.topology == Topology::Ring).then(|| {
            let mut ring = Ring {
                count: config.buckets,
                seats: BTreeMap::new(),
                groups: alloc::vec![None; usize::from(config.buckets.get())],
                moved: BTreeMap::new(),
                joiners: BTreeSet::new(),
                leavers: BTreeSet::new(),
                drained: false,
                drained_for: None,
                loads: alloc::vec![0; usize::from(config.buckets.get())],
                leaders: alloc::vec![None; usize::from(config.buckets.get())],
                missing: BTreeMap::new(),
                efforts: BTreeMap::new(),
                sights: Sights::new(),
                sampled: Vec::new(),
                journal: Journal::default(),
                asked: None,
                handings: Vec::new(),
                preset_noted: Preset::Steady,
                is_news: false,
                told_at: Time::default(),
                asked_at: Time::default(),
                founded_at: Time::default(),
            };
            if !config.bootstrap.is_empty() {
                // Each founder makes the same one; what is agreed is newer.
                ring.learn(&first_group(config));
            }
            ring
        })
    }

    /// Takes over what a home is said to keep; whether it is news.
    pub(crate) fn hear(&mut self, home: Bucket, seat: Seat) -> bool {
        let is_news = self.seats.get(&home).is_none_or(|known| known.age() < seat.age());
        if is_news {
            seat.groups().for_each(|group| self.learn(group));
            self.seats.insert(home, seat);
        }
        is_news
    }

    fn learn(&mut self, group: &Group) {
        for bucket in (0..self.count.get()).map(Bucket) {
            let known = &mut self.groups[usize::from(bucket.0)];
            let is_newer = known.as_ref().is_none_or(|known| known.name.epoch < group.name.epoch);
            if is_newer && group.span.contains(bucket.ring_start(self.count)) {
                if known.as_ref().is_some_and(|known| known.name.id != group.name.id) {
                    self.moved.insert(bucket, None);
                }
                *known = Some(group.clone());
            }
        }
    }

    /// The group that a bucket belongs to.
    pub(crate) fn group_of(&self, bucket: Bucket) -> Option<&Group> {
        self.groups.get(usize::from(bucket.0))?.as_ref()
    }

    /// The groups that buckets belong to, each once, in the order of their buckets.
    pub(crate) fn groups(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = Vec::new();
        for group in self.groups.iter().flatten() {
            if groups.iter().all(|other| other.name != group.name) {
                groups.push(group);
            }
        }
        groups
    }

    /// The group that a node is in.
    pub(crate) fn group_with(&self, node: NodeId) -> Option<&Group> {
        self.groups.iter().flatten().find(|group| group.members.contains(&node))
    }

    /// Where a group has its home.
    pub(crate) fn home(&self, group: &Group) -> Bucket {
        Bucket::of_position(group.span.start, self.count)
    }

    /// The buckets of a group, in the order of the ring from its home on.
    pub(crate) fn buckets(&self, group: &Group) -> Vec<Bucket> {
        let (first, count) = (self.home(group).0, self.count.get());
        let all =
            (0..count).map(|step| Bucket(((u32::from(first) + u32::from(step)) % u32::from(count)) as u16));
        all.filter(|bucket| group.span.contains(bucket.ring_start(self.count))).collect()
    }

    /// What must become of the log of a bucket that has these members and this mark.
    pub(crate) fn members_due(&self, bucket: Bucket, log: &[NodeId], mark: u64) -> Option<Due> {
        let group = self.group_of(bucket)?;
        let number = group.name.epoch;
        let add: Vec<NodeId> = group.members.iter().copied().filter(|id| !log.contains(id)).collect();
        let remove: Vec<NodeId> = log.iter().copied().filter(|id| !group.members.contains(id)).collect();
        let in_line = mark == number && add.is_empty() && remove.is_empty();
        (mark <= number && !in_line).then_some(Due { number, add, remove })
    }

    /// Who should lead a bucket whose log has these members.
    pub(crate) fn leader_due(&self, bucket: Bucket, log: &[NodeId]) -> Option<NodeId> {
        let leader = self.leaders.get(usize::from(bucket.0)).copied().flatten();
        leader.filter(|leader| log.contains(leader))
    }
}

fn first_group(config: &NodeConfig) -> Group {
    Group::founded(config.bootstrap.iter().map(|member| member.id).collect())
}

impl Node {
    /// What is known of groups; `None` in clusters of another topology.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.roster.as_ref()?.ring.as_ref()
    }

    pub(crate) fn ring_mut(&mut self) -> Option<&mut Ring> {
        self.roster.as_mut()?.ring.as_mut()
    }

    /// The groups of the ring as this node knows them, in the order of their spans.
    pub fn groups(&self) -> Vec<&Group> {
        self.ring().map(Ring::groups).unwrap_or_default()
    }

    /// What this node did for groups, and why; `None` in clusters of another topology.
    pub fn journal(&self) -> Option<&Journal> {
        self.ring().map(|ring| &ring.journal)
    }

    /// Whether an operation of a group for which this node speaks is under way.
    pub fn regroups(&self) -> bool {
        self.ring().is_some_and(|ring| ring.efforts.values().any(Effort::is_under_way))
    }

    /// What a bucket keeps of the group that has its home there, or had, as far as it is applied to the copy here.
    pub fn seat(&self, bucket: Bucket) -> Option<Seat> {
        let shard = &self.replicas.get(&bucket)?.shard;
        let line = |which: Which| match shard.note(note_name(which)) {
            // What cannot be read names nobody.
            Some(note) => {
                Line { number: note.number, group: wire::decode(&note.content).unwrap_or_default() }
            }
            None => Line::default(),
        };
        let [own, before, after] = Which::ALL.map(line);
        let seat = Seat::new(own, before, after);
        (seat.age() > 0).then_some(seat)
    }

    /// Looks after the groups: founds the first, speaks for those whose homes are led here, and asks for one for this node.
    pub(crate) fn look_after_ring(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.found_ring(cx, out);
        self.look_after_chain(cx, out);
        self.look_around(cx, out);
        self.ask_for_group(cx, out);
        let homes: Vec<Bucket> = self.homes_led().collect();
        let Some(ring) = self.ring_mut() else { return };
        ring.joiners.retain(|(home, _)| homes.contains(home));
        ring.leavers.retain(|(home, _)| homes.contains(home));
        let lost: Vec<Effort> =
            ring.efforts.extract_if(.., |home, _| !homes.contains(home)).map(|(_, effort)| effort).collect();
        ring.forget_moves(cx.now);
        let tells = cx.now.since(ring.told_at) >= TELL_EVERY;
        if tells {
            ring.told_at = cx.now;
            self.tell_loads(cx.now, out);
        }
        lost.into_iter().for_each(|effort| self.lose(cx.now, effort, out));
        self.look_at_handings(cx.now, &homes);
        for home in homes.iter().filter(|_| tells) {
            if let Some(stand) = self.seat(*home).and_then(|seat| seat.stand()) {
                self.choose_preset((cx.now, cx.wall), &stand.group);
                self.assign_leaders((cx.now, cx.wall), *home, &stand.group);
            }
            self.tell_seat(*home, out);
        }
        self.look_whether_drained(out);
        for home in homes {
            self.govern(cx, home, out);
        }
    }

    /// Somebody else speaks for a group: what was under way ends elsewhere.
    fn lose(&mut self, now: Time, effort: Effort, out: &mut Out) {
        let (asker, begun) = effort.left();
        if let Some(ring) = self.ring_mut() {
            for begun in begun {
                ring.journal.end(now, begun, How::Unseen("somebody else speaks for the group now".into()));
            }
        }
        if let Some(asker) = asker {
            let why = "somebody else speaks for the group now: look at the groups before trying again";
            self.admin_ended(asker, AdminOutcome::Unknown(why.into()), out);
        }
    }

    /// Homes of groups, now or once, that this node speaks for.
    fn homes_led(&self) -> impl Iterator<Item = Bucket> + '_ {
        let leads = |bucket: &Bucket| self.takes_batches(*bucket) && self.seat(*bucket).is_some();
        self.replicas.keys().copied().filter(leads)
    }

    fn found_ring(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        const AGAIN: Duration = Duration::from_millis(250);
        let is_new = self.takes_batches(Bucket(0)) && self.seat(Bucket(0)).is_none();
        if !is_new || self.config.bootstrap.is_empty() {
            return;
        }
        let seat = Seat::founded(first_group(&self.config));
        let Some(ring) = self.ring_mut() else { return };
        if cx.now.since(ring.founded_at) < AGAIN {
            return;
        }
        ring.founded_at = cx.now;
        cx.marks.hit("node.ring.founded");
        let note = |which: Which| {
            let line = seat.line(which);
            Note {
                name: note_name(which),
                on: 0,
                number: line.number,
                content: note_content(line.group.as_ref()),
            }
        };
        let notes = Which::ALL.map(note).into();
        self.step_shard(cx, Bucket(0), Event::Input(shard::Input::Notes(notes)), out);
    }

    /// Notes have changed here: perhaps those of a group.
    pub(crate) fn on_seat_noted(&mut self, bucket: Bucket, out: &mut Out) {
        let seat = self.seat(bucket);
        let Some(ring) = self.ring_mut() else { return };
        ring.is_news = true;
        let is_news = seat.is_some_and(|seat| ring.hear(bucket, seat));
        if is_news && self.replicas.get(&bucket).is_some_and(|replica| replica.log().leads()) {
            self.tell_seat(bucket, out);
        }
    }

    /// Tells everybody what a home keeps.
    fn tell_seat(&self, home: Bucket, out: &mut Out) {
        let (Some(seat), Some(roster)) = (self.seat(home), &self.roster) else { return };
        let Some(ring) = &roster.ring else { return };
        let group = seat.line(Which::Own).group.as_ref();
        let buckets = group.map(|group| ring.buckets(group)).unwrap_or_default();
        let place = |bucket: &Bucket| usize::from(bucket.0);
        let figures =
            buckets.iter().map(|bucket| (*bucket, ring.loads[place(bucket)], ring.leaders[place(bucket)]));
        let preset = ring.sights.preset();
        let word = Word::Seat { figures: figures.collect(), seat: Box::new(seat), preset };
        for member in roster.membership.last_view().iter().flat_map(|view| view.members.iter()) {
            if member.id != self.config.me.id {
                // It is chosen: a quorum's disks have it.
                out.send_early(member.id, Message::Group(Box::new(word.clone())).about(home));
            }
        }
    }

    /// Somebody says something about the group whose home this bucket is.
    pub(crate) fn on_word(&mut self, cx: &mut Cx<'_>, home: Bucket, from: NodeId, word: Word, out: &mut Out) {
        if self.ring().is_none() {
            return cx.marks.hit("node.message.no_ring");
        }
        match word {
            Word::Seat { seat, figures, preset } => self.on_seat(cx, home, *seat, &figures, preset),
            Word::Wants => self.on_wants_group(home, from),
            Word::Leaves => self.on_leaves_group(home, from),
            Word::Load(load) => self.on_load(home, load),
            Word::Echo { at, is_back } => self.on_echo(cx.now, from, (at, is_back), out),
            Word::Agrees(micros) => self.on_agrees(from, micros),
        }
    }

    fn on_seat(&mut self, cx: &mut Cx<'_>, home: Bucket, seat: Seat, figures: &[Figures], preset: Preset) {
        let Some(ring) = self.ring_mut() else { return };
        let age = seat.age();
        if ring.hear(home, seat) {
            cx.marks.hit("node.ring.news");
            ring.is_news = true;
        }
        ring.sights.hear(preset);
        if ring.seats.get(&home).is_none_or(|seat| seat.age() != age) {
            return;
        }
        for (bucket, load, leader) in figures {
            let place = usize::from(bucket.0);
            if let (Some(known), Some(lead)) = (ring.loads.get_mut(place), ring.leaders.get_mut(place)) {
                (*known, *lead) = (*load, *leader);
            }
        }
    }

    /// What was just learnt is followed at once, by the logs that this node leads.
    pub(crate) fn follow_news(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let is_news = self.ring_mut().is_some_and(|ring| core::mem::take(&mut ring.is_news));
        if is_news {
            let led: Vec<Bucket> = self.every_bucket().filter(|bucket| self.takes_batches(*bucket)).collect();
            led.into_iter().for_each(|bucket| self.follow_charter(cx, bucket, out));
        }
    }

    /// Whether a connection to a node of the view stands.
    fn reaches(&self, id: NodeId) -> bool {
        let is_there = self.roster.as_ref().and_then(|roster| roster.view()).is_some_and(|view| view.has(id));
        is_there && (id == self.config.me.id || self.connected.contains(&id))
    }

    /// What can be done of what must become of a log, and comes first. Members that are dead go at once, whoever else is to come: where nodes die all
    /// the time, a log that waited for its learners would lose its majority meanwhile. And nobody waits for learners that are dead.
    pub(crate) fn possible(&self, mut due: Due, log: &[NodeId], mark: u64) -> Option<Due> {
        let is_dead = |id: &NodeId| !self.reaches(*id);
        due.add.retain(|id| self.reaches(*id));
        if due.remove.iter().any(is_dead) && log.iter().any(|id| !due.remove.contains(id) || !is_dead(id)) {
            due.remove.retain(is_dead);
            due.add.clear();
        }
        let is_something = due.number > mark || !due.add.is_empty() || !due.remove.is_empty();
        is_something.then_some(due)
    }

    /// Whether a member change of a bucket keeps others waiting that are due by now: it waits for somebody who is to come no more, or dead members are
    /// about to cost the log its majority.
    pub(crate) fn is_in_the_way(&self, bucket: Bucket, following: &Following) -> bool {
        let (Some(ring), Some(replica)) = (self.ring(), self.replicas.get(&bucket)) else { return false };
        let Some(group) = ring.group_of(bucket) else { return false };
        let comes_no_more = |id: &NodeId| !group.members.contains(id) || !self.reaches(*id);
        if following.add.iter().any(comes_no_more) {
            return true;
        }
        let log = member_ids(replica.log());
        let dead = log.iter().filter(|id| !self.reaches(**id)).count();
        let may_die = log.len().saturating_sub(1) / 2;
        let goes = |id: &NodeId| !group.members.contains(id) && !self.reaches(*id);
        // Half of those that may die, or the only one.
        group.name.epoch > following.number && dead * 2 > may_die && log.iter().any(goes)
    }

    /// Whether all buckets of a group are where the group is: their logs have its members, and somebody leads them.
    pub(crate) fn is_settled(&self, group: &Group) -> bool {
        let Some(ring) = self.ring() else { return false };
        let is_there = |bucket: &Bucket| {
            let Some(replica) = self.replicas.get(bucket) else { return false };
            let mark = replica.shard.note(MARK).map_or(0, |note| note.number);
            mark == group.name.epoch
                && replica.log().is_member()
                && member_ids(replica.log()) == group.members
                && self.believed_leader(*bucket).is_some()
        };
        ring.buckets(group).iter().all(is_there)
    }
}

impl Roster {
    /// Where a node of the view stands. Nodes are on one machine if their addresses differ in their ports alone.
    pub(crate) fn place_of(&self, id: NodeId) -> Place<Bytes> {
        let member = self.view().and_then(|view| view.members.iter().find(|member| member.id == id));
        let Some(meta) = member.map(|member| &member.meta) else { return Place::default() };
        let end = meta.peer.iter().rposition(|byte| *byte == b':').unwrap_or(meta.peer.len());
        Place { zone: meta.zone.clone(), rack: meta.rack.clone(), host: meta.peer.slice(..end) }
    }
}
