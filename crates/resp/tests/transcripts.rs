//! Conversations, bytes in and bytes out, compared with what is written in `testdata/transcripts`.
//!
//! `QUORATE_GOLDEN=1` writes the files instead. A line of a transcript is one of
//!
//! * `# text`: a comment;
//! * `@ 2`: what follows is said on connection 2, which is opened if need be;
//! * `% password X`, `% limits tiny`, `% node unknown`, `% tells waited`: the circumstances from here on (a new password or limit holds
//!   for connections opened later);
//! * `> GET k`: a command, its words as in an inline command, sent as an array;
//! * `>> *1\r\n`: bytes, sent as they are;  `>>100 a`: these bytes, 100 times;
//! * `< +OK\r\n`: the bytes that come back;
//! * `! Close`: what the host is told to do.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::BytesMut;
use quorate_resp::{Limits, Parser};
use support::{Client, TestNode, TestWorld, frame, outcome_named, reason_named};

struct Stage {
    world: TestWorld,
    node: TestNode,
    limits: Limits,
    clients: BTreeMap<u64, Client>,
    current: u64,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            world: TestWorld::default(),
            node: TestNode::new(),
            limits: Limits::production(),
            clients: BTreeMap::new(),
            current: 1,
        }
    }

    fn circumstance(&mut self, text: &str) {
        match text.split_once(' ') {
            Some(("password", password)) => self.world.password = Some(password.to_owned().into()),
            Some(("limits", "tiny")) => self.limits = Limits::tiny(),
            Some(("tells", name)) => self.node.tells.push(reason_named(name)),
            Some(("node", end)) => self.node.ends_with = outcome_named(end),
            _ => panic!("no such circumstance: {text}"),
        }
    }

    /// Sends bytes on the current connection and appends to the transcript what comes of it.
    fn send(&mut self, bytes: &[u8], transcript: &mut String) {
        let (current, limits) = (self.current, &self.limits);
        let client = self.clients.entry(current).or_insert_with(|| Client::new(current, limits.clone()));
        assert!(!client.closed, "connection {current} is closed");
        client.receive(bytes, &self.world, &mut self.node);
        if !client.output.is_empty() {
            transcript.push_str(&format!("< {}\n", escape(&client.output)));
            client.output.clear();
        }
        for act in client.acts.drain(..) {
            transcript.push_str(&format!("! {act:?}\n"));
        }
    }
}

fn escape(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// The words of a line, by the rules of inline commands.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut buffer = BytesMut::from(format!("{line}\n").as_bytes());
    let words = Parser::new(Limits::production()).next(&mut buffer).expect("the line's quotes are balanced");
    words.expect("a line has words").iter().map(|word| word.to_vec()).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    words(&format!("\"{}\"", text.replace('"', "\\\""))).remove(0)
}

/// Plays the inputs of a transcript and writes down what happens.
fn play(text: &str) -> String {
    let mut stage = Stage::new();
    let mut transcript = String::new();
    for line in text.lines().filter(|line| !line.starts_with("< ") && !line.starts_with("! ")) {
        transcript.push_str(line);
        transcript.push('\n');
        match line.split_once(' ') {
            None | Some(("#", _)) => {}
            Some(("@", id)) => stage.current = id.parse().expect("a connection's number"),
            Some(("%", text)) => stage.circumstance(text),
            Some((">", line)) => {
                let words = words(line);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                stage.send(&frame(&words), &mut transcript);
            }
            Some((prefix, bytes)) => {
                let times = prefix.strip_prefix(">>").expect("a line of a known kind");
                let times =
                    if times.is_empty() { 1 } else { times.parse().expect("a number of repetitions") };
                stage.send(&unescape(bytes).repeat(times), &mut transcript);
            }
        }
    }
    transcript
}

#[test]
fn transcripts_are_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/transcripts");
    let write = std::env::var_os("QUORATE_GOLDEN").is_some_and(|value| value == "1");
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder of transcripts") {
        let path = entry.expect("an entry of the folder").path();
        let written = fs::read_to_string(&path).expect("a transcript is text");
        let played = play(&written);
        count += 1;
        if write {
            fs::write(&path, played).expect("the transcript can be written");
            continue;
        }
        for (number, (written, played)) in written.lines().zip(played.lines()).enumerate() {
            assert_eq!(written, played, "{}, line {}", path.display(), number + 1);
        }
        assert_eq!(written.lines().count(), played.lines().count(), "{}", path.display());
    }
    assert!(count > 5, "only {count} transcripts were found");
}

#[test]
fn a_wrong_transcript_is_noticed() {
    assert_ne!(play("> ping\n< +PANG\\r\\n\n"), "> ping\n< +PANG\\r\\n\n");
    assert_eq!(play("> ping\n< +PANG\\r\\n\n"), "> ping\n< +PONG\\r\\n\n");
}
