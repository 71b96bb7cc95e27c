//! Which keys are used how often.

use quorate_kernel::Rng;

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// The n-th key proportionally to 1 / n^skew, so that key 0 is the hottest.
    Zipf {
        /// Between 0 and 1; YCSB uses 0.99.
        skew: f64,
    },
}

/// Draws keys, in constant time after a preparation that is linear in their number.
#[derive(Debug, Clone)]
pub struct Chooser {
    count: u64,
    zipf: Option<Zipf>,
}

/// The constants of the generator of Gray et al. (1994, "Quickly generating billion-record synthetic databases").
#[derive(Debug, Clone)]
struct Zipf {
    alpha: f64,
    eta: f64,
    zeta: f64,
    /// Below this, times zeta, it is one of the first two.
    second: f64,
}

impl Chooser {
    /// Draws from 0 to `count - 1`.
    ///
    /// # Panics
    /// If `count` is 0, or a skew is not between 0 and 1.
    pub fn new(count: u64, distribution: Distribution) -> Self {
        assert!(count > 0, "nothing to draw from");
        let zipf = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipf { skew } => {
                assert!(skew > 0.0 && skew < 1.0, "the skew is between 0 and 1");
                let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-skew)).sum::<f64>();
                let (all, two) = (zeta(count), zeta(2));
                let eta = (1.0 - (2.0 / count as f64).powf(1.0 - skew)) / (1.0 - two / all);
                Some(Zipf { alpha: 1.0 / (1.0 - skew), eta, zeta: all, second: two })
            }
        };
        Chooser { count, zipf }
    }

    /// One draw.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let Some(zipf) = &self.zipf else { return rng.below(self.count) };
        let fraction = rng.fraction();
        let share = fraction * zipf.zeta;
        if share < 1.0 || self.count == 1 {
            return 0;
        }
        if share < zipf.second || self.count == 2 {
            return 1;
        }
        let rank = self.count as f64 * (zipf.eta * fraction - zipf.eta + 1.0).powf(zipf.alpha);
        (rank as u64).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: u64, distribution: Distribution) -> Vec<u64> {
        let (chooser, mut rng) = (Chooser::new(count, distribution), Rng::new(3));
        let mut counts = vec![0; count as usize];
        for _ in 0..200_000 {
            counts[chooser.draw(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_is_even() {
        assert!(counts(10, Distribution::Uniform).iter().all(|n| (19_000..21_000).contains(n)));
    }

    #[test]
    fn zipf_follows_its_law() {
        let skew = 0.99;
        let counts = counts(1_000, Distribution::Zipf { skew });
        let zeta: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-skew)).sum();
        for rank in [1_usize, 2] {
            let expected = 200_000.0 * (rank as f64).powf(-skew) / zeta;
            let error = (counts[rank - 1] as f64 - expected).abs() / expected;
            assert!(error < 0.05, "rank {rank}: {} against {expected}", counts[rank - 1]);
        }
        // The generator approximates the tail; its mass is right.
        let half: u64 = counts[..31].iter().sum();
        let expected: f64 = (1..=31).map(|rank| f64::from(rank).powf(-skew)).sum::<f64>() / zeta;
        assert!((half as f64 / 200_000.0 - expected).abs() < 0.05, "{half}");
        assert!(counts[999] > 0);
    }

    #[test]
    fn few_keys_stay_in_range() {
        for count in 1..=4 {
            assert!(counts(count, Distribution::Zipf { skew: 0.5 }).iter().all(|n| *n > 0));
        }
    }
}
