//! Writing past the system's cache, and waiting until it is on the disk.
//!
//! A write into the cache and a sync are two calls, and two steps for the file system, each under locks of its own; a direct write that is as durable needs
//! neither the copy nor the search for what is dirty. Where two logs share a disk, a record is there a fifth sooner (decision 0006).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::BLOCK_BYTES;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// A buffer that grew beyond this for one large write is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A file opened so that writes pass the cache. The system wants whole blocks, in memory that begins at a block's border.
#[derive(Debug)]
pub(super) struct Direct {
    file: File,
    buffer: Vec<u8>,
    /// The block in which the last write ended, so that the next one need not read it.
    tail: Option<(u64, Vec<u8>)>,
}

impl Direct {
    /// `None` where the file system knows no such thing. Writes return when the disk has the bytes, as a sync of the data would.
    pub(super) fn open(path: &Path) -> Option<Direct> {
        let flags = (OFlags::DIRECT | OFlags::DSYNC).bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        Some(Direct { file, buffer: Vec::new(), tail: None })
    }

    /// Something else writes there.
    pub(super) fn forget(&mut self, offset: u64, bytes: u64) {
        if self.tail.as_ref().is_some_and(|(at, _)| offset < at + BLOCK && *at < offset + bytes) {
            self.tail = None;
        }
    }

    /// Writes all of `bytes`; `read` fetches a block that is there already.
    pub(super) fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        read: impl FnOnce(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let start = offset / BLOCK * BLOCK;
        let before = (offset - start) as usize;
        let length = (before + bytes.len()).next_multiple_of(BLOCK_BYTES);
        self.buffer.resize(length + BLOCK_BYTES, 0);
        let border = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        let blocks = &mut self.buffer[border..border + length];
        let (first, _) = blocks.split_at_mut(BLOCK_BYTES);
        match self.tail.take() {
            Some((at, tail)) if at == start => first.copy_from_slice(&tail),
            _ if before > 0 => read(start, first)?,
            _ => first.fill(0),
        }
        // What is behind is known in the first block alone.
        if length > BLOCK_BYTES {
            blocks[length - BLOCK_BYTES..].fill(0);
        }
        blocks[before..before + bytes.len()].copy_from_slice(bytes);
        self.file.write_all_at(blocks, start)?;
        self.tail = Some((start + (length - BLOCK_BYTES) as u64, blocks[length - BLOCK_BYTES..].to_vec()));
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quorate_kernel::Rng;

    use super::super::{Disk, Files, read};

    /// Records as the log writes them: from front to back, of any size, through the cache and past it in turns, with zeros laid ahead now
    /// and then. What was written is there, for this handle and for whoever opens the file anew.
    #[test]
    fn what_is_written_past_the_cache_is_what_is_read() {
        const BYTES: usize = 256 << 10;
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let path = dir.path().join(format!("{seed}"));
            let file = Disk.create(&path).unwrap();
            file.allocate(BYTES as u64).unwrap();
            let mut model = vec![0; BYTES];
            // What an earlier use left behind.
            file.write_at(0, &vec![7; BYTES]).unwrap();
            let (mut at, mut next) = (rng.below(9000) as usize, 1_u8);
            model[..at].fill(7);
            while at < BYTES {
                let most = if rng.chance(1, 5) { 20_000 } else { 300 };
                let length = (1 + rng.below(most) as usize).min(BYTES - at);
                let bytes = vec![next; length];
                model[at..at + length].fill(next);
                if rng.chance(1, 4) {
                    file.write_at(at as u64, &bytes).unwrap();
                } else {
                    file.write_durably(at as u64, &bytes).unwrap();
                }
                (at, next) = (at + length, next.wrapping_add(1));
                if rng.chance(1, 6) {
                    let zeros = vec![0; (BYTES - at).min(rng.below(9000) as usize)];
                    file.write_at(at as u64, &zeros).unwrap();
                }
                if rng.chance(1, 3) {
                    file.sync().unwrap();
                }
                if rng.chance(1, 8) {
                    let found = read(&*Disk.open(&path).unwrap(), BYTES as u64).unwrap();
                    assert!(found[..at] == model[..at], "seed {seed} at {at}");
                }
            }
            assert!(read(&*file, BYTES as u64).unwrap() == model, "seed {seed}");
        }
    }
}
