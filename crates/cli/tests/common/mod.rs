//! The program under test, clusters it starts, and raw connections to them.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Polls until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < give_up, "waited too long until {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The program with these arguments.
pub(crate) fn quorate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments);
    // The tests must not depend on what whoever runs them has set.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    Ended::of(quorate(arguments).output().expect("the program starts"))
}

/// What a run of the program came to.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Its output, if it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    /// Its output as JSON, if it succeeded.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }

    /// Asserts that it failed so, with words like these.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        assert!(self.err.contains(words), "no `{words}` in: {}", self.err);
    }
}

/// A local cluster, taken down when it goes out of scope.
pub(crate) struct Cluster {
    _temp: Option<tempfile::TempDir>,
    pub(crate) data: PathBuf,
}

impl Cluster {
    /// Starts so many nodes on free ports.
    #[track_caller]
    pub(crate) fn up(nodes: u64, more: &[&str]) -> Cluster {
        let temp = tempfile::tempdir().expect("a directory");
        let data = temp.path().join("data");
        Cluster { data, _temp: Some(temp) }.started(nodes, more)
    }

    /// The same with its data there, which stay.
    #[track_caller]
    pub(crate) fn up_at(data: PathBuf, nodes: u64, more: &[&str]) -> Cluster {
        Cluster { data, _temp: None }.started(nodes, more)
    }

    #[track_caller]
    fn started(self, nodes: u64, more: &[&str]) -> Cluster {
        let nodes = nodes.to_string();
        let mut words = vec!["up", "--detach", "--base-port", "0", "--nodes", &nodes];
        words.extend(more);
        self.run(&words).ok();
        self
    }

    /// Runs the program for this cluster.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let mut words = arguments.to_vec();
        words.extend(["--data", self.path()]);
        run(&words)
    }

    pub(crate) fn path(&self) -> &str {
        self.data.to_str().expect("UTF-8")
    }

    /// The members of all groups, if all of these are led.
    pub(crate) fn grouped(&self) -> Vec<u64> {
        let list = self.run(&["groups", "--output", "json"]);
        let Ok(Value::Array(groups)) = serde_json::from_str::<Value>(&list.out) else { return Vec::new() };
        let led = groups.iter().all(|group| group["quorum"] == true);
        let members = groups.iter().flat_map(|group| group["members"].as_array().into_iter().flatten());
        if led { members.filter_map(Value::as_u64).collect() } else { Vec::new() }
    }

    pub(crate) fn status(&self) -> Value {
        self.run(&["status", "--output", "json"]).json()
    }

    /// The address of a node's door: `client`, `peer` or `admin`.
    pub(crate) fn door(&self, node: usize, door: &str) -> String {
        let text = std::fs::read_to_string(self.data.join("cluster.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        manifest["nodes"][node - 1]["endpoints"][door].as_str().expect("an address").to_owned()
    }

    /// A raw connection to a node's door.
    pub(crate) fn connect(&self, node: usize, door: &str) -> Raw {
        let stream = TcpStream::connect(self.door(node, door)).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Raw { stream }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let ended = self.run(&["down"]);
        if ended.code != 0 && !std::thread::panicking() {
            panic!("down failed: {}", ended.err);
        }
    }
}

/// A connection without any protocol.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    /// Sends bytes; a door that has closed already is as good.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.stream.read_exact(&mut bytes).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    /// The rest of a line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("an answer");
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Everything up to the end that the other side makes.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the other side did not close: {error}"),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A client that must notice nothing, and the process that must stay the same.
pub(crate) struct Bystander<'a> {
    cluster: &'a Cluster,
    pub(crate) client: Raw,
    pid: Value,
}

impl<'a> Bystander<'a> {
    pub(crate) fn of(cluster: &'a Cluster) -> Bystander<'a> {
        let pid = cluster.status()["nodes"][0]["pid"].clone();
        Bystander { cluster, client: cluster.connect(1, "client"), pid }
    }

    #[track_caller]
    pub(crate) fn is_unharmed(&mut self) {
        self.client.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        self.client.expect("+OK\r\n$1\r\n1\r\n");
        assert_eq!(self.cluster.status()["nodes"][0]["pid"], self.pid);
    }
}

/// A command of these words.
pub(crate) fn words(words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}

/// What a client wrote while something happened: numbers from 0 on, each under `written:` and itself.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How many were acknowledged.
    pub(crate) count: u64,
    /// Other answers; each number is asked for until it is acknowledged.
    pub(crate) refused: Vec<String>,
    /// The longest time without an acknowledgement.
    pub(crate) longest: Duration,
}

impl Written {
    /// Whether everything acknowledged is there.
    pub(crate) fn is_all_at(&self, client: &mut Raw) {
        assert!(self.count > 0, "no write was acknowledged: {:?}", self.refused);
        for number in 0..self.count {
            client.send(format!("GET written:{number}\r\n"));
            client.line();
            assert_eq!(client.line(), format!("{number}\r\n"), "of {}", self.count);
        }
    }
}

/// Lets a client write one number after the other while something happens, until that is over.
pub(crate) fn writing<T>(client: &mut Raw, happens: impl FnOnce() -> T) -> (Written, T) {
    /// Ends the writer, also if the test fails.
    struct Stops<'a>(&'a AtomicBool);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut written, mut last) = (Written::default(), Instant::now());
            while !stop.load(Ordering::Relaxed) {
                client.send(format!("SET written:{0} {0}\r\n", written.count));
                match client.line() {
                    line if line == "+OK\r\n" => {
                        written.longest = written.longest.max(last.elapsed());
                        (last, written.count) = (Instant::now(), written.count + 1);
                    }
                    line => written.refused.push(line),
                }
            }
            written
        });
        let stops = Stops(&stop);
        let came = happens();
        drop(stops);
        (writer.join().expect("no panic"), came)
    })
}
