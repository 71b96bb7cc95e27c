//! A node is drained: it leaves, and whoever writes meanwhile does not notice.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Cluster, until};
use serde_json::Value;

/// The longest that a write may take on a busy machine. An election would take as long; a node that is merely stopped costs one.
const GAP_MAX: Duration = Duration::from_secs(2);

/// The members of all groups, if all of these are led.
fn grouped(cluster: &Cluster) -> Vec<u64> {
    let list = cluster.run(&["groups", "--output", "json"]);
    let Ok(Value::Array(groups)) = serde_json::from_str::<Value>(&list.out) else { return Vec::new() };
    let led = groups.iter().all(|group| group["quorum"] == true);
    let members = groups.iter().flat_map(|group| group["members"].as_array().into_iter().flatten());
    if led { members.filter_map(Value::as_u64).collect() } else { Vec::new() }
}

/// Writes keys of all buckets until told to stop: how many, what was not acknowledged, and the longest time between two that were.
fn write(cluster: &Cluster, node: usize, stop: &AtomicBool) -> (u64, Vec<String>, Duration) {
    let mut client = cluster.connect(node, "client");
    let (mut count, mut failed, mut longest) = (0, Vec::new(), Duration::ZERO);
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        client.send(format!("SET key:{} {count}\r\n", count % 64));
        match client.line() {
            line if line == "+OK\r\n" => {}
            line => failed.push(line),
        }
        longest = longest.max(last.elapsed());
        (last, count) = (Instant::now(), count + 1);
    }
    (count, failed, longest)
}

/// Ends a writer, also if the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_write_fails_while_a_node_is_drained() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(5, &words);
    until("all are in a group", || grouped(&cluster).len() == 5);
    let stop = AtomicBool::new(false);
    let (count, failed, longest) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&cluster, 1, &stop));
        let stops = Stops(&stop);
        // Whoever leads something too.
        for node in ["5", "4"] {
            let text = cluster.run(&["drain", node]).ok();
            assert!(text.contains(&format!("node {node} is drained")), "{text}");
        }
        drop(stops);
        writer.join().expect("no panic")
    });
    eprintln!("{count} writes, at most {longest:?} apart");
    assert!(count > 0 && failed.is_empty(), "{failed:?} of {count}");
    assert!(longest < GAP_MAX, "{longest:?} without a write");
    until("three are left", || grouped(&cluster) == [1, 2, 3]);

    cluster.run(&["kill", "3"]).ok();
    cluster.run(&["drain", "3"]).fails(69, "only a node that runs");
    cluster.run(&["revive", "3"]).ok();

    // Whoever is added is a member once a group has it, and not because others are connected to it.
    let text = cluster.run(&["node", "add"]).ok();
    assert!(text.starts_with("node 6 is a member"), "{text}");
    let status = cluster.status();
    let reports = status["nodes"].as_array().expect("nodes").iter();
    let groups = reports.filter_map(|node| node["report"]["node"]["groups"].as_array()).flatten();
    let mut members = groups.filter_map(|group| group["members"].as_array()).flatten();
    assert!(members.any(|id| *id == 6), "{status:#}");
}
