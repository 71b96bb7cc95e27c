//! Histories of a store that really executes one operation after the other, and a naive judge of small ones.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

use std::collections::BTreeMap;

use quorate_api::history::{Ending, Op, Record};

/// Chance that repeats (SplitMix64); the checker's tests depend on nothing that the checker does not.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    Register(Option<String>),
    Counter(i64),
    List(Vec<String>),
}

pub type Store = BTreeMap<String, Held>;

fn register<'s>(store: &'s mut Store, key: &str) -> &'s mut Option<String> {
    match store.entry(key.into()).or_insert(Held::Register(None)) {
        Held::Register(value) => value,
        other => panic!("{key} is {other:?}"),
    }
}

fn counter<'s>(store: &'s mut Store, key: &str) -> &'s mut i64 {
    match store.entry(key.into()).or_insert(Held::Counter(0)) {
        Held::Counter(sum) => sum,
        other => panic!("{key} is {other:?}"),
    }
}

fn list<'s>(store: &'s mut Store, key: &str) -> &'s mut Vec<String> {
    match store.entry(key.into()).or_insert(Held::List(Vec::new())) {
        Held::List(list) => list,
        other => panic!("{key} is {other:?}"),
    }
}

/// Executes `op` and gives it back with the results it really has.
pub fn execute(store: &mut Store, op: &Op) -> Op {
    let mut done = op.clone();
    match &mut done {
        Op::Read { key, result } => *result = Some(register(store, key).clone()),
        Op::Write { key, value } => *register(store, key) = value.clone(),
        Op::Cas { key, expect, value, result } => {
            let held = register(store, key);
            *result = Some(*held == *expect);
            if *held == *expect {
                *held = Some(value.clone());
            }
        }
        Op::Add { key, amount, result } => {
            *counter(store, key) += *amount;
            *result = Some(*counter(store, key));
        }
        Op::Count { key, result } => *result = Some(*counter(store, key)),
        Op::Append { key, value, result } => {
            list(store, key).push(value.clone());
            *result = Some(list(store, key).len() as u64);
        }
        Op::Prepend { key, value, result } => {
            list(store, key).insert(0, value.clone());
            *result = Some(list(store, key).len() as u64);
        }
        Op::List { key, result } => *result = Some(list(store, key).clone()),
        Op::PopFront { key, result } => {
            let held = list(store, key);
            *result = Some(if held.is_empty() { None } else { Some(held.remove(0)) });
        }
        Op::PopBack { key, result } => *result = Some(list(store, key).pop()),
        Op::Move { key, to, result } => {
            let held = list(store, key);
            let moved = if held.is_empty() { None } else { Some(held.remove(0)) };
            list(store, to).extend(moved.clone());
            *result = Some(moved);
        }
    }
    done
}

/// Whether `done`, with the results it claims, can happen in `store`.
fn can_happen(store: &mut Store, done: &Op) -> bool {
    let real = execute(store, done);
    // A result that nobody knows fits.
    let mut claimed = done.clone();
    match (&mut claimed, &real) {
        (Op::Read { result, .. }, Op::Read { result: is, .. })
        | (Op::PopFront { result, .. }, Op::PopFront { result: is, .. })
        | (Op::PopBack { result, .. }, Op::PopBack { result: is, .. })
        | (Op::Move { result, .. }, Op::Move { result: is, .. }) => {
            _ = result.get_or_insert(is.clone().flatten())
        }
        (Op::Cas { result, .. }, Op::Cas { result: is, .. }) => _ = result.get_or_insert(is.unwrap_or(false)),
        (Op::Add { result, .. }, Op::Add { result: is, .. })
        | (Op::Count { result, .. }, Op::Count { result: is, .. }) => {
            _ = result.get_or_insert(is.unwrap_or(0))
        }
        (Op::Append { result, .. }, Op::Append { result: is, .. })
        | (Op::Prepend { result, .. }, Op::Prepend { result: is, .. }) => {
            _ = result.get_or_insert(is.unwrap_or(0));
        }
        (Op::List { result, .. }, Op::List { result: is, .. }) => {
            _ = result.get_or_insert_with(|| is.clone().unwrap_or_default());
        }
        _ => {}
    }
    claimed == real
}

/// Tries every order. For a handful of records only.
pub fn naive_is_linearizable(records: &[Record]) -> bool {
    let alive: Vec<&Record> = records.iter().filter(|record| record.outcome != Ending::Fail).collect();
    naive_from(&alive, 0, &Store::new())
}

fn naive_from(records: &[&Record], placed: u32, store: &Store) -> bool {
    let is_open = |place: &usize| placed >> place & 1 == 0;
    let end = |record: &Record| match record.outcome {
        Ending::Ok => record.end.expect("ok records have an end"),
        _ => u64::MAX,
    };
    let open: Vec<usize> = (0..records.len()).filter(is_open).collect();
    if open.iter().all(|place| records[*place].outcome == Ending::Unknown) {
        return true;
    }
    open.iter().any(|place| {
        let record = records[*place];
        if open.iter().any(|other| end(records[*other]) < record.start) {
            return false;
        }
        let mut after = store.clone();
        record.ops.iter().all(|op| can_happen(&mut after, op))
            && naive_from(records, placed | 1 << place, &after)
    })
}

/// How a random history is to look.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub clients: u64,
    pub records: usize,
    pub keys: u64,
    pub unknown_percent: u64,
    pub kind: Flavour,
}

/// What a random history does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Reads and writes.
    Register,
    /// Reads, writes and swaps.
    Cas,
    /// Additions and reads.
    Counter,
    /// Appends and reads of lists.
    Append,
    /// Pushes at both ends, pops, reads.
    List,
    /// Pushes and moves between lists.
    Move,
    /// Transactions that append and read.
    Transactions,
}

pub const FLAVOURS: [Flavour; 7] = [
    Flavour::Register,
    Flavour::Cas,
    Flavour::Counter,
    Flavour::Append,
    Flavour::List,
    Flavour::Move,
    Flavour::Transactions,
];

/// A history of clients whose requests really take effect at one instant between start and end. A request of unknown
/// outcome takes effect then, much later, or never.
pub fn linearizable(shape: Shape, chance: &mut Chance) -> Vec<Record> {
    let mut planned: Vec<(u64, Record)> = Vec::new();
    let mut clocks = vec![0_u64; shape.clients as usize];
    for number in 0..shape.records {
        let client = (0..clocks.len()).min_by_key(|c| clocks[*c]).expect("there are clients");
        let start = clocks[client] + 1 + chance.below(20);
        let mut effect = start + chance.below(30);
        let end = effect + chance.below(30);
        let is_unknown = chance.percent(shape.unknown_percent);
        if is_unknown && chance.percent(60) {
            effect += chance.below(2_000);
        }
        let never = is_unknown && chance.percent(30);
        let count = if shape.kind == Flavour::Transactions { 1 + chance.below(3) } else { 1 };
        let ops = (0..count).map(|step| random_op(shape, number as u64 * 10 + step, chance)).collect();
        let outcome = match is_unknown {
            true => Ending::Unknown,
            false if chance.percent(3) => Ending::Fail,
            false => Ending::Ok,
        };
        let record = Record {
            client: client as u64,
            start,
            end: (!is_unknown).then_some(end),
            outcome,
            ops,
            is_final: false,
        };
        clocks[client] = end;
        planned.push((if never { u64::MAX } else { effect }, record));
    }
    planned.sort_by_key(|(effect, _)| *effect);
    let mut store = Store::new();
    for (effect, record) in &mut planned {
        if record.outcome == Ending::Fail || *effect == u64::MAX {
            continue;
        }
        let known = record.outcome == Ending::Ok;
        for op in &mut record.ops {
            aim(&store, op, chance);
            let done = execute(&mut store, op);
            if known {
                *op = done;
            }
        }
    }
    planned.sort_by_key(|(_, record)| record.start);
    planned.into_iter().map(|(_, record)| record).collect()
}

/// Lets half of the swaps expect what is there.
fn aim(store: &Store, op: &mut Op, chance: &mut Chance) {
    if let Op::Cas { key, expect, .. } = op
        && chance.percent(60)
    {
        *expect = match store.get(key) {
            Some(Held::Register(value)) => value.clone(),
            _ => None,
        };
    }
}

fn random_op(shape: Shape, number: u64, chance: &mut Chance) -> Op {
    let key = format!("k{}", chance.below(shape.keys));
    let value = format!("v{number}");
    let is_read = chance.percent(50);
    match shape.kind {
        Flavour::Register | Flavour::Cas if is_read => Op::Read { key, result: None },
        Flavour::Cas if chance.percent(50) => {
            let expect = Some(format!("v{}", number.saturating_sub(10 * chance.below(6))));
            Op::Cas { key, expect, value, result: None }
        }
        Flavour::Register | Flavour::Cas => Op::Write { key, value: Some(value) },
        Flavour::Counter if is_read => Op::Count { key, result: None },
        Flavour::Counter => Op::Add { key, amount: 1 + chance.below(2) as i64, result: None },
        Flavour::Append | Flavour::Transactions if is_read => Op::List { key, result: None },
        Flavour::Append | Flavour::Transactions => Op::Append { key, value, result: None },
        Flavour::List | Flavour::Move => match chance.below(6) {
            0 => Op::List { key, result: None },
            1 if shape.kind == Flavour::Move => {
                Op::Move { key, to: format!("k{}", chance.below(shape.keys)), result: None }
            }
            1 => Op::Prepend { key, value, result: None },
            2 => Op::PopFront { key, result: None },
            3 => Op::PopBack { key, result: None },
            _ => Op::Append { key, value, result: None },
        },
    }
}

/// Makes one random change that a correct store would hardly have caused. False if there was nothing to change.
pub fn damage(records: &mut Vec<Record>, chance: &mut Chance) -> bool {
    let place = chance.below(records.len() as u64) as usize;
    let other = chance.below(records.len() as u64) as usize;
    let foreign = records[other].ops[0].clone();
    let record = &mut records[place];
    if record.outcome != Ending::Ok {
        return false;
    }
    match &mut record.ops[0] {
        Op::Read { result: Some(result), .. }
        | Op::PopFront { result: Some(result), .. }
        | Op::PopBack { result: Some(result), .. } => match foreign {
            Op::Write { value, .. } => *result = value,
            Op::Append { value, .. } => *result = Some(value),
            _ => *result = None,
        },
        Op::Cas { result: Some(result), .. } => *result = !*result,
        Op::Add { result: Some(result), .. } | Op::Count { result: Some(result), .. } => *result += 1,
        Op::List { result: Some(result), .. } if !result.is_empty() => {
            let at = chance.below(result.len() as u64) as usize;
            if chance.percent(50) {
                result.remove(at);
            } else {
                result.swap(0, at);
            }
        }
        Op::Write { .. } | Op::Append { .. } | Op::Prepend { .. } | Op::Move { .. } => {
            _ = records.remove(place);
        }
        _ => return false,
    }
    true
}
