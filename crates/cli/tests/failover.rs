//! The leader dies under load, then everybody does: no acknowledged write is lost, and service comes back.

mod common;

use common::{Ended, quorate};
use serde_json::Value;

/// Milliseconds without a write that would be far from normal even on a busy machine.
const GAP_MS_MAX: u64 = 5_000;

fn torture(words: &[&str]) -> Value {
    let mut all = vec!["torture"];
    all.extend(words);
    all.extend(["--output", "json"]);
    let ended = Ended::of(quorate(&all).output().expect("the program starts"));
    eprintln!("{}", ended.err);
    let result: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}\n{}", ended.out, ended.err));
    assert_eq!(ended.code, 0, "{result:#}");
    assert_eq!(result["clients"]["nonsense"], 0);
    for verdict in result["clients"]["verdicts"].as_array().expect("verdicts") {
        assert_eq!(verdict["verdict"], "ok", "{verdict:#}");
    }
    result
}

#[test]
fn leaders_are_killed_and_no_acknowledged_write_is_lost() {
    // The full campaign sets this to 20.
    let kills = std::env::var("TEST_KILLS").unwrap_or_else(|_| "2".into());
    let result = torture(&["kills", "--kills", &kills, "--durability", "disk", "--clients", "16"]);
    let gaps = &result["details"]["gap_ms"];
    println!("without a write after the death of a leader: {gaps} ms");
    assert!(gaps["max"].as_u64().is_some_and(|ms| ms < GAP_MS_MAX), "{gaps}");
    assert!(result["blackout_ms"].as_u64().is_some(), "all nodes died together");
}

#[test]
fn transactions_survive_the_death_of_leaders() {
    torture(&["kills", "--kills", "1", "--workloads", "swap,bank,cycle", "--keys", "8", "--clients", "12"]);
}

#[test]
fn nodes_without_disks_are_replaced_when_they_die() {
    let result = torture(&["kills", "--kills", "1", "--durability", "memory"]);
    assert_eq!(result["blackout_ms"], Value::Null);
}
