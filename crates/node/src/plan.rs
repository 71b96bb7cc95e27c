//! How a request over several buckets is taken apart, and how the replies of its parts become its own.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use quorate_api::{Bucket, Command, Reply, Request};
use quorate_commit::{LogId, Transaction, TransactionId};
use quorate_shard::{Decision, Part, Sight};
use quorate_values::{Effect, Need, Spec, by_code, keys_of, needs_of};

use crate::route::bucket_of_scan;

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

impl Plan {
    /// Whether all of it can be read without locks.
    pub(crate) fn only_reads(&self) -> bool {
        self.parts.values().all(Part::only_reads)
    }

    /// Whether it may go with other requests as one transaction.
    pub(crate) fn may_share(&self) -> bool {
        self.parts.values().all(Part::may_share)
    }

    /// The keys that its commands are about.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Bytes> {
        self.parts.values().flat_map(keys_of_part)
    }

    /// Has it coordinated by the first bucket, where it meets others; there it may have nothing to do.
    pub(crate) fn meet(&mut self) {
        self.parts.entry(Bucket(0)).or_default();
    }

    /// The bucket that coordinates it, which follows from the request alone.
    pub(crate) fn coordinator(&self) -> Option<Bucket> {
        coordinator(&self.parts)
    }

    /// As a transaction: one of its buckets coordinates, and hands their parts on to the others.
    pub(crate) fn transaction(
        &self,
        id: TransactionId,
        settled_before: u64,
        (shares, is_reader): (bool, bool),
    ) -> Option<(Bucket, Transaction)> {
        let log = |bucket: &Bucket| LogId(bucket.0.into());
        let bucket = self.coordinator()?;
        let part = self.parts.get(&bucket)?;
        let part = match is_reader {
            true => Part { readers: Vec::from([0]), ..part.clone() }.encode(),
            false => part.encode(),
        };
        let others = self.parts.iter().filter(|(other, _)| **other != bucket);
        let others = others.map(|(other, part)| (log(other), part.encode())).collect();
        let logs = self.parts.keys().map(log).collect();
        let (coordinator, members) = (log(&bucket), Vec::new());
        let transaction =
            Transaction { id, coordinator, logs, part, others, settled_before, shares, members };
        Some((bucket, transaction))
    }
}

/// Whether one of a bucket's commands is about all of its keys.
fn is_about_all(part: &Part) -> bool {
    part.commands.iter().any(|(_, command)| by_code(command.code).is_some_and(Spec::spans_keyspace))
}

/// The keys that a bucket's commands are about.
fn keys_of_part(part: &Part) -> impl Iterator<Item = Bytes> {
    part.commands.iter().flat_map(|(_, command)| {
        by_code(command.code).map(|spec| keys_of(spec, &command.args)).unwrap_or_default()
    })
}

/// The keys that a part reads; not those of commands about all.
pub(crate) fn keys_read(part: &Part) -> impl Iterator<Item = Bytes> {
    let compared = part.watched.iter().map(|(key, _)| key).chain(part.versions.iter().map(|(_, key)| key));
    compared.cloned().chain(keys_of_part(part))
}

/// Whether a part reads one key, and nothing else.
pub(crate) fn is_about_one_key(part: &Part) -> bool {
    let mut keys = keys_read(part);
    !is_about_all(part) && keys.next().is_some_and(|first| keys.all(|key| key == first))
}

/// Which of these buckets coordinates. Requests that may go together meet at the first of theirs. Others would make those who
/// lead the first buckets the busiest by far: each of their buckets coordinates as often as the others.
fn coordinator(parts: &BTreeMap<Bucket, Part>) -> Option<Bucket> {
    let sum: usize = parts.keys().map(|bucket| usize::from(bucket.0)).sum();
    let place = if parts.values().all(Part::may_share) { 0 } else { sum % parts.len().max(1) };
    parts.keys().nth(place).copied()
}

struct Planner {
    count: NonZeroU16,
    parts: BTreeMap<Bucket, Part>,
    numbers: u32,
}

/// Takes a request apart among `count` buckets. If one of its commands moves or combines what lies in several of them, the
/// coordinator runs all of them, since any may meet its results.
pub(crate) fn plan(request: &Request, count: NonZeroU16) -> Plan {
    let mut planner = Planner { count, parts: BTreeMap::new(), numbers: 0 };
    let whole = match request {
        Request::One(command) => Whole::One(match planner.moves(command) {
            true => planner.script(core::slice::from_ref(command)).remove(0),
            false => planner.command(command),
        }),
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
            Whole::All(match commands.iter().any(|command| planner.moves(command)) {
                true => planner.script(commands),
                false => commands.iter().map(|command| planner.command(command)).collect(),
            })
        }
        // It is for one bucket, and not taken apart.
        Request::Collect { .. } => Whole::All(Vec::new()),
    };
    Plan { parts: planner.parts, whole }
}

/// Into how many words each of which a command can be cut, if every bucket can do what is about its keys alone.
fn words_together(spec: &Spec) -> Option<usize> {
    match spec.name {
        "mget" | "del" | "unlink" | "exists" | "touch" => Some(1),
        "mset" => Some(2),
        _ => None,
    }
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

    /// The buckets of a command's keys, each once.
    fn buckets_of(&self, spec: &Spec, command: &Command) -> Vec<Bucket> {
        let keys = keys_of(spec, &command.args);
        let mut buckets: Vec<Bucket> = keys.iter().map(|key| Bucket::of_key(key, self.count)).collect();
        buckets.extend(bucket_of_scan(spec, command, self.count));
        buckets.sort_unstable();
        buckets.dedup();
        buckets
    }

    /// Whether a command needs what lies in several buckets in one place.
    fn moves(&self, command: &Command) -> bool {
        by_code(command.code)
            .is_some_and(|spec| words_together(spec).is_none() && self.buckets_of(spec, command).len() > 1)
    }

    fn command(&mut self, command: &Command) -> Piece {
        let Some(spec) = by_code(command.code) else {
            return Piece::Whole(self.run(Bucket(0), command.clone()));
        };
        match self.buckets_of(spec, command)[..] {
            [] if spec.spans_keyspace() => self.everywhere(spec, command),
            [] => Piece::Whole(self.run(Bucket(0), command.clone())),
            [bucket] => Piece::Whole(self.run(bucket, command.clone())),
            _ => self.apart(spec, command),
        }
    }

    /// A command about all keys runs in every bucket.
    fn everywhere(&mut self, spec: &Spec, command: &Command) -> Piece {
        let numbers = (0..self.count.get()).map(|bucket| self.run(Bucket(bucket), command.clone())).collect();
        match spec.name {
            "dbsize" => Piece::Sum(numbers),
            "keys" => Piece::Concatenation(numbers),
            "flushall" | "flushdb" => Piece::Ok(numbers),
            "randomkey" => Piece::Any(numbers),
            // Of one that says nothing else, what the first bucket says.
            _ => Piece::Whole(numbers.first().copied().unwrap_or_default()),
        }
    }

    /// A command with keys in several buckets: each bucket runs it with its own.
    fn apart(&mut self, spec: &Spec, command: &Command) -> Piece {
        let step = words_together(spec).unwrap_or(1);
        if !command.args.len().is_multiple_of(step) {
            // It is refused by whoever runs it.
            return Piece::Whole(self.run(Bucket(0), command.clone()));
        }
        let mut args: BTreeMap<Bucket, Vec<Bytes>> = BTreeMap::new();
        let mut places = Vec::new();
        for words in command.args.chunks(step) {
            let bucket = Bucket::of_key(&words[0], self.count);
            let args = args.entry(bucket).or_default();
            places.push((bucket, args.len()));
            args.extend_from_slice(words);
        }
        let numbers: BTreeMap<Bucket, u32> = args
            .into_iter()
            .map(|(bucket, args)| (bucket, self.run(bucket, Command { code: command.code, args })))
            .collect();
        let all = numbers.values().copied().collect();
        match spec.name {
            "mget" => {
                Piece::Elements(places.into_iter().map(|(bucket, place)| (numbers[&bucket], place)).collect())
            }
            "mset" => Piece::Ok(all),
            _ => Piece::Sum(all),
        }
    }

    /// All commands run at the coordinator, over what the buckets lend of their keys.
    fn script(&mut self, commands: &[Command]) -> Vec<Piece> {
        let mut needs: BTreeMap<Bytes, Need> = BTreeMap::new();
        let mut sight: Option<Sight> = None;
        let mut script = Vec::with_capacity(commands.len());
        for command in commands {
            script.push((self.number(), command.clone()));
            let Some(spec) = by_code(command.code) else { continue };
            for (key, need) in needs_of(spec, &command.args) {
                let needed = needs.entry(key).or_default();
                *needed = needed.and(need);
            }
            if spec.spans_keyspace() {
                let sight = sight.get_or_insert_default();
                sight.clears |= spec.effect == Effect::Write;
                // Those that remove all, or count them, need no names.
                sight.names |= spec.effect == Effect::Read && spec.name != "dbsize";
            }
        }
        for (key, need) in needs {
            self.part_of(&key).lends.push((key, need));
        }
        if sight.is_some() {
            (0..self.count.get()).for_each(|bucket| {
                self.parts.entry(Bucket(bucket)).or_default().sight = sight;
            });
        }
        let pieces = script.iter().map(|(number, _)| Piece::Whole(*number)).collect();
        if let Some(part) = coordinator(&self.parts).and_then(|bucket| self.parts.get_mut(&bucket)) {
            part.script = script;
        }
        pieces
    }
}

impl Whole {
    /// The reply, if every part has one.
    pub(crate) fn reply(&self, decision: &Decision, chance: u64) -> Option<Reply> {
        let shares = decision.shares.values().flat_map(|share| &share.replies);
        let all = shares.chain(&decision.replies);
        let replies: BTreeMap<u32, &Reply> = all.map(|(number, reply)| (*number, reply)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Route, route};
    use alloc::string::String;
    use quorate_api::Version;

    const THREE: NonZeroU16 = NonZeroU16::new(3).unwrap();

    fn command(line: &str) -> Command {
        let mut words = line.split(' ');
        let spec = quorate_values::find(words.next().unwrap().as_bytes()).unwrap();
        Command { code: spec.code, args: words.map(|word| Bytes::copy_from_slice(word.as_bytes())).collect() }
    }

    fn exec(lines: &[&str]) -> Request {
        let commands = lines.iter().map(|line| command(line)).collect();
        Request::Transaction { watched: Vec::from([(Bytes::from_static(b"w"), Version(3))]), commands }
    }

    /// What each bucket is asked to do, in short.
    fn parts(request: &Request) -> Vec<(u16, String)> {
        let describe = |part: &Part| {
            let names = |commands: &[(u32, Command)]| {
                let name = |(_, command): &(u32, Command)| by_code(command.code).unwrap().name;
                commands.iter().map(name).collect::<Vec<_>>().join(",")
            };
            let lends: Vec<String> =
                part.lends.iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect();
            let (commands, script) = (names(&part.commands), names(&part.script));
            alloc::format!("{commands}|{}|{script}|{}", lends.join(","), part.watched.len())
        };
        plan(request, THREE).parts.iter().map(|(bucket, part)| (bucket.0, describe(part))).collect()
    }

    #[test]
    fn what_moves_between_buckets_runs_at_the_coordinator() {
        let buckets = ["a", "b", "{a}c", "w"].map(|key| Bucket::of_key(key.as_bytes(), THREE).0);
        assert_eq!(buckets, [2, 0, 2, 0]);
        let alone = Request::One(command("RENAME a b"));
        assert_eq!(parts(&alone), [(0, "|b|rename|0".into()), (2, "|a||0".into())]);
        // Others in the same transaction meet its results.
        let mixed = exec(&["GET b", "RENAME a b", "MGET a b"]);
        assert_eq!(parts(&mixed), [(0, "|b|get,rename,mget|1".into()), (2, "|a||0".into())]);
        // Where nothing moves from bucket to bucket, each runs its own.
        let apart = exec(&["GET b", "RENAME a {a}c", "MGET a b"]);
        assert_eq!(parts(&apart), [(0, "get,mget|||1".into()), (2, "rename,mget|||0".into())]);
    }

    #[test]
    fn scripts_about_all_keys_ask_all_buckets() {
        let sights = |lines: &[&str]| {
            let plan = plan(&exec(lines), THREE);
            plan.parts.values().map(|part| part.sight).collect::<Vec<_>>()
        };
        assert_eq!(sights(&["RENAME a b"]), [None; 2]);
        let count = Some(Sight { names: false, clears: false });
        assert_eq!(sights(&["RENAME a b", "DBSIZE"]), [count; 3]);
        let names = Some(Sight { names: true, clears: true });
        assert_eq!(sights(&["FLUSHALL", "RENAME a b", "KEYS *"]), [names; 3]);
    }

    #[test]
    fn a_step_of_scan_belongs_to_the_bucket_of_its_cursor() {
        let of = |line: &str| route(&Request::One(command(line)), THREE);
        let second = Bucket(0).ring_end(THREE).unwrap();
        assert_eq!(of("SCAN 0"), Route::One(Bucket(0)));
        assert_eq!(of(&alloc::format!("SCAN {}", second - 1)), Route::One(Bucket(0)));
        assert_eq!(of(&alloc::format!("SCAN {second} COUNT 5")), Route::One(Bucket(1)));
        assert_eq!(of("SCAN 18446744073709551615"), Route::One(Bucket(2)));
        assert_eq!(of("SCAN nonsense"), Route::One(Bucket(0)));
        assert_eq!(route(&exec(&["SCAN 0", "GET b"]), THREE), Route::One(Bucket(0)));
        assert_eq!(route(&exec(&["SCAN 0", "GET a"]), THREE), Route::Several);
        assert_eq!(Bucket(2).ring_end(THREE), None);
    }
}
