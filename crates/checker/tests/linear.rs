//! The search against real executions and against a judge that tries every order.

mod common;

use common::{Chance, FLAVOURS, Flavour, Shape, damage, linearizable, naive_is_linearizable};
use quorate_api::history::{Check, Ending, Op, Record};
use quorate_checker::{History, Limits, Verdict, check, check_within};

fn judge(records: &[Record]) -> Verdict {
    let history = History::from_records(records.iter().cloned()).expect("well formed");
    check(&history, Check::Linear).verdict
}

#[test]
fn agrees_with_the_naive_judge_on_small_histories() {
    let (mut fine, mut wrong) = (0, 0);
    for seed in 0..6_000 {
        let mut chance = Chance(seed);
        let kind = FLAVOURS[seed as usize % FLAVOURS.len()];
        let (clients, keys) = (1 + chance.below(5), 1 + u64::from(kind == Flavour::Move));
        let records = 2 + chance.below(7) as usize;
        let shape = Shape { clients, records, keys, unknown_percent: 25, kind };
        let mut records = linearizable(shape, &mut chance);
        assert!(naive_is_linearizable(&records), "seed {seed}: the generator is wrong");
        assert_eq!(judge(&records), Verdict::Ok, "seed {seed}: {records:#?}");
        for _ in 0..1 + chance.below(2) {
            damage(&mut records, &mut chance);
        }
        let expected = naive_is_linearizable(&records);
        let verdict = judge(&records);
        assert_eq!(verdict == Verdict::Ok, expected, "seed {seed}: {verdict:#?} {records:#?}");
        *if expected { &mut fine } else { &mut wrong } += 1;
    }
    assert!(fine > 500 && wrong > 1_000, "both happened: {fine} {wrong}");
}

#[test]
fn accepts_long_real_executions() {
    for seed in 0..70 {
        let mut chance = Chance(seed);
        let kind = FLAVOURS[seed as usize % FLAVOURS.len()];
        let clients = 2 + chance.below(if kind == Flavour::Move { 6 } else { 30 });
        let shape = Shape {
            clients,
            records: if kind == Flavour::Move { 120 } else { 600 },
            keys: 3,
            unknown_percent: 4,
            kind,
        };
        let records = linearizable(shape, &mut chance);
        assert_eq!(judge(&records), Verdict::Ok, "seed {seed} {shape:?}");
    }
}

fn record(client: u64, start: u64, end: u64, op: Op) -> Record {
    Record { client, start, end: Some(end), outcome: Ending::Ok, ops: vec![op], is_final: false }
}

fn write(key: &str, value: &str) -> Op {
    Op::Write { key: key.into(), value: Some(value.into()) }
}

fn read(key: &str, value: &str) -> Op {
    Op::Read { key: key.into(), result: Some(Some(value.into())) }
}

#[test]
fn the_story_of_a_stale_read_is_short() {
    let mut chance = Chance(5);
    let shape = Shape { clients: 8, records: 400, keys: 1, unknown_percent: 5, kind: Flavour::Register };
    let mut records = linearizable(shape, &mut chance);
    let later = 1_000_000;
    for (number, op) in
        [write("k0", "old"), write("k0", "new"), read("k0", "new"), read("k0", "old")].into_iter().enumerate()
    {
        records.push(record(100, later + number as u64 * 10, later + number as u64 * 10 + 5, op));
    }
    let Verdict::Violated(violations) = judge(&records) else { panic!("a stale read") };
    assert_eq!(violations.len(), 1);
    assert!(violations[0].lines.len() <= 3, "{}", violations[0]);
    assert!(violations[0].text.contains("read \"k0\" -> \"old\""), "{}", violations[0]);
}

#[test]
fn giving_up_is_not_ok() {
    let mut chance = Chance(1);
    let shape = Shape { clients: 6, records: 100, keys: 1, unknown_percent: 5, kind: Flavour::List };
    let history = History::from_records(linearizable(shape, &mut chance)).expect("well formed");
    let limits = Limits { steps_max: 20, ..Limits::default() };
    let report = check_within(&history, Check::Linear, &limits);
    assert!(matches!(&report.verdict, Verdict::GaveUp(why) if why.starts_with("too hard")), "{report}");
    assert!(!report.is_ok());
}

#[test]
fn a_key_of_two_kinds_is_not_judged() {
    let records =
        [record(1, 0, 1, write("x", "1")), record(1, 2, 3, Op::Count { key: "x".into(), result: Some(1) })];
    assert!(
        matches!(judge(&records), Verdict::GaveUp(why) if why.contains("line 2 uses key \"x\" as a counter"))
    );
}
