//! What a node founds that is started alone, if nothing says what: a ring, which looks after itself as others join. What was founded stays.

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{self, Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{PATIENCE, Raw, quorate, run, until, writing};
use serde_json::Value;

/// An address that nobody listens at. No connection gets its port before the node does, as might be with one that the system gives: these
/// are below those that connections come from.
fn free_door() -> String {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let from = process::id();
    let doors =
        (0..10_000).map(|_| from.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % 10_000 + 20_000);
    let mut doors = doors.map(|port| format!("127.0.0.1:{port}"));
    doors.find(|door| TcpListener::bind(door).is_ok()).expect("a free port")
}

/// A node that was started by hand, killed when it goes out of scope.
struct Started {
    process: Child,
    data: PathBuf,
    /// For clients, peers and operators.
    doors: [String; 3],
}

impl Started {
    /// Starts a node on ports that are free, which keeps what it is in this directory.
    fn new(data: PathBuf, more: &[&str]) -> Started {
        let doors = [(); 3].map(|()| free_door());
        let [client, peer, admin] = &doors;
        let mut command = quorate(&["start", "--durability", "interval", "--cluster-door", ""]);
        command.args(["--client", client, "--peer", peer, "--admin", admin]).args(more);
        command.arg("--data").arg(&data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Started { process: command.spawn().expect("the program starts"), data, doors }
    }

    /// Kills it; its directory.
    fn kill(self) -> PathBuf {
        self.data.clone()
    }

    fn connect(&self) -> Raw {
        until("the door is open", || TcpStream::connect(&self.doors[0]).is_ok());
        let stream = TcpStream::connect(&self.doors[0]).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Raw { stream }
    }

    /// What `quorate groups` lists there.
    fn groups(&self) -> Vec<Value> {
        let list = run(&["groups", "--at", &self.doors[2], "--output", "json"]);
        serde_json::from_str(&list.out).unwrap_or_default()
    }

    /// Waits until a command has this answer, word for word.
    fn answers(&self, command: &str, answer: &str) {
        let mut client = self.connect();
        until(&format!("`{command}` is answered with {answer:?}"), || {
            client.send(format!("{command}\r\n"));
            let line = client.line();
            let is_text = line.starts_with('$') && line != "$-1\r\n";
            (if is_text { client.line() } else { line }) == answer
        });
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn members(groups: &[Value]) -> usize {
    groups.iter().filter_map(|group| group["members"].as_array()).map(Vec::len).sum()
}

#[test]
fn a_node_that_starts_alone_becomes_several_groups_as_others_join_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |number: usize| dir.path().join(number.to_string());
    let first = Started::new(path(1), &[]);
    first.answers("SET before 1", "+OK\r\n");
    assert_eq!(first.groups().len(), 1);
    let (written, mut nodes) = writing(&mut first.connect(), || {
        let mut nodes = Vec::new();
        for number in 2..=7 {
            nodes.push(Started::new(path(number), &["--join", &first.doors[1]]));
            until("the next node is in a group", || members(&first.groups()) == number);
        }
        until("there are several groups, all of them led", || {
            let groups = first.groups();
            groups.len() > 1 && members(&groups) == 7 && groups.iter().all(|group| group["quorum"] == true)
        });
        nodes
    });
    for node in [&first, &nodes[5]] {
        node.answers("GET before", "1\r\n");
        written.is_all_at(&mut node.connect());
    }
    // Where it started, it keeps what it is without being told.
    let last = nodes.pop().expect("seven nodes").kill();
    let again = Started::new(last, &[]);
    again.answers("GET before", "1\r\n");
    assert!(again.groups().len() > 1);
}

#[test]
fn what_was_founded_stays_whatever_is_the_default() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = Started::new(dir.path().join("view"), &["--topology", "view"]);
    plain.answers("SET a 1", "+OK\r\n");
    assert_eq!(plain.groups().len(), 0);
    let data = plain.kill();
    let doors = ["--client", "127.0.0.1:0", "--cluster-door", "", "--peer", "127.0.0.1:0", "--admin", ""];
    let words = ["start", "--topology", "ring", "--data", data.to_str().expect("UTF-8")];
    run(&[&words[..], &doors].concat()).fails(78, "founded without groups");
    let plain = Started::new(data, &[]);
    plain.answers("GET a", "1\r\n");
    assert_eq!(plain.groups().len(), 0);
    // Whoever joins asks for no ring either.
    let joins = Started::new(dir.path().join("joins"), &["--join", &plain.doors[1]]);
    joins.answers("GET a", "1\r\n");
    assert_eq!(joins.groups().len(), 0);

    let ring = Started::new(dir.path().join("ring"), &[]);
    ring.answers("SET a 1", "+OK\r\n");
    let ring = Started::new(ring.kill(), &[]);
    ring.answers("GET a", "1\r\n");
    assert_eq!(ring.groups().len(), 1);
}
