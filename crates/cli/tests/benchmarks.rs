//! Benchmarks that others have defined, small, on real nodes.

mod common;

use common::Cluster;
use serde_json::Value;

/// Runs a benchmark for so many transactions; its result.
fn bench(cluster: &Cluster, words: &[&str]) -> Value {
    let mut all = vec!["bench"];
    all.extend(words);
    all.extend(["--clients", "4", "--warmup", "0", "--seconds", "60", "--output", "json"]);
    cluster.run(&all).json()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn ycsb_loads_and_runs_in_every_manner() {
    let cluster = Cluster::up(3, &[]);
    let small = ["--records", "200", "--operations", "400"];
    let with = |more: &[&'static str]| [&["ycsb"], more, &small].concat();
    cluster.run(&["bench", "ycsb", "a", "--run"]).fails(2, "load them first");
    let loaded = bench(&cluster, &with(&["a", "--load"]));
    assert_eq!((count(&loaded["load"]["rows"]), &loaded["run"]), (200, &Value::Null));
    let plain = &bench(&cluster, &with(&["a", "--run"]))["run"];
    assert_eq!((count(&plain["fates"]["committed"]), count(&plain["missing"])), (400, 0));
    let updates = count(&plain["kinds"]["update"]["committed"]);
    assert!((100..300).contains(&updates), "{plain:#}");
    let optimistic = &bench(&cluster, &with(&["f", "--run", "--transaction-keys", "5"]))["run"];
    let fates = &optimistic["fates"];
    assert_eq!(count(&fates["committed"]) + count(&fates["outrun"]), 400, "{fates}");
    assert!(count(&optimistic["kinds"]["read"]["latency"]["count"]) > 400);
    let goodput = optimistic["committed_operations_per_second"].as_f64();
    assert!(goodput > optimistic["commits_per_second"].as_f64().map(|commits| commits * 4.9));
    let words = with(&["b", "--run", "--transaction-keys", "5", "--one-shot"]);
    let one_shot = &bench(&cluster, &words)["run"];
    assert_eq!(count(&one_shot["fates"]["committed"]), 400, "nothing can outrun them");
    for letter in ["c", "d", "e"] {
        let run = &bench(&cluster, &with(&[letter, "--run"]))["run"];
        assert_eq!((count(&run["fates"]["committed"]), count(&run["missing"])), (400, 0), "{run:#}");
    }
}

#[test]
fn tpcc_keeps_its_conditions_on_real_nodes() {
    let cluster = Cluster::up(3, &[]);
    cluster.run(&["bench", "tpcc", "--check"]).fails(2, "load one first");
    let results = cluster.data.join("results.jsonl");
    let path = results.to_str().expect("UTF-8");
    let words = ["tpcc", "--reduced", "--warehouses", "1", "--operations", "600", "--results", path];
    let outcome = bench(&cluster, &words);
    assert_eq!(outcome["check"]["holds"], true, "{:#}", outcome["check"]);
    let run = &outcome["run"];
    let fates = &run["fates"];
    let all = ["committed", "rolled_back", "outrun"].map(|fate| count(&fates[fate])).iter().sum::<u64>();
    assert_eq!((all, count(&fates["unknown"]), count(&fates["refused"])), (600, 0, 0));
    for kind in ["new-order", "payment", "order-status", "delivery", "stock-level"] {
        assert!(count(&run["kinds"][kind]["committed"]) > 0, "no {kind} committed: {run:#}");
    }
    assert!(run["new_orders_per_minute"].as_f64() > Some(0.0));
    let line: Value =
        serde_json::from_str(&std::fs::read_to_string(&results).expect("a file")).expect("one line of JSON");
    assert_eq!(line["check"]["holds"], true);
    cluster.run(&["bench", "tpcc", "--load"]).fails(2, "already");
    // The check reads what is there: a payment that reached no sum is noticed.
    let sum: i64 = cluster.run(&["get", "tpcc:wy:{1}"]).ok().trim().parse().expect("a sum");
    cluster.run(&["put", "tpcc:wy:{1}", &(sum + 1).to_string()]).ok();
    let ended = cluster.run(&["bench", "tpcc", "--check"]);
    assert!(ended.out.contains("condition 1,") && ended.out.contains("condition 8,"), "{}", ended.out);
    ended.fails(1, "not consistent");
}
