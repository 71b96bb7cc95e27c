//! A file system in memory that fails on request and shows what a power loss would leave.
//!
//! For tests of the log and of whoever owns one. It keeps the contract of [`crate::files`] and no more: what was not
//! synced may survive in any combination of sectors and names, and after a failed sync the bytes it should have
//! written are forgotten for ever, as some systems do.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_kernel::Rng;

use crate::files::{BLOCK_BYTES, File, Files, SECTOR_BYTES};

type InodeId = u64;
type Names = BTreeMap<PathBuf, InodeId>;

#[derive(Debug, Clone, Default)]
struct Inode {
    /// What a reader sees.
    live: Vec<u8>,
    /// What is surely on disk.
    durable: Vec<u8>,
    /// Sectors in which the two differ and which the system may write any time.
    pending: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Set(PathBuf, InodeId),
    Rename(PathBuf, PathBuf, InodeId),
    Remove(PathBuf),
}

/// How calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This call and all later ones fail with an input/output error; a write may have written a part.
    Dead,
    /// This call alone fails with an input/output error; a write may have written a part.
    Once,
}

#[derive(Debug, Clone, Default)]
struct State {
    inodes: BTreeMap<InodeId, Inode>,
    names: Names,
    durable_names: Names,
    changes: Vec<NameChange>,
    created: InodeId,
    calls: u64,
    syncs: u64,
    fault: Option<(u64, Fault)>,
    capacity: Option<u64>,
}

/// What is left after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process died and the system lives on: everything it was given is there, and what was not on disk still
    /// is not.
    Live,
    /// The power failed, and only what had been synced survived.
    Durable,
    /// The power failed, and of what had not been synced a random subset of sectors and names survived.
    Torn,
}

/// The file system. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles {
    state: Arc<Mutex<State>>,
}

impl MemoryFiles {
    /// An empty file system.
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// A file system with the content that is left after a crash, and no faults.
    #[must_use]
    pub fn after(&self, crash: Crash, rng: &mut Rng) -> MemoryFiles {
        let mut state = self.lock().clone();
        (state.fault, state.capacity, state.calls, state.syncs) = (None, None, 0, 0);
        if crash == Crash::Live {
            return MemoryFiles { state: Arc::new(Mutex::new(state)) };
        }
        for inode in state.inodes.values_mut() {
            inode.live = if crash == Crash::Torn { inode.torn(rng) } else { inode.durable.clone() };
            inode.durable.clone_from(&inode.live);
            inode.pending.clear();
        }
        state.names = state.durable_names.clone();
        for change in std::mem::take(&mut state.changes) {
            if crash == Crash::Torn && rng.chance(1, 2) {
                change.apply(&mut state.names);
            }
        }
        state.durable_names.clone_from(&state.names);
        MemoryFiles { state: Arc::new(Mutex::new(state)) }
    }

    /// From now on, the `nth` call (0 is the next one) fails.
    pub fn fail(&self, nth: u64, fault: Fault) {
        let mut state = self.lock();
        state.fault = Some((state.calls + nth, fault));
    }

    /// No more than this many bytes fit; `None`: as many as there is memory.
    pub fn limit(&self, capacity: Option<u64>) {
        self.lock().capacity = capacity;
    }

    /// Calls so far, of any kind that can fail.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Bytes of all files that have a name.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// The content of a file, if there is one.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        let inode = state.names.get(path)?;
        state.inodes.get(inode).map(|inode| inode.live.clone())
    }

    /// Puts a file there, on disk.
    pub fn put(&self, path: &Path, content: &[u8]) {
        let mut state = self.lock();
        state.created += 1;
        let id = state.created;
        let inode = Inode { live: content.to_vec(), durable: content.to_vec(), pending: BTreeSet::new() };
        state.inodes.insert(id, inode);
        state.names.insert(path.to_owned(), id);
        state.durable_names.insert(path.to_owned(), id);
    }

    /// Damages a file in place, as a disk would.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let id = state.names.get(path).copied().unwrap_or_default();
        let Some(inode) = state.inodes.get_mut(&id) else { panic!("no file {}", path.display()) };
        change(&mut inode.live);
        inode.durable.clone_from(&inode.live);
        inode.pending.clear();
    }

    /// Writes a sector of one file over a sector of another, as a disk with a misdirected write would.
    ///
    /// # Panics
    /// If either sector does not exist.
    pub fn misdirect(&self, from: (&Path, usize), to: (&Path, usize)) {
        let Some(source) = self.content(from.0) else { panic!("no file {}", from.0.display()) };
        let sector = source[from.1 * SECTOR_BYTES..][..SECTOR_BYTES].to_vec();
        self.damage(to.0, |content| content[to.1 * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(&sector));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, id: InodeId) -> Arc<dyn File> {
        Arc::new(MemoryFile { state: self.state.clone(), id })
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Set(path, id) => {
                names.insert(path.clone(), *id);
            }
            NameChange::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

impl Inode {
    fn touch(&mut self, start: usize, end: usize) {
        self.pending.extend(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    /// These sectors are on the disk now.
    fn settle(&mut self, sectors: BTreeSet<usize>) {
        let Inode { live, durable, pending } = self;
        durable.resize(live.len(), 0);
        for sector in sectors {
            let start = (sector * SECTOR_BYTES).min(live.len());
            let end = (start + SECTOR_BYTES).min(live.len());
            durable[start..end].copy_from_slice(&live[start..end]);
            pending.remove(&sector);
        }
    }

    fn torn(&self, rng: &mut Rng) -> Vec<u8> {
        let mut image = self.durable.clone();
        if rng.chance(1, 2) {
            image.resize(self.live.len().max(image.len()), 0);
        }
        for sector in &self.pending {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.live.len()).min(image.len());
            if start < end && rng.chance(1, 2) {
                image[start..end].copy_from_slice(&self.live[start..end]);
            }
        }
        image
    }
}

impl State {
    /// Counts a call; fails it if it is its turn.
    fn call(&mut self) -> io::Result<()> {
        let this = self.calls;
        self.calls += 1;
        let fails = self.fault.is_some_and(|(at, fault)| match fault {
            Fault::Dead => this >= at,
            Fault::Once => this == at,
        });
        if fails { Err(io::Error::other("injected fault")) } else { Ok(()) }
    }

    fn used(&self) -> u64 {
        let named = self.names.values().filter_map(|id| self.inodes.get(id));
        named.map(|inode| inode.live.len() as u64).sum()
    }

    fn grow(&mut self, id: InodeId, bytes: usize) -> io::Result<()> {
        let now = self.inodes.get(&id).map_or(0, |inode| inode.live.len());
        let added = bytes.saturating_sub(now) as u64;
        if added > 0 && self.capacity.is_some_and(|capacity| self.used() + added > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(inode) = self.inodes.get_mut(&id)
            && bytes > now
        {
            inode.live.resize(bytes, 0);
        }
        Ok(())
    }

    fn id(&self, path: &Path) -> io::Result<InodeId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }
}

impl Files for MemoryFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.call()?;
        let id = state.id(path)?;
        drop(state);
        Ok(self.file(id))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.call()?;
        state.created += 1;
        let id = state.created;
        state.inodes.insert(id, Inode::default());
        state.change(NameChange::Set(path.to_owned(), id));
        drop(state);
        Ok(self.file(id))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.call()?;
        let id = state.id(from)?;
        state.change(NameChange::Rename(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.call()?;
        state.id(path)?;
        state.change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.call()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.lock().call()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.call()?;
        let (settled, left) = std::mem::take(&mut state.changes).into_iter().partition(|change| {
            let (NameChange::Set(path, _) | NameChange::Rename(_, path, _) | NameChange::Remove(path)) =
                change;
            path.parent() == Some(dir)
        });
        let settled: Vec<NameChange> = settled;
        state.changes = left;
        for change in &settled {
            change.apply(&mut state.durable_names);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    state: Arc<Mutex<State>>,
    id: InodeId,
}

impl MemoryFile {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for MemoryFile {
    fn bytes(&self) -> io::Result<u64> {
        let mut state = self.lock();
        state.call()?;
        Ok(state.inodes.get(&self.id).map_or(0, |inode| inode.live.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        state.call()?;
        let Some(inode) = state.inodes.get(&self.id) else { return Ok(0) };
        let start = usize::try_from(offset).map_or(inode.live.len(), |offset| offset.min(inode.live.len()));
        let read = buffer.len().min(inode.live.len() - start);
        buffer[..read].copy_from_slice(&inode.live[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let called = state.call();
        // A write that fails leaves a part behind.
        let bytes = if called.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + bytes.len();
        state.grow(self.id, end)?;
        if let Some(inode) = state.inodes.get_mut(&self.id) {
            inode.live[start..end].copy_from_slice(bytes);
            inode.touch(start, end);
        }
        called
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        // The rest of the last block is zeros, unless it is the first as well.
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + bytes.len();
        let rest = if start / BLOCK_BYTES < end.saturating_sub(1) / BLOCK_BYTES {
            end.next_multiple_of(BLOCK_BYTES) - end
        } else {
            0
        };
        let mut whole = bytes.to_vec();
        whole.resize(bytes.len() + rest, 0);
        self.write_at(offset, &whole)?;
        if let Some(inode) = self.lock().inodes.get_mut(&self.id) {
            let sectors = start / SECTOR_BYTES..(end + rest).div_ceil(SECTOR_BYTES);
            inode.settle(sectors.filter(|sector| inode.pending.contains(sector)).collect());
        }
        Ok(true)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.call()?;
        state.grow(self.id, usize::try_from(bytes).map_err(io::Error::other)?)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.syncs += 1;
        let called = state.call();
        if let Some(inode) = state.inodes.get_mut(&self.id) {
            if called.is_ok() {
                inode.settle(inode.pending.clone());
            } else {
                inode.pending.clear();
            }
        }
        called
    }
}
