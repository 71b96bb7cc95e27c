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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use alloc::sync::Arc;

    const CLOCKS: Clocks = (Time(1), Wall { unix_ms: 1, error_ms: 0 });

    /// What was noted, and how it ended.
    fn noted(node: &Node) -> Vec<(Motive, Option<How>)> {
        let deeds = node.journal().unwrap().deeds();
        deeds.map(|deed| (deed.motive.clone(), deed.end.as_ref().map(|end| end.how.clone()))).collect()
    }

    #[test]
    fn who_is_to_lead_is_noted_once_with_why_and_how_it_ended() {
        let mut node = fixture::node(9, &[]);
        node.ring_mut().unwrap().learn(&Arc::new(fixture::group(7, (0, 8), &[2, 3, 4, 9])));
        [(0, 2), (1, 3), (2, 4), (4, 9)]
            .into_iter()
            .for_each(|(bucket, by)| fixture::hear_leader(&mut node, bucket, by));
        // Node 2 is not there, node 3 is slow.
        let (there, able) = ([3, 4, 9].map(NodeId), [4, 9].map(NodeId));
        let due: Vec<(Bucket, Option<NodeId>)> =
            (0..5).map(|bucket| (Bucket(bucket), Some(NodeId(9)))).collect();
        let name = |node: &mut Node| {
            node.note_handings(CLOCKS, Bucket(0), GroupId(7), (&there, &able), &due);
            let named = due.iter().filter_map(|(bucket, leader)| leader.map(|leader| (*bucket, leader)));
            node.ring_mut().unwrap().leaders.extend(named);
        };
        name(&mut node);
        name(&mut node);
        let (from, to) = (Burden { buckets: 1, load: 0 }, Burden { buckets: 1, load: 0 });
        let reasons = [
            Motive::Leaderless,
            Motive::LeaderGone,
            Motive::Slow { agreement_us: None, fastest_us: 0 },
            Motive::Unfair { from, to },
        ];
        assert_eq!(noted(&node), reasons.clone().map(|motive| (motive, None)), "nobody is named who leads");
        // One begins to lead, for one somebody else is named; and then somebody else speaks for the group.
        fixture::hear_leader(&mut node, 0, 9);
        node.ring_mut().unwrap().leaders.insert(Bucket(1), NodeId(4));
        node.look_at_handings(Time(2), &[Bucket(0)]);
        node.look_at_handings(Time(3), &[]);
        let ends: Vec<Option<How>> = noted(&node).into_iter().map(|(_, how)| how).collect();
        let unseen = |how: &Option<How>| matches!(how, Some(How::Unseen(_)));
        assert!(unseen(&ends[0]) && unseen(&ends[3]), "{ends:?}");
        assert!(ends[1] == Some(How::Done) && matches!(ends[2], Some(How::GivenUp(_))), "{ends:?}");
    }
}
