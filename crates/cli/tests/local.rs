//! A cluster on this machine, from the command line: what every command does, says and returns.

mod common;

use std::net::TcpListener;
use std::process::Stdio;

use common::{Cluster, Ended, quorate, run, until};

#[test]
fn a_cluster_comes_up_serves_loses_a_node_and_goes_down() {
    let cluster = Cluster::up(3, &[]);
    cluster.run(&["put", "greeting", "hello"]).ok();
    assert_eq!(cluster.run(&["get", "greeting"]).ok(), "hello\n");
    cluster.run(&["get", "nobody"]).fails(1, "no key");

    // What runs is left alone.
    let before = cluster.status();
    cluster.run(&["up", "--detach"]).ok();
    let pids = |status: &serde_json::Value| -> Vec<_> {
        status["nodes"].as_array().expect("nodes").iter().map(|node| node["pid"].clone()).collect()
    };
    assert_eq!(pids(&before), pids(&cluster.status()));

    cluster.run(&["kill", "2"]).ok();
    cluster.run(&["kill", "2"]).fails(1, "does not run");
    cluster.run(&["kill", "9"]).fails(2, "there are 1, 2, 3");
    let status = cluster.status();
    assert!(status["nodes"][1]["report"].is_null() && status["nodes"][1]["pid"].is_null());
    assert!(cluster.run(&["status"]).ok().contains("2 of 3 members answer"));
    cluster.run(&["put", "greeting", "again"]).ok();
    assert!(cluster.run(&["revive", "2"]).ok().contains("serves again"));
    let at = cluster.door(2, "client");
    assert_eq!(run(&["get", "greeting", "--at", &at]).ok(), "again\n");

    assert!(cluster.run(&["down"]).ok().contains("stopped 3 nodes"));
    assert!(cluster.run(&["down"]).ok().contains("no node was running"));
    assert!(cluster.run(&["status"]).ok().contains("the cluster is down"));
    cluster.run(&["get", "greeting"]).fails(69, "no node can be reached");
    cluster.run(&["up", "--detach"]).ok();
    assert_eq!(cluster.run(&["get", "greeting"]).ok(), "again\n");
}

#[test]
fn keys_are_set_listed_and_deleted() {
    let cluster = Cluster::up(1, &[]);
    for index in 0..25 {
        cluster.run(&["put", &format!("user:{index}"), "x"]).ok();
    }
    cluster.run(&["put", "other", "-"]).ok();
    let listed = cluster.run(&["scan", "user:*"]).ok();
    assert_eq!(listed.lines().count(), 25);
    assert_eq!(cluster.run(&["scan", "--limit", "3"]).ok().lines().count(), 3);
    let all = cluster.run(&["scan", "--output", "json"]).json();
    assert_eq!(all.as_array().map(Vec::len), Some(26));
    assert_eq!(cluster.run(&["get", "other"]).ok(), "\n", "an empty standard input");
    assert_eq!(cluster.run(&["del", "user:1", "user:2", "nobody"]).ok(), "2 deleted\n");
    cluster.run(&["put", "a", "b", "--ttl", "0"]).fails(1, "ERR invalid expire");
}

#[test]
fn nodes_are_added_and_removed_and_leadership_moves() {
    let cluster = Cluster::up(3, &[]);
    cluster.run(&["put", "a", "1"]).ok();
    assert!(cluster.run(&["node", "add"]).ok().contains("node 4 is a member"));
    let at = cluster.door(4, "client");
    assert_eq!(run(&["get", "a", "--at", &at]).ok(), "1\n");
    cluster.run(&["node", "remove", "1"]).ok();
    let members = cluster.run(&["nodes", "--output", "json"]).json();
    let ids: Vec<_> =
        members.as_array().expect("members").iter().map(|member| member["id"].as_u64()).collect();
    assert_eq!(ids, [Some(2), Some(3), Some(4)]);
    cluster.run(&["revive", "1"]).fails(2, "there is no node 1");
    assert_eq!(cluster.run(&["get", "a"]).ok(), "1\n");

    let leader = || {
        let status = cluster.status();
        let nodes = status["nodes"].as_array().expect("nodes").clone();
        nodes.iter().find(|node| node["report"]["node"]["role"] == "leader").map(|node| node["id"].as_u64())
    };
    cluster.run(&["leader", "transfer", "--to", "4"]).ok();
    until("node 4 leads", || leader() == Some(Some(4)));
    cluster.run(&["leader", "transfer", "--to", "77"]).fails(1, "nothing was changed");
    assert!(cluster.run(&["log-level", "warn,quorate_host=debug"]).ok().contains("logs warn"));
    cluster.run(&["log-level", "a=b=c"]).fails(1, "not a filter");
}

#[test]
fn ports_in_use_are_named_and_nothing_is_started() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().join("data");
    let base = port.to_string();
    let words =
        ["up", "--detach", "--nodes", "1", "--base-port", &base, "--data", data.to_str().expect("UTF-8")];
    // The ports above may not exist; then that is the complaint.
    let code = if port > 63_535 { 2 } else { 69 };
    let ended = run(&words);
    assert_eq!(ended.code, code, "{}", ended.err);
    if code == 69 {
        assert!(ended.err.contains(&format!("127.0.0.1:{port} (client door of node 1)")), "{}", ended.err);
        assert!(ended.err.contains("--base-port"), "{}", ended.err);
    }
    assert!(!data.join("node-1").exists());
}

#[test]
fn in_the_foreground_a_signal_stops_the_nodes() {
    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().to_str().expect("UTF-8");
    let up = quorate(&["up", "--nodes", "3", "--base-port", "0", "--data", data])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    until("the cluster serves", || run(&["put", "a", "b", "--data", data]).code == 0);
    let pid = rustix::process::Pid::from_raw(i32::try_from(up.id()).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let ended = Ended::of(up.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("redis-cli -p"), "{}", ended.out);
    assert!(run(&["status", "--data", data]).ok().contains("the cluster is down"));
}

#[test]
fn a_node_that_cannot_start_says_why_by_its_exit_code() {
    let cluster = Cluster::up(1, &[]);
    let (client, data) = (cluster.door(1, "client"), cluster.data.join("node-1"));
    let temp = tempfile::tempdir().expect("a directory");
    let fresh = temp.path().join("fresh");
    let fresh = fresh.to_str().expect("UTF-8");
    let doors = ["--peer", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let start = |data: &str, client: &str, more: &[&str]| {
        let mut words = vec!["start", "--data", data, "--client", client];
        words.extend(doors);
        words.extend(more);
        run(&words)
    };
    start(fresh, &client, &[]).fails(69, "another process does");
    start(data.to_str().expect("UTF-8"), "127.0.0.1:0", &[]).fails(73, "in use by another process");
    start(fresh, "127.0.0.1:0", &["--set", "limits.pipeline_max=0"]).fails(78, "pipeline_max = 0");
    start(fresh, "127.0.0.1:0", &["--config", "/no/such/file"]).fails(78, "/no/such/file");
    start(fresh, "nowhere", &[]).fails(78, "write host:port");
    start(fresh, "127.0.0.1:0", &["--bootstrap", "1@a:1"]).fails(78, "say which of them");
    start(fresh, "127.0.0.1:0", &["--id", "x"]).fails(2, "invalid value");
}

#[test]
fn the_number_of_buckets_is_fixed_and_learnt_by_who_joins() {
    let cluster = Cluster::up(3, &["--buckets", "5"]);
    let wrong = cluster.run(&["up", "--detach", "--buckets", "4"]);
    wrong.fails(2, "the cluster was founded with 5 buckets");
    cluster.run(&["up", "--detach", "--buckets", "5"]).ok();

    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().to_str().expect("UTF-8");
    let (peer, any) = (cluster.door(1, "peer"), "127.0.0.1:0");
    let client = TcpListener::bind(any).and_then(|free| free.local_addr()).expect("a port").to_string();
    let doors = ["--client", &client, "--cluster-door", "", "--peer", any, "--admin", ""];
    let words = [&["start", "--data", data, "--join", &peer][..], &doors].concat();
    let mut joined = quorate(&words).stderr(Stdio::null()).spawn().expect("the program starts");
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        cluster.run(&["put", key, key]).ok();
        until("the new node serves", || run(&["get", key, "--at", &client]).out == format!("{key}\n"));
    }
    joined.kill().expect("it runs");
    joined.wait().expect("it ends");
    run(&[&words[..], &["--buckets", "4"]].concat()).fails(78, "has 5 buckets, which cannot be changed");
}
