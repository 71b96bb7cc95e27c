//! What YCSB's definition says of mixes, records and transactions.

use super::*;
use crate::model::{Attempt, Ended, Model};
use crate::transaction::{Ask, Read, Seen, Transaction as _};

fn loaded(spec: &YcsbSpec) -> Model {
    let mut model = Model::default();
    spec.load(7).for_each(|write| model.apply(&write));
    model
}

fn kinds(workload: Letter) -> [u64; 5] {
    let mut ycsb = Ycsb::new(YcsbSpec::new(workload), Rng::new(3)).unwrap();
    let mut frontier = Frontier::new(1_000);
    let mut counts = [0; 5];
    for _ in 0..20_000 {
        let transaction = ycsb.next(&mut frontier);
        counts[transaction.kind()] += 1;
        transaction.inserts().for_each(|number| frontier.settle(number));
    }
    counts
}

#[test]
fn mixes_are_those_of_the_letters() {
    for letter in [Letter::A, Letter::B, Letter::C, Letter::D, Letter::E, Letter::F] {
        for (count, percent) in kinds(letter).into_iter().zip(letter.shares()) {
            let expected = percent * 200;
            assert!(count.abs_diff(expected) <= expected / 10, "{letter:?}: {count} against {expected}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let play = |seed| {
        let spec = YcsbSpec { group: Group::OneShot, keys_per_transaction: 5, ..YcsbSpec::new(Letter::F) };
        let (mut ycsb, mut frontier) = (Ycsb::new(spec, Rng::new(seed)).unwrap(), Frontier::new(1_000));
        (0..100).map(|_| ycsb.next(&mut frontier).next()).collect::<Vec<_>>()
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
    let spec = YcsbSpec::new(Letter::A);
    assert!(spec.load(1).eq(spec.load(1)) && spec.load(1).ne(spec.load(2)));
}

#[test]
fn records_have_their_length_and_updates_write_one_field() {
    let spec = YcsbSpec::new(Letter::A);
    let model = loaded(&spec);
    let Seen::Value(record) = model.read(&Read::Value(spec.key(17))) else { panic!("a record") };
    assert_eq!(record.len(), 1_000);
    let mut ycsb = Ycsb::new(spec, Rng::new(1)).unwrap();
    let mut frontier = Frontier::new(1_000);
    let mut fields = BTreeSet::new();
    for _ in 0..500 {
        if let Ask::Commit { writes, .. } = ycsb.next(&mut frontier).next() {
            let [Write::PutAt { offset, value, .. }] = &writes[..] else { panic!("{writes:?}") };
            assert_eq!((offset % 100, value.len()), (0, 100));
            fields.insert(offset / 100);
        }
    }
    assert_eq!(fields.len(), 10);
}

#[test]
fn a_transaction_commits_when_it_holds_its_keys_and_asks_for_none_twice() {
    for wanted in [1, 5] {
        let spec = YcsbSpec {
            group: Group::Optimistic,
            keys_per_transaction: wanted,
            records: 8,
            ..YcsbSpec::new(Letter::F)
        };
        let mut model = loaded(&spec);
        let mut ycsb = Ycsb::new(spec, Rng::new(4)).unwrap();
        let mut frontier = Frontier::new(8);
        for _ in 0..200 {
            let mut transaction = ycsb.next(&mut frontier);
            let mut asked = Vec::new();
            while let Ask::Read { reads, kind } = transaction.next() {
                assert!(matches!(kind, Some(0 | 4)));
                asked.extend(reads.iter().map(|read| read.key().clone()));
                transaction.answered(reads.iter().map(|read| model.read(read)).collect());
            }
            assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "asked twice");
            assert_eq!(asked.len() as u64, wanted);
            assert!(transaction.operations() >= wanted);
            assert_eq!(transaction.missing(), 0);
            assert_ne!(model.perform(&mut ycsb.next(&mut frontier)), Ended::Outrun);
        }
    }
}

#[test]
fn of_two_transactions_that_meet_one_is_outrun() {
    let spec = YcsbSpec {
        group: Group::Optimistic,
        keys_per_transaction: 2,
        records: 2,
        ..YcsbSpec::new(Letter::F)
    };
    let mut model = loaded(&spec);
    let mut ycsb = Ycsb::new(spec, Rng::new(1)).unwrap();
    let mut frontier = Frontier::new(2);
    // Both hold both keys; whichever writes first outruns the other.
    let mut writer = || loop {
        let transaction = ycsb.next(&mut frontier);
        if transaction.is_write() {
            return transaction;
        }
    };
    let (mut slow, mut fast) = (writer(), writer());
    let mut attempt = Attempt::default();
    assert_eq!(model.step(&mut slow, &mut attempt, true), None);
    assert_eq!(model.step(&mut slow, &mut attempt, true), None);
    assert!(matches!(model.perform(&mut fast), Ended::Committed(_)));
    let mut last = model.step(&mut slow, &mut attempt, true);
    while last.is_none() {
        last = model.step(&mut slow, &mut attempt, true);
    }
    assert_eq!(last, Some(Ended::Outrun));
}

#[test]
fn scans_take_records_with_successive_numbers_that_exist() {
    let spec = YcsbSpec { records: 50, ..YcsbSpec::new(Letter::E) };
    let mut model = loaded(&spec);
    let mut ycsb = Ycsb::new(spec.clone(), Rng::new(1)).unwrap();
    let mut frontier = Frontier::new(50);
    let numbers: Vec<Bytes> = (0..2_000).map(|number| spec.key(number)).collect();
    for _ in 0..1_000 {
        let mut transaction = ycsb.next(&mut frontier);
        if let Ask::Read { reads, .. } = transaction.clone().next() {
            let first = numbers.iter().position(|key| key == reads[0].key()).expect("a record");
            assert!(reads.iter().map(Read::key).eq(&numbers[first..first + reads.len()]));
            assert!(reads.len() <= 100);
        }
        model.perform(&mut transaction);
        assert_eq!(transaction.missing(), 0);
        transaction.inserts().for_each(|number| frontier.settle(number));
    }
    assert!(frontier.settled() > 80);
}

#[test]
fn inserts_are_asked_for_when_all_before_them_have_ended() {
    let mut frontier = Frontier::new(5);
    let (a, b, c) = (frontier.take(), frontier.take(), frontier.take());
    frontier.settle(c);
    frontier.settle(b);
    assert_eq!(frontier.settled(), 5);
    frontier.settle(a);
    assert_eq!(frontier.settled(), 8);
}

#[test]
fn nonsense_is_refused_with_advice() {
    let good = YcsbSpec::new(Letter::A);
    assert_eq!(good.validate(), Ok(()));
    let bad = [
        YcsbSpec { records: 0, ..good.clone() },
        YcsbSpec { fields: 0, ..good.clone() },
        YcsbSpec { keys_per_transaction: 5, ..good.clone() },
        YcsbSpec { keys_per_transaction: 5, records: 4, group: Group::OneShot, ..good },
    ];
    bad.iter().for_each(|spec| assert!(spec.validate().is_err(), "{spec:?}"));
}
