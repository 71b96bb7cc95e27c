//! Commands that tell what is in a list.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};

use super::rows::List;
use crate::Space;
use crate::args::{error, integer, integer_from, is, syntax_error};
use crate::table::Answer;

pub(super) fn llen(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let list = List::open(space, &args[0])?;
    Ok(Reply::Int(list.map_or(0, |list| list.count() as i64)))
}

pub(super) fn lindex(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let Some(mut list) = List::open(space, &args[0])? else { return Ok(Reply::Nil) };
    let place = list.place(integer(&args[1])?);
    Ok(place.map_or(Reply::Nil, |place| Reply::Bulk(list.at(place))))
}

pub(super) fn lrange(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (start, end) = (integer(&args[1])?, integer(&args[2])?);
    let Some(mut list) = List::open(space, &args[0])? else { return Ok(Reply::Array(Vec::new())) };
    let (start, end) = list.range(start, end);
    Ok(Reply::Array(list.slice(start, end).into_iter().map(Reply::Bulk).collect()))
}

struct Search {
    /// Which match is the first to be told; negative: counted from the right.
    rank: i64,
    /// How many matches are told; `None`: one, and not in an array; 0: all.
    count: Option<u64>,
    /// How many elements are compared; 0: all.
    compared_max: u64,
}

fn search_options(args: &[Bytes]) -> Result<Search, ErrorReply> {
    let mut search = Search { rank: 1, count: None, compared_max: 0 };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(syntax_error)?;
        if is(word, "rank") {
            search.rank = integer(value)?;
            if search.rank == 0 {
                return Err(error(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                     negative to start from the end of the list",
                ));
            }
        } else if is(word, "count") {
            search.count = Some(integer_from(0, value, "ERR COUNT can't be negative")?.unsigned_abs());
        } else if is(word, "maxlen") {
            search.compared_max = integer_from(0, value, "ERR MAXLEN can't be negative")?.unsigned_abs();
        } else {
            return Err(syntax_error());
        }
    }
    Ok(search)
}

pub(super) fn lpos(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let Search { rank, count, compared_max } = search_options(&args[2..])?;
    let mut places = Vec::new();
    if let Some(mut list) = List::open(space, &args[0])? {
        let reverse = rank < 0;
        let all = list.count();
        let compared = if compared_max == 0 { all } else { compared_max.min(all) };
        let (start, end) = if reverse { (all - compared, all) } else { (0, compared) };
        let wanted = match count {
            None => 1,
            Some(0) => u64::MAX,
            Some(count) => count,
        };
        // The least integer has no opposite, and Redis takes it for the last match.
        let mut skipped = rank.checked_abs().map_or(0, |rank| rank.unsigned_abs() - 1);
        list.visit(start, end, reverse, |place, value| {
            if value == args[1] {
                if skipped > 0 {
                    skipped -= 1;
                } else {
                    places.push(Reply::Int(place as i64));
                }
            }
            (places.len() as u64) < wanted
        });
    }
    Ok(match count {
        Some(_) => Reply::Array(places),
        None => places.pop().unwrap_or(Reply::Nil),
    })
}
