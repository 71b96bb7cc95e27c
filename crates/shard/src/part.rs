//! What a transaction over several shards does at one of them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Reply, Request, Version};
use quorate_commit::locks::{Mode, Want};
use quorate_commit::{LogId, Transaction};
use quorate_kernel::wire;
use quorate_values::{Effect, by_code, keys_of};
use serde::{Deserialize, Serialize};

/// The commands of a transaction that are about one shard's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Keys of this shard with the versions they had when they were watched.
    pub watched: Vec<(Bytes, Version)>,
    /// Keys whose versions are asked for, each with a number that the answer carries.
    pub versions: Vec<(u32, Bytes)>,
    /// What runs here, in order, each with a number that its reply carries.
    pub commands: Vec<(u32, Command)>,
}

/// What a shard tells the coordinator with its yes: the replies its commands will give, and the time and chance they
/// will have. Nothing they look at changes before the outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// The time at which the commands run.
    pub now_ms: u64,
    /// Their chance.
    pub seed: u64,
    /// Their replies, with the numbers of the commands.
    pub replies: Vec<(u32, Reply)>,
}

/// What the coordinator makes of all that was exported: by log, as it came.
pub type Decision = BTreeMap<LogId, Export>;

/// Reads what a transaction that happened has decided.
///
/// # Errors
/// [`wire::Malformed`] if it is not one.
pub fn decode_decision(bytes: &[u8]) -> Result<Decision, wire::Malformed> {
    wire::decode(bytes)
}

impl Part {
    /// As it travels.
    pub fn encode(&self) -> Bytes {
        Bytes::from(wire::encode(self))
    }

    /// The part of `transaction` at this shard: nothing, if it is not known here but for its name.
    pub(crate) fn of(transaction: &Transaction) -> Part {
        // One that a peer garbled does nothing, at every replica alike.
        wire::decode(&transaction.part).unwrap_or_default()
    }

    pub(crate) fn wants(&self) -> Vec<Want<Place>> {
        let mut wants = Wants::default();
        for (key, version) in &self.watched {
            wants.key(key.clone(), Mode::Read, Some(version.0));
        }
        self.versions.iter().for_each(|(_, key)| wants.key(key.clone(), Mode::Read, None));
        self.commands.iter().for_each(|(_, command)| wants.command(command));
        wants.done()
    }
}

/// What is locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Held to read by all but those that change everything, who hold it to write.
    Everybody,
    /// Held to read by all that change something, and to write by those that look at everything.
    Writers,
    /// A key.
    Key(Bytes),
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
        let want = |key, writes| {
            let mode = if writes { Mode::Write } else { Mode::Read };
            Want { key, mode, expected: None }
        };
        self.keys.push(want(Place::Everybody, self.changes_all));
        if self.writes || self.looks_at_all {
            self.keys.push(want(Place::Writers, self.looks_at_all));
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
    }
    wants.done()
}
