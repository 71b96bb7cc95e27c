//! A schedule in which a read of several keys of one bucket waits, while transactions on them are prepared, decided and carried out. It is played with
//! the rule that it is about (`quorate-shard`'s `reads.rs`), and, where mutants are compiled in, without.

use std::time::Duration;

use bytes::Bytes;
use quorate_api::Reply;
use quorate_commit::TransactionId;
use quorate_shard::Mutant;

use crate::alone::Stage;

fn values(values: [Option<&'static str>; 2]) -> Reply {
    let bulk =
        |value: Option<&'static str>| value.map_or(Reply::Nil, |value| Reply::Bulk(Bytes::from(value)));
    Reply::Array(values.map(bulk).into())
}

/// While a read waits for the first transaction, which is on one of its keys, the second, on the other, is prepared and decided, but nobody has said so here; the first
/// is decided after it, since elsewhere it had to wait for its locks.
fn first_follows_second(mutant: Option<Mutant>) -> (Stage, TransactionId) {
    let mut stage = Stage::new(mutant);
    let first = stage.begin(1, "x");
    stage.read(1, &["MGET", "x", "y"]);
    stage.read(2, &["GET", "x"]);
    let second = stage.begin(2, "y");
    assert!(stage.vote(second).is_some(), "it is in nobody's way");
    assert_eq!((stage.answer(1), stage.answer(2)), (None, None));
    stage.end(first);
    assert_eq!(stage.answer(2), Some(&Reply::Bulk(Bytes::from("new"))), "of one key");
    (stage, second)
}

#[test]
fn whoever_reads_several_keys_sees_what_came_before_what_is_seen() {
    let (mut stage, second) = first_follows_second(None);
    assert_eq!(stage.answer(1), None);
    stage.end(second);
    assert_eq!(stage.answer(1), Some(&values([Some("new"), Some("new")])));
}

#[cfg(feature = "mutants")]
#[test]
fn without_the_rule_the_second_of_two_is_seen_alone() {
    let (stage, _) = first_follows_second(Some(Mutant::SeveralReadApart));
    assert_eq!(stage.answer(1), Some(&values([Some("new"), None])));
}

/// Or a stream of transactions would keep it waiting for ever.
#[test]
fn what_comes_later_does_not_get_past_a_read_that_has_waited_twice() {
    let (mut stage, second) = first_follows_second(None);
    let third = stage.begin(u64::MAX / 2, "x");
    assert!(stage.vote(third).is_none(), "it waits for the read");
    stage.end(second);
    assert!(stage.answer(1).is_some());
    assert!(stage.vote(third).is_some());
    stage.end(third);
    stage.read(3, &["MGET", "x", "y"]);
    assert!(stage.answer(3).is_some(), "nobody has a place any more");
}

/// Or what is stuck on one key would spread to others by those who read both.
#[test]
fn whoever_waits_for_long_is_in_nobodys_way() {
    let (mut stage, second) = first_follows_second(None);
    let third = stage.begin(u64::MAX / 2, "x");
    assert!(stage.vote(third).is_none());
    stage.0.run_for(Duration::from_secs(5));
    assert!(stage.vote(third).is_some(), "nobody says what became of the second");
    stage.end(second);
    assert_eq!(stage.answer(1), None);
    stage.end(third);
    assert_eq!(stage.answer(1), Some(&values([Some("new"), Some("new")])));
}
