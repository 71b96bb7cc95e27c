//! The invariants of groups and of transactions across them, looked at after every step of a node.
//!
//! Names are those of Scatter's and of composition (decision 0018).
//!
//! | name | what | where it is looked at |
//! |---|---|---|
//! | S1 | groups tile the ring: no gap, no overlap | here, whenever the newest lines of all homes fit together |
//! | S2 | neighbours agree on who stands at the border between them | here, by the numbers of links |
//! | S3 | every key is linearizable, whatever its groups do | the checker, over what clients saw, and copies that must be equal |
//! | S4 | one primary at a time | the log's own invariants, after every step |
//! | S5 | a transaction has one outcome, wherever it is known | here, in the ledgers of all copies |
//! | S6 | a node is in one group | in the end alone: who joined two, since no answer came from the first, leaves one again |
//! | S7 | no key has two groups at the same time of their lives, and a group is the same for everybody | here |

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use quorate_api::Bucket;
use quorate_commit::TransactionId;
use quorate_groups::{GroupId, Name, Which};
use quorate_kernel::NodeId;
use quorate_node::{Group, Node, Seat};

use crate::Verdict;

/// Ledgers are looked at after every so many entries: what they know they remember for longer.
const LEDGER_EVERY: u64 = 4;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Witness {
    groups: BTreeMap<Name, Group>,
    owners: BTreeMap<(Bucket, u64), Name>,
    /// By node and home, how old what was looked at is.
    seen: BTreeMap<(NodeId, Bucket), u64>,
    /// Of each home the newest that was chosen.
    newest: BTreeMap<Bucket, Seat>,
    /// Who stands on both sides of a border, by where it is and by the number of the link.
    links: BTreeMap<(u64, u64), (GroupId, GroupId)>,
    applied: BTreeMap<(NodeId, Bucket), u64>,
    /// Whether a transaction happened.
    outcomes: BTreeMap<TransactionId, (bool, Bucket, NodeId)>,
    /// How often the lines of all homes made a ring.
    rings: u64,
    /// How often an outcome was known already.
    agreed: u64,
}

impl Witness {
    /// Looks at a node after its step.
    ///
    /// # Errors
    /// If S1, S2, S5 or S7 does not hold.
    pub(super) fn look(&mut self, id: NodeId, node: &Node, buckets: NonZeroU16) -> Verdict {
        self.outcomes(id, node)?;
        self.homes(id, node, buckets)
    }

    fn homes(&mut self, id: NodeId, node: &Node, buckets: NonZeroU16) -> Verdict {
        for home in node.buckets() {
            let Some(seat) = node.seat(home) else { continue };
            if self.seen.insert((id, home), seat.age()) == Some(seat.age()) {
                continue;
            }
            seat.groups().try_for_each(|group| self.owns(id, home, group, buckets))?;
            if self.newest.get(&home).is_none_or(|newest| newest.age() < seat.age()) {
                self.links(home, &seat)?;
                self.newest.insert(home, seat);
                self.tile()?;
            }
        }
        Ok(())
    }

    /// S7.
    fn owns(&mut self, id: NodeId, home: Bucket, group: &Group, buckets: NonZeroU16) -> Verdict {
        let known = self.groups.entry(group.name).or_insert_with(|| group.clone());
        if known != group {
            return Err(format!("S7: {id:?} has {group:?} at {home:?}, somebody had {known:?}"));
        }
        let own = (0..buckets.get()).map(Bucket);
        for bucket in own.filter(|bucket| group.span.contains(bucket.ring_start(buckets))) {
            let owner = *self.owners.entry((bucket, group.name.epoch)).or_insert(group.name);
            if owner != group.name {
                return Err(format!("S7: {bucket:?} belongs to {owner:?} and to {:?}", group.name));
            }
        }
        Ok(())
    }

    /// S2: both lines of a link that have the same number name the same two groups.
    fn links(&mut self, home: Bucket, seat: &Seat) -> Verdict {
        let Some(stand) = seat.stand() else { return Ok(()) };
        let (span, id) = (stand.group.span, stand.group.name.id);
        let ends = [
            (span.start, Which::Before, (stand.before.name.id, id)),
            (span.end, Which::After, (id, stand.after.name.id)),
        ];
        for (border, which, pair) in ends {
            let known = *self.links.entry((border, seat.line(which).link)).or_insert(pair);
            if known != pair {
                return Err(format!(
                    "S2: {home:?} has {pair:?} at a border where somebody had {known:?}: {seat:?}"
                ));
            }
        }
        Ok(())
    }

    /// S1: homes whose lines fit together all around the ring share it without rest, and all others know of older groups.
    fn tile(&mut self) -> Verdict {
        let homes: BTreeMap<u64, &Seat> =
            self.newest.values().filter_map(|seat| Some((start(seat)?, seat))).collect();
        let Some(ring) = homes.keys().find_map(|start| around(&homes, *start)) else { return Ok(()) };
        let width: u128 = ring.iter().map(|group| group.span.width()).sum();
        if width != 1 << 64 {
            return Err(format!("S1: groups that follow each other have {width} positions: {ring:?}"));
        }
        let others = homes.values().filter_map(|seat| seat.line(Which::Own).group.as_deref());
        for other in others.filter(|other| !ring.contains(other)) {
            let owner = ring.iter().find(|group| group.span.contains(other.span.start));
            let owner = owner.map_or(0, |owner| owner.name.epoch);
            if owner < other.name.epoch {
                // It is the ring that is out of date.
                return Ok(());
            }
        }
        self.rings += 1;
        Ok(())
    }

    /// S5.
    fn outcomes(&mut self, id: NodeId, node: &Node) -> Verdict {
        for bucket in node.buckets() {
            let Some(shard) = node.shard(bucket) else { continue };
            let applied = shard.log().applied();
            if self.applied.insert((id, bucket), applied) == Some(applied)
                || !applied.is_multiple_of(LEDGER_EVERY)
            {
                continue;
            }
            for (transaction, record) in shard.commitment().ledger().records() {
                let Some(outcome) = record.outcome() else { continue };
                let happened = outcome.is_commit();
                match self.outcomes.get(&transaction) {
                    Some((known, at, other)) if *known != happened => {
                        return Err(format!(
                            "S5: {transaction:?} happened: {happened} by {bucket:?} of {id:?}, {known} by {at:?} of {other:?}"
                        ));
                    }
                    Some(_) => self.agreed += 1,
                    None => drop(self.outcomes.insert(transaction, (happened, bucket, id))),
                }
            }
        }
        Ok(())
    }

    /// How often it had something to compare.
    pub(super) fn counts(&self) -> [(&'static str, u64); 2] {
        [("node.sim.rings", self.rings), ("node.sim.outcomes", self.agreed)]
    }

    /// A node begins a life.
    pub(super) fn booted(&mut self, node: NodeId) {
        self.seen.retain(|(id, _), _| *id != node);
        self.applied.retain(|(id, _), _| *id != node);
    }
}

/// Where the group begins that has its home here.
fn start(seat: &Seat) -> Option<u64> {
    Some(seat.line(Which::Own).group.as_ref()?.span.start)
}

/// The groups that follow each other from a home on until it comes again; `None`, if somewhere the two lines of a link are not of the same time.
fn around<'a>(homes: &BTreeMap<u64, &'a Seat>, first: u64) -> Option<Vec<&'a Group>> {
    let (mut ring, mut at) = (Vec::new(), first);
    while ring.len() <= homes.len() {
        let seat = homes.get(&at)?;
        let group = seat.line(Which::Own).group.as_deref()?;
        let next = homes.get(&group.span.end)?;
        if next.line(Which::Before).link != seat.line(Which::After).link {
            return None;
        }
        ring.push(group);
        at = group.span.end;
        if at == first {
            return Some(ring);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use quorate_node::{Line, Span};

    const QUARTER: u64 = 1 << 62;

    /// What the homes of groups keep that begin and end at these quarters, all links under one number.
    fn homes(spans: [(u64, u64); 3]) -> Vec<(Bucket, Seat)> {
        let group = |place: usize| {
            let (start, end) = spans[place % 3];
            let span = Span { start: start * QUARTER, end: end * QUARTER };
            let name = Name { id: GroupId(place as u64 % 3 + 1), epoch: 2 };
            Line { number: 2, link: 2, group: Some(Arc::new(Group { name, span, members: vec![NodeId(1)] })) }
        };
        let seat = |place: usize| Seat::new(group(place), group(place + 2), group(place + 1));
        (0..3).map(|place| (Bucket(spans[place].0 as u16), seat(place))).collect()
    }

    fn seen(homes: Vec<(Bucket, Seat)>) -> (Witness, Verdict) {
        let mut witness = Witness::default();
        let verdict = homes.into_iter().try_for_each(|(home, seat)| {
            witness.links(home, &seat)?;
            witness.newest.insert(home, seat);
            witness.tile()
        });
        (witness, verdict)
    }

    #[test]
    fn groups_that_share_the_ring_are_one() {
        let (witness, verdict) = seen(homes([(0, 1), (1, 2), (2, 0)]));
        assert_eq!((witness.rings, verdict), (1, Ok(())));
    }

    #[test]
    fn groups_that_overlap_are_caught() {
        let verdict = seen(homes([(0, 2), (2, 1), (1, 0)])).1;
        assert!(verdict.as_ref().is_err_and(|why| why.starts_with("S1")), "{verdict:?}");
    }

    #[test]
    fn neighbours_that_contradict_each_other_are_caught() {
        let mut homes = homes([(0, 1), (1, 2), (2, 0)]);
        let stranger = Line {
            group: homes[0].1.line(Which::Own).group.clone(),
            ..homes[2].1.line(Which::Before).clone()
        };
        let seat = &homes[2].1;
        homes[2].1 = Seat::new(seat.line(Which::Own).clone(), stranger, seat.line(Which::After).clone());
        let verdict = seen(homes).1;
        assert!(verdict.as_ref().is_err_and(|why| why.starts_with("S2")), "{verdict:?}");
    }

    #[test]
    fn lines_of_different_times_prove_nothing() {
        let mut homes = homes([(0, 1), (1, 2), (2, 0)]);
        let seat = &homes[2].1;
        let later = Line { number: 3, link: 3, ..seat.line(Which::Before).clone() };
        homes[2].1 = Seat::new(seat.line(Which::Own).clone(), later, seat.line(Which::After).clone());
        let (witness, verdict) = seen(homes);
        assert_eq!((witness.rings, verdict), (0, Ok(())));
    }
}
