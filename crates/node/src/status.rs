//! How a node sees itself and its cluster.

use quorate_api::Bucket;

use crate::admin::from_log_member;
use crate::interface::Status;
use crate::machine::Node;

impl Node {
    /// This node's view of itself and its cluster, for operators. The driver adds what only it knows: the bytes of the
    /// store.
    pub fn status(&self) -> Status {
        let log = self.log();
        let epoch = log.epoch();
        let view = self.roster.as_ref().map(|roster| roster.view().map_or(0, |view| view.id.seq));
        let role = match (log.leads(), log.is_member(), log.is_retired()) {
            _ if view == Some(0) => "joining",
            _ if view.is_some() && self.leads_any() => "leader",
            _ if view.is_some() => "member",
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
            believed_leader: self.believed_leader(Bucket(0)),
            epoch: view.unwrap_or(epoch.number),
            members: match &self.roster {
                Some(roster) => roster.members(),
                None => epoch.members.iter().map(from_log_member).collect(),
            },
            learners: log.learners(),
            log_last: log.last(),
            log_chosen: log.chosen(),
            log_applied: log.applied(),
            log_first: log.base() + 1,
            keys: self.replicas.values().map(|replica| replica.shard.state().keys).sum(),
            store_bytes: 0,
            requests_pending: self.pending() as u64,
            followers: log.progress(),
        }
    }

    /// Whether this node would serve a strict request now.
    pub fn is_ready(&self) -> bool {
        let is_led = |bucket: Bucket| match self.replicas.get(&bucket) {
            Some(replica) if replica.log().leads() => replica.shard.takes_batches(),
            _ => self.believed_leader(bucket).is_some(),
        };
        let is_member = match &self.roster {
            Some(roster) => roster.view().is_some(),
            None => self.log().is_member(),
        };
        is_member && !self.stopping && self.every_bucket().all(is_led)
    }
}
