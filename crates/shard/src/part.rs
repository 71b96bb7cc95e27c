//! What a transaction over several shards does at one of them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Reply, Request, Version};
use quorate_commit::locks::{Mode, Want};
use quorate_commit::{LogId, Transaction};
use quorate_kernel::wire;
use quorate_values::{Effect, Kind, Meta, Need, by_code, keys_of};
use serde::{Deserialize, Serialize};

use crate::notes::Note;
use crate::replies::{self, Repeat};

/// What a transaction does at one shard.
///
/// Either each shard runs commands about its own keys (`commands`); or, where a command moves data between shards, all of
/// them lend what the commands look at (`lends`, `sight`), and the coordinator runs all commands (`script`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Keys of this shard with the versions they had when they were watched.
    pub watched: Vec<(Bytes, Version)>,
    /// Keys whose versions are asked for, each with a number that the answer carries.
    pub versions: Vec<(u32, Bytes)>,
    /// What runs here, in order, each with a number that its reply carries.
    pub commands: Vec<(u32, Command)>,
    /// Keys of this shard, each once, and what the script needs of them.
    pub lends: Vec<(Bytes, Need)>,
    /// Whether the script is about all keys there are.
    pub sight: Option<Sight>,
    /// For the coordinator: commands about keys of all shards, in order, each with a number that its reply carries.
    pub script: Vec<(u32, Command)>,
    /// The node's own notes that change with it, each from the one that it was built on; one that keeps its number is compared, and stays.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// For the coordinator: members that only read, by their numbers (0 is a request that goes alone). Their origins ask anew where replies
    /// are lost, so no log has to remember these.
    #[serde(skip)]
    pub readers: Vec<u32>,
}

/// What a script does with all keys there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// Whether it asks which there are, and not only how many.
    pub names: bool,
    /// Whether it may remove them.
    pub clears: bool,
}

/// What a shard tells the coordinator with its yes: the replies its commands will give, and the time and chance they
/// will have; and what it lends. Nothing of this changes before the outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// The time at which the commands run, and what is lent was found, in milliseconds since 1970. It stands first, so that
    /// it can be read alone.
    pub now_ms: u64,
    /// Chance for the commands.
    pub seed: u64,
    /// Their replies, with the numbers of the commands.
    pub replies: Vec<(u32, Reply)>,
    /// Keys of the part's `lends`; `None`: there is no such key.
    pub loans: Vec<(Bytes, Option<Loan>)>,
    /// The other keys, if the script is about all.
    pub rest: Rest,
    /// What the replies add up to, where they are not there themselves: in the log.
    #[serde(skip)]
    pub digest: Option<u32>,
}

impl Export {
    /// As it travels: what is not said of replies stands behind all else, if there is any of that.
    pub fn encode(mut self) -> Bytes {
        let behind = (replies::fold(&mut self.replies), self.digest);
        let front = wire::encode(&self);
        Bytes::from(if behind == Default::default() { front } else { wire::encode_after(&behind, front) })
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`wire::Malformed`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Export, wire::Malformed> {
        let (mut export, rest) = wire::decode_front::<Export>(bytes)?;
        if !rest.is_empty() {
            let (repeats, digest) = wire::decode::<(Vec<Repeat>, Option<u32>)>(rest)?;
            replies::unfold(&mut export.replies, &repeats)?;
            export.digest = digest;
        }
        Ok(export)
    }

    /// What the log keeps of it: whoever is asked for the replies runs the commands again.
    pub(crate) fn logged(self) -> Export {
        let digest = Some(digest(&self.replies));
        Export { replies: Vec::new(), digest, ..self }
    }
}

/// The value of a key, as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// Type, expiry, and the bytes of a string if they are needed.
    pub meta: Meta,
    /// Its rows, or those nearest to its ends.
    pub rows: Vec<(Bytes, Bytes)>,
}

/// Keys that no command names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// How many there are.
    pub count: u64,
    /// Which, if that is asked.
    pub names: Vec<(Bytes, Kind)>,
}

/// What the coordinator makes of all that was exported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The time of the script in milliseconds since 1970; 0 without one.
    pub now_ms: u64,
    /// What each log does.
    pub shares: BTreeMap<LogId, Share>,
    /// Replies of the script.
    pub replies: Vec<(u32, Reply)>,
}

/// What one log does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The time at which the commands run, as it was exported.
    pub now_ms: u64,
    /// Their chance, as it was exported.
    pub seed: u64,
    /// Their replies, as they were exported; nothing, once the coordinator has told what they add up to.
    pub replies: Vec<(u32, Reply)>,
    /// What the script changes here, in order.
    pub changes: Vec<Change>,
    /// What all their replies add up to, where some are not here: for all but the coordinator, which alone answers, and where nobody has to
    /// remember them.
    pub digest: Option<u32>,
}

impl Share {
    /// This share as its log is to know it.
    pub(crate) fn told(self) -> Share {
        let digest = self.digest.or_else(|| Some(digest(&self.replies)));
        Share { replies: Vec::new(), digest, ..self }
    }

    /// Without the replies whose numbers are such.
    pub(crate) fn without(&mut self, forgotten: impl Fn(u32) -> bool) {
        if self.replies.iter().any(|(number, _)| forgotten(*number)) {
            self.digest = self.digest.or_else(|| Some(digest(&self.replies)));
            self.replies.retain(|(number, _)| !forgotten(*number));
        }
    }

    /// Whether the commands had these replies when they were voted on.
    pub(crate) fn agrees(&self, replies: &[(u32, Reply)]) -> bool {
        self.digest.map_or_else(|| self.replies == replies, |told| told == digest(replies))
    }
}

pub(crate) fn digest(replies: &[(u32, Reply)]) -> u32 {
    crc32fast::hash(&wire::encode(&replies))
}

/// One change that a script makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The key's meta data are these; it is created if it is not there.
    Set(Bytes, Meta),
    /// The key is removed.
    Remove(Bytes),
    /// A row of the key has this value.
    SetRow(Bytes, Bytes, Bytes),
    /// A row of the key is removed.
    RemoveRow(Bytes, Bytes),
    /// All keys are removed.
    Clear,
}

/// Reads what a transaction that happened has decided.
///
/// # Errors
/// [`wire::Malformed`] if it is not one.
pub fn decode_decision(bytes: &[u8]) -> Result<Decision, wire::Malformed> {
    Decision::decode(bytes)
}

impl Decision {
    /// Bytes of the replies that logs give, each by itself.
    pub(crate) fn replies_bytes(&self) -> usize {
        self.shares.values().map(|share| replies::plain_bytes(&share.replies)).sum()
    }

    /// As it travels: of replies that were said before stands behind all else that they were, if there are any. Not of those of one log alone:
    /// where there is one bucket, nodes may know nothing of that.
    pub(crate) fn encode(mut self) -> Bytes {
        let repeats = |(log, share): (&LogId, &mut Share)| (*log, replies::fold(&mut share.replies));
        let mut behind: BTreeMap<LogId, Vec<Repeat>> = BTreeMap::new();
        if self.shares.len() > 1 {
            behind = self.shares.iter_mut().map(repeats).filter(|(_, repeats)| !repeats.is_empty()).collect();
        }
        let front = wire::encode(&self);
        Bytes::from(if behind.is_empty() { front } else { wire::encode_after(&behind, front) })
    }

    /// Reads one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Decision, wire::Malformed> {
        let (mut decision, rest) = wire::decode_front::<Decision>(bytes)?;
        if !rest.is_empty() {
            for (log, repeats) in wire::decode::<BTreeMap<LogId, Vec<Repeat>>>(rest)? {
                let share = decision.shares.get_mut(&log).ok_or(wire::Malformed)?;
                replies::unfold(&mut share.replies, &repeats)?;
            }
        }
        Ok(decision)
    }
}

/// A part without anything before its notes: four lists, no sight, no script.
const NOTHING_BEFORE: [u8; 6] = [0; 6];

impl Part {
    /// Whether what travels as `bytes` is about notes alone: nodes ask for that themselves, and no client does.
    pub fn is_of_notes(bytes: &[u8]) -> bool {
        let behind = bytes.strip_prefix(&NOTHING_BEFORE);
        behind.and_then(|behind| behind.first()).is_some_and(|notes| *notes > 0)
    }

    /// As it travels: notes stand behind all else, if there are any, and readers behind these.
    pub fn encode(&self) -> Bytes {
        let front = wire::encode(self);
        Bytes::from(match (&self.notes[..], &self.readers[..]) {
            ([], []) => front,
            (notes, []) => wire::encode_after(notes, front),
            (notes, readers) => wire::encode_after(&(notes, readers), front),
        })
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`wire::Malformed`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Part, wire::Malformed> {
        let (mut part, rest) = wire::decode_front::<Part>(bytes)?;
        if !rest.is_empty() {
            let (notes, rest) = wire::decode_front(rest)?;
            part.notes = notes;
            part.readers = if rest.is_empty() { Vec::new() } else { wire::decode(rest)? };
        }
        Ok(part)
    }

    /// The part of `transaction` at this shard: nothing, if it is not known here but for its name.
    pub(crate) fn of(transaction: &Transaction) -> Part {
        // One that a peer garbled does nothing, at every replica alike.
        Part::decode(&transaction.part).unwrap_or_default()
    }

    pub(crate) fn wants(&self) -> Vec<Want<Place>> {
        let mut wants = Wants::default();
        for (key, version) in &self.watched {
            wants.key(key.clone(), Mode::Read, Some(version.0));
        }
        self.versions.iter().for_each(|(_, key)| wants.key(key.clone(), Mode::Read, None));
        self.commands.iter().for_each(|(_, command)| wants.command(command));
        for (key, need) in &self.lends {
            wants.key(key.clone(), if need.writes { Mode::Write } else { Mode::Read }, None);
        }
        if let Some(Sight { clears, .. }) = self.sight {
            wants.looks_at_all = true;
            wants.changes_all |= clears;
        }
        wants.keys.extend(self.notes.iter().map(|note| {
            let mode = if note.changes() { Mode::Write } else { Mode::Read };
            Want { key: Place::Note(note.name), mode, expected: None }
        }));
        wants.done()
    }
}

/// What is locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Held to read by all but those that change everything, who hold it to write.
    Everybody,
    /// Stands for all keys: intended by all that change some, held to read by those that look at everything.
    Keyspace,
    /// A key.
    Key(Bytes),
    /// A note of the node's.
    Note(u8),
}

impl Place {
    /// The key, for explanations; empty for what is none.
    pub(crate) fn key(&self) -> Bytes {
        match self {
            Place::Key(key) => Bytes::copy_from_slice(key),
            Place::Everybody | Place::Keyspace | Place::Note(_) => Bytes::new(),
        }
    }
}

#[derive(Default)]
struct Wants {
    keys: Vec<Want<Place>>,
    writes: bool,
    looks_at_all: bool,
    changes_all: bool,
}

impl Wants {
    fn key(&mut self, key: Bytes, mode: Mode, expected: Option<u64>) {
        self.writes |= mode == Mode::Write;
        self.keys.push(Want { key: Place::Key(key), mode, expected });
    }

    fn command(&mut self, command: &Command) {
        let Some(spec) = by_code(command.code) else { return };
        let mode = if spec.effect == Effect::Write { Mode::Write } else { Mode::Read };
        if spec.spans_keyspace() {
            self.looks_at_all = true;
            self.changes_all |= mode == Mode::Write;
        }
        keys_of(spec, &command.args).into_iter().for_each(|key| self.key(key, mode, None));
    }

    fn done(mut self) -> Vec<Want<Place>> {
        let changes = if self.changes_all { Mode::Write } else { Mode::Read };
        let mut want = |key, mode| self.keys.push(Want { key, mode, expected: None });
        want(Place::Everybody, changes);
        if self.looks_at_all {
            want(Place::Keyspace, Mode::Read);
        }
        if self.writes {
            want(Place::Keyspace, Mode::Intend);
        }
        self.keys
    }
}

/// What a request wants that is done in one entry or read at once: as a transaction would want it.
pub(crate) fn wants_of(request: &Request) -> Vec<Want<Place>> {
    let mut wants = Wants::default();
    match request {
        Request::One(command) => wants.command(command),
        Request::Versions(keys) => keys.iter().for_each(|key| wants.key(key.clone(), Mode::Read, None)),
        Request::Transaction { watched, commands } => {
            watched.iter().for_each(|(key, _)| wants.key(key.clone(), Mode::Read, None));
            commands.iter().for_each(|command| wants.command(command));
        }
        Request::Collect { part, .. } => return Part::decode(part).unwrap_or_default().wants(),
    }
    wants.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_notes_are_told_from_those_of_clients() {
        assert_eq!(wire::encode(&Part::default()), NOTHING_BEFORE);
        assert!(!Part::is_of_notes(&Part::default().encode()));
        let notes = alloc::vec![Note { name: 2, on: 0, number: 1, content: Bytes::new() }];
        assert!(Part::is_of_notes(&Part { notes: notes.clone(), ..Part::default() }.encode()));
        let sight = Some(Sight::default());
        assert!(!Part::is_of_notes(&Part { notes, sight, ..Part::default() }.encode()));
        let of_readers = Part { readers: [0, 7].into(), ..Part::default() };
        assert!(!Part::is_of_notes(&of_readers.encode()));
        assert_eq!(Part::decode(&of_readers.encode()), Ok(of_readers));
    }
}
