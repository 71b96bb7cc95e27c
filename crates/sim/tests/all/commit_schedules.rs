//! Schedules in which every step matters: the worked counter-examples of decision 0008, and the moments that chance meets
//! too rarely. Each is played with the rule that it is about, and, where mutants are compiled in, without.

use std::time::Duration;

use quorate_commit::{Cause, Config, LogId, Message, Mutant, Outcome, TransactionId, Word};
use quorate_sim::commit::{Stage, Ways};

const L1: LogId = LogId(1);
const L2: LogId = LogId(2);
const L3: LogId = LogId(3);
const ALL: [LogId; 3] = [L1, L2, L3];
/// The younger transaction, which all logs prepare first.
const YOUNG: TransactionId = TransactionId { age: 10, origin: 1, sequence: 1 };
/// The older one, which comes later and wins.
const OLD: TransactionId = TransactionId { age: 5, origin: 2, sequence: 1 };

fn stage(mutant: Option<Mutant>) -> Stage {
    let config = Config { live_max: 20, ..Config::tiny() };
    #[cfg(feature = "mutants")]
    let config = Config { mutant, ..config };
    assert!(mutant.is_none() || cfg!(feature = "mutants"));
    Stage::new(3, config, Ways::default())
}

fn is_vote(message: &Message) -> bool {
    matches!(message.word, Word::Vote { .. })
}

fn is_grant(message: &Message) -> bool {
    matches!(message.word, Word::RevertGrant { .. })
}

fn is_global(message: &Message) -> bool {
    matches!(message.word, Word::Global { .. })
}

fn is_query(message: &Message) -> bool {
    matches!(message.word, Word::QueryLocal { .. })
}

/// All logs have prepared the younger one; the votes are on the wire. Key 1 is the one both want, at log 3.
fn prepared(mutant: Option<Mutant>) -> Stage {
    let mut stage = stage(mutant);
    for log in ALL {
        stage.request(log, YOUNG, &ALL, &[1], Some(0));
    }
    stage.choose_all();
    assert_eq!(stage.standings(YOUNG), "ppp");
    stage
}

fn ask_older(stage: &mut Stage) {
    stage.request(L1, OLD, &[L1, L3], &[2], Some(0));
    stage.request(L3, OLD, &[L1, L3], &[1], Some(0));
}

#[test]
fn a_transaction_commits_in_one_round() {
    let mut stage = prepared(None);
    while stage.deliver(|_, _, message| is_vote(message)) {}
    assert_eq!(stage.standings(YOUNG), "ppp", "decided, and not logged");
    stage.choose(L1);
    assert!(stage.told.iter().any(|(id, outcome)| *id == YOUNG && outcome.is_commit()));
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "+++");
}

/// The decision is on its way to the coordinator's log, which loses it; a participant must not know it by then.
fn decision_lost(mutant: Option<Mutant>) -> String {
    let mut stage = prepared(mutant);
    while stage.deliver(|_, _, message| is_vote(message)) {}
    stage.deliver(|_, to, message| to == L2 && is_global(message));
    stage.choose(L2);
    stage.take(|_, _, _| true);
    stage.crash(L1);
    ask_older(&mut stage);
    stage.calm();
    assert!(stage.told.iter().any(|(id, outcome)| *id == OLD && outcome.is_commit()));
    stage.standings(YOUNG)
}

#[test]
fn a_decision_is_told_once_it_is_logged() {
    assert_eq!(decision_lost(None), "---");
    #[cfg(feature = "mutants")]
    assert_eq!(decision_lost(Some(Mutant::TellBeforeLog)), "-+-", "torn");
}

/// A vote that was taken back comes a second time, late.
fn vote_comes_late(mutant: Option<Mutant>) -> Stage {
    let mut stage = prepared(mutant);
    let votes = stage.take(|from, _, message| from == L3 && is_vote(message));
    stage.put_back(votes.clone());
    stage.deliver(|from, _, message| from == L3 && is_vote(message));
    let others = stage.take(|_, _, message| is_vote(message));
    ask_older(&mut stage);
    while stage.deliver(|_, _, message| !is_vote(message)) {}
    stage.choose_all();
    assert_eq!(stage.standing(L3, YOUNG), Some('w'), "taken back");
    stage.put_back(votes);
    stage.put_back(others);
    while stage.deliver(|_, _, message| is_vote(message) && message.id == YOUNG) {}
    stage
}

#[test]
fn a_vote_that_was_taken_back_does_not_count() {
    let mut stage = vote_comes_late(None);
    stage.choose(L1);
    stage.choose(L1);
    assert_ne!(stage.standing(L1, YOUNG), Some('+'));
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---");
    assert_eq!(stage.standings(OLD), "+.+");
    let (_, outcome) = stage.told.iter().find(|(id, _)| *id == YOUNG).expect("it was told");
    let Outcome::Aborted(refusal) = outcome else { panic!("it is aborted") };
    assert_eq!((refusal.log, refusal.cause, refusal.by), (L3, Cause::Resource, Some(OLD)), "explained");
}

#[cfg(feature = "mutants")]
#[test]
fn without_epochs_it_does() {
    let mut stage = vote_comes_late(Some(Mutant::NoEpochs));
    stage.choose_all();
    assert_eq!(stage.standing(L1, YOUNG), Some('+'), "committed, and log 3 has given its locks away");
}

/// A grant of an earlier coordinator comes after its successor was told yes; if `twice`, to a successor of the participant's
/// primary, who does not know what that has heard.
fn grant_comes_late(mutant: Option<Mutant>, twice: bool) -> Stage {
    let mut stage = prepared(mutant);
    stage.take(|_, _, message| is_vote(message));
    ask_older(&mut stage);
    stage.deliver(|_, _, message| matches!(message.word, Word::RevertRequest { .. }));
    let grants = stage.take(|_, _, message| is_grant(message));
    assert_eq!(grants.len(), 1);
    stage.crash(L1);
    stage.take(|_, _, _| true);
    stage.wait(Duration::from_millis(1));
    while stage.deliver(|_, _, message| is_query(message)) {}
    if twice {
        stage.crash(L3);
    }
    stage.put_back(grants);
    assert!(stage.deliver(|_, _, message| is_grant(message)));
    while stage.deliver(|_, _, message| is_vote(message) && message.id == YOUNG) {}
    stage.choose(L1);
    stage.choose(L3);
    stage
}

#[test]
fn a_grant_of_an_earlier_coordinator_is_void() {
    assert_eq!(grant_comes_late(None, false).standings(YOUNG), "+pp");
    #[cfg(feature = "mutants")]
    assert_eq!(grant_comes_late(Some(Mutant::NoCoordinatorView), false).standings(YOUNG), "+pw", "reverted");
}

#[test]
fn a_grant_to_an_earlier_participant_is_void() {
    assert_eq!(grant_comes_late(None, true).standings(YOUNG), "+pp");
    #[cfg(feature = "mutants")]
    assert_eq!(grant_comes_late(Some(Mutant::NoParticipantView), true).standings(YOUNG), "+pw", "reverted");
}

/// The client died having asked one log, or all but one.
#[test]
fn what_never_came_is_refused_for_good() {
    let mut stage = stage(None);
    stage.request(L1, YOUNG, &ALL, &[1], Some(0));
    stage.request(L2, YOUNG, &ALL, &[1], Some(0));
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---");
    stage.request(L3, YOUNG, &ALL, &[1], Some(0));
    stage.calm();
    assert_eq!(stage.standings(YOUNG), "---", "a late request changes nothing");
    stage.request(L2, OLD, &ALL, &[1], Some(0));
    stage.calm();
    assert_eq!(stage.standing(L1, OLD), Some('-'), "asked by a participant, it knows of nothing");
    assert_eq!(stage.standing(L2, OLD), Some('-'));
}

/// The oldest of many gets all its locks, however many younger ones hold them.
#[test]
fn the_oldest_wins_in_the_end() {
    let mut stage = stage(None);
    for age in 20..26 {
        let id = TransactionId { age, origin: 1, sequence: age };
        let logs = if age % 2 == 0 { [L1, L2] } else { [L2, L3] };
        logs.iter().for_each(|log| stage.request(*log, id, &logs, &[1], None));
    }
    stage.choose_all();
    for log in ALL {
        stage.request(log, OLD, &ALL, &[1], None);
    }
    stage.calm();
    let ends: Vec<TransactionId> = stage.told.iter().map(|(id, _)| *id).collect();
    assert!(stage.told.iter().all(|(_, outcome)| outcome.is_commit()), "nobody compares versions: {ends:?}");
    assert_eq!(ends.len(), 7);
    assert!(ends.iter().position(|id| *id == OLD) <= Some(1), "{ends:?}");
}
