//! Requests on their way into the log, and the log's entries.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, CommandCode, Hold, Request, SessionId, Version};
use quorate_commit::Entry;
use quorate_kernel::{NodeId, wire};
use quorate_replog::Index;
use serde::{Deserialize, Serialize};

use crate::notes::Note;

/// What a batch says before its requests: all that a primary needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchHeader {
    /// The node that took the requests from its clients, and wants the answers.
    pub origin: NodeId,
    /// The origin's session with the log.
    pub session: SessionId,
    /// Number of the first request; the others follow without gaps.
    pub first_seq: u64,
    /// Number of requests.
    pub count: u64,
    /// The origin has the answers of all requests before this number.
    pub settled_before: u64,
    /// An entry that the log had when the session began: tells a session that is new from one that was forgotten.
    pub since: Index,
}

impl BatchHeader {
    /// Number of the request behind the last one.
    pub fn end_seq(&self) -> u64 {
        self.first_seq.saturating_add(self.count)
    }
}

/// Encodes a batch: header, then the requests, each encoded.
pub fn encode_batch<'a>(header: &BatchHeader, requests: impl IntoIterator<Item = &'a Request>) -> Bytes {
    let mut buffer = wire::encode(header);
    for request in requests {
        buffer = wire::encode_after(request, buffer);
    }
    Bytes::from(buffer)
}

/// Reads the header of a batch.
///
/// # Errors
/// [`wire::Malformed`], also if it claims no requests or more than its bytes could hold.
pub fn batch_header(batch: &[u8]) -> Result<BatchHeader, wire::Malformed> {
    let (header, rest) = wire::decode_front::<BatchHeader>(batch)?;
    // A request is never shorter than two bytes.
    let fits = header.count > 0 && header.count <= rest.len() as u64 && header.first_seq > 0;
    if fits { Ok(header) } else { Err(wire::Malformed) }
}

/// Reads a whole batch.
///
/// # Errors
/// [`wire::Malformed`].
pub fn decode_batch(batch: &Bytes) -> Result<(BatchHeader, Vec<Request>), wire::Malformed> {
    let (header, mut rest) = wire::decode_front::<BatchHeader>(batch)?;
    let mut requests = Vec::new();
    for _ in 0..header.count {
        let (request, behind) = wire::decode_front::<RequestRef<'_>>(rest)?;
        requests.push(request.shared(batch));
        rest = behind;
    }
    if rest.is_empty() { Ok((header, requests)) } else { Err(wire::Malformed) }
}

/// A [`Request`] as it lies in a batch: decoded so, its arguments share the memory of the batch.
#[derive(Deserialize)]
enum RequestRef<'a> {
    One(#[serde(borrow)] CommandRef<'a>),
    Versions(#[serde(borrow)] Vec<&'a [u8]>),
    Transaction {
        #[serde(borrow)]
        watched: Vec<(&'a [u8], Version)>,
        #[serde(borrow)]
        commands: Vec<CommandRef<'a>>,
    },
    Collect {
        #[serde(borrow)]
        part: &'a [u8],
        known: Vec<u64>,
        hold: Option<Box<Hold>>,
    },
}

#[derive(Deserialize)]
struct CommandRef<'a> {
    code: CommandCode,
    #[serde(borrow)]
    args: Vec<&'a [u8]>,
}

impl CommandRef<'_> {
    fn shared(self, batch: &Bytes) -> Command {
        let args = self.args.into_iter().map(|arg| batch.slice_ref(arg)).collect();
        Command { code: self.code, args }
    }
}

impl RequestRef<'_> {
    fn shared(self, batch: &Bytes) -> Request {
        match self {
            RequestRef::One(command) => Request::One(command.shared(batch)),
            RequestRef::Versions(keys) => {
                Request::Versions(keys.into_iter().map(|key| batch.slice_ref(key)).collect())
            }
            RequestRef::Transaction { watched, commands } => Request::Transaction {
                watched: watched.into_iter().map(|(key, version)| (batch.slice_ref(key), version)).collect(),
                commands: commands.into_iter().map(|command| command.shared(batch)).collect(),
            },
            RequestRef::Collect { part, known, hold } => {
                Request::Collect { part: batch.slice_ref(part), known, hold }
            }
        }
    }
}

/// A command of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Payload {
    /// The primary's wall clock; logged time is the largest of these so far.
    pub(crate) now_ms: u64,
    /// The primary's chance for the commands.
    pub(crate) seed: u64,
    /// Encoded batches, as they came from their origins.
    pub(crate) batches: Vec<Bytes>,
    /// What is logged of transactions over several shards; behind the batches.
    pub(crate) commits: Vec<Entry>,
    /// What the node notes; behind all else.
    pub(crate) notes: Vec<Note>,
}

/// The front of a [`Payload`] as it lies in an entry; behind it stand the entries of transactions, if there are any, or
/// notes, and behind these the notes, if there are any.
#[derive(Serialize, Deserialize)]
struct PayloadRef<'a> {
    now_ms: u64,
    seed: u64,
    #[serde(borrow)]
    batches: Vec<&'a [u8]>,
}

impl Payload {
    /// Reads the payload of an entry, whose memory it then shares.
    pub(crate) fn decode(command: &Bytes) -> Result<Payload, wire::Malformed> {
        let (PayloadRef { now_ms, seed, batches }, rest) = wire::decode_front(command)?;
        let batches = batches.into_iter().map(|batch| command.slice_ref(batch)).collect();
        let (commits, rest) = if rest.is_empty() { (Vec::new(), rest) } else { wire::decode_front(rest)? };
        let notes = if rest.is_empty() { Vec::new() } else { wire::decode(rest)? };
        Ok(Payload { now_ms, seed, batches, commits, notes })
    }

    /// The payload as an entry's command.
    pub(crate) fn encode(&self) -> Bytes {
        let Payload { now_ms, seed, .. } = *self;
        let batches = self.batches.iter().map(|batch| &batch[..]).collect();
        let mut bytes = wire::encode(&PayloadRef { now_ms, seed, batches });
        if !self.commits.is_empty() || !self.notes.is_empty() {
            bytes = wire::encode_after(&self.commits, bytes);
        }
        if !self.notes.is_empty() {
            bytes = wire::encode_after(&self.notes, bytes);
        }
        Bytes::from(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (BatchHeader, Vec<Request>) {
        let header = BatchHeader {
            origin: NodeId(1),
            session: SessionId(7),
            first_seq: 3,
            count: 2,
            settled_before: 2,
            since: 9,
        };
        let command = |arg: &'static str| {
            Request::One(Command {
                code: CommandCode(1),
                args: alloc::vec![Bytes::from_static(arg.as_bytes())],
            })
        };
        (header, alloc::vec![command("a"), command("b")])
    }

    #[test]
    fn batches_come_back() {
        let (header, requests) = sample();
        let bytes = encode_batch(&header, &requests);
        assert_eq!(batch_header(&bytes), Ok(header));
        assert_eq!(decode_batch(&bytes), Ok((header, requests)));
        assert_eq!(header.end_seq(), 5);
        assert_eq!(
            bytes[..],
            [1, 7, 3, 2, 2, 9, 0, 1, 1, 1, b'a', 0, 1, 1, 1, b'b'],
            "the format of version 1"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let (header, requests) = sample();
        let bytes = encode_batch(&header, &requests);
        for end in 0..bytes.len() {
            assert!(decode_batch(&bytes.slice(..end)).is_err(), "cut at {end}");
        }
        let greedy = BatchHeader { count: u64::MAX, ..header };
        assert!(batch_header(&encode_batch(&greedy, &requests)).is_err());
        let empty = BatchHeader { count: 0, ..header };
        assert!(batch_header(&encode_batch(&empty, &requests)).is_err());
    }
}
