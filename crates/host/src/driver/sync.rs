//! Making records durable, in the loop or beside it.

use std::io;
use std::time::Duration;

use quorate_engine::wal::SyncDone;

use super::{Driver, SETTLE_AFTER};
use crate::config::Durability;
use crate::error::RunError;
use crate::hosted::Hosted;
use crate::sync::SyncPlace;

/// Bytes appended after which the log does its next step of housekeeping.
pub(super) const PREPARE_EVERY: u64 = 128 << 10;

pub(super) fn failed(doing: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::Disk { doing, source }
}

impl<M: Hosted> Driver<M> {
    /// Writes what was appended and makes it as durable as is asked for, or begins to.
    pub(super) fn persist(&mut self) -> Result<(), RunError> {
        let bytes = self.wal.staged_bytes() as u64;
        if bytes > 0 {
            let synced = self.wal.synced();
            if !self.write()? {
                return Ok(());
            }
            self.live.prepare_owed += bytes;
            self.live.settle_at = Some(self.clock.now() + SETTLE_AFTER);
            if self.wal.synced() > synced {
                self.measure();
            }
        }
        match self.config.durable.mode {
            // Nothing is staged, but the log counts.
            Durability::Memory => self.write().map(|_| ()),
            Durability::Disk if self.wal.synced() < self.live.appended => self.begin_sync(),
            // What has just come to the disk is waited for.
            Durability::Disk if bytes > 0 => Ok(()),
            Durability::Disk => self.tidy(),
            Durability::Interval => self.sync_now_and_then(),
        }
    }

    /// Hands the staged records to the system; says whether there was room.
    fn write(&mut self) -> Result<bool, RunError> {
        let waits = self.config.durable.mode == Durability::Disk;
        self.wal.write_durably(waits && self.sync_policy.place() == SyncPlace::Inline);
        match self.wal.write() {
            Ok(()) => {
                self.live.write_blocked = false;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.wal.poisoned().is_none() => {
                // Nothing was lost: the records stay staged, what depends on them stays held.
                if !self.live.write_blocked {
                    self.live.write_blocked = true;
                    self.look_for_room();
                }
                Ok(false)
            }
            Err(error) => Err(failed("writing the log")(error)),
        }
    }

    /// In mode "interval", a sync follows the first write after the last one by the interval.
    fn sync_now_and_then(&mut self) -> Result<(), RunError> {
        let now = self.clock.now();
        match self.live.sync_at {
            None if self.wal.synced() < self.live.appended => {
                self.live.sync_at = Some(now + Duration::from_millis(self.config.durable.interval_ms));
                Ok(())
            }
            Some(at) if at <= now && !self.live.syncing => {
                self.live.sync_at = None;
                self.begin_sync()
            }
            _ => self.tidy(),
        }
    }

    /// Syncs all that is written, here or beside the loop. One sync is under way at a time; what is written
    /// meanwhile belongs to the next.
    fn begin_sync(&mut self) -> Result<(), RunError> {
        if self.live.syncing {
            return Ok(());
        }
        let task = self.wal.start_sync().map_err(failed("preparing to sync the log"))?;
        let Some(task) = task else { return Ok(()) };
        match (self.sync_policy.place(), &self.sync_thread) {
            (SyncPlace::Beside, Some(thread)) => {
                thread.submit(task).map_err(failed("syncing the log"))?;
                self.live.syncing = true;
                Ok(())
            }
            _ => self.end_sync(task.run()),
        }
    }

    /// Takes the end of a sync that ran beside the loop.
    pub(super) fn take_sync(&mut self) -> Result<(), RunError> {
        let (true, Some(thread)) = (self.live.syncing, &self.sync_thread) else { return Ok(()) };
        match thread.done().map_err(failed("syncing the log"))? {
            Some(done) => self.end_sync(done),
            None => Ok(()),
        }
    }

    fn end_sync(&mut self, done: SyncDone) -> Result<(), RunError> {
        self.live.syncing = false;
        self.wal.finish_sync(done).map_err(failed("syncing the log"))?;
        self.measure();
        Ok(())
    }

    /// Takes note of how long the newest sync took.
    fn measure(&mut self) {
        let took = self.wal.stats().sync_last;
        self.live.distributions.sync.record(took);
        if let Some(place) = self.sync_policy.measured(took) {
            let average = self.sync_policy.average();
            tracing::info!(?place, ?average, "syncs of the log move, by how long they take");
        }
    }

    /// Housekeeping of the log, when nobody waits for it.
    fn tidy(&mut self) -> Result<(), RunError> {
        let now = self.clock.now();
        if self.live.settle_at.is_some_and(|at| at <= now) && !self.live.syncing {
            self.live.settle_at = None;
            return self.settle_log();
        }
        // On a slow disk each step would hold up the loop for as long as a sync: there it is left to the ticks.
        if self.live.prepare_owed >= PREPARE_EVERY && self.sync_policy.place() == SyncPlace::Inline {
            self.live.prepare_owed -= PREPARE_EVERY;
            self.prepare()?;
        }
        Ok(())
    }

    pub(super) fn prepare(&mut self) -> Result<(), RunError> {
        self.wal.prepare().map(|_| ()).map_err(failed("preparing the log's next segment"))
    }

    fn settle_log(&mut self) -> Result<(), RunError> {
        match self.wal.settle() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.wal.poisoned().is_none() => {
                Ok(())
            }
            other => other.map_err(failed("settling the log")),
        }
    }

    /// Waits for the sync under way and syncs the rest.
    pub(super) fn sync_all(&mut self) -> Result<(), RunError> {
        if let (true, Some(thread)) = (self.live.syncing, &self.sync_thread) {
            let done = thread.wait().map_err(failed("syncing the log"))?;
            self.end_sync(done)?;
        }
        self.settle_log()
    }
}
