//! Buckets that lose most of their copies, are recovered by an operator's word, and meet those who were given up.
//!
//! `QUORATE_SEEDS` says how many seeds are run and `QUORATE_FROM` which is the first; `QUORATE_TRACE=SEED` prints one, of those that are lost twice
//! if there is `QUORATE_TWICE`.

use std::env;

use quorate_sim::node::{Losses, Recovered, recovered};

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

#[test]
fn what_is_left_goes_on() {
    let from = number("QUORATE_FROM", 0);
    let mut all = Recovered::default();
    let seeds = from..from + number("QUORATE_SEEDS", 10);
    let twice = seeds.clone().take(seeds.clone().count() / 2).map(|seed| (seed, Losses::Twice));
    for (seed, losses) in seeds.map(|seed| (seed, Losses::Any)).chain(twice) {
        let one = recovered(seed, losses, |_| {}, false).unwrap_or_else(|why| panic!("{why}"));
        all.recovered += one.recovered;
        all.first += one.first;
        all.nothing_left += one.nothing_left;
        all.again += one.again;
        all.returned += one.returned;
        all.lost += one.lost;
        all.told += one.told;
        all.halted += one.halted;
    }
    println!("{all:?}");
    // With fewer or other seeds, chance decides what they reach.
    let floors = [
        (all.recovered, 10),
        (all.first, 3),
        (all.again, 1),
        (all.returned, 10),
        (all.lost, 20),
        (all.halted, 20),
        (all.told, 10_000),
    ];
    let drawn = env::var("QUORATE_SEEDS").is_ok() || env::var("QUORATE_FROM").is_ok();
    assert!(drawn || floors.iter().all(|(count, least)| count >= least), "{all:?}");
}

#[test]
fn runs_repeat() {
    let [one, other] = [(); 2].map(|()| recovered(0, Losses::Any, |_| {}, true).expect("passes").lines);
    assert_eq!(one, other);
}

#[test]
fn trace_of_one() {
    let Ok(seed) = env::var("QUORATE_TRACE") else { return };
    let losses = if env::var("QUORATE_TWICE").is_ok() { Losses::Twice } else { Losses::Any };
    match recovered(seed.parse().expect("a whole number"), losses, |_| {}, true) {
        Ok(done) => println!("{}\n{done:?}", done.lines.join("\n")),
        Err(why) => println!("{why}"),
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_broken_rule_is_noticed() {
    use crate::broken::{remembered, summary, tell};

    let mut lines = String::new();
    for mutant in quorate_replog::Mutant::RECOVERY {
        let first = remembered("mutants-recovery.jsonl", mutant);
        let losses = match mutant {
            quorate_replog::Mutant::EarlierEraCounts => Losses::Twice,
            _ => Losses::Any,
        };
        let caught = first.into_iter().chain(0..number("QUORATE_SEEDS", 100)).find_map(|seed| {
            let run = || recovered(seed, losses, |log| log.mutant = Some(mutant), false);
            let ended = std::panic::catch_unwind(run).unwrap_or_else(|_| Err("a panic".into()));
            Some((seed, ended.err()?))
        });
        let (seed, why) = caught.unwrap_or_else(|| panic!("{mutant:?} is not caught"));
        let (seeds, by) = (seed + 1, summary(why));
        lines += &format!("{{\"mutant\":\"{mutant:?}\",\"seeds\":{seeds},\"by\":\"{by}\"}}\n");
    }
    tell(lines);
}
