//! CLIENT: the connection and its neighbours.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::client_rows::{info, kill, list};
use super::connection::check_name;
use super::{error, is, not_an_integer, syntax_error, text};
use crate::session::Replies;
use crate::table::{InMulti, Local};
use crate::{Act, Answer, Session, Step, World, number};

pub(super) static COMMANDS: [Local; 1] =
    [Local::container("client", "2.4.0", "A container for client connection commands.", &SUBCOMMANDS)];

static SUBCOMMANDS: [Local; 18] = [
    Local::new(
        "client|caching",
        3,
        "6.0.0",
        "Instructs the server whether to track the keys in the next request.",
        caching,
    )
    .connection(),
    Local::new("client|getname", 2, "2.6.9", "Returns the name of the connection.", getname).connection(),
    Local::new(
        "client|getredir",
        2,
        "6.0.0",
        "Returns the client ID to which invalidations are redirected.",
        getredir,
    )
    .connection(),
    Local::help("client|help", "5.0.0").connection(),
    Local::new("client|id", 2, "5.0.0", "Returns the unique client ID of the connection.", id).connection(),
    Local::new("client|info", 2, "6.2.0", "Returns information about the connection.", info).connection(),
    Local::new("client|kill", -3, "2.4.0", "Closes connections.", kill).connection_admin(),
    Local::new("client|list", -2, "2.4.0", "Lists open connections.", list).connection_admin(),
    Local::new("client|no-evict", 3, "7.0.0", "Sets the client eviction mode of the connection.", no_evict)
        .connection_admin(),
    Local::new(
        "client|no-touch",
        3,
        "7.2.0",
        "Sets whether commands of the connection count as uses of keys.",
        no_touch,
    )
    .connection(),
    Local::new("client|pause", -3, "3.0.0", "Suspends commands processing.", pause).connection_admin(),
    Local::new("client|reply", 3, "3.2.0", "Instructs the server whether to reply to commands.", reply)
        .connection()
        .in_multi(InMulti::Refuse),
    Local::new(
        "client|setinfo",
        4,
        "7.2.0",
        "Sets information specific to the client or connection.",
        setinfo,
    )
    .connection(),
    Local::new("client|setname", 3, "2.6.9", "Sets the connection name.", setname).connection(),
    Local::new(
        "client|tracking",
        -3,
        "6.0.0",
        "Controls server-assisted client-side caching; only OFF is known.",
        tracking,
    )
    .connection(),
    Local::new(
        "client|trackinginfo",
        2,
        "6.2.0",
        "Returns information about server-assisted client-side caching.",
        trackinginfo,
    )
    .connection(),
    Local::new("client|unblock", -3, "5.0.0", "Unblocks a client blocked by a blocking command.", unblock)
        .connection_admin(),
    Local::new("client|unpause", 2, "6.2.0", "Resumes processing commands from paused clients.", unpause)
        .connection_admin(),
];

fn id(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Int(i64::try_from(session.connection.id).unwrap_or(i64::MAX)).into()
}

fn getname(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    if session.name.is_empty() { Reply::Nil.into() } else { Reply::Bulk(session.name.clone()).into() }
}

fn setname(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    if let Err(message) = check_name("Client names", &words[2]) {
        return error(message);
    }
    session.name = Bytes::copy_from_slice(&words[2]);
    Reply::Ok.into()
}

fn setinfo(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let (what, field) = match &words[2] {
        option if is(option, "lib-name") => ("lib-name", &mut session.library_name),
        option if is(option, "lib-ver") => ("lib-ver", &mut session.library_version),
        option => return error(format!("ERR Unrecognized option '{}'", text(option))),
    };
    if let Err(message) = check_name(what, &words[3]) {
        return error(message);
    }
    *field = Bytes::copy_from_slice(&words[3]);
    Reply::Ok.into()
}

/// `on` or `off`.
fn switch(word: &[u8]) -> Option<bool> {
    match word {
        word if is(word, "on") => Some(true),
        word if is(word, "off") => Some(false),
        _ => None,
    }
}

fn no_evict(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let Some(on) = switch(&words[2]) else { return syntax_error() };
    session.no_evict = on;
    Reply::Ok.into()
}

fn no_touch(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let Some(on) = switch(&words[2]) else { return syntax_error() };
    session.no_touch = on;
    Reply::Ok.into()
}

fn reply(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let word = &words[2];
    if is(word, "on") {
        session.replies = Replies::On;
        session.silent = false;
        return Reply::Ok.into();
    }
    if is(word, "off") {
        session.replies = Replies::Off;
    } else if !is(word, "skip") {
        return syntax_error();
    } else if session.replies == Replies::On {
        session.replies = Replies::SkipNext;
    }
    Answer::default().into()
}

fn tracking(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match switch(&words[2]) {
        Some(false) if words.len() == 3 => Reply::Ok.into(),
        Some(true) => {
            error("ERR CLIENT TRACKING is not supported by this server: turn client-side caching off")
        }
        _ => syntax_error(),
    }
}

fn caching(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    )
}

fn getredir(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Int(-1).into()
}

fn trackinginfo(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(vec![Reply::bulk("off")])),
        (Reply::bulk("redirect"), Reply::Int(-1)),
        (Reply::bulk("prefixes"), Reply::Array(Vec::new())),
    ])
    .into()
}

fn pause(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let writes_only = match &words[3..] {
        [] => false,
        [mode] if is(mode, "write") => true,
        [mode] if is(mode, "all") => false,
        [_] => return error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
        _ => return syntax_error(),
    };
    let Some(duration) = number::integer(&words[2]) else {
        return error("ERR timeout is not an integer or out of range");
    };
    let Ok(duration_ms) = u64::try_from(duration) else { return error("ERR timeout is negative") };
    Answer::with(Act::Pause { duration_ms, writes_only }, Reply::Ok).into()
}

fn unpause(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Answer::with(Act::Unpause, Reply::Ok).into()
}

/// No command of this server blocks, so nobody is ever unblocked.
fn unblock(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match &words[3..] {
        [] => {}
        [reason] if is(reason, "timeout") || is(reason, "error") => {}
        [_] => return error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        _ => return syntax_error(),
    }
    match number::integer(&words[2]) {
        Some(_) => Reply::Int(0).into(),
        None => not_an_integer(),
    }
}
