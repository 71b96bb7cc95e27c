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
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cell::OnceCell;
use core::num::NonZeroU16;
use quorate_api::Bucket;
use quorate_buckets::Due;
use quorate_groups::lifetimes::Seen;
use quorate_groups::preset::Preset;
use quorate_groups::{Group, GroupId, Line, Seat, Which};
use quorate_kernel::{NodeId, Time, wire};
use serde::{Deserialize, Serialize};

use crate::admin::Asker;
use crate::config::{NodeConfig, Topology};
use crate::govern::Effort;
use crate::handing::Handing;
use crate::journal::{Begun, Journal};
use crate::people::{People, Person};
use crate::policies::Sights;
use crate::routing::Found;

/// The note that names the group whose home a bucket is; those of its neighbours follow.
const SEAT: u8 = 2;

/// A log does without members that are gone as long as so many are left.
const WITHOUT_GONE_MIN: usize = 3;

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
    /// To whoever a connection stands to, and now and then: who the sender is, and where.
    Here(Arc<Person>),
    /// Who others are, and where.
    People(Vec<Arc<Person>>),
    /// A question: where are these?
    Who(Vec<NodeId>),
    /// A question that goes from node to node: which group holds this position?
    Seek {
        /// The position.
        position: u64,
        /// The nodes that it went through, the asker first and the sender last.
        path: Vec<NodeId>,
    },
    /// The answer, on the same way back.
    Found(Box<Found>),
    /// From a member that is in another group as well to whoever speaks for its group: let me go.
    Twice,
    /// To whoever a connection stands to, and now and then: how long nodes live, as the sender has seen it or heard of others.
    Lived {
        /// What was seen.
        seen: Seen,
        /// How many members groups should have.
        wanted: u8,
    },
}

/// A bucket, what is asked of it in a second, and who should lead it.
pub(crate) type Figures = (Bucket, u32, Option<NodeId>);

/// What a node knows of groups.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) count: NonZeroU16,
    /// What homes keep, as it was heard last.
    pub(crate) seats: BTreeMap<Bucket, Seat>,
    /// By bucket: the group that it belongs to, as far as that is known.
    groups: BTreeMap<Bucket, Arc<Group>>,
    /// The same, each once, in the order of their buckets: made when somebody asks, as all do several times at every turn,
    /// and again when one of them has changed.
    list: OnceCell<Vec<Arc<Group>>>,
    /// Of how many buckets each group is known to be the one they belong to.
    held: BTreeMap<GroupId, usize>,
    /// The groups that are known, and when something was heard of them last.
    pub(crate) heard: BTreeMap<GroupId, Time>,
    /// Whom this node knows.
    pub(crate) people: People,
    /// Buckets that were looked for of late.
    pub(crate) sought: BTreeMap<Bucket, Time>,
    pub(crate) explored_at: Time,
    /// Buckets that came to another group of late, and when that was looked at first.
    pub(crate) moved: BTreeMap<Bucket, Option<Time>>,
    /// When it was heard last of a group that it has other members than it had.
    pub(crate) members_at: Time,
    /// For whoever speaks for a group: who wants to join it.
    pub(crate) joiners: BTreeSet<(Bucket, NodeId)>,
    /// The same: who wants to leave it, and whether because it is in another.
    pub(crate) leavers: BTreeMap<(Bucket, NodeId), bool>,
    /// Groups that are to let this node go, as it is in another; and since when that is known.
    pub(crate) leaving: BTreeMap<GroupId, Time>,
    /// Whether this node is to be in no group.
    pub(crate) drained: bool,
    /// Who asked for that, and has not been answered.
    pub(crate) drained_for: Option<Asker>,
    /// By bucket: what is asked of it in a second, as was said last.
    pub(crate) loads: BTreeMap<Bucket, u32>,
    /// By bucket: who should lead it, as was said last.
    pub(crate) leaders: BTreeMap<Bucket, NodeId>,
    /// Members of groups of which this node leads buckets that are not there, and since when.
    pub(crate) missing: BTreeMap<NodeId, Time>,
    /// Homes that lack what their neighbours' homes know, and since when that is seen.
    pub(crate) lacking: BTreeMap<Bucket, Time>,
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
    /// The same, as long as it is to be asked again, and how often.
    pub(crate) asks_again: Option<(GroupId, u8)>,
    /// Buckets that are to get other leaders, of groups that this node speaks for.
    pub(crate) handings: Vec<Handing>,
    /// Whether logs may have to follow something that was just learnt.
    pub(crate) is_news: bool,
    /// When this node looked around last.
    pub(crate) looked_at: Time,
    pub(crate) told_at: Time,
    /// Counts how often some were told what homes keep.
    pub(crate) turn: usize,
    pub(crate) asked_at: Time,
    pub(crate) founded_at: Time,
}

/// The note of a line of a seat.
pub(crate) fn note_name(which: Which) -> u8 {
    SEAT + which as u8
}

/// What was new in what a home is said to keep.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// The buckets that belong to another group now, or to one that has changed.
    pub(crate) changed: Vec<Bucket>,
    /// Members that it did not name as far as was known.
    pub(crate) newcomers: BTreeSet<NodeId>,
}

/// Members that a home names now and did not before.
fn newcomers(before: Option<&Seat>, now: &Seat) -> BTreeSet<NodeId> {
    let named =
        |id: &NodeId| before.into_iter().flat_map(Seat::groups).any(|group| group.members.contains(id));
    let members = now.groups().flat_map(|group| group.members.iter().copied());
    members.filter(|id| !named(id)).collect()
}

/// What the note of a line says.
pub(crate) fn note_content(line: &Line) -> Bytes {
    Bytes::from(wire::encode(&(&line.group, line.link)))
}

impl Ring {
    /// What a node begins with; `None` in clusters of another topology.
    pub(crate) fn new(config: &NodeConfig) -> Option<Ring> {
        (config.topology == Topology::Ring).then(|| {
            let mut ring = Ring {
                count: config.buckets,
                seats: BTreeMap::new(),
                groups: BTreeMap::new(),
                list: OnceCell::new(),
                held: BTreeMap::new(),
                heard: BTreeMap::new(),
                people: People::founded(config),
                sought: BTreeMap::new(),
                explored_at: Time::default(),
                moved: BTreeMap::new(),
                members_at: Time::default(),
                joiners: BTreeSet::new(),
                leavers: BTreeMap::new(),
                leaving: BTreeMap::new(),
                drained: false,
                drained_for: None,
                loads: BTreeMap::new(),
                leaders: BTreeMap::new(),
                missing: BTreeMap::new(),
                lacking: BTreeMap::new(),
                efforts: BTreeMap::new(),
                sights: Sights::new(config),
                sampled: Vec::new(),
                journal: Journal::default(),
                asked: None,
                asks_again: None,
                handings: Vec::new(),
                is_news: false,
                looked_at: Time::default(),
                told_at: Time::default(),
                turn: 0,
                asked_at: Time::default(),
                founded_at: Time::default(),
            };
            if !config.bootstrap.is_empty() {
                // Each founder makes the same one; what is agreed is newer.
                drop(ring.learn(&Arc::new(first_group(config))));
            }
            ring
        })
    }

    /// Takes over what a home is said to keep, if it is news.
    pub(crate) fn hear(&mut self, home: Bucket, seat: Seat, now: Time) -> Option<News> {
        let known = self.seats.get(&home);
        let is_news = known.is_none_or(|known| known.age() < seat.age());
        let newcomers = if is_news { newcomers(known, &seat) } else { BTreeSet::new() };
        if is_news && seat.groups().any(|group| self.has_others(group)) {
            self.members_at = now;
        }
        let news = is_news.then(|| {
            let groups = Which::ALL.iter().filter_map(|which| seat.line(*which).group.as_ref());
            News { changed: groups.flat_map(|group| self.learn(group)).collect(), newcomers }
        });
        let own = seat.line(Which::Own).group.as_ref().map(|group| group.name.id);
        if let Some(at) = own.and_then(|own| self.heard.get_mut(&own)) {
            *at = now;
        }
        if is_news {
            self.seats.insert(home, seat);
        }
        news
    }

    /// Whether a group is new, or has other members than were known. Where it begins may have changed as well: then it is new if nothing was known of it.
    fn has_others(&self, group: &Group) -> bool {
        let known = self.group_of(self.home(group)).filter(|known| known.name.id == group.name.id);
        known.map_or(!self.held.contains_key(&group.name.id), |known| known.members != group.members)
    }

    /// Takes over what a group is said to be; the buckets of which that is news.
    pub(crate) fn learn(&mut self, group: &Arc<Group>) -> Vec<Bucket> {
        let is_older = |known: &Arc<Group>| known.name.epoch < group.name.epoch;
        let mut changed = self.buckets(group);
        changed.retain(|bucket| self.groups.get(bucket).is_none_or(is_older));
        for bucket in changed.iter().copied() {
            let known = self.groups.get(&bucket);
            if known.is_some_and(|known| known.name.id != group.name.id) {
                self.moved.insert(bucket, None);
            }
            let before = self.groups.insert(bucket, group.clone());
            self.list.take();
            self.heard.entry(group.name.id).or_default();
            *self.held.entry(group.name.id).or_default() += 1;
            before.into_iter().for_each(|before| self.gave_up(before.name.id));
        }
        changed
    }

    /// A bucket belongs to another group now, or to none that is known. A group is not heard of any more that has none left.
    fn gave_up(&mut self, group: GroupId) {
        let Some(held) = self.held.get_mut(&group) else { return };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&group);
            self.heard.remove(&group);
        }
    }

    /// Nothing is known of a group any more.
    pub(crate) fn forget(&mut self, group: &Group) {
        for bucket in self.buckets(group) {
            if self.groups.get(&bucket).is_some_and(|known| known.name.id == group.name.id) {
                self.groups.remove(&bucket);
                self.gave_up(group.name.id);
                self.loads.remove(&bucket);
                self.leaders.remove(&bucket);
                self.moved.remove(&bucket);
            }
        }
        self.list.take();
        self.heard.remove(&group.name.id);
        self.seats.remove(&self.home(group));
        self.sights.ages.forget(&group.members);
    }

    /// Whether it is known of each bucket to which group it belongs.
    pub(crate) fn knows_all(&self) -> bool {
        self.groups.len() == usize::from(self.count.get())
    }

    /// The buckets of which the group is known.
    pub(crate) fn buckets_known(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.groups.keys().copied()
    }

    /// The group that a bucket belongs to.
    pub(crate) fn group_of(&self, bucket: Bucket) -> Option<&Group> {
        self.groups.get(&bucket).map(|group| &**group)
    }

    /// The groups that buckets belong to, each once, in the order of their buckets.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.list.get_or_init(|| self.listed()).iter().map(|group| &**group)
    }

    fn listed(&self) -> Vec<Arc<Group>> {
        let mut groups: Vec<Arc<Group>> = Vec::new();
        let mut names = BTreeSet::new();
        for group in self.groups.values() {
            // Most follow another bucket of the same.
            let follows = |last: &Arc<Group>| Arc::ptr_eq(last, group) || last.name == group.name;
            if !groups.last().is_some_and(follows) && names.insert(group.name) {
                groups.push(group.clone());
            }
        }
        groups
    }

    /// The group that a node is in.
    pub(crate) fn group_with(&self, node: NodeId) -> Option<&Group> {
        self.groups().find(|group| group.members.contains(&node))
    }

    /// The groups that a node is in: more than one if it asked several, or if what is known of one is old.
    pub(crate) fn groups_with(&self, node: NodeId) -> Vec<&Group> {
        self.groups().filter(|group| group.members.contains(&node)).collect()
    }

    /// Whether what is known of a group may be all there is to know: none of its buckets is known to belong to another by now, or to have followed it
    /// to a later epoch. Of a group that has split one half may be heard of long before the other.
    pub(crate) fn is_whole(&self, group: &Group) -> bool {
        let follows = |bucket: &Bucket| self.group_of(*bucket).is_none_or(|known| known.name == group.name);
        self.buckets(group).iter().all(follows)
    }

    /// The first bucket that is known to belong to a group.
    pub(crate) fn a_bucket(&self, group: &Group) -> Option<Bucket> {
        let is_its = |bucket: &Bucket| self.group_of(*bucket).is_some_and(|known| known.name == group.name);
        self.buckets(group).into_iter().find(is_its)
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
        // The home may begin before the span does.
        let is_before = |bucket: &Bucket| !group.span.contains(bucket.ring_start(self.count));
        let skipped = usize::from(is_before(&Bucket(first)));
        all.skip(skipped).take_while(|bucket| !is_before(bucket)).collect()
    }

    /// What must become of the log of a bucket that has these members and this mark. It does without members that are gone before
    /// their group has agreed to that, since that may take long; but for the last few, who might be there after all.
    pub(crate) fn members_due(
        &self,
        bucket: Bucket,
        log: &[NodeId],
        mark: u64,
        is_gone: impl Fn(NodeId) -> bool,
    ) -> Option<Due> {
        let group = self.group_of(bucket)?;
        let number = group.name.epoch;
        let stay: Vec<NodeId> = group.members.iter().copied().filter(|id| !is_gone(*id)).collect();
        let wanted = if stay.len() < WITHOUT_GONE_MIN { &group.members } else { &stay };
        let add: Vec<NodeId> = wanted.iter().copied().filter(|id| !log.contains(id)).collect();
        let remove: Vec<NodeId> = log.iter().copied().filter(|id| !wanted.contains(id)).collect();
        let in_line = mark == number && add.is_empty() && remove.is_empty();
        (mark <= number && !in_line).then_some(Due { number, add, remove })
    }

    /// Who should lead a bucket whose log has these members.
    pub(crate) fn leader_due(&self, bucket: Bucket, log: &[NodeId]) -> Option<NodeId> {
        let leader = self.leaders.get(&bucket).copied();
        leader.filter(|leader| log.contains(leader))
    }
}

pub(crate) fn first_group(config: &NodeConfig) -> Group {
    Group::founded(config.bootstrap.iter().map(|member| member.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(ids: &[u64]) -> Seat {
        Seat::founded(Group::founded(ids.iter().copied().map(NodeId).collect()))
    }

    #[test]
    fn those_are_newcomers_who_were_not_named_before() {
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<BTreeSet<_>>();
        assert_eq!(newcomers(None, &seat(&[1, 2, 3])), ids(&[1, 2, 3]));
        assert_eq!(newcomers(Some(&seat(&[1, 2, 3])), &seat(&[2, 3, 4, 5])), ids(&[4, 5]));
        assert_eq!(newcomers(Some(&seat(&[1, 2, 3])), &seat(&[1, 2])), ids(&[]));
    }
}
