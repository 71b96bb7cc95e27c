//! The database, the transactions and the conditions against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use quorate_api::slot_of;
use quorate_kernel::Rng;

use super::input::{Input, Who};
use super::*;
use crate::model::{Attempt, Ended, Model};
use crate::transaction::{Ask, Read, Seen, Transaction as _};

const NOW: u64 = 1_000;
/// No condition is violated.
const NONE: [usize; 0] = [];

impl Readout for Model {
    type Error = Infallible;

    fn read(&mut self, reads: Vec<Read>) -> Result<Vec<Seen>, Infallible> {
        Ok(reads.iter().map(|read| Model::read(self, read)).collect())
    }
}

fn loaded(warehouses: u64) -> (Loaded, Model) {
    let loaded = Loaded::new(Scale { items: 200, ..Scale::reduced(warehouses) }, 5);
    let mut model = Model::default();
    population(&loaded, 5, NOW).for_each(|write| model.apply(&write));
    (loaded, model)
}

fn violated(model: &mut Model, loaded: &Loaded) -> Vec<usize> {
    let Ok(violations) = check(model, &loaded.scale);
    let mut conditions: Vec<usize> = violations.into_iter().map(|violation| violation.condition).collect();
    conditions.dedup();
    conditions
}

fn terminals(loaded: &Loaded, count: u64) -> Vec<Terminal> {
    let mut rng = Rng::new(9);
    (0..count).map(|number| Terminal::new(loaded.clone(), number, rng.fork())).collect()
}

#[test]
fn the_database_has_the_rows_of_its_scale_and_is_consistent() {
    let (loaded, mut model) = loaded(2);
    assert_eq!(violated(&mut model, &loaded), NONE);
    let writes: Vec<Write> = population(&loaded, 5, NOW).collect();
    let count = |name: &str| {
        let prefix = format!("tpcc:{name}:");
        writes.iter().filter(|write| write.key().starts_with(prefix.as_bytes())).count()
    };
    assert_eq!((count("i"), count("s"), count("w"), count("d")), (400, 400, 2, 20));
    assert_eq!((count("c"), count("o"), count("l"), count("n"), count("h")), (600, 600, 600, 180, 20));
    assert!(population(&loaded, 5, NOW).eq(writes) && Loaded::read(b"{}").is_none());
    let Write::Put { value, .. } = loaded.write() else { panic!("a string") };
    assert_eq!(Loaded::read(&value), Some(loaded));
}

#[test]
fn a_warehouse_lies_in_one_slot_unless_its_rows_are_spread() {
    let rows = |scale: Scale| -> BTreeMap<Bytes, Bytes> {
        let writes = population(&Loaded::new(Scale { items: 200, ..scale }, 5), 5, NOW);
        let strings = writes.filter_map(|write| match write {
            Write::Put { key, value } => Some((key, value)),
            _ => None,
        });
        strings.collect()
    };
    let together = rows(Scale::reduced(2));
    let slots: BTreeSet<u16> = together.keys().map(|key| slot_of(key)).collect();
    assert_eq!(slots, BTreeSet::from([slot_of(b"1"), slot_of(b"2")]));
    // Every warehouse has the same items, and but for their names rows are the same as where they are spread.
    let spread = rows(Scale::reduced(2).spread());
    assert_eq!(together.len(), spread.len() + 200);
    for (key, value) in together {
        let name = String::from_utf8(key.into()).unwrap();
        let name = match name.strip_prefix("tpcc:i:") {
            Some(rest) => format!("tpcc:i:{}", rest.split_once(':').unwrap().1),
            None => name.replace(['{', '}'], ""),
        };
        assert_eq!(spread.get(name.as_bytes()), Some(&value), "{name}");
    }
    let layout = |text: &str| Some(serde_json::from_str::<Scale>(text).ok()?.layout);
    // Databases of before.
    let before = r#"{"warehouses":1,"districts":10,"customers":30,"items":200}"#;
    assert_eq!(layout(before), Some(Layout::Spread));
}

#[test]
fn the_whole_scale_has_the_numbers_of_the_specification() {
    let scale = Scale::standard(3);
    assert_eq!((scale.districts, scale.customers, scale.items), (10, 3_000, 100_000));
    assert_eq!((scale.delivered(), scale.last_names()), (2_100, 1_000));
    assert_eq!(scale.validate(), Ok(()));
    assert!(Scale { warehouses: 0, ..scale }.validate().is_err());
    assert!(Scale { customers: 1, ..scale }.validate().is_err());
}

#[test]
fn inputs_have_the_shares_of_the_specification() {
    let loaded = Loaded::new(Scale::standard(4), 1);
    let mut terminal = terminals(&loaded, 3).remove(2);
    let (mut kinds, mut lines, mut remote, mut to_fail) = ([0_u32; 5], 0_u32, 0_u32, 0_u32);
    let (mut by_name, mut away) = (0_u32, 0_u32);
    for _ in 0..50_000 {
        let transaction = terminal.next(NOW);
        kinds[transaction.kind()] += 1;
        match transaction.input() {
            Input::NewOrder { wanted, .. } => {
                assert!((5..=15).contains(&wanted.len()));
                lines += wanted.len() as u32;
                remote += wanted.iter().filter(|wanted| wanted.supplier != 3).count() as u32;
                to_fail += u32::from(wanted.iter().any(|wanted| wanted.item > 100_000));
            }
            Input::Payment { who, customer_warehouse, amount, .. } => {
                by_name += u32::from(matches!(who, Who::LastName(_)));
                away += u32::from(*customer_warehouse != 3);
                assert!((100..=500_000).contains(amount));
            }
            _ => {}
        }
    }
    let near = |count: u32, of: u32, percent: f64| {
        let found = f64::from(count) * 100.0 / f64::from(of);
        assert!((found - percent).abs() < percent * 0.15, "{found} % against {percent} %");
    };
    for (count, percent) in kinds.into_iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
        near(count, 50_000, percent);
    }
    near(remote, lines, 1.0);
    near(to_fail, kinds[0], 1.0);
    near(by_name, kinds[1], 60.0);
    near(away, kinds[1], 15.0);
}

#[test]
fn thousands_of_transactions_keep_all_conditions() {
    let (loaded, mut model) = loaded(2);
    let mut terminals = terminals(&loaded, 8);
    let (mut committed, mut rolled_back, mut rounds) = (0, 0, 0);
    for index in 0..6_000 {
        let mut transaction = terminals[index % 8].next(NOW + index as u64);
        let mut attempt = Attempt::default();
        let ended = loop {
            rounds += 1;
            if let Some(ended) = model.step(&mut transaction, &mut attempt, true) {
                break ended;
            }
        };
        match ended {
            Ended::Committed(_) => committed += 1,
            Ended::RolledBack => rolled_back += 1,
            Ended::Finished => {}
            other => panic!("{other:?}"),
        }
        if index % 1_000 == 0 {
            assert_eq!(violated(&mut model, &loaded), NONE, "after {index}");
        }
    }
    assert_eq!(violated(&mut model, &loaded), NONE);
    assert!(committed > 5_500 && (10..60).contains(&rolled_back), "{committed}, {rolled_back}");
    // Two or three rounds and an end.
    assert!(rounds < 6_000 * 4, "{rounds}");
}

/// Plays transactions of several clients in turns, so that they meet.
fn interleave(watch: bool) -> (usize, Vec<usize>) {
    let (loaded, mut model) = loaded(1);
    let mut terminals = terminals(&loaded, 6);
    let mut playing: Vec<_> =
        terminals.iter_mut().map(|terminal| (terminal.next(NOW), Attempt::default())).collect();
    let (mut rng, mut outrun) = (Rng::new(3), 0);
    for _ in 0..20_000 {
        let index = rng.below(6) as usize;
        let (transaction, attempt) = &mut playing[index];
        let Some(ended) = model.step(transaction, attempt, watch) else { continue };
        outrun += usize::from(ended == Ended::Outrun);
        playing[index] = (terminals[index].next(NOW), Attempt::default());
    }
    (outrun, violated(&mut model, &loaded))
}

#[test]
fn interleaved_transactions_keep_all_conditions_if_they_watch_what_they_read() {
    let (outrun, conditions) = interleave(true);
    assert!(outrun > 100, "{outrun}");
    assert_eq!(conditions, NONE);
    let (outrun, conditions) = interleave(false);
    assert_eq!(outrun, 0);
    assert!(conditions.len() > 5, "{conditions:?}");
}

/// Performs transactions of a kind whose writes are tampered with; which conditions are violated then.
fn tampered(kind: TpccKind, count: usize, tamper: impl Fn(&mut Vec<Write>)) -> Vec<usize> {
    let (loaded, mut model) = loaded(1);
    let mut terminal = terminals(&loaded, 1).remove(0);
    for _ in 0..count {
        let mut transaction = terminal.make(kind, NOW);
        let mut writes = loop {
            match transaction.next() {
                Ask::Read { reads, .. } => {
                    transaction.answered(reads.iter().map(|read| model.read(read)).collect());
                }
                Ask::Commit { writes, .. } => break writes,
                Ask::Rollback => break Vec::new(),
                other => panic!("{other:?}"),
            }
        };
        tamper(&mut writes);
        writes.iter().for_each(|write| model.apply(write));
    }
    violated(&mut model, &loaded)
}

/// Drops the writes to keys that begin so.
fn without(name: &'static str) -> impl Fn(&mut Vec<Write>) {
    move |writes| writes.retain(|write| !write.key().starts_with(format!("tpcc:{name}:").as_bytes()))
}

/// Writes another value to keys that begin so: the text in it is replaced.
fn altered(name: &'static str, alter: impl Fn(&str) -> String) -> impl Fn(&mut Vec<Write>) {
    move |writes| {
        for write in writes {
            let is_meant = write.key().starts_with(format!("tpcc:{name}:").as_bytes());
            if let (true, Write::Put { value, .. }) = (is_meant, write) {
                *value = alter(std::str::from_utf8(value).unwrap()).into();
            }
        }
    }
}

#[test]
fn what_a_new_order_forgets_is_noticed() {
    let new_order = |tamper: &dyn Fn(&mut Vec<Write>)| tampered(TpccKind::NewOrder, 1, tamper);
    assert_eq!(new_order(&|_| {}), NONE);
    // The next order id.
    assert_eq!(new_order(&without("dn")), [2]);
    // The order itself: its lines have nobody to say how many they are, its new order is none.
    assert_eq!(new_order(&without("o")), [2, 5, 11]);
    // The row in NEW-ORDER.
    assert_eq!(new_order(&without("n")), [2, 5, 11]);
    // The lines.
    assert_eq!(new_order(&without("l")), [4, 6]);
    // An order that says that it has one line more.
    let one_more = altered("o", |text| {
        let mut fields: Vec<String> = text.split('|').map(str::to_owned).collect();
        fields[3] = (fields[3].parse::<u64>().unwrap() + 1).to_string();
        fields.join("|")
    });
    assert_eq!(new_order(&one_more), [4, 6]);
    // An id left out.
    let left_out = altered("dn", |text| (text.parse::<i64>().unwrap() + 1).to_string());
    assert_eq!(tampered(TpccKind::NewOrder, 40, left_out), [2, 3]);
}

#[test]
fn what_a_payment_forgets_is_noticed() {
    let payment = |tamper: &dyn Fn(&mut Vec<Write>)| tampered(TpccKind::Payment, 5, tamper);
    assert_eq!(payment(&|_| {}), NONE);
    assert_eq!(payment(&without("wy")), [1, 8]);
    assert_eq!(payment(&without("dy")), [1, 9]);
    assert_eq!(payment(&without("h")), [8, 9, 10]);
    assert_eq!(payment(&without("ca")), [10]);
    // The balance alone, or what was paid alone.
    let field = |index: usize, by: i64| {
        altered("ca", move |text| {
            let mut fields: Vec<String> = text.split('|').map(str::to_owned).collect();
            fields[index] = (fields[index].parse::<i64>().unwrap() + by).to_string();
            fields.join("|")
        })
    };
    assert_eq!(payment(&field(0, 1)), [10, 12]);
    assert_eq!(payment(&field(1, 1)), [12]);
}

#[test]
fn what_a_delivery_forgets_is_noticed() {
    let delivery = |tamper: &dyn Fn(&mut Vec<Write>)| tampered(TpccKind::Delivery, 1, tamper);
    assert_eq!(delivery(&|_| {}), NONE);
    // The carrier: nobody has delivered what is new no more.
    assert_eq!(delivery(&without("o")), [5, 7]);
    // The row in NEW-ORDER stays: it is delivered and new.
    assert_eq!(delivery(&without("n")), [5, 11]);
    // The times of the lines: then nothing was delivered to anybody who has to pay for it.
    assert_eq!(delivery(&without("l")), [7, 10, 12]);
    assert_eq!(delivery(&without("ca")), [10, 11, 12]);
    // Where the oldest new order is: it is looked for where it no longer is, and nothing is delivered any more.
    assert_eq!(tampered(TpccKind::Delivery, 5, without("do")), NONE);
    let ahead = altered("do", |text| (text.parse::<i64>().unwrap() + 1).to_string());
    assert_eq!(tampered(TpccKind::Delivery, 3, ahead), [3]);
}

#[test]
fn every_condition_has_been_seen_to_fail() {
    // Together the tests above see each of them; one that none can violate would be worth nothing.
    let mut seen: Vec<usize> = [
        tampered(
            TpccKind::NewOrder,
            40,
            altered("dn", |text| (text.parse::<i64>().unwrap() + 1).to_string()),
        ),
        tampered(TpccKind::NewOrder, 1, without("l")),
        tampered(TpccKind::Payment, 1, without("wy")),
        tampered(TpccKind::Payment, 1, without("dy")),
        tampered(TpccKind::Delivery, 1, without("l")),
        tampered(TpccKind::Delivery, 1, without("n")),
    ]
    .concat();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (1..=CONDITIONS.len()).collect::<Vec<_>>());
}

#[test]
fn what_was_added_is_counted_and_what_is_lost_is_missed() {
    let count = |kind: TpccKind, lost: bool| {
        let (loaded, mut model) = loaded(2);
        assert_eq!(census(&mut model, &loaded.scale), Ok(Census::default()));
        let mut terminal = terminals(&loaded, 1).remove(0);
        for number in 0..20 {
            let before = model.clone();
            let mut transaction = terminal.make(kind, NOW);
            model.perform(&mut transaction);
            if lost && number == 7 {
                model = before;
            }
        }
        assert_eq!(violated(&mut model, &loaded), NONE);
        let Ok(counted) = census(&mut model, &loaded.scale);
        (counted.orders, counted.payments)
    };
    assert_eq!((count(TpccKind::Payment, false), count(TpccKind::Payment, true)), ((0, 20), (0, 19)));
    let (all, fewer) = (count(TpccKind::NewOrder, false), count(TpccKind::NewOrder, true));
    assert!(all.0 > 15 && all.1 == 0 && fewer == (all.0 - 1, 0), "{all:?} {fewer:?}");
}

#[test]
fn rows_that_are_gone_are_no_consistent_database() {
    let (loaded, mut model) = loaded(1);
    model.apply(&Write::Remove { key: loaded.scale.layout.account(1, 1, 1) });
    assert_eq!(violated(&mut model, &loaded), [0]);
}

#[test]
fn a_payment_by_name_finds_the_customer_in_the_middle() {
    let (loaded, mut model) = loaded(1);
    let keys = loaded.scale.layout;
    let key = keys.by_name(1, 1, "BARBARBAR");
    let ids = ["1", "2", "3", "4"].map(|id| Bytes::from_static(id.as_bytes())).to_vec();
    model.apply(&Write::Fill { key, elements: ids });
    let who = Who::LastName("BARBARBAR".into());
    let input = Input::Payment { district: 1, customer_warehouse: 1, customer_district: 1, who, amount: 100 };
    let mut transaction = TpccTransaction::new(loaded.scale, 1, NOW, input);
    let Ended::Committed(writes) = model.perform(&mut transaction) else { panic!("it commits") };
    assert!(writes.iter().any(|write| *write.key() == keys.account(1, 1, 2)));
}
