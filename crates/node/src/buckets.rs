//! The buckets of a node: how many there are; of those it leads, who their members are and who should lead.
//!
//! They follow the charter (`placing.rs`). Without one the members of bucket 0 are those of the cluster, and every bucket
//! follows them; bucket by bucket another member should lead, so that the load is spread.

use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;
use quorate_api::{Bucket, Refusal};
use quorate_kernel::{Cx, Event, NodeId, Time};
use quorate_replog::{self as replog, Member};
use quorate_shard as shard;

use crate::admin::Asker;
use crate::config::{BUCKETS_MAX, Topology};
use crate::machine::{Node, Out};
use crate::placing::member_ids;
use crate::roster::Roster;

/// Of many buckets so many write down again what they need for each that has written its share.
const TIDIED_AT_ONCE: u64 = 8;
/// Between two times that the same node is asked to lead a bucket. Long beside an election: it may just have failed to.
const HAND_AGAIN: Duration = Duration::from_secs(2);
/// Whoever has just come to lead a bucket of a ring keeps it for so many round trips to the node that is due. In a ring others are due all the time, and each
/// handover costs the requests under way a round trip or two.
const LEADS_TRIPS: u32 = 20;
/// But no longer than this, and so long while the way is not known.
const LEADS_MIN: Duration = Duration::from_secs(3);

impl Node {
    /// The cluster that this node is about to join has so many buckets, and copies of each. It has heard of no leader yet, so nothing that
    /// its clients want has been sent; what waits was placed as if there were fewer buckets, and is refused.
    pub(crate) fn learn_shape(
        &mut self,
        cx: &mut Cx<'_>,
        count: NonZeroU16,
        (copies, topology): (u8, Topology),
        out: &mut Out,
    ) {
        let known = self.config.buckets.get();
        let is_new = self.log().epoch().number == 0 && self.log().believed_leader().is_none();
        if count.get() < known || count.get() > BUCKETS_MAX || !is_new || self.roster.is_some() {
            return cx.marks.hit("node.buckets.told_late");
        }
        for bucket in self.asked.clone() {
            // A connection's next request begins when the one before it has ended: each round ends some.
            for _ in 0..self.lane(bucket).awaited() {
                let lane = self.lane(bucket);
                let mut ends = lane.origin.refuse_unsent(Refusal::NotServing);
                ends.extend(lane.reads.overdue(Duration::ZERO, cx.now));
                self.reply(cx, bucket, ends, out);
            }
        }
        self.config.buckets = count;
        (self.config.copies, self.config.topology) = (copies, topology);
        self.roster = Roster::new(&self.config);
        for bucket in (known..count.get()).map(Bucket) {
            if self.roster.is_none() {
                self.make_replica(bucket, Vec::new());
                self.step_shard(cx, bucket, Event::Start, out);
            }
        }
        if self.roster.is_some() {
            self.begin_roster(cx, out);
        }
        cx.marks.hit("node.buckets.learnt");
    }

    /// Looks after the buckets that this node leads.
    pub(crate) fn look_after_buckets(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.look_after_records(cx, out);
        let several = self.config.buckets.get() > 1 || self.roster.is_some();
        let here: Vec<Bucket> = self.buckets().collect();
        for bucket in here {
            if self.roster.is_some() {
                self.follow_charter(cx, bucket, out);
            } else if let Some((add, remove)) = self.members_due(bucket) {
                let ticket = self.next_ticket();
                self.changes.insert(ticket, Asker::Follower(bucket));
                cx.marks.hit("node.bucket.follows");
                self.change(cx, bucket, (ticket, add, remove), out);
                continue;
            }
            if several && let Some(to) = self.leader_due(cx.now, bucket) {
                cx.marks.hit("node.bucket.balanced");
                self.step_shard(cx, bucket, Event::Input(shard::Input::Transfer(Some(to))), out);
            }
        }
    }

    /// Sees to it that no bucket holds up old records of all because it has few new ones of its own.
    fn look_after_records(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let turns = (self.replicas.len() as u64 / TIDIED_AT_ONCE).max(2);
        let (persisted, most) = (self.persisted_bytes, turns * self.config.log.checkpoint_bytes as u64);
        let here: Vec<Bucket> = self.buckets().collect();
        for bucket in here {
            let Some(replica) = self.replicas.get_mut(&bucket) else { continue };
            if replica.needs.is_some() && persisted - replica.tidied_at > most {
                replica.tidied_at = persisted;
                cx.marks.hit("node.bucket.checkpoint");
                self.step_shard(cx, bucket, Event::Input(shard::Input::Log(replog::Input::Checkpoint)), out);
            }
        }
    }

    /// Who is to join and to leave a bucket that this node leads.
    fn members_due(&self, bucket: Bucket) -> Option<(Vec<Member>, Vec<NodeId>)> {
        let replica = self.replicas.get(&bucket).filter(|_| bucket != Bucket(0))?;
        let (log, wanted) = (replica.log(), self.log().epoch());
        let under_way = self.changes.values().any(|asker| *asker == Asker::Follower(bucket));
        let epoch = log.epoch();
        // Every step of a bucket follows one of bucket 0, or several: whoever has seen fewer of these is late.
        if under_way || !log.is_ready() || !log.can_propose() || epoch.number >= wanted.number {
            return None;
        }
        let add: Vec<Member> =
            wanted.members.iter().filter(|member| !epoch.members.contains(member)).cloned().collect();
        let remove: Vec<NodeId> =
            epoch.members.iter().map(|member| member.id).filter(|id| !wanted.has(*id)).collect();
        (!add.is_empty() || !remove.is_empty()).then_some((add, remove))
    }

    /// Who should lead a bucket in the place of this node, and could at once; whoever was just asked to and does not is left alone for a while.
    fn leader_due(&mut self, now: Time, bucket: Bucket) -> Option<NodeId> {
        let replica = self.replicas.get(&bucket).filter(|replica| replica.leads)?;
        let (log, handed) = (replica.log(), replica.handed);
        let due = match self.roster {
            Some(_) => self.leader_by_charter(bucket)?,
            None => {
                let ids = member_ids(log);
                *ids.get(usize::from(bucket.0) % ids.len().max(1))?
            }
        };
        let has_just_come = self.ring().is_some_and(|ring| {
            let round_trips = ring.sights.way(due).map(|way| way * LEADS_TRIPS);
            now.since(replica.led_since) < round_trips.map_or(LEADS_MIN, |trips| trips.min(LEADS_MIN))
        });
        let was_asked = handed.is_some_and(|(to, at)| to == due && now.since(at) < HAND_AGAIN);
        if due == self.config.me.id || was_asked || has_just_come {
            return None;
        }
        let prompt = log.progress().iter().any(|(id, matched)| *id == due && *matched >= log.chosen());
        if !(log.is_ready() && prompt && self.connected.contains(&due)) {
            return None;
        }
        self.replicas.get_mut(&bucket)?.handed = Some((due, now));
        Some(due)
    }
}
