//! Commands that set strings and their expiry, but do not count.

use alloc::format;
use bytes::{Bytes, BytesMut};
use quorate_api::{ErrorReply, Reply};

use crate::access::{get_kind, put_string};
use crate::args::{check_length, error, integer, is, syntax_error, wrong_arity};
use crate::table::Answer;
use crate::{Kind, Meta, Space};

/// An expiry as the client wrote it: seconds or milliseconds, from now or since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Seconds,
    Milliseconds,
    AtSeconds,
    AtMilliseconds,
}

/// What is to become of the expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lifetime {
    /// Nothing was said.
    Unsaid,
    /// Stays as it is.
    Keep,
    /// Goes.
    Persist,
    /// Becomes this.
    Until(Expiry, Bytes),
}

impl Lifetime {
    /// The lifetime after an option; `None` if it contradicts what was said before.
    fn with(&self, option: Lifetime) -> Option<Lifetime> {
        let agrees = match (self, &option) {
            (Lifetime::Unsaid, _) => true,
            // The same option may be given twice; the later one counts.
            (Lifetime::Until(old, _), Lifetime::Until(new, _)) => old == new,
            (old, new) => old == new,
        };
        agrees.then_some(option)
    }

    /// When the key expires, in milliseconds since 1970.
    fn expire_ms(&self, old: Option<u64>, now_ms: u64, command: &str) -> Result<Option<u64>, ErrorReply> {
        match self {
            Lifetime::Keep => Ok(old),
            Lifetime::Unsaid | Lifetime::Persist => Ok(None),
            Lifetime::Until(unit, value) => {
                let invalid = || error(format!("ERR invalid expire time in '{command}' command"));
                let value = integer(value)?;
                let factor = match unit {
                    Expiry::Seconds | Expiry::AtSeconds => 1_000,
                    Expiry::Milliseconds | Expiry::AtMilliseconds => 1,
                };
                let base_ms = match unit {
                    Expiry::Seconds | Expiry::Milliseconds => i64::try_from(now_ms).unwrap_or(i64::MAX),
                    Expiry::AtSeconds | Expiry::AtMilliseconds => 0,
                };
                let expire_ms = value
                    .checked_mul(factor)
                    .filter(|_| value > 0)
                    .and_then(|value_ms| value_ms.checked_add(base_ms))
                    .ok_or_else(invalid)?;
                Ok(Some(expire_ms.unsigned_abs()))
            }
        }
    }
}

/// The unit that an option word names.
fn unit_of(word: &[u8]) -> Option<Expiry> {
    const UNITS: [(&str, Expiry); 4] = [
        ("ex", Expiry::Seconds),
        ("px", Expiry::Milliseconds),
        ("exat", Expiry::AtSeconds),
        ("pxat", Expiry::AtMilliseconds),
    ];
    UNITS.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
}

/// When SET writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

struct SetOptions {
    lifetime: Lifetime,
    condition: Condition,
    tells_old: bool,
}

fn set_options(args: &[Bytes]) -> Result<SetOptions, ErrorReply> {
    let mut options =
        SetOptions { lifetime: Lifetime::Unsaid, condition: Condition::Always, tells_old: false };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if is(word, "nx") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if is(word, "xx") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if is(word, "get") {
            options.tells_old = true;
        } else {
            let said = match unit_of(word) {
                Some(unit) => Lifetime::Until(unit, words.next().ok_or_else(syntax_error)?.clone()),
                None if is(word, "keepttl") => Lifetime::Keep,
                None => return Err(syntax_error()),
            };
            options.lifetime = options.lifetime.with(said).ok_or_else(syntax_error)?;
        }
    }
    Ok(options)
}

pub(super) fn set(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (key, value) = (&args[0], &args[1]);
    let options = set_options(&args[2..])?;
    // A wrong expiry is told even if the condition does not hold.
    let now_ms = space.now_ms();
    let mut expire_ms = options.lifetime.expire_ms(None, now_ms, "set")?;
    let old = if options.tells_old { get_kind(space, key, Kind::String)? } else { space.get(key) };
    if options.lifetime == Lifetime::Keep {
        expire_ms = old.as_ref().and_then(|old| old.expire_ms);
    }
    let holds = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => old.is_none(),
        Condition::IfPresent => old.is_some(),
    };
    if holds {
        put_string(space, key, old.as_ref(), value.clone(), expire_ms);
    }
    Ok(match old {
        Some(old) if options.tells_old => Reply::Bulk(old.body),
        None if options.tells_old => Reply::Nil,
        _ if holds => Reply::Ok,
        _ => Reply::Nil,
    })
}

pub(super) fn setnx(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    if space.get(&args[0]).is_some() {
        return Ok(Reply::Int(0));
    }
    put_string(space, &args[0], None, args[1].clone(), None);
    Ok(Reply::Int(1))
}

pub(super) fn setex(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    set_until(space, args, Expiry::Seconds, "setex")
}

pub(super) fn psetex(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    set_until(space, args, Expiry::Milliseconds, "psetex")
}

fn set_until(space: &mut dyn Space, args: &[Bytes], unit: Expiry, command: &str) -> Answer {
    let lifetime = Lifetime::Until(unit, args[1].clone());
    let expire_ms = lifetime.expire_ms(None, space.now_ms(), command)?;
    let old = space.get(&args[0]);
    put_string(space, &args[0], old.as_ref(), args[2].clone(), expire_ms);
    Ok(Reply::Ok)
}

pub(super) fn getex(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let mut lifetime = Lifetime::Unsaid;
    let mut words = args[1..].iter();
    while let Some(word) = words.next() {
        let said = match unit_of(word) {
            Some(unit) => Lifetime::Until(unit, words.next().ok_or_else(syntax_error)?.clone()),
            None if is(word, "persist") => Lifetime::Persist,
            None => return Err(syntax_error()),
        };
        lifetime = lifetime.with(said).ok_or_else(syntax_error)?;
    }
    let Some(old) = get_kind(space, &args[0], Kind::String)? else { return Ok(Reply::Nil) };
    let expire_ms = lifetime.expire_ms(None, space.now_ms(), "getex")?;
    let body = old.body.clone();
    let changes = match lifetime {
        Lifetime::Unsaid | Lifetime::Keep => false,
        Lifetime::Persist => old.expire_ms.is_some(),
        Lifetime::Until(..) => true,
    };
    if changes {
        put_string(space, &args[0], Some(&old), body.clone(), expire_ms);
    }
    Ok(Reply::Bulk(body))
}

pub(super) fn getdel(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let Some(old) = get_kind(space, &args[0], Kind::String)? else { return Ok(Reply::Nil) };
    space.remove(&args[0]);
    Ok(Reply::Bulk(old.body))
}

pub(super) fn getset(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let old = get_kind(space, &args[0], Kind::String)?;
    put_string(space, &args[0], old.as_ref(), args[1].clone(), None);
    Ok(old.map_or(Reply::Nil, |old| Reply::Bulk(old.body)))
}

pub(super) fn mset(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    put_pairs(space, args);
    Ok(Reply::Ok)
}

pub(super) fn msetnx(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    if args.iter().step_by(2).any(|key| space.get(key).is_some()) {
        return Ok(Reply::Int(0));
    }
    put_pairs(space, args);
    Ok(Reply::Int(1))
}

fn put_pairs(space: &mut dyn Space, args: &[Bytes]) {
    for pair in args.chunks_exact(2) {
        let old = space.get(&pair[0]);
        put_string(space, &pair[0], old.as_ref(), pair[1].clone(), None);
    }
}

/// Gives the key a new body and leaves its expiry.
pub(super) fn put_body(space: &mut dyn Space, key: &[u8], old: Option<Meta>, body: Bytes) {
    let expire_ms = old.and_then(|old| old.expire_ms);
    space.set(key, Meta { kind: Kind::String, expire_ms, body });
}

pub(super) fn append(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let old = get_kind(space, &args[0], Kind::String)?;
    let added = &args[1];
    let body = match &old {
        None => added.clone(),
        Some(old) => {
            check_length(old.body.len() as i64, added.len())?;
            let mut body = BytesMut::with_capacity(old.body.len() + added.len());
            body.extend_from_slice(&old.body);
            body.extend_from_slice(added);
            body.freeze()
        }
    };
    let length = body.len();
    put_body(space, &args[0], old, body);
    Ok(Reply::Int(length as i64))
}

pub(super) fn setrange(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let offset = integer(&args[1])?;
    let Ok(start) = usize::try_from(offset) else { return Err(error("ERR offset is out of range")) };
    let old = get_kind(space, &args[0], Kind::String)?;
    let old_body = old.as_ref().map(|old| old.body.clone()).unwrap_or_default();
    let value = &args[2];
    if value.is_empty() {
        return Ok(Reply::Int(old_body.len() as i64));
    }
    check_length(offset, value.len())?;
    let length = old_body.len().max(start + value.len());
    let mut body = BytesMut::with_capacity(length);
    body.extend_from_slice(&old_body);
    body.resize(length, 0);
    body[start..start + value.len()].copy_from_slice(value);
    put_body(space, &args[0], old, body.freeze());
    Ok(Reply::Int(length as i64))
}
