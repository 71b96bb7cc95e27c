//! Why a node did not start, or ended: each with words that say what to do, and an exit code.

use std::io;

use quorate_engine::data_dir::DataDirError;
use quorate_engine::wal::OpenError;
use thiserror::Error;

use crate::config::ConfigError;

/// Why a node did not start. Nothing was changed, unless the text says so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataDirError),
    /// The data directory says of itself what this program does not understand.
    #[error(
        "{}: its first members do not decode: it was made by a newer version of this program; start that one", path.display()
    )]
    Meta {
        /// The directory.
        path: std::path::PathBuf,
    },
    /// The cluster was founded with another number of buckets than is asked for.
    #[error(
        "{}: this node's cluster has {kept} buckets, which cannot be changed, but cluster.buckets asks for {asked}: take \
         that setting (or --buckets) away, or found another cluster in an empty directory", path.display()
    )]
    Buckets {
        /// The directory.
        path: std::path::PathBuf,
        /// What it says.
        kept: u16,
        /// What the configuration says.
        asked: u16,
    },
    /// The cluster was founded without groups.
    #[error(
        "{}: this node's cluster was founded without groups, but cluster.topology asks for a ring of them: take that setting (or \
         --topology) away, or begin again with empty data directories", path.display()
    )]
    Topology {
        /// The data directory.
        path: std::path::PathBuf,
    },
    /// The cluster was founded with another number of copies than is asked for.
    #[error(
        "{}: this node's cluster was founded with {kept} copies of each bucket (0: all nodes hold everything), but cluster.copies \
         asks for {asked}: take that setting (or --copies) away; `quorate copies` changes the number while the cluster runs, unless its nodes form groups", path.display()
    )]
    Copies {
        /// The directory.
        path: std::path::PathBuf,
        /// What it says.
        kept: u8,
        /// What the configuration says.
        asked: u8,
    },
    /// All nodes hold everything, and this machine was to run several of them.
    #[error(
        "cluster.cores = {cores}, but all nodes of this cluster hold everything, so that one on each machine is enough: take that \
         setting (or --cores) away, or found a cluster whose nodes share the keys out (--topology ring, or --copies)"
    )]
    Cores {
        /// What the configuration says.
        cores: u16,
    },
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The store cannot be used.
    #[error(
        "the store in the data directory cannot be opened: {0}. If it is damaged, remove the node from the cluster, \
         move its data directory away, and start it again with an empty one: it joins as a new node"
    )]
    Store(#[from] quorate_engine::lsm::OpenError),
    /// A record of the log does not decode.
    #[error(
        "record {position} of the log does not decode: it was written by a newer version of this program, or is \
         damaged in a way its checksum cannot show; start the version that wrote it, or start this node afresh with \
         an empty data directory and let the others copy to it"
    )]
    Record {
        /// Which record.
        position: u64,
    },
    /// A door's address is taken.
    #[error(
        "the {door} door cannot listen on {address}: another process does; stop that one, or set listen.{door} to \
         another port"
    )]
    InUse {
        /// `client`, `cluster`, `peer` or `admin`.
        door: &'static str,
        /// The address.
        address: String,
    },
    /// A door cannot be opened for another reason.
    #[error("the {door} door cannot listen on {address}: {reason}; check listen.{door}")]
    Listen {
        /// `client`, `cluster`, `peer` or `admin`.
        door: &'static str,
        /// The address.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The operating system refuses something the node cannot do without.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl StartError {
    /// The exit code of the process, after `sysexits.h` where it has one.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(_)
            | StartError::Buckets { .. }
            | StartError::Copies { .. }
            | StartError::Cores { .. }
            | StartError::Topology { .. } => 78,
            StartError::Data(DataDirError::InUse { .. }) => 73,
            StartError::Data(_)
            | StartError::Meta { .. }
            | StartError::Log(_)
            | StartError::Store(_)
            | StartError::Record { .. } => 74,
            StartError::InUse { .. } => 69,
            StartError::Listen { .. } | StartError::System { .. } => 71,
        }
    }
}

/// Why a running node ended other than by being asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The disk failed. What was not durable has not been acknowledged; the other nodes go on.
    #[error(
        "the disk failed while {doing}: {source}; this node has stopped without acknowledging what was not on disk. \
         Check the disk, then start it again: it recovers from its log and the other nodes"
    )]
    Disk {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Waiting for events failed.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl RunError {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Disk { .. } => 74,
            RunError::System { .. } => 71,
        }
    }
}

/// Why a process that runs nodes ended other than by being asked.
#[derive(Debug, Error)]
pub enum HostError {
    /// A node did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A node ended.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl HostError {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            HostError::Start(error) => error.exit_code(),
            HostError::Run(error) => error.exit_code(),
        }
    }
}
