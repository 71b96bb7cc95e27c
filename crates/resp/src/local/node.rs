//! Commands about the node as a Redis server: TIME, ROLE, WAIT, saving, DEBUG, SHUTDOWN.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::{error, is, not_an_integer, syntax_error};
use crate::table::{InMulti, Local};
use crate::{QUORATE_VERSION, REDIS_VERSION, Session, Step, World, number};

pub(super) static COMMANDS: [Local; 10] = [
    Local::new("bgsave", -1, "1.0.0", "Makes sure that data is saved; it always is.", bgsave)
        .admin()
        .flags(&["admin", "noscript", "no_async_loading"]),
    Local::new("debug", -2, "1.0.0", "Not available.", debug).admin(),
    Local::new("lastsave", 1, "1.0.0", "Returns when data was last saved: now.", lastsave).admin().fast(&[
        "admin",
        "fast",
        "dangerous",
    ]),
    Local::new("lolwut", -1, "5.0.0", "Displays the version.", lolwut)
        .fast(&["read", "fast"])
        .flags(&["readonly", "fast"]),
    Local::container("module", "4.0.0", "A container for module commands.", &MODULE),
    Local::new("role", 1, "2.8.12", "Returns the replication role: any node takes reads and writes.", role)
        .fast(&["admin", "fast", "dangerous"])
        .flags(&["noscript", "loading", "stale", "fast"]),
    Local::new("save", 1, "1.0.0", "Makes sure that data is saved; it always is.", save)
        .admin()
        .flags(&["admin", "noscript", "no_async_loading", "no_multi"])
        .in_multi(InMulti::Refuse),
    Local::new("shutdown", -1, "1.0.0", "Not available.", shutdown)
        .admin()
        .flags(&["admin", "noscript", "loading", "stale", "no_multi", "allow_busy"])
        .in_multi(InMulti::Refuse),
    Local::new("time", 1, "2.6.0", "Returns the server time.", time).fast(&["fast"]),
    Local::new("wait", 3, "3.0.0", "Returns how many other members hold this connection's writes.", wait)
        .connection()
        .flags(&["noscript"])
        .group("server"),
];

static MODULE: [Local; 2] = [
    Local::help("module|help", "5.0.0"),
    Local::new("module|list", 2, "4.0.0", "Returns all loaded modules; there are none.", module_list)
        .admin()
        .flags(&["admin", "noscript"]),
];

fn time(_: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    let now_us = world.now_us();
    let part = |number: u64| Reply::bulk(format!("{number}"));
    Reply::Array(vec![part(now_us / 1_000_000), part(now_us % 1_000_000)]).into()
}

fn role(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), Reply::Array(Vec::new())]).into()
}

/// Earlier writes of the connection are answered before this is, and an answered write is already with a majority:
/// there is nothing to wait for.
fn wait(_: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    if number::integer(&words[1]).is_none() {
        return not_an_integer();
    }
    match number::integer(&words[2]) {
        None => error("ERR timeout is not an integer or out of range"),
        Some(timeout) if timeout < 0 => error("ERR timeout is negative"),
        Some(_) => Reply::Int(i64::try_from(world.replicas()).unwrap_or(i64::MAX)).into(),
    }
}

fn save(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Ok.into()
}

fn bgsave(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match &words[1..] {
        [] => {}
        [option] if is(option, "schedule") => {}
        _ => return syntax_error(),
    }
    Reply::Simple("Background saving started".into()).into()
}

fn lastsave(_: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    Reply::Int(i64::try_from(world.now_us() / 1_000_000).unwrap_or(i64::MAX)).into()
}

fn shutdown(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    error(
        "ERR SHUTDOWN is not available to clients, this node goes on; stop it with `quorate drain` or a signal",
    )
}

fn debug(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    error("ERR DEBUG command not allowed. This server has none; look at its admin port instead.")
}

fn lolwut(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    let text = format!("Quorate ver. {QUORATE_VERSION}, speaking as Redis ver. {REDIS_VERSION}\n");
    Reply::Verbatim(*b"txt", text.into()).into()
}

fn module_list(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Array(Vec::new()).into()
}
