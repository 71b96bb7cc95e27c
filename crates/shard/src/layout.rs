//! How the rows of a shard lie in the area that its log uses.
//!
//! | key behind the area's prefix | row |
//! |---|---|
//! | keyspace number (4 bytes), `k`, position (8), key | a key's header and body |
//! | keyspace number (4), `d`, collection (8), row | an element of a collection |
//! | keyspace number (4), `e`, milliseconds (8), key | when a key expires |
//! | keyspace number (4), `g`, collection (8) | a dead collection whose elements are still there |
//! | 255 four times, `c` | counters ([`State`]) |
//! | 255 four times, `d`, bucket (2) | the version of the newest removal among the keys of a bucket |
//! | 255 four times, `n`, name (1) | a note of the node's |
//! | 255 four times, `s`, session (8) | what is known of a session |
//! | 255 four times, `t`, name | a row of the ledger of transactions |
//!
//! FLUSHALL raises the keyspace number; what lies under lower numbers is garbage and is removed bit by bit.

use alloc::vec::Vec;
use bytes::{Buf as _, BufMut, Bytes};
use quorate_kernel::wire;
use quorate_values::Kind;
use serde::{Deserialize, Serialize};

/// Bytes of an area's prefix.
pub(crate) const AREA_BYTES: usize = 5;
/// Bytes before the key in the key of a header row.
pub(crate) const HEADER_KEY_BYTES: usize = AREA_BYTES + 4 + 1 + 8;

const SHARED: [u8; 4] = [u8::MAX; 4];

/// Prefix of the rows of the log's area.
pub(crate) type Area = [u8; AREA_BYTES];

/// The counters of a shard, as of the newest applied entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// Logged time, in milliseconds since 1970; never falls.
    pub now_ms: u64,
    /// The newest version given to a key, also the newest collection number.
    pub versions: u64,
    /// Number of keys, those included that have expired and are not yet removed.
    pub keys: u64,
    /// Number of the keyspace in use; FLUSHALL begins the next one.
    pub keyspace: u32,
    /// Dead collections whose elements are still there.
    pub dead_collections: u64,
    /// Keys with an expiry time.
    pub expiring: u64,
    /// No key expires before this; `None`: none does.
    pub next_expiry_ms: Option<u64>,
    /// The oldest keyspace of which rows may be left.
    pub keyspace_oldest: u32,
    /// The version of the newest FLUSHALL.
    pub cleared: u64,
}

/// What stands before a value's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) expire_ms: Option<u64>,
    /// Number of its elements' collection; 0: none.
    pub(crate) collection: u64,
}

pub(crate) fn encode_value(header: &Header, body: &[u8]) -> Bytes {
    let mut buffer = wire::encode_after(header, Vec::with_capacity(24 + body.len()));
    buffer.extend_from_slice(body);
    Bytes::from(buffer)
}

/// # Panics
/// If the row is not one of ours: rows come back as they were written or the store stops the process.
pub(crate) fn decode_value(mut value: Bytes) -> (Header, Bytes) {
    match wire::decode_front(&value) {
        Ok((header, rest)) => {
            value.advance(value.len() - rest.len());
            (header, value)
        }
        Err(error) => panic!("the row of a key: {error}"),
    }
}

/// Builds row keys of one keyspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    area: Area,
    keyspace: u32,
}

impl Keys {
    pub(crate) fn new(area: Area, keyspace: u32) -> Self {
        Keys { area, keyspace }
    }

    fn write(self, tag: u8, number: u64, tail: &[u8], key: &mut impl BufMut) {
        key.put_slice(&self.area);
        key.put_u32(self.keyspace);
        key.put_u8(tag);
        key.put_u64(number);
        key.put_slice(tail);
    }

    fn start(self, tag: u8, number: u64, tail: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(HEADER_KEY_BYTES + tail.len());
        self.write(tag, number, tail, &mut key);
        key
    }

    /// As [`Keys::header`], into a buffer.
    pub(crate) fn write_header(self, position: u64, key: &[u8], buffer: &mut impl BufMut) {
        self.write(b'k', position, key, buffer);
    }

    pub(crate) fn header(self, position: u64, key: &[u8]) -> Vec<u8> {
        self.start(b'k', position, key)
    }

    pub(crate) fn headers_end(self) -> Vec<u8> {
        self.start(b'k' + 1, 0, &[])
    }

    pub(crate) fn element(self, collection: u64, row: &[u8]) -> Vec<u8> {
        self.start(b'd', collection, row)
    }

    pub(crate) fn expiry(self, expire_ms: u64, key: &[u8]) -> Vec<u8> {
        self.start(b'e', expire_ms, key)
    }

    pub(crate) fn expiries_end(self) -> Vec<u8> {
        self.start(b'e' + 1, 0, &[])
    }

    pub(crate) fn dead(self, collection: u64) -> Vec<u8> {
        self.start(b'g', collection, &[])
    }

    pub(crate) fn dead_end(self) -> Vec<u8> {
        self.start(b'g' + 1, 0, &[])
    }

    /// First key of all rows of this keyspace, and thereby the end of those before it.
    pub(crate) fn keyspace_start(self) -> Vec<u8> {
        [&self.area[..], &self.keyspace.to_be_bytes()].concat()
    }
}

pub(crate) fn counters_key(area: Area) -> Bytes {
    Bytes::from([&area[..], &SHARED, b"c"].concat())
}

/// Where the newest removal among the keys of this position's bucket is noted: what WATCH goes by for a key that is not
/// there. Buckets bound what is remembered of keys that are gone; a removal elsewhere in the bucket can make an EXEC
/// answer nil without need, and never lets one through.
pub(crate) fn removal_key(area: Area, position: u64) -> Bytes {
    let [.., high, low] = position.to_be_bytes();
    Bytes::from([&area[..], &SHARED, b"d", &[high, low]].concat())
}

pub(crate) fn note_key(area: Area, name: u8) -> Bytes {
    Bytes::from([&area[..], &SHARED, b"n", &[name]].concat())
}

/// The first key of the notes' rows, and the first behind them.
pub(crate) fn notes_range(area: Area) -> (Vec<u8>, Vec<u8>) {
    ([&area[..], &SHARED, b"n"].concat(), [&area[..], &SHARED, b"o"].concat())
}

pub(crate) fn session_key(area: Area, session: u64) -> Bytes {
    Bytes::from([&area[..], &SHARED, b"s", &session.to_be_bytes()].concat())
}

/// The first key of the session rows, and the first behind them.
pub(crate) fn sessions_range(area: Area) -> (Vec<u8>, Vec<u8>) {
    ([&area[..], &SHARED, b"s"].concat(), [&area[..], &SHARED, b"t"].concat())
}

pub(crate) fn ledger_key(area: Area, name: &[u8]) -> Bytes {
    Bytes::from([&area[..], &SHARED, b"t", name].concat())
}

/// The first key of the ledger's rows, and the first behind them.
pub(crate) fn ledger_range(area: Area) -> (Vec<u8>, Vec<u8>) {
    ([&area[..], &SHARED, b"t"].concat(), [&area[..], &SHARED, b"u"].concat())
}

/// The name of a row of the ledger.
pub(crate) fn ledger_name(row_key: &[u8]) -> &[u8] {
    row_key.get(AREA_BYTES + 5..).unwrap_or_default()
}

/// The number at the end of a row's fixed part: the session of a session row, the collection of a garbage row, the
/// time of an expiry row.
pub(crate) fn number_in(row_key: &[u8]) -> u64 {
    let number = row_key.get(AREA_BYTES + 5..).and_then(|rest| rest.first_chunk::<8>());
    match number {
        Some(number) => u64::from_be_bytes(*number),
        None => panic!("a row's key is too short: {row_key:?}"),
    }
}
