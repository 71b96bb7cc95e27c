//! The materialised state on disk: [`quorate_store::Store`] on a log-structured merge tree.
//!
//! The library's tree has no journal, and needs none: the replicated log is the journal. New rows gather in front of
//! the tree (`front.rs`); a full front is sealed, between batches only, and written out in order by a thread. With it
//! goes one more row, [`MARKER`], that names the newest batch in it: after a restart it says what survived, and batches
//! that changed no row count as well.
//!
//! **A disk that fails or lies stops the node**: any error while reading or writing, a checksum that does not fit
//! among them, ends in [`Options::on_fatal`], by default the end of the process with [`crate::EXIT_DISK`]. A full
//! disk is no failure: sealed fronts wait in memory until there is room, and [`LsmStore::pressure`] tells.

mod front;
mod merge;
mod options;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use lsm_tree::config::{FilterPolicy, FilterPolicyEntry};
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, SeqNo, SequenceNumberCounter, Slice, Tree};
use quorate_store::{Batch, Row, Scan, Sequence, SnapshotId, Store};

use front::{Front, Sealed, bounds};
use merge::Layer;
use worker::Shared;

pub use options::{OnFatal, Options, exit};

/// The longest key the library takes. It takes no empty key either.
pub const KEY_BYTES_MAX: usize = 65_535;

/// The row that names the newest batch that was written out with it. Not a key that a store's owner may use, and
/// never shown.
pub const MARKER: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xffquorate.sequence";

/// So many frozen fronts are kept back at most, since every read looks into each.
const KEPT_MAX: usize = 8;

/// Values up to this many bytes are copied out of their block; larger ones share its memory.
const COPY_BYTES_MAX: usize = 2048;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read, or is damaged.
    #[error("{0}")]
    Failed(String),
    /// The options contradict themselves.
    #[error("store options: {0}")]
    Options(String),
}

/// How the store keeps up with what is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// It does.
    None,
    /// It is behind; soon [`Store::apply`] will wait for the disk.
    Behind,
    /// The disk is full. New writes should be refused: what is applied stays in memory until there is room.
    Full,
}

/// A frozen view: what was sealed, newest first, and what lies below it.
struct Frozen {
    sealed: Vec<Arc<Sealed>>,
    tree: FrozenTree,
}

/// The store. See the [module](self).
pub struct LsmStore {
    tree: Tree,
    /// Where rows are written to.
    front: Front,
    /// What is sealed and may not be in the tree yet, the newest first.
    waiting: VecDeque<Arc<Sealed>>,
    /// How many of these, the newest, nobody was asked to write out yet.
    kept: usize,
    options: Options,
    path: PathBuf,
    sequence: Sequence,
    /// The newest batch that is in a sealed front or the tree.
    sealed: Sequence,
    snapshots: BTreeMap<SnapshotId, Frozen>,
    snapshots_taken: u64,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for LsmStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LsmStore")
            .field("path", &self.path)
            .field("sequence", &self.sequence)
            .field("durable", &self.shared.durable())
            .finish_non_exhaustive()
    }
}

impl LsmStore {
    /// Opens the store in `path`, or creates it, and starts its threads. Numbering goes on from what is durable.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, options: Options) -> Result<LsmStore, OpenError> {
        let complaints = options.complaints();
        if !complaints.is_empty() {
            return Err(OpenError::Options(complaints.join("; ")));
        }
        let error = |error: lsm_tree::Error| OpenError::Failed(failed(path, "open", &error));
        // The library numbers its own file lists with these counters. They have nothing to do with batches: reads
        // ask for the newest of everything, snapshots hold on to what they read.
        let (numbers, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let bloom = FilterPolicyEntry::Bloom(lsm_tree::config::BloomConstructionPolicy::BitsPerKey(10.0));
        let config = Config::new(path, numbers, visible)
            .use_cache(Arc::new(Cache::with_capacity_bytes(options.cache_bytes)))
            .filter_policy(FilterPolicy::all(bloom));
        let AnyTree::Standard(tree) = config.open().map_err(error)? else {
            return Err(OpenError::Failed(format!("{} holds a store of another kind", path.display())));
        };
        let durable = match tree.get(MARKER, SeqNo::MAX).map_err(error)? {
            None => 0,
            Some(bytes) => {
                let Ok(bytes) = bytes[..].try_into() else {
                    let reason = format!("the marker in {} has {} bytes", path.display(), bytes.len());
                    return Err(OpenError::Failed(reason));
                };
                Sequence::from_le_bytes(bytes)
            }
        };
        let shared = Arc::new(Shared::new(path.to_owned(), durable, &options));
        let threads = worker::start(&tree, &shared, &options)
            .map_err(|error| OpenError::Failed(format!("cannot start the threads of the store: {error}")))?;
        Ok(LsmStore {
            front: Front::default(),
            waiting: VecDeque::new(),
            kept: 0,
            tree,
            options,
            path: path.to_owned(),
            sequence: durable,
            sealed: durable,
            snapshots: BTreeMap::new(),
            snapshots_taken: 0,
            shared,
            threads,
        })
    }

    /// How the store keeps up.
    pub fn pressure(&self) -> Pressure {
        if self.shared.full() {
            Pressure::Full
        } else if self.shared.sealed_count() * 2 > self.options.sealed_max
            || self.shared.runs() * 2 > self.options.runs_max
        {
            Pressure::Behind
        } else {
            Pressure::None
        }
    }

    /// Seals the front: its rows do not change any more. Writing it out can wait: a snapshot freezes what is there, and has no need of tables, of which a few
    /// small ones make the tree write all it has anew.
    fn freeze(&mut self) {
        if self.sealed < self.sequence {
            self.waiting.push_front(Arc::new(self.front.seal(self.sequence)));
            self.sealed = self.sequence;
            self.kept += 1;
        }
    }

    /// Has everything written out, as one table.
    fn write_out(&mut self) {
        self.freeze();
        let kept: Vec<Arc<Sealed>> = self.waiting.iter().take(self.kept).rev().cloned().collect();
        self.kept = 0;
        if !kept.is_empty() {
            self.shared.write_out(kept);
        }
    }

    /// Bytes that nobody was asked to write out.
    fn bytes_in_front(&self) -> u64 {
        self.waiting.iter().take(self.kept).map(|sealed| sealed.bytes()).sum::<u64>() + self.front.bytes()
    }

    /// Lets go of what is in the tree by now.
    fn drop_written(&mut self) {
        let durable = self.shared.durable();
        while self.waiting.back().is_some_and(|sealed| sealed.newest() <= durable) {
            let Some(written) = self.waiting.pop_back() else { break };
            self.shared.dispose(written);
        }
    }

    fn checked<T>(&self, action: &str, result: lsm_tree::Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => self.shared.fatal(&failed(&self.path, action, &error)),
        }
    }
}

impl Store for LsmStore {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        if let Some(row) = self.front.get(key) {
            return row;
        }
        if let Some(row) = self.waiting.iter().find_map(|sealed| sealed.get(key)) {
            return row;
        }
        self.checked("read", self.tree.get(key, SeqNo::MAX)).map(to_bytes)
    }

    fn scan(&self, scan: Scan<'_>) -> Vec<Row> {
        let tree = LiveTree(&self.tree);
        let mut layers: Vec<&dyn Layer> = vec![&self.front];
        layers.extend(self.waiting.iter().map(|sealed| &**sealed as &dyn Layer));
        layers.push(&tree);
        self.checked("read", merge::read(&layers, &scan))
    }

    fn apply(&mut self, batch: Batch) -> Sequence {
        self.shared.check();
        if self.shared.sealed_count() >= self.options.sealed_max
            || self.shared.runs() >= self.options.runs_max
        {
            self.shared.wait_for_disk(self.options.sealed_max, self.options.runs_max);
            self.shared.check();
        }
        self.drop_written();
        self.sequence += 1;
        for (key, value) in batch.writes {
            assert!(
                key.len() <= KEY_BYTES_MAX,
                "a key of {} bytes; the store takes {KEY_BYTES_MAX}",
                key.len()
            );
            assert!(!key.is_empty(), "an empty key; the store takes none");
            assert!(key != MARKER, "the store keeps this key for itself");
            self.front.put(key, value);
        }
        if self.bytes_in_front() >= self.options.memtable_bytes {
            self.write_out();
        }
        self.sequence
    }

    fn sequence(&self) -> Sequence {
        self.sequence
    }

    fn durable(&self) -> Sequence {
        self.shared.durable()
    }

    fn checkpoint(&mut self) {
        self.shared.check();
        self.write_out();
    }

    fn snapshot(&mut self) -> SnapshotId {
        if !self.front.is_empty() {
            self.freeze();
        }
        if self.kept > KEPT_MAX {
            self.write_out();
        }
        // The view keeps its tables alive. What is written out later has a higher number than `below` allows; what
        // of the sealed rows is being written out just now is hidden by them.
        let view = self.tree.get_version_history_lock().latest_version();
        let below = self.sequence + 1;
        let tree = FrozenTree(Box::new(move |scan, rows_max| {
            let rows = Tree::create_internal_range::<&[u8], _>(view.clone(), &bounds(scan), below, None);
            take(rows.map(|row| row.map(|row| (row.key.user_key, row.value))), scan.reverse, rows_max)
        }));
        self.snapshots_taken += 1;
        let id = SnapshotId(self.snapshots_taken);
        self.snapshots.insert(id, Frozen { sealed: self.waiting.iter().cloned().collect(), tree });
        id
    }

    fn scan_snapshot(&self, id: SnapshotId, scan: Scan<'_>) -> Option<Vec<Row>> {
        let frozen = self.snapshots.get(&id)?;
        let mut layers: Vec<&dyn Layer> =
            frozen.sealed.iter().map(|sealed| &**sealed as &dyn Layer).collect();
        layers.push(&frozen.tree);
        Some(self.checked("read", merge::read(&layers, &scan)))
    }

    fn release(&mut self, id: SnapshotId) {
        self.snapshots.remove(&id);
    }

    fn size_bytes(&self) -> u64 {
        let waiting: u64 = self.waiting.iter().map(|sealed| sealed.bytes()).sum();
        self.tree.disk_space() + waiting + self.front.bytes()
    }
}

impl Drop for LsmStore {
    /// Ends the threads. What is in memory is not written out: the log has it.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so before.
            thread.join().ok();
        }
    }
}

fn failed(path: &Path, action: &str, error: &lsm_tree::Error) -> String {
    let advice = match error {
        lsm_tree::Error::Io(_) => "check the disk, then start the node again",
        _ => {
            "the data is damaged, and none of it is served: move the data directory away, remove the node from the \
             cluster, and start it with an empty one, so that it joins as a new node"
        }
    };
    format!("the store in {} failed ({action}): {error}; {advice}", path.display())
}

/// The tree as it is.
struct LiveTree<'a>(&'a Tree);

impl Layer for LiveTree<'_> {
    fn read(&self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> {
        take(self.0.create_range::<&[u8], _>(&bounds(scan), SeqNo::MAX, None), scan.reverse, rows_max)
    }
}

type ReadFrozen = dyn Fn(&Scan<'_>, usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> + Send;

/// The tree as it was.
struct FrozenTree(Box<ReadFrozen>);

impl Layer for FrozenTree {
    fn read(&self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> {
        (self.0)(scan, rows_max)
    }
}

fn take(
    mut rows: impl DoubleEndedIterator<Item = lsm_tree::Result<(Slice, Slice)>>,
    reverse: bool,
    rows_max: usize,
) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> {
    let mut taken = Vec::new();
    while taken.len() < rows_max {
        let Some(row) = (if reverse { rows.next_back() } else { rows.next() }) else { break };
        let (key, value) = row?;
        if *key != *MARKER {
            taken.push((Bytes::copy_from_slice(&key), Some(to_bytes(value))));
        }
    }
    Ok(taken)
}

fn to_bytes(slice: Slice) -> Bytes {
    if slice.len() <= COPY_BYTES_MAX { Bytes::copy_from_slice(&slice) } else { Bytes::from_owner(slice) }
}
