//! Commands that push to and pop from the ends of a list.

use bytes::Bytes;
use quorate_api::Reply;

use super::rows::{End, List};
use crate::Space;
use crate::args::{integer_from, wrong_arity};
use crate::table::Answer;

pub(super) fn lpush(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    push(space, args, End::Left)
}

pub(super) fn rpush(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    push(space, args, End::Right)
}

fn push(space: &mut dyn Space, args: &[Bytes], end: End) -> Answer {
    let mut list = List::open_or_new(space, &args[0])?;
    list.push(end, &args[1..]);
    Ok(Reply::Int(list.count() as i64))
}

pub(super) fn lpushx(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    push_to_existing(space, args, End::Left)
}

pub(super) fn rpushx(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    push_to_existing(space, args, End::Right)
}

fn push_to_existing(space: &mut dyn Space, args: &[Bytes], end: End) -> Answer {
    let Some(mut list) = List::open(space, &args[0])? else { return Ok(Reply::Int(0)) };
    list.push(end, &args[1..]);
    Ok(Reply::Int(list.count() as i64))
}

pub(super) fn lpop(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    pop(space, args, End::Left, "lpop")
}

pub(super) fn rpop(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    pop(space, args, End::Right, "rpop")
}

fn pop(space: &mut dyn Space, args: &[Bytes], end: End, name: &str) -> Answer {
    let count = match args {
        [_] => None,
        [_, count] => Some(integer_from(0, count, "ERR value is out of range, must be positive")?),
        _ => return Err(wrong_arity(name)),
    };
    let Some(mut list) = List::open(space, &args[0])? else {
        return Ok(if count.is_some() { Reply::NilArray } else { Reply::Nil });
    };
    Ok(match count {
        Some(count) => {
            let values = list.pop(end, count.unsigned_abs());
            Reply::Array(values.into_iter().map(Reply::Bulk).collect())
        }
        None => list.pop(end, 1).into_iter().next().map_or(Reply::Nil, Reply::Bulk),
    })
}
