//! What a log has done.

use std::time::Duration;

/// Figures of a log, for metrics and for the choice between syncing in the loop and beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records appended in this lifetime.
    pub records: u64,
    /// Bytes written in this lifetime, with headers and padding, without zeroing ahead.
    pub bytes_written: u64,
    /// Syncs finished in this lifetime.
    pub syncs: u64,
    /// How long the newest sync took.
    pub sync_last: Duration,
    /// How long syncs take, as a moving mean in which the newest weighs an eighth.
    pub sync_mean: Duration,
    /// Segments that hold records.
    pub segments: usize,
    /// Segments prepared for later.
    pub spares: usize,
    /// Emptied segments that were kept for reuse in this lifetime.
    pub recycled: u64,
    /// Bytes of all segments.
    pub bytes_on_disk: u64,
}

impl Stats {
    pub(super) fn synced(&mut self, took: Duration) {
        self.sync_mean = if self.syncs == 0 { took } else { (self.sync_mean * 7 + took) / 8 };
        self.sync_last = took;
        self.syncs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_syncs() {
        let mut stats = Stats::default();
        stats.synced(Duration::from_micros(80));
        assert_eq!(stats.sync_mean, Duration::from_micros(80));
        stats.synced(Duration::from_micros(160));
        assert_eq!(stats.sync_mean, Duration::from_micros(90));
        assert_eq!((stats.syncs, stats.sync_last), (2, Duration::from_micros(160)));
    }
}
