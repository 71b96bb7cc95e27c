//! What a command sees of the keyspace.

use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The type of a value. Numbers are on disk: never change or reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A string of bytes, kept whole in [`Meta::body`].
    String,
    /// A list: [`Meta::body`] holds its ends, each element is a row.
    List,
}

/// What is known of a key apart from its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The type of the value.
    pub kind: Kind,
    /// When it expires, in milliseconds since 1970; `None`: never.
    pub expire_ms: Option<u64>,
    /// The value itself, or whatever its type keeps about its rows.
    pub body: Bytes,
}

/// The keyspace as one command, in one instant, sees and changes it.
///
/// Expired keys do not exist here. Collections keep their elements as *rows* under the key, ordered by the row's
/// bytes, so that a change of one element does not rewrite the others. Changes become visible to later calls at
/// once; they all take effect together, and every changed key gets a new version by itself.
pub trait Space {
    /// Logged time, in milliseconds since 1970. Never runs backwards.
    fn now_ms(&self) -> u64;

    /// Random bits that the primary drew for this command and logged. Each call gives the next ones.
    fn random(&mut self) -> u64;

    /// The key's meta data; `None`: no such key.
    fn get(&mut self, key: &[u8]) -> Option<Meta>;

    /// Creates the key or replaces its meta data. Rows stay as they are; if the key must lose them, or changes its
    /// kind, [`Space::remove`] it first.
    fn set(&mut self, key: &[u8], meta: Meta);

    /// Removes the key with all its rows, in constant time; says whether it existed.
    fn remove(&mut self, key: &[u8]) -> bool;

    /// A row of an existing key.
    fn row(&mut self, key: &[u8], row: &[u8]) -> Option<Bytes>;

    /// Sets a row of an existing key.
    fn set_row(&mut self, key: &[u8], row: &[u8], value: Bytes);

    /// Removes a row of an existing key.
    fn remove_row(&mut self, key: &[u8], row: &[u8]);

    /// Rows of an existing key from `start` (included) to `end` (excluded; `None`: to the last), in order, or in
    /// descending order if `reverse`; at most `rows_max`.
    fn rows(
        &mut self,
        key: &[u8],
        start: &[u8],
        end: Option<&[u8]>,
        reverse: bool,
        rows_max: usize,
    ) -> Vec<(Bytes, Bytes)>;

    /// Keys from ring position `from` on (see `quorate_api::position_of`), in order of position, with their kinds;
    /// at most about `keys_max` (all keys of one position come together), and the position to go on from; `None`
    /// at the end of the ring.
    fn keys(&mut self, from: u64, keys_max: usize) -> (Vec<(Bytes, Kind)>, Option<u64>);

    /// Number of keys.
    fn key_count(&mut self) -> u64;

    /// Removes all keys, in constant time.
    fn clear(&mut self);
}
