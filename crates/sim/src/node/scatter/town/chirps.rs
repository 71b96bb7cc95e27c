//! What users do.
//!
//! As in the paper's trace, few have many followers: the number is drawn from a power law with exponent 2.3. Who has more posts more, and
//! some trend for a while. A post is a read and a write of its author's key, as the paper's append is, and then a follower reads it.

use std::rc::Rc;
use std::time::Duration;

use quorate_api::{Bucket, SLOT_COUNT, slot_of};
use quorate_kernel::Rng;
use quorate_workload::ycsb::scatter;

use super::setup::{Heat, Setup};

/// The exponent of the power law, and the least number of followers: as the load `chirp` of the benchmark has them.
const EXPONENT: f64 = 2.3;
const FOLLOWERS_MIN: f64 = 4.0;

/// An operation of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Get,
    Set,
}

/// Who is how popular: shared by all clients.
#[derive(Debug)]
pub(super) struct Users {
    /// For each user, the rates of all before and its own.
    sums: Vec<f64>,
    /// For each slot, the users whose keys lie there.
    of_slot: Vec<Vec<u32>>,
}

/// The key of a user. Scattered, so that neighbours in number are none on the ring.
pub(super) fn key(user: usize) -> String {
    format!("updates:{:x}", scatter(user as u64))
}

impl Users {
    pub(super) fn draw(setup: &Setup, rng: &mut Rng) -> Rc<Users> {
        let mut sum = 0.0;
        let mut of_slot = vec![Vec::new(); usize::from(SLOT_COUNT)];
        let mut sums = Vec::with_capacity(setup.users);
        for user in 0..setup.users {
            let drawn = (1.0 - rng.fraction()).powf(-1.0 / (EXPONENT - 1.0));
            // Nobody has more followers than there are users.
            let followers = ((FOLLOWERS_MIN - 0.5) * drawn + 0.5).min(setup.users as f64);
            sum += followers.powf(setup.eagerness);
            sums.push(sum);
            of_slot[usize::from(slot_of(key(user).as_bytes()))].push(user as u32);
        }
        Rc::new(Users { sums, of_slot })
    }

    /// A user, by how much it does.
    pub(super) fn pick(&self, rng: &mut Rng) -> usize {
        let at = rng.fraction() * self.sums.last().copied().unwrap_or_default();
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len().saturating_sub(1))
    }

    /// What each does of all that is done, if nobody trends.
    fn shares(&self) -> impl Iterator<Item = f64> {
        let all = self.sums.last().copied().unwrap_or(1.0);
        self.sums.iter().scan(0.0, move |before, sum| Some((sum - core::mem::replace(before, *sum)) / all))
    }

    /// What the most popular one has of all that is done.
    #[cfg(test)]
    pub(super) fn largest_share(&self) -> f64 {
        self.shares().fold(0.0, f64::max)
    }

    /// What the hottest of a ring's buckets has of all that is asked: whoever leads it has no less.
    pub(super) fn hottest_bucket(&self, trend: &Trend, setup: &Setup) -> f64 {
        let (shares, buckets) = (self.shares().collect::<Vec<_>>(), setup.buckets());
        let mut loads = vec![0.0; buckets.get().into()];
        let trending = trend.percent as f64 / 100.0;
        for (slot, user) in (0..SLOT_COUNT)
            .flat_map(|slot| self.of_slot[usize::from(slot)].iter().map(move |user| (slot, *user as usize)))
        {
            loads[usize::from(Bucket::of_slot(slot, buckets).0)] += shares[user] * (1.0 - trending);
        }
        for user in &trend.hot {
            let bucket = Bucket::of_key(key(*user).as_bytes(), buckets);
            loads[usize::from(bucket.0)] += trending / trend.hot.len() as f64;
        }
        loads.into_iter().fold(0.0, f64::max)
    }
}

/// Whom everybody wants now.
#[derive(Debug, Default)]
pub(super) struct Trend {
    hot: Vec<usize>,
    percent: u64,
}

impl Trend {
    /// Draws others than before.
    pub(super) fn draw(setup: &Setup, users: &Users, rng: &mut Rng) -> Trend {
        match setup.heat {
            Heat::Even => Trend::default(),
            Heat::Authors { percent } => {
                let hot = (0..setup.nodes).map(|_| rng.below(setup.users as u64) as usize).collect();
                Trend { hot, percent: percent.into() }
            }
            Heat::Region { percent, width } => {
                let slots = u64::from(SLOT_COUNT) * u64::from(width) / 100;
                let first = rng.below(u64::from(SLOT_COUNT));
                let of = |slot| (first + slot) % u64::from(SLOT_COUNT);
                let hot = (0..slots).flat_map(|slot| &users.of_slot[of(slot) as usize]);
                Trend { hot: hot.map(|user| *user as usize).collect(), percent: percent.into() }
            }
        }
    }

    /// Whose turn it is.
    pub(super) fn pick(&self, users: &Users, rng: &mut Rng) -> usize {
        match rng.below(100) < self.percent {
            true => rng.pick(&self.hot).copied().unwrap_or_default(),
            false => users.pick(rng),
        }
    }
}

/// What a client does: the steps of one post, one after the other.
#[derive(Debug)]
pub(super) struct Chirper {
    rng: Rng,
    user: usize,
    left: Vec<Step>,
}

impl Chirper {
    pub(super) fn new(rng: Rng) -> Chirper {
        Chirper { rng, user: 0, left: Vec::new() }
    }

    /// The next operation, and on whose key.
    pub(super) fn next(&mut self, setup: &Setup, users: &Users, trend: &Trend) -> (Step, usize) {
        if let Some(step) = self.left.pop() {
            return (step, self.user);
        }
        self.user = trend.pick(users, &mut self.rng);
        if let Some(reads) = setup.reads_per_post {
            self.left.extend(std::iter::repeat_n(Step::Get, reads as usize));
            self.left.push(Step::Set);
        }
        (Step::Get, self.user)
    }

    /// How long it waits before the next one, if all are throttled.
    pub(super) fn pause(&mut self, setup: &Setup) -> Duration {
        let Some(throttle) = setup.throttle else { return Duration::ZERO };
        let mean = setup.clients() as f64 / f64::from(throttle);
        Duration::from_secs_f64(-mean * (1.0 - self.rng.fraction()).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::System;
    use super::*;

    #[test]
    fn few_do_much_and_what_trends_has_its_share() {
        let mut rng = Rng::new(1);
        let setup = Setup { users: 20_000, ..Setup::chirp(20, System::Groups, 1) };
        let users = Users::draw(&setup, &mut rng);
        let largest = users.largest_share();
        assert!((2.0..200.0).contains(&(largest * 20_000.0)), "{largest}");
        let trend = Trend::draw(&setup, &users, &mut rng);
        assert_eq!(trend.hot.len(), 20);
        let hot = (0..20_000).filter(|_| trend.hot.contains(&trend.pick(&users, &mut rng))).count();
        assert!((3_700..4_400).contains(&hot), "a fifth, and what they have without it: {hot}");
        let hottest = |trend: &Trend| users.hottest_bucket(trend, &setup) * f64::from(setup.buckets().get());
        assert!((1.0..5.0).contains(&hottest(&Trend::default())), "no bucket is hot before anybody trends");
        let one = Trend { hot: vec![7], percent: 20 };
        assert!((64.0..80.0).contains(&hottest(&one)), "one of 320 has a fifth: {}", hottest(&one));
        let region = Setup { heat: Heat::Region { percent: 50, width: 10 }, ..setup };
        let trend = Trend::draw(&region, &users, &mut rng);
        assert!((1_700..2_300).contains(&trend.hot.len()), "a tenth of the ring: {}", trend.hot.len());
    }

    #[test]
    fn a_post_is_read_written_and_fetched() {
        let setup = Setup { users: 100, ..Setup::chirp(20, System::Groups, 1) };
        let users = Users::draw(&setup, &mut Rng::new(1));
        let (trend, mut chirper) = (Trend::default(), Chirper::new(Rng::new(2)));
        let steps: Vec<(Step, usize)> = (0..3).map(|_| chirper.next(&setup, &users, &trend)).collect();
        assert_eq!([Step::Get, Step::Set, Step::Get], [steps[0].0, steps[1].0, steps[2].0]);
        assert!(steps.iter().all(|(_, user)| *user == steps[0].1));
    }
}
