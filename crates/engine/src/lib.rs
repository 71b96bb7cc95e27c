//! What a node keeps on its disk: the log of records ([`wal`]), the materialised state behind the machines
//! ([`lsm`]), and the directory that holds both ([`data_dir`]).
//!
//! This crate knows no protocol: a record is bytes with a position, a row is a key and a value. It never decides what
//! a failing disk means for the cluster; it makes sure that the node does not go on as if nothing had happened.
//! `docs/decisions/0004-log-and-store-on-disk.md` says why it is built this way.
//!
//! # Glossary
//! - *record*: what a machine must find again after a restart; bytes here.
//! - *segment*: a file of the log; begins with a header, holds frames.
//! - *frame*: a record with its length, position and checksum.
//! - *mark*: a frame without a record that says up to where everything had been synced.
//! - *torn*: what a crash leaves of records that were on their way to the disk. *Damaged*: what must not happen to
//!   records that were on it.
//! - *spare*: a segment without records, prepared ahead or emptied.

pub mod data_dir;
pub mod files;

pub mod lsm;
pub mod testing;
pub mod wal;

/// The exit code of a process whose disk failed it: `EX_IOERR` of `sysexits`.
pub const EXIT_DISK: i32 = 74;
