//! Most copies of a bucket are lost with their disks; what is left goes on when an operator says so.

mod common;

use common::{Cluster, until};
use serde_json::Value;

/// What each node that answers says of the buckets.
fn buckets(cluster: &Cluster) -> Vec<Value> {
    let status = cluster.status();
    let nodes = status["nodes"].as_array().expect("nodes").iter();
    nodes.filter_map(|node| node["report"]["node"]["buckets"].as_array()).flatten().cloned().collect()
}

/// One command and the first line of its reply; with a value the second.
fn ask(cluster: &Cluster, node: usize, words: &str) -> String {
    let mut client = cluster.connect(node, "client");
    client.send(format!("{words}\r\n"));
    let line = client.line();
    if line.starts_with('$') && line != "$-1\r\n" { client.line() } else { line }
}

#[test]
fn a_bucket_that_lost_most_of_its_copies_goes_on_with_what_is_left() {
    let cluster = Cluster::up(5, &["--buckets", "2", "--copies", "3", "--durability", "interval"]);
    let keys: Vec<String> = (0..40).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        assert_eq!(ask(&cluster, 1, &format!("SET {key} {key}")), "+OK\r\n");
    }
    cluster.run(&["recover", "--all"]).ok();
    cluster.run(&["recover", "1"]).fails(2, "bucket 1 is not halted");
    let led =
        buckets(&cluster).into_iter().find(|it| it["bucket"] == 1 && it["quorum"] == true).expect("led");
    let members: Vec<usize> = led["members"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_u64().expect("an id") as usize)
        .collect();
    let applied = || {
        let copies = buckets(&cluster).into_iter().filter(|it| it["bucket"] == 1 && it["here"] == true);
        copies.map(|it| it["log_applied"].as_u64()).collect::<Vec<_>>()
    };
    until("all have everything", || {
        let applied = applied();
        applied.len() == 3 && applied.iter().all(|it| *it == applied[0])
    });

    for node in &members[..2] {
        cluster.run(&["kill", &node.to_string()]).ok();
        std::fs::remove_dir_all(cluster.data.join(format!("node-{node}"))).expect("its disk is lost");
    }
    until("the bucket is halted", || {
        buckets(&cluster).iter().any(|it| it["bucket"] == 1 && it["halt"]["gone"].as_array().is_some())
    });
    let left = members[2];
    let halted: Vec<&String> = keys
        .iter()
        .filter(|key| ask(&cluster, left, &format!("GET {key}")).starts_with("-CLUSTERDOWN most copies"))
        .collect();
    assert!(halted.len() > 5, "{halted:?}");
    let text = cluster.run(&["status"]).ok();
    assert!(text.contains("HALTED: bucket 1 (slots 8192 to 16383)"), "{text}");

    let asked = cluster.run(&["recover", "--all"]);
    assert!(
        asked.out.contains("bucket 1, slots 8192 to 16383") && asked.out.contains("are gone"),
        "{}",
        asked.out
    );
    asked.fails(1, "nothing was changed");
    let text = cluster.run(&["recover", "--all", "--accept-data-loss"]).ok();
    assert!(text.contains("bucket 1 goes on"), "{text}");

    for key in &keys {
        until("all keys are there", || ask(&cluster, left, &format!("GET {key}")) == format!("{key}\r\n"));
        until("keys can be written", || ask(&cluster, left, &format!("SET {key} new")) == "+OK\r\n");
    }
    until("the bucket has copies again", || {
        let led = buckets(&cluster).into_iter().find(|it| it["bucket"] == 1 && it["quorum"] == true);
        led.is_some_and(|it| it["members"].as_array().is_some_and(|members| members.len() == 3))
    });
    cluster.run(&["recover", "--all"]).ok();
}
