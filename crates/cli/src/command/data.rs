//! `get`, `put`, `del`, `scan`: single commands typed by people.

use std::io::Read as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_api::{ErrorReply, Reply, UNKNOWN_MESSAGE};
use quorate_bench::{Client, ClientError};
use quorate_node::Endpoints;
use serde_json::json;

use crate::args::Local;
use crate::exit::{self, WithCode as _, failure};
use crate::local;
use crate::output::{Format, print, print_bytes, print_json};

/// Where a node started by hand listens for clients, unless told otherwise.
const CLIENT_DEFAULT: &str = "127.0.0.1:6379";
/// Above the time after which a node gives a request up.
const WAIT: Duration = Duration::from_secs(10);
/// Keys asked for at once.
const SCAN_COUNT: &str = "1000";

/// Which cluster.
#[derive(Debug, Args)]
pub(crate) struct Door {
    /// Client address of any node; can be repeated, the first that accepts is used. Without it, the local cluster.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) at: Vec<String>,
    /// Where the local cluster is.
    #[command(flatten)]
    pub(crate) local: Local,
}

/// Print the value of a key, as it is; exit code 1 if there is no such key.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The key.
    pub(crate) key: String,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) door: Door,
}

/// Set a key.
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// The key.
    pub(crate) key: String,
    /// The value; `-` reads it from standard input.
    pub(crate) value: String,
    /// Seconds after which it expires.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ttl: Option<u64>,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) door: Door,
}

/// Delete keys.
#[derive(Debug, Args)]
pub(crate) struct Del {
    /// The keys.
    #[arg(required = true)]
    pub(crate) keys: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) door: Door,
}

/// List keys, in no particular order.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// Only keys like this: `*` stands for anything, `?` for one byte.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// At most this many.
    #[arg(long)]
    pub(crate) limit: Option<usize>,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) door: Door,
}

impl Door {
    /// The addresses to try, in order.
    ///
    /// # Errors
    /// If the local cluster's file is not understood.
    pub(crate) fn addresses(&self) -> Result<Vec<String>> {
        if !self.at.is_empty() {
            return Ok(self.at.clone());
        }
        let Some(manifest) = local::read(&self.local.data)? else { return Ok(vec![CLIENT_DEFAULT.into()]) };
        // Those that run first: the others would only be waited for.
        let (up, down): (Vec<_>, Vec<_>) = manifest.nodes.iter().partition(|node| node.is_alive());
        Ok(up.into_iter().chain(down).map(|node| node.endpoints.client.clone()).collect())
    }

    /// The same for native clients: of the local cluster, the doors for the cluster view where they are open.
    ///
    /// # Errors
    /// If the local cluster's file is not understood.
    pub(crate) fn native_addresses(&self) -> Result<Vec<String>> {
        let local = if self.at.is_empty() { local::read(&self.local.data)? } else { None };
        let Some(manifest) = local else { return self.addresses() };
        let door = |endpoints: Endpoints| match endpoints.cluster.is_empty() {
            true => endpoints.client,
            false => endpoints.cluster,
        };
        Ok(manifest.nodes.into_iter().map(|node| door(node.endpoints)).collect())
    }

    fn connect(&self) -> Result<Client> {
        Client::connect(&self.addresses()?, WAIT).code(exit::UNAVAILABLE)
    }
}

/// The reply, or the error it is.
fn call(client: &mut Client, words: &[&[u8]], is_write: bool) -> Result<Reply> {
    let lost = if is_write { exit::UNKNOWN } else { exit::UNAVAILABLE };
    match client.call(words) {
        Ok(Reply::Error(ErrorReply(message))) => {
            let first = message.split(' ').next().unwrap_or_default();
            let code = match first {
                _ if UNKNOWN_MESSAGE.starts_with(first) => exit::UNKNOWN,
                "TRYAGAIN" | "BUSY" | "LOADING" | "NOSPACE" | "OOM" | "CLUSTERDOWN" => exit::TRY_AGAIN,
                _ => exit::FAILED,
            };
            Err(failure(code, message))
        }
        Ok(reply) => Ok(reply),
        Err(error @ ClientError::Unreachable(_)) => Err(error).code(exit::UNAVAILABLE),
        Err(error) => Err(error).code(lost),
    }
}

fn unexpected(reply: &Reply) -> anyhow::Error {
    failure(exit::FAILED, format!("the server's answer makes no sense here: {reply:?}"))
}

/// Prints a value.
pub(crate) fn get(get: &Get) -> Result<()> {
    let reply = call(&mut get.door.connect()?, &[b"GET", get.key.as_bytes()], false)?;
    match reply {
        Reply::Bulk(value) => print_bytes(&[&value[..], b"\n"].concat()),
        Reply::Nil => Err(failure(exit::FAILED, format!("there is no key `{}`", get.key))),
        other => Err(unexpected(&other)),
    }
}

/// Sets a value.
pub(crate) fn put(put: &Put) -> Result<()> {
    let mut value = put.value.clone().into_bytes();
    if put.value == "-" {
        value.clear();
        std::io::stdin()
            .lock()
            .read_to_end(&mut value)
            .context("cannot read the value from standard input")?;
    }
    let ttl = put.ttl.map(|seconds| seconds.to_string());
    let mut words: Vec<&[u8]> = vec![b"SET", put.key.as_bytes(), &value];
    if let Some(ttl) = &ttl {
        words.extend([b"EX".as_slice(), ttl.as_bytes()]);
    }
    match call(&mut put.door.connect()?, &words, true)? {
        Reply::Ok => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// Deletes keys; says how many there were.
pub(crate) fn del(del: &Del, format: Format) -> Result<()> {
    let mut words: Vec<&[u8]> = vec![b"DEL"];
    words.extend(del.keys.iter().map(String::as_bytes));
    match call(&mut del.door.connect()?, &words, true)? {
        Reply::Int(count) if format == Format::Json => print_json(&json!({ "deleted": count })),
        Reply::Int(count) => print(&format!("{count} deleted\n")),
        other => Err(unexpected(&other)),
    }
}

/// Lists keys.
pub(crate) fn scan(scan: &Scan, format: Format) -> Result<()> {
    let mut client = scan.door.connect()?;
    let limit = scan.limit.unwrap_or(usize::MAX);
    let (mut cursor, mut listed, mut found) = ("0".to_owned(), 0, Vec::new());
    loop {
        let words: [&[u8]; 6] =
            [b"SCAN", cursor.as_bytes(), b"MATCH", scan.pattern.as_bytes(), b"COUNT", SCAN_COUNT.as_bytes()];
        let reply = call(&mut client, &words, false)?;
        let Some((next, keys)) = scanned(&reply) else { return Err(unexpected(&reply)) };
        for key in keys.into_iter().take(limit - listed) {
            listed += 1;
            match format {
                Format::Text => print_bytes(&[key, b"\n"].concat())?,
                Format::Json => found.push(String::from_utf8_lossy(key).into_owned()),
            }
        }
        cursor = next;
        if cursor == "0" || listed >= limit {
            break;
        }
    }
    if format == Format::Json { print_json(&found) } else { Ok(()) }
}

/// The next cursor and the keys in a reply to SCAN.
fn scanned(reply: &Reply) -> Option<(String, Vec<&[u8]>)> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Bulk(cursor), Reply::Array(items)] = &parts[..] else { return None };
    let key = |item: &'_ Reply| matches!(item, Reply::Bulk(_));
    if !items.iter().all(key) {
        return None;
    }
    let keys =
        items.iter().filter_map(|item| if let Reply::Bulk(key) = item { Some(&key[..]) } else { None });
    Some((String::from_utf8(cursor.to_vec()).ok()?, keys.collect()))
}
