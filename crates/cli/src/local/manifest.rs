//! The file that says which nodes a local cluster has, where they listen and which processes they are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use quorate_host::Shape;
use quorate_kernel::{ClusterId, NodeId};
use quorate_node::{Endpoints, Topology};
use serde::{Deserialize, Serialize};

use super::process::ProcessId;
use crate::exit::{self, failure};

/// The newest format of the file.
const FORMAT: u32 = 1;
const FILE: &str = "cluster.json";

/// One node of a local cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalNode {
    /// The node; ids are never used again.
    pub(crate) id: NodeId,
    /// Where it listens.
    pub(crate) endpoints: Endpoints,
    /// Whether it joined after the cluster had begun.
    pub(crate) joins: bool,
    /// The network namespace that its process runs in, if not in that of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Its process, if it was started and not yet seen to have ended.
    pub(crate) process: Option<ProcessId>,
}

impl LocalNode {
    /// Whether its process runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessId::is_alive)
    }
}

/// What is remembered of a local cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// The cluster.
    pub(crate) cluster: ClusterId,
    /// Client port of node 1; 0 if the system chose all ports.
    pub(crate) base_port: u16,
    /// How many buckets it has; one, if it was made before there could be more.
    #[serde(default = "one")]
    pub(crate) buckets: u16,
    /// How many nodes hold each; 0: all.
    #[serde(default)]
    pub(crate) copies: u8,
    /// Who decides which nodes hold which.
    #[serde(default)]
    pub(crate) topology: Topology,
    /// The id the next node gets.
    pub(crate) next_id: u64,
    /// What each node's `start` gets besides its addresses.
    pub(crate) arguments: Vec<String>,
    /// Whether nodes keep nothing on disk, so that none can come back as itself.
    pub(crate) volatile: bool,
    /// The nodes the cluster began with.
    pub(crate) founders: Vec<(NodeId, Endpoints)>,
    /// The nodes it has.
    pub(crate) nodes: Vec<LocalNode>,
}

fn one() -> u16 {
    1
}

impl Manifest {
    /// A cluster without nodes.
    pub(crate) fn new(cluster: ClusterId, base_port: u16, arguments: Vec<String>) -> Manifest {
        Manifest {
            format: FORMAT,
            cluster,
            base_port,
            buckets: one(),
            copies: 0,
            topology: Topology::View,
            next_id: 1,
            arguments,
            volatile: false,
            founders: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// What the cluster is made of.
    pub(crate) fn found(&mut self, Shape { buckets, copies, topology }: Shape) {
        (self.buckets, self.copies, self.topology) = (buckets, copies, topology);
    }

    /// The node with this id.
    ///
    /// # Errors
    /// If there is none; says which there are.
    pub(crate) fn node(&mut self, id: u64) -> Result<&mut LocalNode> {
        let known: Vec<String> = self.nodes.iter().map(|node| node.id.to_string()).collect();
        self.nodes.iter_mut().find(|node| node.id.0 == id).ok_or_else(|| {
            failure(
                exit::USAGE,
                format!("there is no node {id} in this local cluster; there are {}", known.join(", ")),
            )
        })
    }
}

/// A local cluster's directory, held so that no other program changes it meanwhile.
#[derive(Debug)]
pub(crate) struct Held {
    dir: PathBuf,
    _lock: File,
}

impl Held {
    /// Waits until nobody else changes the cluster.
    ///
    /// # Errors
    /// If the directory cannot be created or locked.
    pub(crate) fn lock(dir: &Path) -> Result<Held> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let path = dir.join("cluster.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Held { dir: dir.to_owned(), _lock: lock })
    }

    /// What is remembered; `None` if nothing.
    ///
    /// # Errors
    /// See [`read`].
    pub(crate) fn read(&self) -> Result<Option<Manifest>> {
        read(&self.dir)
    }

    /// Remembers; a crash leaves the old or the new.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, manifest: &Manifest) -> Result<()> {
        let (path, fresh) = (self.dir.join(FILE), self.dir.join("cluster.json.new"));
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().with_context(|| format!("cannot write {}; the cluster's nodes run on", path.display()))
    }
}

/// What is remembered of the cluster in `dir`; `None` if there is none.
///
/// # Errors
/// If the file is not readable or not understood.
pub(crate) fn read(dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let advice = "repair it, or use another --data directory; nothing was changed";
    let manifest: Manifest = serde_json::from_str(&text)
        .with_context(|| format!("{} does not describe a local cluster: {advice}", path.display()))?;
    if manifest.format != FORMAT {
        let text = format!(
            "{} has format {}, this program knows {FORMAT}: use the version that wrote it",
            path.display(),
            manifest.format
        );
        return Err(failure(exit::USAGE, text));
    }
    Ok(Some(manifest))
}

/// What is remembered of the cluster in `dir`, which must exist.
///
/// # Errors
/// See [`read`]; also if there is no cluster.
pub(crate) fn expect(dir: &Path) -> Result<Manifest> {
    read(dir)?.ok_or_else(|| {
        let text = format!(
            "there is no local cluster in {}: start one with `quorate up`, or name its directory with --data",
            dir.display()
        );
        failure(exit::USAGE, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(read(temp.path()).unwrap(), None);
        assert!(expect(temp.path()).unwrap_err().to_string().contains("quorate up"));
        let held = Held::lock(temp.path()).unwrap();
        let mut manifest = Manifest::new(ClusterId(7), 6379, vec!["--set".into(), "a.b=c".into()]);
        manifest.nodes.push(LocalNode {
            id: NodeId(1),
            endpoints: Endpoints::default(),
            joins: false,
            namespace: None,
            process: ProcessId::of(std::process::id()),
        });
        held.write(&manifest).unwrap();
        assert_eq!(held.read().unwrap().as_ref(), Some(&manifest));
        assert!(manifest.node(1).unwrap().is_alive());
        let error = manifest.node(9).unwrap_err().to_string();
        assert!(error.contains("no node 9") && error.contains("there are 1"), "{error}");
    }

    #[test]
    fn what_is_not_a_manifest_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(FILE);
        for text in ["", "{}", "[1]"] {
            fs::write(&path, text).unwrap();
            assert!(format!("{:#}", read(temp.path()).unwrap_err()).contains("nothing was changed"));
        }
        let newer = Manifest { format: 2, ..Manifest::new(ClusterId(1), 1, Vec::new()) };
        fs::write(&path, serde_json::to_string(&newer).unwrap()).unwrap();
        assert!(read(temp.path()).unwrap_err().to_string().contains("has format 2"));
    }
}
