//! Measures the checkers on large histories of a store that behaves, one JSON object a line:
//! `cargo run --release --package quorate-checker --example measure COMMIT >> docs/results/checker.jsonl`.

use std::collections::HashMap;
use std::time::Instant;

use quorate_api::history::{Check, Ending, Op, Record};
use quorate_checker::{History, check};

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Register,
    Swap,
    Counter,
    List,
}

/// `records` requests of 64 clients; every `hot`-th goes to key 0, one in 200 has no answer.
fn history(what: What, records: u64, keys: u64, hot: u64) -> Vec<Record> {
    let mut chance = Chance(1);
    let mut planned = Vec::new();
    let mut clocks = [0_u64; 64];
    for number in 0..records {
        let client = (number % 64) as usize;
        let start = clocks[client] + 1 + chance.below(50);
        let mut effect = start + chance.below(200);
        let end = effect + chance.below(200);
        clocks[client] = end;
        let is_unknown = chance.below(200) == 0;
        if is_unknown {
            effect += chance.below(2_000);
        }
        let key = if chance.below(hot) == 0 { 0 } else { chance.below(keys) };
        planned.push((effect, number, client as u64, key, start, end, is_unknown));
    }
    planned.sort_unstable();
    let mut registers: HashMap<u64, String> = HashMap::new();
    let mut counters: HashMap<u64, i64> = HashMap::new();
    let mut lists: HashMap<u64, Vec<String>> = HashMap::new();
    let execute = |(_, number, client, key, start, end, is_unknown): (u64, u64, u64, u64, u64, u64, bool)| {
        let (reads, value, name) = (chance.below(2) == 0, number.to_string(), format!("k{key}"));
        let mut op = match what {
            What::Register | What::Swap if reads => {
                Op::Read { key: name, result: Some(registers.get(&key).cloned()) }
            }
            What::Swap => {
                let expect = registers.insert(key, value.clone());
                Op::Cas { key: name, expect, value, result: Some(true) }
            }
            What::Register => {
                registers.insert(key, value.clone());
                Op::Write { key: name, value: Some(value) }
            }
            What::Counter if reads => {
                Op::Count { key: name, result: Some(*counters.entry(key).or_default()) }
            }
            What::Counter => {
                let sum = counters.entry(key).or_default();
                *sum += 1;
                Op::Add { key: name, amount: 1, result: Some(*sum) }
            }
            What::List if reads => {
                Op::List { key: name, result: Some(lists.entry(key).or_default().clone()) }
            }
            What::List => {
                lists.entry(key).or_default().push(value.clone());
                Op::Append { key: name, value, result: None }
            }
        };
        if is_unknown && let Op::Add { result, .. } = &mut op {
            *result = None;
        }
        let outcome = if is_unknown { Ending::Unknown } else { Ending::Ok };
        let end = (!is_unknown).then_some(end);
        Record { client, start, end, outcome, ops: vec![op], is_final: false }
    };
    planned.into_iter().map(execute).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let commit = std::env::args().nth(1).ok_or("the commit that is measured is missing")?;
    let cold = u64::MAX;
    for (name, what, records, keys, hot, of) in [
        ("register, 10,000 keys", What::Register, 1_000_000, 10_000, cold, Check::Linear),
        ("register, a tenth on one key", What::Register, 1_000_000, 10_000, 10, Check::Linear),
        ("swap, 10,000 keys", What::Swap, 1_000_000, 10_000, cold, Check::Linear),
        ("swap, a tenth on one key", What::Swap, 1_000_000, 10_000, 10, Check::Linear),
        ("counter, 10,000 keys", What::Counter, 1_000_000, 10_000, cold, Check::Linear),
        ("counter, a tenth on one key", What::Counter, 1_000_000, 10_000, 10, Check::Linear),
        ("list, 10,000 keys", What::List, 1_000_000, 10_000, cold, Check::Linear),
        ("list, 10,000 keys", What::List, 1_000_000, 10_000, cold, Check::Serial),
        ("register, 10,000 keys", What::Register, 1_000_000, 10_000, cold, Check::Session),
    ] {
        let history = History::from_records(history(what, records, keys, hot))?;
        let begun = Instant::now();
        let report = check(&history, of);
        let seconds = (begun.elapsed().as_secs_f64() * 100.0).round() / 100.0;
        let line = serde_json::json!({
            "what": "checker", "commit": commit, "history": name, "records": records, "report": report.to_string(), "seconds": seconds,
        });
        println!("{line}");
    }
    Ok(())
}
