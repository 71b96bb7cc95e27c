//! How much of its keys' values a command may look at: whoever runs it where the keys are not must bring that along.

use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::args::{is, parse_integer};
use crate::table::Effect;
use crate::{Spec, keys_of};

/// What a command may do with a key, and how much of the value it may look at. Type, expiry and the length of a list are
/// always known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Whether it may change the key.
    pub writes: bool,
    /// Whether it may look at, or keep, the bytes of a string.
    pub body: bool,
    /// How many rows from either end it may look at; the greatest number: all.
    pub rows: u64,
}

impl Need {
    /// Whether the key exists, of what type it is and when it expires, and no more.
    const PRESENCE: Need = Need { writes: false, body: false, rows: 0 };
    /// Everything.
    const WHOLE: Need = Need { writes: false, body: true, rows: u64::MAX };

    /// The bytes, if it is a string.
    const BODY: Need = Need { writes: false, body: true, rows: 0 };

    fn rows(rows: u64) -> Need {
        Need { rows, ..Need::PRESENCE }
    }

    /// What both together need, one after the other: what the first takes from an end, the second takes behind it.
    #[must_use]
    pub fn and(self, other: Need) -> Need {
        Need {
            writes: self.writes || other.writes,
            body: self.body || other.body,
            rows: self.rows.saturating_add(other.rows),
        }
    }
}

/// The keys of a command (see [`keys_of`]), each with what the command needs of it.
pub fn needs_of(spec: &Spec, args: &[Bytes]) -> Vec<(Bytes, Need)> {
    let writes = spec.effect == Effect::Write;
    let all = |need: Need| move |_: usize| Need { writes, ..need };
    let keys = |need: &dyn Fn(usize) -> Need| -> Vec<(Bytes, Need)> {
        keys_of(spec, args).into_iter().enumerate().map(|(place, key)| (key, need(place))).collect()
    };
    match spec.name {
        "del" | "unlink" | "exists" | "touch" | "type" | "ttl" | "pttl" | "expiretime" | "pexpiretime" => {
            keys(&all(Need::PRESENCE))
        }
        "lpush" | "rpush" | "lpushx" | "rpushx" | "llen" => keys(&all(Need::PRESENCE)),
        "lpop" | "rpop" => keys(&all(Need::rows(args.get(1).map_or(1, count)))),
        "lmpop" => keys(&all(Need::rows(counted(args)))),
        "lmove" | "rpoplpush" => keys(&|place| Need { writes, ..Need::rows(u64::from(place == 0)) }),
        "rename" | "renamenx" => {
            keys(&|place| Need { writes, ..if place == 0 { Need::WHOLE } else { Need::PRESENCE } })
        }
        // What is copied stays as it is.
        "copy" => keys(&|place| if place == 0 { Need::WHOLE } else { Need { writes, ..Need::PRESENCE } }),
        "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" => keys(&all(Need::BODY)),
        // They know no other type, or replace it whole.
        _ if spec.group == "string" => keys(&all(Need::BODY)),
        _ => keys(&all(Need::WHOLE)),
    }
}

/// How many elements such a word asks for.
fn count(word: &Bytes) -> u64 {
    // What is no number is refused by whoever runs it, who then looks at nothing.
    parse_integer(word).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// The COUNT of LMPOP.
fn counted(args: &[Bytes]) -> u64 {
    let option = args.iter().rev().nth(1).filter(|word| is(word, "count"));
    match (option, args.last()) {
        (Some(_), Some(word)) => count(word).max(1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, find};

    fn needs(line: &str) -> Vec<Need> {
        let mut words = line.split(' ');
        let spec = find(words.next().unwrap().as_bytes()).unwrap();
        let args: Vec<Bytes> = words.map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        needs_of(spec, &args).into_iter().map(|(_, need)| need).collect()
    }

    #[test]
    fn commands_need_what_they_look_at() {
        let writes = |need: Need| Need { writes: true, ..need };
        assert_eq!(needs("RENAME a b"), [writes(Need::WHOLE), writes(Need::PRESENCE)]);
        assert_eq!(needs("COPY a b REPLACE"), [Need::WHOLE, writes(Need::PRESENCE)]);
        assert_eq!(needs("LMOVE a b LEFT LEFT"), [writes(Need::rows(1)), writes(Need::rows(0))]);
        assert_eq!(needs("LMPOP 2 a b LEFT COUNT 7"), [writes(Need::rows(7)); 2]);
        // The key called count is a key.
        assert_eq!(needs("LMPOP 2 count 9 LEFT"), [writes(Need::rows(1)); 2]);
        assert_eq!(needs("RPOP a 3"), [writes(Need::rows(3))]);
        assert_eq!(needs("LCS a b"), [Need::BODY; 2]);
        assert_eq!(needs("LRANGE a 0 0"), [Need::WHOLE]);
        assert_eq!(needs("MSETNX a 1 b 2"), [writes(Need::BODY); 2]);
    }

    #[test]
    fn needs_add_up() {
        let both = Need::rows(2).and(Need { writes: true, ..Need::rows(3) });
        assert_eq!(both, Need { writes: true, body: false, rows: 5 });
        assert_eq!(Need::WHOLE.and(Need::rows(3)), Need::WHOLE);
    }

    #[test]
    fn whoever_writes_says_so() {
        let args: Vec<Bytes> = ["1", "a", "LEFT"].map(|word| Bytes::from_static(word.as_bytes())).into();
        for spec in all().iter().filter(|spec| spec.effect == Effect::Write) {
            let needs = needs_of(spec, &args);
            assert!(needs.is_empty() || needs.iter().any(|(_, need)| need.writes), "{}", spec.name);
        }
    }
}
