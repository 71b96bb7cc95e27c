//! From words, as clients send them, to requests.

use bytes::Bytes;
use quorate_api::{Command, Refusal, Reply, Request, Version};

/// The data command that these words mean.
///
/// # Panics
/// If there is no such command: the harness only asks for what exists.
pub(crate) fn command<W: AsRef<[u8]>>(words: &[W]) -> Command {
    let [name, args @ ..] = words else { panic!("a command has a name") };
    let Some(spec) = quorate_values::find(name.as_ref()) else {
        panic!("there is no command {:?}", String::from_utf8_lossy(name.as_ref()))
    };
    assert!(spec.arity.allows(words.len()), "{} with {} words", spec.name, words.len());
    Command { code: spec.code, args: args.iter().map(|arg| Bytes::copy_from_slice(arg.as_ref())).collect() }
}

/// The request for one command.
pub(crate) fn one<W: AsRef<[u8]>>(words: &[W]) -> Request {
    Request::One(command(words))
}

/// What somebody asks beside all others, whose answers nobody judges. Of several buckets these are transactions: what they
/// find must stay so until they have happened, whatever chance there is in it and, among `brief` keys, whatever expires.
pub(crate) fn aside(number: u64, brief: bool) -> Request {
    const KEYS: [&str; 5] = ["brief:1", "brief:2", "brief:3", "brief:4", "brief:5"];
    if !brief {
        return one(&[["DBSIZE", "RANDOMKEY"][number as usize % 2]]);
    }
    let life = (1 << (number / 2 % 8)).to_string();
    let ask = |key| match number % 2 {
        0 => command(&["GET", key]),
        _ => command(&["SET", key, "x", "NX", "PX", &life]),
    };
    Request::Transaction { watched: Vec::new(), commands: KEYS.into_iter().map(ask).collect() }
}

/// The mark that counts refusals of this kind.
pub(crate) fn mark_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoLeader => "node.sim.refused.no_leader",
        Refusal::Busy => "node.sim.refused.busy",
        Refusal::NoSpace => "node.sim.refused.no_space",
        Refusal::NoMemory => "node.sim.refused.no_memory",
        Refusal::NotServing => "node.sim.refused.not_serving",
        Refusal::TooLarge => "node.sim.refused.too_large",
        Refusal::ValuesTooLarge => "node.sim.refused.values_too_large",
        Refusal::Aborted => "node.sim.refused.aborted",
        Refusal::Settled => "node.sim.refused.settled",
        Refusal::Outdated => "node.sim.refused.outdated",
        Refusal::Halted => "node.sim.refused.halted",
    }
}

/// What WATCH brought back.
pub(crate) fn versions(keys: &[Bytes], reply: &Reply) -> Option<Vec<(Bytes, Version)>> {
    let Reply::Array(items) = reply else { return None };
    if items.len() != keys.len() {
        return None;
    }
    let version = |item: &Reply| match item {
        Reply::Int(number) => Some(Version(number.cast_unsigned())),
        _ => None,
    };
    keys.iter().zip(items).map(|(key, item)| Some((key.clone(), version(item)?))).collect()
}

/// The text of a bulk string, `None` for no value.
///
/// # Errors
/// If it is something else.
pub(crate) fn text(reply: &Reply) -> Result<Option<String>, String> {
    match reply {
        Reply::Nil => Ok(None),
        Reply::Bulk(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        other => Err(format!("a string or nothing was to come, not {other:?}")),
    }
}

/// An integer.
///
/// # Errors
/// If it is something else.
pub(crate) fn number(reply: &Reply) -> Result<i64, String> {
    match reply {
        Reply::Int(number) => Ok(*number),
        other => Err(format!("a number was to come, not {other:?}")),
    }
}
