//! The real file system.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::direct::Direct;
use super::{File, Files};

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(DiskFile::shared(OpenOptions::new().read(true).write(true).open(path)?, path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(DiskFile::shared(file, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::File::open(dir)?.sync_all()
    }
}

#[derive(Debug)]
struct DiskFile {
    file: std::fs::File,
    direct: Mutex<Option<Direct>>,
}

impl DiskFile {
    fn shared(file: std::fs::File, path: &Path) -> Arc<dyn File> {
        Arc::new(DiskFile { file, direct: Mutex::new(Direct::open(path)) })
    }

    fn direct(&self) -> MutexGuard<'_, Option<Direct>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for DiskFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = &mut *self.direct() {
            direct.forget(offset, bytes.len() as u64);
        }
        self.file.write_all_at(bytes, offset)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let mut direct = self.direct();
        if let Some(writer) = &mut *direct {
            let read = |at, block: &mut [u8]| self.file.read_exact_at(block, at);
            match writer.write(offset, bytes, read) {
                // Some file systems say so only now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => *direct = None,
                other => return other.map(|()| true),
            }
        }
        self.file.write_all_at(bytes, offset).map(|()| false)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // File systems without the call: the space cannot be reserved, so a full disk is found out by writing.
            Err(Errno::OPNOTSUPP) if self.bytes()? < bytes => self.file.set_len(bytes),
            Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
