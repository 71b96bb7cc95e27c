//! Which policies the groups of the ring follow, and what these need to know: how far nodes are from each other (how long they live: `ages.rs`).
//!
//! All of it is soft: a node measures for itself, tells whoever speaks for its group how long agreements would take if it led, and hears from
//! those who speak which policies are followed. What it decides is only who should do what (`quorate_groups::{join, preset, resilience}`).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::Group;
use quorate_groups::join::{Aim, agreement, halves, may_lead, near_and_far};
use quorate_groups::preset::{Measured, Policies, Preset};
use quorate_kernel::{Cx, NodeId, Time};

use crate::ages::Ages;
use crate::config::NodeConfig;
use crate::deeds::{How, What};
use crate::journal::Clocks;
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::motive::Motive;
use crate::ring::Word;

/// How often the way to others is measured.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Members tell how long agreements take whenever they look. What is older than this counts no more.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// Nodes to which the way is known; more are not remembered.
const KNOWN_MAX: usize = 128;
/// A way that was longer of late counts for so much of what is known.
const SHARE: u32 = 8;

/// What a node has measured.
#[derive(Debug)]
pub(crate) struct Sights {
    /// To and fro.
    ways: BTreeMap<NodeId, Duration>,
    /// For whoever speaks for a group: how long agreements take that its members lead, and when they said so.
    agreements: BTreeMap<NodeId, (Duration, Time)>,
    pub(crate) ages: Ages,
    looked_at: Time,
    /// Which policies this node's own group follows, as was said last; as long as it is in none: any group.
    heard: Preset,
    /// By home: which policies this node has chosen, for whose groups it speaks.
    chosen: BTreeMap<Bucket, Preset>,
}

impl Sights {
    pub(crate) fn new(config: &NodeConfig) -> Sights {
        Sights {
            ways: BTreeMap::new(),
            agreements: BTreeMap::new(),
            ages: Ages::new(config),
            looked_at: Time::default(),
            heard: Preset::Steady,
            chosen: BTreeMap::new(),
        }
    }

    /// Which policies the group with this home follows: as this node has chosen for it, or else as its own group does.
    pub(crate) fn preset(&self, home: Bucket) -> Preset {
        self.chosen.get(&home).copied().unwrap_or(self.heard)
    }

    /// Whether this is something else than what was heard last.
    pub(crate) fn is_news(&self, preset: Preset) -> bool {
        self.heard != preset
    }

    /// Somebody says what a group follows that concerns this node: its own, or any if it is in none.
    pub(crate) fn hear(&mut self, preset: Preset) {
        self.heard = preset;
    }

    /// What the group with this home follows from now on; what it followed until now.
    fn choose(&mut self, home: Bucket, preset: Preset) -> Preset {
        // Who speaks for a group goes on from what it heard of it.
        self.chosen.insert(home, preset).unwrap_or(self.heard)
    }

    /// This node speaks for groups with these homes, and for no others any more.
    pub(crate) fn speak_for(&mut self, homes: &BTreeSet<Bucket>) {
        self.chosen.retain(|home, _| homes.contains(home));
    }

    /// A way was measured.
    fn measured(&mut self, to: NodeId, way: Duration) {
        if self.ways.len() >= KNOWN_MAX && !self.ways.contains_key(&to) {
            self.ways.pop_first();
        }
        // The shortest says how far it is; busy machines make it longer.
        let known = self.ways.entry(to).or_insert(way);
        *known = if way < *known { way } else { *known + (way - *known) / SHARE };
    }

    /// To this node and back.
    pub(crate) fn way(&self, to: NodeId) -> Option<Duration> {
        self.ways.get(&to).copied()
    }

    /// How long an agreement would take that this node led among `others`.
    pub(crate) fn agreement(&self, others: impl Iterator<Item = NodeId>) -> Option<Duration> {
        let ways: Vec<Option<Duration>> = others.map(|id| self.way(id)).collect();
        agreement(&ways)
    }

    /// The way to these alone is remembered.
    pub(crate) fn keep_ways(&mut self, there: &BTreeSet<NodeId>) {
        self.ways.retain(|id, _| there.contains(id));
    }

    /// Who of the members is not much slower to agree than the fastest. Of those who lead already it takes more.
    pub(crate) fn may_lead(&self, members: &[NodeId], leads: impl Fn(&NodeId) -> bool) -> Vec<bool> {
        let agreements: Vec<_> = members.iter().map(|id| (self.agreement_led_by(id), leads(id))).collect();
        may_lead(&agreements)
    }

    fn agreement_led_by(&self, member: &NodeId) -> Option<Duration> {
        self.agreements.get(member).map(|(agreement, _)| *agreement)
    }

    /// How long agreements take that a member leads, in microseconds, and that the fastest of some leads.
    pub(crate) fn agreements_us(&self, member: NodeId, of: &[NodeId]) -> (Option<u64>, u64) {
        let known = |id: &NodeId| self.agreement_led_by(id);
        (known(&member).map(micros), of.iter().filter_map(known).min().map_or(0, micros))
    }

    /// Who has not said for a while how long agreements take has told somebody else, and may have other fellows by now.
    fn forget_old_agreements(&mut self, now: Time) {
        self.agreements.retain(|_, (_, told)| now.since(*told) < TOLD_WITHIN);
    }

    /// Members by how far they are from this node, if all ways are known.
    pub(crate) fn by_way(&self, me: NodeId, members: &[NodeId]) -> Option<Vec<(NodeId, Duration)>> {
        let way = |id: &NodeId| match *id == me {
            true => Some((me, Duration::ZERO)),
            false => self.way(*id).map(|way| (*id, way)),
        };
        members.iter().map(way).collect()
    }
}

/// Saturates.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Node {
    /// By which policies this node chooses a group for itself.
    pub(crate) fn policies(&self) -> Policies {
        let heard = || self.ring().map(|ring| ring.sights.heard);
        self.config.placing.preset.or_else(heard).unwrap_or(Preset::Steady).policies()
    }

    /// What is done for a group by itself, and how. Groups may be different deployments: the members of one stand in one room, those of another do not.
    pub(crate) fn policies_of(&self, group: &Group) -> Policies {
        let chosen = || self.ring().map(|ring| ring.sights.preset(ring.home(group)));
        self.config.placing.preset.or_else(chosen).unwrap_or(Preset::Steady).policies()
    }

    /// Measures the ways to the members of groups.
    pub(crate) fn measure_ways<'a>(&self, now: Time, groups: impl Iterator<Item = &'a Group>, out: &mut Out) {
        let all: BTreeSet<NodeId> = groups.flat_map(|group| group.members.iter().copied()).collect();
        self.ask_how_far(now, all.into_iter(), out);
    }

    /// The members of this node's groups, and of logs that it has: they watch each other.
    fn watched(&self) -> BTreeSet<NodeId> {
        let me = self.config.me.id;
        let groups = self.ring().map(|ring| ring.groups_with(me)).unwrap_or_default();
        let mut watched: BTreeSet<NodeId> =
            groups.iter().flat_map(|group| group.members.iter().copied()).collect();
        let logs = self.replicas.values().filter(|replica| replica.log().is_member());
        watched.extend(logs.flat_map(|replica| replica.log().epoch().members.iter().map(|member| member.id)));
        watched.remove(&me);
        watched
    }

    fn ask_how_far(&self, now: Time, nodes: impl Iterator<Item = NodeId>, out: &mut Out) {
        for id in nodes.filter(|id| self.connected.contains(id)) {
            // A question; nothing about this node's disk is told.
            out.send_early(
                id,
                Message::Group(Box::new(Word::Echo { at: now, is_back: false })).about(Bucket(0)),
            );
        }
    }

    /// Looks at how far the members of this node's group are and how long nodes live, and tells whoever speaks for the group.
    pub(crate) fn look_around(&mut self, cx: &Cx<'_>, out: &mut Out) {
        let (me, now) = (self.config.me.id, cx.now);
        let Some(ring) = self.ring().filter(|ring| now.since(ring.sights.looked_at) >= LOOK_EVERY) else {
            return;
        };
        // A connection that ends may be one that was not needed: who is dead is let go by its group.
        let there = ring.sights.ages.watches(now).then(|| ring.members());
        let watched = self.watched();
        self.ask_how_far(now, watched.iter().copied(), out);
        there.into_iter().for_each(|there| self.watch_ages((now, cx.wall), &there));
        let Some(ring) = self.ring_mut() else { return };
        ring.sights.looked_at = now;
        ring.sights.forget_old_agreements(now);
        ring.people.watch_only(&watched);
        watched.iter().for_each(|id| ring.people.watch(*id, now));
        let Some(group) = ring.group_with(me) else { return };
        let (home, others) = (ring.home(group), group.members.iter().copied().filter(|id| *id != me));
        let agreement = ring.sights.agreement(others);
        let (Some(agreement), Some(speaker)) = (agreement, self.believed_leader(home)) else { return };
        let micros = u32::try_from(agreement.as_micros()).unwrap_or(u32::MAX);
        if speaker == me {
            return self.on_agrees(now, me, micros);
        }
        // A figure; harmless if forgotten.
        out.send_early(speaker, Message::Group(Box::new(Word::Agrees(micros))).about(home));
    }

    pub(crate) fn on_echo(&mut self, now: Time, from: NodeId, (at, is_back): (Time, bool), out: &mut Out) {
        if !is_back {
            // Nothing about this node's disk is told.
            let back = Word::Echo { at, is_back: true };
            return out.send_early(from, Message::Group(Box::new(back)).about(Bucket(0)));
        }
        if let Some(ring) = self.ring_mut() {
            ring.people.heard(from, now);
            ring.sights.measured(from, now.since(at));
        }
    }

    pub(crate) fn on_agrees(&mut self, now: Time, from: NodeId, micros: u32) {
        if let Some(ring) = self.ring_mut()
            && (ring.sights.agreements.len() < KNOWN_MAX || ring.sights.agreements.contains_key(&from))
        {
            ring.sights.agreements.insert(from, (Duration::from_micros(micros.into()), now));
        }
    }

    /// For whoever speaks for a group: chooses the policies that fit what was measured.
    pub(crate) fn choose_preset(&mut self, (now, wall): Clocks, home: Bucket, group: &Group) {
        let (chosen, motive) = self.preset_for(now, home, group);
        let is_own = group.members.contains(&self.config.me.id);
        let Some(ring) = self.ring_mut() else { return };
        let from = ring.sights.choose(home, chosen);
        if is_own {
            ring.sights.hear(chosen);
        }
        if let Some(motive) = motive.filter(|_| from != chosen) {
            let what = What::Preset { group: group.name.id, from, to: chosen };
            ring.journal.remark(wall, what, motive, How::Done);
        }
    }

    /// Which policies, and why, if that was decided now.
    fn preset_for(&self, now: Time, home: Bucket, group: &Group) -> (Preset, Option<Motive>) {
        let Some(ring) = self.ring() else { return (Preset::Steady, None) };
        let sights = &ring.sights;
        if let Some(chosen) = self.config.placing.preset {
            return (chosen, Some(Motive::Configured));
        }
        let agreements = || group.members.iter().filter_map(|id| sights.agreement_led_by(id));
        let (Some(least), Some(most)) = (agreements().min(), agreements().max()) else {
            return (sights.preset(home), None);
        };
        let death = sights.ages.chance_of_death(now, group.members.iter().copied());
        let chosen = Preset::auto(Measured { death, latencies: (least, most) }, sights.preset(home));
        (chosen, Some(Motive::Measured { death, least_us: micros(least), most_us: micros(most) }))
    }

    /// Two halves of a group: where operations shall be fast and nobody knows who shares failures with whom, those who are near to each
    /// other; else both spread as the whole is.
    pub(crate) fn halves_of(&self, group: &Group) -> (Vec<NodeId>, Vec<NodeId>) {
        let places = self.places_of(group);
        let is_spread = places
            .windows(2)
            .any(|pair| (&pair[0].1.zone, &pair[0].1.rack) != (&pair[1].1.zone, &pair[1].1.rack));
        let by_way = || self.ring()?.sights.by_way(self.config.me.id, &group.members);
        match by_way().filter(|_| self.policies_of(group).join == Aim::Latency && !is_spread) {
            Some(by_way) => near_and_far(by_way),
            None => halves(&places),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const ME: NodeId = NodeId(9);

    #[test]
    fn the_way_is_the_shortest_of_late() {
        let (mut sights, ms) = (Sights::new(&fixture::node(9, &[]).config), Duration::from_millis);
        sights.measured(NodeId(1), ms(10));
        sights.measured(NodeId(1), ms(90));
        assert_eq!(sights.by_way(ME, &[NodeId(1)]), Some([(NodeId(1), ms(20))].into()));
        sights.measured(NodeId(1), ms(8));
        assert_eq!(sights.by_way(ME, &[NodeId(1), ME]), Some([(NodeId(1), ms(8)), (ME, ms(0))].into()));
        assert_eq!(sights.by_way(ME, &[NodeId(2)]), None);
    }

    /// Or two speakers in turn, of which one remembered what the other had said among other fellows, made each other lead for ever.
    #[test]
    fn what_a_member_said_of_agreements_long_ago_is_forgotten() {
        let (mut sights, second) =
            (Sights::new(&fixture::node(9, &[]).config), |second: u64| Time(second * 1_000_000_000));
        let (near, far) = (NodeId(6), NodeId(4));
        sights.agreements.insert(near, (Duration::from_micros(286), second(1)));
        sights.agreements.insert(far, (Duration::from_millis(38), second(3)));
        assert_eq!(sights.may_lead(&[near, far], |id| *id == far), [true, false]);
        sights.forget_old_agreements(second(4));
        assert_eq!(sights.may_lead(&[near, far], |id| *id == far), [false, true]);
    }

    /// Or whoever speaks for several groups, or heard of others between two looks, judged each by what another follows, and none had any slack.
    #[test]
    fn groups_with_different_distances_keep_policies_of_their_own() {
        let mut node = fixture::node(1, &[1, 2, 3]);
        let near = fixture::group(7, (0, 4), &[1, 2]);
        let far = fixture::group(8, (4, 8), &[1, 3]);
        let clocks = (Time(1), quorate_kernel::Wall { unix_ms: 1, error_ms: 0 });
        let look = |node: &mut Node, slowest: [u32; 2], others: Preset| {
            for (id, ms) in [(1, 10), (2, slowest[0]), (3, slowest[1])] {
                node.on_agrees(clocks.0, NodeId(id), ms * 1_000);
            }
            for (home, group) in [(Bucket(0), &near), (Bucket(4), &far)] {
                node.choose_preset(clocks, home, group);
                node.ring_mut().unwrap().sights.hear(others);
            }
            [&near, &far].map(|group| node.policies_of(group))
        };
        let [steady, wide] = [Preset::Steady, Preset::Wide].map(Preset::policies);
        assert_eq!(look(&mut node, [11, 80], Preset::Steady), [steady, wide]);
        for others in [Preset::Steady, Preset::Wide, Preset::Restless] {
            assert_eq!(
                look(&mut node, [40, 40], others),
                [steady, wide],
                "both near the limit, others are {others:?}"
            );
        }
        assert_eq!(node.policies(), Preset::Restless.policies(), "to join a group it goes by what it heard");
        let changes = node.journal().unwrap().deeds().filter(|deed| matches!(deed.what, What::Preset { .. }));
        assert_eq!(changes.count(), 1, "only what changes is noted");
        // Who comes to speak for a group goes on from what it heard of it.
        let sights = &mut node.ring_mut().unwrap().sights;
        sights.speak_for(&[Bucket(0)].into());
        sights.hear(Preset::Wide);
        assert_eq!(look(&mut node, [40, 40], Preset::Wide), [steady, wide]);
        node.ring_mut().unwrap().sights.speak_for(&[Bucket(4)].into());
        assert_eq!(look(&mut node, [40, 40], Preset::Wide), [wide, wide]);
    }
}
