//! The two clocks a machine may see.

use core::ops::{Add, Sub};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A reading of this node's monotonic clock, in nanoseconds since an origin that means nothing.
///
/// Readings of different nodes, or of one node before and after a restart, must not be compared. The clock's rate may
/// be wrong by a bounded fraction (`docs/decisions/0003-replicated-log.md`); leases allow for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// How much later `self` is than `earlier`; zero if it is not later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanos))
    }
}

/// A reading of the wall clock: milliseconds since 1970, and by how much it may be wrong.
///
/// It dates things for people (expiry times, log lines). No safety property may rest on it: it jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wall {
    /// Milliseconds since the start of 1970, UTC.
    pub unix_ms: u64,
    /// Bound of the error as far as the driver knows one; `u64::MAX` if it knows none.
    pub error_ms: u64,
}
