//! The search for cycles against real executions and against a judge that tries every order.

mod common;

use common::{Chance, Flavour, Shape, damage, linearizable, naive_is_linearizable};
use quorate_api::history::{Check, Op, Record};
use quorate_checker::{History, Verdict, check};

/// Lengths after an append say more than this check looks at.
fn without_lengths(mut records: Vec<Record>) -> Vec<Record> {
    for op in records.iter_mut().flat_map(|record| &mut record.ops) {
        if let Op::Append { result, .. } = op {
            *result = None;
        }
    }
    records
}

fn judge(records: &[Record], of: Check) -> Verdict {
    check(&History::from_records(records.iter().cloned()).expect("well formed"), of).verdict
}

fn shape(chance: &mut Chance, records: usize) -> Shape {
    let clients = 2 + chance.below(4);
    Shape { clients, records, keys: 2, unknown_percent: 15, kind: Flavour::Transactions }
}

#[test]
fn agrees_with_the_naive_judge_on_small_histories() {
    let (mut fine, mut wrong) = (0, 0);
    for seed in 0..6_000 {
        let mut chance = Chance(seed);
        let count = 2 + chance.below(5) as usize;
        let shape = shape(&mut chance, count);
        let mut records = without_lengths(linearizable(shape, &mut chance));
        assert_eq!(judge(&records, Check::Serial), Verdict::Ok, "seed {seed}: {records:#?}");
        for _ in 0..1 + chance.below(2) {
            damage(&mut records, &mut chance);
        }
        let expected = naive_is_linearizable(&records);
        let verdict = judge(&records, Check::Serial);
        assert_eq!(verdict == Verdict::Ok, expected, "seed {seed}: {verdict:#?} {records:#?}");
        *if expected { &mut fine } else { &mut wrong } += 1;
    }
    assert!(fine > 500 && wrong > 500, "both happened: {fine} {wrong}");
}

#[test]
fn accepts_long_real_executions_and_finds_one_damage() {
    let mut found = 0;
    for seed in 0..40 {
        let mut chance = Chance(seed);
        let shape = Shape { clients: 12, keys: 6, ..shape(&mut chance, 800) };
        let mut records = without_lengths(linearizable(shape, &mut chance));
        assert_eq!(judge(&records, Check::Serial), Verdict::Ok, "seed {seed}");
        let session = judge(&records, Check::Session);
        assert_eq!(session, Verdict::Ok, "seed {seed}: what is serial keeps the guarantees of sessions");
        let intact = records.clone();
        damage(&mut records, &mut chance);
        if records != intact && judge(&records, Check::Serial) != Verdict::Ok {
            found += 1;
        }
    }
    assert!(found >= 15, "only {found}");
}

#[test]
fn registers_that_behave_as_one_copy_keep_the_guarantees_of_sessions() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let kind = if seed % 2 == 0 { Flavour::Register } else { Flavour::Cas };
        let shape = Shape { clients: 8, records: 500, keys: 4, unknown_percent: 8, kind };
        let records = linearizable(shape, &mut chance);
        assert_eq!(judge(&records, Check::Session), Verdict::Ok, "seed {seed}");
    }
}
