//! How long things take, drawn from a distribution.
//!
//! Only additions, multiplications and comparisons are used, which every platform rounds alike: a seed means the same
//! everywhere. The mathematical functions of the standard library do not promise that.

use std::time::Duration;

use quorate_kernel::Rng;

/// Draws above this many times the scale are cut off there: a run has to end.
const TAIL_MAX: f64 = 200.0;

/// A distribution of durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Constant(Duration),
    /// Evenly between two bounds, both included.
    Uniform(Duration, Duration),
    /// A floor plus an exponential tail: many short waits, some long ones.
    Exponential {
        /// The least that is possible.
        floor: Duration,
        /// The mean of what is added.
        mean: Duration,
    },
    /// Pareto: most are hardly more than the least, few are very long; the mean is `shape / (shape - 1)` times the least.
    Pareto {
        /// The least that is possible.
        least: Duration,
        /// The smaller, the heavier the tail; above 1 there is a mean.
        shape: f64,
    },
    /// What is left of spans drawn from that, of one that somebody comes upon: long ones are come upon more often.
    ParetoLeft {
        /// The least that a whole one can be.
        least: Duration,
        /// Above 1.
        shape: f64,
    },
    /// Lognormal: what measured networks and disks mostly look like.
    Lognormal {
        /// Half of all draws are below.
        median: Duration,
        /// Standard deviation of the logarithm; 0.3 is calm, 1.5 is wild.
        sigma: f64,
    },
}

impl Latency {
    /// Nothing takes any time.
    pub const ZERO: Latency = Latency::Constant(Duration::ZERO);

    /// One draw, in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Latency::Constant(span) => nanos(span),
            Latency::Uniform(low, high) => rng.between(nanos(low), nanos(high).max(nanos(low))),
            Latency::Exponential { floor, mean } => nanos(floor) + scale(nanos(mean), exponential(rng)),
            Latency::Pareto { least, shape } => scale(nanos(least), exp(exponential(rng) / shape)),
            Latency::ParetoLeft { least, shape } => {
                // Such a span is Pareto's of a shape one less, and it is come upon anywhere in it. Nothing is cut off: most are very long.
                let whole = nanos(least) as f64 * exp(exponential(rng) / (shape - 1.0));
                (whole * rng.fraction()) as u64
            }
            Latency::Lognormal { median, sigma } => scale(nanos(median), exp(sigma * normal(rng))),
        }
    }
}

/// A span in nanoseconds; 584 years at most.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn scale(unit: u64, factor: f64) -> u64 {
    (unit as f64 * factor.min(TAIL_MAX)) as u64
}

/// A draw from the exponential distribution of mean 1 (von Neumann 1951): comparisons only.
fn exponential(rng: &mut Rng) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = rng.fraction();
        let (mut last, mut odd) = (first, true);
        loop {
            let next = rng.fraction();
            if next >= last {
                break;
            }
            last = next;
            odd = !odd;
        }
        if odd {
            return whole + first;
        }
        whole += 1.0;
    }
}

/// Nearly a standard normal draw: the sum of twelve even ones.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.fraction()).sum::<f64>() - 6.0
}

/// The exponential function: halved until small, a short series, squared back.
fn exp(x: f64) -> f64 {
    let small = x / 1024.0;
    let mut power = 1.0 + small * (1.0 + small * (0.5 + small / 6.0));
    for _ in 0..10 {
        power *= power;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn mean(latency: Latency) -> f64 {
        let mut rng = Rng::new(3);
        (0..20_000).map(|_| latency.draw(&mut rng) as f64).sum::<f64>() / 20_000.0 / 1e6
    }

    #[test]
    fn means_are_as_named() {
        assert_eq!(mean(Latency::Constant(MS)), 1.0);
        assert!((mean(Latency::Uniform(MS, 3 * MS)) - 2.0).abs() < 0.05);
        assert!((mean(Latency::Exponential { floor: MS, mean: MS }) - 2.0).abs() < 0.05);
        assert!((mean(Latency::Pareto { least: MS, shape: 3.0 }) - 1.5).abs() < 0.03);
        assert!((mean(Latency::ParetoLeft { least: MS, shape: 4.0 }) - 0.75).abs() < 0.02);
        // The mean of a lognormal is the median times exp(sigma^2 / 2).
        assert!((mean(Latency::Lognormal { median: MS, sigma: 0.5 }) - 1.133).abs() < 0.03);
    }

    #[test]
    fn exp_is_close() {
        for x in [-5.0_f64, -1.0, 0.0, 0.5, 3.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-6, "{x}");
        }
    }
}
