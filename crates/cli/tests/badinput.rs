//! What strangers may send to each door: one connection suffers, the node and everybody else do not.

mod common;

use std::net::Shutdown;

use common::{Bystander, Cluster, Raw, until, words};

#[test]
fn the_client_door() {
    let cluster = Cluster::up(1, &[]);
    let mut bystander = Bystander::of(&cluster);
    let garbage: [&[u8]; 8] = [
        b"*-5\r\n",
        b"*99999999999999999999\r\n",
        b"*1\r\n$-3\r\n",
        b"*1\r\n$999999999999\r\n",
        b"*3\r\n+OK\r\n",
        b"*1\r\n$3\r\nPINGPING\r\n",
        b"$5\r\nhello\r\n\x00\xff\xfe",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for bytes in garbage {
        let mut stranger = cluster.connect(1, "client");
        stranger.send(bytes);
        stranger.stream.shutdown(Shutdown::Write).expect("open");
        let _ = stranger.rest();
        bystander.is_unharmed();
    }
    // A word that never ends is refused long before it fills the memory.
    let mut stranger = cluster.connect(1, "client");
    for _ in 0..64 {
        stranger.send(vec![b'x'; 64 << 10]);
    }
    stranger.stream.shutdown(Shutdown::Write).ok();
    assert!(stranger.rest().starts_with("-ERR"), "told before it is closed, or cut off");
    bystander.is_unharmed();
}

#[test]
fn the_peer_door() {
    let cluster = Cluster::up(3, &[]);
    let mut bystander = Bystander::of(&cluster);
    let frame = |length: u32| [&length.to_le_bytes()[..], &[7; 60]].concat();
    let garbage = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 4096],
        frame(60),
        frame(u32::MAX),
        frame(0),
    ];
    for bytes in garbage {
        let mut stranger = cluster.connect(1, "peer");
        stranger.send(&bytes);
        stranger.stream.shutdown(Shutdown::Write).ok();
        let _ = stranger.rest();
        bystander.is_unharmed();
    }
    let status = cluster.status();
    assert!(
        status["nodes"].as_array().expect("nodes").iter().all(|node| node["report"]["node"]["ready"] == true)
    );
}

#[test]
fn the_admin_door() {
    let cluster = Cluster::up(1, &[]);
    let mut bystander = Bystander::of(&cluster);
    let json = "Content-Type: application/json\r\n";
    let post = |path: &str, headers: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let cases = [
        ("GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), " 404 "),
        ("GET /members HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), " 405 "),
        (post("/members", "", "{}"), " 415 "),
        (post("/members", json, "{"), " 400 "),
        (post("/members", json, "{\"add\":[],\"subtract\":[]}"), " 400 "),
        (post("/members", json, &"x".repeat(1 << 20)), " 413 "),
        (post("/members", json, "{\"remove\":[1]}"), " 409 "),
        (post("/log-level", json, "{\"filter\":\"a=b=c\"}"), " 400 "),
    ];
    for (request, expected) in cases {
        let mut stranger = cluster.connect(1, "admin");
        stranger.send(&request);
        let answer = stranger.rest();
        let head = answer.lines().next().unwrap_or_default().to_owned();
        let start: String = request.chars().take(60).collect();
        assert!(head.contains(expected), "{start:?}: {head}");
        bystander.is_unharmed();
    }
    let mut stranger = cluster.connect(1, "admin");
    stranger.send(vec![0xff; 10_000]);
    stranger.stream.shutdown(Shutdown::Write).ok();
    let _ = stranger.rest();
    bystander.is_unharmed();
}

#[test]
fn connections_that_say_nothing_or_too_many() {
    let cluster = Cluster::up(1, &["--set", "limits.connections_max=60", "--set", "limits.idle_ms=1500"]);
    let idle: Vec<Raw> = (0..50).map(|_| cluster.connect(1, "client")).collect();
    let mut bystander = Bystander::of(&cluster);
    bystander.is_unharmed();
    let mut crowd: Vec<Raw> = (0..30).map(|_| cluster.connect(1, "client")).collect();
    let turned_away = crowd.iter_mut().filter_map(|stranger| {
        stranger.send("PING\r\n");
        let mut bytes = [0; 5];
        std::io::Read::read(&mut stranger.stream, &mut bytes).ok().map(|_| bytes)
    });
    assert!(turned_away.filter(|bytes| bytes == b"-ERR ").count() >= 20);
    bystander.is_unharmed();
    // The silent ones are closed one day; who speaks stays.
    let connections = || cluster.status()["nodes"][0]["report"]["host"]["clients"]["connections"].as_u64();
    until("the idle connections are closed", || {
        bystander.is_unharmed();
        connections() == Some(1)
    });
    drop((idle, crowd));
}

#[test]
fn a_client_that_does_not_read() {
    let cluster = Cluster::up(1, &[]);
    let mut bystander = Bystander::of(&cluster);
    let value = "x".repeat(1 << 20);
    let mut writer = cluster.connect(1, "client");
    writer.send(format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\n", value.len()));
    writer.expect("+OK\r\n");
    let mut slow = cluster.connect(1, "client");
    slow.stream.set_write_timeout(Some(std::time::Duration::from_millis(200))).expect("a socket");
    // Two gigabytes of answers are asked for, and none is read.
    slow.send("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(2_000));
    for _ in 0..20 {
        bystander.is_unharmed();
    }
    let memory = cluster.status()["nodes"][0]["report"]["process"]["peak_bytes"].as_u64().expect("a number");
    assert!(memory < 100 << 20, "{} MiB", memory >> 20);
}

#[test]
fn long_answers_come_from_every_node_and_too_long_ones_change_nothing() {
    let cluster = Cluster::up(3, &[]);
    let value = "x".repeat(4 << 20);
    let mut writer = cluster.connect(1, "client");
    for _ in 0..9 {
        writer.send(words(&["RPUSH", "list", &value]));
    }
    (1..=9).for_each(|length| writer.expect(&format!(":{length}\r\n")));
    // Together more than one message between nodes may carry.
    for node in 1..=3 {
        let mut reader = cluster.connect(node, "client");
        reader.send(words(&["LINDEX", "list", "-1"]).repeat(30));
        for _ in 0..30 {
            reader.expect(&format!("${}\r\n{value}\r\n", value.len()));
        }
        for greedy in [&["LRANGE", "list", "0", "-1"][..], &["LPOP", "list", "9"]] {
            reader.send(words(greedy));
            reader.expect("-ERR the answer would have ");
            assert!(reader.line().contains("nothing was changed"), "{greedy:?}");
        }
        reader.send(words(&["LLEN", "list"]));
        reader.expect(":9\r\n");
    }
    writer.send(words(&["APPEND", "string", &value]).repeat(9));
    (1..=8).for_each(|times| writer.expect(&format!(":{}\r\n", times * value.len())));
    writer.expect("-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
}
