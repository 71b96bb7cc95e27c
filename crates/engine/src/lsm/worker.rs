//! The two threads behind the store: one writes sealed fronts out, one merges tables.
//!
//! They are two so that a long merge does not keep fronts from being written, which would make the node stand
//! still.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, InternalValue, SeqNo, Tree, ValueType};
use quorate_store::Sequence;

use super::MARKER;
use super::front::Sealed;
use super::options::{OnFatal, Options};

/// Older versions of a row are never needed: snapshots hold on to the memtables and tables they read from.
const KEEP_NEWEST_ONLY: SeqNo = SeqNo::MAX;

/// How long to wait before asking again whether a full disk has room.
const FULL_RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Work {
    /// Sealed fronts that wait, the oldest first: those that came together become one table, with whatever else waits by then.
    sealed: VecDeque<Vec<Arc<Sealed>>>,
    /// Fronts that have been written out and that nobody reads any more, unless a snapshot does.
    written: Vec<Arc<Sealed>>,
    merge: bool,
    stop: bool,
    failed: Option<String>,
}

/// What the store and its threads share.
pub(super) struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
    durable: AtomicU64,
    sealed_count: AtomicUsize,
    runs: AtomicUsize,
    /// Which of the two threads waits for room on the disk.
    full: [AtomicBool; 2],
    failed: AtomicBool,
    path: PathBuf,
    free_bytes_min: u64,
    on_fatal: OnFatal,
}

impl Shared {
    pub(super) fn new(path: PathBuf, durable: Sequence, options: &Options) -> Shared {
        Shared {
            work: Mutex::default(),
            changed: Condvar::new(),
            durable: AtomicU64::new(durable),
            sealed_count: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
            full: [AtomicBool::new(false), AtomicBool::new(false)],
            failed: AtomicBool::new(false),
            path,
            free_bytes_min: options.free_bytes_min,
            on_fatal: options.on_fatal.clone(),
        }
    }

    pub(super) fn durable(&self) -> Sequence {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn sealed_count(&self) -> usize {
        self.sealed_count.load(Ordering::Acquire)
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    pub(super) fn full(&self) -> bool {
        self.full.iter().any(|full| full.load(Ordering::Acquire))
    }

    /// Hands sealed fronts over to be written out, the oldest first.
    pub(super) fn write_out(&self, sealed: Vec<Arc<Sealed>>) {
        let mut work = self.lock();
        work.sealed.push_back(sealed);
        self.sealed_count.store(work.sealed.len(), Ordering::Release);
        self.changed.notify_all();
    }

    /// Takes a written front to be let go of by the thread: freeing many rows takes a while.
    pub(super) fn dispose(&self, written: Arc<Sealed>) {
        self.lock().written.push(written);
        self.changed.notify_all();
    }

    /// Waits while the disk is too far behind. Does not wait for room on a full disk: that may take for ever, and
    /// what can still arrive then is bounded by what is left of the log.
    pub(super) fn wait_for_disk(&self, sealed_max: usize, runs_max: usize) {
        let mut work = self.lock();
        while (work.sealed.len() >= sealed_max || self.runs() >= runs_max)
            && !self.full()
            && work.failed.is_none()
        {
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the node if one of the threads has failed.
    pub(super) fn check(&self) {
        if self.failed.load(Ordering::Acquire) {
            let reason = self.lock().failed.clone().unwrap_or_default();
            self.fatal(&reason);
        }
    }

    /// The store cannot go on.
    pub(super) fn fatal(&self, reason: &str) -> ! {
        (self.on_fatal)(reason);
        panic!("{reason}");
    }

    fn fail(&self, reason: String) {
        self.lock().failed.get_or_insert(reason);
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`; `None` if the thread is to end.
    fn wait<T>(&self, mut ready: impl FnMut(&mut Work) -> Option<T>) -> Option<T> {
        let mut work = self.lock();
        loop {
            if work.stop {
                return None;
            }
            if let Some(found) = ready(&mut work) {
                return Some(found);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the file system has room for `bytes`; `None` if the thread is to end.
    fn wait_for_room(&self, who: Who, bytes: u64) -> Option<()> {
        loop {
            let free = match rustix::fs::statvfs(&self.path) {
                Ok(fs) => fs.f_bavail.saturating_mul(fs.f_frsize),
                // Where it cannot be asked, writing will tell.
                Err(_) => u64::MAX,
            };
            if free >= bytes.saturating_add(self.free_bytes_min) {
                self.set_full(who, false);
                return Some(());
            }
            self.full_pause(who)?;
        }
    }

    fn full_pause(&self, who: Who) -> Option<()> {
        self.set_full(who, true);
        let work = self.lock();
        let waited = self.changed.wait_timeout_while(work, FULL_RETRY, |work| !work.stop);
        let (work, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!work.stop).then_some(())
    }

    fn set_full(&self, who: Who, full: bool) {
        if self.full[who as usize].swap(full, Ordering::AcqRel) != full {
            if full {
                tracing::warn!(path = %self.path.display(), ?who, "no room left for the store: free some space");
            } else {
                tracing::info!(path = %self.path.display(), ?who, "there is room again");
            }
            self.changed.notify_all();
        }
    }
}

/// One of the two threads.
#[derive(Debug, Clone, Copy)]
enum Who {
    Flush = 0,
    Merge = 1,
}

/// Ends the node if its thread dies by a panic.
struct Alarm {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(format!("the {} thread of the store died", self.name));
        }
    }
}

/// Starts both threads.
pub(super) fn start(tree: &Tree, shared: &Arc<Shared>, options: &Options) -> io::Result<Vec<JoinHandle<()>>> {
    let (flusher, merger, table_bytes) = (tree.clone(), tree.clone(), options.table_bytes);
    let flush = spawn("flush", shared, move |shared| write_out(&flusher, shared));
    let merge = spawn("merge", shared, move |shared| merge(&merger, table_bytes, shared));
    match (flush, merge) {
        (Ok(flush), Ok(merge)) => Ok(vec![flush, merge]),
        (Err(error), _) | (_, Err(error)) => {
            shared.stop();
            Err(error)
        }
    }
}

fn spawn(
    name: &'static str,
    shared: &Arc<Shared>,
    body: impl FnOnce(&Shared) -> Result<(), lsm_tree::Error> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    std::thread::Builder::new().name(format!("store-{name}")).spawn(move || {
        let alarm = Alarm { shared, name };
        if let Err(error) = body(&alarm.shared) {
            let reason = super::failed(&alarm.shared.path, name, &error);
            alarm.shared.fail(reason.clone());
            alarm.shared.fatal(&reason);
        }
    })
}

/// Puts the rows of sealed fronts, and the marker, into a memtable of the tree, ready to be flushed. Nobody reads them
/// there before they are durable: until then the sealed fronts hide them.
fn fill(tree: &Tree, fronts: &[Arc<Sealed>]) {
    let memtable = tree.active_memtable();
    for sealed in fronts {
        let newest = sealed.newest();
        for (key, value) in sealed.rows() {
            let row = match value {
                Some(value) => InternalValue::from_components(&key[..], &value[..], newest, ValueType::Value),
                None => InternalValue::new_tombstone(&key[..], newest),
            };
            memtable.insert(row);
        }
        let marker = newest.to_le_bytes();
        memtable.insert(InternalValue::from_components(MARKER, marker, newest, ValueType::Value));
    }
    tree.rotate_memtable();
}

fn write_out(tree: &Tree, shared: &Shared) -> Result<(), lsm_tree::Error> {
    // What is in a memtable of the tree and not flushed yet, and in how many pieces it came.
    let (mut filled, mut pieces): (Vec<Arc<Sealed>>, usize) = (Vec::new(), 0);
    loop {
        let next = shared.wait(|work| {
            let written = std::mem::take(&mut work.written);
            (!work.sealed.is_empty() || !written.is_empty()).then(|| (work.sealed.clone(), written))
        });
        let Some((sealed, written)) = next else { return Ok(()) };
        drop(written);
        if sealed.is_empty() {
            continue;
        }
        let fronts = if filled.is_empty() { sealed.iter().flatten().cloned().collect() } else { filled };
        let bytes = fronts.iter().map(|front| front.bytes()).sum();
        if shared.wait_for_room(Who::Flush, bytes).is_none() {
            return Ok(());
        }
        if pieces == 0 {
            fill(tree, &fronts);
            pieces = sealed.len();
        }
        filled = fronts;
        let result = {
            let lock = tree.get_flush_lock();
            tree.flush(&lock, KEEP_NEWEST_ONLY)
        };
        match result {
            Ok(_) => {}
            Err(error) if is_full(&error) => {
                if shared.full_pause(Who::Flush).is_none() {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        let newest = filled.last().map_or(0, |front| front.newest());
        shared.durable.fetch_max(newest, Ordering::AcqRel);
        let mut work = shared.lock();
        work.sealed.drain(..pieces);
        work.merge = true;
        shared.sealed_count.store(work.sealed.len(), Ordering::Release);
        shared.runs.store(tree.l0_run_count(), Ordering::Release);
        shared.changed.notify_all();
        drop(work);
        filled.clear();
        pieces = 0;
    }
}

fn merge(tree: &Tree, table_bytes: u64, shared: &Shared) -> Result<(), lsm_tree::Error> {
    let strategy = Arc::new(Leveled::default().with_table_target_size(table_bytes));
    while shared.wait(|work| std::mem::take(&mut work.merge).then_some(())).is_some() {
        loop {
            if shared.wait_for_room(Who::Merge, merge_bytes(tree, table_bytes)).is_none() {
                return Ok(());
            }
            let before = tree.current_version().id();
            match tree.compact(strategy.clone(), KEEP_NEWEST_ONLY) {
                Ok(()) => {}
                Err(error) if is_full(&error) => {
                    if shared.full_pause(Who::Merge).is_none() {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            // The lock makes sure that nobody who waits for fewer runs misses the change.
            let work = shared.lock();
            shared.runs.store(tree.l0_run_count(), Ordering::Release);
            shared.changed.notify_all();
            if work.stop {
                return Ok(());
            }
            drop(work);
            if tree.current_version().id() == before {
                break;
            }
        }
    }
    Ok(())
}

/// A guess at what the next merge writes; its inputs stay until the output is complete. More than a few tables are
/// rarely merged at once.
fn merge_bytes(tree: &Tree, table_bytes: u64) -> u64 {
    (tree.disk_space() / 4).min(table_bytes.saturating_mul(8))
}

fn is_full(error: &lsm_tree::Error) -> bool {
    let lsm_tree::Error::Io(error) = error else { return false };
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
