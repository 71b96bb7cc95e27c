//! Clusters whose buckets are held by groups of a ring: how all must be in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use quorate_api::Bucket;
use quorate_groups::resilience::Sizes;
use quorate_groups::{Name, Stand, Which};
use quorate_kernel::NodeId;
use quorate_node::{Group, Motive, Node, Seat, What};

use super::operator::{leader, machine_of};
use super::placed::holds;
use crate::{Nodes, Verdict};

/// What the leaders of all buckets have of groups.
fn seats(nodes: &Nodes<Node>, buckets: NonZeroU16) -> Result<BTreeMap<Bucket, Seat>, String> {
    let mut seats = BTreeMap::new();
    for bucket in (0..buckets.get()).map(Bucket) {
        let lead = leader(nodes, bucket).and_then(|id| nodes.machine(id));
        let Some(lead) = lead else { return Err(format!("nobody leads {bucket:?}")) };
        seats.extend(lead.seat(bucket).map(|seat| (bucket, seat)));
    }
    Ok(seats)
}

/// Whether the homes make a ring: every position has one group, neighbours know each other as they are.
fn is_ring(seats: &BTreeMap<Bucket, Seat>) -> Result<Vec<Stand>, String> {
    let stands: Vec<Stand> = seats.values().filter_map(Seat::stand).collect();
    let width: u128 = stands.iter().map(|stand| stand.group.span.width()).sum();
    if width != 1 << 64 {
        return Err(format!("groups have {width} positions together: {stands:?}"));
    }
    for stand in &stands {
        let next = stands.iter().find(|other| other.group.span.start == stand.group.span.end);
        let Some(next) = next else { return Err(format!("nobody begins where {:?} ends", stand.group)) };
        if stand.after != next.group || next.before != stand.group {
            return Err(format!("{stand:?} and {next:?} do not know each other"));
        }
    }
    let link = |seat: &Seat, which: Which| seat.line(which).link;
    let homes: BTreeMap<u64, &Seat> =
        seats.values().filter_map(|seat| Some((seat.stand()?.group.span.start, seat))).collect();
    for (seat, stand) in seats.values().filter_map(|seat| Some((seat, seat.stand()?))) {
        let next = homes.get(&stand.group.span.end).map(|next| link(next, Which::Before));
        if next != Some(link(seat, Which::After)) {
            return Err(format!("a link of {:?} has two numbers", stand.group));
        }
        let named = homes.get(&stand.group.span.end).map(|next| next.line(Which::Before).number);
        if named != Some(seat.far(Which::After)) {
            return Err(format!("what names {:?} has a number that it does not expect", stand.group));
        }
    }
    Ok(stands)
}

/// How many groups there are, if they make a ring, all buckets are led, and nobody is a member who is gone for good.
pub(super) fn whole_ring(nodes: &Nodes<Node>, buckets: NonZeroU16) -> Result<usize, String> {
    let stands = is_ring(&seats(nodes, buckets)?)?;
    for stand in &stands {
        let gone = stand.group.members.iter().find(|id| nodes.machine(**id).is_none());
        if let Some(gone) = gone {
            return Err(format!("{gone:?} is gone and still a member of {:?}", stand.group));
        }
    }
    Ok(stands.len())
}

/// Whether a reason fits what was done for it, by its own figures.
fn fits(what: &What, motive: &Motive) -> bool {
    match (what, motive) {
        (What::Failure { .. }, Motive::Gone { missing_ms, repair_ms }) => missing_ms >= repair_ms,
        (What::Split { .. }, Motive::Size { members, size }) => *members > size.most,
        (What::Merge { .. }, Motive::Size { members, size }) => *members < size.least,
        (What::Repartition { .. }, Motive::Uneven { most, mean, .. }) => most > mean,
        (What::Repartition { .. }, Motive::Lumpy { busiest, mean, .. }) => busiest > mean,
        (What::Join { .. }, Motive::Wants { .. }) | (What::Leave { .. }, Motive::Emptied | Motive::Twice) => {
            true
        }
        (What::Leave { .. }, Motive::Beside { members, size }) => *members > size.least,
        // Where one is missed, or from a smaller group to a larger one: never back.
        (What::Migrate { .. }, Motive::Surplus { members, there, size, .. }) => {
            (size.wanted + 1..=size.most).contains(members) && (*there < size.wanted || there >= members)
        }
        (
            What::Split { .. } | What::Merge { .. } | What::Repartition { .. } | What::Migrate { .. },
            Motive::Asked,
        ) => true,
        (What::Lead { .. }, Motive::Unfair { from, .. }) => from.buckets > 0,
        (What::Lead { .. }, motive) => matches!(
            motive,
            Motive::Asked
                | Motive::Leaderless
                | Motive::LeaderGone
                | Motive::Slow { .. }
                | Motive::Elected { .. }
        ),
        (What::Ask { .. }, motive) => {
            matches!(motive, Motive::Needy { .. } | Motive::Near { .. } | Motive::Busy { .. })
        }
        // Not before a second has passed in which what is agreed may still have come.
        (What::Mend { .. }, Motive::Lacking { seen_ms }) => *seen_ms >= 1_000,
        (What::Preset { .. }, motive) => matches!(motive, Motive::Configured | Motive::Measured { .. }),
        _ => false,
    }
}

/// Whether what a node noted of groups makes sense, and all of it is counted.
fn is_explained(id: NodeId, machine: &Node) -> Verdict {
    let Some(journal) = machine.journal() else { return Err(format!("{id:?} keeps no journal")) };
    for deed in journal.deeds() {
        if !fits(&deed.what, &deed.motive) {
            return Err(format!("{id:?} has no such reason for what it did: {deed:?}"));
        }
    }
    for (kind, tally) in journal.tallies() {
        let open = journal.deeds().filter(|deed| deed.what.kind() == Some(kind) && deed.end.is_none());
        let ended = tally.completed + tally.given_up + tally.unseen;
        if journal.dropped() == 0 && ended + open.count() as u64 != tally.begun {
            return Err(format!("{id:?} miscounts what it did: {kind:?} {tally:?}"));
        }
    }
    Ok(())
}

/// Whether the ring is whole, all nodes know it and have one group each, of a fitting size, and all buckets are where their groups are.
pub(super) fn is_grouped(nodes: &Nodes<Node>, buckets: NonZeroU16, copies: u8) -> Verdict {
    let live: BTreeSet<NodeId> = nodes.live().map(|(id, _)| id).collect();
    let stands = is_ring(&seats(nodes, buckets)?)?;
    let names: BTreeSet<Name> = stands.iter().map(|stand| stand.group.name).collect();
    for (id, machine) in nodes.live() {
        let members: BTreeSet<NodeId> = machine.status().members.iter().map(|member| member.id).collect();
        if members != live {
            return Err(format!("{id:?} has {members:?} in its view"));
        }
        is_explained(id, machine)?;
        let known: BTreeSet<Name> = machine.groups().iter().map(|group| group.name).collect();
        if known != names {
            return Err(format!("{id:?} knows the groups {known:?}, there are {names:?}"));
        }
    }
    let mut all: Vec<NodeId> = stands.iter().flat_map(|stand| stand.group.members.iter().copied()).collect();
    all.sort_unstable();
    if !all.iter().copied().eq(live.iter().copied()) {
        return Err(format!("{all:?} are in groups, {live:?} are there: {stands:?}"));
    }
    let sizes = Sizes::around(copies.into());
    for Stand { group, .. } in &stands {
        let own =
            (0..buckets.get()).map(Bucket).filter(|bucket| group.span.contains(bucket.ring_start(buckets)));
        let own: Vec<Bucket> = own.collect();
        let size = group.members.len();
        if (size < sizes.least && stands.len() > 1) || (size > sizes.most && own.len() > 1) {
            return Err(format!("{group:?} should have {sizes:?} members"));
        }
        own.into_iter().try_for_each(|bucket| holds(nodes, bucket, &group.members))?;
    }
    is_apart(&stands, sizes)
}

/// Whether no group that could do with less has two members on one machine, if another has room and nobody there.
fn is_apart(stands: &[Stand], sizes: Sizes) -> Verdict {
    for Stand { group, .. } in stands.iter().filter(|stand| stand.group.members.len() > sizes.least) {
        let on =
            |machine, group: &Group| group.members.iter().filter(|id| machine_of(**id) == machine).count();
        let shared = group.members.iter().map(|id| machine_of(*id)).filter(|machine| on(*machine, group) > 1);
        for machine in shared {
            let fits =
                |other: &&Stand| other.group.members.len() <= sizes.most && on(machine, &other.group) == 0;
            if let Some(other) = stands.iter().find(fits) {
                return Err(format!(
                    "{group:?} has two members on a machine where {:?} has none",
                    other.group
                ));
            }
        }
    }
    Ok(())
}
