use std::time::Duration;

use super::super::{Durability, Room};
use super::*;

#[test]
fn what_was_synced_comes_back_in_order() {
    let files = MemoryFiles::new();
    let (mut wal, recovery) = open(&files);
    assert_eq!((records(recovery), wal.next_position()), (vec![], Position(1)));
    assert_eq!(append(&mut wal), Position(1));
    assert_eq!(append(&mut wal), Position(2));
    assert_eq!((wal.synced(), wal.durable()), (Position(0), Position(0)));
    wal.write().unwrap();
    assert_eq!(wal.durable(), Position(0));
    wal.sync().unwrap();
    assert_eq!((wal.synced(), wal.durable()), (Position(2), Position(2)));
    drop(wal);
    let (mut wal, recovery) = open(&files);
    assert!(!recovery.torn());
    assert_eq!((recovery.last_position(), records(recovery)), (Position(2), vec![1, 2]));
    assert_eq!(commit(&mut wal, 3), Position(5));
    assert_eq!(records(open(&files).1), [1, 2, 3, 4, 5]);
}

#[test]
fn one_write_and_one_sync_a_turn() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 1);
    let (calls, syncs) = (files.calls(), files.syncs());
    commit(&mut wal, 10);
    assert_eq!((files.calls() - calls, files.syncs() - syncs), (2, 1));
    wal.sync().unwrap();
    wal.write().unwrap();
    assert_eq!(files.calls() - calls, 2, "nothing to do costs nothing");
}

#[test]
fn segments_follow_each_other_and_are_discarded_whole() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    while segments(&files).len() < 5 {
        commit(&mut wal, 3);
    }
    let last = wal.synced().0;
    let (_, recovery) = open(&files);
    assert_eq!(records(recovery), (1..=last).collect::<Vec<_>>());
    wal.discard(Position(1)).unwrap();
    assert_eq!(segments(&files).len(), 5, "nothing lies before the first record");
    wal.discard(Position(last)).unwrap();
    let (wal, recovery) = open(&files);
    let first = recovery.next_position().0;
    assert!(1 < first && first <= last, "{first}");
    assert_eq!(records(recovery), (first..=last).collect::<Vec<_>>());
    assert_eq!(wal.next_position(), Position(last + 1));
}

#[test]
fn even_with_all_discarded_the_numbers_go_on() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    commit(&mut wal, 100);
    wal.discard(Position(u64::MAX)).unwrap();
    assert_eq!(segments(&files).len(), 1);
    assert_eq!(commit(&mut wal, 1), Position(101));
    let (wal, recovery) = open(&files);
    assert_eq!(recovery.last_position(), Position(101));
    assert_eq!(wal.next_position(), Position(102));
}

#[test]
fn emptied_segments_are_used_again_and_their_remains_ignored() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    for _ in 0..300 {
        let synced = commit(&mut wal, 1);
        wal.discard(Position(synced.0.saturating_sub(50))).unwrap();
    }
    assert!(wal.stats().recycled > 3, "{:?}", wal.stats());
    assert!(files.used() <= 8192 * 8, "{}", files.used());
    let (_, recovery) = open(&files);
    assert!(!recovery.torn());
    assert_eq!(recovery.last_position(), Position(300));
    let records = records(recovery);
    assert!(records.len() >= 50 && *records.last().unwrap() == 300);
}

#[test]
fn a_record_larger_than_a_segment_gets_its_own() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    let large = vec![7; 30_000];
    for size in [10, 30_000, 10, 4072, 4073, 4096] {
        wal.append(|mut buffer| {
            buffer.extend_from_slice(&large[..size]);
            buffer
        });
    }
    assert!(wal.staged_bytes() > 38_000);
    wal.write().unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.staged_bytes(), 0);
    let sizes: Vec<usize> = open(&files).1.map(|record| record.unwrap().1.len()).collect();
    assert_eq!(sizes, [10, 30_000, 10, 4072, 4073, 4096]);
}

#[test]
fn a_sync_may_be_carried_out_elsewhere() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    append(&mut wal);
    wal.write().unwrap();
    let task = wal.start_sync().unwrap().unwrap();
    append(&mut wal);
    wal.write().unwrap();
    let done = std::thread::spawn(|| task.run()).join().unwrap();
    assert_eq!(wal.synced(), Position(0), "not before the result is back");
    wal.finish_sync(done).unwrap();
    assert_eq!(wal.synced(), Position(1));
    let task = wal.start_sync().unwrap().unwrap();
    assert!(wal.start_sync().unwrap().is_none(), "nothing new to sync");
    wal.sync().unwrap();
    assert_eq!(wal.synced(), Position(2), "a sync in the loop does not rely on one elsewhere");
    wal.finish_sync(task.run()).unwrap();
    assert_eq!(wal.synced(), Position(2));
}

#[test]
fn in_memory_nothing_is_written() {
    let files = MemoryFiles::new();
    let options = Options { durability: Durability::Memory, ..options() };
    let (mut wal, recovery) = Wal::open_on(Arc::new(files.clone()), dir(), options).unwrap();
    assert_eq!(recovery.count(), 0);
    assert_eq!((append(&mut wal), wal.durable()), (Position(1), Position(1)));
    wal.write().unwrap();
    wal.sync().unwrap();
    wal.settle().unwrap();
    wal.discard(Position(2)).unwrap();
    assert_eq!((wal.prepare().unwrap(), files.calls()), (Room::Enough, 0));
}

#[test]
fn with_an_interval_what_is_written_counts() {
    let files = MemoryFiles::new();
    let options = Options { durability: Durability::Interval(Duration::from_millis(100)), ..options() };
    let (mut wal, _) = Wal::open_on(Arc::new(files.clone()), dir(), options).unwrap();
    append(&mut wal);
    assert_eq!(wal.durable(), Position(0));
    wal.write().unwrap();
    assert_eq!((wal.durable(), wal.synced()), (Position(1), Position(0)));
    wal.sync().unwrap();
    assert_eq!(wal.synced(), Position(1));
}

#[test]
fn the_machine_s_own_file_system_does_as_the_model() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("log");
    let open = || Wal::open(&path, options()).unwrap();
    let (mut wal, _) = open();
    for _ in 0..60 {
        let synced = commit(&mut wal, 3);
        wal.discard(Position(synced.0.saturating_sub(50))).unwrap();
        wal.prepare().unwrap();
    }
    wal.settle().unwrap();
    drop(wal);
    let (mut wal, recovery) = open();
    assert_eq!(recovery.last_position(), Position(180));
    assert!(records(recovery).len() >= 50);
    commit(&mut wal, 1);
    drop(wal);
    assert_eq!(open().1.last_position(), Position(181));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let options = Options { segment_bytes: 5000, ..options() };
    let error = Wal::open_on(Arc::new(MemoryFiles::new()), dir(), options).unwrap_err();
    assert!(error.to_string().contains("segment_bytes is 5000"), "{error}");
}

#[test]
fn what_is_written_durably_needs_no_sync() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    wal.write_durably(true);
    let syncs = files.syncs();
    let last = append(&mut wal);
    wal.write().unwrap();
    assert_eq!((wal.synced(), wal.durable(), wal.stats().syncs), (last, last, 1));
    assert!(wal.start_sync().unwrap().is_none(), "nothing is left to sync");
    assert_eq!(files.syncs(), syncs);
    // Behind something that is on its way only, it waits for that.
    wal.write_durably(false);
    append(&mut wal);
    wal.write().unwrap();
    wal.write_durably(true);
    append(&mut wal);
    wal.write().unwrap();
    assert_eq!(wal.synced(), last);
    wal.sync().unwrap();
    assert_eq!(wal.synced(), Position(last.0 + 2));
}
