//! The same commands on a view over a store and on the keyspace in memory: the same answers, always.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quorate_api::{Reply, Request};
use quorate_kernel::Rng;
use quorate_values::model::MemorySpace;

use super::{Bench, START_MS, command};

/// A random command over a few keys, so that they meet each other in every state.
pub(super) fn draw(rng: &mut Rng) -> Vec<String> {
    const SHAPES: [&str; 46] = [
        "SET K V",
        "SET K V PX T",
        "SET K V NX",
        "SET K V KEEPTTL",
        "GET K",
        "GETDEL K",
        "GETEX K PX T",
        "APPEND K V",
        "STRLEN K",
        "INCRBY K N",
        "SETRANGE K N V",
        "GETRANGE K 0 N",
        "MSET K V K V",
        "MSETNX K V K V",
        "MGET K K K",
        "DEL K K",
        "EXISTS K K",
        "TYPE K",
        "RENAME K K",
        "RENAMENX K K",
        "COPY K K",
        "COPY K K REPLACE",
        "PEXPIRE K T",
        "PEXPIRE K T GT",
        "PERSIST K",
        "PTTL K",
        "PEXPIRETIME K",
        "RPUSH K V V V",
        "LPUSH K V V",
        "RPUSHX K V",
        "LPOP K",
        "RPOP K N",
        "LLEN K",
        "LRANGE K 0 -1",
        "LRANGE K N N",
        "LINDEX K N",
        "LSET K N V",
        "LREM K N V",
        "LTRIM K N N",
        "LINSERT K BEFORE V V",
        "LMOVE K K LEFT RIGHT",
        "LPOS K V",
        "DBSIZE",
        "KEYS *",
        "SCAN 0 COUNT 3",
        "FLUSHALL",
    ];
    let place = rng.below(SHAPES.len() as u64 * 4) as usize;
    // FLUSHALL would leave little to see if it came as often as the others.
    let shape = if place == SHAPES.len() - 1 { place } else { place % (SHAPES.len() - 1) };
    let mut word = |word: &str| match word {
        "K" => ["a", "b", "{a}c", "d", "e"][rng.below(5) as usize].to_string(),
        "V" => ["x", "y", "10", "long-enough-to-tell"][rng.below(4) as usize].to_string(),
        "N" => (rng.below(7) as i64 - 2).to_string(),
        "T" => (1_u64 << rng.below(10)).to_string(),
        other => other.to_string(),
    };
    SHAPES[shape].split(' ').map(&mut word).collect()
}

fn model_reply(model: &mut MemorySpace, words: &[String]) -> Reply {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = command(&words);
    let spec = quorate_values::by_code(command.code).expect("a command");
    (spec.run)(model, &command.args)
}

fn compare(seed: u64, steps: u64) {
    let mut rng = Rng::new(seed);
    let (mut bench, mut model) = (Bench::new(), MemorySpace::new(START_MS, 1));
    for step in 0..steps {
        if rng.chance(1, 3) {
            bench.now_ms += rng.below(200);
        }
        model.set_now_ms(bench.now_ms);
        // One to three entries of one to four requests, all in one step of the store.
        let entries: Vec<Vec<Vec<String>>> = (0..rng.between(1, 3))
            .map(|_| (0..rng.between(1, 4)).map(|_| draw(&mut rng)).collect())
            .collect();
        let request = |words: &Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Request::One(command(&words))
        };
        let requests: Vec<Vec<Request>> =
            entries.iter().map(|entry| entry.iter().map(request).collect()).collect();
        let slices: Vec<&[Request]> = requests.iter().map(Vec::as_slice).collect();
        let replies = bench.apply_all(&slices);
        let words = entries.iter().flatten();
        for (words, reply) in words.zip(replies) {
            assert_eq!(reply, model_reply(&mut model, words), "seed {seed}, step {step}: {words:?}");
        }
        // What was written is read again from the store, not from the changes above it.
        for words in [["GET", "a"], ["LLEN", "b"], ["PTTL", "d"], ["KEYS", "*"]] {
            let owned: Vec<String> = words.iter().map(ToString::to_string).collect();
            let (reply, _) = bench.read_at(bench.now_ms, &words);
            assert_eq!(reply, model_reply(&mut model, &owned), "seed {seed}, step {step}: {words:?}");
        }
    }
}

#[test]
fn a_view_answers_as_the_model_does() {
    (0..60).for_each(|seed| compare(seed, 150));
}

#[test]
fn a_large_list_answers_as_the_model_does() {
    let (mut bench, mut model) = (Bench::new(), MemorySpace::new(START_MS, 1));
    let mut both = |words: &[&str]| {
        let reply = bench.run(words);
        let owned: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(reply, model_reply(&mut model, &owned), "{words:?}");
    };
    for number in 0..500 {
        both(&["RPUSH", "big", &number.to_string()]);
        if number % 7 == 0 {
            both(&["LPUSH", "big", &(1_000 + number).to_string()]);
        }
        if number % 11 == 0 {
            both(&["LINSERT", "big", "AFTER", &(number / 2).to_string(), "between"]);
        }
    }
    for words in [
        &["LLEN", "big"][..],
        &["LRANGE", "big", "0", "-1"],
        &["LRANGE", "big", "-20", "-3"],
        &["LINDEX", "big", "333"],
        &["LREM", "big", "-5", "between"],
        &["LTRIM", "big", "100", "300"],
        &["LRANGE", "big", "0", "-1"],
        &["RENAME", "big", "other"],
        &["RPUSH", "big", "new"],
        &["LRANGE", "big", "0", "-1"],
        &["LRANGE", "other", "0", "5"],
        &["DEL", "other"],
        &["RPUSH", "other", "1", "2"],
        &["LRANGE", "other", "0", "-1"],
    ] {
        both(words);
    }
}
