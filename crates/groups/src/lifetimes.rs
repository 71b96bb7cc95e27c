//! How long nodes live, as far as it was seen.

use alloc::vec::Vec;
use core::time::Duration;

/// The last bin has all ages from 2^23 s on, 97 days.
const BINS: usize = 24;

/// What is expected counts like so many deaths: little, since it may be wrong by far. Where nodes live for minutes and hours were expected, the first few deaths
/// have to outweigh it; where one has died of few, it was perhaps chance.
const TRUST: f64 = 0.5;

/// Who has seen so many times what another has has clearly seen more. Those who watch the same go on each for itself: if they took over from each other all the
/// time, what one of them has counted just now would count once more where it is about to be.
const CLEARLY: f64 = 1.1;

/// What was seen of nodes of some ages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Bin {
    /// For how long nodes of these ages were watched, all together, in seconds.
    watched: f64,
    /// How many died.
    deaths: f64,
}

/// How long nodes live: how many died at which age, among how many that were watched. Ages double from bin to bin, since lifetimes
/// have heavy tails: whoever has lived for long lives on (Scatter 6.1 draws lifetimes from Pareto's distribution).
///
/// Where little was seen of an age, one death is added at the rate of all ages together; where nothing was, lifetimes are as expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifetimes {
    expected: f64,
    bins: [Bin; BINS],
}

/// What somebody has seen, as it is told: of each bin, the youngest first, for how many milliseconds nodes were watched, and how many died. Those that
/// follow have nothing.
pub type Seen = Vec<(u64, u64)>;

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

    /// The same; they are expected to be so long that a node dies with this chance within such a time.
    pub fn of_chance(chance: f64, within: Duration) -> Lifetimes {
        Lifetimes::new(within.div_f64(-libm::log1p(-chance)))
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

    /// For how long nodes were watched, all together.
    fn watched(&self) -> f64 {
        self.bins.iter().map(|bin| bin.watched).sum()
    }

    /// What was seen, for others.
    pub fn seen(&self) -> Seen {
        // Saturates; both are far below what fits.
        let told = |bin: &Bin| ((bin.watched * 1e3) as u64, bin.deaths as u64);
        let last = self.bins.iter().rposition(|bin| told(bin) != (0, 0));
        self.bins[..last.map_or(0, |last| last + 1)].iter().map(told).collect()
    }

    /// Takes over what somebody else has seen, if that is clearly more; whether it was. Both may have watched the same nodes, so it takes the place of what
    /// was seen here and is not added to it: who has just come knows what all others do.
    pub fn learn(&mut self, seen: &[(u64, u64)]) -> bool {
        let mut bins = [Bin::default(); BINS];
        for (bin, (watched, deaths)) in bins.iter_mut().zip(seen) {
            *bin = Bin { watched: *watched as f64 / 1e3, deaths: *deaths as f64 };
        }
        let other = Lifetimes { expected: self.expected, bins };
        let is_more = other.watched() > CLEARLY * self.watched();
        if is_more {
            *self = other;
        }
        is_more
    }

    /// Deaths in a second of a node, ages taken together.
    fn rate(&self) -> f64 {
        (self.deaths() + TRUST) / (self.watched() + TRUST * self.expected)
    }

    /// By what part of itself a chance may be off, as it was reckoned from so few deaths: twice what chance does in the mean.
    pub fn doubt(&self) -> f64 {
        2.0 / libm::sqrt(self.deaths() + 1.0)
    }

    fn deaths(&self) -> f64 {
        self.bins.iter().map(|bin| bin.deaths).sum()
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
    fn what_others_have_seen_takes_the_place_of_less_and_counts_once() {
        let mut rng = Rng::new(3);
        let (old, mut new) = (seen(50, || 200.0 * rng.fraction()), Lifetimes::new(secs(3_600.0)));
        new.lived(secs(70.0), secs(5.0));
        assert!(new.learn(&old.seen()));
        let chance = |lifetimes: &Lifetimes, age: f64| lifetimes.chance_of_death(secs(age), WINDOW);
        for age in [0.0, 50.0, 150.0, 10_000.0] {
            assert!((chance(&new, age) / chance(&old, age) - 1.0).abs() < 1e-3, "at {age} s");
        }
        let before = new.clone();
        assert!(!new.learn(&old.seen()), "it is known");
        assert!(!new.learn(&seen(3, || 10.0).seen()) && !new.learn(&[]), "less was seen");
        assert_eq!(new, before);
        let too_many: Seen = (0..BINS as u64 + 9).map(|_| (u64::MAX, u64::MAX)).collect();
        new.learn(&too_many);
        assert!((0.0..=1.0).contains(&chance(&new, 50.0)), "nonsense has an answer");
    }

    #[test]
    fn little_that_was_seen_counts_little() {
        let mut lifetimes = Lifetimes::new(secs(1_000.0));
        lifetimes.lived(Duration::ZERO, secs(10.0));
        lifetimes.died(secs(10.0));
        let chance = lifetimes.chance_of_death(secs(10.0), secs(10.0));
        assert!(
            (0.01..0.1).contains(&chance),
            "{chance}: by itself it would be 0.63, and nothing is expected to be 0.01"
        );
        assert!(lifetimes.chance_of_death(Duration::MAX, secs(1.0)) < 0.01, "any age has an answer");
    }
}
