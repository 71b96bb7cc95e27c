//! How long nodes live, as far as it was seen.

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// The last bin has all ages from 2^23 s on, 97 days.
const BINS: usize = 24;

/// What was seen of nodes of some ages.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Bin {
    /// For how long nodes of these ages were watched, all together, in seconds.
    watched: f64,
    /// How many died.
    deaths: f64,
}

/// How long nodes live: how many died at which age, among how many that were watched. Ages double from bin to bin, since lifetimes
/// have heavy tails: whoever has lived for long lives on (Scatter 6.1 draws lifetimes from Pareto's distribution).
///
/// Where little was seen, one death is added at the rate of all ages together; where nothing was, lifetimes are as expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lifetimes {
    expected: f64,
    bins: [Bin; BINS],
}

/// The bin of an age in seconds, and where it ends.
fn bin(age: f64) -> (usize, f64) {
    let mut end = 2.0;
    for index in 0..BINS - 1 {
        if age < end {
            return (index, end);
        }
        end *= 2.0;
    }
    (BINS - 1, f64::INFINITY)
}

/// Cuts a time into what belongs to each bin.
fn pieces(age: Duration, within: Duration) -> impl Iterator<Item = (usize, f64)> {
    let (mut from, end) = (age.as_secs_f64(), age.as_secs_f64() + within.as_secs_f64());
    core::iter::from_fn(move || {
        if from >= end {
            return None;
        }
        let (index, until) = bin(from);
        let piece = until.min(end) - from;
        from = until.min(end);
        Some((index, piece))
    })
}

impl Lifetimes {
    /// Nothing was seen yet.
    pub fn new(expected: Duration) -> Lifetimes {
        Lifetimes { expected: expected.as_secs_f64().max(1e-3), bins: [Bin::default(); BINS] }
    }

    /// A node of this age was watched for so long, and lived.
    pub fn lived(&mut self, age: Duration, watched: Duration) {
        for (index, seconds) in pieces(age, watched) {
            self.bins[index].watched += seconds;
        }
    }

    /// A node died at this age.
    pub fn died(&mut self, age: Duration) {
        self.bins[bin(age.as_secs_f64()).0].deaths += 1.0;
    }

    /// Deaths in a second of a node, ages taken together.
    fn rate(&self) -> f64 {
        let total = |of: fn(&Bin) -> f64| self.bins.iter().map(of).sum::<f64>();
        (total(|bin| bin.deaths) + 1.0) / (total(|bin| bin.watched) + self.expected)
    }

    /// The chance that a node of this age dies within so long.
    pub fn chance_of_death(&self, age: Duration, within: Duration) -> f64 {
        let rate = self.rate();
        let of_bin = |index: usize| (self.bins[index].deaths + 1.0) / (self.bins[index].watched + 1.0 / rate);
        let hazard: f64 = pieces(age, within).map(|(index, seconds)| of_bin(index) * seconds).sum();
        -libm::expm1(-hazard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_kernel::Rng;

    const WINDOW: Duration = Duration::from_millis(1_500);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Lives of this many nodes.
    fn seen(count: usize, mut draw: impl FnMut() -> f64) -> Lifetimes {
        let mut lifetimes = Lifetimes::new(secs(3_600.0));
        for _ in 0..count {
            let life = secs(draw());
            lifetimes.lived(Duration::ZERO, life);
            lifetimes.died(life);
        }
        lifetimes
    }

    #[test]
    fn without_sights_lifetimes_are_as_expected() {
        let lifetimes = Lifetimes::new(secs(100.0));
        let chance = lifetimes.chance_of_death(secs(5.0), WINDOW);
        assert!((chance - 0.015).abs() < 0.001, "{chance}");
    }

    #[test]
    fn exponential_lifetimes_make_no_difference_by_age() {
        let mut rng = Rng::new(1);
        let lifetimes = seen(20_000, || -100.0 * libm::log(1.0 - rng.fraction()));
        for age in [0.0, 10.0, 100.0, 300.0] {
            let chance = lifetimes.chance_of_death(secs(age), WINDOW);
            assert!((chance - 0.0149).abs() < 0.002, "{chance} at {age} s");
        }
    }

    #[test]
    fn the_old_die_less_where_tails_are_heavy() {
        let mut rng = Rng::new(2);
        // Pareto's, 1.1, with a mean of 100 s: nobody dies before 9 s, and the hazard is 1.1 / age.
        let lifetimes = seen(20_000, || 9.1 * libm::pow(1.0 - rng.fraction(), -1.0 / 1.1));
        let chance = |age: f64| lifetimes.chance_of_death(secs(age), WINDOW);
        assert!(chance(1.0) < 0.001, "{}", chance(1.0));
        for age in [40.0, 160.0, 640.0] {
            // Within a bin ages differ by a factor of two.
            let (least, most) = (1.1 * 1.5 / (age * 2.0), 1.1 * 1.5 / (age * 0.5));
            assert!((least..most).contains(&chance(age)), "{} at {age} s", chance(age));
        }
    }

    #[test]
    fn little_that_was_seen_counts_little() {
        let mut lifetimes = Lifetimes::new(secs(1_000.0));
        lifetimes.lived(Duration::ZERO, secs(10.0));
        lifetimes.died(secs(10.0));
        let chance = lifetimes.chance_of_death(secs(10.0), secs(10.0));
        assert!((0.01..0.05).contains(&chance), "{chance}");
        assert!(lifetimes.chance_of_death(Duration::MAX, secs(1.0)) < 0.01, "any age has an answer");
    }
}
