//! CLIENT LIST, INFO and KILL: what needs the table of connections.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::{error, is, syntax_error, text};
use crate::{Act, Answer, ClientRow, Session, Step, World, number};

/// Kinds of clients that Redis knows. All of ours are normal.
const KINDS: [(&str, bool); 5] =
    [("normal", true), ("master", false), ("replica", false), ("slave", false), ("pubsub", false)];

/// Whether clients of this kind are ours; `None`: there is no such kind.
fn kind(word: &[u8]) -> Option<bool> {
    KINDS.iter().find(|(name, _)| is(word, name)).map(|(_, ours)| *ours)
}

fn unknown_kind(word: &[u8]) -> Step {
    error(format!("ERR Unknown client type '{}'", text(word)))
}

pub(super) fn info(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    let line = line_of(&own_row(session, world));
    Reply::Verbatim(*b"txt", line.into()).into()
}

pub(super) fn list(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let mut rows = match &words[2..] {
        [] => all_rows(session, world),
        [option, word] if is(option, "type") => match kind(word) {
            None => return unknown_kind(word),
            Some(true) => all_rows(session, world),
            Some(false) => Vec::new(),
        },
        [option, ids @ ..] if is(option, "id") && !ids.is_empty() => {
            let Some(ids) = ids.iter().map(|word| positive(word)).collect::<Option<Vec<u64>>>() else {
                return error("ERR Invalid client ID");
            };
            let mut rows = all_rows(session, world);
            rows.retain(|row| ids.contains(&row.id));
            rows
        }
        _ => return syntax_error(),
    };
    rows.sort_by_key(|row| row.id);
    let lines: String = rows.iter().map(line_of).collect();
    Reply::Verbatim(*b"txt", lines.into()).into()
}

pub(super) fn kill(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    if let [_, _, address] = words {
        return kill_address(session, address, world);
    }
    let filter = match Filter::parse(&words[2..]) {
        Ok(filter) => filter,
        Err(refusal) => return refusal,
    };
    let mut killed: Vec<u64> =
        all_rows(session, world).iter().filter(|row| filter.matches(row)).map(|row| row.id).collect();
    if filter.skip_me {
        killed.retain(|id| *id != session.connection.id);
    }
    let count = i64::try_from(killed.len()).unwrap_or(i64::MAX);
    Answer { reply: Some(Reply::Int(count)), acts: acts(session, killed) }.into()
}

/// The old form: one address, and an error if nobody has it.
fn kill_address(session: &Session, address: &[u8], world: &dyn World) -> Step {
    let rows = all_rows(session, world);
    match rows.iter().find(|row| row.address.as_bytes() == address) {
        None => error("ERR No such client"),
        Some(row) => Answer { reply: Some(Reply::Ok), acts: acts(session, alloc::vec![row.id]) }.into(),
    }
}

fn acts(session: &Session, mut killed: Vec<u64>) -> Vec<Act> {
    let mut acts = Vec::new();
    let count = killed.len();
    killed.retain(|id| *id != session.connection.id);
    let itself = count != killed.len();
    if !killed.is_empty() {
        acts.push(Act::KillClients(killed));
    }
    if itself {
        acts.push(Act::Close);
    }
    acts
}

/// Which connections CLIENT KILL means: those that fit all that is said.
struct Filter<'a> {
    id: Option<u64>,
    kind_is_ours: bool,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    age_s_min: u64,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(words: &'a [Bytes]) -> Result<Filter<'a>, Step> {
        let mut filter = Filter {
            id: None,
            kind_is_ours: true,
            address: None,
            local_address: None,
            age_s_min: 0,
            skip_me: true,
        };
        let mut rest = words;
        while let [option, value, others @ ..] = rest {
            filter.take(option, value)?;
            rest = others;
        }
        if rest.is_empty() { Ok(filter) } else { Err(syntax_error()) }
    }

    fn take(&mut self, option: &[u8], value: &'a [u8]) -> Result<(), Step> {
        if is(option, "id") {
            let id = positive(value).ok_or_else(|| error("ERR client-id should be greater than 0"))?;
            self.id = Some(id);
        } else if is(option, "type") {
            self.kind_is_ours &= kind(value).ok_or_else(|| unknown_kind(value))?;
        } else if is(option, "addr") {
            self.address = Some(value);
        } else if is(option, "laddr") {
            self.local_address = Some(value);
        } else if is(option, "maxage") {
            self.age_s_min =
                positive(value).ok_or_else(|| error("ERR maxage is not an integer or out of range"))?;
        } else if is(option, "user") {
            if value != b"default" {
                return Err(error(format!("ERR No such user '{}'", text(value))));
            }
        } else if is(option, "skipme") {
            self.skip_me = match value {
                value if is(value, "yes") => true,
                value if is(value, "no") => false,
                _ => return Err(syntax_error()),
            };
        } else {
            return Err(syntax_error());
        }
        Ok(())
    }

    fn matches(&self, row: &ClientRow) -> bool {
        self.kind_is_ours
            && self.id.is_none_or(|id| row.id == id)
            && self.address.is_none_or(|address| row.address.as_bytes() == address)
            && self.local_address.is_none_or(|address| row.local_address.as_bytes() == address)
            && row.age_s >= self.age_s_min
    }
}

fn positive(word: &[u8]) -> Option<u64> {
    number::integer(word).filter(|number| *number > 0).and_then(|number| u64::try_from(number).ok())
}

fn all_rows(session: &Session, world: &dyn World) -> Vec<ClientRow> {
    let mut rows = world.clients();
    rows.push(own_row(session, world));
    rows
}

fn own_row(session: &Session, world: &dyn World) -> ClientRow {
    let connection = &session.connection;
    ClientRow {
        id: connection.id,
        address: connection.address.clone(),
        local_address: connection.local_address.clone(),
        age_s: world.now_us().saturating_sub(connection.since_us) / 1_000_000,
        idle_s: 0,
        input_bytes: 0,
        output_bytes: 0,
        session: session.facts(),
    }
}

/// One connection in the form that clients parse. Fields about what this server does not have stay, at the values
/// that say so.
fn line_of(row: &ClientRow) -> String {
    let ClientRow { id, address, local_address, age_s, idle_s, input_bytes, output_bytes, session } = row;
    let multi = session.queued.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX));
    format!(
        "id={id} addr={address} laddr={local_address} fd=-1 name={} age={age_s} idle={idle_s} flags={} db=0 sub=0 \
         psub=0 ssub=0 multi={multi} qbuf={input_bytes} qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 \
         obl={output_bytes} oll=0 omem={output_bytes} tot-mem={} events=r cmd={} user=default redir=-1 resp={} \
         lib-name={} lib-ver={}\n",
        session.name,
        session.flags,
        session.queued_bytes,
        input_bytes + output_bytes + session.queued_bytes as u64,
        session.last_command,
        session.protocol.number(),
        session.library_name,
        session.library_version,
    )
}
