//! The newest rows, in front of the tree.
//!
//! A row that is written again and again (the counters of a shard, a popular key) is one row here, where the library's
//! memtable would keep every version of it until it is written out; and a point read is one look into a hash map. Order
//! is made only when it is asked for: by a scan, or when the rows are written out.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::OnceLock;

use bytes::Bytes;
use quorate_store::{Scan, Sequence};

/// What a row takes beside key and value, about: table, order and allocations.
const ROW_BYTES: u64 = 160;

/// Longer values may share their buffer.
const SHARED_BYTES_MIN: usize = 64 << 10;

type Rows = HashMap<Bytes, Option<Bytes>, foldhash::fast::RandomState>;

/// The rows that are being written.
#[derive(Debug, Default)]
pub(super) struct Front {
    rows: Rows,
    bytes: u64,
    order: RefCell<Order>,
}

/// The keys in their order, once somebody has asked for it: whoever gets the state of another node does not.
#[derive(Debug, Default)]
struct Order {
    is_kept: bool,
    sorted: BTreeSet<Bytes>,
    /// Keys that are not among `sorted` yet.
    new: Vec<Bytes>,
}

impl Front {
    /// The row of `key`, if it was written here: `Some(None)` if it was deleted.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.rows.get(key).map(|value| value.as_ref().map(copied))
    }

    pub(super) fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        let value = value.map(detached);
        let added = value.as_ref().map_or(0, |value| value.len() as u64);
        match self.rows.get_mut(&key) {
            Some(row) => {
                let removed = row.as_ref().map_or(0, |value| value.len() as u64);
                self.bytes = self.bytes + added - removed;
                *row = value;
            }
            None => {
                // One of its own, however long the others are that it may share its memory with.
                let key = Bytes::copy_from_slice(&key);
                self.bytes += key.len() as u64 + added + ROW_BYTES;
                let order = self.order.get_mut();
                if order.is_kept {
                    order.new.push(key.clone());
                }
                self.rows.insert(key, value);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows of a range, in the order of the scan, at most `rows_max`; and whether there are more.
    pub(super) fn range(&self, scan: &Scan<'_>, rows_max: usize) -> Vec<(Bytes, Option<Bytes>)> {
        let order = &mut *self.order.borrow_mut();
        if !std::mem::replace(&mut order.is_kept, true) {
            order.sorted = self.rows.keys().cloned().collect();
        }
        order.sorted.extend(order.new.drain(..));
        let range = order.sorted.range::<[u8], _>(bounds(scan));
        let row = |key: &Bytes| (key.clone(), self.rows.get(key).cloned().flatten());
        if scan.reverse {
            range.rev().take(rows_max).map(row).collect()
        } else {
            range.take(rows_max).map(row).collect()
        }
    }

    /// The rows, never to change again.
    pub(super) fn seal(&mut self, newest: Sequence) -> Sealed {
        let rows = Rows::with_capacity_and_hasher(self.rows.len(), Default::default());
        let front = std::mem::replace(self, Front { rows, ..Front::default() });
        Sealed { rows: front.rows, bytes: front.bytes, newest, keys: OnceLock::new() }
    }
}

/// Rows that wait to be written out.
#[derive(Debug)]
pub(super) struct Sealed {
    rows: Rows,
    bytes: u64,
    newest: Sequence,
    keys: OnceLock<Vec<Bytes>>,
}

impl Sealed {
    /// The newest batch in it.
    pub(super) fn newest(&self) -> Sequence {
        self.newest
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// As [`Front::get`].
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.rows.get(key).map(|value| value.as_ref().map(copied))
    }

    fn keys(&self) -> &[Bytes] {
        self.keys.get_or_init(|| {
            let mut keys: Vec<Bytes> = self.rows.keys().cloned().collect();
            keys.sort_unstable();
            keys
        })
    }

    /// All rows, in ascending order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.keys().iter().map(|key| (key, self.rows.get(key).and_then(Option::as_ref)))
    }

    /// As [`Front::range`].
    pub(super) fn range(&self, scan: &Scan<'_>, rows_max: usize) -> Vec<(Bytes, Option<Bytes>)> {
        let keys = self.keys();
        let first = keys.partition_point(|key| &key[..] < scan.start);
        let end = scan.end.map_or(keys.len(), |end| keys.partition_point(|key| &key[..] < end));
        let keys = keys.get(first..end).unwrap_or_default();
        let row = |key: &Bytes| (key.clone(), self.rows.get(key).cloned().flatten());
        if scan.reverse {
            keys.iter().rev().take(rows_max).map(row).collect()
        } else {
            keys.iter().take(rows_max).map(row).collect()
        }
    }
}

/// A short value is cheaper to copy than to share: its count of owners is one more line of memory that is not in the
/// processor's cache.
fn copied(value: &Bytes) -> Bytes {
    if value.len() <= super::COPY_BYTES_MAX { Bytes::copy_from_slice(value) } else { value.clone() }
}

/// Bytes that share their buffer with something, and are small beside what buffers may be, get one of their own:
/// otherwise a short value would keep alive the whole message it came in.
fn detached(bytes: Bytes) -> Bytes {
    if bytes.len() > SHARED_BYTES_MIN || bytes.is_unique() { bytes } else { Bytes::copy_from_slice(&bytes) }
}

/// A scan's range; the caller has seen to it that it is not turned round.
pub(super) fn bounds<'a>(scan: &Scan<'a>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(scan.start), scan.end.map_or(Bound::Unbounded, Bound::Excluded))
}
