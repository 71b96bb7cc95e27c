//! Processes that run several nodes each, as machines with several processors do.

mod common;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use common::{Raw, quorate, run, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A machine of its own, as far as addresses tell: this process's, and nobody else's, on the loopback network.
struct Machine {
    address: String,
    data: String,
    process: Child,
}

impl Machine {
    /// Starts two nodes on machine number `number`, that found a cluster, or join that of machine 1.
    fn start(dir: &Path, number: u8, more: &[&str]) -> Machine {
        let address = address(number);
        let data = dir.join(number.to_string()).display().to_string();
        let peer_of_first = format!("{}:7379", self::address(1));
        let doors = doors(&address);
        let mut words = vec!["start", "--data", &data, "--cores", "2", "--durability", "interval"];
        words.extend(doors.iter().map(String::as_str));
        match number {
            1 => words.extend(more),
            _ => words.extend(["--join", &peer_of_first]),
        }
        let process = quorate(&words).stderr(Stdio::null()).spawn().expect("the program starts");
        Machine { address, data, process }
    }

    /// What one of its nodes, which has this door for operators, tells of itself.
    fn status(&self, port: u16) -> Option<Value> {
        let at = format!("{}:{port}", self.address);
        let status: Value =
            serde_json::from_str(&run(&["status", "--at", &at, "--output", "json"]).out).ok()?;
        let node = status["nodes"].as_array()?.iter().find(|node| node["endpoints"]["admin"] == *at)?;
        (!node["report"].is_null()).then(|| node.clone())
    }

    /// Which nodes it runs.
    fn nodes(&self) -> Option<[u64; 2]> {
        let id = |port| self.status(port)?["id"].as_u64();
        Some([id(8379)?, id(8380)?])
    }

    fn connect(&self) -> Raw {
        let stream = TcpStream::connect((&*self.address, 6379)).expect("the door is open");
        stream.set_read_timeout(Some(common::PATIENCE)).expect("a socket");
        Raw { stream }
    }

    fn signal(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), signal).expect("it runs");
        let mut status = None;
        until("it ends", || {
            status = self.process.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("ended").code()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn address(number: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{number}", 64 + (pid >> 8) % 64, pid % 256)
}

fn doors(address: &str) -> Vec<String> {
    let door = |name: &str, port: u16| [format!("--{name}"), format!("{address}:{port}")];
    [door("client", 6379), door("cluster-door", 6380), door("peer", 7379), door("admin", 8379)].concat()
}

/// The members of each group.
fn groups(at: &Machine) -> Option<Vec<Vec<u64>>> {
    let list = run(&["groups", "--at", &format!("{}:8379", at.address), "--output", "json"]);
    let list: Value = serde_json::from_str(&list.out).ok()?;
    let members = |group: &Value| group["members"].as_array()?.iter().map(Value::as_u64).collect();
    list.as_array()?.iter().map(members).collect()
}

/// Writes under these names, at whichever nodes the connections come to.
fn write(at: &Machine, name: &str) {
    for number in 0..40 {
        let mut client = at.connect();
        client.send(format!("SET {name}:{number} {number}\r\n"));
        assert_eq!(client.line(), "+OK\r\n");
    }
}

#[test]
fn several_nodes_of_a_process_serve_one_door_and_no_group_has_two_of_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let founding = ["--topology", "ring", "--copies", "3", "--buckets", "16"];
    let mut machines = vec![Machine::start(dir.path(), 1, &founding)];
    until("it serves", || run(&["get", "a", "--at", &format!("{}:6379", machines[0].address)]).code == 1);
    machines.extend([2, 3].map(|number| Machine::start(dir.path(), number, &[])));
    let mut nodes = Vec::new();
    until("all six nodes run", || {
        nodes = machines.iter().filter_map(Machine::nodes).collect();
        nodes.len() == 3
    });
    let machine_of = |id: &u64| nodes.iter().position(|two| two.contains(id));
    let is_apart = |group: &Vec<u64>| {
        let mut on: Vec<_> = group.iter().map(machine_of).collect();
        on.sort_unstable();
        on == [Some(0), Some(1), Some(2)]
    };
    until("each of two groups has one node of each machine", || {
        groups(&machines[0]).is_some_and(|all| all.len() == 2 && all.iter().all(is_apart))
    });

    // One door: whoever comes is shared out.
    write(&machines[0], "before");
    let accepted = |port| {
        let status = machines[0].status(port).expect("it answers");
        status["report"]["host"]["clients"]["accepted"].as_u64().unwrap_or_default()
    };
    until("both nodes have had clients", || accepted(8379) > 0 && accepted(8380) > 0);

    // A machine less is a node less for each group.
    machines[1].signal(Signal::KILL);
    write(&machines[0], "meanwhile");
    assert_eq!(machines[2].signal(Signal::TERM), Some(0), "all nodes of a process stop in order");
    let third = Machine::start(dir.path(), 3, &[]);
    until("what was written is there", || {
        run(&["get", "meanwhile:39", "--at", &format!("{}:6379", third.address)]).out == "39\n"
    });
    assert!(Path::new(&third.data).join("core-2").is_dir());
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("node").display().to_string();
    let doors = doors(&address(9));
    let start = |more: &[&str]| {
        let mut words = vec!["start", "--data", &data, "--cores", "2"];
        words.extend(doors.iter().map(String::as_str));
        words.extend(more);
        run(&words)
    };
    start(&["--topology", "view"]).fails(78, "all nodes of this cluster hold everything");
    assert!(!Path::new(&data).join("meta").exists(), "the directory belongs to nobody");
    // Only this process's nodes share a door.
    let taken = std::net::TcpListener::bind((&*address(9), 6379)).expect("a door");
    start(&["--topology", "ring"]).fails(69, "another process does");
    // Who founds alone founds a ring.
    start(&[]).fails(69, "another process does");
    drop(taken);
    run(&["up", "--detach", "--data", &data, "--set", "cluster.cores=2"]).fails(2, "a process of its own");
}
