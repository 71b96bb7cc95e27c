//! The two clocks of the machine, read from the system.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use quorate_kernel::{Time, Wall};

/// Monotonic time since it was made, and the system's wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Nanoseconds since the clock was made. Stands still while the machine sleeps, as `CLOCK_MONOTONIC` does.
    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The wall clock in microseconds since 1970.
    pub(crate) fn wall_us() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// The wall clock, with no bound of its error: whether and how well the system keeps it is not known here.
    pub(crate) fn wall() -> Wall {
        Wall { unix_ms: Clock::wall_us() / 1_000, error_ms: u64::MAX }
    }
}
