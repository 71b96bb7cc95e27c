//! What a request over several shards that changes nothing sees of one of them, without locks.
//!
//! Its node asks each shard twice or more, until all say that nothing of it has changed between two rounds: then all of it
//! stood so, at every shard, at one instant between them (a *double collect*, Afek and others, Atomic Snapshots of Shared
//! Memory, 1993). A shard answers once no prepared transaction is about to change what is read, so that an outcome that
//! another shard has shown already is not missed. Decision 0014.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;
use quorate_values::{Effect, by_code};

use crate::desk::run_part;
use crate::part::{Part, Place};
use crate::view::View;

/// What a shard answers to [`quorate_api::Request::Collect`].
#[derive(Debug, Clone, PartialEq)]
pub enum Collected {
    /// All stands as it was known.
    Same,
    /// It stands otherwise.
    New {
        /// How it stands: the same numbers again mean that nothing has changed.
        stamps: Vec<u64>,
        /// What the commands found, with their numbers.
        replies: Vec<(u32, Reply)>,
        /// Whether somebody was changing it when it was asked for.
        waited: bool,
    },
    /// A watched key has changed since it was watched.
    Moved,
    /// The answer would be too long, as these words say.
    Failed(Reply),
}

/// Reads what a shard has answered; `None`: it makes no sense.
pub fn decode_collected(reply: Reply) -> Option<Collected> {
    let fields = match reply {
        Reply::Ok => return Some(Collected::Same),
        Reply::NilArray => return Some(Collected::Moved),
        Reply::Error(_) => return Some(Collected::Failed(reply)),
        Reply::Array(fields) => fields,
        _ => return None,
    };
    let mut fields = fields.into_iter();
    let (Some(Reply::Array(stamps)), Some(Reply::Array(found))) = (fields.next(), fields.next()) else {
        return None;
    };
    let waited = fields.next().is_some();
    let number = |reply: Reply| match reply {
        Reply::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let stamps = stamps.into_iter().map(number).collect::<Option<_>>()?;
    let mut found = found.into_iter();
    let mut replies = Vec::with_capacity(found.len() / 2);
    while let (Some(name), Some(reply)) = (found.next(), found.next()) {
        replies.push((u32::try_from(number(name)?).ok()?, reply));
    }
    Some(Collected::New { stamps, replies, waited })
}

/// Adds to what a shard answers that somebody was changing what was asked for.
pub(crate) fn say_waited(reply: &mut Reply) {
    if let Reply::Array(fields) = reply {
        fields.push(Reply::Ok);
    }
}

/// Whether an encoded part changes nothing.
pub(crate) fn is_collect(part: &[u8]) -> bool {
    Part::decode(part).is_ok_and(|part| part.only_reads())
}

impl Part {
    /// Whether it changes nothing, and needs nothing of other shards.
    pub fn only_reads(&self) -> bool {
        let reads = |code| by_code(code).is_some_and(|spec| spec.effect == Effect::Read);
        self.lends.is_empty()
            && self.sight.is_none()
            && self.script.is_empty()
            && self.notes.is_empty()
            && self.commands.iter().all(|(_, command)| reads(command.code))
    }
}

impl View<'_> {
    /// Answers [`quorate_api::Request::Collect`].
    pub(crate) fn collect(&mut self, part: &[u8], known: &[u64]) -> Reply {
        let part = Part::decode(part).unwrap_or_default();
        self.outrun = self.moved(&part.watched);
        if self.outrun.is_some() {
            return Reply::NilArray;
        }
        let stamps = self.stamps(&part);
        if stamps == known {
            return Reply::Ok;
        }
        let int = |number: u64| Reply::Int(number as i64);
        let found = run_part(self, &part).into_iter().flat_map(|(number, reply)| [int(number.into()), reply]);
        let found = found.collect();
        let stamps = stamps.into_iter().map(int).collect();
        Reply::Array([Reply::Array(stamps), Reply::Array(found)].into())
    }

    /// How all stands that a part is about.
    fn stamps(&mut self, part: &Part) -> Vec<u64> {
        let stamp = |want: quorate_commit::locks::Want<Place>| match want.key {
            Place::Everybody | Place::Note(_) => None,
            // Whatever is changed gets a new version.
            Place::Keyspace => Some(self.state.versions),
            Place::Key(key) => Some(self.stamp(&key)),
        };
        part.wants().into_iter().filter_map(stamp).collect()
    }

    /// How a key stands: never the same again after a change. Versions do not say that a key is past its time and not
    /// removed yet.
    fn stamp(&mut self, key: &Bytes) -> u64 {
        match self.raw(key) {
            Some((header, _)) => header.version << 1 | u64::from(self.is_live(key, &header)),
            None => self.version(key).0 << 1,
        }
    }
}
