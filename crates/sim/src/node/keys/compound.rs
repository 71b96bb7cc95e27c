//! Answers of several commands, and of a scan step by step.

use std::time::Duration;

use bytes::Bytes;
use quorate_api::Reply;

use super::super::words;
use super::{Expiry, KEYS, Keeper, Known, Rules};
use crate::Verdict;

impl Keeper {
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
