//! One clock for all clients on a machine, over all processes.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment before the machine's start; never goes back.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}
