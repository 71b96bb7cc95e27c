//! Damage at rest: found wherever something on disk shows that it is damage, and never served.

use super::super::frame::{FRAME_BYTES, HEADER_BYTES, Header};
use super::*;

fn corrupt(files: &MemoryFiles, what: &str) -> (String, u64, Position) {
    match try_open(files) {
        Err(OpenError::Corrupt { segment, offset, position, .. }) => (segment, offset, position),
        Err(other) => panic!("{what}: {other}"),
        Ok((_, recovery)) => panic!("{what}: opened with {:?}", records(recovery)),
    }
}

fn copy(files: &MemoryFiles) -> MemoryFiles {
    files.after(crate::testing::Crash::Durable, &mut Rng::new(0))
}

/// Three batches in one segment, then a mark; bytes used in the segment.
fn three_batches(settle: bool) -> (MemoryFiles, usize) {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 2);
    commit(&mut wal, 1);
    commit(&mut wal, 2);
    if settle {
        wal.settle().unwrap();
    }
    let content = files.content(&dir().join(&segments(&files)[0])).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (files, used)
}

#[test]
fn every_byte_of_every_synced_record() {
    let (good, used) = three_batches(true);
    let path = dir().join(&segments(&good)[0]);
    let records_end = used.next_multiple_of(8) - FRAME_BYTES;
    for at in 0..records_end {
        let files = copy(&good);
        files.damage(&path, |content| content[at] ^= 1 << (at % 8));
        let (segment, offset, _) = corrupt(&files, &format!("byte {at}"));
        assert_eq!(segment, segments(&good)[0]);
        assert!(offset <= at as u64, "byte {at}: reported at {offset}");
    }
}

#[test]
fn the_mark_itself_may_be_damaged_without_harm() {
    let (good, used) = three_batches(true);
    let path = dir().join(&segments(&good)[0]);
    let mark = used.next_multiple_of(8) - FRAME_BYTES;
    for at in mark..mark + FRAME_BYTES {
        let files = copy(&good);
        files.damage(&path, |content| content[at] ^= 1 << (at % 8));
        assert_eq!(records(open(&files).1), [1, 2, 3, 4, 5], "byte {at}");
    }
}

#[test]
fn a_damaged_mark_hides_nothing_behind_it() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 1);
    wal.settle().unwrap();
    commit(&mut wal, 1);
    let path = dir().join(&segments(&files)[0]);
    let mark = HEADER_BYTES + (FRAME_BYTES + content(1).len()).next_multiple_of(8);
    files.damage(&path, |content| content[mark + 9] ^= 1);
    let (_, offset, position) = corrupt(&files, "record 2 is intact behind a damaged mark");
    assert_eq!((offset, position), (mark as u64, Position(2)));
}

/// Without a mark the newest batch may have been torn, as far as the disk tells; all before it is proven.
#[test]
fn without_a_mark_only_the_newest_batch_is_open_to_doubt() {
    let (good, used) = three_batches(false);
    let path = dir().join(&segments(&good)[0]);
    let batch = (FRAME_BYTES + content(4).len()).next_multiple_of(8)
        + (FRAME_BYTES + content(5).len()).next_multiple_of(8);
    let newest = used.next_multiple_of(8) - batch;
    for at in HEADER_BYTES..used {
        let files = copy(&good);
        files.damage(&path, |content| content[at] ^= 0x40);
        if at < newest {
            corrupt(&files, &format!("byte {at}"));
        } else {
            let (wal, recovery) = open(&files);
            assert!(
                recovery.last_position() >= Position(3) && recovery.last_position() < Position(5),
                "byte {at}"
            );
            assert_eq!(wal.next_position(), recovery.last_position().next());
        }
    }
}

fn many_segments() -> MemoryFiles {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    while segments(&files).len() < 4 {
        commit(&mut wal, 5);
    }
    wal.settle().unwrap();
    files
}

#[test]
fn a_missing_zeroed_cut_or_foreign_segment() {
    let good = many_segments();
    let names = segments(&good);
    for (index, name) in names.iter().enumerate() {
        let path = dir().join(name);
        let zeroed = copy(&good);
        zeroed.damage(&path, |content| content.fill(0));
        corrupt(&zeroed, "zeroed");
        let body = copy(&good);
        body.damage(&path, |content| content[HEADER_BYTES..].fill(0));
        if let (true, Some(newest)) = (index + 1 < names.len(), names.last()) {
            corrupt(&body, "body zeroed");
            body.damage(&dir().join(newest), |content| content[HEADER_BYTES..].fill(0));
            corrupt(&body, "body zeroed, and nothing in the newest segment");
        }
        let cut = copy(&good);
        cut.damage(&path, |content| content.truncate(6000));
        corrupt(&cut, "cut");
        let swapped = copy(&good);
        let other = good.content(&dir().join(&names[(index + 1) % names.len()])).unwrap();
        swapped.damage(&path, |content| *content = other);
        corrupt(&swapped, "another segment's content");
    }
    let gap = copy(&good);
    crate::files::Files::remove(&gap, &dir().join(&names[1])).unwrap();
    corrupt(&gap, "a gap");
}

#[test]
fn misdirected_writes() {
    let good = many_segments();
    let names = segments(&good);
    for from in 0..4 {
        for to in 0..3 {
            for (source, target) in [(0, 0), (8, 9), (10, 8), (9, 9), (8, 0)] {
                if (from, source) == (to, target) {
                    continue;
                }
                let files = copy(&good);
                files.misdirect((&dir().join(&names[from]), source), (&dir().join(&names[to]), target));
                corrupt(&files, &format!("sector {source} of {from} over {target} of {to}"));
            }
        }
    }
}

#[test]
fn a_lost_log_is_no_new_one() {
    let options = Options { existing: true, ..options() };
    let error = Wal::open_on(Arc::new(MemoryFiles::new()), dir(), options).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
}

#[test]
fn another_node_s_log_is_refused() {
    let files = many_segments();
    let other = Options { segment_bytes: 8192, ..Options::new(ClusterId(7), NodeId(8)) };
    let error = Wal::open_on(Arc::new(files.clone()), dir(), other).unwrap_err();
    assert!(error.to_string().contains("belongs to node 9"), "{error}");
    open(&files);
}

#[test]
fn a_newer_log_is_refused_with_what_to_do() {
    let files = many_segments();
    let name = &segments(&files)[2];
    files.damage(&dir().join(name), |content| {
        content[8] = 2;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&content[..12]);
        hasher.update(&content[16..HEADER_BYTES]);
        content[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
        assert!(Header::decode(content).is_err());
    });
    let error = try_open(&files).unwrap_err();
    assert!(error.to_string().contains("has log format 2; this program reads formats up to 1"), "{error}");
}

#[test]
fn a_refused_log_is_left_as_it_was() {
    let (files, _) = three_batches(true);
    let path = dir().join(&segments(&files)[0]);
    files.damage(&path, |content| content[HEADER_BYTES + 30] ^= 1);
    let before = files.content(&path);
    corrupt(&files, "damaged");
    corrupt(&files, "still damaged");
    assert_eq!(files.content(&path), before);
}

#[test]
fn foreign_files_are_let_alone() {
    let files = many_segments();
    files.put(&dir().join("lost+found"), b"x");
    files.put(&dir().join("1.log"), b"x");
    open(&files);
    assert_eq!(files.content(&dir().join("1.log")).as_deref(), Some(&b"x"[..]));
}
