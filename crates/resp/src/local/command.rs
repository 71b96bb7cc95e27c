//! COMMAND: the command table as clients read it.

mod describe;
mod since;
mod tips;

use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;
use quorate_values::KeyPlaces;

use super::{error, is, syntax_error};
use crate::table::{self, Found, Local};
use crate::{Session, Step, World, glob};

pub(super) static COMMANDS: [Local; 1] = [table()];

const fn table() -> Local {
    let mut table =
        Local::new("command", -1, "2.8.13", "Returns detailed information about all commands.", all)
            .connection();
    table.group = "server";
    table.flags = FLAGS;
    table.subcommands = &SUBCOMMANDS;
    table
}

const FLAGS: &[&str] = &["loading", "stale"];

const fn sub(
    name: &'static str,
    arity: i8,
    since: &'static str,
    summary: &'static str,
    run: table::Run,
) -> Local {
    let mut sub = Local::new(name, arity, since, summary, run).connection();
    sub.group = "server";
    sub.flags = FLAGS;
    sub
}

static SUBCOMMANDS: [Local; 7] = [
    sub("command|count", 2, "2.8.13", "Returns a count of commands.", count),
    sub("command|docs", -2, "7.0.0", "Returns documentary information about commands.", docs),
    sub("command|getkeys", -3, "2.8.13", "Extracts the key names from an arbitrary command.", getkeys),
    sub("command|getkeysandflags", -3, "7.0.0", "Extracts the key names and access flags.", getkeysandflags),
    Local::help("command|help", "5.0.0").connection(),
    sub("command|info", -2, "2.8.13", "Returns information about one, several or all commands.", info),
    sub("command|list", -2, "7.0.0", "Returns a list of command names.", list),
];

fn all(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Array(table::all().map(describe::info).collect()).into()
}

fn count(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Int(i64::try_from(table::all().count()).unwrap_or(i64::MAX)).into()
}

/// A command by its name, a subcommand by `container|name`.
fn find(name: &[u8]) -> Option<Found> {
    let Some(bar) = name.iter().position(|byte| *byte == b'|') else { return table::find(name) };
    match table::find(&name[..bar])? {
        Found::Local(container) => container.subcommand(&name[bar + 1..]).map(Found::Local),
        Found::Data(_) => None,
    }
}

fn info(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    if words.len() == 2 {
        return all(session, words, world);
    }
    let entries = words[2..].iter().map(|name| find(name).map_or(Reply::Nil, describe::info));
    Reply::Array(entries.collect()).into()
}

fn docs(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let found: Vec<Found> = match &words[2..] {
        [] => table::all().collect(),
        names => names.iter().filter_map(|name| find(name)).collect(),
    };
    let entries = found.into_iter().map(|found| (Reply::bulk(found.name()), describe::docs(found)));
    Reply::Map(entries.collect()).into()
}

fn list(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let names: Vec<&'static str> = match &words[2..] {
        [] => names().map(|found| found.name()).collect(),
        [filterby, kind, wanted] if is(filterby, "filterby") => {
            if is(kind, "module") {
                Vec::new()
            } else if is(kind, "aclcat") {
                let in_category =
                    |found: &Found| found.categories().iter().any(|category| is(wanted, category));
                names().filter(in_category).map(|found| found.name()).collect()
            } else if is(kind, "pattern") {
                names()
                    .map(|found| found.name())
                    .filter(|name| glob::matches(wanted, name.as_bytes()))
                    .collect()
            } else {
                return syntax_error();
            }
        }
        _ => return syntax_error(),
    };
    Reply::Array(names.into_iter().map(Reply::bulk).collect()).into()
}

/// All commands and subcommands.
fn names() -> impl Iterator<Item = Found> {
    table::all().flat_map(|found| core::iter::once(found).chain(found.subcommands().iter().map(Found::Local)))
}

fn getkeys(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match keys_of_line(&words[2..]) {
        Ok((_, keys)) => Reply::Array(keys.into_iter().map(Reply::Bulk).collect()).into(),
        Err(refusal) => refusal,
    }
}

fn getkeysandflags(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match keys_of_line(&words[2..]) {
        Ok((found, keys)) => {
            let with_flags = |key| Reply::Array(Vec::from([Reply::Bulk(key), describe::access(found)]));
            Reply::Array(keys.into_iter().map(with_flags).collect()).into()
        }
        Err(refusal) => refusal,
    }
}

fn keys_of_line(line: &[Bytes]) -> Result<(Found, Vec<Bytes>), Step> {
    let Some(mut found) = table::find(&line[0]) else { return Err(error("ERR Invalid command specified")) };
    if let (Found::Local(container), Some(name)) = (found, line.get(1))
        && let Some(sub) = container.subcommand(name)
    {
        found = Found::Local(sub);
    }
    if !found.arity().allows(line.len()) {
        return Err(error("ERR Invalid number of arguments specified for command"));
    }
    let keys = match found {
        Found::Data(spec) => quorate_values::keys_of(spec, &line[1..]),
        Found::Local(local) => fixed(local.keys, line),
    };
    if keys.is_empty() {
        return Err(error("ERR The command has no key arguments"));
    }
    Ok((found, keys))
}

/// Keys of a local command: only WATCH has any, and its reach to the end of the line.
fn fixed(places: KeyPlaces, line: &[Bytes]) -> Vec<Bytes> {
    match places.first {
        0 => Vec::new(),
        first => line[first..].iter().step_by(places.step).cloned().collect(),
    }
}

/// A category or flag as clients expect it.
fn simple(text: impl core::fmt::Display) -> Reply {
    Reply::Simple(format!("{text}"))
}
