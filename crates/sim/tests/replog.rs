//! Replicated logs under everything at once.
//!
//! `QUORATE_SEEDS` and `QUORATE_FROM` say how many seeds run and which is the first; `QUORATE_TRACE=SEED` prints a run
//! and `QUORATE_FLAGS` overrides its draws; `QUORATE_RESULT` names a file to which a line of results is added.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;

use quorate_sim::replog::swarm;
use quorate_sim::{Overrides, Summary, TraceLevel};

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

/// How long this thread has had a processor, where the system tells.
fn processor_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// Adds what came of the runs to a file of JSON lines.
fn record(summary: &Summary, first: u64, seconds: f64) {
    let Ok(path) = env::var("QUORATE_RESULT") else { return };
    let commit = env::var("QUORATE_COMMIT").unwrap_or_default();
    let coverage = &summary.coverage;
    let counts = coverage.counts;
    let mut line = format!(
        "{{\"profile\":\"replog\",\"commit\":\"{commit}\",\"first_seed\":{first},\"runs\":{},\"failed\":{},\
         \"processor_seconds\":{seconds:.1},\"events\":{},\"events_per_processor_second\":{:.0},\"steps\":{},\"messages\":{},\"marks\":{{",
        coverage.runs,
        summary.failed.len(),
        counts.events,
        counts.events as f64 / seconds,
        counts.steps,
        counts.messages_sent
    );
    for (index, (name, count)) in coverage.marks.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(line, "{comma}\"{name}\":{count}").expect("strings grow");
    }
    line += "}}\n";
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("a file");
    file.write_all(line.as_bytes()).expect("written");
}

#[test]
fn logs_under_everything() {
    let kind = swarm();
    let (first, seeds) = (number("QUORATE_FROM", 0), number("QUORATE_SEEDS", 300));
    let began = processor_seconds();
    let summary = kind.run_many(first..first + seeds, false, 5);
    record(&summary, first, processor_seconds() - began);
    println!("{}", summary.coverage);
    for report in &summary.failed {
        println!("{}", report.explain("replog"));
    }
    summary.expect_success("replog");
    if let Some(missing) = kind.profile.missing(&summary.coverage) {
        panic!("{missing}\n{}", summary.coverage);
    }
}

#[test]
fn every_seed_repeats() {
    let first = number("QUORATE_FROM", 0);
    swarm().run_many(first..first + 20, true, 1).expect_success("replog");
}

#[test]
fn trace_of_one() {
    let Ok(seed) = env::var("QUORATE_TRACE") else { return };
    let kind = swarm();
    let flags = env::var("QUORATE_FLAGS").unwrap_or_default();
    let overrides = Overrides::parse(flags.split_whitespace()).expect("flags");
    let plan = kind.plan(seed.parse().expect("a whole number"), &overrides);
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{}\n{:?}", report.coverage, report.failure);
}
