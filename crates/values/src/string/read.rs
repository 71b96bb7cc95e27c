//! Commands that tell strings.

use bytes::Bytes;
use quorate_api::Reply;

use crate::access::get_kind;
use crate::args::integer;
use crate::table::Answer;
use crate::{Kind, Space};

pub(super) fn get(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let found = get_kind(space, &args[0], Kind::String)?;
    Ok(found.map_or(Reply::Nil, |meta| Reply::Bulk(meta.body)))
}

pub(super) fn mget(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let tell = |key: &Bytes| match space.get(key) {
        Some(meta) if meta.kind == Kind::String => Reply::Bulk(meta.body),
        _ => Reply::Nil,
    };
    Ok(Reply::Array(args.iter().map(tell).collect()))
}

pub(super) fn strlen(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let found = get_kind(space, &args[0], Kind::String)?;
    Ok(Reply::Int(found.map_or(0, |meta| meta.body.len() as i64)))
}

pub(super) fn getrange(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (start, end) = (integer(&args[1])?, integer(&args[2])?);
    let Some(meta) = get_kind(space, &args[0], Kind::String)? else { return Ok(Reply::Bulk(Bytes::new())) };
    let (start, end) = byte_range(start, end, meta.body.len());
    Ok(Reply::Bulk(meta.body.slice(start..end)))
}

/// The half-open range of bytes that GETRANGE means. Positions before the first byte mean the first byte, unless
/// both are negative and in the wrong order; so `-100 -50` is the first byte, as in Redis.
fn byte_range(start: i64, end: i64, length: usize) -> (usize, usize) {
    if start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    let clamped = |position: i64| {
        let from_end = if position < 0 { position.saturating_add(length as i64) } else { position };
        usize::try_from(from_end).unwrap_or(0)
    };
    let start = clamped(start);
    let end = clamped(end).saturating_add(1).min(length);
    if start >= end { (0, 0) } else { (start, end) }
}
