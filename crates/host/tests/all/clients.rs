//! The client door: order, limits, slow and silent clients, garbage.

use std::io::Write;
use std::net::Shutdown;

use crate::common::{Client, command, start, until, wish};
use quorate_host::config::ByteCount;

#[test]
fn answers_keep_the_order_of_commands() {
    let node = start(wish()).expect("started");
    let mut client = node.client();
    let mut sent = Vec::new();
    let mut expected = String::new();
    for round in 0..500 {
        let value = round.to_string();
        sent.extend(command(&["SET", "k", &value]));
        sent.extend(command(&["PING"]));
        sent.extend(command(&["GET", "k"]));
        expected += &format!("+OK\r\n+PONG\r\n${}\r\n{value}\r\n", value.len());
    }
    client.send(&sent);
    client.expect(expected);
    assert_eq!(node.stats().clients.in_flight, 0);
    assert_eq!(node.stats().clients.commands, 1_500);
    node.stop().expect("an orderly end");
}

/// QUORATE EXPLAIN is about what came before it on the connection, also if that has not ended.
#[test]
fn an_explanation_waits_for_what_it_explains() {
    let node = start(wish()).expect("started");
    let mut client = node.client();
    client.send(command(&["WATCH", "k"]));
    client.expect("+OK\r\n");
    let mut sent = Vec::new();
    for words in [&["MULTI"][..], &["SET", "k", "v"], &["EXEC"], &["QUORATE", "EXPLAIN"], &["QUIT"]] {
        sent.extend(command(words));
    }
    client.send(&sent);
    let told = client.rest().replace("\r\n", " ");
    let before = "+OK +QUEUED *-1 *14 $7 request $4 exec $7 outcome $3 nil $7 message $-1 $7 took-ms :";
    assert!(told.starts_with(before), "{told}");
    let reason = "$7 reasons *1 *18 $5 cause $7 changed $6 bucket :0 $3 key $1 k $15 watched-version :1 $13 found-version :2";
    assert!(told.contains(reason) && told.ends_with("waited-ms :0 +OK "), "{told}");
    node.stop().expect("an orderly end");
}

#[test]
fn commands_arrive_in_pieces() {
    let node = start(wish()).expect("started");
    let mut client = node.client();
    for byte in command(&["SET", "key", "value"]) {
        client.send([byte]);
    }
    client.expect("+OK\r\n");
    client.send("GET key\r\n");
    client.expect("$5\r\nvalue\r\n");
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_answers() {
    let node = start(wish()).expect("started");
    let mut client = node.client();
    let commands: Vec<u8> = (0..3_000).flat_map(|_| command(&["SET", "k", "v"])).collect();
    client.send(&commands);
    client.stream.shutdown(Shutdown::Write).expect("open");
    assert_eq!(client.rest(), "+OK\r\n".repeat(3_000));
    until("the connection is forgotten", || node.stats().clients.connections == 0);
}

/// More than a turn takes: whoever comes first does not keep the others out.
#[test]
fn many_clients_that_ask_much_at_once_are_all_answered() {
    let node = start(wish()).expect("started");
    let mut clients: Vec<Client> = (0..16).map(|_| node.client()).collect();
    let commands: Vec<u8> = (0..900).flat_map(|_| command(&["SET", "k", "v"])).collect();
    clients.iter_mut().for_each(|client| client.send(&commands));
    for client in &mut clients {
        client.expect("+OK\r\n".repeat(900));
    }
    assert_eq!(node.stats().clients.commands, 16 * 900);
}

#[test]
fn quit_and_protocol_errors_end_one_connection_alone() {
    let node = start(wish()).expect("started");
    let mut bystander = node.client();
    bystander.send("PING\r\n");
    bystander.expect("+PONG\r\n");
    let mut polite = node.client();
    polite.send("SET a 1\r\nQUIT\r\nGET a\r\n");
    assert_eq!(polite.rest(), "+OK\r\n+OK\r\n");
    let mut rude = node.client();
    rude.send("SET a 1\r\n*1\r\n!nonsense\r\nGET a\r\n");
    let told = rude.rest();
    assert!(told.starts_with("+OK\r\n-ERR Protocol error: expected '$'"), "{told}");
    bystander.send("PING\r\n");
    bystander.expect("+PONG\r\n");
    assert_eq!(node.stats().clients.protocol_errors, 1);
}

#[test]
fn oversized_words_are_refused_before_they_arrive() {
    let mut wish = wish();
    wish.config.limits.value_bytes_max = ByteCount::kib(128);
    let node = start(wish).expect("started");
    let mut client = node.client();
    client.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2147483647\r\n");
    assert!(client.rest().starts_with("-ERR Protocol error: invalid bulk length"));
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let mut wish = wish();
    wish.config.limits.connections_max = 2;
    let node = start(wish).expect("started");
    let mut kept: Vec<Client> = (0..2).map(|_| node.client()).collect();
    for client in &mut kept {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    }
    assert_eq!(node.client().rest(), "-ERR max number of clients reached\r\n");
    drop(kept.pop());
    until("there is room again", || node.stats().clients.connections < 2);
    let mut late = node.client();
    late.send("PING\r\n");
    late.expect("+PONG\r\n");
    kept[0].send("PING\r\n");
    kept[0].expect("+PONG\r\n");
    assert_eq!(node.stats().clients.turned_away, 1);
}

#[test]
fn silent_connections_are_closed_where_a_limit_is_set() {
    let mut wish = wish();
    wish.config.limits.idle_ms = 1_000;
    let node = start(wish).expect("started");
    let mut client = node.client();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    assert_eq!(client.rest(), "");
    assert_eq!(node.stats().clients.idle_closed, 1);
}

#[test]
fn a_client_that_does_not_read_is_held_back_then_gets_everything() {
    let mut wish = wish();
    wish.config.limits.output_soft_bytes = ByteCount::kib(256);
    wish.config.limits.pipeline_max = 16;
    let node = start(wish).expect("started");
    let mut slow = node.client();
    let count = 400;
    let commands: Vec<u8> = (0..count).flat_map(|_| command(&["GET", "big"])).collect();
    slow.send(&commands);
    // 40 MB of answers fit neither the sockets nor the soft limit: the node must stop taking commands.
    let mut before = 0;
    until("the node holds back", || {
        let taken = node.stats().clients.commands;
        let still = taken > 10 && taken == before && taken < count;
        before = taken;
        still
    });
    let mut other = node.client();
    other.send("PING\r\n");
    other.expect("+PONG\r\n");
    let one = format!("$100000\r\n{}\r\n", "x".repeat(100_000));
    for _ in 0..count {
        slow.expect(&one);
    }
}

#[test]
fn long_answers_are_not_made_before_there_is_room_for_them() {
    let mut wish = wish();
    wish.config.limits.output_soft_bytes = ByteCount::mib(1);
    wish.config.limits.pipeline_max = 100_000;
    let node = start(wish).expect("started");
    let mut slow = node.client();
    let commands: Vec<u8> = (0..2_000).flat_map(|_| command(&["GET", "big"])).collect();
    slow.send(&commands);
    // 200 MB of answers: some are in the sockets, about the soft limit waits, the rest has not been asked for.
    let mut before = 0;
    until("the node holds back", || {
        let stats = node.stats().clients;
        let still = stats.bytes_out > 0 && stats.bytes_out == before;
        before = stats.bytes_out;
        still
    });
    let stats = node.stats().clients;
    // Each answer with its length before and a line's end behind it.
    let made = stats.commands * 100_011;
    assert!(made.saturating_sub(stats.bytes_out) < 2 << 20, "{stats:?}");
}

#[test]
fn a_client_with_too_much_unread_is_disconnected() {
    let mut wish = wish();
    // Less than the sockets leave of an answer, nearly wherever they cut it.
    wish.config.limits.output_soft_bytes = ByteCount::kib(1);
    wish.config.limits.output_hard_bytes = ByteCount::kib(2);
    let node = start(wish).expect("started");
    let mut slow = node.client();
    let commands: Vec<u8> = (0..2_000).flat_map(|_| command(&["GET", "big"])).collect();
    // The node may be gone before all is written.
    let _ = slow.stream.write_all(&commands);
    until("it is disconnected", || node.stats().clients.slow_closed == 1);
    assert_eq!(node.stats().clients.connections, 0);
}

#[test]
fn whoever_asks_a_node_that_is_leaving_is_sent_away() {
    let node = start(wish()).expect("started");
    let mut client = node.client();
    client.send("GET a\r\nGET gone\r\n");
    client.expect("$-1\r\n");
    assert_eq!(client.rest(), "-LOADING this node is starting or stopping, nothing was changed\r\n");
}

#[test]
fn too_many_requests_under_way_are_refused_as_busy() {
    let mut wish = wish();
    wish.config.limits.requests_max = 3;
    let node = start(wish).expect("started");
    let mut holder = node.client();
    holder.send("GET hold\r\nGET hold\r\nGET hold\r\n");
    until("three are under way", || node.stats().clients.in_flight == 3);
    let mut other = node.client();
    other.send("GET a\r\nPING\r\n");
    other.expect("-BUSY a queue of this node is full, nothing was changed\r\n+PONG\r\n");
    other.send("CLIENT KILL ID 1\r\n");
    other.expect(":1\r\n");
    until("they are forgotten", || node.stats().clients.in_flight == 0);
    other.send("GET a\r\n");
    other.expect("$-1\r\n");
    assert_eq!(node.stats().clients.refused, 1);
}

#[test]
fn clients_list_kill_and_pause_each_other() {
    let node = start(wish()).expect("started");
    let (mut one, mut two) = (node.client(), node.client());
    two.send("CLIENT ID\r\n");
    two.expect(":2\r\n");
    one.send("CLIENT KILL ID 2\r\n");
    one.expect(":1\r\n");
    assert_eq!(two.rest(), "");
    one.send("CLIENT PAUSE 100000 WRITE\r\nSET a 1\r\n");
    one.expect("+OK\r\n");
    let mut three = node.client();
    three.send("GET a\r\nPING\r\n");
    three.expect("$-1\r\n+PONG\r\n");
    one.expect_silence();
    three.send("CLIENT UNPAUSE\r\n");
    three.expect("+OK\r\n");
    one.expect("+OK\r\n");
    three.send("CONFIG SET maxclients 1\r\nCONFIG GET maxclients\r\n");
    three.expect("+OK\r\n*2\r\n$10\r\nmaxclients\r\n$1\r\n1\r\n");
    assert!(node.client().rest().starts_with("-ERR max number"));
}
