//! This node's copy of a bucket, and whom it owes answers.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, NodeId, Position, Time};
use quorate_replog::{self as replog, Replog};
use quorate_shard::{Mutant, Shard};

use crate::errands::Errands;
use crate::interface::Member;
use crate::load::Meter;
use crate::machine::{Node, Out};

/// A member change that brings a bucket in line with a placement, or with its group.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) ticket: u64,
    /// Number of the placement, or the group's epoch.
    pub(crate) number: u64,
    /// Who becomes a member.
    pub(crate) add: Vec<NodeId>,
    /// Who is one no more.
    pub(crate) remove: Vec<NodeId>,
    /// Whoever is not ready then is left out, if others are.
    pub(crate) late_at: Time,
}

/// A copy of a bucket.
#[derive(Debug)]
pub(crate) struct Replica {
    /// Boxed, since a map keeps room for several copies for each that is there.
    pub(crate) shard: Box<Shard>,
    /// Reads that this node answers: by the shard's ticket, who asked and under which name.
    pub(crate) asked_by: BTreeMap<u64, (NodeId, u64)>,
    /// What other nodes ask of it while another leads.
    pub(crate) errands: Errands,
    /// Nodes whose batches this one did not take. They are told when it does.
    pub(crate) turned_away: BTreeSet<NodeId>,
    /// Whether it leads, and whether it takes batches: what its machine says, kept where all copies are looked through.
    pub(crate) leads: bool,
    pub(crate) takes: bool,
    /// Whether it took batches after the last step.
    pub(crate) took: bool,
    /// The oldest record on this node's disk that the bucket needs; `None`: it has none there.
    pub(crate) needs: Option<Position>,
    /// Bytes of records that this node had persisted when the bucket let go of some last, or was asked to.
    pub(crate) tidied_at: u64,
    /// The member change that brings it in line with a placement, or with its group.
    pub(crate) following: Option<Following>,
    /// The ticket of the last one.
    pub(crate) follows: Option<u64>,
    /// When this node, leading, last noted something or began to change the members.
    pub(crate) followed_at: Time,
    /// The number of the placement that asked for it, and the mark at that time.
    pub(crate) followed: (u64, u64),
    /// When this node last reported how the log is.
    pub(crate) reported_at: Time,
    /// Since when no leader of it is known.
    pub(crate) leaderless_since: Option<Time>,
    /// Since when this node leads it, if it does.
    pub(crate) led_since: Time,
    /// Whom this node, leading, asked to lead last, and when.
    pub(crate) handed: Option<(NodeId, Time)>,
    /// What it is asked.
    pub(crate) meter: Meter,
}

impl Replica {
    pub(crate) fn new(shard: Shard) -> Self {
        Replica {
            shard: Box::new(shard),
            asked_by: BTreeMap::new(),
            errands: Errands::default(),
            turned_away: BTreeSet::new(),
            leads: false,
            takes: false,
            took: false,
            needs: None,
            tidied_at: 0,
            following: None,
            follows: None,
            followed_at: Time::default(),
            followed: (0, 0),
            reported_at: Time::default(),
            leaderless_since: None,
            led_since: Time::default(),
            handed: None,
            meter: Meter::default(),
        }
    }

    pub(crate) fn log(&self) -> &Replog {
        self.shard.log()
    }

    /// Its machine has made a step.
    pub(crate) fn stepped(&mut self) {
        (self.leads, self.takes) = (self.shard.log().leads(), self.shard.takes_batches());
    }
}

impl Node {
    /// Begins the copies that this node has as a founder; they count only if nothing survives of an earlier life.
    pub(crate) fn found_replicas(&mut self, buckets: impl Iterator<Item = Bucket>) {
        for bucket in buckets {
            let holds = |member: &&Member| match (&self.roster, self.placement()) {
                (Some(_), Some(placement)) => placement.members(bucket).contains(&member.id),
                (Some(roster), None) => roster.ring.is_some(),
                (None, _) => true,
            };
            let founders = self.config.bootstrap.iter().filter(holds);
            let founders: Vec<_> = founders.map(crate::admin::to_log_member).collect();
            // A copy of bucket 0, though it may stay empty, says what there is to say of the log.
            if founders.iter().any(|founder| founder.id == self.config.me.id) {
                self.make_replica(bucket, founders);
            } else if self.roster.is_none() || bucket == Bucket(0) {
                self.make_replica(bucket, Vec::new());
            }
        }
    }

    /// Begins a copy of a bucket, if there is none.
    pub(crate) fn make_replica(&mut self, bucket: Bucket, founders: Vec<replog::Member>) {
        let config = &self.config;
        self.replicas.entry(bucket).or_insert_with(|| {
            let settings = replog::Config { log: bucket.0, ..config.log.clone() };
            let log = Replog::new(config.me.id, settings, founders);
            Replica::new(Shard::new(log, config.limits.of_bucket(bucket, config.buckets)))
        });
    }

    /// Begins a copy of a bucket because its leader says that there should be one.
    pub(crate) fn open_replica(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        if !self.replicas.contains_key(&bucket) {
            cx.marks.hit("node.bucket.opened");
            self.make_replica(bucket, Vec::new());
            self.step_shard(cx, bucket, Event::Start, out);
        }
    }

    /// A bucket, or the membership, needs nothing before `position`, where it needed what came after `before`: lets go of what nobody needs any more.
    pub(crate) fn discard(&mut self, before: Option<Position>, position: Position, out: &mut Out) {
        if before.is_some_and(|before| before > self.needed) {
            // Others need what is older.
            return;
        }
        let of_roster = self.roster.as_ref().and_then(|roster| roster.needs);
        let needs = self.replicas.values().filter_map(|replica| replica.needs);
        let mut needed = needs.chain(of_roster).min();
        if self.config.limits.breaks(Mutant::DiscardForOthers) {
            needed = Some(position);
        }
        self.needed = needed.unwrap_or(self.needed);
        if let Some(needed) = needed.filter(|needed| *needed > self.discarded) {
            self.discarded = needed;
            out.discard(needed);
        }
    }
}
