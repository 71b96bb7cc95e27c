//! Nodes that keep nothing on disk: one that starts again is another node, and takes nothing acknowledged with it.

mod common;

use std::process::{Child, Stdio};

use common::{Cluster, Raw, quorate, until, writing};
use serde_json::Value;

/// A node that was started by hand, killed when it goes out of scope.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command with which a process manager starts a founder of the cluster, each time the same.
fn start(cluster: &Cluster, node: usize, founders: usize) -> Started {
    let doors = |node| ["peer", "client", "admin", "cluster"].map(|door| cluster.door(node, door));
    let member = |node: usize| format!("{node}@{}", doors(node).join("/"));
    let list: Vec<String> = (1..=founders).map(member).collect();
    let [peer, client, admin, cluster_door] = doors(node);
    let text = std::fs::read_to_string(cluster.data.join("cluster.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    let id = format!("{:x}", manifest["cluster"].as_u64().expect("an id"));
    let mut command =
        quorate(&["start", "--durability", "memory", "--id", &node.to_string(), "--cluster", &id]);
    command.args(["--bootstrap", &list.join(","), "--topology", "ring", "--copies", "3", "--buckets", "8"]);
    command.args(["--peer", &peer, "--client", &client, "--admin", &admin, "--cluster-door", &cluster_door]);
    command.arg("--data").arg(cluster.data.join(format!("again-{node}")));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Started(child.expect("the program starts"))
}

/// What a node says of itself, if it answers.
fn report(cluster: &Cluster, node: usize) -> Option<Value> {
    let status = cluster.status();
    let admin = cluster.door(node, "admin");
    let nodes = status["nodes"].as_array().expect("nodes").iter();
    let mut here = nodes.filter(|one| one["endpoints"]["admin"] == admin.as_str());
    here.find_map(|one| one["report"]["node"].as_object().map(|node| Value::Object(node.clone())))
}

#[test]
fn a_founder_that_starts_again_is_a_new_node_and_nothing_acknowledged_is_lost() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "memory"];
    let cluster = Cluster::up(4, &words);
    until("all are in the group", || cluster.grouped().len() == 4);
    let (written, again) = writing(&mut cluster.connect(4, "client"), || {
        // One after the other, so that in the end nobody is left who had acknowledged the first writes.
        [1, 2].map(|node| {
            cluster.run(&["kill", &node.to_string()]).ok();
            let started = start(&cluster, node, 4);
            until("it serves under another id", || {
                report(&cluster, node).is_some_and(|it| {
                    let id = it["id"].as_u64().unwrap_or_default();
                    id > 4 && it["ready"] == true && cluster.grouped().contains(&id)
                })
            });
            until("the group has let its former self go", || {
                let now = cluster.grouped();
                !now.is_empty() && !now.contains(&(node as u64))
            });
            started
        })
    });
    written.is_all_at(&mut cluster.connect(1, "client"));
    drop(again);
}

#[test]
fn founders_wait_for_each_other_and_a_node_that_joins_has_no_id_of_its_own_choice() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "memory"];
    let cluster = Cluster::up(3, &words);
    for node in 1..=3 {
        cluster.run(&["kill", &node.to_string()]).ok();
    }
    let first = start(&cluster, 1, 3);
    let second = start(&cluster, 2, 3);
    // Two of three could agree; but the third may be one who knows of a cluster that these have forgotten.
    let listens = |node| std::net::TcpStream::connect(cluster.door(node, "peer")).is_ok();
    until("they are at their doors", || listens(1) && listens(2));
    assert!(report(&cluster, 1).is_none() && report(&cluster, 2).is_none(), "nobody has founded anything");
    let third = start(&cluster, 3, 3);
    until("they found a cluster", || {
        (1..=3).all(|node| report(&cluster, node).is_some_and(|it| it["ready"] == true && it["id"] == node))
    });
    // A node that was given an id could come back under it.
    let words = ["start", "--durability", "memory", "--id", "9", "--join", &cluster.door(1, "peer")];
    let mut joins = quorate(&words);
    for door in ["--peer", "--client", "--admin", "--cluster-door"] {
        joins.args([door, "127.0.0.1:0"]);
    }
    joins.arg("--data").arg(cluster.data.join("joins"));
    let child = joins.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let fourth = Started(child.expect("the program starts"));
    until("it is in the group", || cluster.grouped().len() == 4);
    let ids = cluster.grouped();
    assert!(!ids.contains(&9) && ids.iter().any(|id| *id > 9), "{ids:?}");
    drop((first, second, third, fourth));
}

#[test]
fn memory_that_is_full_refuses_what_needs_more_and_serves_the_rest() {
    let settings = ["--durability", "memory", "--set", "storage.memory_bytes_max=4 MiB"];
    let cluster = Cluster::up(3, &settings);
    let (mut one, mut other) = (cluster.connect(1, "client"), cluster.connect(2, "client"));
    let value = "v".repeat(10_000);
    let set = |client: &mut Raw, key: u64| {
        client.send(format!("SET k{key} {value}\r\n"));
        client.line().trim_end().to_owned()
    };
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    let mut count = 0;
    until("memory is full", || {
        count += 1;
        match set(&mut one, count).as_str() {
            "+OK" => false,
            refused => {
                assert_eq!(refused, full);
                true
            }
        }
    });
    assert!((380..4_000).contains(&count), "{count} values of 10 kB");
    until("the others say so too", || set(&mut other, 1) == full);
    other.send("EXISTS k1 k0\r\nEXPIRE k1 1000\r\nMULTI\r\nRPUSH list 1\r\nDEL k1\r\nEXEC\r\n");
    other.expect(&format!(":1\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n{full}\r\n"));
    for key in 1..count {
        other.send(format!("DEL k{key}\r\n"));
        other.expect(":1\r\n");
    }
    until("there is room again", || set(&mut other, 0) == "+OK");
    until("everywhere", || set(&mut one, 0) == "+OK");
    one.send("DBSIZE\r\n");
    one.expect(":1\r\n");
}
