//! Nodes among themselves: messages, reconnecting, refusals, garbage.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Node, PATIENCE, Wish, command, start, until, wish};
use quorate_kernel::NodeId;
use quorate_node::{Endpoints, Member};

/// A port that nobody listens at, for nodes that must know each other's addresses beforehand. It is below those that the system gives to
/// connections, or one could have it before the node does.
fn free_port() -> String {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id();
    let ports =
        (0..10_000).map(|_| from.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % 10_000 + 20_000);
    let mut ports = ports.map(|port| format!("127.0.0.1:{port}"));
    ports.find(|port| TcpListener::bind(port).is_ok()).expect("a free port")
}

fn member(id: u64, peer: &str) -> Member {
    Member { id: NodeId(id), endpoints: Endpoints { peer: peer.into(), ..Endpoints::default() }.into() }
}

fn pair() -> (Wish, Wish) {
    let (address1, address2) = (free_port(), free_port());
    let (mut one, mut two) = (wish(), wish());
    two.id = 2;
    one.config.listen.peer.clone_from(&address1);
    two.config.listen.peer.clone_from(&address2);
    one.peers = vec![member(1, &address1), member(2, &address2)];
    two.peers = one.peers.clone();
    (one, two)
}

fn connected(node: &Node, to: u64) -> bool {
    node.status().learners == [NodeId(to)]
}

fn set_and_see(from: &Node, to: &Node, key: &str) {
    let (mut writer, mut reader) = (from.client(), to.client());
    writer.send(format!("SET {key} x\r\n"));
    writer.expect("+OK\r\n");
    until("the copy has arrived", || {
        reader.send(format!("GET {key}\r\n"));
        let mut bytes = [0; 32];
        let count = reader.stream.read(&mut bytes).expect("an answer");
        &bytes[..count] == b"$1\r\nx\r\n"
    });
}

#[test]
fn peers_exchange_messages_and_find_each_other_again() {
    let (one, two) = pair();
    let (config2, peers2) = (two.config.clone(), two.peers.clone());
    let one = start(one).expect("started");
    let two = start(two).expect("started");
    until("both are connected", || connected(&one, 2) && connected(&two, 1));
    set_and_see(&one, &two, "a");
    set_and_see(&two, &one, "b");
    two.stop().expect("an orderly end");
    until("the loss is noticed", || one.status().learners.is_empty());
    assert_eq!(one.status().epoch, 1, "lost once");
    let two = start(Wish { id: 2, config: config2, peers: peers2, ..wish() }).expect("started again");
    until("both are connected", || connected(&one, 2) && connected(&two, 1));
    set_and_see(&one, &two, "c");
    let stats = one.stats().peers;
    assert_eq!((stats.connected, stats.garbage), (1, 0));
}

/// A follower that took its dead leader's last message for a sign of life missed it only after the whole timeout.
#[test]
fn what_a_peer_said_last_comes_before_its_end() {
    let (mut one, two) = pair();
    // In the loop: while the disk stands still, so does everything.
    one.config.durable.inline_us_max = 1_000_000;
    let disk = one.disk.clone();
    let one = start(one).expect("started");
    let two = start(two).expect("started");
    until("both are connected", || connected(&one, 2) && connected(&two, 1));
    let (mut writer, mut last) = (one.client(), two.client());
    disk.control.stop(true);
    writer.send("SET a 1\r\n");
    until("it waits for its disk", || disk.control.waiting.load(Ordering::SeqCst) > 0);
    last.send("SET b 2\r\n");
    last.expect("+OK\r\n");
    two.stop().expect("an orderly end");
    disk.control.stop(false);
    until("the loss is noticed", || one.status().learners.is_empty());
    assert_eq!(one.status().log_last, 2, "it had both keys when it heard of the end");
}

#[test]
fn a_joining_node_learns_the_cluster_by_an_address_alone() {
    let one = start(wish()).expect("started");
    let mut joining = wish();
    joining.id = 2;
    joining.cluster = 0;
    joining.config.cluster.join = vec![one.peer_address().to_string().replace("127.0.0.1", "localhost")];
    let two = start(joining).expect("started");
    until("it is connected", || connected(&two, 1));
    until("it was seen", || one.stats().peers.inbound == 1);
}

#[test]
fn strangers_and_twins_are_refused() {
    let one = start(wish()).expect("started");
    for (id, cluster) in [(2, 8), (1, 7)] {
        let mut other = wish();
        (other.id, other.cluster) = (id, cluster);
        other.config.cluster.join = vec![one.peer_address().to_string()];
        let before = one.stats().peers.refused;
        let other = start(other).expect("started");
        until("it was refused", || one.stats().peers.refused > before + 1);
        assert_eq!(other.status().learners, []);
    }
}

#[test]
fn garbage_on_the_peer_door_is_closed_and_harms_nobody() {
    let (one, two) = pair();
    let one = start(one).expect("started");
    let two = start(two).expect("started");
    until("both are connected", || connected(&one, 2) && connected(&two, 1));
    let mut rng = quorate_kernel::Rng::new(3);
    for round in 0..20 {
        let mut stream = TcpStream::connect(one.peer_address()).expect("open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let bytes: Vec<u8> = match round {
            0 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            1 => b"*1\r\n$4\r\nPING\r\n".to_vec(),
            _ => (0..rng.between(100, 50_000)).map(|_| rng.next_u64() as u8).collect(),
        };
        // The node may close before all is written.
        let _ = stream.write_all(&bytes);
        // Closed by the node, with or without a reset.
        let mut answer = Vec::new();
        let closed = stream.read_to_end(&mut answer);
        assert!(
            closed.is_ok() || closed.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        );
        assert_eq!(answer, b"");
    }
    assert_eq!(one.stats().peers.garbage, 20);
    set_and_see(&two, &one, "still");
}

#[test]
fn a_taken_port_is_told() {
    let one = start(wish()).expect("started");
    let mut second = wish();
    second.config.listen.client = one.client_address().to_string();
    let error = start(second).expect_err("taken");
    assert_eq!(error.exit_code(), 69);
    assert!(error.to_string().contains("listen.client"), "{error}");
}

#[test]
fn a_join_address_may_be_answered_by_another_node_than_before() {
    let one = start(wish()).expect("started");
    let address = one.peer_address().to_string();
    let mut joining = wish();
    joining.id = 5;
    joining.config.cluster.join = vec![address.clone()];
    let joining = start(joining).expect("started");
    until("it is connected", || connected(&joining, 1));
    one.stop().expect("an orderly end");
    let mut other = wish();
    other.id = 9;
    other.config.listen.peer = address;
    let other = start(other).expect("started");
    until("it is connected to the other", || connected(&joining, 9));
    drop(other);
}

#[test]
fn a_message_above_the_limit_is_dropped_and_the_connection_stays() {
    let (mut one, two) = pair();
    one.config.peers.frame_bytes_max = quorate_host::config::ByteCount::mib(34);
    let one = start(one).expect("started");
    let two = start(two).expect("started");
    until("both are connected", || connected(&one, 2) && connected(&two, 1));
    // The toy sends "huge" as twenty times its value.
    let mut client = one.client();
    client.send(command(&["SET", "huge", &"x".repeat(2_000_000)]));
    client.expect("+OK\r\n");
    until("it was dropped", || one.stats().peers.dropped == 1);
    set_and_see(&one, &two, "small");
    assert_eq!(one.status().epoch, 0, "never lost");
}
