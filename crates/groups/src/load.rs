//! What is asked of shards; where groups should be split, and who should lead shards, so that all work as much (Scatter 6.3).

use alloc::vec;
use alloc::vec::Vec;

/// How much of what the most loaded member has has to be gained, before a shard goes elsewhere: loads are never quite the same.
pub const GAIN: f64 = 0.05;

/// A piece of a group's span with a log of its own, and how much is asked of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shard {
    /// Its first position.
    pub start: u64,
    /// Operations in a second, say; any unit that all use.
    pub load: f64,
    /// Whether it came to its group so lately that it is given to none yet.
    pub stays: bool,
}

/// A group as far as its load is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Burden<'a> {
    /// Its shards, in their order.
    pub shards: &'a [Shard],
    /// How much it can bear, in any unit that all use: the number of its members, say.
    pub capacity: f64,
}

fn total(shards: &[Shard]) -> f64 {
    shards.iter().map(|shard| shard.load).sum()
}

impl Burden<'_> {
    /// What is asked of all its shards.
    pub fn load(&self) -> f64 {
        total(self.shards)
    }

    /// What its busiest member has to do, if its capacity is the number of its members. See [`busiest`].
    pub fn busiest(&self) -> f64 {
        busiest(self.shards.iter(), self.capacity)
    }
}

/// What the busiest of so many members has to do if shards are shared out about as evenly as whole ones can be: the largest first, each to
/// whoever has least.
pub fn busiest<'a>(shards: impl Iterator<Item = &'a Shard>, members: f64) -> f64 {
    let loads: Vec<f64> = shards.map(|shard| shard.load).collect();
    // Saturates; nobody has that many members, and a group has one at least.
    deal(&loads, &[], &vec![1.0; (members as usize).max(1)], 0.0).1
}

/// Where a group should be split: at the border of a shard, so that both halves have as much to do; none if it has one shard.
pub fn middle(shards: &[Shard]) -> Option<u64> {
    let half = total(shards) / 2.0;
    let mut before = 0.0;
    let mut best: Option<(f64, f64, u64)> = None;
    for (index, pair) in shards.windows(2).enumerate() {
        before += pair[0].load;
        // Of equals, as with no load at all, the one in the middle of the shards.
        let aside = ((index + 1) as f64 - shards.len() as f64 / 2.0).abs();
        let key = ((before - half).abs(), aside, pair[1].start);
        if best.is_none_or(|known| (key.0, key.1) < (known.0, known.1)) {
            best = Some(key);
        }
    }
    best.map(|(.., border)| border)
}

/// Who should lead each shard. `leaders` has who does now, as places among members that can bear as much as `capacities` says;
/// 0 leads nothing. A shard leaves the most loaded member only for one that will have less than that member has now by [`GAIN`], and by more than may be
/// `chance`: how far off a load of 1 may be, squared; one that is larger is off by more, with the root. If nothing is gained so, but
/// would be if several moved at once, all are shared out anew, and whoever leads a shard keeps it as far as can be.
pub fn leaders(
    loads: &[f64],
    leaders: &[Option<usize>],
    capacities: &[f64],
    chance: f64,
) -> Vec<Option<usize>> {
    let is_less = |then: f64, now: f64| {
        let gain = now - then;
        gain > now * GAIN && gain * gain > now * chance
    };
    let able = |member: &usize| capacities.get(*member).is_some_and(|capacity| *capacity > 0.0);
    let mut sums = vec![0.0; capacities.len()];
    let mut chosen: Vec<Option<usize>> = leaders.iter().map(|leader| leader.filter(able)).collect();
    chosen.resize(loads.len(), None);
    // Where nothing is asked of shards, their number counts a little.
    let weight = |shard: usize| loads[shard].max(1e-9);
    for (shard, leader) in chosen.iter().enumerate() {
        leader.iter().for_each(|member| sums[*member] += weight(shard));
    }
    let burden = |sums: &[f64], member: usize, more: f64| (sums[member] + more) / capacities[member];
    let idlest = |sums: &[f64], more: f64| {
        let members = (0..capacities.len()).filter(able);
        members.min_by(|one, other| burden(sums, *one, more).total_cmp(&burden(sums, *other, more)))
    };
    let mut homeless: Vec<usize> = (0..loads.len()).filter(|shard| chosen[*shard].is_none()).collect();
    homeless.sort_by(|one, other| weight(*other).total_cmp(&weight(*one)));
    for shard in homeless {
        chosen[shard] = idlest(&sums, weight(shard));
        chosen[shard].iter().for_each(|member| sums[*member] += weight(shard));
    }
    // Each move makes the most loaded member's load less, so it ends; this many are plenty.
    for _ in 0..loads.len() {
        let members = (0..capacities.len()).filter(able);
        let most =
            members.max_by(|one, other| burden(&sums, *one, 0.0).total_cmp(&burden(&sums, *other, 0.0)));
        let Some(most) = most else { break };
        let now = burden(&sums, most, 0.0);
        let of_most = (0..loads.len()).filter(|shard| chosen[*shard] == Some(most));
        let moved = of_most.filter_map(|shard| {
            let to = idlest(&sums, weight(shard)).filter(|to| *to != most)?;
            let taken = burden(&sums, to, weight(shard));
            let then = taken.max(burden(&sums, most, -weight(shard)));
            is_less(taken, now).then_some((then, shard, to))
        });
        let Some((_, shard, to)) = moved.min_by(|one, other| one.0.total_cmp(&other.0)) else { break };
        sums[most] -= weight(shard);
        sums[to] += weight(shard);
        chosen[shard] = Some(to);
    }
    let now = (0..capacities.len()).filter(able).map(|member| burden(&sums, member, 0.0)).fold(0.0, f64::max);
    let weights: Vec<f64> = (0..loads.len()).map(weight).collect();
    let (_, best) = deal(&weights, &[], capacities, 0.0);
    if !is_less(best, now) {
        return chosen;
    }
    let (dealt, most) = deal(&weights, &chosen, capacities, best);
    if is_less(most, now) { dealt } else { chosen }
}

/// Shares out shards, the largest first, each to whoever leads it as long as that member then has no more than `most`, else to whoever has least; and
/// what the busiest has in the end, for what it can bear.
fn deal(
    loads: &[f64],
    leaders: &[Option<usize>],
    capacities: &[f64],
    most: f64,
) -> (Vec<Option<usize>>, f64) {
    let able: Vec<usize> = (0..capacities.len()).filter(|member| capacities[*member] > 0.0).collect();
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|one, other| loads[*other].total_cmp(&loads[*one]));
    let (mut sums, mut chosen) = (vec![0.0; capacities.len()], vec![None; loads.len()]);
    let mut busiest = 0.0_f64;
    for shard in order {
        let burden = |member: &usize| (sums[*member] + loads[shard]) / capacities[*member];
        let leader = leaders.get(shard).copied().flatten().filter(|leader| able.contains(leader));
        let idlest = || able.iter().copied().min_by(|one, other| burden(one).total_cmp(&burden(other)));
        let member = leader.filter(|leader| burden(leader) <= most).or_else(idlest);
        let Some(member) = member else { continue };
        busiest = busiest.max(burden(&member));
        sums[member] += loads[shard];
        chosen[shard] = Some(member);
    }
    (chosen, busiest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_kernel::Rng;

    fn shards(start: u64, loads: &[f64]) -> Vec<Shard> {
        let shard =
            |(index, load): (usize, &f64)| Shard { start: start + index as u64, load: *load, stays: false };
        loads.iter().enumerate().map(shard).collect()
    }

    #[test]
    fn whole_shards_may_be_too_large_to_be_shared_out() {
        let of = |loads: &[f64], capacity| Burden { shards: &shards(0, loads), capacity }.busiest();
        assert_eq!(of(&[3.0, 2.0, 2.0, 1.0], 2.0), 4.0);
        assert_eq!(of(&[1.0, 1.0, 1.0], 2.0), 2.0, "one has two of them");
        assert_eq!(of(&[5.0, 1.0, 1.0], 3.0), 5.0);
        assert_eq!((of(&[], 3.0), of(&[2.0], 0.0)), (0.0, 2.0));
    }

    #[test]
    fn splits_halve_the_load_and_not_the_span() {
        assert_eq!(middle(&shards(0, &[1.0, 1.0, 1.0, 9.0])), Some(3));
        assert_eq!(middle(&shards(0, &[9.0, 1.0, 1.0, 1.0])), Some(1));
        assert_eq!(middle(&shards(0, &[0.0; 8])), Some(4));
        assert_eq!(middle(&shards(0, &[5.0])), None);
    }

    #[test]
    fn all_members_lead_for_what_they_can_bear() {
        let mut rng = Rng::new(8);
        for _ in 0..500 {
            let loads: Vec<f64> = (0..rng.between(16, 64)).map(|_| rng.fraction() * 10.0).collect();
            let capacities: Vec<f64> = (0..rng.between(1, 9)).map(|_| rng.between(1, 3) as f64).collect();
            let chosen = leaders(&loads, &vec![None; loads.len()], &capacities, 0.0);
            let mean = loads.iter().sum::<f64>() / capacities.iter().sum::<f64>();
            let largest = loads.iter().copied().fold(0.0, f64::max);
            for (member, capacity) in capacities.iter().enumerate() {
                let own: f64 = loads
                    .iter()
                    .zip(&chosen)
                    .filter(|(_, by)| **by == Some(member))
                    .map(|(load, _)| load)
                    .sum();
                assert!(own / capacity <= mean + largest, "{own} for {capacity}, {mean} in the mean");
            }
            assert_eq!(leaders(&loads, &chosen, &capacities, 0.0), chosen, "nothing moves again");
        }
    }

    /// No single one of many shards is much of what its leader bears.
    #[test]
    fn many_shards_with_the_same_load_are_spread() {
        let now: Vec<Option<usize>> =
            (0..27).map(|shard| Some(if shard < 14 { 0 } else { shard % 2 + 1 })).collect();
        for load in [0.0, 5.0] {
            let due = leaders(&[load; 27], &now, &[1.0; 3], 0.0);
            let counts = [0, 1, 2].map(|member| due.iter().filter(|leader| **leader == Some(member)).count());
            assert!(counts.iter().all(|count| (8..=10).contains(count)), "{counts:?}");
            assert_eq!(leaders(&[load; 27], &due, &[1.0; 3], 0.0), due, "it comes to rest");
        }
    }

    #[test]
    fn leaders_stay_where_little_is_gained() {
        assert_eq!(
            leaders(&[1.0, 1.0, 1.0], &[Some(0), Some(0), Some(1)], &[1.0, 1.0], 0.0),
            [Some(0), Some(0), Some(1)]
        );
        let gone =
            leaders(&[1.0, 1.0, 1.0, 1.0], &[Some(0), Some(1), Some(2), Some(2)], &[1.0, 1.0, 0.0], 0.0);
        assert_eq!(gone[..2], [Some(0), Some(1)], "those who stay keep theirs");
        assert_eq!(gone.iter().filter(|by| **by == Some(0)).count(), 2);
        assert_eq!(leaders(&[1.0], &[Some(0)], &[0.0], 0.0), [None], "nobody can");
        let idle = leaders(&[0.0; 4], &[Some(0); 4], &[1.0, 1.0], 0.0);
        assert_eq!(idle.iter().filter(|by| **by == Some(0)).count(), 2, "with nothing to do, by number");
    }

    #[test]
    fn leaders_stay_where_the_gain_may_be_chance() {
        let now: Vec<Option<usize>> = (0..20).map(|shard| Some(usize::from(shard >= 12))).collect();
        let left = |chance| {
            let due = leaders(&[10.0; 20], &now, &[1.0; 2], chance);
            due.into_iter().filter(|leader| *leader == Some(0)).count()
        };
        assert_eq!([0.0, 1.0, 10.0].map(left), [10, 11, 12], "110 and 100, 120 and 90 may be the same");
    }

    /// Of two hot shards at one member neither can leave for somebody else's place, unless what is there makes room for it.
    #[test]
    fn leaders_are_shared_out_anew_where_no_single_move_helps() {
        let loads = [0.8, 0.8, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3];
        let now = [0, 0, 1, 1, 1, 2, 2, 2].map(Some);
        let then = leaders(&loads, &now, &[1.0; 3], 0.0);
        let mut sums = [0.0; 3];
        then.iter().zip(loads).for_each(|(leader, load)| sums[leader.expect("led")] += load);
        assert!(sums.iter().all(|sum| *sum < 1.5), "{sums:?}");
        let moved = then.iter().zip(&now).filter(|(then, now)| then != now).count();
        assert!(moved <= 4, "{then:?}");
        assert_eq!(leaders(&loads, &then, &[1.0; 3], 0.0), then, "and stay");
    }
}
