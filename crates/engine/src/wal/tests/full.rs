use std::io::ErrorKind;

use super::super::Room;
use super::*;

#[test]
fn a_full_disk_shows_before_records_are_lost_and_passes() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 1);
    assert_eq!(wal.room(), Room::Enough);
    files.limit(Some(8192 + 100));
    assert_eq!(wal.prepare().unwrap(), Room::Low, "no room for a second segment");
    assert_eq!(files.used(), 8192, "nothing is left of the attempt");
    assert_eq!(commit(&mut wal, 3), Position(4), "what is reserved can be used");
    let error = loop {
        append(&mut wal);
        match wal.write() {
            Ok(()) => wal.sync().unwrap(),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), wal.poisoned()), (ErrorKind::StorageFull, None));
    let synced = wal.synced();
    assert_eq!(wal.next_position(), Position(synced.0 + 2), "one record waits");
    assert_eq!(wal.write().unwrap_err().kind(), ErrorKind::StorageFull);
    files.limit(None);
    assert_eq!(wal.prepare().unwrap(), Room::Enough);
    wal.write().unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.synced(), Position(synced.0 + 1));
    assert_eq!(records(open(&files).1).len() as u64, synced.0 + 1);
}

#[test]
fn a_node_starts_on_a_full_disk() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 3);
    files.limit(Some(files.used()));
    let (mut wal, recovery) = open(&files);
    assert_eq!(records(recovery), [1, 2, 3]);
    assert_eq!(wal.prepare().unwrap(), Room::Low);
    assert_eq!(commit(&mut wal, 1), Position(4));
}

#[test]
fn emptied_segments_make_room() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    while segments(&files).len() < 3 {
        commit(&mut wal, 1);
    }
    files.limit(Some(files.used()));
    assert_eq!(wal.prepare().unwrap(), Room::Low);
    wal.discard(wal.synced()).unwrap();
    assert_eq!(wal.prepare().unwrap(), Room::Enough);
}

#[test]
fn spares_are_prepared_in_steps_and_found_again() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    for _ in 0..4 {
        wal.prepare().unwrap();
    }
    assert_eq!(wal.stats().spares, 1);
    let used = files.used();
    drop(wal);
    let (mut wal, _) = open(&files);
    assert_eq!((wal.stats().spares, files.used()), (1, used));
    while segments(&files).len() < 2 {
        commit(&mut wal, 1);
    }
    assert_eq!((wal.stats().spares, files.used()), (0, used), "the spare became the segment");
}

#[test]
fn zeros_go_ahead_of_the_records_of_a_first_segment() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    let last = commit(&mut wal, 5);
    append(&mut wal);
    let [segment] = &segments(&files)[..] else { panic!("one segment") };
    let path = dir().join(segment);
    // Whatever stands for blocks that were never written.
    let end = files.content(&path).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    files.damage(&path, |content| content[8000..].fill(7));
    assert_eq!(wal.prepare().unwrap(), Room::Enough, "first the next segment's space");
    assert_eq!(files.content(&path).unwrap()[8000], 7);
    wal.prepare().unwrap();
    let content = files.content(&path).unwrap();
    assert!(content[end..].iter().all(|byte| *byte == 0), "no record that is staged was written over");
    wal.write().unwrap();
    wal.sync().unwrap();
    assert_eq!(records(open(&files).1).len() as u64, last.0 + 1);
}

#[test]
fn errors_are_final() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 1);
    append(&mut wal);
    wal.write().unwrap();
    files.fail(0, crate::testing::Fault::Once);
    wal.sync().unwrap_err();
    let calls = files.calls();
    append(&mut wal);
    wal.sync().unwrap_err();
    wal.write().unwrap_err();
    wal.settle().unwrap_err();
    wal.prepare().unwrap_err();
    wal.discard(Position(1)).unwrap_err();
    assert_eq!(files.calls(), calls, "the disk is not even asked");
    assert_eq!(wal.synced(), Position(1));
    assert_eq!(wal.poisoned(), Some("injected fault"));
}
