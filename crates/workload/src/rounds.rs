//! Reads and writes of transactions as commands, and their replies as what was read.

use crate::Words;
use crate::transaction::{Read, Seen, Write};
use bytes::Bytes;
use quorate_api::Reply;

fn words<const COUNT: usize>(words: [&[u8]; COUNT]) -> Words {
    words.iter().map(|word| Bytes::copy_from_slice(word)).collect()
}

fn command(name: &'static str, key: &Bytes, rest: impl IntoIterator<Item = Bytes>) -> Words {
    [Bytes::from_static(name.as_bytes()), key.clone()].into_iter().chain(rest).collect()
}

fn number(number: impl ToString) -> Bytes {
    number.to_string().into()
}

/// The commands that read these: one for all strings together, one for each list.
pub fn reads(reads: &[Read]) -> Vec<Words> {
    let mut strings = words([b"MGET"]);
    let mut commands = Vec::new();
    for read in reads {
        match read {
            Read::Value(key) => strings.push(key.clone()),
            Read::Elements { key, from, to } => {
                commands.push(command("LRANGE", key, [number(from), number(to)]));
            }
            Read::Version(_) => {}
        }
    }
    if strings.len() > 1 {
        commands.insert(0, strings);
    }
    commands
}

/// What the replies to [`reads`] say; `None` if they are of a wrong kind.
pub fn seen(reads: &[Read], replies: Vec<Reply>) -> Option<Vec<Seen>> {
    let mut replies = replies.into_iter();
    let mut strings = Vec::new().into_iter();
    if reads.iter().any(|read| matches!(read, Read::Value(_))) {
        let Reply::Array(values) = replies.next()? else { return None };
        strings = values.into_iter();
    }
    let mut all = Vec::with_capacity(reads.len());
    for read in reads {
        all.push(match read {
            Read::Version(_) => Seen::Nothing,
            Read::Value(_) => match strings.next()? {
                Reply::Bulk(value) => Seen::Value(value),
                Reply::Nil => Seen::Nothing,
                _ => return None,
            },
            Read::Elements { .. } => {
                let Reply::Array(elements) = replies.next()? else { return None };
                let bulk = |reply| if let Reply::Bulk(bytes) = reply { Some(bytes) } else { None };
                Seen::Elements(elements.into_iter().map(bulk).collect::<Option<_>>()?)
            }
        });
    }
    (strings.next().is_none() && replies.next().is_none()).then_some(all)
}

/// The commands that write this.
pub fn write(write: &Write, out: &mut Vec<Words>) {
    match write {
        Write::Put { key, value } => out.push(command("SET", key, [value.clone()])),
        Write::PutAt { key, offset, value } => {
            out.push(command("SETRANGE", key, [number(offset), value.clone()]));
        }
        Write::Push { key, elements } => out.push(command("RPUSH", key, elements.iter().cloned())),
        Write::Fill { key, elements } => {
            out.push(command("DEL", key, []));
            out.push(command("RPUSH", key, elements.iter().cloned()));
        }
        Write::Replace { key, index, element } => {
            out.push(command("LSET", key, [number(index), element.clone()]));
        }
        Write::Remove { key } => out.push(command("DEL", key, [])),
    }
}

/// The keys of reads as a WATCH.
pub fn watch(reads: &[Read]) -> Words {
    words([b"WATCH"]).into_iter().chain(reads.iter().map(|read| read.key().clone())).collect()
}

/// A command of one word.
pub fn bare(name: &str) -> Words {
    words([name.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn texts(commands: &[Words]) -> Vec<String> {
        let text = |words: &Words| {
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        commands.iter().map(text).collect()
    }

    #[test]
    fn strings_are_read_together_and_answered_in_order() {
        let asked =
            [Read::Value(key("a")), Read::list(key("l")), Read::Version(key("v")), Read::Value(key("b"))];
        assert_eq!(texts(&reads(&asked)), ["MGET a b", "LRANGE l 0 -1"]);
        assert_eq!(texts(&[watch(&asked)]), ["WATCH a l v b"]);
        let strings = Reply::Array(vec![Reply::bulk("1"), Reply::Nil]);
        let list = Reply::Array(vec![Reply::bulk("x")]);
        let found = seen(&asked, vec![strings.clone(), list.clone()]).unwrap();
        let expected = [Seen::Value(key("1")), Seen::Elements(vec![key("x")]), Seen::Nothing, Seen::Nothing];
        assert_eq!(found, expected);
        assert_eq!(seen(&asked, vec![strings.clone()]), None, "a reply is missing");
        assert_eq!(seen(&asked[..1], vec![strings]), None, "a value too many");
        assert_eq!(seen(&asked[1..2], vec![Reply::Ok]), None, "no list");
        assert_eq!(seen(&asked[2..3], vec![]), Some(vec![Seen::Nothing]));
    }

    #[test]
    fn writes_are_commands() {
        let mut out = Vec::new();
        let list = vec![key("x"), key("y")];
        for one in [
            Write::Put { key: key("k"), value: key("v") },
            Write::PutAt { key: key("k"), offset: 300, value: key("v") },
            Write::Push { key: key("l"), elements: list.clone() },
            Write::Fill { key: key("l"), elements: list },
            Write::Replace { key: key("l"), index: 4, element: key("z") },
            Write::Remove { key: key("k") },
        ] {
            write(&one, &mut out);
        }
        let expected =
            ["SET k v", "SETRANGE k 300 v", "RPUSH l x y", "DEL l", "RPUSH l x y", "LSET l 4 z", "DEL k"];
        assert_eq!(texts(&out), expected);
    }
}
