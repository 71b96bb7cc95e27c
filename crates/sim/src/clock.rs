//! The clocks of one node: a monotonic one that runs a little fast or slow, and a wall clock that jumps.

use std::time::Duration;

use quorate_kernel::{Rng, Time, Wall};

use crate::latency::nanos;

const MILLION: u64 = 1_000_000;

/// The wall-clock time at which every world begins, in milliseconds since 1970.
pub(crate) const WORLD_BEGAN_MS: u64 = 1_700_000_000_000;

/// How wrong clocks may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOptions {
    /// Each node's clock runs wrong by a rate drawn from minus to plus this many millionths. 10,000 is one percent;
    /// above the bound that leases allow for, leases may rightly fail.
    pub rate_error_ppm_max: u32,
    /// What nodes are told about the error of their wall clock, and is true; `None` if they know no bound, as where
    /// wall clocks jump.
    pub wall_error_ms: Option<u64>,
}

impl Default for ClockOptions {
    fn default() -> Self {
        ClockOptions { rate_error_ppm_max: 10_000, wall_error_ms: None }
    }
}

/// What one life of a node takes for time. The rate stays the same for that life, so that a timer fires neither
/// before nor long after the clock beside it says so.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    started: u64,
    origin: u64,
    rate_ppm: i64,
    wall_offset_ms: i64,
    wall_error_ms: u64,
}

impl Clock {
    /// A clock that starts at `now` of true time, at an origin that means nothing.
    pub(crate) fn new(options: &ClockOptions, now: u64, rng: &mut Rng) -> Clock {
        let most = u64::from(options.rate_error_ppm_max).min(900_000);
        let wrong = options.wall_error_ms.unwrap_or(1_000).min(1 << 40);
        Clock {
            started: now,
            origin: rng.below(1 << 50),
            rate_ppm: rng.between(0, 2 * most) as i64 - most as i64,
            wall_offset_ms: rng.between(0, 2 * wrong) as i64 - wrong as i64,
            wall_error_ms: options.wall_error_ms.unwrap_or(u64::MAX),
        }
    }

    /// What the monotonic clock shows at `now` of true time.
    pub(crate) fn monotonic(&self, now: u64) -> Time {
        Time(self.origin + self.elapsed(now))
    }

    /// What the wall clock shows.
    pub(crate) fn wall(&self, now: u64) -> Wall {
        let unix_ms = (WORLD_BEGAN_MS + now / MILLION).saturating_add_signed(self.wall_offset_ms);
        Wall { unix_ms, error_ms: self.wall_error_ms }
    }

    /// The wall clock jumps, forward or back.
    pub(crate) fn jump(&mut self, by_ms: i64) {
        self.wall_offset_ms = self.wall_offset_ms.saturating_add(by_ms);
    }

    /// The true time at which this clock will have gone on by `after`.
    pub(crate) fn deadline(&self, now: u64, after: Duration) -> u64 {
        let after = nanos(after);
        if self.rate_ppm == 0 {
            return now.saturating_add(after);
        }
        let rate = MILLION.saturating_add_signed(self.rate_ppm);
        let wait = u128::from(after) * u128::from(MILLION) / u128::from(rate);
        let mut at = now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        let target = self.elapsed(now).saturating_add(after);
        while at < u64::MAX && self.elapsed(at) < target {
            at += 1;
        }
        at
    }

    fn elapsed(&self, now: u64) -> u64 {
        let span = now - self.started;
        let error = (span / MILLION) as i64 * self.rate_ppm
            + (span % MILLION) as i64 * self.rate_ppm / MILLION as i64;
        span.saturating_add_signed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early_by_the_own_clock() {
        let options = ClockOptions { rate_error_ppm_max: 50_000, wall_error_ms: None };
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let start = rng.below(1 << 40);
            let clock = Clock::new(&options, start, &mut rng);
            let now = start + rng.below(1 << 44);
            let after = Duration::from_nanos(rng.below(1 << 36));
            let at = clock.deadline(now, after);
            assert!(clock.monotonic(at) >= clock.monotonic(now) + after);
            let error = (at - now) as f64 / (after.as_nanos() as f64 + 1.0) - 1.0;
            assert!(error.abs() < 0.06 || at - now < 100, "{error}");
        }
    }

    #[test]
    fn wall_jumps_and_the_monotonic_clock_does_not() {
        let options = ClockOptions { rate_error_ppm_max: 0, wall_error_ms: Some(5) };
        let mut clock = Clock::new(&options, 0, &mut Rng::new(1));
        let (time, wall) = (clock.monotonic(1_000_000), clock.wall(1_000_000));
        clock.jump(-60_000);
        assert_eq!(clock.monotonic(1_000_000), time);
        assert_eq!(clock.wall(1_000_000).unix_ms + 60_000, wall.unix_ms);
        assert!(wall.error_ms == 5 && wall.unix_ms.abs_diff(WORLD_BEGAN_MS + 1) <= 5, "the bound is true");
    }
}
