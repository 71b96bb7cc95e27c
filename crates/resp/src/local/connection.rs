//! Opening, probing and closing a connection: HELLO, AUTH, SELECT, PING, ECHO, RESET, QUIT.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Consistency, Reply};

use super::{arity_error, error, not_an_integer, syntax_error};
use crate::session::{Replies, repeated};
use crate::table::{InMulti, Local};
use crate::{Act, Answer, Protocol, QUORATE_VERSION, REDIS_VERSION, Session, Step, View, World, number};

pub(super) static COMMANDS: [Local; 7] = [
    Local::new("auth", -2, "1.0.0", "Authenticates the connection.", auth).opening(),
    Local::new("echo", 2, "1.0.0", "Returns the given string.", echo)
        .connection()
        .fast(&["fast", "connection"]),
    Local::new("hello", -1, "6.0.0", "Opens a conversation: protocol version, password, name.", hello)
        .opening()
        .in_multi(InMulti::Refuse),
    Local::new("ping", -1, "1.0.0", "Answers PONG, or with the given string.", ping)
        .connection()
        .fast(&["fast", "connection"])
        .flags(&["fast"]),
    Local::new("quit", -1, "1.0.0", "Closes the connection.", quit).opening().in_multi(InMulti::Run),
    Local::new("reset", 1, "6.2.0", "Returns the connection to its first state.", reset)
        .opening()
        .in_multi(InMulti::Run),
    Local::new("select", 2, "1.0.0", "Selects a database; there is one, number 0.", select)
        .connection()
        .fast(&["fast", "connection"]),
];

fn ping(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match words {
        [_] => Reply::Simple("PONG".into()).into(),
        [_, message] => Reply::Bulk(message.clone()).into(),
        _ => arity_error("ping"),
    }
}

fn echo(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    Reply::Bulk(words[1].clone()).into()
}

fn quit(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Answer::with(Act::Close, Reply::Ok).into()
}

fn reset(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    session.transaction = None;
    session.watched.clear();
    session.protocol = Protocol::default();
    session.consistency = Consistency::default();
    (session.readonly, session.asking) = (false, false);
    session.authenticated = false;
    session.name = Bytes::new();
    session.no_evict = false;
    session.no_touch = false;
    session.replies = Replies::On;
    session.silent = false;
    Reply::Simple("RESET".into()).into()
}

fn select(_: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    match number::integer(&words[1]) {
        None => not_an_integer(),
        Some(0) => Reply::Ok.into(),
        Some(_) => error("ERR DB index is out of range"),
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn auth(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let (user, password) = match words {
        [_, password] => {
            if world.password().is_none() {
                return error(
                    "ERR AUTH <password> called without any password configured for the default user. \
                     Are you sure your configuration is correct?",
                );
            }
            (&b"default"[..], password)
        }
        [_, user, password] => (&user[..], password),
        _ => return syntax_error(),
    };
    if !is_welcome(user, password, world) {
        return error(WRONG_PASSWORD);
    }
    session.authenticated = true;
    Reply::Ok.into()
}

/// There is one user, `default`; without a configured password, any will do.
fn is_welcome(user: &[u8], password: &[u8], world: &dyn World) -> bool {
    user == b"default" && world.password().is_none_or(|expected| same(expected, password))
}

/// Compares in a time that tells nothing about where the first difference is.
fn same(expected: &[u8], given: &[u8]) -> bool {
    let difference = expected.iter().zip(given).fold(0, |all, (one, other)| all | (one ^ other));
    expected.len() == given.len() && difference == 0
}

fn hello(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let asked = match hello_words(words) {
        Ok(asked) => asked,
        Err(message) => return error(message),
    };
    if let Some((user, password)) = asked.credentials {
        if !is_welcome(user, password, world) {
            return error(WRONG_PASSWORD);
        }
        session.authenticated = true;
    }
    if session.needs_auth(world) {
        return error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
             the same time",
        );
    }
    if let Some(name) = asked.name {
        session.name = Bytes::copy_from_slice(name);
    }
    session.protocol = asked.protocol.unwrap_or(session.protocol);
    greeting(session).into()
}

/// What the client asks for in HELLO.
#[derive(Default)]
struct Hello<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn hello_words(words: &[Bytes]) -> Result<Hello<'_>, alloc::string::String> {
    let mut asked = Hello::default();
    let Some(version) = words.get(1) else { return Ok(asked) };
    asked.protocol = Some(match number::integer(version) {
        None => return Err("ERR Protocol version is not an integer or out of range".into()),
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
    });
    let mut rest = &words[2..];
    while let [option, values @ ..] = rest {
        rest = match values {
            [user, password, rest @ ..] if super::is(option, "auth") => {
                asked.credentials = Some((user, password));
                rest
            }
            [name, rest @ ..] if super::is(option, "setname") => {
                check_name("Client names", name)?;
                asked.name = Some(name);
                rest
            }
            _ => {
                let option = super::text(repeated(option, 128));
                return Err(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        };
    }
    Ok(asked)
}

/// Names are printed in lists whose fields are separated by blanks.
pub(super) fn check_name(what: &str, name: &[u8]) -> Result<(), alloc::string::String> {
    /// Names are kept and listed for as long as the connection stands.
    const NAME_BYTES_MAX: usize = 1_024;
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes, this has {}",
            name.len()
        ));
    }
    Ok(())
}

fn greeting(session: &Session) -> Reply {
    let id = i64::try_from(session.connection.id).unwrap_or(i64::MAX);
    let mode = match session.connection.view {
        View::Standalone => "standalone",
        View::Cluster => "cluster",
    };
    let fields = vec![
        ("server", Reply::bulk("redis")),
        ("version", Reply::bulk(REDIS_VERSION)),
        ("proto", Reply::Int(session.protocol.number())),
        ("id", Reply::Int(id)),
        ("mode", Reply::bulk(mode)),
        ("role", Reply::bulk("master")),
        ("modules", Reply::Array(Vec::new())),
        ("quorate_version", Reply::bulk(QUORATE_VERSION)),
    ];
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}
