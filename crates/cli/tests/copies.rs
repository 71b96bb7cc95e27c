//! An operator changes how many copies there are, while the cluster serves.

mod common;

use std::collections::BTreeSet;

use common::{Cluster, until};

/// The numbers of members of all buckets, as all nodes tell them.
fn members(cluster: &Cluster) -> BTreeSet<usize> {
    let status = cluster.status();
    let nodes = status["nodes"].as_array().expect("nodes").iter();
    let buckets = nodes.filter_map(|node| node["report"]["node"]["buckets"].as_array()).flatten();
    buckets.filter_map(|bucket| bucket["members"].as_array().map(Vec::len)).collect()
}

#[test]
fn copies_become_more_and_fewer() {
    let cluster = Cluster::up(4, &["--buckets", "2", "--copies", "1", "--durability", "interval"]);
    assert_eq!(cluster.run(&["copies"]).ok(), "1\n");
    let mut client = cluster.connect(1, "client");
    for number in 0..40 {
        client.send(format!("SET key:{number} {number}\r\n"));
        assert_eq!(client.line(), "+OK\r\n");
    }
    for copies in [3, 2] {
        assert_eq!(
            cluster.run(&["copies", &copies.to_string()]).ok(),
            format!("copies of each bucket: {copies}\n")
        );
        until("all nodes tell of them", || members(&cluster) == BTreeSet::from([copies]));
        assert_eq!(cluster.run(&["copies"]).ok(), format!("{copies}\n"));
    }
    for number in 0..40 {
        client.send(format!("GET key:{number}\r\n"));
        client.line();
        assert_eq!(client.line(), format!("{number}\r\n"));
    }
    cluster.run(&["copies", "0"]).fails(2, "say how many copies");
    cluster.run(&["copies", "17"]).fails(1, "17 copies: choose from 1 to 16");
    cluster.run(&["up", "--copies", "3"]).fails(2, "`quorate copies` changes the number");

    let everywhere = Cluster::up(1, &["--durability", "interval"]);
    assert_eq!(everywhere.run(&["copies"]).ok(), "every node holds everything\n");
    everywhere.run(&["copies", "3"]).fails(1, "every node of this cluster holds everything");
}
