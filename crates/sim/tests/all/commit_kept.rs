//! Schedules of votes that the log which decides keeps to itself until the decision.

use quorate_commit::{Config, LogId, Message, TransactionId, Word};
use quorate_sim::commit::{Stage, Ways};

const L1: LogId = LogId(1);
const L2: LogId = LogId(2);
const L3: LogId = LogId(3);
const ALL: [LogId; 3] = [L1, L2, L3];
const YOUNG: TransactionId = TransactionId { age: 10, origin: 1, sequence: 1 };
const OLD: TransactionId = TransactionId { age: 5, origin: 2, sequence: 1 };

fn is_vote(message: &Message) -> bool {
    matches!(message.word, Word::Vote { .. })
}

/// The younger one has its locks everywhere; what others vote is on the wire.
fn kept(version: Option<u64>) -> Stage {
    let ways = Ways { stays: true, hands_over: false };
    let mut stage = Stage::new(3, Config { live_max: 20, ..Config::tiny() }, ways);
    for log in ALL {
        stage.request(log, YOUNG, &ALL, &[1], version);
    }
    stage.choose_all();
    stage
}

#[test]
fn it_comes_into_the_log_with_the_decision() {
    let mut stage = kept(Some(0));
    assert_eq!(stage.standings(YOUNG), ".pp");
    while stage.deliver(|_, _, message| is_vote(message)) {}
    assert!(stage.told.is_empty(), "decided, and not logged");
    assert!(stage.choose(L1));
    assert_eq!(stage.standings(YOUNG), "+pp");
    assert!(stage.told.iter().any(|(id, outcome)| *id == YOUNG && outcome.is_commit()));
    assert!(!stage.choose(L1), "one entry");
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "+++");
}

#[test]
fn it_dies_with_its_primary_and_so_does_its_transaction() {
    let mut stage = kept(Some(0));
    let votes = stage.take(|_, _, message| is_vote(message));
    stage.crash(L1);
    stage.put_back(votes);
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---");
    assert_eq!(ALL.map(|log| stage.labels(log, 1)), [[0; 0]; 3]);
}

#[test]
fn a_decision_that_was_lost_is_not_made_again_otherwise() {
    let mut stage = kept(Some(0));
    while stage.deliver(|_, _, message| is_vote(message)) {}
    stage.crash(L1);
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---", "nobody was told");
}

#[test]
fn it_is_given_back_to_an_older_one() {
    let mut stage = kept(None);
    let votes = stage.take(|_, _, message| is_vote(message));
    stage.request(L1, OLD, &[L1, L3], &[1], None);
    assert_eq!(stage.count("commit.revert.kept"), 1);
    // All others have voted, and this log does not any more.
    stage.put_back(votes);
    while stage.deliver(|_, _, message| is_vote(message)) {}
    stage.request(L3, OLD, &[L1, L3], &[2], None);
    stage.calm();
    assert_eq!((stage.labels(L1, 1), stage.labels(L3, 2)), (vec![5, 10], vec![5]));
    assert_eq!((stage.standings(OLD), stage.standings(YOUNG)), ("+.+".into(), "+++".into()));
}

#[test]
fn whoever_decides_refuses_in_one_entry() {
    let mut stage = kept(Some(7));
    assert_eq!(stage.standing(L1, YOUNG), Some('-'));
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---");
}
