//! Every workload against a toy store, with clients that take turns at random and answers that get lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use quorate_api::history::{Ending, Op, Record};
use quorate_api::{Outcome, Refusal, Reply};
use quorate_kernel::Rng;
use quorate_workload::{Client, Distribution, Kind, Operation, Request, Spec, Words, Workload};

#[derive(Debug, Clone)]
enum Held {
    Text(String),
    List(VecDeque<String>),
}

/// Just enough of Redis.
#[derive(Default)]
struct Toy {
    keys: BTreeMap<String, Held>,
    versions: BTreeMap<String, u64>,
}

impl Toy {
    fn list(&mut self, key: &str) -> &mut VecDeque<String> {
        match self.keys.entry(key.into()).or_insert_with(|| Held::List(VecDeque::new())) {
            Held::List(list) => list,
            Held::Text(text) => panic!("{key} is {text}"),
        }
    }

    fn text(&mut self, key: &str) -> &mut String {
        match self.keys.entry(key.into()).or_insert_with(|| Held::Text(String::new())) {
            Held::Text(text) => text,
            Held::List(list) => panic!("{key} is {list:?}"),
        }
    }

    fn run(&mut self, words: &Words) -> Reply {
        let texts: Vec<&str> = words.iter().map(|word| std::str::from_utf8(word).expect("text")).collect();
        let bulk = |value: Option<String>| value.map_or(Reply::Nil, Reply::bulk);
        if !matches!(texts[0], "GET" | "LRANGE") {
            texts[1..].iter().for_each(|key| *self.versions.entry((*key).into()).or_insert(0) += 1);
        }
        match texts[..] {
            ["GET", key] => match self.keys.get(key) {
                Some(Held::Text(text)) => bulk(Some(text.clone())),
                Some(Held::List(_)) => panic!("GET of a list"),
                None => Reply::Nil,
            },
            ["SET", key, value] => {
                *self.text(key) = value.into();
                Reply::Ok
            }
            ["APPEND", key, value] => {
                self.text(key).push_str(value);
                Reply::Int(self.text(key).len() as i64)
            }
            ["INCRBY", key, amount] => {
                let text = self.text(key);
                let sum = text.parse::<i64>().unwrap_or(0) + amount.parse::<i64>().expect("a number");
                *text = sum.to_string();
                Reply::Int(sum)
            }
            ["RPUSH", key, value] => {
                self.list(key).push_back(value.into());
                Reply::Int(self.list(key).len() as i64)
            }
            ["LPUSH", key, value] => {
                self.list(key).push_front(value.into());
                Reply::Int(self.list(key).len() as i64)
            }
            ["LPOP", key] => bulk(self.list(key).pop_front()),
            ["RPOP", key] => bulk(self.list(key).pop_back()),
            ["LMOVE", from, to, "LEFT", "RIGHT"] => {
                let moved = self.list(from).pop_front();
                self.list(to).extend(moved.clone());
                bulk(moved)
            }
            ["LRANGE", key, "0", "-1"] => {
                Reply::Array(self.list(key).iter().cloned().map(Reply::bulk).collect())
            }
            _ => panic!("the toy does not know {texts:?}"),
        }
    }

    fn versions(&self, keys: &[Bytes]) -> Vec<u64> {
        let name = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
        keys.iter().map(|key| self.versions.get(&name(key)).copied().unwrap_or(0)).collect()
    }
}

/// One client with its operation under way.
struct Seat {
    client: Client,
    running: Option<(Operation, u64)>,
    watched: Vec<(Bytes, u64)>,
}

fn step(toy: &mut Toy, seat: &mut Seat, faults: &mut Rng) {
    let (operation, _) = seat.running.as_mut().expect("an operation is under way");
    let request = operation.request().expect("it has a request").clone();
    if faults.chance(1, 40) {
        return operation.answered(Outcome::Refused(Refusal::NoLeader)).expect("a refusal fits");
    }
    let reply = match &request {
        Request::Command(words) => toy.run(words),
        Request::Watch(keys) => {
            seat.watched.extend(keys.iter().cloned().zip(toy.versions(keys)));
            Reply::Ok
        }
        Request::Unwatch => {
            seat.watched.clear();
            Reply::Ok
        }
        Request::Transaction { watched, commands } => {
            let held: BTreeSet<&Bytes> = seat.watched.iter().map(|(key, _)| key).collect();
            assert!(watched.iter().all(|key| held.contains(key)), "the transaction names what was watched");
            let is_current = seat
                .watched
                .iter()
                .all(|(key, version)| toy.versions(std::slice::from_ref(key)) == [*version]);
            seat.watched.clear();
            match is_current {
                true => Reply::Array(commands.iter().map(|words| toy.run(words)).collect()),
                false => Reply::NilArray,
            }
        }
    };
    let outcome = if faults.chance(1, 40) { Outcome::Unknown } else { Outcome::Done(reply) };
    operation.answered(outcome).expect("the toy answers well");
}

fn run(spec: Spec, seed: u64) -> Vec<Record> {
    let workload = Workload::new(spec).expect("a good spec");
    let mut chance = Rng::new(seed);
    let mut faults = chance.fork();
    let mut no_faults = Rng::new(0);
    let mut toy = Toy::default();
    let mut records = Vec::new();
    let mut now = 0;
    let mut alone = |toy: &mut Toy, records: &mut Vec<Record>, now: &mut u64, operation: Operation| {
        let mut seat = Seat { client: Client::new(0, Rng::new(0)), running: None, watched: Vec::new() };
        loop {
            let start = *now + 1;
            seat.running = Some((operation.clone(), start));
            while seat.running.as_ref().expect("set above").0.request().is_some() {
                step(toy, &mut seat, &mut no_faults);
                *now += 2;
            }
            let (done, _) = seat.running.take().expect("set above");
            let is_ok = done.is_ok();
            records.push(done.record(0, start, *now));
            if is_ok {
                return;
            }
        }
    };
    for operation in workload.setup() {
        alone(&mut toy, &mut records, &mut now, operation);
    }
    let seat = |id| Seat { client: Client::new(id, chance.fork()), running: None, watched: Vec::new() };
    let mut seats: Vec<Seat> = (1..=6).map(seat).collect();
    for _ in 0..3_000 {
        now += 1;
        let place = chance.below(seats.len() as u64) as usize;
        let seat = &mut seats[place];
        match &seat.running {
            None => seat.running = Some((workload.next(&mut seat.client), now)),
            Some((operation, _)) if operation.request().is_some() => step(&mut toy, seat, &mut faults),
            Some(_) => {
                let (operation, start) = seat.running.take().expect("matched");
                records.push(operation.record(seat.client.id, start, now));
                seat.watched.clear();
            }
        }
    }
    for seat in &mut seats {
        if let Some((operation, start)) = seat.running.take() {
            records.push(operation.record(seat.client.id, start, now));
        }
    }
    for operation in workload.finish() {
        alone(&mut toy, &mut records, &mut now, operation);
    }
    records
}

fn specs() -> impl Iterator<Item = Spec> {
    Kind::ALL.into_iter().flat_map(|kind| {
        [Distribution::Uniform, Distribution::Zipf { skew: 0.9 }]
            .map(|distribution| Spec { distribution, ..Spec::new(kind) })
    })
}

#[test]
fn every_kind_runs_and_the_same_seed_gives_the_same_history() {
    for spec in specs() {
        let name = spec.kind.name();
        let records = run(spec.clone(), 7);
        assert_eq!(records, run(spec.clone(), 7), "{name}");
        assert_ne!(records, run(spec, 8), "{name}");
        let count = |ending| records.iter().filter(|record| record.outcome == ending).count();
        assert!(count(Ending::Ok) > 200, "{name}: {} acknowledged", count(Ending::Ok));
        assert!(count(Ending::Fail) > 5 && count(Ending::Unknown) > 5, "{name}");
        assert!(records.iter().all(|record| (record.outcome == Ending::Unknown) == record.end.is_none()));
        assert!(records.iter().any(|record| record.is_final), "{name}");
    }
}

#[test]
fn acknowledged_records_have_their_results_and_values_are_unique() {
    for spec in specs() {
        let (mut written, is_ring) = (BTreeSet::new(), spec.kind == Kind::Cycle);
        for record in run(spec, 3) {
            for op in &record.ops {
                let text = serde_json::to_value(op).expect("json");
                let plain = matches!(op, Op::Write { .. }) || matches!(op, Op::Append { result: None, .. });
                assert!(record.outcome != Ending::Ok || plain || text.get("result").is_some(), "{op:?}");
                if let (Op::Write { .. } | Op::Cas { .. } | Op::Append { .. } | Op::Prepend { .. }, false) =
                    (op, is_ring)
                {
                    assert!(written.insert(text["value"].to_string()), "{op:?} writes a value again");
                }
            }
        }
    }
}

#[test]
fn transfers_do_not_overdraw() {
    for record in run(Spec::new(Kind::Bank), 5) {
        for op in record.ops {
            let Op::Count { result: Some(balance), .. } = op else { continue };
            assert!(balance >= 0);
        }
    }
}

#[test]
fn nonsense_is_a_surprise() {
    let workload =
        Workload::new(Spec { read_percent: 100, ..Spec::new(Kind::Register) }).expect("a good spec");
    let mut client = Client::new(1, Rng::new(1));
    for reply in [Reply::Int(3), Reply::error("WRONGTYPE Operation against a key"), Reply::Array(Vec::new())]
    {
        let mut operation = workload.next(&mut client);
        let surprise = operation.answered(Outcome::Done(reply.clone())).expect_err("GET is not answered so");
        assert_eq!(surprise.reply, reply);
        assert_eq!(operation.record(1, 0, 1).outcome, Ending::Unknown);
    }
}

#[test]
fn error_replies_are_sorted() {
    let workload = Workload::new(Spec { read_percent: 0, ..Spec::new(Kind::Register) }).expect("a good spec");
    let mut client = Client::new(1, Rng::new(1));
    for (message, expected) in [
        (quorate_api::UNKNOWN_MESSAGE, Ending::Unknown),
        (Refusal::NoLeader.message(), Ending::Fail),
        (Refusal::NoMemory.message(), Ending::Fail),
        (Refusal::TooLarge.message(), Ending::Fail),
    ] {
        let mut operation = workload.next(&mut client);
        operation.answered(Outcome::Done(Reply::error(message))).expect("an answer of ours");
        assert_eq!(operation.record(1, 0, 1).outcome, expected, "{message}");
    }
}
