//! The data directory of a node: who holds it, whose it is, and what format it has.
//!
//! | name | what |
//! |---|---|
//! | `lock` | locked while a process uses the directory |
//! | `meta` | [`Meta`], replaced as a whole |
//! | `log/` | the log of records |
//! | `store/` | the materialised state |

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quorate_kernel::frame;
use quorate_kernel::{ClusterId, NodeId, wire};
use serde::{Deserialize, Serialize};

/// The newest format of the directory that this program reads, and the one it writes.
///
/// - 1: the first.
/// - 2: the number of buckets, and of copies of each; where they are missing, a cluster has one bucket, which all have.
/// - 3: the topology; where it is missing, there are no groups.
/// - 4: votes and decisions of transactions say a reply once, and not those that can be found again.
pub const FORMAT_VERSION: u16 = 4;

/// The kind of the one frame that the file `meta` holds.
const META_KIND: u16 = 1;

/// Far above any list of members.
const META_BYTES_MAX: usize = 16 << 20;

/// Whose the directory is and how it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The cluster the node belongs to.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// Whether the log has been created. If it is gone afterwards, the node has lost its memory.
    pub started: bool,
    /// What the node was told when it was made (its first members); this crate does not look inside.
    pub bootstrap: Vec<u8>,
    /// How many buckets the cluster has; 0 as long as the node has not joined one.
    pub buckets: u16,
    /// How many nodes hold each; 0: all.
    pub copies: u8,
    /// Whether groups of nodes hold them.
    pub ring: bool,
}

/// [`Meta`] as format 2 had it: there were no groups.
#[derive(Deserialize)]
struct MetaV2 {
    cluster: ClusterId,
    node: NodeId,
    started: bool,
    bootstrap: Vec<u8>,
    buckets: u16,
    copies: u8,
}

impl From<MetaV2> for Meta {
    fn from(MetaV2 { cluster, node, started, bootstrap, buckets, copies }: MetaV2) -> Meta {
        Meta { cluster, node, started, bootstrap, buckets, copies, ring: false }
    }
}

/// [`Meta`] as format 1 had it: every cluster had one bucket.
#[derive(Deserialize)]
struct MetaV1 {
    cluster: ClusterId,
    node: NodeId,
    started: bool,
    bootstrap: Vec<u8>,
}

impl From<MetaV1> for Meta {
    fn from(MetaV1 { cluster, node, started, bootstrap }: MetaV1) -> Meta {
        let buckets = u16::from(cluster != ClusterId(0));
        Meta { cluster, node, started, bootstrap, buckets, copies: 0, ring: false }
    }
}

/// Why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process uses it.
    #[error(
        "the data directory {path} is in use by another process: stop that one first, or give this node a \
         directory of its own"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A newer program wrote it.
    #[error(
        "the data directory {path} has format {version}; this program reads formats up to {FORMAT_VERSION}: start \
         the newer program that wrote it"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format it has.
        version: u16,
    },
    /// The file that says whose the directory is cannot be read.
    #[error(
        "{path} is damaged, so it is unknown which node this directory belongs to: move the directory away, remove \
         the node from the cluster, and start it with an empty one, so that it joins as a new node"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// There is data, but the file that says whose it is has gone.
    #[error(
        "{path} holds data of a node, but its file `meta` is missing: put the file back, or move the directory away \
         and start the node with an empty one, so that it joins as a new node"
    )]
    MetaMissing {
        /// The directory.
        path: PathBuf,
    },
}

/// A data directory, locked for as long as this value lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    meta: Option<Meta>,
    is_older: bool,
    _lock: File,
}

impl DataDir {
    /// Opens a data directory, or creates an empty one, and locks it.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn open(path: &Path) -> Result<DataDir, DataDirError> {
        let failed = |action| move |source| DataDirError::Io { action, path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(failed("create"))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(failed("create a lock in"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataDirError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let mut dir = DataDir { path: path.to_owned(), meta: None, is_older: false, _lock: lock };
        if let Some((meta, version)) = dir.read_meta()? {
            (dir.meta, dir.is_older) = (Some(meta), version < FORMAT_VERSION);
        }
        if dir.meta.is_none() && (dir.holds_files(&dir.log()) || dir.holds_files(&dir.store())) {
            return Err(DataDirError::MetaMissing { path: path.to_owned() });
        }
        Ok(dir)
    }

    /// Whose it is; `None` for a new one.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// Whether an older program wrote it last, in a format that this one reads. Before anything of today's format goes into it,
    /// [`DataDir::set_meta`] has to say so.
    pub fn is_older(&self) -> bool {
        self.is_older
    }

    /// Says whose it is, on disk when this returns. Either the old or the new [`Meta`] survives a crash.
    ///
    /// # Errors
    /// [`DataDirError::Io`]; after a failed sync the process must stop.
    pub fn set_meta(&mut self, meta: Meta) -> Result<(), DataDirError> {
        let path = self.path.join("meta");
        let fresh = self.path.join("meta.new");
        let mut bytes = Vec::new();
        frame::append(&mut bytes, FORMAT_VERSION, META_KIND, |buffer| wire::encode_after(&meta, buffer));
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &path)?;
            File::open(&self.path)?.sync_all()?;
            // The directory itself may be new as well.
            match self.path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
                _ => Ok(()),
            }
        };
        write().map_err(|source| DataDirError::Io { action: "write", path: path.clone(), source })?;
        (self.meta, self.is_older) = (Some(meta), false);
        Ok(())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the log belongs.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Where the materialised state belongs.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    fn read_meta(&self) -> Result<Option<(Meta, u16)>, DataDirError> {
        let path = self.path.join("meta");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DataDirError::Io { action: "read", path, source }),
        };
        let damaged = || DataDirError::Damaged { path: path.clone() };
        // The checksum is looked at first: a damaged version is damage, not a newer program.
        let cut = frame::cut(&bytes, u16::MAX, META_BYTES_MAX).map_err(|_| damaged())?.ok_or_else(damaged)?;
        if cut.version > FORMAT_VERSION {
            return Err(DataDirError::Newer { path: self.path.clone(), version: cut.version });
        }
        if cut.kind != META_KIND || cut.bytes != bytes.len() {
            return Err(damaged());
        }
        let meta = match cut.version {
            1 => wire::decode::<MetaV1>(cut.payload).map(Meta::from),
            2 => wire::decode::<MetaV2>(cut.payload).map(Meta::from),
            _ => wire::decode::<Meta>(cut.payload),
        };
        meta.map(|meta| Some((meta, cut.version))).map_err(|_| damaged())
    }

    fn holds_files(&self, dir: &Path) -> bool {
        std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        let bootstrap = b"members".to_vec();
        let (cluster, node) = (ClusterId(1), NodeId(2));
        Meta { cluster, node, started: false, bootstrap, buckets: 300, copies: 4, ring: false }
    }

    #[test]
    fn says_again_whose_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let mut dir = DataDir::open(&path).unwrap();
        assert_eq!(dir.meta(), None);
        dir.set_meta(meta()).unwrap();
        dir.set_meta(Meta { started: true, ..meta() }).unwrap();
        drop(dir);
        let dir = DataDir::open(&path).unwrap();
        assert_eq!(dir.meta(), Some(&Meta { started: true, ..meta() }));
    }

    #[test]
    fn only_one_may_hold_it() {
        let temp = tempfile::tempdir().unwrap();
        let held = DataDir::open(temp.path()).unwrap();
        let error = DataDir::open(temp.path()).unwrap_err();
        assert!(error.to_string().contains("in use by another process"), "{error}");
        drop(held);
        DataDir::open(temp.path()).unwrap();
    }

    #[test]
    fn golden_bytes_and_every_damage_is_found() {
        let temp = tempfile::tempdir().unwrap();
        DataDir::open(temp.path()).unwrap().set_meta(meta()).unwrap();
        let path = temp.path().join("meta");
        let good = std::fs::read(&path).unwrap();
        assert_eq!(good[..4], [15, 0, 0, 0]);
        assert_eq!(good[8..], *b"\x04\0\x01\0\x01\x02\0\x07members\xac\x02\x04\0");
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            let error = DataDir::open(temp.path()).unwrap_err();
            assert!(matches!(error, DataDirError::Damaged { .. }), "byte {at}: {error}");
            std::fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(DataDir::open(temp.path()).unwrap_err(), DataDirError::Damaged { .. }));
        }
        std::fs::write(&path, good).unwrap();
        DataDir::open(temp.path()).unwrap();
    }

    #[test]
    fn a_directory_of_format_1_has_one_bucket_once_it_has_a_cluster() {
        let temp = tempfile::tempdir().unwrap();
        for (cluster, buckets) in [(0, 0), (1, 1)] {
            let old = [&[cluster], &b"\x02\0\x07members"[..]].concat();
            let mut bytes = Vec::new();
            frame::append(&mut bytes, 1, META_KIND, |mut buffer| {
                buffer.extend_from_slice(&old);
                buffer
            });
            std::fs::write(temp.path().join("meta"), bytes).unwrap();
            let dir = DataDir::open(temp.path()).unwrap();
            assert_eq!(
                dir.meta(),
                Some(&Meta { cluster: ClusterId(cluster.into()), buckets, copies: 0, ..meta() })
            );
        }
    }

    #[test]
    fn a_directory_of_format_2_has_no_groups() {
        let temp = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        frame::append(&mut bytes, 2, META_KIND, |mut buffer| {
            buffer.extend_from_slice(b"\x01\x02\0\x07members\xac\x02\x04");
            buffer
        });
        std::fs::write(temp.path().join("meta"), bytes).unwrap();
        let mut dir = DataDir::open(temp.path()).unwrap();
        assert_eq!((dir.meta(), dir.is_older()), (Some(&meta()), true));
        dir.set_meta(meta()).unwrap();
        drop(dir);
        assert!(!DataDir::open(temp.path()).unwrap().is_older(), "an older program would be told");
    }

    #[test]
    fn a_newer_format_and_a_missing_meta_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        frame::append(&mut bytes, FORMAT_VERSION + 1, META_KIND, |buffer| buffer);
        std::fs::write(temp.path().join("meta"), bytes).unwrap();
        let error = DataDir::open(temp.path()).unwrap_err();
        assert!(error.to_string().contains("start the newer program"), "{error}");
        std::fs::remove_file(temp.path().join("meta")).unwrap();
        DataDir::open(temp.path()).unwrap();
        std::fs::create_dir_all(temp.path().join("log")).unwrap();
        std::fs::write(temp.path().join("log/x"), b"x").unwrap();
        assert!(matches!(DataDir::open(temp.path()).unwrap_err(), DataDirError::MetaMissing { .. }));
    }
}
