//! OBJECT and MEMORY: how a value is kept, in the terms of Redis as far as they apply.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use crate::args::{error, integer, is, parse_integer, syntax_error, unknown_subcommand, wrong_arity};
use crate::list::List;
use crate::table::Answer;
use crate::{Kind, Meta, Space};

/// Redis keeps strings up to here together with their header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Redis shares the integers below this among all keys, and says so with a count of its own.
const SHARED_INTEGERS: i64 = 10_000;
const SHARED_COUNT: i64 = i32::MAX as i64;
/// What a key and an element take beside their bytes, roughly.
const KEY_BYTES: usize = 64;
const ELEMENT_BYTES: usize = 16;
/// How many elements MEMORY USAGE weighs if not told.
const SAMPLES: i64 = 5;

pub(super) fn object(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    const HELP: [&str; 12] = [
        "OBJECT <subcommand> [<argument>]. Subcommands are:",
        "ENCODING <key>",
        "    Tells the encoding Redis would use for the value.",
        "FREQ <key>",
        "    Access frequencies are not kept, so this is an error.",
        "IDLETIME <key>",
        "    Access times are not kept, so every key counts as just used.",
        "REFCOUNT <key>",
        "    Tells the number of references Redis would count.",
        "HELP",
        "    Prints this help.",
        "The values themselves are kept as rows of a store.",
    ];
    const SUBCOMMANDS: [&str; 4] = ["encoding", "freq", "idletime", "refcount"];
    let subcommand = &args[0];
    if is(subcommand, "help") {
        return help(&HELP, args, "object|help");
    }
    let Some(name) = SUBCOMMANDS.into_iter().find(|name| is(subcommand, name)) else {
        return Err(unknown_subcommand("OBJECT", subcommand));
    };
    let [_, key] = args else { return Err(wrong_arity(&format!("object|{name}"))) };
    let Some(meta) = space.get(key) else { return Ok(Reply::Nil) };
    match name {
        "encoding" => Ok(Reply::bulk(encoding(&meta))),
        "idletime" => Ok(Reply::Int(0)),
        "refcount" => {
            let shared = meta.kind == Kind::String
                && parse_integer(&meta.body).is_some_and(|value| (0..SHARED_INTEGERS).contains(&value));
            Ok(Reply::Int(if shared { SHARED_COUNT } else { 1 }))
        }
        _ => Err(error(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )),
    }
}

fn encoding(meta: &Meta) -> &'static str {
    match meta.kind {
        Kind::List => "quicklist",
        Kind::String if parse_integer(&meta.body).is_some() => "int",
        Kind::String if meta.body.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Kind::String => "raw",
    }
}

fn help(lines: &[&str], args: &[Bytes], name: &str) -> Answer {
    if args.len() > 1 {
        return Err(wrong_arity(name));
    }
    Ok(Reply::Array(lines.iter().map(|line| Reply::Simple(line.to_string())).collect()))
}

pub(super) fn memory(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    const HELP: [&str; 5] = [
        "MEMORY <subcommand> [<argument>]. Subcommands are:",
        "USAGE <key> [SAMPLES <count>]",
        "    Estimates the bytes that a key takes, from so many of its elements (0: all).",
        "HELP",
        "    Prints this help.",
    ];
    let subcommand = &args[0];
    if is(subcommand, "help") {
        return help(&HELP, args, "memory|help");
    }
    if !is(subcommand, "usage") {
        return Err(unknown_subcommand("MEMORY", subcommand));
    }
    let Some(key) = args.get(1) else { return Err(wrong_arity("memory|usage")) };
    let mut samples = SAMPLES;
    let mut words = args[2..].iter();
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| is(word, "samples")).ok_or_else(syntax_error)?;
        samples = integer(value)?;
        if samples < 0 {
            return Err(syntax_error());
        }
    }
    let Some(meta) = space.get(key) else { return Ok(Reply::Nil) };
    let mut bytes = (KEY_BYTES + key.len() + meta.body.len()) as u64;
    if meta.kind == Kind::List
        && let Some(list) = List::open(space, key)?
    {
        bytes += list_bytes(list, samples.unsigned_abs());
    }
    Ok(Reply::Int(bytes as i64))
}

fn list_bytes(mut list: List<'_>, samples: u64) -> u64 {
    let count = list.count();
    let weighed = if samples == 0 { count } else { samples.min(count) };
    let mut sizes = Vec::new();
    list.visit(0, weighed, false, |_, value| {
        sizes.push((ELEMENT_BYTES + value.len()) as u64);
        true
    });
    sizes.iter().sum::<u64>() * count / weighed
}
