//! Schedules of bundles: requests that go together as one transaction, asked for again, with primaries that die in between.

use std::time::Duration;

use quorate_commit::{Cause, Config, LogId, Message, Mutant, Outcome, TransactionId, Word};
use quorate_sim::commit::{Stage, Ways};

const L1: LogId = LogId(1);
const L2: LogId = LogId(2);
const BOTH: [LogId; 2] = [L1, L2];

fn member(age: u64) -> TransactionId {
    TransactionId { age, origin: age, sequence: 1 }
}

fn stage(mutant: Option<Mutant>) -> Stage {
    // Nothing goes ahead for being late.
    let bundle_wait = Duration::from_secs(60);
    let config = Config { live_max: 20, bundle_wait, ..Config::tiny() };
    #[cfg(feature = "mutants")]
    let config = Config { mutant, ..config };
    assert!(mutant.is_none() || cfg!(feature = "mutants"));
    Stage::new(2, config, Ways::default())
}

fn is_global(message: &Message) -> bool {
    matches!(message.word, Word::Global { .. })
}

fn is_query(message: &Message) -> bool {
    matches!(message.word, Word::QueryLocal { .. })
}

fn ask(stage: &mut Stage, ages: &[u64]) {
    ages.iter().for_each(|age| stage.request_shared(member(*age), &BOTH, 1));
}

/// What those who asked under this name were told: `+` or `-`.
fn told(stage: &Stage, age: u64) -> String {
    let his = stage.told.iter().filter(|(id, _)| *id == member(age));
    his.map(|(_, outcome)| if outcome.is_commit() { '+' } else { '-' }).collect()
}

/// One is under way, three wait and go together.
fn three(mutant: Option<Mutant>) -> Stage {
    let mut stage = stage(mutant);
    ask(&mut stage, &[1, 4, 3, 2]);
    assert_eq!(stage.count("commit.bundle"), 0, "they wait");
    stage.calm();
    stage
}

#[test]
fn what_waits_goes_together() {
    let stage = three(None);
    assert_eq!(stage.count("commit.bundle"), 1);
    assert_eq!(BOTH.map(|log| stage.labels(log, 1)), [[1, 4, 3, 2], [1, 4, 3, 2]]);
    assert_eq!([1, 2, 3, 4].map(|age| told(&stage, age)), ["+", "+", "+", "+"]);
    assert_eq!(stage.standings(member(3)), "..", "no log knows members as transactions");
}

fn asked_again(mutant: Option<Mutant>) -> (Vec<u64>, String) {
    let mut stage = three(mutant);
    stage.crash(L1);
    ask(&mut stage, &[3]);
    stage.calm();
    (stage.labels(L1, 1), told(&stage, 3))
}

#[test]
fn a_member_that_is_asked_for_again_is_answered_with_what_became_of_its_bundle() {
    assert_eq!(asked_again(None), (vec![1, 4, 3, 2], "++".into()));
    #[cfg(feature = "mutants")]
    assert_eq!(asked_again(Some(Mutant::MembersForgotten)).0, [1, 4, 3, 2, 3], "twice");
}

/// Everything goes well until a bundle begins, of which nothing is in the own log.
fn until_joined(stage: &mut Stage) {
    while stage.count("commit.bundle") == 0 {
        stage.deliver(|_, _, _| true);
        while stage.choose(L2) {}
        stage.choose(L1);
    }
}

/// A participant has voted on a bundle that the coordinator's log loses; its next primary is asked for one of the members.
fn lost_and_asked_again(mutant: Option<Mutant>) -> [Vec<u64>; 2] {
    let mut stage = stage(mutant);
    // The first one ends; the two behind it begin, and come to the other log.
    ask(&mut stage, &[1, 2, 3]);
    until_joined(&mut stage);
    stage.deliver(|_, to, message| to == L2 && is_global(message));
    while stage.deliver(|_, to, message| to == L2 && is_query(message)) {}
    while stage.choose(L2) {}
    stage.take(|_, _, _| true);
    stage.crash(L1);
    ask(&mut stage, &[2]);
    stage.calm();
    assert_eq!((told(&stage, 2), told(&stage, 3)), ("+".into(), String::new()));
    BOTH.map(|log| stage.labels(log, 1))
}

#[test]
fn a_bundle_has_a_name_of_its_own() {
    assert_eq!(lost_and_asked_again(None), [[1, 2], [1, 2]]);
    #[cfg(feature = "mutants")]
    assert_eq!(lost_and_asked_again(Some(Mutant::BundleNamedByMember)), [vec![1, 2], vec![1, 2, 3]], "torn");
}

/// What began alone in one reign and is a member in the next is aborted under its own name, and its client hears nothing of that.
#[test]
fn what_was_alone_before_it_was_a_member_never_happened() {
    let mut stage = stage(None);
    ask(&mut stage, &[2]);
    while stage.deliver(|_, to, message| to == L2 && is_query(message)) {}
    while stage.choose(L2) {}
    stage.take(|_, _, _| true);
    stage.crash(L1);
    ask(&mut stage, &[1, 3, 2]);
    stage.calm();
    assert_eq!(stage.standings(member(2)), "--");
    assert_eq!([1, 2, 3].map(|age| told(&stage, age)), ["+", "+", "+"]);
    let labels = BOTH.map(|log| stage.labels(log, 1));
    assert_eq!((labels[0].len(), &labels[0]), (3, &labels[1]), "each once");
}

/// A bundle that is refused elsewhere before the own log has it: its members are remembered.
#[test]
fn a_bundle_that_fails_early_is_remembered() {
    let mut stage = stage(None);
    ask(&mut stage, &[1, 2, 3]);
    until_joined(&mut stage);
    let queries = stage.take(|_, to, message| to == L2 && is_query(message));
    let bundle = queries.first().map(|(_, _, message)| message.id).expect("it was handed on");
    // The other log takes its origin for dead, and refuses it.
    stage.settle(L2, bundle.origin);
    stage.choose_all();
    stage.put_back(queries);
    stage.calm();
    assert_eq!((told(&stage, 2), told(&stage, 3)), ("-".into(), "-".into()));
    let cause = |(_, outcome): &(TransactionId, Outcome)| match outcome {
        Outcome::Aborted(refusal) => Some(refusal.cause),
        Outcome::Committed(_) => None,
    };
    assert_eq!(
        stage.told.iter().find_map(cause),
        Some(Cause::GaveUp),
        "its own origin is not what is settled"
    );
    ask(&mut stage, &[2]);
    stage.calm();
    assert_eq!(told(&stage, 2), "--", "and stays so");
    // Another name is tried.
    ask(&mut stage, &[5, 6, 7]);
    stage.calm();
    assert_eq!([5, 6, 7].map(|age| told(&stage, age)), ["+", "+", "+"]);
}

/// As in seed 37 of `commit-bundles`: while it waits, a participant that knows it from another reign asks about it.
#[test]
fn what_is_given_up_while_it_waits_does_not_begin() {
    let mut stage = stage(None);
    ask(&mut stage, &[2]);
    while stage.deliver(|_, to, message| to == L2 && is_query(message)) {}
    while stage.choose(L2) {}
    stage.take(|_, _, _| true);
    stage.crash(L1);
    // It waits behind another, and the other log asks what became of it.
    ask(&mut stage, &[1, 2]);
    stage.wait(Duration::from_secs(1));
    while stage.deliver(|from, _, message| from == L2 && message.id == member(2)) {}
    stage.calm();
    assert_eq!((told(&stage, 1), told(&stage, 2)), ("+".into(), "-".into()));
    assert_eq!(stage.labels(L1, 1), [1]);
}
