mod basic;
mod crash;
mod damage;
mod fixture;
mod full;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_kernel::{ClusterId, NodeId, Position, Rng};

use super::{OpenError, Options, Recovery, Wal};
use crate::testing::MemoryFiles;

const DIR: &str = "log";

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Small segments, so that there are many.
fn options() -> Options {
    Options { segment_bytes: 8192, ..Options::new(ClusterId(7), NodeId(9)) }
}

fn try_open(files: &MemoryFiles) -> Result<(Wal, Recovery), OpenError> {
    Wal::open_on(Arc::new(files.clone()), dir(), options())
}

fn open(files: &MemoryFiles) -> (Wal, Recovery) {
    try_open(files).unwrap_or_else(|error| panic!("{error}"))
}

/// What record `position` says in all tests: its own number, and a length that is drawn from it.
fn content(position: u64) -> Vec<u8> {
    let length = Rng::new(position).below(400) as usize;
    let mut content = position.to_le_bytes().to_vec();
    content.resize(8 + length, position as u8);
    content
}

fn append(wal: &mut Wal) -> Position {
    let content = content(wal.next_position().0);
    wal.append(|mut buffer| {
        buffer.extend_from_slice(&content);
        buffer
    })
}

/// Appends, writes and syncs this many records.
fn commit(wal: &mut Wal, count: usize) -> Position {
    for _ in 0..count {
        append(wal);
    }
    wal.write().unwrap();
    wal.sync().unwrap();
    wal.synced()
}

/// All records of a recovery, checked for order and content.
fn records(recovery: Recovery) -> Vec<u64> {
    let mut next = recovery.next_position();
    recovery
        .map(|record| {
            let (position, bytes): (Position, Bytes) = record.unwrap();
            assert_eq!(position, next);
            next = position.next();
            assert_eq!(bytes, content(position.0), "record {}", position.0);
            position.0
        })
        .collect()
}

fn segments(files: &MemoryFiles) -> Vec<String> {
    use crate::files::Files;
    let names = files.list(dir()).unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).collect()
}
