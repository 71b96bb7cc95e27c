//! Who is to lead which bucket from now on, noted with its reason for operators.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_groups::GroupId;
use quorate_kernel::{NodeId, Time, Wall};

use crate::deeds::{How, What};
use crate::journal::{Begun, Clocks};
use crate::machine::Node;
use crate::motive::{Burden, Motive};

/// Buckets that are to be led by somebody else.
#[derive(Debug)]
pub(crate) struct Handing {
    /// Of the group that holds them.
    home: Bucket,
    buckets: Vec<Bucket>,
    to: NodeId,
    begun: Begun,
}

impl Node {
    /// Whoever speaks for a group is about to name leaders: of the members that are there, one of those that are able. What changes is noted.
    pub(crate) fn note_handings(
        &mut self,
        clocks: Clocks,
        home: Bucket,
        group: GroupId,
        (there, able): (&[NodeId], &[NodeId]),
        due: &[(Bucket, Option<NodeId>)],
    ) {
        let Some(ring) = self.ring() else { return };
        let mut moves: BTreeMap<(Option<NodeId>, NodeId), Vec<Bucket>> = BTreeMap::new();
        let mut burdens: BTreeMap<NodeId, Burden> = BTreeMap::new();
        for (bucket, leader) in due {
            let now = self.believed_leader(*bucket);
            if let Some(now) = now {
                let burden = burdens.entry(now).or_default();
                burden.buckets += 1;
                // Saturates; nobody has that much to do.
                burden.load += ring.load_of(*bucket) as u64;
            }
            let named = ring.leaders.get(bucket).copied();
            match leader {
                Some(to) if Some(*to) != named && Some(*to) != now => {
                    moves.entry((now, *to)).or_default().push(*bucket);
                }
                Some(_) | None => {}
            }
        }
        let burden = |id: NodeId| burdens.get(&id).copied().unwrap_or_default();
        let motive = |from: Option<NodeId>, to: NodeId| match from {
            None => Motive::Leaderless,
            Some(from) if !there.contains(&from) => Motive::LeaderGone,
            Some(from) if !able.contains(&from) => {
                let (agreement_us, fastest_us) = ring.sights.agreements_us(from, there);
                Motive::Slow { agreement_us, fastest_us }
            }
            Some(from) => Motive::Unfair { from: burden(from), to: burden(to) },
        };
        let moves = moves.into_iter().map(|((from, to), buckets)| (from, to, buckets, motive(from, to)));
        let moves: Vec<_> = moves.collect();
        let Some(ring) = self.ring_mut() else { return };
        for (from, to, buckets, motive) in moves {
            let what = What::Lead { group: Some(group), buckets: buckets.clone(), from, to: Some(to) };
            let begun = ring.journal.begin(clocks, what, motive);
            ring.handings.push(Handing { home, buckets, to, begun });
        }
    }

    /// Looks whether those lead who were named, while this node speaks for groups with these homes.
    pub(crate) fn look_at_handings(&mut self, now: Time, homes: &[Bucket]) {
        let Some(ring) = self.ring_mut() else { return };
        let mut stay = Vec::new();
        for handing in core::mem::take(&mut ring.handings) {
            let Some(ring) = self.ring() else { return };
            let named = |bucket: &Bucket| ring.leaders.get(bucket).copied();
            let leads = |bucket: &Bucket| self.believed_leader(*bucket) == Some(handing.to);
            let how = match () {
                () if handing.buckets.iter().all(leads) => How::Done,
                () if !homes.contains(&handing.home) => {
                    How::Unseen("somebody else speaks for the group now".into())
                }
                () if handing.buckets.iter().any(|bucket| named(bucket) != Some(handing.to)) => {
                    How::GivenUp("somebody else was named meanwhile".into())
                }
                () => {
                    stay.push(handing);
                    continue;
                }
            };
            if let Some(ring) = self.ring_mut() {
                ring.journal.end(now, handing.begun, how);
            }
        }
        if let Some(ring) = self.ring_mut() {
            ring.handings = stay;
        }
    }

    /// This node leads a bucket from now on: if somebody else was named, the log chose so.
    pub(crate) fn note_elected(&mut self, wall: Wall, bucket: Bucket) {
        let me = self.config.me.id;
        let Some(ring) = self.ring_mut() else { return };
        let named = ring.leaders.get(&bucket).copied();
        let Some(assigned) = named.filter(|named| *named != me) else { return };
        let group = ring.group_of(bucket).map(|group| group.name.id);
        let what = What::Lead { group, buckets: [bucket].into(), from: Some(assigned), to: Some(me) };
        ring.journal.remark(wall, what, Motive::Elected { assigned }, How::Done);
    }

    /// An operator has this node hand over what it leads.
    pub(crate) fn note_handed_over(&mut self, wall: Wall, to: Option<NodeId>) {
        let me = self.config.me.id;
        let led = self.replicas.iter().filter(|(_, replica)| replica.leads);
        let buckets: Vec<Bucket> = led.map(|(bucket, _)| *bucket).collect();
        let Some(ring) = self.ring_mut() else { return };
        let group = buckets.first().and_then(|bucket| ring.group_of(*bucket)).map(|group| group.name.id);
        let what = What::Lead { group, buckets, from: Some(me), to };
        let how = How::Unseen("whoever takes over says so".into());
        ring.journal.remark(wall, what, Motive::Asked, how);
    }
}
