//! Commands that count.

use bytes::Bytes;
use quorate_api::Reply;

use super::long_double::{Parsed, parse};
use super::set::put_body;
use crate::access::get_kind;
use crate::args::{decimal, error, integer};
use crate::table::Answer;
use crate::{Kind, Space};

pub(super) fn incr(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    add(space, &args[0], 1)
}

pub(super) fn decr(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    add(space, &args[0], -1)
}

pub(super) fn incrby(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    add(space, &args[0], integer(&args[1])?)
}

pub(super) fn decrby(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let Some(step) = integer(&args[1])?.checked_neg() else {
        return Err(error("ERR decrement would overflow"));
    };
    add(space, &args[0], step)
}

fn add(space: &mut dyn Space, key: &[u8], step: i64) -> Answer {
    let old = get_kind(space, key, Kind::String)?;
    let value = old.as_ref().map_or(Ok(0), |old| integer(&old.body))?;
    let Some(sum) = value.checked_add(step) else {
        return Err(error("ERR increment or decrement would overflow"));
    };
    put_body(space, key, old, decimal(sum));
    Ok(Reply::Int(sum))
}

pub(super) fn incrbyfloat(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let old = get_kind(space, &args[0], Kind::String)?;
    let float = |text: &[u8]| parse(text).ok_or_else(|| error("ERR value is not a valid float"));
    let value = float(old.as_ref().map_or(b"0", |old| &old.body))?;
    let step = float(&args[1])?;
    let sum = match (value, step) {
        (Parsed::Finite(value), Parsed::Finite(step)) => value.plus(step),
        _ => None,
    };
    let Some(sum) = sum else { return Err(error("ERR increment would produce NaN or Infinity")) };
    let text = Bytes::from(sum.to_text());
    put_body(space, &args[0], old, text.clone());
    Ok(Reply::Bulk(text))
}
