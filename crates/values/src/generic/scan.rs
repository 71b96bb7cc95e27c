//! Commands over the whole keyspace.

use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};

use crate::access::kind_name;
use crate::args::{error, integer, is, syntax_error};
use crate::glob::matches;
use crate::table::Answer;
use crate::{Kind, Space};

/// How many keys SCAN looks at if not told.
const SCAN_KEYS: i64 = 10;
/// How many keys SCAN looks at at most, whatever it is told, and KEYS at a time.
const STEP_KEYS_MAX: usize = 4_096;
/// Among so many keys after a random position RANDOMKEY draws: the more, the less it favours keys after a gap.
const RANDOM_KEYS: usize = 16;

/// A pattern of KEYS and SCAN. A single star is no pattern at all, so it matches the empty key as well.
fn fits(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, key)
}

/// A cursor: the ring position to go on from, 0 at the start and at the end. Redis reads it with C's `strtoul`,
/// hence the empty text and the signs.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, ErrorReply> {
    let invalid = || error("ERR invalid cursor");
    let (negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    let digits = core::str::from_utf8(digits).map_err(|_| invalid())?;
    let value: u64 = digits.parse().map_err(|_| invalid())?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

struct ScanOptions<'a> {
    keys_max: usize,
    pattern: &'a [u8],
    kind: Option<&'a Bytes>,
}

fn scan_options(args: &[Bytes]) -> Result<ScanOptions<'_>, ErrorReply> {
    let mut count = SCAN_KEYS;
    let mut options = ScanOptions { keys_max: 0, pattern: b"*", kind: None };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(syntax_error)?;
        if is(word, "count") {
            count = integer(value)?;
            if count < 1 {
                return Err(syntax_error());
            }
        } else if is(word, "match") {
            options.pattern = value;
        } else if is(word, "type") {
            options.kind = Some(value);
        } else {
            return Err(syntax_error());
        }
    }
    options.keys_max = usize::try_from(count).unwrap_or(usize::MAX).min(STEP_KEYS_MAX);
    Ok(options)
}

pub(super) fn scan(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let from = cursor(&args[0])?;
    let options = scan_options(&args[1..])?;
    let (found, next) = space.keys(from, options.keys_max);
    let wanted = |key: &Bytes, kind: Kind| {
        fits(options.pattern, key) && options.kind.is_none_or(|name| is(name, kind_name(kind)))
    };
    let keys = found.into_iter().filter(|(key, kind)| wanted(key, *kind)).map(|(key, _)| Reply::Bulk(key));
    let cursor = Reply::bulk(format!("{}", next.unwrap_or(0)));
    Ok(Reply::Array(Vec::from([cursor, Reply::Array(keys.collect())])))
}

pub(super) fn keys(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let mut keys = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let (found, position) = space.keys(from, STEP_KEYS_MAX);
        assert!(position.is_none_or(|position| position > from), "the ring ends");
        keys.extend(
            found.into_iter().filter(|(key, _)| fits(&args[0], key)).map(|(key, _)| Reply::Bulk(key)),
        );
        next = position;
    }
    Ok(Reply::Array(keys))
}

pub(super) fn randomkey(space: &mut dyn Space, _args: &[Bytes]) -> Answer {
    let position = space.random();
    let draw = space.random();
    let (mut found, _) = space.keys(position, RANDOM_KEYS);
    if found.is_empty() {
        found = space.keys(0, RANDOM_KEYS).0;
    }
    if found.is_empty() {
        return Ok(Reply::Nil);
    }
    let drawn = (draw % found.len() as u64) as usize;
    Ok(Reply::Bulk(found.swap_remove(drawn).0))
}

pub(super) fn dbsize(space: &mut dyn Space, _args: &[Bytes]) -> Answer {
    Ok(Reply::Int(space.key_count() as i64))
}

pub(super) fn flush(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    match args {
        [] => {}
        [mode] if is(mode, "sync") || is(mode, "async") => {}
        _ => return Err(syntax_error()),
    }
    space.clear();
    Ok(Reply::Ok)
}
