//! TPC-C while nodes that lead are killed and come back: the conditions hold, and nothing acknowledged is gone.

mod common;

use common::run;
use serde_json::Value;

#[test]
fn tpcc_keeps_its_conditions_while_leaders_die() {
    let temp = tempfile::tempdir().expect("a directory");
    let results = temp.path().join("results.jsonl");
    let path = results.to_str().expect("UTF-8");
    // The full campaign sets this to 20.
    let kills = std::env::var("TEST_KILLS").unwrap_or_else(|_| "3".into());
    let words = ["torture", "tpcc", "--kills", &kills, "--warehouses", "1", "--clients", "4"];
    let more = ["--transactions", "150", "--results", path, "--output", "json"];
    let ended = run(&[&words[..], &more[..]].concat());
    eprintln!("{}", ended.err);
    let result: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}\n{}", ended.out, ended.err));
    let outcome = &result["outcome"];
    assert_eq!(ended.code, 0, "{outcome:#}");
    let conditions = outcome["conditions"].as_array().expect("conditions");
    assert_eq!(conditions.len(), 12);
    for condition in conditions {
        assert_eq!(condition["holds"], true, "{condition}");
    }
    assert_eq!((&outcome["all_hold"], &outcome["acknowledged_kept"]), (&true.into(), &true.into()));
    for kind in ["new-order", "payment", "order-status", "delivery", "stock-level"] {
        let committed = outcome["transactions"][kind]["committed"].as_u64();
        assert!(committed.is_some_and(|count| count > 0), "no {kind} committed: {outcome:#}");
    }
    let steps = result["details"]["kills"].as_array().expect("kills");
    let killed: usize = steps.iter().filter_map(|step| Some(step["nodes"].as_array()?.len())).sum();
    assert_eq!(killed.to_string(), kills);
    assert!(result["blackout_ms"].as_u64().is_some(), "all nodes died together");
    let line: Value =
        serde_json::from_str(&std::fs::read_to_string(&results).expect("a file")).expect("one line of JSON");
    assert_eq!(line["what"], "torture tpcc");
}

#[test]
fn what_nodes_without_disks_cannot_do_is_refused() {
    for campaign in ["tpcc", "partitions"] {
        run(&["torture", campaign, "--durability", "memory"]).fails(2, "come back");
    }
}
