//! How a node sees itself and its cluster.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_buckets::Placement;
use quorate_commit::{Ledger, LogId, Record, State};
use quorate_kernel::NodeId;
use quorate_membership::Agreement;

use crate::admin::from_log_member;
use crate::interface::{BucketStatus, Map, Member, Status};
use crate::machine::Node;

impl Node {
    /// This node's view of itself and its cluster, for operators. The driver adds what only it knows: the bytes of the
    /// store.
    pub fn status(&self) -> Status {
        let log = self.log();
        let epoch = log.epoch();
        let view = self.roster.as_ref().map(|_| self.view_number());
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
            copies: self
                .placement()
                .map_or(if self.ring().is_some() { self.config.copies } else { 0 }, Placement::copies),
            members: self.members(),
            learners: log.learners(),
            log_last: log.last(),
            log_chosen: log.chosen(),
            log_applied: log.applied(),
            log_first: log.base() + 1,
            keys: self.replicas.values().map(|replica| replica.shard.state().keys).sum(),
            store_bytes: 0,
            requests_pending: self.pending() as u64,
            followers: log.progress(),
            groups: self.group_statuses(),
            buckets: self.map().buckets,
        }
    }

    /// What this node waits for to agree with the others who of them is there; `None` if for nothing.
    pub fn agreement(&self) -> Option<Agreement> {
        self.roster.as_ref()?.membership.as_ref()?.agreement()
    }

    /// Who leads and holds which slots, as far as this node knows.
    pub fn map(&self) -> Map {
        let me = self.config.me.id;
        let members = self.members();
        let is_reachable = |id: &NodeId| *id == me || self.connected.contains(id);
        let reachable = members.iter().map(|member| member.id).filter(is_reachable).collect();
        let buckets = self.every_bucket().map(|bucket| self.bucket_status(bucket)).collect();
        let epoch = match &self.roster {
            Some(_) => self.view_number(),
            None => self.log().epoch().number,
        };
        Map { epoch, members, reachable, buckets }
    }

    /// Number of what this node knows of who is there, of the view or of the groups; 0: it does not belong to the cluster yet.
    pub(crate) fn view_number(&self) -> u64 {
        let Some(roster) = &self.roster else { return 0 };
        match &roster.ring {
            Some(ring) => ring.groups().map(|group| group.name.epoch).max().unwrap_or_default(),
            None => roster.view().map_or(0, |view| view.id.seq),
        }
    }

    /// The members of the cluster.
    fn members(&self) -> Vec<Member> {
        match &self.roster {
            Some(roster) if roster.ring.is_none() => roster.members(),
            Some(_) => self.company(),
            None => self.log().epoch().members.iter().map(from_log_member).collect(),
        }
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
            halt: self.halt_status(bucket),
        };
        let copy =
            self.replicas.get(&bucket).filter(|replica| self.roster.is_none() || replica.log().holds());
        status.members = match (copy, self.placement()) {
            (Some(replica), _) => replica.log().epoch().members.iter().map(|member| member.id).collect(),
            (None, Some(placement)) => placement.members(bucket).to_vec(),
            (None, None) => {
                let group = self.ring().and_then(|ring| ring.group_of(bucket));
                group.map(|group| group.members.clone()).unwrap_or_default()
            }
        };
        let counts = |id: NodeId| id == self.config.me.id || self.connected.contains(&id);
        let majority = status.members.iter().filter(|id| counts(**id)).count() * 2 > status.members.len();
        status.quorum = majority && self.is_led(bucket) && status.believed_leader.is_some_and(counts);
        let Some(replica) = copy else { return status };
        let log = replica.log();
        status.here = log.is_member();
        status.epoch = log.epoch().number;
        (status.log_last, status.log_chosen, status.log_applied) = (log.last(), log.chosen(), log.applied());
        status.keys = replica.shard.state().keys;
        status
    }

    /// How many transactions buckets that this node leads have agreed to and wait with for the outcome that this bucket has.
    pub(crate) fn blocked_by(&self, bucket: Bucket) -> u64 {
        let coordinator = LogId(bucket.0.into());
        let led = self.replicas.values().filter(|replica| replica.leads);
        let ledgers = led.map(|replica| replica.shard.commitment().ledger());
        let unfinished = ledgers.filter(|ledger| ledger.unfinished() > 0).flat_map(Ledger::records);
        let waits = |record: &Record| {
            record.transaction.coordinator == coordinator && matches!(record.state, State::Prepared(_))
        };
        unfinished.filter(|(_, record)| waits(record)).count() as u64
    }

    /// Whether this node would serve a strict request now.
    pub fn is_ready(&self) -> bool {
        let is_member = match &self.roster {
            Some(_) => self.view_number() > 0,
            None => self.log().is_member(),
        };
        // What is halted may stay so for long; the others are served.
        let all: Vec<Bucket> = match self.ring().map(|ring| (ring, ring.group_with(self.config.me.id))) {
            // In a large ring somebody is always about to lead something, far away.
            Some((ring, Some(own))) => ring.buckets(own),
            Some((ring, None)) => ring.buckets_known().collect(),
            None => self.every_bucket().collect(),
        };
        let mut served = all.into_iter().filter(|bucket| self.halt(*bucket).is_none()).peekable();
        let is_any = served.peek().is_some();
        is_member && !self.stopping && is_any && served.all(|bucket| self.is_led(bucket))
    }

    /// Whether somebody leads a bucket who takes requests, as far as this node knows.
    pub(crate) fn is_led(&self, bucket: Bucket) -> bool {
        match self.replicas.get(&bucket) {
            Some(replica) if replica.log().leads() => replica.shard.takes_batches(),
            Some(_) | None => self.believed_leader(bucket).is_some(),
        }
    }
}
