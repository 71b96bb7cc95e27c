//! What commands of several types do with a key.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::ErrorReply;

use crate::args::wrong_type;
use crate::{Kind, Meta, Space};

/// At most so many rows are read in one go, so that no step needs memory for a whole collection.
pub(crate) const ROWS_MAX: usize = 256;

/// The meta data of a key that may only be of this kind.
pub(crate) fn get_kind(space: &mut dyn Space, key: &[u8], kind: Kind) -> Result<Option<Meta>, ErrorReply> {
    match space.get(key) {
        Some(meta) if meta.kind != kind => Err(wrong_type()),
        found => Ok(found),
    }
}

/// Makes the key a string of this value and expiry, whatever `old` it was. One that would expire at once is
/// removed instead.
pub(crate) fn put_string(
    space: &mut dyn Space,
    key: &[u8],
    old: Option<&Meta>,
    body: Bytes,
    expire_ms: Option<u64>,
) {
    let expired = expire_ms.is_some_and(|expire_ms| expire_ms <= space.now_ms());
    if expired || old.is_some_and(|old| old.kind != Kind::String) {
        space.remove(key);
    }
    if !expired {
        space.set(key, Meta { kind: Kind::String, expire_ms, body });
    }
}

/// Makes `to`, which does not exist, a copy of `from` with its rows and its expiry.
pub(crate) fn copy_key(space: &mut dyn Space, from: &[u8], to: &[u8], meta: Meta) {
    let kind = meta.kind;
    space.set(to, meta);
    if kind == Kind::String {
        return;
    }
    let mut start = Vec::new();
    loop {
        let rows = space.rows(from, &start, None, false, ROWS_MAX);
        let Some((last, _)) = rows.last() else { return };
        start = last.to_vec();
        start.push(0);
        for (row, value) in rows {
            space.set_row(to, &row, value);
        }
    }
}

/// The kind in the word that TYPE answers.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::List => "list",
    }
}
