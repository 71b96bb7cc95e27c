//! Where and how the log's syncs run.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quorate_engine::wal::{SyncDone, SyncTask};

/// Where a sync runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncPlace {
    /// In the loop. Best where a sync takes tens of microseconds: meanwhile the next batch gathers by itself.
    Inline,
    /// On a helper thread, one at a time, while the loop goes on. For disks that take milliseconds.
    Beside,
}

/// Chooses the place by a moving average of how long syncs take, with a gap between the two thresholds so that it
/// does not swing.
#[derive(Debug, Clone)]
pub(crate) struct SyncPolicy {
    average_ns: u64,
    inline_ns_max: u64,
    place: SyncPlace,
}

impl SyncPolicy {
    pub(crate) fn new(inline_max: Duration) -> Self {
        let inline_ns_max = u64::try_from(inline_max.as_nanos()).unwrap_or(u64::MAX);
        let place = if inline_ns_max == 0 { SyncPlace::Beside } else { SyncPlace::Inline };
        SyncPolicy { average_ns: 0, inline_ns_max, place }
    }

    /// Takes one measurement; says where the next sync belongs if that changes.
    pub(crate) fn measured(&mut self, took: Duration) -> Option<SyncPlace> {
        const WEIGHT: u64 = 8;
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / WEIGHT);
        self.average_ns = self.average_ns - self.average_ns / WEIGHT + took / WEIGHT;
        let place = match self.place {
            SyncPlace::Inline if self.average_ns > self.inline_ns_max => SyncPlace::Beside,
            SyncPlace::Beside if self.average_ns < self.inline_ns_max / 2 => SyncPlace::Inline,
            same => same,
        };
        let changed = place != self.place;
        self.place = place;
        changed.then_some(place)
    }

    pub(crate) fn place(&self) -> SyncPlace {
        self.place
    }

    pub(crate) fn average(&self) -> Duration {
        Duration::from_nanos(self.average_ns)
    }
}

/// The thread that syncs beside the loop, one task at a time.
#[derive(Debug)]
pub(crate) struct SyncThread {
    tasks: mpsc::Sender<SyncTask>,
    results: mpsc::Receiver<SyncDone>,
}

fn gone<E>(_: E) -> io::Error {
    io::Error::other("the thread that syncs is gone")
}

impl SyncThread {
    /// `wake` is called after each task.
    pub(crate) fn spawn(wake: impl Fn() + Send + 'static) -> io::Result<SyncThread> {
        let (tasks, inbox) = mpsc::channel::<SyncTask>();
        let (outbox, results) = mpsc::channel();
        thread::Builder::new().name("sync".into()).spawn(move || {
            while let Ok(task) = inbox.recv() {
                if outbox.send(task.run()).is_err() {
                    return;
                }
                wake();
            }
        })?;
        Ok(SyncThread { tasks, results })
    }

    pub(crate) fn submit(&self, task: SyncTask) -> io::Result<()> {
        self.tasks.send(task).map_err(gone)
    }

    /// The result of a task, if one is done.
    pub(crate) fn done(&self) -> io::Result<Option<SyncDone>> {
        match self.results.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(error) => Err(gone(error)),
        }
    }

    /// Waits for the task under way.
    pub(crate) fn wait(&self) -> io::Result<SyncDone> {
        self.results.recv().map_err(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_average_and_does_not_swing() {
        let mut policy = SyncPolicy::new(Duration::from_millis(2));
        for _ in 0..100 {
            assert_eq!(policy.measured(Duration::from_micros(80)), None);
        }
        assert_eq!(policy.measured(Duration::from_millis(5)), None, "one slow sync moves nothing");
        let changes: Vec<_> = (0..30).filter_map(|_| policy.measured(Duration::from_millis(5))).collect();
        assert_eq!(changes, [SyncPlace::Beside]);
        for _ in 0..100 {
            assert_eq!(
                policy.measured(Duration::from_micros(1_500)),
                None,
                "between the thresholds it stays"
            );
        }
        let changes: Vec<_> = (0..100).filter_map(|_| policy.measured(Duration::from_micros(80))).collect();
        assert_eq!(changes, [SyncPlace::Inline]);
        assert!(policy.average() < Duration::from_millis(1));
    }

    #[test]
    fn zero_means_always_beside() {
        let mut policy = SyncPolicy::new(Duration::ZERO);
        assert_eq!(policy.place(), SyncPlace::Beside);
        for _ in 0..100 {
            assert_eq!(policy.measured(Duration::ZERO), None);
        }
    }
}
