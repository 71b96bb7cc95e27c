//! Which words of a command are keys.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::Spec;
use crate::args::{is, parse_integer};
use crate::generic::cursor;

/// The keys among a command's arguments, in their order, duplicates included, for routing and `COMMAND GETKEYS`.
///
/// Arguments that the command itself would refuse yield what keys they show, perhaps none.
pub fn keys_of(spec: &Spec, args: &[Bytes]) -> Vec<Bytes> {
    match spec.name {
        "lmpop" => counted(args),
        "object" => args.get(1).into_iter().cloned().collect(),
        "memory" => match args {
            [subcommand, key, ..] if is(subcommand, "usage") => Vec::from([key.clone()]),
            _ => Vec::new(),
        },
        _ => by_place(spec, args),
    }
}

/// The ring position from which SCAN with these arguments goes on; `None` if it has none, and is refused.
pub fn scan_from(args: &[Bytes]) -> Option<u64> {
    cursor(args.first()?).ok()
}

/// Keys that follow their number, which is the first argument.
fn counted(args: &[Bytes]) -> Vec<Bytes> {
    let Some((count, rest)) = args.split_first() else { return Vec::new() };
    let count = parse_integer(count).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    rest.get(..count).unwrap_or(&[]).to_vec()
}

fn by_place(spec: &Spec, args: &[Bytes]) -> Vec<Bytes> {
    if spec.keys.first == 0 {
        return Vec::new();
    }
    // Word 0 is the name, so the place of an argument is its word less one, and the words are one more.
    let words = args.len() + 1;
    let last = if spec.keys.last < 0 {
        words.saturating_sub(spec.keys.last.unsigned_abs())
    } else {
        spec.keys.last.unsigned_abs().min(args.len())
    };
    (spec.keys.first..=last).step_by(spec.keys.step).map(|word| args[word - 1].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use alloc::string::String;

    fn keys(line: &str) -> String {
        let mut words = line.split(' ');
        let spec = find(words.next().unwrap().as_bytes()).unwrap();
        let args: Vec<Bytes> = words.map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let keys: Vec<String> =
            keys_of(spec, &args).iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        keys.join(" ")
    }

    #[test]
    fn keys_stand_where_the_table_says() {
        for (line, expected) in [
            ("GET a", "a"),
            ("SET a b EX 10", "a"),
            ("MGET a b c", "a b c"),
            ("MSET a 1 b 2", "a b"),
            ("DEL a a", "a a"),
            ("RENAME a b", "a b"),
            ("COPY a b REPLACE", "a b"),
            ("LMOVE a b LEFT RIGHT", "a b"),
            ("LMPOP 2 a b LEFT COUNT 2", "a b"),
            ("LMPOP 9 a b LEFT", ""),
            ("LMPOP x a b LEFT", ""),
            ("LMPOP -1 a LEFT", ""),
            ("OBJECT ENCODING a", "a"),
            ("OBJECT HELP", ""),
            ("MEMORY USAGE a SAMPLES 5", "a"),
            ("MEMORY HELP", ""),
            ("DBSIZE", ""),
            ("KEYS *", ""),
        ] {
            assert_eq!(keys(line), expected, "{line}");
        }
        assert_eq!(keys_of(find(b"rename").unwrap(), &[Bytes::from_static(b"a")]), ["a"]);
    }
}
