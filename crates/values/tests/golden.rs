//! Replays commands with the replies that redis-server 7.0.15 gave, and compares the table with its COMMAND INFO.
//!
//! A line `> COMMAND words` is followed by its reply; `~ ` instead compares arrays in any order; `@ advance N` lets N
//! milliseconds pass. Words may be quoted; `\xNN` in quotes is a byte.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};
use quorate_values::model::MemorySpace;
use quorate_values::{Effect, Space, all, find};

const NOW_MS: u64 = 1_700_000_000_000;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The words of a line, as bytes.
fn words(line: &str) -> Vec<Bytes> {
    let mut words = Vec::new();
    let mut rest = line.as_bytes();
    loop {
        rest = rest.trim_ascii_start();
        let mut word = Vec::new();
        match rest {
            [] => return words,
            [b'"', inside @ ..] => rest = quoted(inside, &mut word),
            _ => {
                let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
                word.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
        words.push(Bytes::from(word));
    }
}

/// Reads up to the closing quote and returns what comes after it.
fn quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> &'a [u8] {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return after,
            [b'\\', b'x', high, low, after @ ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                word.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits after \\x"));
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => panic!("a quote is not closed"),
        };
    }
}

fn show_bytes(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write!(text, "\\{}", *byte as char).unwrap(),
            b' '..=b'~' => text.push(*byte as char),
            _ => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text + "\""
}

/// A reply as RESP2 carries it, on one line.
fn show(reply: &Reply, any_order: bool) -> String {
    let list = |items: &[Reply]| {
        let mut items: Vec<String> = items.iter().map(|item| show(item, any_order)).collect();
        if any_order {
            items.sort();
        }
        format!("[{}]", items.join(" "))
    };
    match reply {
        Reply::Ok => "+OK".into(),
        Reply::Simple(text) => format!("+{text}"),
        Reply::Int(value) => format!(":{value}"),
        Reply::Bulk(bytes) => show_bytes(bytes),
        Reply::Nil => "nil".into(),
        Reply::NilArray => "nilarray".into(),
        Reply::Array(items) => list(items),
        Reply::Map(pairs) => {
            let flat: Vec<Reply> =
                pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
            list(&flat)
        }
        Reply::Error(ErrorReply(text)) => format!("-{text}"),
        other => panic!("no data command replies {other:?}"),
    }
}

/// Runs a command line as a door would: name, number of words, command.
fn run(space: &mut MemorySpace, line: &str) -> Reply {
    let words = words(line);
    let (name, args) = words.split_first().expect("a command has a name");
    let spec = find(name).unwrap_or_else(|| panic!("no command {line}"));
    if !spec.arity.allows(words.len()) {
        return Reply::error(format!("ERR wrong number of arguments for '{}' command", spec.name));
    }
    let changes = space.changes();
    let reply = (spec.run)(space, args);
    if spec.effect == Effect::Read || matches!(reply, Reply::Error(_)) {
        assert_eq!(space.changes(), changes, "{line} changed something");
    }
    reply
}

/// Replays one file; returns how many commands it had and which replies differ.
fn replay(text: &str) -> (usize, Vec<String>) {
    let mut space = MemorySpace::new(NOW_MS, 1);
    let (mut count, mut differences) = (0, Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (mark, rest) = line.split_at(2);
        if mark == "@ " {
            let delay_ms: u64 = rest.strip_prefix("advance ").unwrap().parse().unwrap();
            let now_ms = space.now_ms() + delay_ms;
            space.set_now_ms(now_ms);
            continue;
        }
        assert!(["> ", "~ "].contains(&mark), "line {}: not a command", number + 1);
        let (_, expected) = lines.next().expect("a command has a reply");
        let reply = show(&run(&mut space, rest), mark == "~ ");
        count += 1;
        if reply != expected {
            differences.push(format!("line {}: {rest}\n  Redis: {expected}\n  here:  {reply}", number + 1));
        }
    }
    (count, differences)
}

fn golden_files() -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(testdata().join("golden"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn replies_are_those_of_redis() {
    let (mut count, mut complaints) = (0, String::new());
    for (path, text) in golden_files() {
        let (commands, differences) = replay(&text);
        count += commands;
        for difference in differences {
            writeln!(complaints, "{}, {difference}", path.display()).unwrap();
        }
    }
    assert!(complaints.is_empty(), "\n{complaints}");
    assert!(count > 900, "only {count} commands were compared");
}

#[test]
fn every_command_is_replayed() {
    let texts: String = golden_files().into_iter().map(|(_, text)| text.to_ascii_lowercase()).collect();
    for spec in all().iter().filter(|spec| !spec.is_internal()) {
        assert!(
            texts.contains(&format!("> {} ", spec.name)) || texts.contains(&format!("> {}\n", spec.name))
        );
    }
}

#[test]
fn a_wrong_reply_is_noticed() {
    assert_eq!(replay("> SET a b\n+OK\n> GET a\n\"b\"\n"), (2, vec![]));
    assert_eq!(replay("> SET a b\n+OK\n> GET a\nnil\n").1.len(), 1);
    assert_eq!(replay("> SET a b PX 10\n+OK\n@ advance 10\n> GET a\nnil\n"), (2, vec![]));
}

/// What `COMMAND INFO` of redis-server 7.0.15 says, after the number that only our log knows.
#[test]
fn the_table_is_that_of_redis_and_its_numbers_stay() {
    let mut table = String::new();
    let internal = all().iter().filter(|spec| spec.is_internal()).map(|spec| (spec.code.0, spec.name));
    let names = [
        (293, "bucket|keys"),
        (294, "bucket|scan"),
        (292, "bucket|size"),
        (290, "slot|count"),
        (291, "slot|keys"),
    ];
    assert_eq!(internal.collect::<Vec<_>>(), names);
    for spec in all().iter().filter(|spec| !spec.is_internal()) {
        let flags: Vec<&str> = spec.command_flags().collect();
        let keys = spec.keys;
        writeln!(
            table,
            "{} {} {} [{}] {} {} {} [{}]",
            spec.code.0,
            spec.name,
            spec.arity.signed(),
            flags.join(" "),
            keys.first,
            keys.last,
            keys.step,
            spec.categories.join(" "),
        )
        .unwrap();
    }
    let expected = std::fs::read_to_string(testdata().join("commands.txt")).unwrap();
    assert!(table == expected, "testdata/commands.txt should be:\n{table}");
}
