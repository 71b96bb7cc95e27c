//! Where the borders of a ring should be, so that all groups have as much to do for what they can bear (Scatter 6.3).
//!
//! In the paper a group that has 1.6 times its neighbour's load gives some of it to that neighbour. Whoever sees two groups alone cannot do
//! better, but a ring at rest may then be as uneven as 1.6 from each group to the next, and what is too much in one place seeps
//! through many groups, one move after the other. Here whoever speaks for a group knows what is asked of all, and reckons what has to go
//! over each border in the end: what evens out the whole ring and moves as little as can be. All borders can move at once then, each
//! in its final direction.

use alloc::vec::Vec;

use crate::load::{Burden, Shard, busiest};

/// How much more than the mean the most loaded group has to have, for what it can bear, before borders move.
pub const UNEVEN: f64 = 1.1;
/// How much more than a neighbour a group has to have, for what it can bear, before it gives that neighbour some (the paper's).
pub const UNEVEN_BESIDE: f64 = 1.6;
/// How much more than the mean of all a member may have because shards are whole, before its group gives one away.
pub const BUSY: f64 = 1.1;
/// A whole shard goes if so much of it is due: with half of it, one that has gone would be as near to going back.
const MOST_OF_IT: f64 = 0.75;
/// Less than this is not worth a move, of what a group should have: loads are never quite the same.
const LITTLE: f64 = 0.05;

/// To whom a group gives some of its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The group before it on the ring.
    Before,
    /// The group behind it.
    After,
}

/// What all have, for what they can bear.
fn mean(ring: &[Burden<'_>]) -> f64 {
    ring.iter().map(Burden::load).sum::<f64>() / ring.iter().map(|group| group.capacity).sum::<f64>()
}

/// How much should go over the border behind each group of a ring, to the next group; less than nothing: to the group itself. Then all have as
/// much for what they can bear. Any constant could be added, all around the ring; so as this is chosen, least is moved.
fn flows(ring: &[Burden<'_>]) -> Vec<f64> {
    let share = mean(ring);
    let mut sum = 0.0;
    let excess = ring.iter().map(|group| group.load() - share * group.capacity);
    let flows: Vec<f64> = excess
        .map(|excess| {
            sum += excess;
            sum
        })
        .collect();
    // With the median of all taken away, the sum of what is moved is least.
    let mut sorted = flows.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    flows.into_iter().map(|flow| flow - median).collect()
}

/// How many of these shards, from the first on and not all, are as much as `amount`; the last of them only if [`MOST_OF_IT`] is due.
fn as_much_as<'a>(shards: impl ExactSizeIterator<Item = &'a Shard>, amount: f64) -> usize {
    let (mut given, most) = (0.0, shards.len().saturating_sub(1));
    let is_due = |shard: &&Shard| {
        let is_due = amount - given >= MOST_OF_IT * shard.load && amount > given;
        given += shard.load;
        is_due
    };
    shards.take(most).take_while(is_due).count()
}

/// A group of a ring, and what comes of gifts to those beside it.
struct Giver<'a> {
    own: &'a Burden<'a>,
    before: &'a Burden<'a>,
    after: &'a Burden<'a>,
    mean: f64,
}

impl<'a> Giver<'a> {
    /// None if it has nobody to give to.
    fn new(ring: &'a [Burden<'a>], place: usize) -> Option<Giver<'a>> {
        let own = ring.get(place).filter(|_| ring.len() > 1)?;
        let (before, after) = (&ring[(place + ring.len() - 1) % ring.len()], &ring[(place + 1) % ring.len()]);
        Some(Giver { own, before, after, mean: mean(ring) })
    }

    fn taker(&self, to: To) -> &Burden<'a> {
        if to == To::Before { self.before } else { self.after }
    }

    /// Where the border is after the first or the last `count` shards were given away.
    fn border(&self, to: To, count: usize) -> (To, u64) {
        let shards = self.own.shards;
        (to, shards[if to == To::Before { count } else { shards.len() - count }].start)
    }

    /// What the busiest member of both groups has then.
    fn then(&self, to: To, count: usize) -> f64 {
        let (shards, taker) = (self.own.shards, self.taker(to));
        let (given, kept) = match to {
            To::Before => shards.split_at(count),
            To::After => {
                let (kept, given) = shards.split_at(shards.len() - count);
                (given, kept)
            }
        };
        busiest(kept.iter(), self.own.capacity).max(busiest(given.iter().chain(taker.shards), taker.capacity))
    }

    /// How many shards may go, of those that would.
    fn free(&self, to: To, count: usize) -> usize {
        let may_go = |shard: &&Shard| !shard.stays;
        let shards = self.own.shards.iter();
        match to {
            To::Before => shards.take(count).take_while(may_go).count(),
            To::After => shards.rev().take(count).take_while(may_go).count(),
        }
    }

    /// At most `count` shards, so that no member of the two has more than one has now; what is below [`BUSY`] is no harm.
    fn harmless(&self, to: To, count: usize) -> Option<usize> {
        let most = self.own.busiest().max(self.taker(to).busiest()).max(BUSY * self.mean);
        (1..=count).rev().find(|count| self.then(to, *count) <= most)
    }
}

/// What the group at `place` of a ring should give away now: to whom, and where the border between them is then. None if the most loaded group
/// has less than [`UNEVEN`] times what it should have, or if no whole shard is due, or each would make the busiest member
/// busier. So with the same loads all borders come to rest. What has just come stays, and only that: what goes far goes through several groups, each of which
/// gives away at its other end meanwhile.
pub fn gift(ring: &[Burden<'_>], place: usize) -> Option<(To, u64)> {
    let giver = Giver::new(ring, place)?;
    let (own, mean) = (giver.own, giver.mean);
    let most = ring.iter().map(|group| group.load() / group.capacity).fold(0.0, f64::max);
    if most < UNEVEN * mean {
        return None;
    }
    let flows = flows(ring);
    let (before, after) = (-flows[(place + ring.len() - 1) % ring.len()], flows[place]);
    let give = |to: To, flow: f64| {
        let count = match to {
            To::Before => as_much_as(own.shards.iter(), flow),
            To::After => as_much_as(own.shards.iter().rev(), flow),
        };
        let is_much = flow >= LITTLE * mean * own.capacity;
        giver.harmless(to, giver.free(to, count)).filter(|_| is_much).map(|count| giver.border(to, count))
    };
    let (to_before, to_after) = (|| give(To::Before, before), || give(To::After, after));
    if before > after { to_before().or_else(to_after) } else { to_after().or_else(to_before) }
}

/// What else the group at `place` should give away, and what its busiest member has: whole shards may be so large that some member has more than
/// [`BUSY`] times the mean of all however they are led, though the group has no more than it should. Of all gifts to a neighbour the
/// one after which the busiest member of both has least. That goes down with each, and [`gift`] does not bring it up again, so this comes to rest as well.
pub fn relief(ring: &[Burden<'_>], place: usize) -> Option<(To, u64, f64)> {
    let giver = Giver::new(ring, place)?;
    let now = giver.own.busiest();
    if now <= BUSY * giver.mean {
        return None;
    }
    let counts = 1..giver.own.shards.len();
    let gifts = counts.flat_map(|count| [To::Before, To::After].map(|to| (to, count)));
    let free = gifts.filter(|(to, count)| giver.free(*to, *count) == *count);
    let gifts = free.map(|(to, count)| (giver.then(to, count), to, count));
    let (then, to, count) = gifts.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let (to, border) = giver.border(to, count);
    (then <= now - LITTLE * giver.mean).then_some((to, border, now))
}

/// The same for a group that knows its neighbours alone, as in the paper: the shard at a border goes to whoever has [`UNEVEN_BESIDE`] times less, if
/// that one will have less than the group had. Each move makes the larger of two smaller, so that with the same loads it comes to rest.
pub fn gift_beside(before: &Burden<'_>, own: &Burden<'_>, after: &Burden<'_>) -> Option<(To, u64)> {
    let share = |group: &Burden<'_>| group.load() / group.capacity;
    let [first, second, ..] = own.shards else { return None };
    let last = own.shards.last()?;
    let fits = |to: &Burden<'_>, shard: &Shard| {
        !shard.stays
            && share(own) >= UNEVEN_BESIDE * share(to)
            && (to.load() + shard.load) / to.capacity < share(own)
    };
    let to_before = fits(before, first).then_some((To::Before, second.start));
    let to_after = fits(after, last).then_some((To::After, last.start));
    if share(before) < share(after) { to_before.or(to_after) } else { to_after.or(to_before) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use quorate_kernel::Rng;

    #[test]
    fn who_knows_its_neighbours_alone_gives_to_the_one_with_less() {
        let shards = |loads: &[f64]| -> Vec<Shard> {
            loads
                .iter()
                .enumerate()
                .map(|(start, load)| Shard { start: start as u64, load: *load, stays: false })
                .collect()
        };
        let gift = |before: &[f64], own: &[f64], after: &[f64]| {
            let (before, own, after) = (shards(before), shards(own), shards(after));
            let [before, own, after] = [&before, &own, &after].map(|shards| Burden { shards, capacity: 1.0 });
            gift_beside(&before, &own, &after)
        };
        assert_eq!(gift(&[5.0; 3], &[5.0; 5], &[5.0; 4]), Some((To::Before, 1)));
        assert_eq!(gift(&[5.0; 4], &[5.0; 5], &[5.0; 3]), Some((To::After, 4)));
        assert_eq!(gift(&[5.0; 4], &[5.0; 5], &[5.0; 4]), None, "as even as whole shards can be");
        assert_eq!(gift(&[1.0], &[9.0, 1.0], &[20.0]), None, "the hot one would be as hot there");
        assert_eq!(gift(&[1.0], &[9.0], &[1.0]), None, "a group keeps its last shard");
    }

    /// Groups as stretches of one ring of shards, the first of which begins at 0.
    struct Drawn {
        shards: Vec<Shard>,
        /// Where each group begins.
        starts: Vec<usize>,
        capacities: Vec<f64>,
    }

    impl Drawn {
        fn new(loads: &[f64], starts: &[usize], capacities: &[f64]) -> Drawn {
            let shard =
                |(start, load): (usize, &f64)| Shard { start: start as u64, load: *load, stays: false };
            let shards = loads.iter().enumerate().map(shard).collect();
            Drawn { shards, starts: starts.into(), capacities: capacities.into() }
        }

        /// The shards of each group; the last may go on at the beginning.
        fn pieces(&self) -> Vec<Vec<Shard>> {
            let count = self.starts.len();
            let piece = |group: usize| {
                let (mut at, end) = (self.starts[group], self.starts[(group + 1) % count]);
                let mut piece = vec![self.shards[at]];
                at = (at + 1) % self.shards.len();
                while at != end {
                    piece.push(self.shards[at]);
                    at = (at + 1) % self.shards.len();
                }
                piece
            };
            (0..count).map(piece).collect()
        }

        fn with<T>(&self, ask: impl FnOnce(&[Burden<'_>]) -> T) -> T {
            let pieces = self.pieces();
            let pairs = pieces.iter().zip(&self.capacities);
            let ring: Vec<Burden<'_>> =
                pairs.map(|(shards, capacity)| Burden { shards, capacity: *capacity }).collect();
            ask(&ring)
        }

        fn most(&self) -> f64 {
            self.with(|ring| ring.iter().map(|group| group.load() / group.capacity).fold(0.0, f64::max))
        }

        fn mean(&self) -> f64 {
            self.with(mean)
        }

        fn gift(&self, place: usize) -> Option<(To, u64)> {
            self.with(|ring| gift(ring, place))
        }

        fn relief(&self, place: usize) -> Option<(To, u64)> {
            self.with(|ring| relief(ring, place)).map(|(to, border, _)| (to, border))
        }

        fn busiest(&self) -> f64 {
            self.with(|ring| ring.iter().map(Burden::busiest).fold(0.0, f64::max))
        }

        /// Groups give, one after the other in any order, until none does; how often.
        fn rest(&mut self, rng: &mut Rng) -> usize {
            let count = self.starts.len();
            let mut gifts = 0;
            loop {
                let mut order: Vec<usize> = (0..count).collect();
                rng.shuffle(&mut order);
                let before = gifts;
                for place in order {
                    let due = self.gift(place).or_else(|| self.relief(place));
                    let Some((to, border)) = due else { continue };
                    let moved = if to == To::Before { place } else { (place + 1) % count };
                    self.starts[moved] = border as usize;
                    gifts += 1;
                }
                if gifts == before {
                    return gifts;
                }
                assert!(gifts < 100 * count, "borders move for ever");
            }
        }
    }

    /// Where so many groups of a ring of shards begin.
    fn begin_anywhere(shards: usize, groups: usize, rng: &mut Rng) -> Vec<usize> {
        let mut starts: Vec<usize> = (0..shards).collect();
        rng.shuffle(&mut starts);
        starts.truncate(groups);
        starts.sort_unstable();
        starts
    }

    #[test]
    fn what_is_too_much_goes_to_where_it_is_missed() {
        let ring = |loads: &[f64], starts: &[usize]| Drawn::new(loads, starts, &vec![1.0; starts.len()]);
        let uneven = ring(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], &[0, 4, 5]);
        assert_eq!([0, 1, 2].map(|place| uneven.gift(place)), [Some((To::After, 3)), None, None]);
        let even = ring(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], &[0, 2, 4]);
        assert_eq!([0, 1, 2].map(|place| even.gift(place)), [None; 3]);
        let nearly = ring(&[2.1, 2.0, 2.0, 2.0, 2.0, 1.0], &[0, 2, 4]);
        assert_eq!([0, 1, 2].map(|place| nearly.gift(place)), [None; 3], "no whole shard comes nearer");
        let hot = ring(&[9.0, 1.0, 1.0], &[0, 1, 2]);
        assert_eq!([0, 1, 2].map(|place| hot.gift(place)), [None; 3], "one shard cannot be given in part");
        let two = ring(&[1.0, 1.0, 1.0, 1.0], &[0, 3]);
        assert_eq!([0, 1].map(|place| two.gift(place)), [Some((To::After, 2)), None], "over one border");
        assert_eq!(ring(&[5.0, 1.0], &[0]).gift(0), None, "a group alone has nobody");
    }

    /// Far groups need not wait for what is between them: those give as well, although they have no more than they should.
    #[test]
    fn groups_in_between_hand_on() {
        let loads = [1.0; 12];
        let drawn = Drawn::new(&loads, &[0, 6, 8, 10], &[1.0; 4]);
        let gifts = [0, 1, 2, 3].map(|place| drawn.gift(place).map(|(to, _)| to));
        assert_eq!(gifts, [Some(To::After), Some(To::After), None, None]);
    }

    #[test]
    fn what_has_just_come_stays_and_only_that() {
        let gifts = |stays: &[usize]| {
            let mut drawn = Drawn::new(&[1.0; 12], &[0, 6, 8, 10], &[1.0; 4]);
            stays.iter().for_each(|at| drawn.shards[*at].stays = true);
            [0, 1].map(|place| drawn.gift(place))
        };
        assert_eq!(gifts(&[]), [Some((To::After, 4)), Some((To::After, 7))]);
        assert_eq!(gifts(&[6]), gifts(&[]), "it goes on at the other end");
        assert_eq!(gifts(&[4, 7]), [Some((To::After, 5)), None], "less than it should, or nothing");
        assert_eq!(
            gifts(&[5]),
            [Some((To::Before, 1)), Some((To::After, 7))],
            "what goes the other way may go"
        );
    }

    /// Of seven hot shards over six members one has two, though the group has no more to do than the others.
    #[test]
    fn a_shard_that_nobody_can_lead_beside_others_goes_to_a_neighbour() {
        let mut loads = vec![0.8; 7];
        loads.extend([0.2; 60]);
        let mut drawn = Drawn::new(&loads, &[0, 7, 37], &[6.0; 3]);
        assert_eq!([0, 1, 2].map(|place| drawn.gift(place)), [None; 3], "groups are even");
        assert_eq!(drawn.busiest(), 1.6);
        assert_eq!([0, 1, 2].map(|place| drawn.relief(place)), [Some((To::Before, 1)), None, None]);
        drawn.rest(&mut Rng::new(1));
        assert!(drawn.busiest() < 1.3 * drawn.mean(), "{}", drawn.busiest());
        let alone = Drawn::new(&[9.0, 1.0, 1.0], &[0, 1, 2], &[1.0; 3]);
        assert_eq!([0, 1, 2].map(|place| alone.relief(place)), [None; 3], "it would be as hot anywhere");
    }

    #[test]
    fn rings_come_to_rest_and_are_even() {
        let mut rng = Rng::new(9);
        for _ in 0..300 {
            let groups = rng.between(2, 20) as usize;
            let count = groups * rng.between(8, 30) as usize;
            let loads: Vec<f64> = (0..count).map(|_| 1.0 + rng.fraction()).collect();
            let starts = begin_anywhere(count, groups, &mut rng);
            let capacities: Vec<f64> = (0..groups).map(|_| rng.between(3, 9) as f64).collect();
            let mut drawn = Drawn::new(&loads, &starts, &capacities);
            let gifts = drawn.rest(&mut rng);
            assert!(gifts <= 8 * groups, "{gifts} for {groups} groups");
            // Half a shard on either side may be too much.
            assert!(
                drawn.most() <= drawn.mean() * UNEVEN + 2.0 / 3.0,
                "{} of {}",
                drawn.most(),
                drawn.mean()
            );
        }
    }

    /// Where idle nodes come and go. If a shard went as soon as half of it was due, there would be 1.5 gifts for each change, in this ring.
    #[test]
    fn a_member_more_or_less_moves_few_borders() {
        let mut rng = Rng::new(11);
        let (groups, shards, changes) = (14, 50, 500);
        let starts = begin_anywhere(shards, groups, &mut rng);
        let mut drawn = Drawn::new(&vec![1.0; shards], &starts, &vec![7.0; groups]);
        drawn.rest(&mut rng);
        let mut gifts = 0;
        for _ in 0..changes {
            let members = &mut drawn.capacities[rng.below(groups as u64) as usize];
            let is_less = *members > 8.0 || (*members > 5.0 && rng.chance(1, 2));
            *members += if is_less { -1.0 } else { 1.0 };
            gifts += drawn.rest(&mut rng);
        }
        assert!(gifts < changes, "{gifts} gifts for {changes} changes");
    }

    #[test]
    fn loads_of_all_kinds_come_to_rest() {
        let mut rng = Rng::new(10);
        for _ in 0..500 {
            let groups = rng.between(2, 12) as usize;
            let count = groups * rng.between(1, 12) as usize;
            let loads: Vec<f64> = (0..count).map(|_| (rng.fraction() * 9.0).powi(4)).collect();
            let starts = begin_anywhere(count, groups, &mut rng);
            let capacities: Vec<f64> = (0..groups).map(|_| rng.between(1, 9) as f64).collect();
            Drawn::new(&loads, &starts, &capacities).rest(&mut rng);
        }
    }
}
