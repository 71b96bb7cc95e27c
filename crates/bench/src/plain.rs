//! Plain commands on strings, as fast as they can be made: nothing is recorded, nothing is judged.

use quorate_kernel::Rng;
use quorate_workload::{Chooser, Distribution};
use serde::Serialize;

use crate::player::{End, Player, Start, Step};
use quorate_client::resp::{push_bulk, push_number};

/// Digits of a key's number, so that all keys are of one length.
const KEY_DIGITS: usize = 12;
/// Values are cut from this many bytes of chance.
const POOL_EXTRA: usize = 64 << 10;

/// Which commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mix {
    /// Share of GET, from 0 to 100; the rest is SET.
    pub read_percent: u64,
}

/// Which keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Drawn from a distribution.
    Drawn(Distribution),
    /// One after the other, each client its own share.
    InOrder,
}

/// Describes a plain load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlainSpec {
    /// Which commands.
    pub mix: Mix,
    /// Number of keys.
    pub keys: u64,
    /// Which of them.
    pub choice: Keys,
    /// What all keys begin with.
    pub prefix: String,
    /// Length of values.
    pub value_bytes: usize,
    /// Commands a client sends before it waits for answers.
    pub pipeline: usize,
    /// Whether every key was written before, so that a read must find it.
    pub all_exist: bool,
}

/// One operation whose answer is awaited.
#[derive(Debug, Clone, Copy)]
struct Sent {
    is_write: bool,
    key: u64,
}

/// Plays clients that send plain commands.
#[derive(Debug)]
pub(crate) struct Plain {
    spec: PlainSpec,
    chooser: Option<Chooser>,
    rng: Rng,
    pool: Vec<u8>,
    /// What each client waits for, oldest first.
    sent: Vec<std::collections::VecDeque<Sent>>,
    /// The next key in order, and how far apart those of one driver are.
    next: u64,
    stride: u64,
    /// The buffer a key is written into.
    key: Vec<u8>,
}

impl Plain {
    /// Plays `clients` clients; of `drivers` such, this is number `index`.
    pub(crate) fn new(spec: &PlainSpec, clients: usize, seed: u64, index: u64, drivers: u64) -> Plain {
        let mut rng = Rng::new(seed);
        let pool = (0..spec.value_bytes + POOL_EXTRA).map(|_| b'a' + rng.below(26) as u8).collect();
        let chooser = match spec.choice {
            Keys::Drawn(distribution) => Some(Chooser::new(spec.keys.max(1), distribution)),
            Keys::InOrder => None,
        };
        Plain {
            spec: spec.clone(),
            chooser,
            rng,
            pool,
            sent: vec![Default::default(); clients],
            next: index,
            stride: drivers.max(1),
            key: Vec::new(),
        }
    }

    fn draw_key(&mut self) -> u64 {
        match &self.chooser {
            Some(chooser) => chooser.draw(&mut self.rng),
            None => {
                let number = self.next % self.spec.keys.max(1);
                self.next += self.stride;
                number
            }
        }
    }

    fn write_key(&mut self, number: u64) {
        self.key.clear();
        self.key.extend_from_slice(self.spec.prefix.as_bytes());
        let (mut digits, mut left) = ([b'0'; KEY_DIGITS], number);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.key.extend_from_slice(&digits);
    }

    /// How much of a value names its key, so that another key's value is not taken for it.
    fn naming(&self) -> usize {
        self.key.len().min(self.spec.value_bytes)
    }

    /// Whether this is what a read of `key` may be told.
    fn is_value_of(&mut self, key: u64, reply: &[u8]) -> bool {
        if reply == b"$-1\r\n" {
            return !self.spec.all_exist;
        }
        self.write_key(key);
        let mut lines = reply.splitn(2, |byte| *byte == b'\n').skip(1);
        lines.next().is_some_and(|value| value.starts_with(&self.key[..self.naming()]))
    }
}

impl Player for Plain {
    fn depth(&self) -> usize {
        self.spec.pipeline.max(1)
    }

    fn begin(&mut self, client: usize, _start: Start, out: &mut Vec<u8>) -> bool {
        let is_write = !self.rng.chance(self.spec.mix.read_percent, 100);
        let key = self.draw_key();
        self.write_key(key);
        push_number(out, b'*', if is_write { 3 } else { 2 });
        push_bulk(out, if is_write { b"SET" } else { b"GET" });
        push_bulk(out, &self.key);
        if is_write {
            let from = self.rng.below(POOL_EXTRA as u64) as usize;
            push_bulk(out, &self.pool[from..from + self.spec.value_bytes]);
            let naming = self.naming();
            let value = out.len() - 2 - self.spec.value_bytes;
            out[value..value + naming].copy_from_slice(&self.key[..naming]);
        }
        self.sent[client].push_back(Sent { is_write, key });
        true
    }

    fn reply(&mut self, client: usize, reply: &[u8], _now_ns: u64, _out: &mut Vec<u8>) -> Step {
        let Some(sent) = self.sent[client].pop_front() else {
            return Step::Ended { end: End::Nonsense, is_write: false };
        };
        let end = match (reply, sent.is_write) {
            ([b'-', b'U', b'N', b'K', b'N', b'O', b'W', b'N', ..], true) => End::Unknown,
            // A read that has no answer has changed nothing either.
            ([b'-', ..], _) => End::Refused,
            ([b'+', ..], true) => End::Done,
            ([b'$', ..], false) if self.is_value_of(sent.key, reply) => End::Done,
            _ => End::Nonsense,
        };
        Step::Ended { end, is_write: sent.is_write }
    }

    fn lost(&mut self, client: usize, _now_ns: u64) -> Step {
        let is_write = self.sent[client].pop_front().is_some_and(|sent| sent.is_write);
        Step::Ended { end: End::Unknown, is_write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start { now_ns: 0, due_ns: 0, is_measured: true };

    fn spec(read_percent: u64) -> PlainSpec {
        PlainSpec {
            mix: Mix { read_percent },
            keys: 4,
            choice: Keys::InOrder,
            prefix: "k:".into(),
            value_bytes: 3,
            pipeline: 2,
            all_exist: false,
        }
    }

    #[test]
    fn commands_are_whole_and_keys_of_one_length() {
        let mut plain = Plain::new(&spec(0), 1, 1, 1, 2);
        let mut out = Vec::new();
        for _ in 0..3 {
            assert!(plain.begin(0, START, &mut out));
        }
        let text = String::from_utf8(out).unwrap();
        let keys: Vec<_> =
            text.split("\r\n").filter(|word| word.starts_with("k:") && word.len() > 3).collect();
        assert_eq!(keys, ["k:000000000001", "k:000000000003", "k:000000000001"]);
        assert!(text.starts_with("*3\r\n$3\r\nSET\r\n$14\r\nk:000000000001\r\n$3\r\n"), "{text}");
    }

    #[test]
    fn replies_are_told_apart() {
        let mut out = Vec::new();
        let mut end = |read_percent, all_exist, reply: &[u8]| {
            let mut plain = Plain::new(&spec(read_percent), 1, 1, 0, 1);
            plain.spec.all_exist = all_exist;
            plain.begin(0, START, &mut out);
            match plain.reply(0, reply, 0, &mut Vec::new()) {
                Step::Ended { end, .. } => end,
                Step::More => panic!("one reply each"),
            }
        };
        assert_eq!(end(0, false, b"+OK\r\n"), End::Done);
        assert_eq!(end(0, false, b"-TRYAGAIN x\r\n"), End::Refused);
        assert_eq!(end(0, false, b"-UNKNOWN x\r\n"), End::Unknown);
        assert_eq!(end(0, false, b":1\r\n"), End::Nonsense);
        assert_eq!(end(100, false, b"$-1\r\n"), End::Done);
        assert_eq!(end(100, false, b"+OK\r\n"), End::Nonsense);
        assert_eq!(end(100, true, b"$-1\r\n"), End::Nonsense, "the key was there");
        assert_eq!(end(100, true, b"$3\r\nk:0\r\n"), End::Done);
        assert_eq!(end(100, true, b"$3\r\nk;0\r\n"), End::Nonsense, "the value of another key");
    }
}
