//! Drawn sequences of list and string commands against the plainest model there is.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use quorate_api::Reply;
use quorate_values::model::MemorySpace;
use quorate_values::{Kind, Space, find};

/// Chance that repeats (xorshift64*, Vigna 2016).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// A position in or near a list of `count` elements, from either end.
    fn position(&mut self, count: usize) -> i64 {
        self.below(2 * count as u64 + 6) as i64 - count as i64 - 3
    }

    fn value(&mut self) -> String {
        self.below(6).to_string()
    }
}

fn run(space: &mut MemorySpace, words: &[&str]) -> Reply {
    let spec = find(words[0].as_bytes()).unwrap();
    let args: Vec<Bytes> = words[1..].iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    assert!(spec.arity.allows(words.len()));
    (spec.run)(space, &args)
}

fn bulk(text: &str) -> Reply {
    Reply::bulk(text.to_owned())
}

fn bulks(texts: impl IntoIterator<Item = String>) -> Reply {
    Reply::Array(texts.into_iter().map(|text| bulk(&text)).collect())
}

/// The half-open range that LRANGE means, written down in another way than in the code.
fn range(count: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    let inside: Vec<usize> = (0..count)
        .filter(|place| {
            let (forth, back) = (*place as i64, *place as i64 - count as i64);
            (if start < 0 { back >= start } else { forth >= start })
                && (if end < 0 { back <= end } else { forth <= end })
        })
        .collect();
    inside.first().map_or(0..0, |first| *first..inside[inside.len() - 1] + 1)
}

fn at(list: &VecDeque<String>, position: i64) -> Option<usize> {
    let place = if position < 0 { position + list.len() as i64 } else { position };
    usize::try_from(place).ok().filter(|place| *place < list.len())
}

type Model = BTreeMap<String, VecDeque<String>>;

fn check(space: &mut MemorySpace, model: &Model) {
    assert_eq!(space.key_count(), model.len() as u64);
    for (key, list) in model {
        assert_eq!(run(space, &["LRANGE", key, "0", "-1"]), bulks(list.iter().cloned()), "{key}");
        assert_eq!(run(space, &["LLEN", key]), Reply::Int(list.len() as i64));
        assert_eq!(space.row_count(key.as_bytes()), list.len(), "{key} has rows beside its elements");
        for (place, element) in list.iter().enumerate() {
            assert_eq!(run(space, &["LINDEX", key, &place.to_string()]), bulk(element));
        }
    }
}

/// Commands that push, pop and move.
fn step_ends(draw: &mut Draw, space: &mut MemorySpace, model: &mut Model, key: &str, other: &str) {
    let list = model.entry(key.into()).or_default();
    let left = draw.below(2) == 0;
    match draw.below(4) {
        0 | 1 => {
            let values: Vec<String> = (0..=draw.below(5)).map(|_| draw.value()).collect();
            let mut words = vec![if left { "LPUSH" } else { "RPUSH" }, key];
            words.extend(values.iter().map(String::as_str));
            for value in &values {
                if left { list.push_front(value.clone()) } else { list.push_back(value.clone()) }
            }
            assert_eq!(run(space, &words), Reply::Int(list.len() as i64));
        }
        2 => {
            let count = draw.below(6).to_string();
            let reply = run(space, &[if left { "LPOP" } else { "RPOP" }, key, &count]);
            if list.is_empty() {
                assert_eq!(reply, Reply::NilArray);
            } else {
                let mut popped = Vec::new();
                for _ in 0..count.parse().unwrap() {
                    popped.extend(if left { list.pop_front() } else { list.pop_back() });
                }
                assert_eq!(reply, bulks(popped));
            }
        }
        _ => {
            let to_left = draw.below(2) == 0;
            let word = |left| if left { "LEFT" } else { "RIGHT" };
            let reply = run(space, &["LMOVE", key, other, word(left), word(to_left)]);
            match if left { list.pop_front() } else { list.pop_back() } {
                None => assert_eq!(reply, Reply::Nil),
                Some(value) => {
                    assert_eq!(reply, bulk(&value));
                    let target = model.entry(other.into()).or_default();
                    if to_left { target.push_front(value) } else { target.push_back(value) }
                }
            }
        }
    }
}

/// Commands that change the middle.
fn step_middle(draw: &mut Draw, space: &mut MemorySpace, list: &mut VecDeque<String>, key: &str) {
    let value = draw.value();
    match draw.below(4) {
        0 => {
            // Trims that take little come often, lest the lists stay short.
            let (start, end) = match draw.below(3) {
                0 => (draw.position(list.len()), draw.position(list.len())),
                1 => (draw.below(3) as i64, -1),
                _ => (0, -1 - draw.below(3) as i64),
            };
            assert_eq!(run(space, &["LTRIM", key, &start.to_string(), &end.to_string()]), Reply::Ok);
            let kept = range(list.len(), start, end);
            *list = list.range(kept).cloned().collect();
        }
        1 => {
            let count = draw.below(7) as i64 - 3;
            let matches = list.iter().filter(|element| **element == value).count();
            let limit = if count == 0 { matches } else { matches.min(count.unsigned_abs() as usize) };
            for _ in 0..limit {
                let place = if count < 0 {
                    list.iter().rposition(|element| *element == value)
                } else {
                    list.iter().position(|element| *element == value)
                };
                list.remove(place.unwrap());
            }
            assert_eq!(run(space, &["LREM", key, &count.to_string(), &value]), Reply::Int(limit as i64));
        }
        2 => {
            let after = draw.below(2) == 0;
            let reply = run(space, &["LINSERT", key, if after { "AFTER" } else { "BEFORE" }, &value, "new"]);
            match list.iter().position(|element| *element == value) {
                Some(place) => {
                    list.insert(place + usize::from(after), "new".into());
                    assert_eq!(reply, Reply::Int(list.len() as i64));
                }
                None => assert_eq!(reply, Reply::Int(if list.is_empty() { 0 } else { -1 })),
            }
        }
        _ => {
            let position = draw.position(list.len());
            let reply = run(space, &["LSET", key, &position.to_string(), &value]);
            match at(list, position) {
                Some(place) => {
                    list[place] = value;
                    assert_eq!(reply, Reply::Ok);
                }
                None => assert!(matches!(reply, Reply::Error(_))),
            }
        }
    }
}

/// Commands that only look, and those that name keys.
fn step_rest(draw: &mut Draw, space: &mut MemorySpace, model: &mut Model, key: &str, other: &str) {
    let list = model.entry(key.into()).or_default();
    match draw.below(4) {
        0 => {
            let (start, end) = (draw.position(list.len()), draw.position(list.len()));
            let expected = bulks(list.range(range(list.len(), start, end)).cloned());
            assert_eq!(run(space, &["LRANGE", key, &start.to_string(), &end.to_string()]), expected);
        }
        1 => {
            let (value, reverse) = (draw.value(), draw.below(2) == 0);
            let (rank, count) = (1 + draw.below(3) as usize, draw.below(4) as usize);
            let mut places: Vec<usize> = (0..list.len()).filter(|place| list[*place] == value).collect();
            if reverse {
                places.reverse();
            }
            let count_max = if count == 0 { usize::MAX } else { count };
            let expected = places.into_iter().skip(rank - 1).take(count_max);
            let expected = Reply::Array(expected.map(|place| Reply::Int(place as i64)).collect());
            let rank = if reverse { format!("-{rank}") } else { rank.to_string() };
            let reply = run(space, &["LPOS", key, &value, "RANK", &rank, "COUNT", &count.to_string()]);
            assert_eq!(reply, expected);
        }
        2 if key != other && !list.is_empty() => {
            let list = model.remove(key).unwrap();
            assert_eq!(run(space, &["RENAME", key, other]), Reply::Ok);
            model.insert(other.into(), list);
        }
        3 if key != other && !list.is_empty() => {
            let list = list.clone();
            assert_eq!(run(space, &["COPY", key, other, "REPLACE"]), Reply::Int(1));
            model.insert(other.into(), list);
        }
        _ => {}
    }
}

#[test]
fn lists_behave_as_double_ended_queues() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let mut longest = 0;
    for seed in 1..=60 {
        let mut draw = Draw(seed * 0x9e37_79b9);
        let mut space = MemorySpace::new(1, seed);
        let mut model = Model::new();
        for _ in 0..300 {
            let key = KEYS[draw.below(3) as usize];
            let other = KEYS[draw.below(3) as usize];
            match draw.below(4) {
                0 | 1 => step_ends(&mut draw, &mut space, &mut model, key, other),
                2 => step_middle(&mut draw, &mut space, model.entry(key.into()).or_default(), key),
                _ => step_rest(&mut draw, &mut space, &mut model, key, other),
            }
            model.retain(|_, list| !list.is_empty());
            longest = longest.max(model.values().map(VecDeque::len).max().unwrap_or(0));
            check(&mut space, &model);
        }
    }
    assert!(longest > 20, "the lists stayed short: {longest}");
}

#[test]
fn lists_longer_than_one_read_work_as_well() {
    const COUNT: usize = 1_000;
    let mut space = MemorySpace::new(1, 1);
    let values: Vec<String> = (0..COUNT).map(|value| value.to_string()).collect();
    let mut words = vec!["RPUSH", "l"];
    words.extend(values.iter().map(String::as_str));
    assert_eq!(run(&mut space, &words), Reply::Int(COUNT as i64));
    let mut model = Model::from([("l".to_owned(), VecDeque::from(values))]);
    check(&mut space, &model);

    assert_eq!(run(&mut space, &["COPY", "l", "m"]), Reply::Int(1));
    model.insert("m".into(), model["l"].clone());
    assert_eq!(run(&mut space, &["LINSERT", "l", "BEFORE", "700", "x"]), Reply::Int(1_001));
    assert_eq!(run(&mut space, &["LINSERT", "l", "AFTER", "300", "y"]), Reply::Int(1_002));
    assert_eq!(run(&mut space, &["LREM", "l", "-1", "600"]), Reply::Int(1));
    assert_eq!(run(&mut space, &["LREM", "l", "1", "400"]), Reply::Int(1));
    assert_eq!(run(&mut space, &["LPOS", "m", "5", "RANK", "-1"]), Reply::Int(5));
    assert_eq!(run(&mut space, &["LTRIM", "m", "10", "-400"]), Reply::Ok);
    let list = model.get_mut("l").unwrap();
    list.insert(700, "x".into());
    list.insert(301, "y".into());
    list.retain(|value| value != "400" && value != "600");
    let trimmed = model["m"].range(10..601).cloned().collect();
    model.insert("m".into(), trimmed);
    check(&mut space, &model);

    // Fewer stay than go.
    assert_eq!(run(&mut space, &["LTRIM", "m", "0", "299"]), Reply::Ok);
    assert_eq!(run(&mut space, &["LTRIM", "m", "3", "9"]), Reply::Ok);
    model.insert("m".into(), (13..20).map(|value| value.to_string()).collect());
    check(&mut space, &model);
}

/// How many changes a command makes.
fn cost(space: &mut MemorySpace, words: &[&str]) -> u64 {
    let before = space.changes();
    let reply = run(space, words);
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    space.changes() - before
}

#[test]
fn changes_cost_what_they_touch_and_not_the_whole_list() {
    let mut space = MemorySpace::new(1, 1);
    let values: Vec<String> = (0..500).map(|value| value.to_string()).collect();
    let mut words = vec!["RPUSH", "l"];
    words.extend(values.iter().map(String::as_str));
    assert_eq!(cost(&mut space, &words), 501);
    for words in [
        &["LPUSH", "l", "x"][..],
        &["RPUSH", "l", "x"],
        &["LPOP", "l"],
        &["RPOP", "l"],
        &["LSET", "l", "250", "x"],
    ] {
        assert_eq!(cost(&mut space, words), 2, "{words:?}");
    }
    assert_eq!(cost(&mut space, &["LMOVE", "l", "l", "LEFT", "RIGHT"]), 3);
    assert!(cost(&mut space, &["LINSERT", "l", "AFTER", "490", "x"]) < 20);
    assert!(cost(&mut space, &["LINSERT", "l", "BEFORE", "10", "x"]) < 20);
    assert!(cost(&mut space, &["LREM", "l", "0", "15"]) < 30);
    assert!(cost(&mut space, &["LREM", "l", "0", "480"]) < 40);
    assert_eq!(cost(&mut space, &["LTRIM", "l", "5", "-5"]), 10);
    assert!(cost(&mut space, &["LTRIM", "l", "0", "2"]) < 10);
    assert_eq!(cost(&mut space, &["DEL", "l"]), 1);
}

#[test]
fn a_key_changes_its_type_only_by_losing_its_rows() {
    let mut space = MemorySpace::new(1, 1);
    run(&mut space, &["RPUSH", "k", "a", "b"]);
    assert_eq!(run(&mut space, &["SET", "k", "v"]), Reply::Ok);
    assert_eq!((space.row_count(b"k"), space.get(b"k").unwrap().kind), (0, Kind::String));
    run(&mut space, &["DEL", "k"]);
    run(&mut space, &["RPUSH", "k", "c"]);
    assert_eq!(run(&mut space, &["LRANGE", "k", "0", "-1"]), bulks(["c".to_owned()]));
}

#[test]
fn strings_behave_as_byte_vectors() {
    let mut draw = Draw(99);
    let mut space = MemorySpace::new(1, 1);
    let mut model: Vec<u8> = Vec::new();
    for _ in 0..3_000 {
        match draw.below(5) {
            0 => {
                let value = "x".repeat(draw.below(4) as usize) + &draw.value();
                model.extend_from_slice(value.as_bytes());
                assert_eq!(run(&mut space, &["APPEND", "k", &value]), Reply::Int(model.len() as i64));
            }
            1 => {
                let (start, value) = (draw.below(model.len() as u64 + 4) as usize, draw.value());
                model.resize(model.len().max(start + value.len()), 0);
                model[start..start + value.len()].copy_from_slice(value.as_bytes());
                let reply = run(&mut space, &["SETRANGE", "k", &start.to_string(), &value]);
                assert_eq!(reply, Reply::Int(model.len() as i64));
            }
            2 => {
                let (start, end) = (draw.below(20) as usize, draw.below(20) as usize);
                let expected = model.get(start..(end + 1).min(model.len())).unwrap_or(&[]);
                let reply = run(&mut space, &["GETRANGE", "k", &start.to_string(), &end.to_string()]);
                assert_eq!(reply, Reply::bulk(expected.to_vec()));
            }
            3 if model.len() > 40 => {
                model = draw.value().into_bytes();
                let value = String::from_utf8(model.clone()).unwrap();
                assert_eq!(run(&mut space, &["SET", "k", &value]), Reply::Ok);
            }
            _ => assert_eq!(run(&mut space, &["STRLEN", "k"]), Reply::Int(model.len() as i64)),
        }
    }
}
