//! Rounds of one request, told what buckets say.

use super::*;
use crate::fixture;
use crate::message::Message;
use crate::plan::plan;
use bytes::Bytes;
use core::num::NonZeroU16;
use quorate_kernel::{Effect, NodeId};

const TWO: [Bucket; 2] = [Bucket(0), Bucket(1)];

fn collect(rounds_max: u64) -> Collect {
    collect_with(rounds_max, None)
}

fn collect_with(rounds_max: u64, restless: Option<Bucket>) -> Collect {
    let request = Request::Versions(Vec::from([Bytes::from_static(b"a"), Bytes::from_static(b"b")]));
    let mut plan = plan(&request, NonZeroU16::MIN);
    plan.parts = TWO.map(|bucket| (bucket, Part::default())).into();
    let mut collect = Collect {
        address: (ConnectionId(1), Ticket(1)),
        plan,
        consistency: Consistency::Strict,
        bytes: 0,
        age: 3,
        taken_at: Time::default(),
        round: 0,
        began_at: Time::default(),
        held: None,
        rounds_max,
        asked: BTreeSet::new(),
        found: BTreeMap::new(),
        of_one_key: TWO.into(),
        restless,
    };
    collect.begin_round(Time::default());
    collect
}

fn new(stamp: i64) -> Outcome {
    let (stamps, replies) = (Vec::from([Reply::Int(stamp)]), Vec::from([Reply::Int(1), Reply::Int(7)]));
    Outcome::Done(Reply::Array(Vec::from([Reply::Array(stamps), Reply::Array(replies)])))
}

impl Collect {
    fn stamps(&self) -> Vec<u64> {
        self.found.values().map(|found| found.stamps[0]).collect()
    }
}

const SAME: Outcome = Outcome::Done(Reply::Ok);

#[test]
fn it_ends_when_nothing_has_changed_anywhere_between_two_rounds() {
    let mut one = collect(8);
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
    assert!(matches!(one.hear(TWO[0], new(9), None), Next::Wait), "it has answered in this round");
    assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask), "seen for the first time");
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], new(2), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask), "both have changed");
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[1], SAME, None), Next::Wait));
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Reply));
    assert_eq!(one.stamps(), [2, 2]);
}

#[test]
fn one_bucket_may_change_if_the_others_are_the_same_before_and_after() {
    let mut one = collect(2);
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask), "a round more than else");
    one.begin_round(Time::default());
    assert_eq!(one.asked, [TWO[0]].into(), "the other has changed again, or not");
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Reply));
    assert_eq!(one.stamps(), [1, 2]);
}

#[test]
fn what_is_about_several_keys_is_always_asked_twice() {
    let mut one = collect(3);
    one.of_one_key.clear();
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask));
    one.begin_round(Time::default());
    assert_eq!(one.asked, TWO.into());
    let (keys, key) = ([b"a", b"b"], [b"a", b"a"]);
    let part = |keys: [&'static [u8; 1]; 2]| {
        let request = Request::Versions(keys.map(|key| Bytes::from_static(key)).into());
        plan(&request, NonZeroU16::MIN).parts.remove(&Bucket(0)).expect("one bucket")
    };
    assert!(!is_about_one_key(&part(keys)) && is_about_one_key(&part(key)));
    assert!(!is_about_one_key(&Part::default()), "or about none");
}

#[test]
fn what_changes_all_the_time_is_asked_between_two_rounds_of_the_others() {
    let mut one = collect_with(3, Some(TWO[1]));
    assert_eq!(one.asked, [TWO[0]].into());
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Ask), "the other is not known yet");
    one.begin_round(Time::default());
    assert_eq!(one.asked, [TWO[1]].into());
    assert!(matches!(one.hear(TWO[1], new(7), None), Next::Ask), "the first may have changed meanwhile");
    one.begin_round(Time::default());
    assert_eq!(one.asked, [TWO[0]].into());
    assert!(matches!(one.hear(TWO[0], new(2), None), Next::Ask), "it has");
    one.begin_round(Time::default());
    assert_eq!(one.asked, [TWO[1]].into());
    assert!(matches!(one.hear(TWO[1], SAME, None), Next::Reply), "that stood before and after");
    assert_eq!(one.stamps(), [2, 7]);
}

#[test]
fn where_others_are_faster_it_is_held_and_else_locked() {
    let mut one = collect(2);
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], new(2), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(2), None), Next::Hold), "both");
    assert_eq!(one.hold(), None);
    one.hold_next(Time(20_000_000), 77);
    one.begin_round(Time(20_000_000));
    assert_eq!(one.asked, TWO.into());
    assert_eq!(one.hold(), Some(Hold { name: 77, age: 3, ms: 80 }), "four times as long as a round took");
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(3), None), Next::Ask));
    one.begin_round(Time(21_000_000));
    assert_eq!(one.asked, TWO.into(), "all hold it, and need not any more");
    assert_eq!(one.hold(), Some(Hold { name: 77, age: 3, ms: 0 }));
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], SAME, None), Next::Reply));
    assert_eq!(one.stamps(), [2, 3]);
}

#[test]
fn what_was_held_in_vain_takes_locks() {
    let mut one = collect_with(3, Some(TWO[1]));
    for (stamp, bucket) in [(1, TWO[0]), (2, TWO[1]), (3, TWO[0])] {
        assert!(matches!(one.hear(bucket, new(stamp), None), Next::Ask), "in turn");
        one.begin_round(Time::default());
    }
    assert!(matches!(one.hear(TWO[1], new(4), None), Next::Hold));
    one.hold_next(Time::default(), 1);
    assert_eq!(one.held.map(|held| held.hold.ms), Some(10), "at least");
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
    assert!(
        matches!(one.hear(TWO[1], SAME, None), Next::Ask),
        "those who hold it learn that they need not any more"
    );
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[0], new(5), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(5), None), Next::Lock));
}

#[test]
fn broken_rules_believe_what_they_should_ask_again() {
    let mut one = collect(2);
    assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
    assert!(matches!(one.hear(TWO[1], new(1), Some(Mutant::CollectsOnce)), Next::Reply));
    let mut one = collect_with(3, Some(TWO[1]));
    assert!(matches!(one.hear(TWO[0], new(1), Some(Mutant::CollectsApart)), Next::Ask));
    one.begin_round(Time::default());
    assert!(matches!(one.hear(TWO[1], new(7), Some(Mutant::CollectsApart)), Next::Reply));
}

#[test]
fn what_one_bucket_cannot_say_ends_it() {
    let end = |said| match collect(8).hear(TWO[1], said, None) {
        Next::End(outcome) => outcome,
        _ => panic!("it goes on"),
    };
    assert_eq!(end(Outcome::Done(Reply::NilArray)), Outcome::Done(Reply::NilArray), "a watched key moved");
    let refused = Outcome::Refused(Refusal::NoLeader);
    assert_eq!(end(refused.clone()), refused);
    assert_eq!(end(Outcome::Done(Reply::Int(5))), refused, "nonsense");
    let error = Outcome::Done(Reply::error("ERR too long"));
    assert_eq!(end(error.clone()), error);
}

#[test]
fn what_ends_early_lets_go_of_what_is_held() {
    let mut node = fixture::node(9, &[]);
    fixture::hear_leader(&mut node, 0, 2);
    fixture::hear_leader(&mut node, 1, 3);
    let mut one = collect(8);
    one.hold_next(Time::default(), 77);
    one.begin_round(Time::default());
    let address = (ConnectionId(OWN | 5), Ticket(one.round));
    node.collects.open.insert(5, one);
    let told = fixture::at(Time(1), |cx, out| {
        node.collected(cx, TWO[1], (address, Outcome::Done(Reply::NilArray)), out);
        let mut told = Vec::new();
        for effect in out.effects() {
            let Effect::Send { to, msg, .. } = effect else { continue };
            let msg = if let Message::In(_, msg) = msg { msg } else { msg };
            let Message::Read { requests, .. } = msg else { continue };
            told.extend(requests.iter().filter_map(|request| match request {
                Request::Collect { hold: Some(hold), .. } => Some((*to, hold.name, hold.ms)),
                _ => None,
            }));
        }
        told
    });
    assert_eq!(told, [(NodeId(2), 77, 0), (NodeId(3), 77, 0)]);
    assert!(node.collects.open.is_empty());
}
