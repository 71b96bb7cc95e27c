//! How a node sees itself and its cluster.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_kernel::NodeId;

use crate::admin::from_log_member;
use crate::interface::{BucketStatus, Map, Member, Status};
use crate::machine::Node;
use crate::replica::Replica;

impl Node {
    /// This node's view of itself and its cluster, for operators. The driver adds what only it knows: the bytes of the
    /// store.
    pub fn status(&self) -> Status {
        let log = self.log();
        let epoch = log.epoch();
        let role = match (log.leads(), log.is_member(), log.is_retired()) {
            (true, ..) => "leader",
            (_, _, true) => "retired",
            (_, true, _) if log.believed_leader().is_some() => "follower",
            (_, true, _) => "candidate",
            (_, false, _) if epoch.number == 0 => "joining",
            (_, false, _) => "learner",
        };
        Status {
            id: self.config.me.id,
            role: role.into(),
            ready: self.is_ready(),
            believed_leader: log.believed_leader(),
            epoch: epoch.number,
            members: epoch.members.iter().map(from_log_member).collect(),
            learners: log.learners(),
            log_last: log.last(),
            log_chosen: log.chosen(),
            log_applied: log.applied(),
            log_first: log.base() + 1,
            keys: self.replicas.values().map(|replica| replica.shard.state().keys).sum(),
            store_bytes: 0,
            requests_pending: self.pending() as u64,
            followers: log.progress(),
            buckets: self.map().buckets,
        }
    }

    /// Who leads and holds which slots, as far as this node knows.
    pub fn map(&self) -> Map {
        let epoch = self.log().epoch();
        let me = self.config.me.id;
        let members: Vec<Member> = epoch.members.iter().map(from_log_member).collect();
        let is_reachable = |id: &NodeId| *id == me || self.connected.contains(id);
        let reachable = members.iter().map(|member| member.id).filter(is_reachable).collect();
        let buckets = self.every_bucket().map(|bucket| self.bucket_status(bucket)).collect();
        Map { epoch: epoch.number, members, reachable, buckets }
    }

    /// Whom this node believes to lead each bucket, in their order.
    pub fn believed_leaders(&self) -> impl Iterator<Item = Option<NodeId>> + '_ {
        self.every_bucket().map(|bucket| self.believed_leader(bucket))
    }

    fn bucket_status(&self, bucket: Bucket) -> BucketStatus {
        let slots = bucket.slots(self.config.buckets);
        let mut status = BucketStatus {
            bucket,
            slot_first: slots.start,
            slot_last: slots.end - 1,
            believed_leader: self.believed_leader(bucket),
            members: Vec::new(),
            quorum: false,
            here: false,
            epoch: 0,
            log_last: 0,
            log_chosen: 0,
            log_applied: 0,
            keys: 0,
        };
        let Some(replica) = self.replicas.get(&bucket) else { return status };
        let log = replica.log();
        let members = &log.epoch().members;
        let counts = |id: NodeId| id == self.config.me.id || self.connected.contains(&id);
        let majority = members.iter().filter(|member| counts(member.id)).count() * 2 > members.len();
        status.members = members.iter().map(|member| member.id).collect();
        status.quorum = majority && is_led(replica) && status.believed_leader.is_some_and(counts);
        status.here = log.is_member();
        status.epoch = log.epoch().number;
        (status.log_last, status.log_chosen, status.log_applied) = (log.last(), log.chosen(), log.applied());
        status.keys = replica.shard.state().keys;
        status
    }

    /// Whether this node would serve a strict request now.
    pub fn is_ready(&self) -> bool {
        self.replicas.values().all(is_led) && self.log().is_member() && !self.stopping
    }
}

/// Whether somebody leads a bucket who takes requests, as far as its copy here knows.
fn is_led(replica: &Replica) -> bool {
    match replica.log().leads() {
        true => replica.shard.takes_batches(),
        false => replica.log().believed_leader().is_some(),
    }
}
