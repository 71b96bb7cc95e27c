//! Groups of nodes that hold the buckets: they form, split and merge by themselves and by hand, and lose nothing meanwhile.

mod common;

use common::{Cluster, until};
use serde_json::Value;

/// A group as `quorate groups` lists it.
struct Group {
    name: String,
    epoch: u64,
    buckets: usize,
    members: Vec<u64>,
    is_led: bool,
}

fn groups(cluster: &Cluster) -> Vec<Group> {
    let list = cluster.run(&["groups", "--output", "json"]);
    if list.code != 0 {
        return Vec::new();
    }
    let list: Value = serde_json::from_str(&list.out).expect("JSON");
    let group = |group: &Value| Group {
        name: format!("g{:x}", group["id"].as_u64().expect("a name")),
        epoch: group["epoch"].as_u64().expect("an epoch"),
        buckets: group["buckets"].as_array().expect("buckets").len(),
        members: group["members"].as_array().expect("members").iter().filter_map(Value::as_u64).collect(),
        is_led: group["quorum"] == Value::Bool(true),
    };
    list.as_array().expect("groups").iter().map(group).collect()
}

/// Waits until the groups have these sizes, in any order, and all of them are led.
fn settled(cluster: &Cluster, sizes: &[usize]) -> Vec<Group> {
    let mut found = Vec::new();
    until(&format!("groups have the sizes {sizes:?}"), || {
        found = groups(cluster);
        let mut now: Vec<usize> = found.iter().map(|group| group.members.len()).collect();
        now.sort_unstable();
        now == sizes && found.iter().all(|group| group.is_led)
    });
    assert_eq!(found.iter().map(|group| group.buckets).sum::<usize>(), 8);
    found
}

/// All keys are there, at whichever node one asks.
fn look(cluster: &Cluster, node: usize) {
    let mut client = cluster.connect(node, "client");
    for number in 0..60 {
        client.send(format!("GET key:{number}\r\n"));
        client.line();
        assert_eq!(client.line(), format!("{number}\r\n"));
    }
}

#[test]
fn groups_look_after_themselves_and_do_what_they_are_told() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(7, &words);
    // One group would be too large.
    let first = settled(&cluster, &[3, 4]);
    let mut client = cluster.connect(1, "client");
    for number in 0..60 {
        client.send(format!("SET key:{number} {number}\r\n"));
        assert_eq!(client.line(), "+OK\r\n");
    }
    assert!(cluster.run(&["status"]).ok().contains("SPEAKER"));

    let ask = |words: &[&str]| {
        // While the last change is being carried out, some are refused and have to be asked for again.
        until(&format!("{words:?} is done"), || cluster.run(words).code == 0);
    };
    ask(&["group", "merge", &first[0].name]);
    // Together they are too many again.
    until("there are other groups", || {
        let now = groups(&cluster);
        now.len() == 2 && now.iter().all(|group| first.iter().all(|other| other.name != group.name))
    });
    let second = settled(&cluster, &[3, 4]);
    assert!(second.iter().all(|group| group.epoch > 2), "epochs go on");
    look(&cluster, 7);

    let (large, small) = match second[0].members.len() {
        4 => (&second[0], &second[1]),
        _ => (&second[1], &second[0]),
    };
    let node = large.members[1].to_string();
    ask(&["group", "move", &node, &small.name]);
    settled(&cluster, &[3, 4]);
    until("it has moved", || {
        groups(&cluster).iter().any(|it| it.name == small.name && it.members.contains(&large.members[1]))
    });
    look(&cluster, 3);

    // Emptied, and let in again.
    ask(&["node", "remove", &node]);
    until("it is in no group", || {
        groups(&cluster).iter().all(|group| !group.members.contains(&large.members[1]))
    });
    look(&cluster, 1);

    cluster.run(&["group", "split", "gffff"]).fails(1, "there is no group gffff");
    cluster.run(&["copies", "5"]).fails(1, "with: nodes that are started with cluster.nines");
    cluster.run(&["group", "split", "seven"]).fails(2, "a group is named by `g` and hexadecimal digits");
    let plain = Cluster::up(1, &["--durability", "interval"]);
    plain.run(&["groups"]).fails(1, "form no groups");
    plain.run(&["why", "key", "foo"]).fails(1, "form no groups");
    plain.run(&["group", "merge", "g1"]).fails(1, "form no groups");
}

#[test]
fn a_group_replaces_who_dies() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(4, &words);
    settled(&cluster, &[4]);
    let mut client = cluster.connect(2, "client");
    for number in 0..60 {
        client.send(format!("SET key:{number} {number}\r\n"));
        assert_eq!(client.line(), "+OK\r\n");
    }
    cluster.run(&["kill", "1"]).ok();
    settled(&cluster, &[3]);
    look(&cluster, 2);
    cluster.run(&["revive", "1"]).ok();
    settled(&cluster, &[4]);
    look(&cluster, 1);
    cluster.run(&["up", "--detach", "--topology", "view"]).ok();
}

#[test]
fn a_group_that_lost_most_of_its_members_is_recovered_and_joins_others() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(8, &words);
    let found = settled(&cluster, &[4, 4]);
    let mut client = cluster.connect(found[1].members[0] as usize, "client");
    for number in 0..60 {
        client.send(format!("SET key:{number} {number}\r\n"));
        assert_eq!(client.line(), "+OK\r\n");
    }
    let (left, lost) = found[0].members.split_first().expect("four");
    // Within a second: later ones would find the first replaced.
    for node in lost {
        cluster.run(&["kill", &node.to_string()]).ok();
    }
    until("its buckets are halted", || cluster.run(&["status"]).ok().matches("HALTED").count() == 4);
    until("they go on", || cluster.run(&["recover", "--all", "--accept-data-loss"]).code == 0);
    let after = settled(&cluster, &[5]);
    assert!(after[0].members.contains(left), "whoever was left has found others");
    look(&cluster, *left as usize);
}

/// The newest event of a kind that `quorate why` tells of a group.
fn event(cluster: &Cluster, words: &[&str], kind: &str) -> Option<Value> {
    let told: Value = serde_json::from_str(&cluster.run(words).ok()).expect("JSON");
    let events = told["events"].as_array().expect("events");
    events.iter().rev().find(|event| event["what"]["kind"] == kind).cloned()
}

fn metrics(cluster: &Cluster, node: usize) -> String {
    let mut door = cluster.connect(node, "admin");
    door.send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    door.rest()
}

#[test]
fn groups_say_who_is_responsible_and_why_they_changed() {
    let words = ["--topology", "ring", "--copies", "3", "--buckets", "8", "--durability", "interval"];
    let cluster = Cluster::up(6, &words);
    // One group of six is twice as large as the smallest that may be.
    let first = settled(&cluster, &[3, 3]);
    let split = event(&cluster, &["why", "group", &first[1].name, "--json"], "split").expect("the split");
    assert_eq!(split["policy"], "resilience", "{split}");
    until("they are merged by hand", || cluster.run(&["group", "merge", &first[0].name]).code == 0);
    until("there are other groups", || {
        let now = groups(&cluster);
        now.len() == 2 && now.iter().all(|group| first.iter().all(|other| other.name != group.name))
    });
    let halves = settled(&cluster, &[3, 3]);
    let merge = event(&cluster, &["why", "group", &first[0].name, "--json"], "merge").expect("the merge");
    assert_eq!(merge["policy"], "by hand", "{merge}");
    assert_eq!(merge["end"]["how"], "done", "{merge}");
    // The half that came of it remembers where it came from.
    let of_half = cluster.run(&["why", "group", &halves[1].name]).ok();
    for part in [halves[1].name.as_str(), "speaks for it", "splits at bucket"] {
        assert!(of_half.contains(part), "{part} is missing in {of_half}");
    }
    let of_old = cluster.run(&["why", "group", &first[0].name]).ok();
    assert!(of_old.contains("an operator asked for it"), "{of_old}");
    let of_key = cluster.run(&["why", "key", "foo"]).ok();
    assert!(of_key.contains("slot 12182, bucket 5; node ") && of_key.contains("by hand"), "{of_key}");
    let node = halves[0].members[0];
    let of_node = cluster.run(&["why", "node", &node.to_string()]).ok();
    assert!(
        of_node.contains(&format!("node {node}: serves; ")) && of_node.contains("splits at"),
        "{of_node}"
    );
    let count = |what: &str| -> u64 {
        let name = format!("quorate_group_operation{what}{{operation=\"split\"}} ");
        let all = (1..=6).map(|node| metrics(&cluster, node));
        let values = all
            .filter_map(|text| text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()));
        values.sum()
    };
    until("the pictures of the nodes are new", || count("s_completed_total") == 2);
    assert!(count("s_begun_total") >= 2 && count("_duration_seconds_count") == 2);

    // Who dies is let go for another reason; and who is dead is missed.
    cluster.run(&["kill", &node.to_string()]).ok();
    until("it is let go", || groups(&cluster).iter().all(|group| !group.members.contains(&node)));
    let words = ["why", "node", &node.to_string(), "--output", "json"];
    until("the reason is told", || event(&cluster, &words, "failure").is_some());
    let failure = event(&cluster, &words, "failure").expect("the failure");
    assert_eq!(failure["policy"], "resilience", "{failure}");
    assert!(failure["motive"]["missing_ms"].as_u64() >= failure["motive"]["repair_ms"].as_u64(), "{failure}");
    assert!(cluster.run(&["why", "key", "foo"]).ok().contains(&format!("no answer from node {node}")));

    cluster.run(&["why", "group", "gffff"]).fails(1, "there is no group gffff");
    cluster.run(&["why", "node", "77"]).fails(1, "nobody knows a node 77");
    cluster.run(&["why", "foo"]).fails(2, "unrecognized subcommand");
    cluster.run(&["status", "--watch"]).fails(2, "draws on a terminal");
}
