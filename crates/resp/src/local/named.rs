//! QUORATE TXN and QUORATE VERSIONS: transactions that their clients name, and what they depend on.
//!
//! `QUORATE TXN origin sequence age settled watched [key version]... commands [words word...]...`: numbers in decimal,
//! `watched` and `commands` counts of what follows, `words` that of a command with its name. It is answered as EXEC is.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Consistency, Identity, Request, Version, slot_of};

use super::error;
use crate::map::Way;
use crate::session::{arity_error, bytes_of, check_size};
use crate::step::What;
use crate::table::{self, Found};
use crate::{Limits, Session, Step, View, World, number};

/// The command that names a transaction.
pub(crate) const NAME: &str = "quorate|txn";

pub(super) fn versions(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let keys = &words[2..];
    let max = session.limits.watched_keys_max;
    if keys.len() > max {
        return error(format!("ERR versions of at most {max} keys are told at once, not of {}", keys.len()));
    }
    if let Err(why) = keys.iter().try_for_each(|key| check_size("key", key, session.limits.key_bytes_max)) {
        return error(why);
    }
    if let Some(moved) = moved(session, world, keys.iter()) {
        return moved;
    }
    session.submit(Request::Versions(keys.to_vec()), Consistency::Strict, What::Plain)
}

pub(super) fn transaction(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let (identity, watched, commands) = match read(session, &words[2..]) {
        Ok(all) => all,
        Err(why) => return error(why),
    };
    let of_commands = commands.iter().flat_map(|command| {
        quorate_values::by_code(command.code)
            .map_or_else(Vec::new, |spec| quorate_values::keys_of(spec, &command.args))
    });
    let keys: Vec<Bytes> = watched.iter().map(|(key, _)| key.clone()).chain(of_commands).collect();
    if let Some(moved) = moved(session, world, keys.iter()) {
        return moved;
    }
    let request = Request::Transaction { watched, commands };
    match session.submit(request, Consistency::Strict, What::Plain) {
        Step::Submit { request, consistency, then, .. } => {
            Step::Submit { request, consistency, identity: Some(Box::new(identity)), then }
        }
        other => other,
    }
}

/// On the cluster view, where to send it instead, if one node has all the keys.
fn moved<'a>(
    session: &mut Session,
    world: &dyn World,
    keys: impl Iterator<Item = &'a Bytes>,
) -> Option<Step> {
    let map = world.cluster().filter(|_| session.connection.view == View::Cluster)?;
    if core::mem::take(&mut session.asking) {
        return None;
    }
    match map.way(keys.map(|key| slot_of(key)), false) {
        Way::Moved(to) => Some(error(to)),
        Way::Here => None,
    }
}

type Parts = (Identity, Vec<(Bytes, Version)>, Vec<Command>);

/// Reads what stands behind `QUORATE TXN`.
fn read(session: &Session, words: &[Bytes]) -> Result<Parts, String> {
    let limits = &session.limits;
    let mut words = Words { rest: words };
    let identity = Identity {
        origin: words.number("origin")?,
        sequence: words.number("sequence")?,
        age_ms: words.number("age")?,
        settled_before: words.number("settled")?,
    };
    // The greatest number means, in logs, that an origin is gone for good.
    if identity.sequence == 0 || identity.sequence == u64::MAX {
        return Err(format!("ERR sequence {} is out of range: the first is 1", identity.sequence));
    }
    if identity.settled_before > identity.sequence {
        return Err(format!(
            "ERR all below {} cannot be settled while {} is asked for",
            identity.settled_before, identity.sequence
        ));
    }
    let watched = words.watched(limits)?;
    let commands = words.commands(session)?;
    if !words.rest.is_empty() {
        return Err(format!("ERR {} words stand behind the last command", words.rest.len()));
    }
    if watched.is_empty() && commands.is_empty() {
        return Err("ERR it watches nothing and runs nothing".into());
    }
    Ok((identity, watched, commands))
}

/// Words that have not been read.
struct Words<'a> {
    rest: &'a [Bytes],
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a Bytes, String> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| format!("ERR {what} is missing"))?;
        self.rest = rest;
        Ok(first)
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next(what)?;
        number::unsigned(word).ok_or_else(|| format!("ERR {what} is not a number from 0 to {}", u64::MAX))
    }

    fn count(&mut self, what: &str, max: usize) -> Result<usize, String> {
        let count = self.number(what)?;
        let fitting = usize::try_from(count).ok().filter(|count| *count <= max);
        fitting.ok_or_else(|| format!("ERR {what} is {count}, above the limit of {max}"))
    }

    fn watched(&mut self, limits: &Limits) -> Result<Vec<(Bytes, Version)>, String> {
        let count = self.count("the number of watched keys", limits.watched_keys_max)?;
        let mut watched = Vec::new();
        for _ in 0..count {
            let key = self.next("a watched key")?;
            check_size("key", key, limits.key_bytes_max)?;
            watched.push((key.clone(), Version(self.number("a version")?)));
        }
        Ok(watched)
    }

    fn commands(&mut self, session: &Session) -> Result<Vec<Command>, String> {
        let limits = &session.limits;
        let count = self.count("the number of commands", limits.queued_commands_max)?;
        let mut commands = Vec::new();
        let mut bytes = 0;
        for _ in 0..count {
            let length = self.count("the number of a command's words", self.rest.len())?;
            let Some((words, rest)) = self.rest.split_at_checked(length).filter(|_| length > 0) else {
                return Err("ERR a command's words are missing".into());
            };
            self.rest = rest;
            bytes += bytes_of(words);
            if bytes > limits.queued_bytes_max {
                return Err(format!("ERR a transaction takes at most {} bytes", limits.queued_bytes_max));
            }
            let Some(Found::Data(spec)) = table::find(&words[0]) else {
                let name = super::text(&words[0][..words[0].len().min(64)]);
                return Err(format!("ERR '{name}' is no command about data"));
            };
            if !spec.arity.allows(words.len()) {
                return Err(arity_error(spec.name));
            }
            session.check_sizes(spec, &words[1..])?;
            commands.push(Command { code: spec.code, args: words[1..].to_vec() });
        }
        Ok(commands)
    }
}
