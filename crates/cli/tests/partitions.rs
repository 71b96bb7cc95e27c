//! Nodes in network namespaces of their own whose network is cut. Where there is no root, that this is said.

mod common;

use std::process::{Command, Stdio};

use common::{Ended, quorate, run, until};
use serde_json::Value;

/// Code for what the system refuses.
const SYSTEM: i32 = 71;

/// What `ip` says; empty if it is not there.
fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Namespaces and links of the campaign of this process.
fn made_by(pid: u32) -> Vec<String> {
    let tag = format!("qt{pid}");
    let all = ip(&["netns", "list"]) + &ip(&["-brief", "link", "show"]);
    all.lines().filter(|line| line.starts_with(&tag)).map(str::to_owned).collect()
}

/// Whether this machine lets the test make a namespace and drop packets in it.
fn can_cut() -> bool {
    let name = format!("qtest{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &name]).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return false;
    }
    let listed = Command::new("ip").args(["netns", "exec", &name, "iptables", "-S"]).output();
    ip(&["netns", "delete", &name]);
    listed.is_ok_and(|listed| listed.status.success())
}

fn start(words: &[&str]) -> std::process::Child {
    let mut all = vec!["torture", "partitions", "--output", "json"];
    all.extend(words);
    quorate(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

#[test]
fn histories_hold_while_the_network_is_cut_and_nothing_is_left_of_it() {
    let child = start(&["--minutes", "0.3", "--clients", "8", "--keys", "20"]);
    let pid = child.id();
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    eprintln!("{}", ended.err);
    assert_eq!(made_by(pid), Vec::<String>::new());
    if !can_cut() {
        ended.fails(SYSTEM, "no network of namespaces can be made here");
        return;
    }
    let result: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}\n{}", ended.out, ended.err));
    assert_eq!(ended.code, 0, "{:#}", result["clients"]["verdicts"]);
    assert!(result["details"]["partitions"].as_u64().is_some_and(|count| count > 0));
    let clients = &result["clients"];
    assert_eq!(clients["nonsense"], 0);
    let verdicts = clients["verdicts"].as_array().expect("verdicts");
    let judged = |name: &str| verdicts.iter().any(|verdict| verdict["workload"] == name);
    assert!(["register", "append", "bank", "cycle"].into_iter().all(judged));
    for verdict in verdicts {
        assert_eq!(verdict["verdict"], "ok", "{verdict:#}");
    }
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    if !can_cut() {
        run(&["torture", "partitions"]).fails(SYSTEM, "no network of namespaces can be made here");
        return;
    }
    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().join("data");
    let child = start(&["--minutes", "10", "--data", data.to_str().expect("UTF-8")]);
    let pid = child.id();
    until("the network is there", || !made_by(pid).is_empty());
    let asked = Command::new("kill").args(["-INT", &pid.to_string()]).status();
    assert!(asked.is_ok_and(|status| status.success()));
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    assert_eq!(made_by(pid), Vec::<String>::new());
    ended.fails(1, "a signal asked for the end");
    let manifest = std::fs::read_to_string(data.join("cluster.json")).unwrap_or_else(|_| "{}".into());
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    for node in manifest["nodes"].as_array().into_iter().flatten() {
        assert_eq!(node["process"], Value::Null, "a node runs on: {node}");
    }
}

#[test]
fn what_is_missing_is_named_before_anything_is_made() {
    let temp = tempfile::tempdir().expect("a directory");
    let data = temp.path().join("data");
    let words = ["torture", "partitions", "--data", data.to_str().expect("UTF-8")];
    let output = quorate(&words).env("PATH", temp.path()).output().expect("the program starts");
    let ended = Ended::of(output);
    // Who is not root is told that first.
    assert!(ended.err.contains("install iproute2") || ended.err.contains("only root"), "{}", ended.err);
    ended.fails(SYSTEM, "nothing was left behind");
    assert!(!data.exists());
}
