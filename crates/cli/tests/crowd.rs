//! Ten thousand connections that say nothing, and some that do not read: their memory is bounded, and nobody else notices.
//!
//! A program of its own, so that no other test has to share the processors with it.

mod common;

use common::{Bystander, Cluster, Raw, until, words};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

/// Lets this process, and the nodes that it starts, open as many files as the system allows; says how many.
fn all_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// What a node says of its process and its clients.
fn report(cluster: &Cluster, path: &str) -> u64 {
    let status = cluster.status();
    status["nodes"][0]["report"].pointer(path).and_then(Value::as_u64).expect("a number")
}

#[test]
fn ten_thousand_idle_connections_and_slow_readers() {
    const SLOW: usize = 48;
    const VALUE_BYTES: usize = 256 << 10;
    // An idle connection keeps no buffer: its session, its parser and two addresses.
    const IDLE_BYTES_MAX: usize = 4 << 10;
    // Before anything is known of its answers, eight requests of a connection may be under way; later reading from it pauses when
    // limits.output_soft_bytes wait (1 MiB), behind which one more answer may come. A buffer may be twice as large as what is in it.
    const SLOW_BYTES_MAX: usize = 2 * 8 * VALUE_BYTES;
    let allowed = usize::try_from(all_descriptors()).unwrap_or(usize::MAX);
    let crowd = allowed.saturating_sub(1_000).min(10_000);
    if crowd < 10_000 {
        eprintln!("only {crowd} idle connections: a process may open {allowed} files here (ulimit -Hn)");
    }
    let limit = crowd + 100;
    let cluster = Cluster::up(1, &["--set", &format!("limits.connections_max={limit}")]);
    let mut bystander = Bystander::of(&cluster);
    let value = "x".repeat(VALUE_BYTES);
    bystander.client.send(words(&["SET", "big", &value]));
    bystander.client.expect("+OK\r\n");
    let before = report(&cluster, "/process/resident_bytes");

    let mut idle = Vec::new();
    for start in (0..crowd).step_by(500) {
        idle.extend((start..crowd.min(start + 500)).map(|_| cluster.connect(1, "client")));
        bystander.is_unharmed();
    }
    until("all are let in", || report(&cluster, "/host/clients/connections") > crowd as u64);
    let crowded = report(&cluster, "/process/resident_bytes");

    let ask = words(&["GET", "big"]).repeat(2_000);
    let mut slow: Vec<Raw> = (0..SLOW).map(|_| cluster.connect(1, "client")).collect();
    slow.iter_mut().for_each(|reader| reader.send(&ask));
    let mut sent = 0;
    until("nothing more goes to those who do not read", || {
        let before = std::mem::replace(&mut sent, report(&cluster, "/host/clients/bytes_out"));
        bystander.is_unharmed();
        sent > (SLOW * VALUE_BYTES) as u64 && sent - before < 1_000
    });
    let peak = report(&cluster, "/process/peak_bytes");
    eprintln!("MiB: {} before, {} with {crowd} idle, {} at most", before >> 20, crowded >> 20, peak >> 20);
    let idle_max = before + (crowd * IDLE_BYTES_MAX) as u64;
    assert!(crowded < idle_max, "{} MiB for idle connections", (crowded - before) >> 20);
    let peak_max = idle_max + (SLOW * SLOW_BYTES_MAX) as u64;
    assert!(peak < peak_max, "{} of {} MiB", peak >> 20, peak_max >> 20);

    // The place of one who goes is free; nobody else gets one.
    let others = report(&cluster, "/host/clients/connections");
    idle.extend((others..limit as u64).map(|_| cluster.connect(1, "client")));
    until("no place is left", || report(&cluster, "/host/clients/connections") == limit as u64);
    assert_eq!(cluster.connect(1, "client").rest(), "-ERR max number of clients reached\r\n");
    bystander.is_unharmed();
    idle.pop();
    until("there is a place", || report(&cluster, "/host/clients/connections") < limit as u64);
    idle.push(cluster.connect(1, "client"));
    // Those who were silent, or slow, are served as well.
    for patient in idle.iter_mut().rev().step_by(1_000) {
        patient.send("PING\r\n");
        patient.expect("+PONG\r\n");
    }
    slow[0].expect(&format!("${VALUE_BYTES}\r\n{value}\r\n").repeat(3));
}
