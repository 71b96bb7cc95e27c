//! A node is drained: it leaves, and whoever writes meanwhile does not notice.

mod common;

use std::time::Duration;

use common::{Cluster, until, writing};

/// The longest that a write may take on a busy machine. An election would take as long; a node that is merely stopped costs one.
const GAP_MAX: Duration = Duration::from_secs(2);

#[test]
fn no_write_fails_while_a_node_is_drained() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(5, &words);
    until("all are in a group", || cluster.grouped().len() == 5);
    let (written, ()) = writing(&mut cluster.connect(1, "client"), || {
        // Whoever leads something too.
        for node in ["5", "4"] {
            let text = cluster.run(&["drain", node]).ok();
            assert!(text.contains(&format!("node {node} is drained")), "{text}");
        }
    });
    eprintln!("{} writes, at most {:?} apart", written.count, written.longest);
    assert!(written.refused.is_empty(), "{written:?}");
    assert!(written.longest < GAP_MAX, "{written:?}");
    written.is_all_at(&mut cluster.connect(2, "client"));
    until("three are left", || cluster.grouped() == [1, 2, 3]);

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
