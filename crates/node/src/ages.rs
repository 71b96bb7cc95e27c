//! How long nodes live, as it was seen here or heard of others, and how large groups have to be for that (Scatter 6.1, figure 7).
//!
//! All nodes that know each other watch the same nodes, and who has just come has seen nothing. So nodes tell each other what was seen, and whoever has
//! seen less takes over what the other has, together with the size that follows from it: it does not matter who speaks for a group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_groups::lifetimes::Lifetimes;
use quorate_groups::resilience::{Sizes, chance_for, chance_of_failure, size_kept};
use quorate_groups::{Group, MEMBERS_MAX};
use quorate_kernel::{NodeId, Time};

use crate::config::NodeConfig;
use crate::journal::Clocks;
use crate::machine::Node;
use crate::motive::{SizeByLifetimes, SizeWanted};
use crate::policies::LOOK_EVERY;
use crate::ring::Word;

/// While more nodes than this are known, it is looked only one time in `RARELY` who of them lives.
const MANY: usize = 256;
const RARELY: u32 = 5;
/// How long nodes live where nothing was seen yet, and sizes do not follow from it.
const EXPECTED: Duration = Duration::from_secs(24 * 60 * 60);
/// What it takes to notice that a member is gone and to put another in its place, beside what was chosen.
const REPLACED: Duration = Duration::from_secs(2);
/// Who has been in no group for so long has died. Who goes from one to another may be in none as far as is known, and who was let go by mistake comes back: groups
/// that split and merge would seem to kill their members, and have to be larger for that.
const DEAD_AFTER: Duration = Duration::from_secs(10);
/// No group is to have fewer members by how long nodes live.
const SIZE_LEAST: usize = 3;

/// A member of a group that is watched.
#[derive(Debug, Clone, Copy)]
struct Life {
    /// When it was seen first.
    since: Time,
    /// How long it had lived by then, as it says; none as long as it has not said so.
    before: Option<Duration>,
    /// Since when it is in no group that is known, if it is not.
    gone: Option<Time>,
}

impl Life {
    fn age(self, now: Time) -> Duration {
        self.before.unwrap_or_default().saturating_add(now.since(self.since))
    }
}

/// How long nodes live.
#[derive(Debug)]
pub(crate) struct Ages {
    lifetimes: Lifetimes,
    /// Members of groups.
    lives: BTreeMap<NodeId, Life>,
    watched_at: Time,
    /// How long it takes until somebody else is in the place of a member that has died.
    replaced_within: Duration,
    /// With which chance a group may fail; none if sizes do not follow from it.
    failure_most: Option<f64>,
    /// The chance that a member dies before it is replaced, in the mean of all.
    death: f64,
    /// How many members groups should have.
    wanted: usize,
}

impl Ages {
    /// Nothing was seen. Where sizes follow from how long nodes live, they live so long as far as is known that as many copies are enough as are
    /// configured: groups begin with these, and get more or fewer by what is seen.
    pub(crate) fn new(config: &NodeConfig) -> Ages {
        let nines = config.placing.nines;
        let failure_most = (nines > 0).then(|| (0..nines).fold(1.0, |chance, _| chance / 10.0));
        let replaced_within = config.repair_after() + REPLACED;
        // An even size is no better than one less.
        let wanted = (usize::from(config.copies) | 1).clamp(SIZE_LEAST, MEMBERS_MAX - 1);
        let death = failure_most.map(|most| chance_for(wanted, most));
        let lifetimes = match death {
            Some(death) => Lifetimes::of_chance(death, replaced_within),
            None => Lifetimes::new(EXPECTED),
        };
        Ages {
            lifetimes,
            lives: BTreeMap::new(),
            watched_at: Time::default(),
            replaced_within,
            failure_most,
            death: death.unwrap_or_default(),
            wanted,
        }
    }

    /// Whether it is time to look who lives. In a large ring there is much to look at, and somebody dies all the time.
    pub(crate) fn watches(&self, now: Time) -> bool {
        self.lives.len() <= MANY || now.since(self.watched_at) >= RARELY * LOOK_EVERY
    }

    /// Watches who lives and who is gone. `lived`: for how long somebody lives by now, if it has said so. Whoever was old when it was seen first has
    /// lived on from that age only as far as is known here: of those who died younger nobody has told.
    fn watch(&mut self, now: Time, there: &BTreeSet<NodeId>, lived: impl Fn(NodeId) -> Option<Duration>) {
        let since = now.since(self.watched_at);
        for id in there {
            let life = self.lives.entry(*id).or_insert(Life { since: now, before: None, gone: None });
            if life.gone.take().is_some() {
                continue;
            }
            let before = || lived(*id).map(|lived| lived.saturating_sub(now.since(life.since)));
            life.before = life.before.or_else(before);
            let seen = since.min(now.since(life.since));
            self.lifetimes.lived(life.age(now).saturating_sub(seen), seen);
        }
        let is_dead = |gone: Time| now.since(gone) >= DEAD_AFTER;
        for (id, life) in &mut self.lives {
            if !there.contains(id) {
                life.gone.get_or_insert(now);
            }
        }
        for (_, life) in self.lives.extract_if(.., |_, life| life.gone.is_some_and(is_dead)) {
            self.lifetimes.died(life.gone.map_or(Duration::ZERO, |gone| life.age(gone)));
        }
        self.watched_at = now;
        if let Some(most) = self.failure_most.filter(|_| !there.is_empty()) {
            self.death = self.chance_of_death(now, there.iter().copied());
            self.wanted = size_kept((self.death, self.lifetimes.doubt()), most, self.wanted);
        }
    }

    /// Nothing is known any more of the group that had these members: it is not that they died.
    pub(crate) fn forget(&mut self, members: &[NodeId]) {
        self.lives.retain(|id, _| !members.contains(id));
    }

    /// What is told of it.
    fn told(&self) -> Word {
        // No group has so many members that it does not fit.
        Word::Lived { seen: self.lifetimes.seen(), wanted: self.wanted as u8 }
    }

    /// Somebody tells what it has seen.
    fn learn(&mut self, now: Time, seen: &[(u64, u64)], wanted: u8) {
        let (wanted, is_more) = (usize::from(wanted), self.take_over(now, seen));
        let is_size = (SIZE_LEAST..MEMBERS_MAX).contains(&wanted) && wanted % 2 == 1;
        let Some(most) = self.failure_most.filter(|_| is_size) else { return };
        // Of two sizes that both fit what was seen the larger, so that those agree who speak for neighbours.
        let fits = || size_kept((self.death, self.lifetimes.doubt()), most, wanted) == wanted;
        if is_more || (wanted > self.wanted && fits()) {
            self.wanted = wanted;
        }
    }

    /// Takes over what somebody else has seen, if that is more; whether it was.
    fn take_over(&mut self, now: Time, seen: &[(u64, u64)]) -> bool {
        let is_more = self.lifetimes.learn(seen);
        if is_more {
            // Of what has happened just now most is in it.
            self.watched_at = now;
            self.lives.retain(|_, life| life.gone.is_none());
        }
        is_more
    }

    /// The chances that some die before they are replaced.
    fn chances(&self, now: Time, ids: impl Iterator<Item = NodeId>) -> impl Iterator<Item = f64> {
        ids.map(move |id| {
            let age = self.lives.get(&id).map_or(Duration::ZERO, |life| life.age(now));
            self.lifetimes.chance_of_death(age, self.replaced_within)
        })
    }

    /// The chance that one of some dies before it is replaced, in their mean.
    pub(crate) fn chance_of_death(&self, now: Time, ids: impl Iterator<Item = NodeId>) -> f64 {
        let (sum, count) =
            self.chances(now, ids).fold((0.0, 0.0), |(sum, count), chance| (sum + chance, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

impl Node {
    /// How many members groups should have, and what that follows from.
    pub(crate) fn size_wanted(&self) -> SizeWanted {
        let nines = self.config.placing.nines;
        let ages = self.ring().map(|ring| &ring.sights.ages).filter(|_| nines > 0);
        let wanted = ages.map_or(usize::from(self.config.copies), |ages| ages.wanted);
        let Sizes { least, most } = Sizes::around(wanted);
        let lifetimes = ages.map(|ages| SizeByLifetimes { death: ages.death, nines });
        SizeWanted { least, most, wanted, lifetimes }
    }

    /// With which chance a group may fail that is safe enough. Where sizes are given a group that has as many as are wanted is safe, and others are not
    /// known to be.
    pub(crate) fn chance_of_failure_most(&self) -> f64 {
        self.ring().and_then(|ring| ring.sights.ages.failure_most).unwrap_or_default()
    }

    /// The chance that a group fails before it is whole again, as far as it is known.
    pub(crate) fn chance_of_failure(&self, now: Time, group: &Group) -> Option<f64> {
        let ages = &self.ring()?.sights.ages;
        if ages.failure_most.is_none() {
            let copies = usize::from(self.config.copies);
            let wanted = if self.policies().fills_first { copies } else { Sizes::around(copies).least };
            return (group.members.len() >= wanted).then_some(0.0);
        }
        let chances: Vec<f64> = ages.chances(now, group.members.iter().copied()).collect();
        Some(chance_of_failure(&chances))
    }

    /// Watches which members of groups live, and for how long they have.
    pub(crate) fn watch_ages(&mut self, (now, wall): Clocks, there: &BTreeSet<NodeId>) {
        let Some(ring) = self.ring_mut() else { return };
        let people = &ring.people;
        // By two clocks that may disagree: then it seems older or younger than it is, and nothing worse.
        let since = |id| people.get(id).map(|person| person.since_ms).filter(|since| *since > 0);
        let lived = |id| since(id).map(|since| Duration::from_millis(wall.unix_ms.saturating_sub(since)));
        ring.sights.ages.watch(now, there, lived);
        ring.sights.keep_ways(there);
    }

    /// What this node tells others of how long nodes live, if policies go by that.
    pub(crate) fn lived(&self) -> Option<Word> {
        let placing = &self.config.placing;
        let ring = self.ring().filter(|_| placing.nines > 0 || placing.preset.is_none())?;
        Some(ring.sights.ages.told())
    }

    /// Somebody tells how long nodes live, as far as it knows.
    pub(crate) fn on_lived(&mut self, now: Time, seen: &[(u64, u64)], wanted: u8) {
        if let Some(ring) = self.ring_mut() {
            ring.sights.ages.learn(now, seen, wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use quorate_kernel::Rng;

    fn second(second: u64) -> Time {
        Time(second * 1_000_000_000)
    }

    fn ages(nines: u8, copies: u8) -> Ages {
        let mut config = fixture::node(9, &[]).config;
        (config.placing.nines, config.copies) = (nines, copies);
        Ages::new(&config)
    }

    fn hear(ages: &mut Ages, other: &Ages, now: Time) {
        let Word::Lived { seen, wanted } = other.told() else { unreachable!() };
        ages.learn(now, &seen, wanted);
    }

    /// Nodes that live so many seconds in the mean, as many at any time.
    struct Crowd {
        rng: Rng,
        mean: f64,
        /// When each was born, and dies.
        lives: BTreeMap<NodeId, (u64, u64)>,
        next: u64,
        died: u64,
    }

    impl Crowd {
        fn new(count: u64, mean: f64, seed: u64) -> Crowd {
            let (rng, lives) = (Rng::new(seed), BTreeMap::new());
            let mut crowd = Crowd { rng, mean, lives, next: 0, died: 0 };
            (0..count).for_each(|_| crowd.bear(0));
            crowd
        }

        fn bear(&mut self, now: u64) {
            // Chance of an exponential distribution, second by second.
            let mut end = now + 1;
            while self.rng.fraction() > 1.0 / self.mean {
                end += 1;
            }
            self.lives.insert(NodeId(self.next), (now, end));
            self.next += 1;
        }

        fn pass(&mut self, now: u64) {
            let dead = self.lives.extract_if(.., |_, (_, end)| *end <= now).count() as u64;
            (0..dead).for_each(|_| self.bear(now));
            self.died += dead;
        }

        fn watched_by(&self, ages: &mut Ages, now: u64) {
            let lived = |id: NodeId| Some(Duration::from_secs(now - self.lives[&id].0));
            ages.watch(second(now), &self.lives.keys().copied().collect(), lived);
        }
    }

    #[test]
    fn who_is_gone_has_lived_for_as_long_as_it_was_seen() {
        let mut ages = ages(0, 3);
        let chance =
            |ages: &Ages, now: u64, id: u64| ages.chance_of_death(second(now), [NodeId(id)].into_iter());
        let before = chance(&ages, 0, 1);
        for now in 1..110 {
            // One of three dies every ten seconds, and another comes.
            let there = [now / 10 * 3, now / 10 * 3 + 1, now / 10 * 3 + 2].map(NodeId).into();
            ages.watch(second(now), &there, |_| None);
        }
        let after = chance(&ages, 110, 30);
        assert!(before < 1e-3 && after > 1e-3, "{before} {after}");
        assert_eq!(ages.lives.len(), 6, "three of them have gone just now");
    }

    #[test]
    fn until_something_was_seen_groups_have_as_many_members_as_are_configured() {
        for (copies, wanted) in [(0, 3), (1, 3), (3, 3), (4, 5), (7, 7), (200, 63)] {
            let mut ages = ages(7, copies);
            assert_eq!(ages.wanted, wanted, "{copies} copies");
            ages.watch(second(5), &[NodeId(1)].into(), |_| None);
            assert_eq!(ages.wanted, wanted, "{copies} copies");
        }
        let mut ages = ages(7, 7);
        let there = (1..8).map(NodeId).collect();
        (0..40_000).for_each(|now| ages.watch(second(now), &there, |_| None));
        assert_eq!(ages.wanted, 3, "nobody has died for long");
    }

    #[test]
    fn nodes_are_as_old_as_they_say_and_count_from_when_they_were_seen() {
        let (mut ages, there) = (ages(7, 3), [NodeId(1), NodeId(2)].into());
        ages.watch(second(10), &there, |id| (id == NodeId(1)).then_some(Duration::from_secs(1_000)));
        assert_eq!(ages.lifetimes.seen(), [], "how many died before they were as old nobody knows");
        ages.watch(second(15), &there, |_| Some(Duration::from_secs(105)));
        let seconds: Vec<u64> = ages.lifetimes.seen().iter().map(|(watched, _)| watched / 1_000).collect();
        assert_eq!(seconds, [0, 0, 0, 0, 0, 0, 5, 0, 0, 5], "at ages of 64 to 128 and of 512 to 1,024");
        let one = [NodeId(2)].into();
        for now in 16..25 {
            ages.watch(second(now), &one, |_| None);
        }
        ages.watch(second(25), &there, |_| None);
        ages.watch(second(26), &one, |_| None);
        ages.watch(second(35), &one, |_| None);
        assert!(ages.lifetimes.seen().iter().all(|(_, deaths)| *deaths == 0), "it was gone and came back");
        ages.watch(second(36), &one, |_| None);
        assert_eq!(ages.lifetimes.seen()[9].1, 1, "it has died at an age of about 1,016");
    }

    /// Or a newcomer that comes to speak for a group wants it smaller than it was, and splits what others merge.
    #[test]
    fn a_change_of_speaker_does_not_change_the_size_that_is_wanted() {
        for seed in 0..20 {
            let mut crowd = Crowd::new(40, [60.0, 180.0, 500.0][seed as usize % 3], seed);
            let mut speaker = ages(7, 3);
            let mut sizes = Vec::new();
            for now in 1..2_000 {
                crowd.pass(now);
                crowd.watched_by(&mut speaker, now);
                if now % 150 == 0 {
                    let mut newcomer = ages(7, 3);
                    crowd.watched_by(&mut newcomer, now);
                    let alone = newcomer.wanted;
                    assert!(now < 600 || alone < speaker.wanted, "seed {seed}: it knows nothing by itself");
                    hear(&mut newcomer, &speaker, second(now));
                    assert_eq!(newcomer.wanted, speaker.wanted, "seed {seed} at {now} s");
                    // From now on it is the speaker, and the other is gone.
                    speaker = newcomer;
                }
                sizes.push(speaker.wanted);
            }
            assert!(sizes.is_sorted(), "seed {seed}: {sizes:?}");
            let expected = if crowd.mean < 100.0 {
                19..=23
            } else if crowd.mean < 300.0 {
                11..=13
            } else {
                7..=9
            };
            assert!(
                sizes.last().is_some_and(|last| expected.contains(last)),
                "seed {seed}: {:?}",
                sizes.last()
            );
        }
    }

    #[test]
    fn what_is_told_to_and_fro_does_not_count_twice() {
        let (mut crowd, mut rng) = (Crowd::new(30, 100.0, 1), Rng::new(7));
        let mut all: Vec<Ages> = (0..5).map(|_| ages(7, 3)).collect();
        for now in 1..1_000 {
            crowd.pass(now);
            let there = crowd.lives.keys().copied().collect();
            for place in 0..all.len() {
                // One after the other; and whoever looks tells somebody, who has looked before or will.
                let at = Time(second(now).0 + 150_000_000 * place as u64);
                all[place].watch(at, &there, |id| Some(Duration::from_secs(now - crowd.lives[&id].0)));
                let Word::Lived { seen, wanted } = all[place].told() else { unreachable!() };
                all[rng.below(5) as usize].learn(at, &seen, wanted);
            }
        }
        assert!(all.iter().all(|ages| ages.wanted == all[0].wanted), "they agree which size is wanted");
        for ages in &all {
            let seen = ages.lifetimes.seen();
            let watched: u64 = seen.iter().map(|(watched, _)| watched / 1_000).sum();
            let deaths: u64 = seen.iter().map(|(_, deaths)| deaths).sum();
            assert!((28_500..=30_100).contains(&watched), "{watched} s of 30 nodes in 1,000 s");
            assert!(
                (crowd.died - 10..=crowd.died).contains(&deaths),
                "{deaths}, and {} have died",
                crowd.died
            );
        }
    }
}
