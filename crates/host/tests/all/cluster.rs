//! Real nodes on real disks: founding, joining, answering for each other, coming back.

use std::path::Path;
use std::time::Duration;

use crate::common::{Client, NodeThread, PATIENCE, config, on_a_thread, until};
use quorate_host::config::AskedTopology;
use quorate_host::{Handle, Host, Options, StartError};
use quorate_node::Status;

struct RealNode {
    handle: Handle,
    thread: NodeThread,
}

fn start(data: &Path, join: &[&RealNode]) -> Result<RealNode, StartError> {
    let mut config = config();
    // All of them hold everything: who is a member is settled by one log.
    config.cluster.topology = AskedTopology::View;
    config.cluster.data = data.display().to_string();
    config.cluster.join =
        join.iter().map(|node| node.handle.addresses().peer.expect("a door").to_string()).collect();
    // The reserve of a test machine's disk is not what is tested.
    config.durable.reserve_bytes.0 = 0;
    // Other tests run on the same cores.
    config.timing.heartbeat_ms = 100;
    config.timing.election_ms = 1_000;
    let (handle, thread) = on_a_thread(move || Host::start(config, Options::default()))?;
    Ok(RealNode { handle, thread })
}

impl RealNode {
    fn client(&self) -> Client {
        Client::new(self.handle.addresses().client.expect("a door"))
    }

    fn status(&self) -> Status {
        self.handle.snapshot(PATIENCE).expect("an answer").node
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().expect("no panic").expect("an orderly end");
    }
}

#[test]
fn a_single_node_keeps_its_data_over_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = start(dir.path(), &[]).expect("started");
    until("it serves", || node.status().ready);
    let id = node.status().id;
    let mut client = node.client();
    client.send("SET a 1\r\nINCR a\r\nMULTI\r\nINCR a\r\nGET a\r\nEXEC\r\n");
    client.expect("+OK\r\n:2\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:3\r\n$1\r\n3\r\n");
    let twin = start(dir.path(), &[]).err().expect("the directory is locked");
    assert_eq!(twin.exit_code(), 73);
    assert!(twin.to_string().contains("in use"), "{twin}");
    node.stop();
    let node = start(dir.path(), &[]).expect("started again");
    until("it serves", || node.status().ready);
    assert_eq!(node.status().id, id);
    let mut client = node.client();
    client.send("GET a\r\n");
    client.expect("$1\r\n3\r\n");
    node.stop();
}

#[test]
fn nodes_join_and_answer_for_each_other() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let first = start(dirs[0].path(), &[]).expect("started");
    until("it serves", || first.status().ready);
    let second = start(dirs[1].path(), &[&first]).expect("started");
    let third = start(dirs[2].path(), &[&first]).expect("started");
    for node in [&first, &second, &third] {
        until("all are members", || node.status().members.len() == 3 && node.status().ready);
    }
    let mut writer = second.client();
    writer.send("SET greeting hello\r\n");
    writer.expect("+OK\r\n");
    let mut reader = third.client();
    reader.send("GET greeting\r\n");
    reader.expect("$5\r\nhello\r\n");
    first.stop();
    // The two others go on without the founder.
    until("they serve", || {
        let mut client = second.client();
        client.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        client.send("SET greeting again\r\n");
        let mut bytes = [0; 64];
        let count = std::io::Read::read(&mut client.stream, &mut bytes).expect("an answer");
        bytes[..count].starts_with(b"+OK")
    });
    reader.send("GET greeting\r\n");
    reader.expect("$5\r\nagain\r\n");
    let first = start(dirs[0].path(), &[]).expect("started again");
    let mut client = first.client();
    until("it serves again", || first.status().ready);
    client.send("GET greeting\r\n");
    client.expect("$5\r\nagain\r\n");
    for node in [first, second, third] {
        node.stop();
    }
}
