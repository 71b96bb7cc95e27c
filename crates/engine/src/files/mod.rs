//! The few things the log asks of a file system, as a seam: the real one is [`Disk`], a faulty one that lives in
//! memory is [`crate::testing::MemoryFiles`].
//!
//! Contract, for both: bytes written are on disk after [`File::sync`] of that file returned, a name created, renamed
//! or removed is settled after [`Files::sync_dir`] of its directory returned, and before that any part of it may or
//! may not survive a power loss. Sectors of [`SECTOR_BYTES`] are written whole or not at all.

mod direct;
mod disk;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use disk::Disk;

/// The unit that a disk writes whole or not at all. The log relies on it: a sector that holds synced bytes may be
/// written again with the same bytes and more behind them.
pub const SECTOR_BYTES: usize = 512;

/// What passes the system's cache is written in whole blocks of this size.
pub const BLOCK_BYTES: usize = 4096;

/// A file system, as far as the log needs one.
pub trait Files: fmt::Debug + Send + Sync {
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// As the system says.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file for reading and writing, in place of any of that name.
    ///
    /// # Errors
    /// As the system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Renames a file, in place of any of the new name.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, in order.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a directory with its parents, unless it exists.
    ///
    /// # Errors
    /// As the system says.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Settles the names in a directory.
    ///
    /// # Errors
    /// As the system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file. May be used from several threads at once.
pub trait File: fmt::Debug + Send + Sync {
    /// Its length.
    ///
    /// # Errors
    /// As the system says.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As the system says; some of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// As [`File::write_at`], but where the file system allows that, the call waits until the bytes are on the disk: it
    /// returns whether they are, and else [`File::sync`] is needed. What was written by [`File::write_at`] is not waited for.
    /// For files whose length is a multiple of [`BLOCK_BYTES`], written from front to back: what stood behind `bytes` in their
    /// last block may be zeros afterwards.
    ///
    /// # Errors
    /// As the system says; some of the bytes may have been written.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<bool>;

    /// Makes the file at least this long and reserves the space, so that writing there later cannot find the disk
    /// full. New bytes read as zero.
    ///
    /// # Errors
    /// `StorageFull` if there is no room, else as the system says.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Brings what was written, and the length, to the disk. After an error nothing is known about what is on the
    /// disk, and asking again may falsely succeed: never do.
    ///
    /// # Errors
    /// As the system says.
    fn sync(&self) -> io::Result<()>;
}

/// Reads a file from its start, but no more than this many bytes.
///
/// # Errors
/// As the system says.
pub fn read(file: &dyn File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = file.bytes()?.min(bytes_max);
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut at = 0;
    while at < buffer.len() {
        match file.read_at(at as u64, &mut buffer[at..])? {
            0 => break,
            read => at += read,
        }
    }
    buffer.truncate(at);
    Ok(buffer)
}
