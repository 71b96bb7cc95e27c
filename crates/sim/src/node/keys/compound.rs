//! Answers of several commands, and of a scan step by step.

use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Reply, Request};
use quorate_kernel::Rng;

use super::super::words;
use super::{Act, Expiry, KEYS, Keeper, Known, Rules, Scan};
use crate::Verdict;

impl Keeper {
    pub(super) fn begin_compound(
        &mut self,
        act: Act,
        (name, other): (&str, &str),
        rules: &mut Rules,
        rng: &mut Rng,
        now: Duration,
    ) -> Request {
        let ms = |span: Duration| span.as_millis().to_string();
        match act {
            Act::Chain { to, span, .. } => {
                self.values += 1;
                let (to, value) = (self.name(to), self.value());
                let span = span.map(ms);
                let set = match &span {
                    Some(span) => vec!["SET", name, &value, "PX", span],
                    None => vec!["SET", name, &value],
                };
                let commands = [
                    &["GET", name][..],
                    &["RENAME", name, &to],
                    &set,
                    &["GET", &to],
                    &["KEYS", &self.pattern()],
                ];
                let commands = commands.iter().map(|words| words::command(words)).collect();
                Request::Transaction { watched: Vec::new(), commands }
            }
            Act::Scan => {
                let scan = self.scan.get_or_insert(Scan { since: now, cursor: "0".into(), seen: Vec::new() });
                words::one(&["SCAN", &scan.cursor, "COUNT", "20"])
            }
            Act::Keep => {
                let commands = (0..KEYS).map(|key| words::command(&["PERSIST", &self.name(key)]));
                Request::Transaction { watched: Vec::new(), commands: commands.collect() }
            }
            _ => {
                rules.flushed.push((now, None));
                let moves = words::command(&["RENAME", name, other]);
                match rng.chance(1, 2) {
                    true => words::one(&["FLUSHALL"]),
                    false => Request::Transaction {
                        watched: Vec::new(),
                        commands: vec![moves, words::command(&["FLUSHALL"]), words::command(&["DBSIZE"])],
                    },
                }
            }
        }
    }

    pub(super) fn take_persist(
        &mut self,
        key: usize,
        reply: &Reply,
        rules: &mut Rules,
        at: (Duration, Duration),
    ) -> Verdict {
        let persisted = words::number(reply)? == 1;
        match &mut self.known[key] {
            Known::Value { expiry: None, .. } if persisted => {
                return Err("nothing was to expire".into());
            }
            Known::Value { expiry: None, .. } => return Ok(()),
            Known::Absent | Known::Value { .. } => self.judge(key, persisted, rules, at)?,
        }
        if let Known::Value { expiry, .. } = &mut self.known[key] {
            *expiry = None;
        }
        Ok(())
    }

    pub(super) fn take_compound(
        &mut self,
        act: Act,
        reply: &Reply,
        rules: &mut Rules,
        at: (Duration, Duration),
    ) -> Verdict {
        match act {
            Act::Keep => {
                let Reply::Array(items) = reply else { return Err("a list was to come".into()) };
                (0..KEYS).zip(items).try_for_each(|(key, reply)| self.take_persist(key, reply, rules, at))
            }
            Act::List => {
                let Reply::Array(items) = reply else { return Err("a list was to come".into()) };
                for key in 0..KEYS {
                    let name = Bytes::from(self.name(key));
                    let seen = items.contains(&Reply::Bulk(name));
                    self.judge(key, seen, rules, at)?;
                }
                Ok(())
            }
            Act::Copy { key, to } => {
                self.judge(key, words::number(reply)? == 1, rules, at)?;
                if matches!(self.known[key], Known::Value { .. }) {
                    self.known[to] = self.known[key].clone();
                }
                Ok(())
            }
            Act::Chain { key, to, span } => self.take_chain((key, to, span), reply, rules, at),
            Act::Scan => self.take_scan(reply, rules, at.1),
            _ => {
                if matches!(reply, Reply::Array(items) if items[1..] != [Reply::Ok, Reply::Int(0)]) {
                    return Err("nothing was to be left".into());
                }
                if let Some(flush) =
                    rules.flushed.iter_mut().find(|(start, end)| *start == at.0 && end.is_none())
                {
                    flush.1 = Some(at.1);
                }
                self.known = [const { Known::Absent }; KEYS];
                Ok(())
            }
        }
    }

    /// GET, RENAME, SET, GET and KEYS in one transaction: each meets what those before it did.
    pub(super) fn take_chain(
        &mut self,
        (key, to, span): (usize, usize, Option<Duration>),
        reply: &Reply,
        rules: &mut Rules,
        at: (Duration, Duration),
    ) -> Verdict {
        let Reply::Array(items) = reply else { return Err("a list was to come".into()) };
        let [first, moved, Reply::Ok, behind, Reply::Array(names)] = &items[..] else {
            return Err("five answers were to come".into());
        };
        let (first, behind) = (words::text(first)?, words::text(behind)?);
        let expected =
            if let Known::Value { value, .. } = &self.known[key] { Some(value.clone()) } else { None };
        self.judge(key, first.is_some(), rules, at)?;
        if first.is_some() != (*moved == Reply::Ok) || (first.is_some() && first != expected) {
            return Err("another value, or it was not moved".into());
        }
        match first {
            Some(_) => self.known[to] = self.known[key].clone(),
            None => self.judge(to, behind.is_some(), rules, at)?,
        }
        let expiry = span.map(|span| Expiry::new(span, at, rules));
        self.known[key] = Known::Value { value: self.value(), set: at, expiry };
        match &self.known[to] {
            Known::Value { value, .. } if first.is_some() && behind.as_ref() != Some(value) => {
                return Err("what was moved is not there".into());
            }
            Known::Value { value, .. } if behind.as_ref().is_some_and(|behind| behind != value) => {
                return Err("another value".into());
            }
            _ => {}
        }
        let lists = |key: usize| names.contains(&Reply::Bulk(Bytes::from(self.name(key))));
        match lists(key) && lists(to) == behind.is_some() {
            true => Ok(()),
            false => Err("KEYS says otherwise".into()),
        }
    }

    /// A scan shows what was there from its start to its end.
    pub(super) fn take_scan(&mut self, reply: &Reply, rules: &mut Rules, now: Duration) -> Verdict {
        let Some(scan) = &mut self.scan else { return Err("nobody scans".into()) };
        let (cursor, items) = match reply {
            Reply::Array(both) => match &both[..] {
                [Reply::Bulk(cursor), Reply::Array(items)] => (cursor, items),
                _ => return Err("a cursor and a list were to come".into()),
            },
            _ => return Err("a cursor and a list were to come".into()),
        };
        scan.cursor = String::from_utf8_lossy(cursor).into_owned();
        let _: u64 = scan.cursor.parse().map_err(|_| "a cursor is a number")?;
        for item in items {
            if let Reply::Bulk(key) = item {
                scan.seen.push(key.clone());
            }
        }
        if scan.cursor == "0"
            && let Some(scan) = self.scan.take()
        {
            rules.scanned += 1;
            for key in 0..KEYS {
                let seen = scan.seen.contains(&Bytes::from(self.name(key)));
                self.judge(key, seen, rules, (scan.since, now))?;
            }
        }
        Ok(())
    }
}
