//! How much is asked of buckets, and who leads which of a group's because of that.
//!
//! Whoever leads a bucket counts what it is asked and what its log has to say, and tells whoever speaks for the bucket's group; that tells all what is asked of the group's
//! buckets and who should lead them. None of it is kept, and nothing but speed rests on it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::borders::{To, gift, gift_beside, relief};
use quorate_groups::load::{Burden, Shard as Piece, leaders};
use quorate_groups::{Group, Operation, Stand};
use quorate_kernel::{NodeId, Time};
use quorate_shard::{self as shard, batch_header};

use crate::journal::Clocks;
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::motive::Motive;
use crate::ring::{Ring, Word};

/// What was asked longer ago than this counts little, if much is asked.
const MEMORY: Duration = Duration::from_secs(2);
/// If little is asked, it takes as long as so many requests to tell how much, or chance would make idle buckets look as if they had more to do than others now
/// and then, and their borders would move for ever. But no longer than this.
const ENOUGH: f64 = 16.0;
const MEMORY_MAX: Duration = Duration::from_secs(30);
/// What differs from what was asked before by more than so many times what chance does in the mean is not chance. Twice in a row it is no gap either, as when a
/// leader changes: something else is asked now, and what was asked before would only hide how much.
const NO_CHANCE: f64 = 3.0;
/// What a member has to do is known no better than this, times the root of it: a bucket goes to another leader for no less.
const CHANCE: f64 = 1.0;
/// A bucket that has come to a group stays there before it can be seen what is asked of it now.
const WINDOW: Duration = Duration::from_secs(1);
/// What was heard of all groups longer ago is too old to reckon with; of its neighbours a group hears all the time.
const FRESH: Duration = Duration::from_millis(1_500);
/// So many messages of a log a request can cause, at most: an answer of each follower to what was written. Reads under a lease cause none.
const MESSAGES_MAX: u64 = 16;
/// A bucket counts like so many requests in a second at least: its leader and its followers hear from each other all the time.
/// So groups have their share of buckets before anything is asked of them.
const IDLE: f64 = 5.0;

/// What a bucket counts of which so much is asked in a second.
fn weight(load: f64) -> f64 {
    load.max(IDLE)
}

/// How many requests a bucket's leader has taken of late, and how many messages its log had for it because of them: a write that goes to many
/// members is more work than a read, unless many go together.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    asked: u64,
    /// Those of them that the leader asked its followers about.
    agreed: u64,
    messages: u64,
    since: Time,
    /// Both together, in a second.
    rate: f64,
    /// Requests alone, in a second.
    requests: f64,
    /// Whether it was much less or much more the last time than before.
    is_other: Option<Ordering>,
}

impl Meter {
    /// Somebody else was asked before, so much in a second; how many of it were requests is not known, and soon learned if it is taken for all.
    pub(crate) fn begin(&mut self, now: Time, rate: f64) {
        *self = Meter { since: now, rate, requests: rate, ..Meter::default() };
    }

    /// Counts what the bucket is asked; `lease`: whether its leader answers reads alone.
    pub(crate) fn count(&mut self, input: &shard::Input, lease: bool) {
        let asked = match input {
            shard::Input::Submit(batch) => batch_header(batch).map_or(1, |header| header.count),
            shard::Input::Read { requests, .. } => requests.len() as u64,
            // Operations on groups are no reason for others.
            shard::Input::Transact(transaction) => u64::from(!shard::Part::is_of_notes(&transaction.part)),
            _ => 0,
        };
        self.asked += asked;
        let is_alone = lease && matches!(input, shard::Input::Read { .. });
        self.agreed += if is_alone { 0 } else { asked };
    }

    /// Counts a message of its log that came by itself: to whoever leads, an answer to what it sent since more was written.
    pub(crate) fn count_message(&mut self) {
        self.messages += 1;
    }

    /// Requests and messages in a second, of late.
    fn read(&mut self, now: Time) -> u32 {
        let span = now.since(self.since).as_secs_f64();
        if span > 0.0 {
            // Its followers answer beats as well, and members come and go, which nobody asked for.
            let work = (self.asked + self.messages.min(self.agreed * MESSAGES_MAX)) as f64;
            let asked = self.asked as f64;
            let (before, asked_before) = (self.rate * span, self.requests * span);
            // As many requests come by chance as the root of their number; each may be several messages.
            let each = ((work + before) / (asked + asked_before).max(1.0)).max(1.0);
            let chance = work.max(before).max(1.0) * each;
            let is_other = (work - before) * (work - before) > chance * NO_CHANCE * NO_CHANCE;
            let is_other = is_other.then(|| work.total_cmp(&before));
            let is_sure = is_other.is_some() && is_other == self.is_other;
            let memory = match is_other {
                Some(_) => MEMORY.as_secs_f64(),
                None => (ENOUGH / self.requests).clamp(MEMORY.as_secs_f64(), MEMORY_MAX.as_secs_f64()),
            };
            self.is_other = is_other.filter(|_| !is_sure);
            let fresh = if is_sure { 1.0 } else { (span / memory).min(1.0) };
            self.requests += (asked - asked_before) / span * fresh;
            self.rate += (work - before) / span * fresh;
            (self.asked, self.agreed, self.messages, self.since) = (0, 0, 0, now);
        }
        // Saturates; what has not been asked for long is nothing.
        self.rate as u32
    }
}

impl Ring {
    /// What is asked of a bucket in a second.
    pub(crate) fn load_of(&self, bucket: Bucket) -> f64 {
        self.loads.get(&bucket).copied().unwrap_or_default().into()
    }

    /// What is there now is measured once it has been there for long enough.
    pub(crate) fn forget_moves(&mut self, now: Time) {
        self.moved.retain(|_, at| now.since(*at.get_or_insert(now)) < WINDOW);
    }
}

impl Node {
    /// Tells those who speak for groups what is asked of the buckets that this node leads.
    pub(crate) fn tell_loads(&mut self, now: Time, out: &mut Out) {
        let me = self.config.me.id;
        let mut told: Vec<(Bucket, u32)> = Vec::new();
        for (bucket, replica) in self.replicas.iter_mut().filter(|(_, replica)| replica.took) {
            told.push((*bucket, replica.meter.read(now)));
        }
        for (bucket, load) in told {
            let Some(ring) = self.ring() else { return };
            let Some(home) = ring.group_of(bucket).map(|group| ring.home(group)) else { continue };
            match self.believed_leader(home) {
                Some(leader) if leader == me => self.on_load(bucket, load),
                // A figure; harmless if forgotten.
                Some(leader) => {
                    out.send_early(leader, Message::Group(Box::new(Word::Load(load))).about(bucket))
                }
                None => {}
            }
        }
    }

    pub(crate) fn on_load(&mut self, bucket: Bucket, load: u32) {
        if let Some(ring) = self.ring_mut().filter(|ring| ring.group_of(bucket).is_some()) {
            ring.loads.insert(bucket, load);
        }
    }

    /// Where a border of a group should be that gives something away, by what is asked of all groups.
    pub(crate) fn border_due(&self, now: Time, stand: &Stand) -> Option<(Operation, Motive)> {
        let ring = self.ring()?;
        let Stand { group, before, after } = stand;
        let groups: Vec<&Group> = ring.groups().collect();
        let pieces: Vec<Vec<Piece>> = groups.iter().map(|group| self.pieces_of(group)).collect();
        let burdens: Vec<Burden<'_>> = pieces
            .iter()
            .zip(&groups)
            .map(|(shards, group)| Burden { shards, capacity: group.members.len() as f64 })
            .collect();
        let members: f64 = burdens.iter().map(|burden| burden.capacity).sum();
        let mean = burdens.iter().map(Burden::load).sum::<f64>() / members;
        let of_each = |id| {
            let place = groups.iter().position(|group| group.name.id == id)?;
            Some((place, (burdens[place].load() / burdens[place].capacity) as u64))
        };
        let (place, load) = of_each(group.name.id)?;
        let is_fresh = |other: &&Group| {
            let heard = ring.heard.get(&other.name.id).copied().unwrap_or_default();
            other.name.id == group.name.id || now.since(heard) < FRESH
        };
        let beside = |id| groups.iter().position(|group| group.name.id == id);
        let mut busiest = None;
        let (to, border) = match ring.knows_all() && groups.iter().all(is_fresh) {
            true => match gift(&burdens, place) {
                Some(even) => even,
                None => {
                    let (to, border, most) = relief(&burdens, place)?;
                    busiest = Some(most as u64);
                    (to, border)
                }
            },
            false => {
                let (before, after) = (beside(before.name.id)?, beside(after.name.id)?);
                gift_beside(&burdens[before], &burdens[place], &burdens[after])?
            }
        };
        let (id, left, right) = (group.name.id, before.name.id, after.name.id);
        let (operation, taker) = match to {
            To::After => (Operation::Repartition { left: id, right, border }, right),
            To::Before => (Operation::Repartition { left, right: id, border }, left),
        };
        let most = burdens.iter().map(|burden| burden.load() / burden.capacity).fold(0.0, f64::max);
        let (_, neighbour) = of_each(taker)?;
        let mean = mean as u64;
        let motive = match busiest {
            Some(busiest) => Motive::Lumpy { busiest, load, mean },
            None => Motive::Uneven { load, neighbour, most: most as u64, mean },
        };
        let is_inside = group.span.contains(border) && border != group.span.start;
        is_inside.then_some((operation, motive))
    }

    /// The buckets of a group and what is asked of them.
    pub(crate) fn pieces_of(&self, group: &Group) -> Vec<Piece> {
        let Some(ring) = self.ring() else { return Vec::new() };
        let piece = |bucket: Bucket| Piece {
            start: bucket.ring_start(ring.count),
            load: weight(ring.load_of(bucket)),
            stays: ring.moved.contains_key(&bucket),
        };
        ring.buckets(group).into_iter().map(piece).collect()
    }

    /// Who should lead each bucket of a group for which this node speaks, by what is asked of them.
    pub(crate) fn assign_leaders(&mut self, clocks: Clocks, home: Bucket, group: &Group) {
        let Some(ring) = self.ring() else { return };
        let buckets = ring.buckets(group);
        let loads: Vec<f64> = buckets.iter().map(|bucket| weight(ring.load_of(*bucket))).collect();
        let lead = |bucket: &Bucket| {
            let leader = self.believed_leader(*bucket)?;
            group.members.iter().position(|id| *id == leader)
        };
        let now: Vec<Option<usize>> = buckets.iter().map(lead).collect();
        let is_there = |id: &NodeId| self.is_there(*id, clocks.0);
        let leads = |id: &NodeId| buckets.iter().any(|bucket| self.believed_leader(*bucket) == Some(*id));
        let there: Vec<NodeId> = group.members.iter().copied().filter(is_there).collect();
        let able: Vec<NodeId> = if self.policies_of(group).moves_leaders {
            let may = ring.sights.may_lead(&there, leads);
            there.iter().zip(may).filter_map(|(id, may)| may.then_some(*id)).collect()
        } else {
            there.clone()
        };
        let capacities: Vec<f64> =
            group.members.iter().map(|id| f64::from(u8::from(able.contains(id)))).collect();
        let due = leaders(&loads, &now, &capacities, CHANCE);
        let due = due.into_iter().map(|place| place.and_then(|place| group.members.get(place).copied()));
        let due: Vec<(Bucket, Option<NodeId>)> = buckets.iter().copied().zip(due).collect();
        self.note_handings(clocks, home, group.name.id, (&there, &able), &due);
        let Some(ring) = self.ring_mut() else { return };
        for (bucket, leader) in due {
            match leader {
                Some(leader) => drop(ring.leaders.insert(bucket, leader)),
                None => drop(ring.leaders.remove(&bucket)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_kernel::Rng;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_was_asked_long_ago_is_forgotten() {
        let mut meter = Meter::default();
        meter.begin(Time(0), 8.0);
        meter.asked = 16;
        assert_eq!(meter.read(Time(SECOND)), 12, "half of it is old");
        meter.asked = 16;
        assert_eq!(meter.read(Time(2 * SECOND)), 14);
        assert_eq!(meter.read(Time(2 * SECOND)), 14, "no time has passed");
        assert_eq!(meter.read(Time(9 * SECOND)), 0);
        meter.messages = 1_000;
        assert_eq!(meter.read(Time(11 * SECOND)), 0, "beats are nobody's request");
        (meter.asked, meter.messages) = (80, 1_000);
        assert_eq!(
            meter.read(Time(13 * SECOND)),
            40,
            "nor are they where all that is asked are reads under a lease"
        );
    }

    /// Or borders of rings with nothing to do would move for ever, and leaders of their buckets change.
    #[test]
    fn buckets_with_a_write_now_and_then_are_as_idle_as_others() {
        let (mut rng, mut meter, looks) = (Rng::new(1), Meter::default(), 10_000);
        let mut looked_busy = 0;
        for look in 1..=looks {
            // Every five seconds, with an answer of each of six followers, and another six to beats, which nobody can tell from them.
            if rng.chance(1, 10) {
                (meter.asked, meter.agreed, meter.messages) = (1, 1, 12);
            }
            let load = meter.read(Time(look * SECOND / 2));
            looked_busy += u64::from(weight(load.into()) > IDLE);
        }
        assert!(
            looked_busy < looks / 20,
            "in {looked_busy} of {looks} looks it was something else than idle"
        );
    }

    #[test]
    fn what_has_changed_by_more_than_chance_counts_at_once() {
        let mut meter = Meter::default();
        let mut read = |at: u64, asked: u64, messages: u64| {
            (meter.asked, meter.agreed, meter.messages) = (asked, asked, messages);
            meter.read(Time(at * SECOND))
        };
        assert_eq!([read(1, 1_000, 0), read(2, 1_000, 0)], [500, 1_000]);
        assert_eq!([read(3, 940, 0), read(4, 1_000, 0)], [970, 985], "a twentieth less may be chance");
        assert_eq!([read(5, 0, 0), read(6, 985, 0)], [492, 738], "as a gap may be");
        assert_eq!([read(7, 100, 0), read(8, 100, 0)], [419, 100], "but not twice");
        assert_eq!([read(9, 0, 0), read(10, 0, 0)], [50, 0]);
        assert_eq!([read(11, 8, 0), read(12, 8, 0)], [0, 0], "too little to know");
        assert_eq!([read(13, 100, 800), read(14, 100, 800)], [450, 900]);
        assert_eq!(
            [read(15, 75, 600), read(16, 75, 600)],
            [787, 731],
            "a quarter fewer requests may be chance"
        );
        assert_eq!([read(17, 20, 160), read(18, 20, 160)], [455, 180]);
    }
}
