//! The node's log of records on disk: segments, group commit, recovery.
//!
//! It knows bytes and positions, nothing of what a record means. One owner drives it from an event loop, in this
//! order:
//!
//! 1. [`Wal::append`] stages the records of one turn in memory;
//! 2. [`Wal::write`] hands them to the system in one write, and waits for the disk if so wanted ([`Wal::write_durably`]);
//! 3. [`Wal::sync`] brings to the disk what is not there. Where a sync takes so long that the loop must not wait for it,
//!    [`Wal::start_sync`] gives it out as a task for another thread, one at a time, and [`Wal::finish_sync`] takes
//!    the result back;
//! 4. what waits for records up to [`Wal::durable`] may leave the node;
//! 5. [`Wal::prepare`] does a bounded step of housekeeping, [`Wal::room`] tells whether new requests may be taken;
//! 6. [`Wal::settle`] when there is nothing to do for a while, and before the process ends.
//!
//! **No call is repeated after an error.** A failed write or sync leaves unknown what is on the disk, and a sync that
//! is asked again may say yes wrongly; therefore every later call fails too, and the node has to stop and recover
//! from its disk and its peers. The one exception is a full disk that is met before anything was written:
//! [`Wal::write`] then says `StorageFull`, keeps what is staged, and may be called again ([`Wal::poisoned`] tells the
//! two apart).

mod error;
mod frame;
mod options;
mod recover;
mod space;
mod stage;
mod stats;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_kernel::Position;

use crate::files::{Disk, File, Files};
use frame::{HEADER_BYTES, Header};
use recover::{segment_name, segment_number};
use space::Spares;
use stage::Stage;

pub use error::OpenError;
pub use frame::{FORMAT_VERSION, Identity};
pub use options::{Durability, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use recover::Recovery;
pub use space::Room;
pub use stats::Stats;

/// A segment of the log, or what is left of it in memory.
#[derive(Debug, Clone, Copy)]
struct Segment {
    number: u64,
    first: Position,
    bytes: u64,
}

/// The log. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Wal {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: Options,
    /// Oldest first; the last one is written to. Empty if nothing is kept on disk.
    segments: VecDeque<Segment>,
    file: Option<Arc<dyn File>>,
    /// Up to where the blocks of the segment that is written to are known to have been written before.
    laid: u64,
    stage: Stage,
    spares: Spares,
    next: Position,
    written: Position,
    synced: Position,
    /// Up to where something on disk says that records were synced.
    marked: Position,
    /// Whether anything was written since the last sync was started that is not on the disk already.
    dirty: bool,
    /// The newest record that needed a sync, or stood behind one that did.
    cached: Position,
    /// Whether a write waits until the disk has it.
    durably: bool,
    discard_before: Position,
    poisoned: Option<String>,
    stats: Stats,
}

/// A sync to be carried out, possibly on another thread.
#[derive(Debug)]
pub struct SyncTask {
    file: Arc<dyn File>,
    position: Position,
}

/// What became of a [`SyncTask`].
#[derive(Debug)]
pub struct SyncDone {
    position: Position,
    result: io::Result<()>,
    took: Duration,
}

impl SyncTask {
    /// Waits for the disk.
    pub fn run(self) -> SyncDone {
        let start = Instant::now();
        let result = self.file.sync();
        SyncDone { position: self.position, result, took: start.elapsed() }
    }
}

impl Wal {
    /// Opens the log in `dir` on the machine's file system, or creates it.
    ///
    /// # Errors
    /// [`OpenError`]; the log was not changed.
    pub fn open(dir: &Path, options: Options) -> Result<(Wal, Recovery), OpenError> {
        Wal::open_on(Arc::new(Disk), dir, options)
    }

    /// Opens the log in `dir` on the given file system, or creates it.
    ///
    /// # Errors
    /// [`OpenError`]; the log was not changed.
    pub fn open_on(
        files: Arc<dyn Files>,
        dir: &Path,
        options: Options,
    ) -> Result<(Wal, Recovery), OpenError> {
        let complaints = options.complaints();
        if !complaints.is_empty() {
            return Err(OpenError::Options(complaints.join("; ")));
        }
        let mut wal = Wal {
            stage: Stage::new(options.identity, options.segment_bytes),
            files,
            dir: dir.to_owned(),
            options,
            segments: VecDeque::new(),
            file: None,
            laid: 0,
            spares: Spares::default(),
            next: Position(1),
            written: Position(0),
            synced: Position(0),
            marked: Position(0),
            dirty: false,
            cached: Position(0),
            durably: false,
            discard_before: Position(0),
            poisoned: None,
            stats: Stats::default(),
        };
        if wal.options.durability == Durability::Memory {
            let recovery = Recovery::empty(wal.files.clone(), dir, wal.options.identity);
            return Ok((wal, recovery));
        }
        let recovery = wal.recover()?;
        Ok((wal, recovery))
    }

    fn recover(&mut self) -> Result<Recovery, OpenError> {
        let failed = |action, dir: &Path| {
            let path = dir.to_owned();
            move |source| OpenError::Io { action, path, source }
        };
        self.files.create_dir(&self.dir).map_err(failed("create", &self.dir))?;
        let names = self.files.list(&self.dir).map_err(failed("list", &self.dir))?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
        self.spares
            .find(&*self.files, &self.dir, &names, &self.options)
            .map_err(failed("list", &self.dir))?;
        if numbers.is_empty() {
            if self.options.existing {
                return Err(OpenError::Missing { dir: self.dir.clone() });
            }
            self.switch(1, Position(1), self.options.segment_bytes)
                .map_err(failed("create a log in", &self.dir))?;
            self.stage.begin(1, HEADER_BYTES as u64, self.options.segment_bytes);
            return Ok(Recovery::empty(self.files.clone(), &self.dir, self.options.identity));
        }
        let scanned = recover::scan(&*self.files, &self.dir, self.options.identity, &numbers)?;
        let recovery = Recovery::new(self.files.clone(), &self.dir, self.options.identity, &scanned);
        for found in &scanned.segments {
            self.segments.push_back(Segment { number: found.number, first: found.first, bytes: found.bytes });
        }
        if let Some(found) = scanned.segments.last() {
            self.stage.begin(found.number, found.end, found.bytes);
        }
        self.next = scanned.last.next();
        (self.written, self.synced, self.marked) = (scanned.last, scanned.last, scanned.marked);
        self.file = Some(scanned.file);
        Ok(recovery)
    }

    /// From now on [`Wal::write`] waits until the disk has the records, so that none is left to sync where the file system
    /// knows how to do that; or hands them to the system only. For owners that would wait for a sync at once.
    pub fn write_durably(&mut self, durably: bool) {
        self.durably = durably;
    }

    /// Stages a record; `fill` writes it behind what it is given. Returns its position. Nothing is written yet.
    pub fn append(&mut self, fill: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Position {
        let position = self.next;
        self.next = position.next();
        self.stats.records += 1;
        if self.options.durability != Durability::Memory {
            self.stage.record(position, self.synced, fill);
        }
        position
    }

    /// The position that the next record will get.
    pub fn next_position(&self) -> Position {
        self.next
    }

    /// Bytes that are staged and not yet written.
    pub fn staged_bytes(&self) -> usize {
        self.stage.bytes()
    }

    /// Hands everything staged to the system, in one write unless a segment ends meanwhile.
    ///
    /// # Errors
    /// `StorageFull` if a new segment is needed and there is no room for one: what is staged stays so, and the call
    /// may be repeated when there is room, unless [`Wal::poisoned`]. Any other error is final.
    pub fn write(&mut self) -> io::Result<()> {
        self.usable()?;
        if self.options.durability == Durability::Memory {
            self.written = Position(self.next.0 - 1);
            self.synced = self.written;
            return Ok(());
        }
        while let Some(part) = self.stage.front() {
            let (number, first, bytes) = (part.number, part.first, part.segment_bytes);
            if self.segments.back().is_none_or(|segment| segment.number != number) {
                self.switch(number, first, bytes)?;
            }
            let Some(part) = self.stage.front() else { break };
            if part.buffer.is_empty() {
                self.stage.written();
            } else {
                let Some(file) = &self.file else { panic!("a log on disk has a segment to write to") };
                let start = Instant::now();
                let result = if self.durably {
                    file.write_durably(part.offset, &part.buffer)
                } else {
                    file.write_at(part.offset, &part.buffer).map(|()| false)
                };
                self.stats.bytes_written += part.buffer.len() as u64;
                let is_on_disk = self.checked(result)?;
                self.written = self.stage.written().unwrap_or(self.written);
                self.wrote(is_on_disk, start.elapsed());
            }
            if self.stage.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Something was written, up to the last record. What stands before it may still be on its way to the disk.
    fn wrote(&mut self, is_on_disk: bool, took: Duration) {
        if is_on_disk && self.cached <= self.synced {
            self.synced = self.written;
            self.stats.synced(took);
        } else {
            self.cached = self.written;
            self.dirty = true;
        }
    }

    /// Brings everything written to the disk, whatever sync is under way elsewhere.
    ///
    /// # Errors
    /// Any error is final.
    pub fn sync(&mut self) -> io::Result<()> {
        self.usable()?;
        if !self.dirty && self.synced == self.written {
            return Ok(());
        }
        let task = self.task();
        self.finish_sync(task.run())
    }

    /// The sync that would bring everything written to the disk; `None` if nothing was written since the last one
    /// was given out. While it is under way the log may be appended to and written; what is written meanwhile needs
    /// another sync.
    ///
    /// # Errors
    /// Only if an earlier call failed.
    pub fn start_sync(&mut self) -> io::Result<Option<SyncTask>> {
        self.usable()?;
        Ok(self.dirty.then(|| self.task()))
    }

    fn task(&mut self) -> SyncTask {
        let Some(file) = &self.file else { panic!("a log on disk has a segment to sync") };
        self.dirty = false;
        SyncTask { file: file.clone(), position: self.written }
    }

    /// Takes back what became of a sync.
    ///
    /// # Errors
    /// If the sync failed, which is final.
    pub fn finish_sync(&mut self, done: SyncDone) -> io::Result<()> {
        self.usable()?;
        self.checked(done.result)?;
        self.stats.synced(done.took);
        self.synced = self.synced.max(done.position);
        Ok(())
    }

    /// Leaves a mark on disk that everything up to here had been synced, so that damage to the newest records cannot
    /// be taken for a torn end. To be called when nothing happened for some tens of milliseconds, and before the
    /// process ends; costs a sync if there is anything new to mark, else nothing.
    ///
    /// # Errors
    /// As [`Wal::write`] and [`Wal::sync`].
    pub fn settle(&mut self) -> io::Result<()> {
        self.write()?;
        self.sync()?;
        if self.options.durability == Durability::Memory || self.marked >= self.synced {
            return Ok(());
        }
        self.stage.mark(self.synced);
        self.marked = self.synced;
        self.write()?;
        self.sync()
    }

    /// Every record up to here is as durable as the options ask.
    pub fn durable(&self) -> Position {
        match self.options.durability {
            Durability::Disk => self.synced,
            Durability::Interval(_) => self.written,
            Durability::Memory => Position(self.next.0 - 1),
        }
    }

    /// Every record up to here is on disk (or would be, if nothing is kept on disk).
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// When a record counts as durable.
    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    /// The error after which nothing works any more, if there was one.
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// What the log has done and occupies.
    pub fn stats(&self) -> Stats {
        let segment_bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        Stats {
            segments: self.segments.len(),
            spares: self.spares.count(),
            bytes_on_disk: segment_bytes + self.spares.count() as u64 * self.options.segment_bytes,
            ..self.stats
        }
    }

    /// Closes the current segment and begins the one with this number. Afterwards everything in the old one is on
    /// disk, and so are the header and the name of the new one: only the newest segment ever holds records that are
    /// not on disk.
    fn switch(&mut self, number: u64, first: Position, bytes: u64) -> io::Result<()> {
        let spare = self.spares.take(&*self.files, &self.dir, bytes);
        let (spare, file) = match spare {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            other => self.checked(other)?,
        };
        self.sync()?;
        let header = Header { identity: self.options.identity, number, first, bytes };
        let result = (|| {
            file.write_at(0, &header.encode())?;
            file.sync()?;
            self.files.rename(&self.dir.join(&spare.name), &self.dir.join(segment_name(number)))?;
            self.files.sync_dir(&self.dir)
        })();
        self.checked(result)?;
        self.segments.push_back(Segment { number, first, bytes });
        self.file = Some(file);
        self.laid = spare.laid;
        self.marked = self.marked.max(Position(first.0 - 1));
        self.stats.bytes_written += HEADER_BYTES as u64;
        Ok(())
    }

    fn usable(&self) -> io::Result<()> {
        match &self.poisoned {
            None => Ok(()),
            Some(reason) => Err(io::Error::other(format!("the log failed before: {reason}"))),
        }
    }

    /// Remembers an error for good.
    fn checked<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && self.poisoned.is_none()
        {
            self.poisoned = Some(error.to_string());
        }
        result
    }
}
