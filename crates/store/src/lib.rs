//! The materialised state behind a machine: an ordered map with atomic batches, snapshots and a notion of what
//! would survive a crash.
//!
//! A store is **not** a database: it has no transactions, no concurrency and no journal of its own. The replicated
//! log is its journal. After a crash a store may have lost its newest batches (never an older one without all newer
//! ones) and is replayed from the log; [`Store::durable`] says from where.
//!
//! [`MemoryStore`] serves the simulator and diskless nodes; `quorate-engine` adapts a library LSM. Both pass
//! [`conformance`].
//!
//! A failing disk never shows up as an error here: an implementation that can no longer read or write must stop the
//! process (`docs/decisions/0001-effects.md`), because a machine has no safe way to go on without its state.
#![no_std]

extern crate alloc;

pub mod conformance;
mod memory;

use alloc::vec::Vec;
use bytes::Bytes;

pub use memory::MemoryStore;

/// A row: key and value.
pub type Row = (Bytes, Bytes);

/// Counts batches; a store hands out one number per applied batch, from 1, without gaps within one lifetime.
///
/// After a restart numbering goes on from [`Store::durable`], so that "durable up to `s`" stays comparable.
pub type Sequence = u64;

/// Names a snapshot of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

/// Writes that become visible, and survive a crash, together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Each key at most once; `None` deletes.
    pub writes: Vec<(Bytes, Option<Bytes>)>,
}

impl Batch {
    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.writes.push((key.into(), Some(value.into())));
    }

    /// Removes `key`, which need not exist.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.writes.push((key.into(), None));
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// Where a scan begins and ends, which way it goes and when it stops.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// First key that may be returned (inclusive).
    pub start: &'a [u8],
    /// End of the range (exclusive); `None` means to the end of the store.
    pub end: Option<&'a [u8]>,
    /// Whether rows come in descending order of their keys.
    pub reverse: bool,
    /// At most this many rows.
    pub rows_max: usize,
    /// Stops after the row with which keys and values reach this many bytes (so one row is always returned).
    pub bytes_max: usize,
}

impl<'a> Scan<'a> {
    /// Every row whose key starts with `prefix`; `end` must come from [`prefix_end`] of the same prefix.
    pub fn range(start: &'a [u8], end: Option<&'a [u8]>) -> Self {
        Scan { start, end, reverse: false, rows_max: usize::MAX, bytes_max: usize::MAX }
    }

    /// The same scan, stopping after `rows_max` rows.
    pub fn rows(self, rows_max: usize) -> Self {
        Scan { rows_max, ..self }
    }

    /// The same scan, stopping with the row that reaches `bytes_max`.
    pub fn bytes(self, bytes_max: usize) -> Self {
        Scan { bytes_max, ..self }
    }

    /// The same range from its other end.
    pub fn reversed(self) -> Self {
        Scan { reverse: true, ..self }
    }
}

/// The first key after all keys that start with `prefix`; `None` if there is none (all bytes are 255).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

/// An ordered map with atomic batches. See the crate's documentation for what it promises.
pub trait Store {
    /// The value of `key`, as of the newest applied batch.
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// Rows of a range, as of the newest applied batch.
    fn scan(&self, scan: Scan<'_>) -> Vec<Row>;

    /// Applies a batch atomically and returns its number. Visible at once, durable later.
    fn apply(&mut self, batch: Batch) -> Sequence;

    /// Number of the newest applied batch; 0 before the first.
    fn sequence(&self) -> Sequence;

    /// Every batch up to this number would survive a crash now. Never moves backwards, never exceeds
    /// [`Store::sequence`].
    fn durable(&self) -> Sequence;

    /// Asks that everything applied so far becomes durable. Returns at once; [`Store::durable`] tells when it has
    /// happened. Asking again meanwhile is harmless.
    fn checkpoint(&mut self);

    /// A frozen view of the newest applied batch. Costs memory or disk until released.
    fn snapshot(&mut self) -> SnapshotId;

    /// Like [`Store::scan`], on a snapshot. `None` if the snapshot does not exist (any more): snapshots do not
    /// survive a restart.
    fn scan_snapshot(&self, id: SnapshotId, scan: Scan<'_>) -> Option<Vec<Row>>;

    /// Lets go of a snapshot; unknown ids are ignored.
    fn release(&mut self, id: SnapshotId);

    /// Bytes the store occupies (on disk, or in memory for a memory store), for limits and metrics.
    fn size_bytes(&self) -> u64;
}
