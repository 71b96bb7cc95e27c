//! Commands that move elements between lists, or choose among them.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};

use super::rows::{End, List};
use crate::Space;
use crate::args::{integer_from, is, syntax_error};
use crate::table::Answer;

fn end_named(word: &[u8]) -> Result<End, ErrorReply> {
    if is(word, "left") {
        Ok(End::Left)
    } else if is(word, "right") {
        Ok(End::Right)
    } else {
        Err(syntax_error())
    }
}

pub(super) fn lmove(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (from_end, to_end) = (end_named(&args[2])?, end_named(&args[3])?);
    transfer(space, &args[0], from_end, &args[1], to_end)
}

pub(super) fn rpoplpush(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    transfer(space, &args[0], End::Right, &args[1], End::Left)
}

fn transfer(space: &mut dyn Space, from: &Bytes, from_end: End, to: &Bytes, to_end: End) -> Answer {
    if List::open(space, from)?.is_none() {
        return Ok(Reply::Nil);
    }
    List::open_or_new(space, to)?;
    let Some(mut source) = List::open(space, from)? else { return Ok(Reply::Nil) };
    if from == to {
        // Within one list the key must not vanish in between, as its expiry would.
        if from_end != to_end {
            return Ok(Reply::Bulk(source.rotate(from_end)));
        }
        let place = if from_end == End::Left { 0 } else { source.count() - 1 };
        let value = source.at(place);
        source.replace(place, value.clone());
        return Ok(Reply::Bulk(value));
    }
    let values = source.pop(from_end, 1);
    List::open_or_new(space, to)?.push(to_end, &values);
    Ok(values.into_iter().next().map_or(Reply::Nil, Reply::Bulk))
}

pub(super) fn lmpop(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let key_count = integer_from(1, &args[0], "ERR numkeys should be greater than 0")?;
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    let rest = args.get(key_count.saturating_add(1)..).unwrap_or(&[]);
    let Some((end, options)) = rest.split_first() else { return Err(syntax_error()) };
    let end = end_named(end)?;
    let mut count = None;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        if count.is_some() || !is(word, "count") {
            return Err(syntax_error());
        }
        let value = words.next().ok_or_else(syntax_error)?;
        count = Some(integer_from(1, value, "ERR count should be greater than 0")?.unsigned_abs());
    }
    for key in &args[1..=key_count] {
        let Some(mut list) = List::open(space, key)? else { continue };
        let values: Vec<Reply> = list.pop(end, count.unwrap_or(1)).into_iter().map(Reply::Bulk).collect();
        return Ok(Reply::Array(Vec::from([Reply::Bulk(key.clone()), Reply::Array(values)])));
    }
    Ok(Reply::NilArray)
}
