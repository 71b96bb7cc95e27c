//! LATENCY and SLOWLOG. This server measures elsewhere (its `/metrics`), so these are always empty: true, and enough
//! for the tools that ask.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::error;
use crate::table::Local;
use crate::{Session, Step, World, number};

pub(super) static COMMANDS: [Local; 2] = [
    Local::container("latency", "2.8.13", "A container for latency diagnostics commands.", &LATENCY),
    Local::container("slowlog", "2.2.12", "A container for slow log commands.", &SLOWLOG),
];

static LATENCY: [Local; 6] = [
    Local::new("latency|doctor", 2, "2.8.13", "Returns a latency analysis report.", doctor).admin(),
    Local::help("latency|help", "2.8.13"),
    Local::new(
        "latency|histogram",
        -2,
        "7.0.0",
        "Returns the latencies of commands; none are kept here.",
        no_map,
    )
    .admin(),
    Local::new(
        "latency|history",
        3,
        "2.8.13",
        "Returns the latencies of an event; none are kept here.",
        nothing,
    )
    .admin(),
    Local::new("latency|latest", 2, "2.8.13", "Returns the latest latencies; none are kept here.", nothing)
        .admin(),
    Local::new("latency|reset", -2, "2.8.13", "Forgets latencies.", zero).admin(),
];

const SLOWLOG_FLAGS: &[&str] = &["admin", "loading", "stale"];

static SLOWLOG: [Local; 4] = [
    Local::new(
        "slowlog|get",
        -2,
        "2.2.12",
        "Returns entries of the slow log; there are none here.",
        slowlog_get,
    )
    .admin()
    .flags(SLOWLOG_FLAGS),
    Local::help("slowlog|help", "6.2.0"),
    Local::new("slowlog|len", 2, "2.2.12", "Returns the number of entries in the slow log.", zero)
        .admin()
        .flags(SLOWLOG_FLAGS),
    Local::new("slowlog|reset", 2, "2.2.12", "Clears the slow log.", done).admin().flags(SLOWLOG_FLAGS),
];

fn nothing(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Array(Vec::new()).into()
}

fn no_map(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Map(Vec::new()).into()
}

fn zero(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Int(0).into()
}

fn done(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::Ok.into()
}

fn doctor(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    let report = "This server does not keep latencies for LATENCY. They are at /metrics on its admin port.\n";
    Reply::Verbatim(*b"txt", report.into()).into()
}

fn slowlog_get(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match &words[2..] {
        [] => {}
        [count] if number::integer(count).is_some_and(|count| count >= -1) => {}
        [_] => return error("ERR count should be greater than or equal to -1"),
        _ => return super::arity_error("slowlog|get"),
    }
    Reply::Array(Vec::new()).into()
}
