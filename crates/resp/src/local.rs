//! The commands a session answers itself: one file a subject, each with its part of the table.

mod client;
mod client_rows;
mod cluster;
mod command;
mod config;
mod connection;
mod info;
mod named;
mod node;
mod observe;
mod quorate;

pub(crate) use named::NAME as TRANSACTION_NAME;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use crate::table::Local;
use crate::{Session, Step, World, session, table, transaction};

/// All local commands, without subcommands.
pub(crate) fn all() -> impl Iterator<Item = &'static Local> {
    connection::COMMANDS
        .iter()
        .chain(&transaction::COMMANDS)
        .chain(&client::COMMANDS)
        .chain(&cluster::COMMANDS)
        .chain(&command::COMMANDS)
        .chain(&info::COMMANDS)
        .chain(&config::COMMANDS)
        .chain(&node::COMMANDS)
        .chain(&observe::COMMANDS)
        .chain(&quorate::COMMANDS)
}

/// HELP of a container: its subcommands with what they do, from the table.
pub(crate) fn help(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let Some(table::Found::Local(container)) = table::find(&words[0]) else {
        unreachable!("HELP is asked of a command that was just found")
    };
    let title = container.name.to_ascii_uppercase();
    let mut lines = Vec::new();
    lines.push(Reply::Simple(format!("{title} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")));
    for sub in container.subcommands {
        lines.push(Reply::Simple(sub.short_name().to_ascii_uppercase()));
        lines.push(Reply::Simple(format!("    {}", sub.summary)));
    }
    Reply::Array(lines).into()
}

/// A step that answers with this error.
fn error(message: impl Into<String>) -> Step {
    Reply::error(message).into()
}

fn syntax_error() -> Step {
    error("ERR syntax error")
}

fn not_an_integer() -> Step {
    error("ERR value is not an integer or out of range")
}

/// A step that answers with the error for a wrong number of arguments.
fn arity_error(name: &str) -> Step {
    error(session::arity_error(name))
}

/// The word is this keyword, in any case of letters.
fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// A word as text for an error or a name.
fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}
