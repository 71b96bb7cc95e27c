//! How likely groups fail, how large they should be, and when they merge and split for that (Scatter 6.1, figure 7).

use alloc::vec;

use crate::group::{GroupId, MEMBERS_MAX};

/// The chance that a group loses its majority before it is whole again: `chances` has for each member that it dies within the time
/// that it takes to notice a death and to replace the member. Members die independently.
pub fn chance_of_failure(chances: &[f64]) -> f64 {
    // At place n: that n members have died.
    let mut dead = vec![0.0; chances.len() + 1];
    dead[0] = 1.0;
    for (count, chance) in chances.iter().enumerate() {
        for died in (0..=count).rev() {
            dead[died + 1] += dead[died] * chance;
            dead[died] *= 1.0 - chance;
        }
    }
    let majority = chances.len() / 2 + 1;
    // From the smallest on, so that none is lost in the sum.
    dead.iter().skip(chances.len() + 1 - majority).rev().sum()
}

/// The smallest size at which a group of members that die with this chance fails with at most `most`; the largest if none does.
/// Never one alone: its disk would be the only one. Sizes are odd: one more member makes the majority larger and nothing better.
pub fn size_for(chance: f64, most: f64) -> usize {
    let mut sizes = (3..MEMBERS_MAX).step_by(2);
    let fits = |size: &usize| chance_of_failure(&vec![chance; *size]) <= most;
    sizes.clone().find(fits).or(sizes.next_back()).unwrap_or(3)
}

/// By how much the chance that a member dies has to be above what a size can bear before groups get more members.
const GROWS: f64 = 1.1;

/// And how much below what a smaller size could bear before they get fewer: one member too many makes writes a little dearer, one too few may cost the majority.
const SHRINKS: f64 = 1.6;

/// The size that is wanted from now on, of groups that were to have `kept`, where members die with this chance, which may be off by such a part of itself. It stays as it is while what was measured is near
/// a limit between two sizes: what chance adds to the figures and takes from them would make groups split and merge, and of two that speak for neighbours one
/// might split what the other merges.
pub fn size_kept((chance, doubt): (f64, f64), most: f64, kept: usize) -> usize {
    kept.clamp(
        size_for(chance / (GROWS + doubt), most),
        size_for((chance * (SHRINKS + doubt)).min(1.0), most),
    )
}

/// The chance with which members may die of groups that are to fail with at most `most` and to have so many members, with some room to the limit.
pub fn chance_for(size: usize, most: f64) -> f64 {
    let (mut fits, mut fails) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = (fits + fails) / 2.0;
        let is_safe = chance_of_failure(&vec![middle; size]) <= most;
        *(if is_safe { &mut fits } else { &mut fails }) = middle;
    }
    fits / GROWS
}

/// How large groups should be. Below the least they merge, above the most they split; the halves of a split are not below the
/// least, so that nothing goes to and fro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Merged below this.
    pub least: usize,
    /// Split above this.
    pub most: usize,
}

impl Sizes {
    /// Around a wanted size: from two thirds of it, rounded up, to less than twice that; but so that one that is too small and one that is not too
    /// large fit into one group, and where three are wanted there are no fewer, of whom none may be missing.
    pub fn around(wanted: usize) -> Sizes {
        let least = (2 * wanted).div_ceil(3).max(wanted.min(3)).min(MEMBERS_MAX.div_ceil(3) - 1);
        Sizes { least, most: 2 * least - 1 }
    }
}

/// What a group does about its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resize {
    /// Merge with the group before it.
    MergeBefore,
    /// Merge with the group after it.
    MergeAfter,
    /// Split.
    Split,
}

/// What a group of `size` members does, of whom so many are `alone` in it and in no other group, and whose neighbours have so many; none if there are no others.
///
/// Whoever is in two groups is let go by one of them before long, and is no reason to split: if it were the only member of a half, that half could not let
/// it go and would merge, with the other half again, for ever.
///
/// A group that is too small merges with the smaller neighbour. What comes of it may be too large, and splits into two that are
/// not too small: with every two steps there is one small group less.
pub fn resize(
    size: usize,
    alone: impl FnOnce() -> usize,
    neighbours: Option<(usize, usize)>,
    sizes: Sizes,
) -> Option<Resize> {
    if size > sizes.most {
        return (alone() > sizes.most).then_some(Resize::Split);
    }
    let (before, after) = neighbours.filter(|_| size < sizes.least)?;
    let fits = |other: usize| size + other <= MEMBERS_MAX;
    match before < after {
        true if fits(before) => Some(Resize::MergeBefore),
        false if fits(after) => Some(Resize::MergeAfter),
        _ => None,
    }
}

/// Where a group sends a member that has more than are `wanted`: to the smallest that has fewer. If there is none, and all groups have so many members
/// together that there could be one group more, to the largest, so that some group splits soon: else each would stay as much too large, and each write
/// would have more copies than are wanted.
///
/// Members go from larger groups to those that are too small, or else from smaller to larger ones (of equals, to the one with the greater name) until
/// one splits. Neither undoes the other, and each split makes one more group, of which there are never more than have enough members: so it comes to rest.
///
/// Groups are named with how many members they have. Only those are asked about that would be chosen: whether one of those who could be sent may go there.
pub fn surplus(
    own: (GroupId, usize),
    others: &[(GroupId, usize)],
    wanted: usize,
    sizes: Sizes,
    is_open: impl Fn(GroupId) -> bool,
) -> Option<GroupId> {
    let (id, size) = own;
    if size <= wanted || size > sizes.most {
        return None;
    }
    if others.iter().any(|(_, size)| *size < wanted) {
        let needy = others.iter().filter(|(group, size)| *size < wanted && is_open(*group));
        return needy.min_by_key(|(group, size)| (*size, *group)).map(|(group, _)| *group);
    }
    let members = size + others.iter().map(|(_, size)| size).sum::<usize>();
    if members < wanted * (others.len() + 2) {
        return None;
    }
    let fits = |group: GroupId, other: usize| other <= sizes.most && (other, group) > (size, id);
    let larger = others.iter().filter(|(group, size)| fits(*group, *size) && is_open(*group));
    larger.max_by_key(|(group, size)| (*size, *group)).map(|(group, _)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use quorate_kernel::Rng;

    fn died(window: f64, mean: f64) -> f64 {
        -libm::expm1(-window / mean)
    }

    #[test]
    fn groups_fail_as_often_as_the_model_of_figure_7_says() {
        // Reckoned by hand from the binomial distribution: mean lifetimes of 100 and 500 s, replaced within 1 to 2.5 s.
        let expected = [
            (3, 100.0, 1.0, 3.0e-4),
            (5, 100.0, 1.5, 3.2e-5),
            (7, 500.0, 2.5, 2.1e-8),
            (9, 100.0, 1.5, 8.8e-8),
            (9, 100.0, 2.5, 1.1e-6),
            (11, 500.0, 1.5, 3.3e-13),
            (13, 100.0, 1.0, 1.6e-11),
        ];
        for (size, mean, window, expected) in expected {
            let chance = chance_of_failure(&vec![died(window, mean); size]);
            assert!(
                (chance / expected - 1.0).abs() < 0.05,
                "{size} {mean} {window}: {chance:e}, not {expected:e}"
            );
        }
    }

    #[test]
    fn one_member_more_than_odd_makes_it_worse() {
        for size in (1..30).step_by(2) {
            let chance = |size: usize| chance_of_failure(&vec![0.01; size]);
            assert!(chance(size + 1) > chance(size), "{size}");
            assert!(chance(size + 2) < chance(size), "{size}");
        }
    }

    #[test]
    fn old_members_make_a_group_safer() {
        let mixed = chance_of_failure(&[0.001, 0.001, 0.05]);
        assert!(mixed < chance_of_failure(&[0.05; 3]) && mixed > chance_of_failure(&[0.001; 3]));
        assert!((chance_of_failure(&[0.3]) - 0.3).abs() < 1e-12);
        assert!((chance_of_failure(&[0.5, 0.25]) - (1.0 - 0.5 * 0.75)).abs() < 1e-12, "both are needed");
    }

    #[test]
    fn sizes_follow_lifetimes_and_what_is_wanted() {
        // "At least seven nines" takes nine members where nodes live for 100 s (Scatter 7.2).
        assert_eq!(size_for(died(1.5, 100.0), 1e-7), 9);
        assert_eq!(size_for(died(1.5, 500.0), 1e-7), 7);
        assert_eq!(size_for(died(1.5, 1e6), 1e-7), 3);
        assert_eq!(size_for(0.0, 1e-7), 3);
        assert_eq!(Sizes::around(63), Sizes { least: 21, most: 41 });
        assert_eq!(size_for(0.9, 1e-7), 63, "as many as there can be");
        assert_eq!(Sizes::around(9), Sizes { least: 6, most: 11 });
        assert_eq!(Sizes::around(3), Sizes { least: 3, most: 5 });
        assert_eq!([1, 2].map(|wanted| Sizes::around(wanted).least), [1, 2]);
    }

    #[test]
    fn sizes_do_not_go_to_and_fro_by_what_chance_adds() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let chance = libm::exp(-10.0 * rng.fraction());
            let mut size = [3, 5, 7, 9, 13, 21][rng.below(6) as usize];
            let mut steps = Vec::from([size]);
            for _ in 0..200 {
                let noise = 1.0 / 1.2 + rng.fraction() * (1.2 - 1.0 / 1.2);
                size = size_kept((chance * noise, 0.0), 1e-7, size);
                steps.push(size);
            }
            assert!(steps.is_sorted() || steps.iter().rev().is_sorted(), "seed {seed}: {steps:?}");
            let right = [1.05, 1.36].map(|off| size_for((chance * off).min(1.0), 1e-7));
            assert!((right[0]..=right[1]).contains(&size), "seed {seed}: {size}, not {right:?}");
        }
    }

    #[test]
    fn a_size_changes_once_another_is_clearly_wanted() {
        // Nine are enough up to 0.0154, seven up to 0.0073.
        let kept = |size| {
            [0.004, 0.005, 0.0085, 0.013, 0.0165, 0.018].map(|chance| size_kept((chance, 0.0), 1e-7, size))
        };
        assert_eq!(kept(9), [7, 9, 9, 9, 9, 11]);
        assert_eq!(kept(7), [7, 7, 9, 9, 9, 11]);
        assert_eq!(size_kept((0.9, 0.0), 1e-7, 3), 63);
        for size in [3, 5, 7, 9, 13] {
            assert_eq!(size_for(chance_for(size, 1e-7), 1e-7), size);
        }
    }

    /// Lets groups of a ring resize themselves, in any order, until none wants to; how often they did.
    fn settle(groups: &mut Vec<usize>, sizes: Sizes, rng: &mut Rng) -> usize {
        for count in 0.. {
            let wishes: Vec<(usize, Resize)> = (0..groups.len())
                .filter_map(|place| {
                    let (before, after) =
                        ((place + groups.len() - 1) % groups.len(), (place + 1) % groups.len());
                    let neighbours = (groups.len() > 1).then(|| (groups[before], groups[after]));
                    Some((place, resize(groups[place], || groups[place], neighbours, sizes)?))
                })
                .collect();
            let Some((place, wish)) = rng.pick(&wishes).copied() else { return count };
            let last = groups.len() - 1;
            let (into, from) = match wish {
                Resize::Split => {
                    let size = groups[place];
                    groups[place] = size / 2;
                    groups.insert(place + 1, size - size / 2);
                    continue;
                }
                Resize::MergeBefore => (place, if place == 0 { last } else { place - 1 }),
                Resize::MergeAfter => (place, if place == last { 0 } else { place + 1 }),
            };
            groups[into] += groups[from];
            groups.remove(from);
        }
        unreachable!()
    }

    #[test]
    fn resizing_comes_to_rest() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let sizes = Sizes::around([3, 5, 7, 9, 13, 33, 63][rng.below(7) as usize]);
            let mut groups: Vec<usize> =
                (0..rng.between(1, 30)).map(|_| rng.between(1, 60) as usize).collect();
            let (count, members) = (groups.len(), groups.iter().sum::<usize>());
            let steps = settle(&mut groups, sizes, &mut rng);
            // Each group too small costs a merge and at most a split or two; what was too large is split into as many as fit.
            assert!(
                steps <= 6 * count + members / sizes.least,
                "seed {seed}: {steps} steps for {count} groups"
            );
            assert_eq!(groups.iter().sum::<usize>(), members);
            let is_fine = |size: &usize| (sizes.least..=sizes.most).contains(size);
            assert!(groups.len() == 1 || groups.iter().all(is_fine), "seed {seed}: {groups:?}, {sizes:?}");
        }
    }

    /// As in `ring` seeds 80000257 and 80003835.
    #[test]
    fn who_is_in_two_groups_is_let_go_before_one_splits() {
        let sizes = Sizes::around(1);
        let of = |(size, alone)| resize(size, || alone, Some((1, 1)), sizes);
        assert_eq!(of((0, 0)), Some(Resize::MergeAfter), "its only member stays in the other group");
        assert_eq!(of((2, 1)), None, "that one goes");
        assert_eq!([of((2, 2)), of((1, 1)), of((3, 2))], [Some(Resize::Split), None, Some(Resize::Split)]);
    }

    /// Groups that are called by their places.
    fn named(sizes: &[usize]) -> Vec<(GroupId, usize)> {
        sizes.iter().enumerate().map(|(at, size)| (GroupId(at as u64), *size)).collect()
    }

    /// Where the group at a place sends a member.
    fn sends(sizes: &[usize], place: usize, wanted: usize) -> Option<usize> {
        let mut others = named(sizes);
        let own = others.remove(place);
        surplus(own, &others, wanted, Sizes::around(wanted), |_| true).map(|to| to.0 as usize)
    }

    #[test]
    fn who_is_one_too_many_goes_where_one_is_missed_or_a_group_splits_soon() {
        let all = |sizes: &[usize]| -> Vec<Option<usize>> {
            (0..sizes.len()).map(|place| sends(sizes, place, 5)).collect()
        };
        assert_eq!(all(&[5, 6, 4, 7]), [None, Some(2), None, Some(2)], "who has enough keeps them");
        assert_eq!(all(&[5, 6, 7, 5]), [None; 4], "not enough for one group more");
        assert_eq!(all(&[6, 7, 6, 7]), [Some(3), Some(3), Some(3), None]);
        assert_eq!(all(&[6, 6, 6, 6, 6]), [Some(4), Some(4), Some(4), Some(4), None], "equals agree which");
        assert_eq!(all(&[6, 8, 6, 6, 6]), [Some(4), None, Some(4), Some(4), None], "it splits already");
        let closed =
            surplus((GroupId(0), 6), &named(&[6, 4, 7])[1..], 5, Sizes::around(5), |to| to != GroupId(1));
        assert_eq!(closed, None, "it stays where it is until it can go there");
    }

    #[test]
    fn groups_become_as_many_as_have_enough_members() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let wanted = [3, 5, 7, 9][rng.below(4) as usize];
            let sizes = Sizes::around(wanted);
            let mut groups: Vec<usize> =
                (0..rng.between(1, 30)).map(|_| rng.between(1, 40) as usize).collect();
            let members = groups.iter().sum::<usize>();
            let mut sent = 0;
            settle(&mut groups, sizes, &mut rng);
            loop {
                // A merged group has a new name, a split one two: places will do, since nothing is remembered.
                let due: Vec<(usize, usize)> = (0..groups.len())
                    .filter_map(|from| Some((from, sends(&groups, from, wanted)?)))
                    .collect();
                let Some((from, to)) = rng.pick(&due).copied() else { break };
                (groups[from], groups[to], sent) = (groups[from] - 1, groups[to] + 1, sent + 1);
                settle(&mut groups, sizes, &mut rng);
                assert!(sent <= members, "seed {seed}: members move for ever: {groups:?}");
            }
            assert_eq!(groups.iter().sum::<usize>(), members);
            let spare = members.saturating_sub(wanted * groups.len());
            assert!(groups.len() == 1 || spare < wanted, "seed {seed}: {groups:?}, {wanted} wanted");
        }
    }
}
