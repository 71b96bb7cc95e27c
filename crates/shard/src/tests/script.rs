//! Commands over values that several shards lend answer and change what they would in one shard.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use quorate_api::{Bucket, Command, Reply, Request};
use quorate_commit::LogId;
use quorate_kernel::Rng;
use quorate_store::Store as _;
use quorate_values::{Effect, Need, by_code, needs_of};

use super::metamorphic::draw;
use super::{AREA, Bench, START_MS, command, request};
use crate::part::{Decision, Export, Part, Sight};
use crate::script::evaluate;
use crate::sessions::Limits;
use crate::view::View;

const SHARDS: NonZeroU16 = NonZeroU16::new(3).expect("it is above zero");

/// Several shards, and one that holds what they hold together.
struct Several {
    shards: BTreeMap<LogId, Bench>,
    one: Bench,
}

impl Several {
    fn new() -> Self {
        let shards = (0..SHARDS.get()).map(|shard| {
            let limits = Limits { ring_end: Bucket(shard).ring_end(SHARDS), ..Limits::production() };
            (LogId(shard.into()), Bench { limits, ..Bench::new() })
        });
        Several { shards: shards.collect(), one: Bench::new() }
    }

    fn time_goes_on(&mut self, ms: u64) {
        self.one.now_ms += ms;
        self.one.apply(&[]);
        for bench in self.shards.values_mut() {
            bench.now_ms += ms;
            bench.apply(&[]);
        }
    }

    /// The same in one shard and, as a script, in several. The replies of both.
    fn run(&mut self, lines: &[Vec<String>]) -> (Vec<Reply>, Option<Vec<Reply>>) {
        let lines: Vec<Vec<&str>> =
            lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
        let requests: Vec<Request> = lines.iter().map(|line| request(line)).collect();
        let script: Vec<(u32, Command)> = (1..).zip(lines.iter().map(|line| command(line))).collect();
        let parts = parts_of(&script);
        let mut exports = BTreeMap::new();
        for (log, bench) in &self.shards {
            let Some(export) = export(bench, &parts[log]) else { return (Vec::new(), None) };
            exports.insert(*log, export);
        }
        let Some(decision) = evaluate(LogId(0), &script, exports, &Limits::production()) else {
            return (Vec::new(), None);
        };
        let bytes = decision.clone().encode();
        assert_eq!(Decision::decode(&bytes), Ok(decision.clone()), "decisions come back");
        for (log, bench) in &mut self.shards {
            carry_out(bench, &decision, *log);
        }
        let replies = decision.replies.into_iter().map(|(_, reply)| reply).collect();
        (self.one.apply(&requests), Some(replies))
    }

    /// Compares all that can be seen of the keys.
    fn compare(&mut self, keys: &[&str], what: &str) {
        for key in keys {
            let log = LogId(Bucket::of_key(key.as_bytes(), SHARDS).0.into());
            for words in
                [&["GET", key][..], &["LRANGE", key, "0", "-1"], &["LINDEX", key, "0"], &["PEXPIRETIME", key]]
            {
                let one = self.one.read_at(self.one.now_ms, words).0;
                let bench = self.shards.get(&log).expect("all are there");
                assert_eq!(bench.read_at(bench.now_ms, words).0, one, "{words:?} after {what}");
            }
        }
        let keys: u64 = self.shards.values().map(|bench| bench.state.keys).sum();
        let expiring: u64 = self.shards.values().map(|bench| bench.state.expiring).sum();
        assert_eq!((keys, expiring), (self.one.state.keys, self.one.state.expiring), "after {what}");
    }
}

/// What each shard lends, as a node asks for it.
fn parts_of(script: &[(u32, Command)]) -> BTreeMap<LogId, Part> {
    let mut needs: BTreeMap<Bytes, Need> = BTreeMap::new();
    let mut sight = None;
    for (_, command) in script {
        let spec = by_code(command.code).expect("a command");
        for (key, need) in needs_of(spec, &command.args) {
            let known = needs.entry(key).or_default();
            *known = known.and(need);
        }
        if spec.spans_keyspace() {
            sight = Some(Sight { names: true, clears: spec.effect == Effect::Write });
        }
    }
    let mut parts: BTreeMap<LogId, Part> =
        (0..SHARDS.get()).map(|log| (LogId(log.into()), Part { sight, ..Part::default() })).collect();
    for (key, need) in needs {
        let log = LogId(Bucket::of_key(&key, SHARDS).0.into());
        parts.get_mut(&log).expect("all are there").lends.push((key, need));
    }
    parts
}

fn export(bench: &Bench, part: &Part) -> Option<Export> {
    let mut view = View::reading(&bench.store, &bench.limits, AREA, bench.state, bench.now_ms, 7);
    let (loans, rest) = view.lend(part, bench.limits.commit.payload_bytes_max)?;
    Some(Export { now_ms: bench.now_ms, seed: 7, replies: Vec::new(), loans, rest, digest: None })
}

fn carry_out(bench: &mut Bench, decision: &Decision, log: LogId) {
    let share = &decision.shares[&log];
    let mut view = View::applying(&bench.store, &bench.limits, AREA, bench.state);
    view.begin_entry(bench.now_ms, 1);
    view.begin_transaction(share.now_ms, share.seed);
    view.replay(&share.changes);
    view.time_is(decision.now_ms);
    view.end_transaction();
    let (state, batch) = view.into_batch();
    bench.store.apply(batch);
    bench.state = state;
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(ToString::to_string).collect()
}

#[test]
fn several_shards_answer_as_one_does() {
    for seed in 0..150 {
        let (mut rng, mut several) = (Rng::new(seed), Several::new());
        for step in 0..80 {
            if rng.chance(1, 3) {
                several.time_goes_on(rng.below(200));
            }
            let script: Vec<Vec<String>> = (0..rng.between(1, 6)).map(|_| draw(&mut rng)).collect();
            let (one, all) = several.run(&script);
            let what = alloc::format!("seed {seed}, step {step}: {script:?}");
            assert_eq!(all.as_ref(), Some(&one), "{what}");
            several.compare(&["a", "b", "{a}c", "d", "e"], &what);
        }
    }
}

/// Lists longer than what is lent of them: commands at their ends need no more.
#[test]
fn the_ends_of_long_lists_suffice() {
    const SHAPES: [&str; 12] = [
        "LMOVE K K LEFT RIGHT",
        "LMOVE K K RIGHT LEFT",
        "LMOVE K K LEFT LEFT",
        "RPOPLPUSH K K",
        "LMPOP 2 K K LEFT COUNT N",
        "LMPOP 2 K K RIGHT",
        "LPOP K N",
        "RPOP K",
        "LPUSH K v w",
        "RPUSHX K x",
        "LLEN K",
        "RENAME K d",
    ];
    for seed in 0..150 {
        let (mut rng, mut several) = (Rng::new(seed), Several::new());
        for step in 0..60 {
            let script: Vec<Vec<String>> = (0..rng.between(1, 5))
                .map(|_| {
                    let last = if rng.chance(1, 20) { SHAPES.len() } else { SHAPES.len() - 1 };
                    let shape = SHAPES[rng.below(last as u64) as usize];
                    let key = |rng: &mut Rng| ["a", "b", "e"][rng.below(3) as usize];
                    let shape = shape.split(' ').map(|word| match word {
                        "K" => key(&mut rng).to_string(),
                        "N" => rng.below(9).to_string(),
                        other => other.to_string(),
                    });
                    let mut line: Vec<String> = shape.collect();
                    if line[0] == "LPUSH" {
                        line.extend((0..rng.below(12)).map(|number| number.to_string()));
                    }
                    line
                })
                .collect();
            let (one, all) = several.run(&script);
            let what = alloc::format!("seed {seed}, step {step}: {script:?}");
            assert_eq!(all.as_ref(), Some(&one), "{what}");
            several.compare(&["a", "b", "d", "e"], &what);
        }
    }
}

/// What one shard lends alive stays alive for the script, though another shard's clock is past its expiry; after it, no
/// shard shows it again.
#[test]
fn what_was_lent_does_not_expire_under_way() {
    let mut several = Several::new();
    let setup = ["RPUSH a 1 2 3", "PEXPIRE a 50", "RPUSH d 1", "PEXPIRE d 50", "SET b x"];
    several.run(&setup.map(words));
    let log = |key: &str| LogId(Bucket::of_key(key.as_bytes(), SHARDS).0.into());
    let late = log("b");
    assert!(log("a") != late && log("d") != late, "the keys of this test lie well");
    several.shards.get_mut(&late).expect("there").now_ms += 100;
    let script = ["RENAME b e", "LMOVE a d LEFT RIGHT", "LLEN a", "PTTL a", "PERSIST d", "COPY a b"];
    let (_, replies) = several.run(&script.map(words));
    let bulk = Reply::bulk("1");
    let expected = [Reply::Ok, bulk, Reply::Int(2), Reply::Int(0), Reply::Int(1), Reply::Int(1)];
    assert_eq!(replies.expect("it fits"), expected);
    let see = |several: &Several, words: &[&str]| {
        let bench = &several.shards[&log(words[1])];
        bench.read_at(bench.now_ms, words).0
    };
    assert_eq!(
        see(&several, &["LRANGE", "d", "0", "-1"]),
        Reply::Array([Reply::bulk("1"), Reply::bulk("1")].into())
    );
    assert_eq!(see(&several, &["EXISTS", "a"]), Reply::Int(0), "its time has come everywhere");
    assert_eq!(see(&several, &["EXISTS", "b"]), Reply::Int(0));
    assert_eq!(several.shards[&log("a")].state.now_ms, START_MS + 100);
}

#[test]
fn what_is_too_large_is_not_lent() {
    let mut several = Several::new();
    let large = several.one.limits.commit.payload_bytes_max + 1;
    let large = String::from_utf8(alloc::vec![b'x'; large]).expect("letters");
    for bench in several.shards.values_mut() {
        bench.run(&["SET", "a", &large]);
        for _ in 0..5 {
            bench.run(&["RPUSH", "b", &large[..large.len() / 4]]);
        }
    }
    assert_eq!(several.run(&["RENAME a d"].map(words)).1, None);
    assert_eq!(several.run(&["COPY b d"].map(words)).1, None);
    // Whether it exists, or what lies at its end, can be told.
    assert!(several.run(&["EXISTS a d"].map(words)).1.is_some());
    assert!(several.run(&["LMOVE b d LEFT RIGHT"].map(words)).1.is_some());
    // Nor may a script make more of it.
    let mut lines: Vec<Vec<String>> = (0..5).map(|_| words("APPEND e KEY")).collect();
    lines.iter_mut().for_each(|line| line[2] = large[..large.len() / 4].to_string());
    assert_eq!(several.run(&lines).1, None);
}
