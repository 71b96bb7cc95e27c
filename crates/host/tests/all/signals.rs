//! Signals: a process that is told to stop answers what it owes, writes everything down and ends with 0; a second
//! signal ends it at once; a killed one has what it acknowledged.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::{Client, config, until};
use quorate_host::{Host, Options};
use rustix::process::{Pid, Signal, kill_process};

/// Names the data directory of a node that this program is to be.
const DATA: &str = "QUORATE_TEST_DATA";

/// Not a test by itself: the node that the tests below start as a process of its own.
#[test]
fn child() {
    let Ok(data) = std::env::var(DATA) else { return };
    let mut config = config();
    config.cluster.data = data.clone();
    config.durable.reserve_bytes.0 = 0;
    let options = Options { handle_signals: true, ..Options::default() };
    let running = Host::start(config, options).expect("started");
    let port = running.handle().addresses().client.expect("a door").port();
    fs::write(Path::new(&data).join("port.new"), port.to_string()).expect("a file");
    fs::rename(Path::new(&data).join("port.new"), Path::new(&data).join("port")).expect("a file");
    running.run().expect("an orderly end");
    // The harness would wait for nothing more, but must not print into the silence.
    std::process::exit(0);
}

struct Process(Child);

impl Process {
    fn start(data: &Path) -> (Process, Client) {
        drop(fs::remove_file(data.join("port")));
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["signals::child", "--exact", "--nocapture"]).env(DATA, data);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
        let mut port = None;
        until("it listens", || {
            port = fs::read_to_string(data.join("port")).ok().and_then(|text| text.parse::<u16>().ok());
            port.is_some()
        });
        let mut client = Client::new(([127, 0, 0, 1], port.expect("read")).into());
        until("it serves", || {
            client.send("GET a\r\n");
            let mut bytes = [0; 128];
            let count = std::io::Read::read(&mut client.stream, &mut bytes).expect("an answer");
            bytes[0] == b'$' && count > 0
        });
        (Process(child), client)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("it ends", || {
            status = self.0.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("ended")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn one_signal_stops_in_order_and_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    for (round, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let (mut process, mut client) = Process::start(dir.path());
        client.send(format!("SET k{round} v\r\n"));
        client.expect("+OK\r\n");
        process.signal(signal);
        assert_eq!(process.end().code(), Some(0), "{signal:?}");
    }
    let (_process, mut client) = Process::start(dir.path());
    client.send("MGET k0 k1\r\n");
    client.expect("*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
}

#[test]
fn what_a_killed_process_had_acknowledged_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..3 {
        let (mut process, mut client) = Process::start(dir.path());
        client.send("GET counter\r\n");
        if round == 0 {
            client.expect("$-1\r\n");
        } else {
            let value = (round * 50).to_string();
            client.expect(format!("${}\r\n{value}\r\n", value.len()));
        }
        for one in 1..=50 {
            client.send("INCR counter\r\n");
            client.expect(format!(":{}\r\n", round * 50 + one));
        }
        process.signal(Signal::KILL);
        assert_eq!(process.end().code(), None);
    }
}
