//! Commands that change a list anywhere.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::rows::List;
use crate::Space;
use crate::args::{error, integer, is, no_such_key, syntax_error};
use crate::table::Answer;

pub(super) fn lset(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let Some(mut list) = List::open(space, &args[0])? else { return Err(no_such_key()) };
    let Some(place) = list.place(integer(&args[1])?) else { return Err(error("ERR index out of range")) };
    list.replace(place, args[2].clone());
    Ok(Reply::Ok)
}

pub(super) fn ltrim(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (start, end) = (integer(&args[1])?, integer(&args[2])?);
    if let Some(mut list) = List::open(space, &args[0])? {
        let (start, end) = list.range(start, end);
        list.keep(start, end);
    }
    Ok(Reply::Ok)
}

pub(super) fn lrem(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let wanted = integer(&args[1])?;
    let Some(mut list) = List::open(space, &args[0])? else { return Ok(Reply::Int(0)) };
    let limit = if wanted == 0 { u64::MAX } else { wanted.unsigned_abs() };
    let mut places = Vec::new();
    list.visit(0, list.count(), wanted < 0, |place, value| {
        if value == args[2] {
            places.push(place);
        }
        (places.len() as u64) < limit
    });
    if wanted < 0 {
        places.reverse();
    }
    list.delete(&places);
    Ok(Reply::Int(places.len() as i64))
}

pub(super) fn linsert(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let after = match &args[1] {
        word if is(word, "after") => true,
        word if is(word, "before") => false,
        _ => return Err(syntax_error()),
    };
    let Some(mut list) = List::open(space, &args[0])? else { return Ok(Reply::Int(0)) };
    let mut pivot = None;
    list.visit(0, list.count(), false, |place, value| {
        if value == args[2] {
            pivot = Some(place);
        }
        pivot.is_none()
    });
    let Some(pivot) = pivot else { return Ok(Reply::Int(-1)) };
    list.insert(pivot + u64::from(after), args[3].clone());
    Ok(Reply::Int(list.count() as i64))
}
