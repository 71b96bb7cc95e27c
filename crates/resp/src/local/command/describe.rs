//! One entry of COMMAND INFO and of COMMAND DOCS.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quorate_api::Reply;
use quorate_values::{Arity, Effect};

use super::{simple, since, tips};
use crate::table::{Found, Local};

fn int(number: usize) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn map(pairs: Vec<(&'static str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

/// The ten fields of a command, subcommands with theirs inside.
pub(super) fn info(found: Found) -> Reply {
    let subcommands =
        found.subcommands().iter().map(|sub: &'static Local| fields(Found::Local(sub), Vec::new()));
    fields(found, subcommands.collect())
}

fn fields(found: Found, subcommands: Vec<Reply>) -> Reply {
    let keys = found.keys();
    let arity = match found.arity() {
        Arity::Exactly(words) => int(words),
        Arity::AtLeast(words) => Reply::Int(-i64::try_from(words).unwrap_or(i64::MAX)),
    };
    Reply::Array(vec![
        Reply::bulk(found.name()),
        arity,
        Reply::Set(flags(found).into_iter().map(simple).collect()),
        int(keys.first),
        Reply::Int(i64::try_from(keys.last).unwrap_or(i64::MAX)),
        int(keys.step),
        Reply::Set(found.categories().iter().map(|category| simple(format!("@{category}"))).collect()),
        Reply::Array(tips::tips(found.name()).iter().map(|tip| Reply::bulk(*tip)).collect()),
        key_specifications(found),
        Reply::Array(subcommands),
    ])
}

/// What the table says, and what it does to the keyspace, which the table says apart.
fn flags(found: Found) -> Vec<&'static str> {
    let of_effect = match found.effect() {
        Some(Effect::Read) => Some("readonly"),
        Some(Effect::Write) => Some("write"),
        None => None,
    };
    let mut flags: Vec<&'static str> = of_effect.into_iter().collect();
    flags.extend(found.flags().iter().copied().filter(|flag| Some(*flag) != of_effect));
    flags
}

/// What a command does to its keys: at worst, where the table does not know better.
pub(super) fn access(found: Found) -> Reply {
    let flags: &[&str] = match found.effect() {
        Some(Effect::Write) => &["RW", "access", "update"],
        Some(Effect::Read) => &["RO", "access"],
        None => &["RO"],
    };
    Reply::Set(flags.iter().map(simple).collect())
}

fn key_specifications(found: Found) -> Reply {
    let keys = found.keys();
    if keys.first == 0 {
        return Reply::Array(Vec::new());
    }
    // The last key is told relative to the first here, from the end if negative.
    let first = isize::try_from(keys.first).unwrap_or(isize::MAX);
    let last = if keys.last < 0 { keys.last } else { keys.last - first };
    let begin = map(vec![("type", Reply::bulk("index")), ("spec", map(vec![("index", int(keys.first))]))]);
    let range = map(vec![
        ("lastkey", Reply::Int(i64::try_from(last).unwrap_or(i64::MAX))),
        ("keystep", int(keys.step)),
        ("limit", Reply::Int(0)),
    ]);
    let find = map(vec![("type", Reply::bulk("range")), ("spec", range)]);
    Reply::Array(vec![map(vec![("flags", access(found)), ("begin_search", begin), ("find_keys", find)])])
}

/// The documentation of a command.
pub(super) fn docs(found: Found) -> Reply {
    let (summary, since, group) = match found {
        Found::Data(spec) => (spec.summary, since::since(spec.name), spec.group),
        Found::Local(local) => (local.summary, local.since, local.group),
    };
    let mut fields =
        vec![("summary", Reply::bulk(summary)), ("since", Reply::bulk(since)), ("group", Reply::bulk(group))];
    if !found.subcommands().is_empty() {
        let subs = found.subcommands().iter().map(|sub| (Reply::bulk(sub.name), docs_of_sub(sub)));
        fields.push(("subcommands", Reply::Map(subs.collect())));
    }
    map(fields)
}

fn docs_of_sub(sub: &'static Local) -> Reply {
    map(vec![
        ("summary", Reply::bulk(sub.summary)),
        ("since", Reply::bulk(sub.since)),
        ("group", Reply::bulk(sub.group)),
    ])
}
