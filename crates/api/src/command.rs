//! What a client asks for, once the doors have understood it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The number of a data command on the wire and in the log. Never reused; the table is in `quorate-values`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandCode(pub u16);

/// A data command with its arguments (the name is not among them).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Which command.
    pub code: CommandCode,
    /// Its arguments as the client sent them; the number has been checked against the table.
    pub args: Vec<Bytes>,
}

/// The version of a key: grows with every change of the key, also over deletion and re-creation. A key that is not
/// there has one as well: it changes when the key comes and goes. 0: never there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

/// One client of a log, usually one lifetime of one node that takes requests for many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// Names one request for ever; retries carry the same one, and a log applies it at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Whose request.
    pub session: SessionId,
    /// Counts the session's requests from 1.
    pub seq: u64,
}

/// A name that a client itself gave to a request. Asked for again under the same name, at any node, the request happens at
/// most once, and is answered with what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// When the client first wanted it, in milliseconds since 1970 by its own clock; part of the name. The older of two requests
    /// that are in each other's way goes first; nothing else depends on it.
    pub age_ms: u64,
    /// Names one life of one client: drawn by chance, never used by anybody else.
    pub origin: u64,
    /// Counts the client's requests from 1.
    pub sequence: u64,
    /// The client asks for nothing again that it numbered below this; at most `sequence`.
    pub settled_before: u64,
}

/// One thing that happens at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// One command.
    One(Command),
    /// The versions of some keys, for WATCH. Answered with an array of integers in the order of the keys.
    Versions(Vec<Bytes>),
    /// EXEC: all commands as from one instant, if every watched key still has its version; otherwise nothing,
    /// answered with [`crate::Reply::NilArray`].
    Transaction {
        /// Keys with the versions they had when they were watched.
        watched: Vec<(Bytes, Version)>,
        /// What to run, in order; answered with an array of their replies.
        commands: Vec<Command>,
    },
    /// Nodes ask this of each other, never clients: a shard's part of a request over several shards that changes nothing,
    /// unless all of it is as it was. The part and the answer are the shard's own.
    Collect {
        /// The part, encoded.
        part: Bytes,
        /// How what it is about stood when it was asked last; empty: it was not.
        known: Vec<u64>,
        /// What others are to leave as it is meanwhile.
        hold: Option<Box<Hold>>,
    },
}

/// A wish that nobody changes what a [`Request::Collect`] is about until it is asked again. It is not relied upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// By chance, and the same until it ends.
    pub name: u64,
    /// When the request began, in milliseconds since 1970: whoever began earlier goes first.
    pub age: u64,
    /// For so many milliseconds from the answer on; 0: it ends.
    pub ms: u32,
}
