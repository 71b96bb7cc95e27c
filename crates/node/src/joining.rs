//! Nodes that are in no group ask for one; those that are to be emptied ask to be let go (Scatter 6.1).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::join::{Aim, Candidate, Choice, Near, choose};
use quorate_groups::{Group, MEMBERS_MAX};
use quorate_kernel::{Cx, NodeId, Time};
use quorate_shard::Mutant;

use crate::deeds::{How, What};
use crate::journal::Clocks;
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::motive::{Motive, SizeWanted};
use crate::policies::micros;
use crate::ring::{Ring, Word};

/// How often a node without a group asks for one. Longer than a way around the world and back.
const ASK_EVERY: Duration = Duration::from_millis(400);
/// How often it asks the same group before it asks another. Whoever speaks for the group has to be connected to it first, and begins to be when it is
/// asked; and around the world it takes a second or two until the group has agreed: who asked others meanwhile would be in several.
const ASKS: u8 = 4;
/// For so long a node has been in two groups before it asks one to let it go. Groups tell their members twice a second what they are.
const SURE: Duration = Duration::from_secs(2);
/// How many groups it looks at first; and how many where it goes by the time that operations take (Scatter 6.1 and 6.2).
const SAMPLES: usize = 4;
const SAMPLES_OF_LATENCY: usize = 3;
/// Nodes that want to join a group; who finds no room asks again.
const JOINERS_MAX: usize = 256;

impl Ring {
    /// This node asks a group to let it in; asking it again is nothing new.
    fn note_asked(&mut self, clocks: Clocks, me: NodeId, choice: Choice, candidates: &[Candidate]) {
        if self.asked.as_ref().is_some_and(|(group, _)| *group == choice.group) {
            return;
        }
        if let Some((_, begun)) = self.asked.take() {
            self.journal.end(clocks.0, begun, How::GivenUp("another group was asked".into()));
        }
        let Some(motive) = motive_of(choice, candidates) else { return };
        let what = What::Ask { node: me, group: choice.group };
        self.asked = Some((choice.group, self.journal.begin(clocks, what, motive)));
    }
}

/// Why a group was chosen of these.
fn motive_of(choice: Choice, candidates: &[Candidate]) -> Option<Motive> {
    let groups = candidates.len();
    let Candidate { size, failure, load, latency, .. } =
        *candidates.iter().find(|candidate| candidate.group == choice.group)?;
    Some(match choice.aim {
        None => Motive::Needy { members: size, failure, groups },
        Some(Aim::Latency) => Motive::Near { agreement_us: latency.map(micros), groups },
        // Saturates; nobody has that much to do.
        Some(Aim::Load) => Motive::Busy { load: load as u64, groups },
    })
}

impl Node {
    /// This node is in a group now.
    fn note_joined(&mut self, now: Time) {
        let Some(ring) = self.ring_mut() else { return };
        if let Some((_, begun)) = ring.asked.take() {
            ring.journal.end(now, begun, How::Done);
        }
    }

    /// A node that is in no group asks the one that needs it most, of some, to let it in.
    pub(crate) fn ask_for_group(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let me = self.config.me.id;
        let Some(ring) = self.ring().filter(|ring| cx.now.since(ring.asked_at) >= ASK_EVERY) else { return };
        let asks_again = self.config.limits.breaks(Mutant::InTwoGroups) && cx.rng.chance(1, 4);
        if let Some(group) = ring.group_with(me).filter(|_| !asks_again) {
            let home = ring.home(group);
            self.note_joined(cx.now);
            self.leave_all_but_one(cx.now, out);
            if let Some(ring) = self.ring_mut() {
                ring.asked_at = cx.now;
            }
            return self.ask_to_leave(cx.now, home, out);
        }
        if self.stopping || ring.drained {
            return;
        }
        if let Some(home) = self.home_to_ask_again() {
            return self.ask_to_be_let_in(cx, home, out);
        }
        let aim = self.policies().join;
        let mut groups = self.with_room();
        if !self.ring().is_some_and(Ring::knows_all) {
            let anywhere = cx.rng.next_u64();
            self.seek_position(cx, anywhere, out);
        }
        let Some(ring) = self.ring() else { return };
        if aim == Aim::Latency && !groups.iter().any(|group| ring.sampled.contains(&group.name.id)) {
            return self.sample_groups(cx, groups, out);
        }
        if aim == Aim::Latency {
            groups.retain(|group| ring.sampled.contains(&group.name.id));
        } else {
            cx.rng.shuffle(&mut groups);
        }
        let candidates: Vec<Candidate> =
            groups.iter().filter_map(|group| self.candidate(cx.now, group)).collect();
        let most = self.chance_of_failure_most();
        // Of some, so that those who come at the same time do not all choose the same. If these need nobody, of all: else many groups would
        // be on the way to what is too large, and not one.
        let some = candidates.get(..SAMPLES).unwrap_or(&candidates);
        let chosen = choose(some, most, aim).filter(|choice| choice.aim.is_none());
        let chosen = chosen.or_else(|| choose(&candidates, most, aim));
        let Some(ring) = self.ring_mut() else { return };
        (ring.asked_at, ring.sampled) = (cx.now, Vec::new());
        let Some(choice) = chosen else { return };
        let home = groups.iter().find(|group| group.name.id == choice.group).map(|group| ring.home(group));
        let Some(home) = home else { return };
        ring.note_asked((cx.now, cx.wall), me, choice, &candidates);
        ring.asks_again = Some((choice.group, ASKS - 1));
        self.ask_to_be_let_in(cx, home, out);
    }

    /// Where a group has its home that was just asked, and is to be asked again.
    fn home_to_ask_again(&mut self) -> Option<Bucket> {
        let most = self.members_most(self.size_wanted());
        let ring = self.ring_mut()?;
        let (again, times) = ring.asks_again.take()?;
        ring.asks_again = (times > 1).then_some((again, times - 1));
        let group = ring.groups().find(|group| group.name.id == again && ring.is_whole(group))?;
        (group.members.len() < most).then(|| ring.home(group))
    }

    /// Asks whoever speaks for the group whose home this is to let this node in.
    fn ask_to_be_let_in(&mut self, cx: &mut Cx<'_>, home: Bucket, out: &mut Out) {
        let me = self.config.me.id;
        if let Some(ring) = self.ring_mut() {
            ring.asked_at = cx.now;
        }
        match self.believed_leader(home) {
            Some(leader) if leader == me => self.on_wants_group(home, me),
            // A question; nothing about this node's disk is told.
            Some(leader) => {
                self.want(cx.now, leader, out);
                out.send_early(leader, Message::Group(Box::new(Word::Wants)).about(home));
            }
            None => self.seek(cx, home, out),
        }
    }

    /// The groups that take somebody in, of those that are known.
    fn with_room(&self) -> Vec<Group> {
        let most = self.members_most(self.size_wanted());
        let Some(ring) = self.ring() else { return Vec::new() };
        let is_open = |group: &&Group| ring.is_whole(group) && group.members.len() < most;
        ring.groups().filter(is_open).cloned().collect()
    }

    /// How many members a group may have. One that is to split takes in nobody before it has: whoever comes makes it wait, since the logs have to
    /// follow first, and all of them follow at each member. Only where no known group has room, and none can split for lack of buckets, all take in more.
    pub(crate) fn members_most(&self, size: SizeWanted) -> usize {
        let has_room = |group: &Group| group.members.len() <= size.most || self.middle_of(group).is_some();
        let is_room = self.ring().is_some_and(|ring| ring.groups().any(has_room));
        if is_room { size.most + 1 } else { MEMBERS_MAX }
    }

    /// Before a node chooses between some groups it measures how far their members are.
    fn sample_groups(&mut self, cx: &mut Cx<'_>, mut groups: Vec<Group>, out: &mut Out) {
        cx.rng.shuffle(&mut groups);
        groups.truncate(SAMPLES_OF_LATENCY);
        self.measure_ways(cx.now, groups.iter(), out);
        if let Some(ring) = self.ring_mut() {
            (ring.asked_at, ring.sampled) = (cx.now, groups.iter().map(|group| group.name.id).collect());
        }
    }

    /// What this node knows of a group that it might join.
    fn candidate(&self, now: Time, group: &Group) -> Option<Candidate> {
        let ring = self.ring()?;
        let members: Vec<_> = group.members.iter().map(|id| self.place_of(*id)).collect();
        let near = Near::count(&self.place_of(self.config.me.id), &members);
        let size = group.members.len();
        Some(Candidate {
            group: group.name.id,
            size,
            failure: self.chance_of_failure(now, group),
            near,
            load: ring.buckets(group).iter().map(|bucket| ring.load_of(*bucket)).sum(),
            latency: ring.sights.agreement(group.members.iter().copied()),
        })
    }

    /// A node that asked one group after the other may be in two: it asks all but one to let it go, once it is sure. Whoever was sent from one to
    /// another may hear from the latter first.
    fn leave_all_but_one(&mut self, now: Time, out: &mut Out) {
        let me = self.config.me.id;
        if self.config.limits.breaks(Mutant::InTwoGroups) {
            return;
        }
        let Some(ring) = self.ring_mut() else { return };
        let mut leaving = core::mem::take(&mut ring.leaving);
        let mut groups = ring.groups_with(me);
        leaving.retain(|id, _| groups.len() > 1 && groups.iter().any(|group| group.name.id == *id));
        // Else whoever hears of its half of a group that has split would leave that half for what the group was.
        groups.retain(|group| ring.is_whole(group));
        // Halves have other names than what they were of: by name alone the group that was asked before would be the one to stay in, and both might
        // let it go.
        groups.sort_by_key(|group| (leaving.contains_key(&group.name.id), group.name.id));
        let others = || groups.iter().skip(1);
        others().for_each(|group| _ = leaving.entry(group.name.id).or_insert(now));
        let is_sure = |group: &&&Group| now.since(leaving[&group.name.id]) >= SURE;
        let homes: Vec<Bucket> = others().filter(is_sure).map(|group| ring.home(group)).collect();
        ring.leaving = leaving;
        for home in homes {
            match self.believed_leader(home) {
                Some(leader) if leader == me => self.on_leaves_group(home, me, true),
                // A question; nothing about this node's disk is told.
                Some(leader) => out.send_early(leader, Message::Group(Box::new(Word::Twice)).about(home)),
                None => {}
            }
        }
    }

    /// A node that is to be emptied asks its group to let it go.
    fn ask_to_leave(&mut self, now: Time, home: Bucket, out: &mut Out) {
        let (me, leader) = (self.config.me.id, self.believed_leader(home));
        let Some(ring) = self.ring_mut().filter(|ring| ring.drained) else { return };
        ring.asked_at = now;
        match leader {
            Some(leader) if leader == me => drop(ring.leavers.insert((home, me), false)),
            // A question; nothing about this node's disk is told.
            Some(leader) => out.send_early(leader, Message::Group(Box::new(Word::Leaves)).about(home)),
            None => {}
        }
    }

    pub(crate) fn on_leaves_group(&mut self, home: Bucket, from: NodeId, is_twice: bool) {
        if let Some(ring) = self.ring_mut().filter(|ring| ring.leavers.len() < JOINERS_MAX) {
            ring.leavers.insert((home, from), is_twice);
        }
    }

    /// A node wants to be in the group whose home this is.
    pub(crate) fn on_wants_group(&mut self, home: Bucket, from: NodeId) {
        if let Some(ring) = self.ring_mut().filter(|ring| ring.joiners.len() < JOINERS_MAX) {
            ring.joiners.insert((home, from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use alloc::sync::Arc;
    use quorate_kernel::Effect;

    /// About which homes a node asks to be let go because it is in another group as well, and whom.
    fn asked(node: &mut Node, now: Time) -> Vec<(Bucket, NodeId)> {
        fixture::at(now, |_, out| {
            node.leave_all_but_one(now, out);
            let asked = out.drain().filter_map(|effect| match effect {
                Effect::Send { to, msg: Message::In(bucket, msg), .. } => match *msg {
                    Message::Group(word) if *word == Word::Twice => Some((bucket, to)),
                    _ => None,
                },
                _ => None,
            });
            asked.collect()
        })
    }

    /// Both groups let a node go that asked one, and the other once the first had split and its half had a greater name.
    #[test]
    fn who_is_in_two_groups_asks_one_of_them_only_once_it_is_sure() {
        let mut node = fixture::node(9, &[]);
        let learn = |node: &mut Node, group: Group| drop(node.ring_mut().unwrap().learn(&Arc::new(group)));
        learn(&mut node, fixture::group(70, (1, 4), &[2, 9]));
        learn(&mut node, fixture::group(80, (4, 1), &[3, 9]));
        [(1, 2), (4, 3)].into_iter().for_each(|(bucket, by)| fixture::hear_leader(&mut node, bucket, by));
        let after = |span: Duration| Time(1) + span;
        assert_eq!(asked(&mut node, after(Duration::ZERO)), []);
        assert_eq!(asked(&mut node, after(SURE / 2)), [], "it may be heard any time that one has let it go");
        let other = [(Bucket(4), NodeId(3))];
        assert_eq!(asked(&mut node, after(SURE)), other, "the one with the greater name");
        let mut half = fixture::group(90, (1, 4), &[2, 9]);
        half.name.epoch += 1;
        learn(&mut node, half);
        assert_eq!(
            asked(&mut node, after(SURE * 2)),
            other,
            "though its name is not the greater one any more"
        );
        let mut without = fixture::group(80, (4, 1), &[3]);
        without.name.epoch += 1;
        learn(&mut node, without);
        assert_eq!(asked(&mut node, after(SURE * 4)), []);
        assert!(node.ring().unwrap().leaving.is_empty(), "what it left is forgotten");
    }

    #[test]
    fn no_more_nodes_wait_for_a_group_than_are_remembered() {
        let mut node = fixture::node(9, &[]);
        (0..2 * JOINERS_MAX as u64).for_each(|id| node.on_wants_group(Bucket(0), NodeId(id)));
        assert_eq!(node.ring().unwrap().joiners.len(), JOINERS_MAX);
    }
}
