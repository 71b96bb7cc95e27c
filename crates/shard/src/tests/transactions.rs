//! EXEC: all commands at one instant, or none.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, CommandCode, Reply, Request, Version};
use quorate_commit::{Entry, LogId, Outcome, TransactionId};
use quorate_kernel::{NodeId, Position};
use quorate_replog::{self as replog, Replog};

use super::{Bench, command, request};
use crate::machine::{Out, Shard};
use crate::sessions::Limits;

fn exec(bench: &mut Bench, watched: &[(&str, i64)], commands: &[&[&str]]) -> Reply {
    let watched = watched
        .iter()
        .map(|(key, version)| (Bytes::copy_from_slice(key.as_bytes()), Version(version.unsigned_abs())));
    let commands = commands.iter().map(|words| command(words)).collect();
    bench.apply(&[Request::Transaction { watched: watched.collect(), commands }]).remove(0)
}

#[test]
fn versions_grow_over_removal_and_creation() {
    let mut bench = Bench::new();
    assert_eq!(bench.version("a"), 0);
    let mut last = 0;
    for words in [
        &["SET", "a", "1"][..],
        &["SET", "a", "1"],
        &["PEXPIRE", "a", "100"],
        &["DEL", "a"],
        &["SET", "a", "1"],
        &["RENAME", "a", "b"],
        &["RPUSH", "a", "x"],
        &["RPUSH", "a", "y"],
        &["LPOP", "a"],
        &["FLUSHALL"],
        &["SET", "a", "1"],
    ] {
        bench.run(words);
        let version = bench.version("a");
        assert!(version > last, "{words:?}: {version} after {last}");
        last = version;
    }
    bench.run(&["GET", "a"]);
    bench.run(&["SET", "other", "1"]);
    assert_eq!(bench.version("a"), last, "reading, and other keys, change nothing");
}

#[test]
fn what_was_watched_must_be_as_it_was() {
    let mut bench = Bench::new();
    let absent = bench.version("a");
    bench.run(&["SET", "a", "1"]);
    assert_eq!(exec(&mut bench, &[("a", absent)], &[&["SET", "a", "2"]]), Reply::NilArray);
    bench.run(&["DEL", "a"]);
    assert_eq!(
        exec(&mut bench, &[("a", absent)], &[&["SET", "a", "2"]]),
        Reply::NilArray,
        "it came and went"
    );
    let version = bench.version("a");
    assert_eq!(exec(&mut bench, &[("a", version)], &[&["SET", "a", "3"]]), Reply::Array([Reply::Ok].into()));
    assert_eq!(exec(&mut bench, &[("a", version)], &[&["SET", "a", "4"]]), Reply::NilArray);
    assert_eq!(bench.run(&["GET", "a"]), Reply::bulk("3"));
}

#[test]
fn a_watched_key_that_expired_has_changed() {
    let mut bench = Bench::new();
    bench.run(&["SET", "a", "1", "PX", "10"]);
    let version = bench.version("a");
    bench.now_ms += 10;
    assert_eq!(exec(&mut bench, &[("a", version)], &[&["SET", "a", "2"]]), Reply::NilArray);
}

#[test]
fn a_command_that_fails_does_not_undo_the_others() {
    let mut bench = Bench::new();
    let reply = exec(&mut bench, &[], &[&["SET", "a", "x"], &["INCRBY", "a", "1"], &["APPEND", "a", "y"]]);
    let Reply::Array(items) = reply else { panic!("{reply:?}") };
    assert!(matches!(items[..], [Reply::Ok, Reply::Error(_), Reply::Int(2)]), "{items:?}");
    assert_eq!(bench.run(&["GET", "a"]), Reply::bulk("xy"));
}

#[test]
fn a_command_of_a_newer_program_changes_nothing() {
    let mut bench = Bench::new();
    let unknown = Command { code: CommandCode(60_000), args: [Bytes::from_static(b"a")].into() };
    let reply = bench.apply(&[Request::One(unknown)]).remove(0);
    assert!(matches!(&reply, Reply::Error(error) if error.0.contains("upgrade")), "{reply:?}");
    let short = Command { args: [].into(), ..command(&["GET", "a"]) };
    assert!(matches!(bench.apply(&[Request::One(short)]).remove(0), Reply::Error(_)));
    assert_eq!((bench.row_count(), bench.state.versions), (0, 0));
}

#[test]
fn a_request_with_too_long_an_answer_changes_nothing() {
    let mut bench = Bench::new();
    bench.limits.reply_bytes_max = 300;
    let long = "v".repeat(100);
    bench.run(&["RPUSH", "list", &long, &long, &long]);
    let reads = [&["GETRANGE", "long", "0", "-1"][..]; 4];
    let writes = [&["SET", "key", "1"][..], &["DEL", "list"], &["LPUSH", "list", "x"], &["FLUSHALL"]];
    let commands = reads.into_iter().chain(writes).map(command).collect();
    let transaction = Request::Transaction { watched: [].into(), commands };
    bench.run(&["SET", "long", &long]);
    for request in [request(&["LPOP", "list", "3"]), request(&["LRANGE", "list", "0", "-1"]), transaction] {
        let (state, rows) = (bench.state, bench.rows());
        let reply = bench.apply(&[request]).remove(0);
        assert!(
            matches!(&reply, Reply::Error(error) if error.0.contains("nothing was changed")),
            "{reply:?}"
        );
        assert_eq!((bench.state, bench.rows()), (state, rows));
    }
    assert!(matches!(bench.run(&["LPOP", "list", "2"]), Reply::Array(items) if items.len() == 2));
}

/// What goes into the log together must fit a message between nodes.
#[test]
fn entries_of_transactions_are_logged_in_bounded_parts() {
    let log = Replog::new(NodeId(1), replog::Config::tiny(), Vec::new());
    let mut shard = Shard::new(log, Limits::tiny());
    for (sequence, bytes) in (1..).zip([100, 150, 100, 1_000, 10, 10]) {
        let id = TransactionId { age: 1, origin: 1, sequence };
        let outcome = Outcome::Committed(Bytes::from(alloc::vec![0; bytes]));
        let entry = Entry::Global { id, coordinator: LogId(0), logs: Vec::new(), outcome };
        shard.transactions.entries.push_back(entry);
    }
    let mut out = Out::new(Position::default());
    let mut next = || shard.next_entries(&mut out).len();
    assert_eq!([next(), next(), next(), next(), next()], [2, 1, 1, 2, 0], "300 bytes at once, or one entry");
}
