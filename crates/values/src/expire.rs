//! Keys that expire.

use alloc::format;
use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};

use crate::args::{error, integer, is, printable};
use crate::table::{Answer, Spec, spec};
use crate::{Meta, Space};

/// Commands 200 to 219.
pub(crate) const SPECS: [Spec; 9] = [
    spec!(200 "expire" AtLeast(3) Write ONE ["fast"] ["keyspace", "write", "fast"] "generic"
        expire, "Lets a key expire after so many seconds"),
    spec!(201 "pexpire" AtLeast(3) Write ONE ["fast"] ["keyspace", "write", "fast"] "generic"
        pexpire, "Lets a key expire after so many milliseconds"),
    spec!(202 "expireat" AtLeast(3) Write ONE ["fast"] ["keyspace", "write", "fast"] "generic"
        expireat, "Lets a key expire at a time in seconds since 1970"),
    spec!(203 "pexpireat" AtLeast(3) Write ONE ["fast"] ["keyspace", "write", "fast"] "generic"
        pexpireat, "Lets a key expire at a time in milliseconds since 1970"),
    spec!(204 "ttl" Exactly(2) Read ONE ["fast"] ["keyspace", "read", "fast"] "generic"
        ttl, "Tells in how many seconds a key expires"),
    spec!(205 "pttl" Exactly(2) Read ONE ["fast"] ["keyspace", "read", "fast"] "generic"
        pttl, "Tells in how many milliseconds a key expires"),
    spec!(206 "expiretime" Exactly(2) Read ONE ["fast"] ["keyspace", "read", "fast"] "generic"
        expiretime, "Tells when a key expires, in seconds since 1970"),
    spec!(207 "pexpiretime" Exactly(2) Read ONE ["fast"] ["keyspace", "read", "fast"] "generic"
        pexpiretime, "Tells when a key expires, in milliseconds since 1970"),
    spec!(208 "persist" Exactly(2) Write ONE ["fast"] ["keyspace", "write", "fast"] "generic"
        persist, "Lets a key no longer expire"),
];

const SECOND_MS: i64 = 1_000;

/// On what conditions the expiry changes.
#[derive(Default)]
struct Conditions {
    unless_set: bool,
    if_set: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(args: &[Bytes]) -> Result<Conditions, ErrorReply> {
        let mut conditions = Conditions::default();
        for word in args {
            if is(word, "nx") {
                conditions.unless_set = true;
            } else if is(word, "xx") {
                conditions.if_set = true;
            } else if is(word, "gt") {
                conditions.if_later = true;
            } else if is(word, "lt") {
                conditions.if_earlier = true;
            } else {
                return Err(error(format!("ERR Unsupported option {}", printable(word))));
            }
        }
        let Conditions { unless_set, if_set, if_later, if_earlier } = conditions;
        if unless_set && (if_set || if_later || if_earlier) {
            return Err(error("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if if_later && if_earlier {
            return Err(error("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether the expiry may change; never to expire counts as the latest of all times.
    fn hold(&self, old_ms: Option<i64>, new_ms: i64) -> bool {
        let contradicted = (self.unless_set && old_ms.is_some())
            || (self.if_set && old_ms.is_none())
            || (self.if_later && old_ms.is_none_or(|old_ms| new_ms <= old_ms))
            || (self.if_earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms));
        !contradicted
    }
}

fn now_ms(space: &dyn Space) -> i64 {
    i64::try_from(space.now_ms()).unwrap_or(i64::MAX)
}

fn expire_ms(meta: &Meta) -> Option<i64> {
    meta.expire_ms.map(|expire_ms| i64::try_from(expire_ms).unwrap_or(i64::MAX))
}

fn expire(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let base_ms = now_ms(space);
    expire_at(space, args, SECOND_MS, base_ms, "expire")
}

fn pexpire(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let base_ms = now_ms(space);
    expire_at(space, args, 1, base_ms, "pexpire")
}

fn expireat(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    expire_at(space, args, SECOND_MS, 0, "expireat")
}

fn pexpireat(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    expire_at(space, args, 1, 0, "pexpireat")
}

fn expire_at(space: &mut dyn Space, args: &[Bytes], unit_ms: i64, base_ms: i64, command: &str) -> Answer {
    let key = &args[0];
    let conditions = Conditions::parse(&args[2..])?;
    let when_ms = integer(&args[1])?
        .checked_mul(unit_ms)
        .and_then(|delay_ms| delay_ms.checked_add(base_ms))
        .ok_or_else(|| error(format!("ERR invalid expire time in '{command}' command")))?;
    let Some(meta) = space.get(key) else { return Ok(Reply::Int(0)) };
    if !conditions.hold(expire_ms(&meta), when_ms) {
        return Ok(Reply::Int(0));
    }
    if when_ms <= now_ms(space) {
        space.remove(key);
    } else {
        space.set(key, Meta { expire_ms: Some(when_ms.unsigned_abs()), ..meta });
    }
    Ok(Reply::Int(1))
}

fn ttl(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let base_ms = now_ms(space);
    tell(space, args, base_ms, SECOND_MS)
}

fn pttl(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let base_ms = now_ms(space);
    tell(space, args, base_ms, 1)
}

fn expiretime(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    tell(space, args, 0, SECOND_MS)
}

fn pexpiretime(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    tell(space, args, 0, 1)
}

/// The expiry after `base_ms` in units of `unit_ms`, rounded to the nearest; -1: never, -2: no such key.
fn tell(space: &mut dyn Space, args: &[Bytes], base_ms: i64, unit_ms: i64) -> Answer {
    const NEVER: i64 = -1;
    const NO_KEY: i64 = -2;
    let Some(meta) = space.get(&args[0]) else { return Ok(Reply::Int(NO_KEY)) };
    let Some(expire_ms) = expire_ms(&meta) else { return Ok(Reply::Int(NEVER)) };
    let rest_ms = (expire_ms - base_ms).max(0).unsigned_abs();
    let unit_ms = unit_ms.unsigned_abs();
    Ok(Reply::Int(((rest_ms + unit_ms / 2) / unit_ms).cast_signed()))
}

fn persist(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    match space.get(&args[0]) {
        Some(meta) if meta.expire_ms.is_some() => {
            space.set(&args[0], Meta { expire_ms: None, ..meta });
            Ok(Reply::Int(1))
        }
        _ => Ok(Reply::Int(0)),
    }
}
