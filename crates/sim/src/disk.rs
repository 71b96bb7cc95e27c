//! The disk of one node: records that become durable by fdatasync, and what a crash leaves of them.
//!
//! One sync covers every record that was written before it began (group commit, as the host does it); what is written
//! meanwhile waits for the next. A crash keeps everything synced. Of the rest it keeps what the moment left on the
//! platter, which recovery cuts to a prefix at the first hole.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_kernel::{Position, Rng};
use quorate_store::{Batch, MemoryStore, Row, Scan, Sequence, SnapshotId, Store};

use crate::Latency;

/// How disks behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskOptions {
    /// How long an fdatasync takes.
    pub sync: Latency,
    /// Whether a node takes no event while a sync runs, as a host with a single loop does. Otherwise it goes on
    /// and only gated effects wait.
    pub blocking: bool,
    /// Whether there is no disk: the gate is always open and a crash loses everything.
    pub volatile: bool,
    /// Discarded records vanish in whole segments of this many.
    pub segment_records: u64,
    /// How long a store's checkpoint takes from being asked for; zero makes it durable at once.
    pub checkpoint: Latency,
    /// Chance in a million, per step, that the store becomes durable without being asked (a full write buffer).
    pub checkpoint_unasked_ppm: u64,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions {
            sync: Latency::Uniform(Duration::from_micros(100), Duration::from_millis(2)),
            blocking: false,
            volatile: false,
            segment_records: 1,
            checkpoint: Latency::ZERO,
            checkpoint_unasked_ppm: 0,
        }
    }
}

/// What a crash left of the records that no sync had covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CrashImage {
    /// Unsynced records that survived.
    pub(crate) kept: u64,
    /// Unsynced records that are gone.
    pub(crate) lost: u64,
    /// Whether some of the lost ones were whole on disk, behind a hole.
    pub(crate) torn: bool,
}

/// Records in order, and how far they are durable.
#[derive(Debug)]
pub(crate) struct Disk<Record> {
    records: VecDeque<Record>,
    first: Position,
    durable: Position,
    syncing: Option<Position>,
    options: DiskOptions,
}

impl<Record> Disk<Record> {
    pub(crate) fn new(options: DiskOptions) -> Self {
        Disk { records: VecDeque::new(), first: Position(1), durable: Position(0), syncing: None, options }
    }

    /// Writes a record behind the others; it is not durable yet. Where there is no disk nobody will read it.
    pub(crate) fn append(&mut self, record: Record) -> Position {
        if self.options.volatile {
            self.first = self.first.next();
            self.durable = self.written();
        } else {
            self.records.push_back(record);
        }
        self.written()
    }

    /// The newest record written; 0 if there never was one.
    pub(crate) fn written(&self) -> Position {
        Position(self.first.0 + self.records.len() as u64 - 1)
    }

    /// The newest record that a crash cannot take.
    pub(crate) fn durable(&self) -> Position {
        self.durable
    }

    pub(crate) fn is_syncing(&self) -> bool {
        self.syncing.is_some()
    }

    /// Whether the node has to wait for the disk before it takes another event.
    pub(crate) fn is_blocking(&self) -> bool {
        self.options.blocking && self.is_syncing()
    }

    /// Begins a sync of everything written, if there is something to sync and no sync runs.
    pub(crate) fn begin_sync(&mut self) -> Option<Position> {
        if self.is_syncing() || self.written() == self.durable {
            return None;
        }
        self.syncing = Some(self.written());
        self.syncing
    }

    /// The running sync is done.
    pub(crate) fn end_sync(&mut self) {
        let upto = self.syncing.take().expect("a sync ends only after it began");
        assert!(upto >= self.durable, "durability never moves backwards");
        self.durable = upto;
    }

    /// Drops records before `position`, as far as they fill segments. What is not durable stays.
    pub(crate) fn discard(&mut self, position: Position) {
        assert!(
            position <= self.written().next(),
            "discarded up to {position:?} though only {:?} is written",
            self.written()
        );
        let segment = self.options.segment_records.max(1);
        let keep_from = ((position.0.max(1) - 1) / segment * segment + 1).min(self.durable.0 + 1);
        while self.first.0 < keep_from {
            self.records.pop_front();
            self.first = self.first.next();
        }
    }

    /// The power goes: cuts the records to what recovery will find.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> CrashImage {
        self.syncing = None;
        let unsynced = self.written().0 - self.durable.0;
        let mut image = CrashImage::default();
        if unsynced > 0 {
            let whole: Vec<bool> = match rng.below(4) {
                0 => vec![false; unsynced as usize],
                1 => vec![true; unsynced as usize],
                _ => (0..unsynced).map(|_| rng.chance(2, 3)).collect(),
            };
            image.kept = whole.iter().take_while(|whole| **whole).count() as u64;
            image.lost = unsynced - image.kept;
            image.torn = whole[image.kept as usize..].contains(&true);
            self.records.truncate(self.records.len() - image.lost as usize);
        }
        // Recovery syncs what it found before anything rests on it.
        self.durable = self.written();
        image
    }

    /// What a restart finds, oldest first.
    pub(crate) fn survivors(&self) -> impl Iterator<Item = (Position, &Record)> {
        (self.first.0..).map(Position).zip(&self.records)
    }

    /// Number of records on disk.
    pub(crate) fn record_count(&self) -> usize {
        self.records.len()
    }
}

/// A memory store whose checkpoints may take their time.
#[derive(Debug)]
pub(crate) struct SimStore {
    inner: MemoryStore,
    options: DiskOptions,
    asked: bool,
}

impl SimStore {
    /// An empty store; where checkpoints take time they wait for [`SimStore::complete`].
    pub(crate) fn new(options: DiskOptions) -> Self {
        let inner = if options.volatile { MemoryStore::new() } else { MemoryStore::with_crash_model() };
        SimStore { inner, options, asked: false }
    }

    /// Whether a checkpoint was asked for since last looked at.
    pub(crate) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Everything applied so far becomes durable.
    pub(crate) fn complete(&mut self) {
        self.inner.checkpoint();
    }

    /// Back to what was durable.
    pub(crate) fn crash(&mut self) {
        match self.options.volatile {
            true => *self = SimStore::new(self.options),
            false => self.inner.crash(),
        }
        self.asked = false;
    }

    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.inner
    }
}

impl Store for SimStore {
    fn get(&self, key: &[u8]) -> Option<bytes::Bytes> {
        self.inner.get(key)
    }

    fn scan(&self, scan: Scan<'_>) -> Vec<Row> {
        self.inner.scan(scan)
    }

    fn apply(&mut self, batch: Batch) -> Sequence {
        self.inner.apply(batch)
    }

    fn sequence(&self) -> Sequence {
        self.inner.sequence()
    }

    fn durable(&self) -> Sequence {
        self.inner.durable()
    }

    fn checkpoint(&mut self) {
        if self.options.checkpoint != Latency::ZERO {
            self.asked = true;
        } else {
            self.inner.checkpoint();
        }
    }

    fn snapshot(&mut self) -> SnapshotId {
        self.inner.snapshot()
    }

    fn scan_snapshot(&self, id: SnapshotId, scan: Scan<'_>) -> Option<Vec<Row>> {
        self.inner.scan_snapshot(id, scan)
    }

    fn release(&mut self, id: SnapshotId) {
        self.inner.release(id);
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(segment_records: u64) -> Disk<u64> {
        Disk::new(DiskOptions { segment_records, ..DiskOptions::default() })
    }

    #[test]
    fn one_sync_covers_what_was_written_before_it() {
        let mut disk = disk(1);
        assert_eq!(disk.begin_sync(), None, "nothing to sync");
        disk.append(1);
        disk.append(2);
        assert_eq!(disk.begin_sync(), Some(Position(2)));
        disk.append(3);
        assert_eq!(disk.begin_sync(), None, "one at a time");
        disk.end_sync();
        assert_eq!((disk.durable(), disk.written()), (Position(2), Position(3)));
        assert_eq!(disk.begin_sync(), Some(Position(3)));
    }

    #[test]
    fn every_crash_image_is_a_prefix_that_holds_everything_synced() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let mut disk = disk(1);
            let synced = rng.below(5);
            for record in 1..=synced {
                disk.append(record);
            }
            if disk.begin_sync().is_some() && rng.chance(9, 10) {
                disk.end_sync();
            }
            let durable = disk.durable().0;
            let total = synced + rng.below(5);
            for record in synced + 1..=total {
                disk.append(record);
            }
            let image = disk.crash(&mut rng);
            let survivors: Vec<u64> = disk.survivors().map(|(_, record)| *record).collect();
            assert_eq!(survivors, (1..=survivors.len() as u64).collect::<Vec<_>>(), "a prefix");
            assert!(survivors.len() as u64 >= durable, "seed {seed}: a synced record is gone");
            assert_eq!(survivors.len() as u64 + image.lost, total);
            assert_eq!(disk.append(9), Position(survivors.len() as u64 + 1), "lost places are used again");
            lost += image.lost;
            kept += image.kept;
            torn += u64::from(image.torn);
        }
        assert!(lost > 100 && kept > 100 && torn > 20, "{lost} {kept} {torn}");
    }

    #[test]
    fn discarded_records_vanish_in_whole_segments() {
        let mut disk = disk(4);
        for record in 1..=10 {
            disk.append(record);
        }
        disk.discard(Position(10));
        assert_eq!(disk.record_count(), 10, "nothing is durable yet");
        disk.begin_sync();
        disk.end_sync();
        disk.discard(Position(4));
        assert_eq!(disk.record_count(), 10);
        disk.discard(Position(10));
        let first = disk.survivors().next().map(|(position, record)| (position, *record));
        assert_eq!(first, Some((Position(9), 9)));
    }

    #[test]
    fn lagging_checkpoints_wait() {
        let checkpoint = Latency::Uniform(Duration::ZERO, Duration::from_millis(1));
        let mut store = SimStore::new(DiskOptions { checkpoint, ..DiskOptions::default() });
        store.apply(Batch::default());
        store.checkpoint();
        assert_eq!(store.durable(), 0);
        assert!(store.take_asked() && !store.take_asked());
        store.complete();
        assert_eq!(store.durable(), 1);
    }
}
