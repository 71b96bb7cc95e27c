//! Homes whose logs went on without their majority, and lack what they had agreed to with others.
//!
//! `recover --accept-data-loss` lets a bucket go on with what one survivor has. If that is a group's home, an operation may be lost there that others
//! have carried out: their lines and those here contradict each other, and nothing that compares them fits any more. What stood here is
//! named there as well, others may remember what was said of it, and whoever leads the home puts it back ([`Seat::mended`]).
//!
//! A home that has lost nothing lacks nothing once what is under way has ended: then what is begun here compares wrong, and changes nothing.

use alloc::collections::BTreeMap;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::{Edit, Edits, Seat, Which};
use quorate_kernel::Time;
use quorate_shard::Mutant;

use crate::deeds::What;
use crate::machine::Node;
use crate::motive::Motive;

/// What is agreed reaches homes one after the other: for so long that is no reason.
const SURE_AFTER: Duration = Duration::from_secs(1);

impl Node {
    /// What a home should get back, once that has been seen for a while.
    pub(crate) fn mending_due(&mut self, now: Time, home: Bucket) -> Option<(Edits, (What, Motive))> {
        let lacks = self.lacks(home).filter(|_| !self.config.limits.breaks(Mutant::LossesKept));
        let ring = self.ring_mut()?;
        let Some((seat, mended)) = lacks else {
            ring.lacking.remove(&home);
            return None;
        };
        let seen = now.since(*ring.lacking.entry(home).or_insert(now));
        if seen < SURE_AFTER {
            return None;
        }
        let start = home.ring_start(ring.count);
        let replaced = Which::ALL.into_iter().filter(|which| seat.line(*which) != mended.line(*which));
        let edit = |which| Edit { on: seat.line(which).number, line: mended.line(which).clone() };
        let edits: BTreeMap<_, _> = replaced.map(|which| ((start, which), edit(which))).collect();
        let seen_ms = u64::try_from(seen.as_millis()).unwrap_or(u64::MAX);
        let named = [&mended, &seat].into_iter().find_map(|seat| seat.line(Which::Own).group.as_ref());
        let what = What::Mend { group: named.map(|group| group.name.id), home };
        Some((edits, (what, Motive::Lacking { seen_ms })))
    }

    /// What a home keeps, and what it should keep, if it lacks something.
    fn lacks(&self, home: Bucket) -> Option<(Seat, Seat)> {
        let ring = self.ring()?;
        let known = ring.group_of(home)?;
        let seat = self.seat(home).unwrap_or_default();
        // What was said of it was chosen, and comes later in each of its lines.
        let is_later = |other: &&Seat| {
            let number = |seat: &Seat, which| seat.line(which).number;
            other.age() > seat.age()
                && Which::ALL.into_iter().all(|which| number(other, which) >= number(&seat, which))
        };
        if let Some(said) = ring.seats.get(&home).filter(is_later) {
            return Some((seat, said.clone()));
        }
        if ring.home(known) != home {
            let own = seat.line(Which::Own).group.as_deref()?;
            let is_old = own.name.epoch < known.name.epoch;
            return is_old.then(|| (seat.clone(), seat.vacated()));
        }
        let beside = |position| {
            let group = ring.group_of(Bucket::of_position(position, ring.count))?;
            let other = ring.home(group);
            let leads = self.replicas.get(&other).is_some_and(|replica| replica.takes);
            // What others have said of it may be lost as well.
            if leads { Some(self.seat(other).unwrap_or_default()) } else { ring.seats.get(&other).cloned() }
        };
        let (start, end) = (known.span.start, known.span.end);
        let mended = seat.mended(start, &beside(start.wrapping_sub(1))?, &beside(end)?)?;
        Some((seat, mended))
    }
}
