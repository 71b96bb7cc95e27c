//! The disk: nothing leaves before its records are durable; slow, full and broken disks; restarts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{Disk, command, start, until, wish};
use quorate_host::RunError;
use quorate_host::config::Durability;

#[test]
fn answers_wait_for_the_sync_and_reads_go_on_beside_it() {
    let mut wish = wish();
    // Always beside the loop: inline, a stopped disk would stop everything, as it should.
    wish.config.durable.inline_us_max = 0;
    let disk = wish.disk.clone();
    let node = start(wish).expect("started");
    let (mut writer, mut reader) = (node.client(), node.client());
    writer.send("SET a 0\r\n");
    writer.expect("+OK\r\n");
    disk.control.stop(true);
    writer.send("SET a 1\r\n");
    until("a sync waits", || disk.control.waiting.load(Ordering::SeqCst) > 0);
    for _ in 0..100 {
        reader.send("GET a\r\n");
        reader.expect("$1\r\n1\r\n");
    }
    writer.expect_silence();
    disk.control.stop(false);
    writer.expect("+OK\r\n");
    assert!(node.stats().sync_beside);
}

#[test]
fn syncs_move_beside_the_loop_on_a_slow_disk_and_back() {
    let mut wish = wish();
    wish.config.durable.inline_us_max = 2_000;
    let disk = wish.disk.clone();
    let node = start(wish).expect("started");
    let mut client = node.client();
    assert!(!node.stats().sync_beside);
    disk.control.delay_us.store(6_000, Ordering::SeqCst);
    until("syncs run beside", || {
        client.send("SET a 1\r\n");
        client.expect("+OK\r\n");
        node.stats().sync_beside
    });
    disk.control.delay_us.store(0, Ordering::SeqCst);
    until("syncs run inline again", || {
        client.send("SET a 1\r\n");
        client.expect("+OK\r\n");
        !node.stats().sync_beside
    });
}

#[test]
fn a_broken_disk_ends_the_node_without_an_answer() {
    for inline_us_max in [0, 1_000_000] {
        let mut wish = wish();
        wish.config.durable.inline_us_max = inline_us_max;
        let disk = wish.disk.clone();
        let mut node = start(wish).expect("started");
        let mut client = node.client();
        client.send("SET a 1\r\n");
        client.expect("+OK\r\n");
        disk.control.fail.store(true, Ordering::SeqCst);
        client.send("SET a 2\r\n");
        assert_eq!(client.rest(), "");
        let error = node.join().expect_err("the disk is broken");
        assert!(matches!(error, RunError::Disk { .. }));
        assert_eq!(error.exit_code(), 74);
        assert!(error.to_string().contains("the disk is broken"), "{error}");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let disk = Disk::default();
    for round in 0..3 {
        let mut wish = wish();
        wish.disk = disk.clone();
        let node = start(wish).expect("started");
        let mut client = node.client();
        for earlier in 0..round {
            client.send(format!("GET k{earlier}\r\n"));
            client.expect(format!("$1\r\n{earlier}\r\n"));
        }
        let writes: Vec<u8> =
            (0..2_000).flat_map(|_| command(&["SET", "filler", &"f".repeat(100)])).collect();
        client.send(&writes);
        client.expect("+OK\r\n".repeat(2_000));
        client.send(format!("SET k{round} {round}\r\n"));
        client.expect("+OK\r\n");
        node.stop().expect("an orderly end");
    }
}

#[test]
fn a_disk_without_room_refuses_writes_until_there_is_room() {
    let wish = wish();
    let free = Arc::clone(&wish.free);
    let reserve = wish.config.durable.reserve_bytes.0;
    let node = start(wish).expect("started");
    let mut client = node.client();
    free.store(reserve - 1, Ordering::SeqCst);
    until("the node has noticed", || node.stats().disk_full);
    client.send("SET a 1\r\nGET a\r\n");
    client.expect("-NOSPACE the disk is full, nothing was changed\r\n$-1\r\n");
    free.store(reserve * 2, Ordering::SeqCst);
    until("the node has noticed", || !node.stats().disk_full);
    client.send("SET a 1\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_write_that_finds_the_disk_full_waits_for_room() {
    let wish = wish();
    let disk = wish.disk.clone();
    let node = start(wish).expect("started");
    let mut client = node.client();
    disk.files.limit(Some(disk.files.used()));
    let value = "v".repeat(1_000);
    let writes: Vec<u8> = (0..200).flat_map(|_| command(&["SET", "a", &value])).collect();
    client.send(&writes);
    until("the log is blocked", || node.stats().disk_full);
    disk.files.limit(None);
    until("there is room", || !node.stats().disk_full);
    client.send("PING\r\n");
    let mut text = String::new();
    while !text.contains("+PONG") {
        let mut bytes = [0; 4_096];
        let count = std::io::Read::read(&mut client.stream, &mut bytes).expect("answers");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    let (done, refused) = (text.matches("+OK").count(), text.matches("-NOSPACE").count());
    assert_eq!(done + refused, 200, "each is either done or refused");
}

#[test]
fn memory_and_interval_answer_without_a_sync() {
    for mode in [Durability::Memory, Durability::Interval] {
        let mut wish = wish();
        wish.config.durable.mode = mode;
        wish.config.durable.interval_ms = 3_600_000;
        wish.config.durable.inline_us_max = 0;
        let disk = wish.disk.clone();
        let node = start(wish).expect("started");
        let mut client = node.client();
        client.send("SET a 1\r\nGET a\r\n");
        client.expect("+OK\r\n$1\r\n1\r\n");
        if mode == Durability::Memory {
            assert_eq!(disk.files.syncs(), 0);
        }
        node.stop().expect("an orderly end");
    }
}
