//! What is there after nodes stopped, were killed, or started under other conditions.

mod common;

use common::{Cluster, run};

#[test]
fn what_was_acknowledged_is_there_after_all_nodes_were_killed() {
    let cluster = Cluster::up(3, &["--durability", "disk"]);
    for index in 0..20 {
        cluster.run(&["put", &format!("k{index}"), &index.to_string()]).ok();
    }
    for node in ["1", "2", "3"] {
        cluster.run(&["kill", node]).ok();
    }
    cluster.run(&["up", "--detach"]).ok();
    for index in 0..20 {
        assert_eq!(cluster.run(&["get", &format!("k{index}")]).ok(), format!("{index}\n"));
    }
}

#[test]
fn with_an_interval_the_death_of_processes_loses_nothing() {
    let cluster = Cluster::up(3, &["--durability", "interval"]);
    cluster.run(&["put", "a", "1"]).ok();
    for node in ["1", "2", "3"] {
        cluster.run(&["kill", node]).ok();
    }
    cluster.run(&["up", "--detach"]).ok();
    assert_eq!(cluster.run(&["get", "a"]).ok(), "1\n");
}

#[test]
fn without_disks_a_dead_node_is_not_started_again_and_a_dead_cluster_begins_anew() {
    let cluster = Cluster::up(3, &["--durability", "memory"]);
    cluster.run(&["put", "a", "1"]).ok();
    cluster.run(&["kill", "3"]).ok();
    cluster.run(&["revive", "3"]).fails(1, "kept nothing on disk");
    cluster.run(&["up", "--detach"]).fails(1, "kept nothing on disk");
    cluster.run(&["node", "add"]).ok();
    cluster.run(&["node", "remove", "3"]).ok();
    assert_eq!(cluster.run(&["get", "a"]).ok(), "1\n");
    cluster.run(&["down"]).ok();
    cluster.run(&["up", "--detach", "--nodes", "1", "--base-port", "0"]).ok();
    cluster.run(&["get", "a"]).fails(1, "no key");
}

#[test]
fn who_lost_its_disk_comes_back_as_another() {
    let cluster = Cluster::up(4, &["--topology", "ring", "--copies", "3", "--durability", "interval"]);
    cluster.run(&["put", "a", "1"]).ok();
    cluster.run(&["kill", "1"]).ok();
    std::fs::remove_dir_all(cluster.data.join("node-1")).expect("its disk is lost");
    cluster.run(&["revive", "1"]).ok();
    let admin = cluster.door(1, "admin");
    let id = || {
        let status = cluster.status();
        let mut nodes = status["nodes"].as_array().expect("nodes").iter();
        nodes.find(|node| node["endpoints"]["admin"] == admin.as_str()).and_then(|node| node["id"].as_u64())
    };
    let new = id().expect("it answers");
    assert!(new > 4, "it would vote as node {new} again");
    // With its new directory it is who it has become.
    cluster.run(&["kill", "1"]).ok();
    cluster.run(&["revive", "1"]).ok();
    assert_eq!(id(), Some(new));
    assert_eq!(cluster.run(&["get", "a"]).ok(), "1\n");
}

#[test]
fn a_minority_serves_nothing_and_says_so() {
    let cluster = Cluster::up(3, &["--set", "timing.request_ms=500"]);
    cluster.run(&["put", "a", "1"]).ok();
    cluster.run(&["kill", "1"]).ok();
    cluster.run(&["kill", "2"]).ok();
    let at = cluster.door(3, "client");
    // Right after the loss a command may have entered the log of a leader that was just left alone.
    let ended = run(&["put", "a", "2", "--at", &at]);
    assert!([3, 75].contains(&ended.code), "{}: {}", ended.code, ended.err);
    run(&["get", "a", "--at", &at]).fails(75, "TRYAGAIN");
    assert!(cluster.run(&["status"]).ok().contains("1 of 3 members answer; 2 are needed"));
    cluster.run(&["revive", "1"]).ok();
    let value = cluster.run(&["get", "a"]).ok();
    assert!(ended.code == 3 || value == "1\n", "refused, but {value}");
}

#[test]
fn a_node_alone_keeps_its_identity_and_its_data() {
    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().join("cluster");
    let path = data.to_str().expect("UTF-8");
    run(&["up", "--detach", "--nodes", "1", "--base-port", "0", "--data", path]).ok();
    run(&["put", "a", "1", "--data", path]).ok();
    let id =
        |path: &str| run(&["status", "--output", "json", "--data", path]).json()["nodes"][0]["id"].clone();
    let before = id(path);
    run(&["down", "--data", path]).ok();
    run(&["up", "--detach", "--data", path]).ok();
    assert_eq!(id(path), before);
    assert_eq!(run(&["get", "a", "--data", path]).ok(), "1\n");
    run(&["down", "--data", path]).ok();
}
