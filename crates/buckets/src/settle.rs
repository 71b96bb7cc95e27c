//! What logs report of themselves; buckets that lost their majority, and their recovery.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_quorum::majority_of;

use crate::node::{MEMBERS_MAX, Misfit};
use crate::placement::{Placement, sorted};

/// A bucket without a majority: nothing can be agreed in its log. It answers nothing until members come back, or until somebody
/// [recovers](Placement::recover) it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub bucket: Bucket,
    /// Those who hold it, or were about to, and are still there.
    pub survivors: Vec<NodeId>,
    /// Those who may hold what no survivor has.
    pub gone: Vec<NodeId>,
}

/// What an operator accepted who recovered a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Which.
    pub bucket: Bucket,
    /// Its slots: what may be missing is in these.
    pub slots: Range<u16>,
    /// The members with whose copies it goes on; the one whose log reaches furthest should start it. If there are none,
    /// everything in these slots is missing.
    pub from: Vec<NodeId>,
    /// Writes that were acknowledged by these alone are missing.
    pub gone: Vec<NodeId>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { bucket, survivors, gone } = self;
        write!(f, "bucket {} has lost its majority: {survivors:?} are left, {gone:?} are gone", bucket.0)
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovered { bucket, slots, from, gone } = self;
        let (first, last) = (slots.start, slots.end.saturating_sub(1));
        if from.is_empty() {
            return write!(
                f,
                "bucket {} starts empty: all keys of slots {first} to {last} are missing",
                bucket.0
            );
        }
        write!(
            f,
            "bucket {} goes on with what {from:?} have: in slots {first} to {last}, writes that only {gone:?} acknowledged \
             are missing",
            bucket.0
        )
    }
}

impl Placement {
    /// What the log of a bucket is: its members, and the mark it keeps. The bucket's leader reports it when the log was brought in
    /// line, and a node whose log can elect nobody reports it to have it known. Reports older than the last are ignored.
    ///
    /// If those members have no majority among the nodes, the bucket is halted from now on, and this is returned. If they have
    /// one, it is not: the log knows better than the placement.
    ///
    /// # Errors
    /// If no log can be so.
    pub fn settle(&mut self, bucket: Bucket, mark: u64, log: &[NodeId]) -> Result<Option<Lost>, Misfit> {
        let holders = sorted(log.to_vec());
        let number = self.number();
        let index = usize::from(bucket.0);
        let place = self.places.get_mut(index).ok_or(Misfit::UnknownBucket(bucket))?;
        if holders.is_empty() || holders.len() > MEMBERS_MAX || mark > number {
            return Err(Misfit::Report(bucket));
        }
        if mark < place.mark || (mark == place.mark && holders == place.holders) {
            return Ok(None);
        }
        (place.holders, place.mark) = (holders, mark);
        self.count_on();
        let place = &self.places[index];
        if !self.lacks_majority(&place.holders) {
            self.places[index].gone = None;
            return Ok(None);
        }
        let was_halted = place.is_halted();
        let gone = place.holders.iter().copied().filter(|id| !self.has(*id)).collect();
        self.places[index].gone = Some(gone);
        Ok(self.lost_at(index).filter(|_| !was_halted))
    }

    /// Whether a log that is as it was reported last, and in which nobody has led for long, counts as lost: too few of its members are
    /// nodes. While somebody may lead it, it may have other members by now.
    pub fn is_stalled(&self, bucket: Bucket, mark: u64, log: &[NodeId]) -> bool {
        self.places.get(usize::from(bucket.0)).is_some_and(|place| {
            mark == place.mark && place.holders == log && !place.is_halted() && self.lacks_majority(log)
        })
    }

    /// Nobody has led the log of a bucket for long, and it is so: if that [means it is lost](Placement::is_stalled), the bucket is
    /// halted, and this is returned.
    pub fn stall(&mut self, bucket: Bucket, mark: u64, log: &[NodeId]) -> Option<Lost> {
        if !self.is_stalled(bucket, mark, log) {
            return None;
        }
        self.count_on();
        let index = usize::from(bucket.0);
        let gone = log.iter().copied().filter(|id| !self.has(*id)).collect();
        self.places[index].gone = Some(gone);
        self.lost_at(index)
    }

    /// What the log of a bucket was when it was reported last: its mark, and its members by id.
    pub fn reported(&self, bucket: Bucket) -> (u64, &[NodeId]) {
        self.places.get(usize::from(bucket.0)).map_or((0, &[]), |place| (place.mark, &place.holders))
    }

    /// The buckets without a majority.
    pub fn halted(&self) -> impl Iterator<Item = Lost> + '_ {
        (0..self.places.len()).filter_map(|index| self.lost_at(index))
    }

    /// Lets a halted bucket go on with what its survivors have, and says what may be missing. Only an operator may decide this.
    ///
    /// # Errors
    /// If the bucket is not halted.
    pub fn recover(&mut self, bucket: Bucket) -> Result<Recovered, Misfit> {
        let index = usize::from(bucket.0);
        if index >= self.places.len() {
            return Err(Misfit::UnknownBucket(bucket));
        }
        let Lost { mut survivors, gone, .. } = self.lost_at(index).ok_or(Misfit::NotHalted(bucket))?;
        survivors.truncate(MEMBERS_MAX);
        let number = self.count_on();
        let place = &mut self.places[index];
        place.members.clone_from(&survivors);
        place.holders = sorted(survivors.clone());
        (place.since, place.mark, place.gone) = (number, number, None);
        Ok(Recovered { bucket, slots: bucket.slots(self.bucket_count()), from: survivors, gone })
    }

    pub(crate) fn lost_at(&self, index: usize) -> Option<Lost> {
        let place = &self.places[index];
        let gone = place.gone.clone()?;
        let holds = |id: &&NodeId| place.holders.binary_search(id).is_ok();
        let mut survivors: Vec<NodeId> = place.members.iter().filter(holds).copied().collect();
        // Those who were taken out but are still there have the data, whoever was about to become a member may have some.
        survivors.extend(place.holders.iter().filter(|id| self.has(**id) && !place.members.contains(id)));
        survivors.extend(place.members.iter().filter(|id| !holds(id)));
        Some(Lost { bucket: Bucket(index as u16), survivors, gone })
    }

    /// Whether too few of `list` are nodes to agree on anything.
    pub(crate) fn lacks_majority(&self, list: &[NodeId]) -> bool {
        list.iter().filter(|id| self.has(**id)).count() < majority_of(list.len())
    }
}
