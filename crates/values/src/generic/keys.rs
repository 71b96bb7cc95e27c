//! Removing, naming and copying keys.

use alloc::string::ToString;
use bytes::Bytes;
use quorate_api::Reply;

use crate::Space;
use crate::access::{copy_key, kind_name};
use crate::args::{error, is, no_such_key, small_integer, syntax_error};
use crate::table::Answer;

pub(super) fn del(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let removed = args.iter().filter(|key| space.remove(key)).count();
    Ok(Reply::Int(removed as i64))
}

pub(super) fn exists(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let found = args.iter().filter(|key| space.get(key).is_some()).count();
    Ok(Reply::Int(found as i64))
}

pub(super) fn kind(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let name = space.get(&args[0]).map_or("none", |meta| kind_name(meta.kind));
    Ok(Reply::Simple(name.to_string()))
}

pub(super) fn rename(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (from, to) = (&args[0], &args[1]);
    let Some(meta) = space.get(from) else { return Err(no_such_key()) };
    if from != to {
        space.remove(to);
        copy_key(space, from, to, meta);
        space.remove(from);
    }
    Ok(Reply::Ok)
}

pub(super) fn renamenx(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (from, to) = (&args[0], &args[1]);
    let Some(meta) = space.get(from) else { return Err(no_such_key()) };
    if space.get(to).is_some() {
        return Ok(Reply::Int(0));
    }
    copy_key(space, from, to, meta);
    space.remove(from);
    Ok(Reply::Int(1))
}

pub(super) fn copy(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (from, to) = (&args[0], &args[1]);
    let mut replace = false;
    let mut words = args[2..].iter();
    while let Some(word) = words.next() {
        if is(word, "replace") {
            replace = true;
        } else if is(word, "db") {
            let database = small_integer(words.next().ok_or_else(syntax_error)?)?;
            if database != 0 {
                return Err(error("ERR DB index is out of range"));
            }
        } else {
            return Err(syntax_error());
        }
    }
    if from == to {
        return Err(error("ERR source and destination objects are the same"));
    }
    let Some(meta) = space.get(from) else { return Ok(Reply::Int(0)) };
    if space.get(to).is_some() {
        if !replace {
            return Ok(Reply::Int(0));
        }
        space.remove(to);
    }
    copy_key(space, from, to, meta);
    Ok(Reply::Int(1))
}
