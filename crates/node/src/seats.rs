//! What the homes of groups keep, said to others and heard from them, and what follows from it for the logs here.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_buckets::Due;
use quorate_groups::preset::Preset;
use quorate_groups::{Group, Line, Seat, Which};
use quorate_kernel::{Cx, Event, NodeId, Time, wire};
use quorate_shard::{self as shard, Note};

use crate::deeds::How;
use crate::govern::Effort;
use crate::interface::AdminOutcome;
use crate::journal::Journal;
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::placing::{MARK, member_ids};
use crate::replica::Following;
use crate::ring::{Figures, Ring, Word, first_group, note_content, note_name};

/// How often those who speak for groups say what these are.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// While no more nodes are known, all are told each time what homes keep: groups reckon with what all others have to do.
const FEW: usize = 192;
/// That a bucket is nobody's home any more was told when it was news; who missed it hears of it in one of so many turns.
const TURNS_OF_FORMER: usize = 16;
/// Beyond that the members of a group and of its neighbours are told each time, and so many others in turn.
const TOLD_AT_ONCE: usize = 16;
/// Who the members of groups far away are, as far as that is not known, is asked again one time in so many that they are spoken of.
const WHO_AGAIN: u64 = 16;
/// Groups of which a node is told that knows of none.
const TOLD_SEATS: usize = 16;

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
        self.ring().map(|ring| ring.groups().collect()).unwrap_or_default()
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
                // Programs before this one replaced both lines of a link at a time, and wrote down no number for that.
                let alone = |_| wire::decode(&note.content).map(|group| (group, note.number));
                let (group, link) = wire::decode(&note.content).or_else(alone).unwrap_or_default();
                Line { number: note.number, link, group }
            }
            None => Line::default(),
        };
        let [own, before, after] = Which::ALL.map(line);
        let seat = Seat::new(own, before, after);
        (seat.age() > 0).then_some(seat)
    }

    /// Whether a bucket keeps anything of a group.
    fn has_seat(&self, bucket: Bucket) -> bool {
        let shard = self.replicas.get(&bucket).map(|replica| &replica.shard);
        let has = |which| {
            shard.is_some_and(|shard| shard.note(note_name(which)).is_some_and(|note| note.number > 0))
        };
        Which::ALL.into_iter().any(has)
    }

    /// Looks after the groups: founds the first, speaks for those whose homes are led here, and asks for one for this node.
    pub(crate) fn look_after_ring(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.found_ring(cx, out);
        self.look_after_connections(cx.now, out);
        self.look_for_missing(cx.now);
        self.look_around(cx, out);
        self.ask_for_group(cx, out);
        let homes: Vec<Bucket> = self.homes_led().collect();
        let Some(ring) = self.ring_mut() else { return };
        ring.joiners.retain(|(home, _)| homes.contains(home));
        ring.leavers.retain(|(home, _), _| homes.contains(home));
        ring.lacking.retain(|home, _| homes.contains(home));
        let lost: Vec<Effort> =
            ring.efforts.extract_if(.., |home, _| !homes.contains(home)).map(|(_, effort)| effort).collect();
        let is_home = |home: &Bucket| ring.group_of(*home).is_some_and(|group| ring.home(group) == *home);
        let spoken: BTreeSet<Bucket> = homes.iter().copied().filter(is_home).collect();
        ring.sights.speak_for(&spoken);
        ring.forget_moves(cx.now);
        let tells = cx.now.since(ring.told_at) >= TELL_EVERY;
        let turn = ring.turn;
        if tells {
            ring.told_at = cx.now;
            ring.turn += 1;
            self.tell_loads(cx.now, out);
            self.look_after_people(cx.now, out);
            self.look_after_routes(cx, out);
        }
        lost.into_iter().for_each(|effort| self.lose(cx.now, effort, out));
        self.look_at_handings(cx.now, &homes);
        for home in homes.iter().filter(|_| tells) {
            match self.seat(*home).and_then(|seat| seat.stand()) {
                Some(stand) => {
                    self.choose_preset((cx.now, cx.wall), *home, &stand.group);
                    self.assign_leaders((cx.now, cx.wall), *home, &stand.group);
                }
                // With time there are more of these than of groups.
                None if turn % TURNS_OF_FORMER != usize::from(home.0) % TURNS_OF_FORMER => continue,
                None => {}
            }
            self.tell_seat(*home, true, out);
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
        let led = self.replicas.iter().filter(|(_, replica)| replica.takes);
        led.map(|(bucket, _)| *bucket).filter(|bucket| self.has_seat(*bucket) || self.is_home(*bucket))
    }

    /// Whether some group is known to have its home here.
    fn is_home(&self, bucket: Bucket) -> bool {
        let Some(ring) = self.ring() else { return false };
        ring.group_of(bucket).is_some_and(|group| ring.home(group) == bucket)
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
            Note { name: note_name(which), on: 0, number: line.number, content: note_content(line) }
        };
        let notes = Which::ALL.map(note).into();
        self.step_shard(cx, Bucket(0), Event::Input(shard::Input::Notes(notes)), out);
    }

    /// Notes have changed here: perhaps those of a group.
    pub(crate) fn on_seat_noted(&mut self, now: Time, bucket: Bucket, out: &mut Out) {
        let seat = self.seat(bucket);
        let Some(ring) = self.ring_mut() else { return };
        (ring.is_news, ring.people.is_news) = (true, true);
        let is_news = seat.is_some_and(|seat| ring.hear(bucket, seat, now).is_some());
        if is_news && self.replicas.get(&bucket).is_some_and(|replica| replica.leads) {
            self.tell_seat(bucket, false, out);
        }
    }

    /// Tells others what a home keeps: all whom this node is connected to, or when it is no news those whose turn it is.
    fn tell_seat(&self, home: Bucket, is_reminder: bool, out: &mut Out) {
        let Some(ring) = self.ring() else { return };
        // A home may have lost all that it kept: its neighbours have to know.
        let seat = self.seat(home).unwrap_or_default();
        let group = seat.line(Which::Own).group.as_ref();
        let buckets = group.map(|group| ring.buckets(group)).unwrap_or_default();
        let figures = buckets.iter().map(|bucket| {
            let load = ring.loads.get(bucket).copied().unwrap_or_default();
            (*bucket, load, ring.leaders.get(bucket).copied())
        });
        let near = seat.groups().flat_map(|group| group.members.iter().copied()).collect();
        let preset = ring.sights.preset(home);
        let word = Word::Seat { figures: figures.collect(), seat: Box::new(seat), preset };
        for id in self.audience(near, is_reminder, FEW) {
            // It is chosen: a quorum's disks have it.
            out.send_early(id, Message::Group(Box::new(word.clone())).about(home));
        }
    }

    /// Those who are near, and others: all whom this node is connected to, or those whose turn it is if more than a few nodes are known.
    pub(crate) fn audience(&self, mut near: BTreeSet<NodeId>, in_turn: bool, few: usize) -> BTreeSet<NodeId> {
        let turn = self.ring().map_or(0, |ring| ring.turn);
        let others: Vec<NodeId> = self.connected.iter().copied().filter(|id| !near.contains(id)).collect();
        let is_few = self.ring().is_some_and(|ring| ring.people.count() <= few);
        let turns = if in_turn && !is_few { others.len().div_ceil(TOLD_AT_ONCE).max(1) } else { 1 };
        let told = others.into_iter().enumerate().filter(|(place, _)| place % turns == turn % turns);
        near.extend(told.map(|(_, id)| id));
        near.remove(&self.config.me.id);
        near
    }

    /// Tells a node that is in no known group what this one knows of some groups.
    pub(crate) fn tell_some_seats(&self, to: NodeId, out: &mut Out) {
        let Some(ring) = self.ring() else { return };
        let is_home = |home: &Bucket| ring.group_of(*home).is_some_and(|group| ring.home(group) == *home);
        for (home, seat) in ring.seats.iter().filter(|(home, _)| is_home(home)).take(TOLD_SEATS) {
            Node::tell_one_seat(ring, (*home, seat), to, out);
        }
    }

    /// Tells a node which group a bucket belongs to.
    fn tell_group(&self, bucket: Bucket, to: NodeId, out: &mut Out) {
        let Some(ring) = self.ring() else { return };
        let home = ring.group_of(bucket).map(|group| ring.home(group));
        if let Some((home, seat)) = home.and_then(|home| Some((home, ring.seats.get(&home)?))) {
            Node::tell_one_seat(ring, (home, seat), to, out);
        }
    }

    fn tell_one_seat(ring: &Ring, (home, seat): (Bucket, &Seat), to: NodeId, out: &mut Out) {
        let preset = ring.sights.preset(home);
        let word = Word::Seat { figures: Vec::new(), seat: Box::new(seat.clone()), preset };
        // It is chosen: a quorum's disks have it.
        out.send_early(to, Message::Group(Box::new(word)).about(home));
    }

    /// Somebody says something about the group whose home this bucket is.
    pub(crate) fn on_word(&mut self, cx: &mut Cx<'_>, home: Bucket, from: NodeId, word: Word, out: &mut Out) {
        if self.ring().is_none() {
            return cx.marks.hit("node.message.no_ring");
        }
        match word {
            Word::Seat { seat, figures, preset } => {
                self.on_seat(cx, (home, from), *seat, &figures, Some(preset), out);
            }
            Word::Wants => {
                self.ask_who(from, [from].into_iter(), out);
                self.want(cx.now, from, out);
                self.on_wants_group(home, from);
                // It may be full by now, or part of another.
                self.tell_group(home, from, out);
            }
            Word::Leaves => self.on_leaves_group(home, from, false),
            Word::Lived { seen, wanted } => self.on_lived(cx.now, &seen, wanted),
            Word::Twice => self.on_leaves_group(home, from, true),
            Word::Load(load) => self.on_load(home, load),
            Word::Echo { at, is_back } => self.on_echo(cx.now, from, (at, is_back), out),
            Word::Agrees(micros) => self.on_agrees(cx.now, from, micros),
            Word::Here(person) => self.on_here(cx.now, from, person, out),
            Word::People(people) => self.on_people(people, out),
            Word::Who(ids) => self.on_who(from, &ids, out),
            Word::Seek { position, path } => self.on_seek(cx, from, position, path, out),
            Word::Found(found) => self.on_found(cx, from, *found, out),
        }
    }

    /// Somebody says what a home keeps.
    pub(crate) fn on_seat(
        &mut self,
        cx: &mut Cx<'_>,
        (home, from): (Bucket, NodeId),
        seat: Seat,
        figures: &[Figures],
        preset: Option<Preset>,
        out: &mut Out,
    ) {
        let me = self.config.me.id;
        let members: Vec<NodeId> = seat.groups().flat_map(|group| group.members.iter().copied()).collect();
        let Some(ring) = self.ring_mut() else { return };
        let age = seat.age();
        // Asked first: who is in which group is not known at once while groups change everywhere.
        let preset = preset.filter(|preset| ring.sights.is_news(*preset)).filter(|_| {
            // With figures it comes of whoever speaks for the group.
            let own = seat.line(Which::Own).group.as_ref().filter(|_| !figures.is_empty());
            own.is_some_and(|own| own.members.contains(&me)) || ring.group_with(me).is_none()
        });
        let mut newcomers = BTreeSet::new();
        if let Some(known) = ring.seats.get(&home).filter(|known| known.age() > age && !figures.is_empty()) {
            // It may have lost something (`mending.rs`).
            Node::tell_one_seat(ring, (home, known), from, out);
        }
        if let Some(news) = ring.hear(home, seat, cx.now) {
            cx.marks.hit("node.ring.news");
            ring.people.is_news = true;
            newcomers = news.newcomers;
            let is_concerned = news.changed.iter().any(|bucket| self.replicas.contains_key(bucket));
            if let Some(ring) = self.ring_mut() {
                ring.is_news |= is_concerned;
            }
        }
        // An answer may have been lost.
        if members.contains(&me) || cx.rng.chance(1, WHO_AGAIN) {
            self.ask_who(from, members.into_iter(), out);
        } else {
            self.ask_who(from, newcomers.into_iter(), out);
        }
        let Some(ring) = self.ring_mut() else { return };
        preset.into_iter().for_each(|preset| ring.sights.hear(preset));
        if ring.seats.get(&home).is_none_or(|seat| seat.age() != age) {
            return;
        }
        for (bucket, load, leader) in figures {
            if ring.group_of(*bucket).is_none() {
                continue;
            }
            ring.loads.insert(*bucket, *load);
            match leader {
                Some(leader) => drop(ring.leaders.insert(*bucket, *leader)),
                None => drop(ring.leaders.remove(bucket)),
            }
        }
    }

    /// What was just learnt is followed at once, by the logs that this node leads.
    pub(crate) fn follow_news(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let is_news = self.ring_mut().is_some_and(|ring| core::mem::take(&mut ring.is_news));
        if is_news {
            let led = self.replicas.iter().filter(|(_, replica)| replica.takes);
            let led: Vec<Bucket> = led.map(|(bucket, _)| *bucket).collect();
            led.into_iter().for_each(|bucket| self.follow_charter(cx, bucket, out));
        }
    }

    /// What can be done of what must become of a log, and comes first. Members that are dead go at once, whoever else is to come: where nodes die all
    /// the time, a log that waited for its learners would lose its majority meanwhile. And nobody waits for learners that are dead.
    pub(crate) fn possible(&self, now: Time, mut due: Due, log: &[NodeId], mark: u64) -> Option<Due> {
        let is_dead = |id: &NodeId| !self.is_there(*id, now);
        due.add.retain(|id| !is_dead(id));
        if due.remove.iter().any(is_dead) && log.iter().any(|id| !due.remove.contains(id) || !is_dead(id)) {
            due.remove.retain(is_dead);
            due.add.clear();
        }
        let is_something = due.number > mark || !due.add.is_empty() || !due.remove.is_empty();
        is_something.then_some(due)
    }

    /// Whether a member change of a bucket keeps others waiting that are due by now: it waits for somebody who is to come no more, or dead members are
    /// about to cost the log its majority.
    pub(crate) fn is_in_the_way(&self, now: Time, bucket: Bucket, following: &Following) -> bool {
        let (Some(ring), Some(replica)) = (self.ring(), self.replicas.get(&bucket)) else { return false };
        let Some(group) = ring.group_of(bucket) else { return false };
        let comes_no_more = |id: &NodeId| !group.members.contains(id) || !self.is_there(*id, now);
        if following.add.iter().any(comes_no_more) {
            return true;
        }
        let log = member_ids(replica.log());
        let dead = log.iter().filter(|id| !self.is_there(**id, now)).count();
        let may_die = log.len().saturating_sub(1) / 2;
        let goes = |id: &NodeId| {
            let is_dead = !group.members.contains(id) && !self.is_there(*id, now);
            (is_dead || self.is_gone(*id, now)) && !following.remove.contains(id)
        };
        // Half of those that may die, or the only one.
        dead * 2 > may_die && log.iter().any(goes)
    }

    /// Looks which members of the groups are not there of which this node leads buckets. Who has just become one is not connected to it yet.
    fn look_for_missing(&mut self, now: Time) {
        let Some(ring) = self.ring() else { return };
        let led = self.replicas.iter().filter(|(_, replica)| replica.leads);
        let groups = led.filter_map(|(bucket, _)| ring.group_of(*bucket));
        let members: BTreeSet<NodeId> = groups.flat_map(|group| group.members.iter().copied()).collect();
        let absent = members.into_iter().filter(|id| !self.is_there(*id, now) && self.has_tried(*id));
        let since = |id: NodeId| (id, ring.missing.get(&id).copied().unwrap_or(now));
        let missing = absent.map(since).collect();
        if let Some(ring) = self.ring_mut() {
            ring.missing = missing;
        }
    }

    /// Whether a member of a group of which this node leads buckets has not been there for so long that the group goes on without it.
    pub(crate) fn is_gone(&self, id: NodeId, now: Time) -> bool {
        self.is_gone_for(id, now, Duration::ZERO)
    }

    /// Whether the group was to go on without it so long ago.
    pub(crate) fn is_gone_for(&self, id: NodeId, now: Time, ago: Duration) -> bool {
        let since = self.ring().and_then(|ring| ring.missing.get(&id));
        since.is_some_and(|since| now.since(*since) >= self.config.repair_after() + ago)
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
