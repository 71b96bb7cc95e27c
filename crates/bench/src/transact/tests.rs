//! Transactions over scripted connections.

use bytes::Bytes;
use quorate_workload::transaction::{Seen, Write};

use super::*;

const KINDS: [&str; 2] = ["thing", "commit"];

/// Reads a key, then writes it, unless it is to do otherwise.
#[derive(Debug, Clone)]
struct Thing {
    seen: Option<Vec<Seen>>,
    last: Option<Ask>,
}

fn key() -> Bytes {
    Bytes::from_static(b"k")
}

impl Transaction for Thing {
    fn kind(&self) -> usize {
        0
    }
    fn operations(&self) -> u64 {
        2
    }
    fn is_write(&self) -> bool {
        true
    }
    fn is_guarded(&self) -> bool {
        true
    }
    fn next(&mut self) -> Ask {
        if self.seen.is_none() {
            return Ask::Read { reads: vec![Read::Value(key())], kind: None };
        }
        let commit = Ask::Commit { reads: Vec::new(), writes: vec![Write::Put { key: key(), value: key() }] };
        self.last.clone().unwrap_or(commit)
    }
    fn answered(&mut self, seen: Vec<Seen>) {
        self.seen = Some(seen);
    }
}

#[derive(Debug, Default)]
struct Things {
    last: Option<Ask>,
    ended: Vec<bool>,
}

impl Source for Things {
    type Transaction = Thing;
    fn next(&mut self, _client: usize) -> Option<Thing> {
        Some(Thing { seen: None, last: self.last.clone() })
    }
    fn ended(&mut self, _transaction: Thing, is_done: bool) {
        self.ended.push(is_done);
    }
}

const START: Start = Start { now_ns: 1_000, due_ns: 0, is_measured: true };
const OPTIMISTIC: Manner = Manner { watch: true, multi: true };
const READ: &[u8] = b"*1\r\n$1\r\n1\r\n";

/// Plays one transaction with these replies; the end, what was sent, and the player.
fn play(manner: Manner, last: Option<Ask>, replies: &[&[u8]]) -> (Option<End>, String, Transact<Things>) {
    let source = Things { last, ended: Vec::new() };
    let mut player = Transact::new(source, 1, manner, &KINDS, Arc::default());
    let mut out = Vec::new();
    assert!(player.begin(0, START, &mut out));
    let mut end = None;
    for (now_ns, reply) in (2_000..).step_by(1_000).zip(replies) {
        assert_eq!(end, None, "more replies than requests");
        if let Step::Ended { end: how, .. } = player.reply(0, reply, now_ns, &mut out) {
            end = Some(how);
        }
    }
    let words = String::from_utf8(out).unwrap();
    let words = words.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty());
    (end, words.collect::<Vec<_>>().join(" "), player)
}

const QUEUED: [&[u8]; 4] = [b"+OK\r\n", READ, b"+OK\r\n", b"+QUEUED\r\n"];

fn with(last: &'static [u8]) -> Vec<&'static [u8]> {
    QUEUED.into_iter().chain([last]).collect()
}

#[test]
fn keys_are_watched_before_they_are_read_and_writes_stand_in_a_transaction() {
    let (end, sent, player) = play(OPTIMISTIC, None, &with(b"*1\r\n+OK\r\n"));
    assert_eq!(end, Some(End::Done));
    assert_eq!(sent, "WATCH k MGET k MULTI SET k k EXEC");
    assert_eq!(player.source.ended, [true]);
    let (end, sent, _) = play(
        Manner { watch: false, multi: true },
        None,
        &[READ, b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n+OK\r\n"],
    );
    assert_eq!((end, sent.as_str()), (Some(End::Done), "MGET k MULTI SET k k EXEC"));
    let (end, sent, _) = play(Manner { watch: false, multi: false }, None, &[READ, b"+OK\r\n"]);
    assert_eq!((end, sent.as_str()), (Some(End::Done), "MGET k SET k k"));
}

#[test]
fn every_end_of_a_transaction_is_told_apart() {
    let end = |reply| play(OPTIMISTIC, None, &with(reply)).0;
    assert_eq!(end(b"*-1\r\n"), Some(End::Aborted));
    assert_eq!(end(b"$-1\r\n"), Some(End::Aborted));
    assert_eq!(end(b"-UNKNOWN the command may have been applied\r\n"), Some(End::Unknown));
    assert_eq!(end(b"-TRYAGAIN no leader; nothing was changed\r\n"), Some(End::Refused));
    assert_eq!(end(b"-EXECABORT Transaction discarded\r\n"), Some(End::Refused));
    assert_eq!(end(b"*1\r\n-WRONGTYPE a\r\n"), Some(End::Nonsense), "a command cannot fail");
    assert_eq!(end(b"+OK\r\n"), Some(End::Nonsense));
    let bare = [b"+OK\r\n".as_slice(), READ, b"-ERR no\r\n", b"+OK\r\n", b"-ERR EXEC without MULTI\r\n"];
    let (end, _, player) = play(OPTIMISTIC, None, &bare);
    assert_eq!(end, Some(End::Nonsense), "without MULTI a command has run alone");
    assert!(player.progress.surprises()[0].contains("MULTI"));
}

#[test]
fn a_refused_read_ends_it_and_nothing_stays_watched() {
    let replies = [b"+OK\r\n".as_slice(), b"-TRYAGAIN a; nothing was changed\r\n", b"+OK\r\n"];
    let (end, sent, player) = play(OPTIMISTIC, None, &replies);
    assert_eq!((end, sent.as_str()), (Some(End::Refused), "WATCH k MGET k UNWATCH"));
    assert_eq!(player.source.ended, [false]);
    let refused = b"-ERR max number of clients reached\r\n".as_slice();
    assert_eq!(play(OPTIMISTIC, None, &[refused]).0, Some(End::Refused));
}

#[test]
fn transactions_may_take_themselves_back_or_only_read() {
    let replies = [b"+OK\r\n".as_slice(), READ, b"+OK\r\n"];
    let (end, sent, player) = play(OPTIMISTIC, Some(Ask::Rollback), &replies);
    assert_eq!((end, sent.as_str()), (Some(End::Aborted), "WATCH k MGET k UNWATCH"));
    let report = serde_json::to_value(player.tally.clone().report(empty_report())).unwrap();
    assert_eq!((&report["fates"]["rolled_back"], &report["fates"]["outrun"]), (&1.into(), &0.into()));
    let unguarded = Manner { watch: false, multi: true };
    assert_eq!(play(unguarded, Some(Ask::Rollback), &[READ]).0, Some(End::Aborted));
    assert_eq!(play(unguarded, Some(Ask::Finish), &[READ]).0, Some(End::Done));
    let nothing = Ask::Commit { reads: Vec::new(), writes: Vec::new() };
    assert_eq!(play(unguarded, Some(nothing.clone()), &[READ]).0, Some(End::Done));
    // What was read must still be true, even if nothing is written.
    let replies = [b"+OK\r\n".as_slice(), READ, b"+OK\r\n", b"*-1\r\n"];
    let (end, sent, _) = play(OPTIMISTIC, Some(nothing), &replies);
    assert_eq!((end, sent.as_str()), (Some(End::Aborted), "WATCH k MGET k MULTI EXEC"));
    let impossible = Some(Ask::Impossible("there is no k".into()));
    assert_eq!(play(OPTIMISTIC, impossible, &[b"+OK\r\n", READ]).0, Some(End::Nonsense));
}

#[test]
fn a_lost_connection_leaves_only_commits_in_doubt() {
    let lost = |replies: &[&[u8]]| play(OPTIMISTIC, None, replies).2.lost(0, 9_000);
    assert_eq!(lost(&[]), Step::Ended { end: End::Refused, is_write: true });
    assert_eq!(lost(&QUEUED[..2]), Step::Ended { end: End::Unknown, is_write: true });
    assert_eq!(lost(&QUEUED), Step::Ended { end: End::Unknown, is_write: true });
}

#[test]
fn latency_counts_from_when_it_was_due_and_the_commit_from_when_it_was_sent() {
    let (_, _, player) = play(OPTIMISTIC, None, &with(b"*1\r\n+OK\r\n"));
    let report = serde_json::to_value(player.tally.clone().report(empty_report())).unwrap();
    assert_eq!(report["kinds"]["thing"]["latency"]["mean_us"], 6.0);
    assert_eq!(report["kinds"]["commit"]["latency"]["mean_us"], 3.0);
    assert_eq!(report["kinds"]["thing"]["committed"], 1);
}

fn empty_report() -> crate::report::Report {
    let machine = crate::facts::Machine::default();
    let took = std::time::Duration::from_secs(1);
    let measured = crate::report::Measured::default();
    let progress = Progress::default();
    crate::report::Report::new(serde_json::Value::Null, machine, &measured, took, &progress, None, took)
}
