//! Running requests against a view.

use alloc::vec::Vec;
use quorate_api::{Command, Reply, Request};
use quorate_values::{Effect, Space, by_code};

use crate::Mutant;
use crate::collect::is_collect;
use crate::view::View;

/// Whether a request changes nothing, whatever the state.
pub fn is_read(request: &Request) -> bool {
    let reads = |command: &Command| by_code(command.code).is_some_and(|spec| spec.effect == Effect::Read);
    match request {
        Request::One(command) => reads(command),
        Request::Versions(_) => true,
        Request::Transaction { commands, .. } => commands.iter().all(reads),
        Request::Collect { part, .. } => is_collect(part),
    }
}

/// Whether the state can be larger after a request: it has a command that Redis refuses as well while memory is full.
pub fn may_grow(request: &Request) -> bool {
    let grows = |command: &Command| by_code(command.code).is_some_and(|spec| spec.flags.contains(&"denyoom"));
    match request {
        Request::One(command) => grows(command),
        Request::Transaction { commands, .. } => commands.iter().any(grows),
        Request::Versions(_) | Request::Collect { .. } => false,
    }
}

/// Runs a request to its end. One whose answer nobody could be sent changes nothing.
pub(crate) fn run_request(view: &mut View<'_>, request: &Request) -> Reply {
    let before = view.begin_request();
    let reply = run_unbounded(view, request);
    let (bytes, bytes_max) = (reply.size_bytes(), view.limits.reply_bytes_max);
    if bytes <= bytes_max {
        return reply;
    }
    view.take_back(before);
    Reply::error(alloc::format!(
        "ERR the answer would have {bytes} bytes, more than the {bytes_max} that nodes send each other at once; nothing \
         was changed: ask for it in parts"
    ))
}

fn run_unbounded(view: &mut View<'_>, request: &Request) -> Reply {
    match request {
        Request::One(command) => run_command(view, command),
        Request::Versions(keys) => {
            let versions = keys.iter().map(|key| Reply::Int(view.version(key).0 as i64));
            Reply::Array(versions.collect())
        }
        Request::Transaction { watched, commands } => {
            view.outrun = view.moved(watched).filter(|_| !view.limits.breaks(Mutant::WatchIgnored));
            if view.outrun.is_some() {
                return Reply::NilArray;
            }
            let replies: Vec<Reply> = commands.iter().map(|command| run_command(view, command)).collect();
            Reply::Array(replies)
        }
        Request::Collect { part, known, .. } => view.collect(part, known),
    }
}

pub(crate) fn run_command(view: &mut View<'_>, command: &Command) -> Reply {
    view.begin_command();
    run_on(view, command)
}

/// Runs a command on whatever keyspace.
pub(crate) fn run_on(space: &mut dyn Space, command: &Command) -> Reply {
    // The doors check both; a command of a newer program must not be half understood by an older one.
    let Some(spec) = by_code(command.code) else {
        return Reply::error("ERR this node does not know the command: upgrade it");
    };
    if !spec.arity.allows(command.args.len() + 1) {
        return Reply::error(alloc::format!("ERR wrong number of arguments for '{}' command", spec.name));
    }
    (spec.run)(space, &command.args)
}
