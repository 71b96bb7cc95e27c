//! Any bytes as the files of a log: opening it never panics, takes no more memory than the files have, and serves
//! nothing that was not appended.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use quorate_engine::testing::MemoryFiles;
use quorate_engine::wal::{Options, Wal};
use quorate_kernel::{ClusterId, NodeId, Position};

const DIR: &str = "log";

fn options() -> Options {
    Options { segment_bytes: 8192, ..Options::new(ClusterId(1), NodeId(2)) }
}

fn content(position: u64) -> Vec<u8> {
    vec![position as u8; (position * 37 % 300) as usize]
}

/// A sound log of four segments.
fn sound() -> MemoryFiles {
    let files = MemoryFiles::new();
    let (mut wal, _) = Wal::open_on(Arc::new(files.clone()), Path::new(DIR), options()).expect("new");
    for position in 1..=80_u64 {
        wal.append(|mut buffer| {
            buffer.extend(content(position));
            buffer
        });
        wal.write().expect("memory");
        if position % 3 == 0 {
            wal.sync().expect("memory");
        }
    }
    files
}

fn open(files: &MemoryFiles, genuine: bool) {
    let Ok((mut wal, recovery)) = Wal::open_on(Arc::new(files.clone()), Path::new(DIR), options()) else { return };
    for record in recovery {
        let (position, bytes) = record.expect("recovery found it sound");
        assert!(!genuine || bytes == content(position.0), "record {} is not what was appended", position.0);
    }
    let next = wal.next_position();
    wal.append(|buffer| buffer);
    wal.write().expect("memory");
    wal.sync().expect("memory");
    wal.settle().expect("memory");
    wal.discard(next).expect("memory");
    drop(wal);
    let (wal, _) = Wal::open_on(Arc::new(files.clone()), Path::new(DIR), options()).expect("it was sound");
    assert_eq!(wal.next_position(), Position(next.0 + 1));
}

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else { return };
    match mode % 3 {
        // Whole files of anything.
        0 => {
            let files = MemoryFiles::new();
            for (number, content) in rest.chunks(6000).enumerate() {
                files.put(&Path::new(DIR).join(format!("{:016x}.log", number + 1)), content);
            }
            open(&files, false);
        }
        // Anything behind a sound beginning.
        1 => {
            let files = sound();
            let start = 4096 + usize::from(*mode) * 16;
            files.damage(&Path::new(DIR).join("0000000000000004.log"), |content| {
                for (place, byte) in content[start..].iter_mut().zip(rest) {
                    *place = *byte;
                }
            });
            open(&files, true);
        }
        // Some bytes changed.
        _ => {
            let files = sound();
            for edit in rest.chunks_exact(4) {
                let name = format!("{:016x}.log", edit[0] % 5 + 1);
                let at = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % 8192;
                if files.content(&Path::new(DIR).join(&name)).is_some() {
                    files.damage(&Path::new(DIR).join(&name), |content| content[at] ^= edit[3]);
                }
            }
            open(&files, true);
        }
    }
});
