//! How a request over several buckets is taken apart, and how the replies of its parts become its own.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use quorate_api::{Bucket, Command, Reply, Request};
use quorate_shard::{Decision, Part};
use quorate_values::{Spec, by_code, keys_of};

/// A request taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What each bucket does.
    pub(crate) parts: BTreeMap<Bucket, Part>,
    /// How the replies are put together.
    pub(crate) whole: Whole,
}

/// How the reply of a request is made of those of its commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whole {
    /// Of one command.
    One(Piece),
    /// Of those of EXEC, or of the versions of keys.
    All(Vec<Piece>),
}

/// How the reply of a command is made of those of its parts, which are named by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// It was not taken apart.
    Whole(u32),
    /// Numbers that are added up.
    Sum(Vec<u32>),
    /// For each element, the part and the place in its array.
    Elements(Vec<(u32, usize)>),
    /// All elements of arrays.
    Concatenation(Vec<u32>),
    /// All say OK.
    Ok(Vec<u32>),
    /// Any that is not nil.
    Any(Vec<u32>),
}

struct Planner {
    count: NonZeroU16,
    parts: BTreeMap<Bucket, Part>,
    numbers: u32,
}

/// Takes a request apart among `count` buckets; `None` if one of its commands moves data from bucket to bucket.
pub(crate) fn plan(request: &Request, count: NonZeroU16) -> Option<Plan> {
    let mut planner = Planner { count, parts: BTreeMap::new(), numbers: 0 };
    let whole = match request {
        Request::One(command) => Whole::One(planner.command(command)?),
        Request::Versions(keys) => {
            let pieces = keys.iter().map(|key| {
                let number = planner.number();
                planner.part_of(key).versions.push((number, key.clone()));
                Piece::Whole(number)
            });
            Whole::All(pieces.collect())
        }
        Request::Transaction { watched, commands } => {
            for (key, version) in watched {
                planner.part_of(key).watched.push((key.clone(), *version));
            }
            let pieces: Option<Vec<Piece>> =
                commands.iter().map(|command| planner.command(command)).collect();
            Whole::All(pieces?)
        }
    };
    Some(Plan { parts: planner.parts, whole })
}

impl Planner {
    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn part_of(&mut self, key: &[u8]) -> &mut Part {
        self.parts.entry(Bucket::of_key(key, self.count)).or_default()
    }

    /// Has a bucket run a command.
    fn run(&mut self, bucket: Bucket, command: Command) -> u32 {
        let number = self.number();
        self.parts.entry(bucket).or_default().commands.push((number, command));
        number
    }

    fn command(&mut self, command: &Command) -> Option<Piece> {
        let Some(spec) = by_code(command.code) else {
            return Some(Piece::Whole(self.run(Bucket(0), command.clone())));
        };
        let keys = keys_of(spec, &command.args);
        if keys.is_empty() && spec.spans_keyspace() {
            return self.everywhere(spec, command);
        }
        let mut buckets: Vec<Bucket> = keys.iter().map(|key| Bucket::of_key(key, self.count)).collect();
        buckets.sort_unstable();
        buckets.dedup();
        match buckets[..] {
            [] => Some(Piece::Whole(self.run(Bucket(0), command.clone()))),
            [bucket] => Some(Piece::Whole(self.run(bucket, command.clone()))),
            _ => self.apart(spec, command),
        }
    }

    /// A command about all keys runs in every bucket.
    fn everywhere(&mut self, spec: &Spec, command: &Command) -> Option<Piece> {
        let numbers = (0..self.count.get()).map(|bucket| self.run(Bucket(bucket), command.clone())).collect();
        match spec.name {
            "dbsize" => Some(Piece::Sum(numbers)),
            "keys" => Some(Piece::Concatenation(numbers)),
            "flushall" | "flushdb" => Some(Piece::Ok(numbers)),
            "randomkey" => Some(Piece::Any(numbers)),
            _ => None,
        }
    }

    /// A command with keys in several buckets: each bucket runs it with its own.
    fn apart(&mut self, spec: &Spec, command: &Command) -> Option<Piece> {
        let step = match spec.name {
            "mget" | "del" | "unlink" | "exists" | "touch" => 1,
            "mset" => 2,
            _ => return None,
        };
        if !command.args.len().is_multiple_of(step) {
            // It is refused by whoever runs it.
            return Some(Piece::Whole(self.run(Bucket(0), command.clone())));
        }
        let mut args: BTreeMap<Bucket, Vec<Bytes>> = BTreeMap::new();
        let mut places = Vec::new();
        for words in command.args.chunks(step) {
            let bucket = Bucket::of_key(words.first()?, self.count);
            let args = args.entry(bucket).or_default();
            places.push((bucket, args.len()));
            args.extend_from_slice(words);
        }
        let numbers: BTreeMap<Bucket, u32> = args
            .into_iter()
            .map(|(bucket, args)| (bucket, self.run(bucket, Command { code: command.code, args })))
            .collect();
        let all = numbers.values().copied().collect();
        Some(match spec.name {
            "mget" => {
                Piece::Elements(places.into_iter().map(|(bucket, place)| (numbers[&bucket], place)).collect())
            }
            "mset" => Piece::Ok(all),
            _ => Piece::Sum(all),
        })
    }
}

impl Whole {
    /// The reply, if every part has one.
    pub(crate) fn reply(&self, decision: &Decision, chance: u64) -> Option<Reply> {
        let exports = decision.values().flat_map(|export| &export.replies);
        let replies: BTreeMap<u32, &Reply> = exports.map(|(number, reply)| (*number, reply)).collect();
        match self {
            Whole::One(piece) => piece.reply(&replies, chance),
            Whole::All(pieces) => {
                let all: Option<Vec<Reply>> =
                    pieces.iter().map(|piece| piece.reply(&replies, chance)).collect();
                all.map(Reply::Array)
            }
        }
    }
}

impl Piece {
    fn reply(&self, replies: &BTreeMap<u32, &Reply>, chance: u64) -> Option<Reply> {
        let get = |number: &u32| replies.get(number).copied();
        let parts: Vec<u32> = match self {
            Piece::Whole(number) => return get(number).cloned(),
            Piece::Elements(places) => places.iter().map(|(number, _)| *number).collect(),
            Piece::Sum(numbers)
            | Piece::Concatenation(numbers)
            | Piece::Ok(numbers)
            | Piece::Any(numbers) => numbers.clone(),
        };
        let all: Vec<&Reply> = parts.iter().map(get).collect::<Option<_>>()?;
        if let Some(error) = all.iter().find(|reply| matches!(reply, Reply::Error(_))) {
            return Some((*error).clone());
        }
        match self {
            Piece::Whole(_) => None,
            Piece::Sum(_) => {
                let number = |reply: &&Reply| match reply {
                    Reply::Int(number) => Some(*number),
                    _ => None,
                };
                all.iter().map(number).sum::<Option<i64>>().map(Reply::Int)
            }
            Piece::Elements(places) => {
                let element = |((_, place), reply): (&(u32, usize), &Reply)| match reply {
                    Reply::Array(items) => items.get(*place).cloned(),
                    _ => None,
                };
                places.iter().zip(all).map(element).collect::<Option<_>>().map(Reply::Array)
            }
            Piece::Concatenation(_) => {
                let mut joined = Vec::new();
                for reply in all {
                    let Reply::Array(items) = reply else { return None };
                    joined.extend(items.iter().cloned());
                }
                Some(Reply::Array(joined))
            }
            Piece::Ok(_) => Some(Reply::Ok),
            Piece::Any(_) => {
                let some: Vec<&Reply> = all.into_iter().filter(|reply| **reply != Reply::Nil).collect();
                let place = (chance % some.len().max(1) as u64) as usize;
                Some(some.get(place).map_or(Reply::Nil, |reply| (*reply).clone()))
            }
        }
    }
}
