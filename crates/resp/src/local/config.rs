//! CONFIG.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::{error, text};
use crate::table::Local;
use crate::{Act, Answer, Session, Setting, Step, View, World, glob};

pub(super) static COMMANDS: [Local; 1] =
    [Local::container("config", "2.0.0", "A container for server configuration commands.", &SUBCOMMANDS)];

static SUBCOMMANDS: [Local; 5] = [
    Local::new("config|get", -3, "2.0.0", "Returns the effective values of configuration parameters.", get)
        .admin(),
    Local::help("config|help", "5.0.0"),
    Local::new("config|resetstat", 2, "2.0.0", "Resets the server's statistics.", resetstat).admin(),
    Local::new("config|rewrite", 2, "2.8.0", "Not available.", rewrite).admin(),
    Local::new("config|set", -4, "2.0.0", "Sets configuration parameters in-flight.", set).admin(),
];

/// Parameters that clients and tools ask for and that are the same on every node.
const CONSTANTS: [(&str, &str); 15] = [
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("cluster-enabled", "no"),
    ("databases", "1"),
    ("latency-monitor-threshold", "0"),
    ("maxmemory-policy", "noeviction"),
    ("min-replicas-to-write", "0"),
    ("notify-keyspace-events", ""),
    ("replica-read-only", "no"),
    ("save", ""),
    ("slowlog-log-slower-than", "-1"),
    ("slowlog-max-len", "0"),
    ("tcp-keepalive", "300"),
    ("timeout", "0"),
    ("tls-port", "0"),
];

/// All parameters by their names: the host's, and constants where it says nothing.
fn settings(session: &Session, world: &dyn World) -> BTreeMap<Cow<'static, str>, Setting> {
    let constant =
        |name: &'static str, value: String| Setting { name: Cow::Borrowed(name), value, settable: false };
    let mut all: Vec<Setting> =
        CONSTANTS.iter().map(|(name, value)| constant(name, value.to_string())).collect();
    all.push(constant("proto-max-bulk-len", session.limits.bulk_bytes_max.to_string()));
    all.extend(world.settings());
    if session.connection.view == View::Cluster {
        all.push(constant("cluster-enabled", "yes".into()));
    }
    all.into_iter().map(|setting| (setting.name.clone(), setting)).collect()
}

fn get(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let mut found = BTreeMap::new();
    for (name, setting) in settings(session, world) {
        if words[2..].iter().any(|pattern| glob::matches(pattern, name.as_bytes())) {
            found.insert(name, setting.value);
        }
    }
    let pairs = found.into_iter().map(|(name, value)| (Reply::bulk(name.into_owned()), Reply::bulk(value)));
    Reply::Map(pairs.collect()).into()
}

fn set(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let words = &words[2..];
    if !words.len().is_multiple_of(2) {
        return super::arity_error("config|set");
    }
    let settings = settings(session, world);
    let mut changes: Vec<(String, String)> = vec![];
    // All or nothing: the host hears of it only if every parameter passed.
    for pair in words.chunks_exact(2) {
        let name = text(&pair[0]).to_ascii_lowercase();
        let Some(setting) = settings.get(name.as_str()) else {
            let name = text(&pair[0]);
            return error(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
        };
        let value = text(&pair[1]);
        if let Err(reason) = may_set(setting, &value, &changes, world) {
            return error(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
            ));
        }
        changes.push((name, value));
    }
    Answer::with(Act::Configure(changes), Reply::Ok).into()
}

fn may_set(
    setting: &Setting,
    value: &str,
    changes: &[(String, String)],
    world: &dyn World,
) -> Result<(), String> {
    if changes.iter().any(|(name, _)| *name == setting.name) {
        return Err("duplicate parameter".into());
    }
    if !setting.settable {
        return Err("can't set immutable config".into());
    }
    world.check_setting(&setting.name, value)
}

fn resetstat(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Answer::with(Act::ResetStatistics, Reply::Ok).into()
}

fn rewrite(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    error(
        "ERR this server does not write its config file, nothing was changed; edit the file to keep a setting",
    )
}
