//! The store of the simulator and of diskless nodes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Bound;

use crate::{Batch, Row, Scan, Sequence, SnapshotId, Store};

type Rows = BTreeMap<Bytes, Bytes>;

/// An ordered map in memory, with a model of what a crash would leave.
///
/// What is durable is a second copy, kept only if asked for ([`MemoryStore::with_crash_model`]): a diskless node has
/// no use for it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    live: Rows,
    live_bytes: u64,
    sequence: Sequence,
    durable: Option<(Rows, Sequence)>,
    snapshots: BTreeMap<SnapshotId, Rows>,
    snapshots_taken: u64,
}

impl MemoryStore {
    /// An empty store in which nothing is ever lost.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that forgets, at [`MemoryStore::crash`], everything since the last checkpoint.
    pub fn with_crash_model() -> Self {
        MemoryStore { durable: Some((Rows::new(), 0)), ..Self::default() }
    }

    /// The process dies and starts again: back to what was durable, snapshots gone.
    pub fn crash(&mut self) {
        if let Some((rows, sequence)) = &self.durable {
            self.live = rows.clone();
            self.live_bytes = self.live.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
            self.sequence = *sequence;
        }
        self.snapshots.clear();
    }

    /// The rows whose keys begin like this, in their order, without a copy of them.
    pub fn with_prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
        let range = self.live.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        range.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Number of live rows.
    pub fn row_count(&self) -> usize {
        self.live.len()
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.live.get(key).cloned()
    }

    fn scan(&self, scan: Scan<'_>) -> Vec<Row> {
        scan_rows(&self.live, scan)
    }

    fn apply(&mut self, batch: Batch) -> Sequence {
        for (key, value) in batch.writes {
            let key_bytes = key.len() as u64;
            let added = value.as_ref().map_or(0, |value| key_bytes + value.len() as u64);
            let old = match (value, self.live.get_mut(&key)) {
                (Some(value), Some(row)) => Some(core::mem::replace(row, value)),
                // The key may be a part of something larger, all of which would stay as long as the row does.
                (Some(value), None) => self.live.insert(Bytes::copy_from_slice(&key), value),
                (None, _) => self.live.remove(&key),
            };
            let removed = old.map_or(0, |old| key_bytes + old.len() as u64);
            self.live_bytes = self.live_bytes + added - removed;
        }
        self.sequence += 1;
        self.sequence
    }

    fn sequence(&self) -> Sequence {
        self.sequence
    }

    fn durable(&self) -> Sequence {
        self.durable.as_ref().map_or(self.sequence, |(_, sequence)| *sequence)
    }

    fn checkpoint(&mut self) {
        if let Some(durable) = &mut self.durable {
            *durable = (self.live.clone(), self.sequence);
        }
    }

    fn snapshot(&mut self) -> SnapshotId {
        self.snapshots_taken += 1;
        let id = SnapshotId(self.snapshots_taken);
        self.snapshots.insert(id, self.live.clone());
        id
    }

    fn scan_snapshot(&self, id: SnapshotId, scan: Scan<'_>) -> Option<Vec<Row>> {
        self.snapshots.get(&id).map(|rows| scan_rows(rows, scan))
    }

    fn release(&mut self, id: SnapshotId) {
        self.snapshots.remove(&id);
    }

    fn size_bytes(&self) -> u64 {
        self.live_bytes
    }
}

fn scan_rows(rows: &Rows, scan: Scan<'_>) -> Vec<Row> {
    if scan.end.is_some_and(|end| end <= scan.start) {
        return Vec::new();
    }
    let end = scan.end.map_or(Bound::Unbounded, Bound::Excluded);
    let range = rows.range::<[u8], _>((Bound::Included(scan.start), end));
    if scan.reverse { take(range.rev(), scan) } else { take(range, scan) }
}

fn take<'a>(rows: impl Iterator<Item = (&'a Bytes, &'a Bytes)>, scan: Scan<'_>) -> Vec<Row> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for (key, value) in rows.take(scan.rows_max) {
        bytes += key.len() + value.len();
        taken.push((key.clone(), value.clone()));
        if bytes >= scan.bytes_max {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::check(MemoryStore::new);
        crate::conformance::check(MemoryStore::with_crash_model);
    }

    #[test]
    fn crash_forgets_what_no_checkpoint_saw() {
        let mut store = MemoryStore::with_crash_model();
        let mut batch = Batch::default();
        batch.put("a", "1");
        store.apply(batch);
        store.checkpoint();
        let mut batch = Batch::default();
        batch.put("a", "2");
        batch.put("b", "2");
        store.apply(batch);
        assert_eq!((store.sequence(), store.durable()), (2, 1));
        store.crash();
        assert_eq!(store.get(b"a").as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get(b"b"), None);
        assert_eq!((store.sequence(), store.size_bytes()), (1, 2));
    }
}
