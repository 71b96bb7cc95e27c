//! The state of one connection, and the way of a command through it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Consistency, Outcome, Reply, Request, UNKNOWN_MESSAGE, slot_of};
use quorate_values::{Effect, Spec};

use crate::explain::{Explanation, Story};
use crate::limits::WORD_OVERHEAD_BYTES;
use crate::local::TRANSACTION_NAME;
use crate::map::Way;
use crate::step::What;
use crate::table::{self, Found, InMulti, Local};
use crate::transaction::{Queued, Transaction, Watched};
use crate::{Answer, ClusterMap, Limits, Protocol, Step, Then, World, primary};

/// What is known of a connection when it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its number: positive, never used again in the lifetime of the node.
    pub id: u64,
    /// The client's address, as `host:port`.
    pub address: String,
    /// The address it reached.
    pub local_address: String,
    /// When it was taken, in microseconds since 1970.
    pub since_us: u64,
    /// What it sees.
    pub view: View,
}

/// What a connection is shown of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// One server that has every key.
    #[default]
    Standalone,
    /// A Redis Cluster: every key at the node that leads its bucket.
    Cluster,
}

/// The state of one connection of a client.
///
/// # What may be pipelined
///
/// Commands may be given to [`Session::command`] while earlier ones are still with the node, and their outcomes may
/// come back in any order, *unless* [`Session::may_continue`] says no. That is so while
///
/// * a `WATCH` is under way: an `EXEC` behind it must carry the versions that the `WATCH` brings back;
/// * an `EXEC` with local commands in it is under way: those run when it is known to have happened, and may change
///   what later commands mean.
///
/// The host keeps whatever it has read until then. It must submit requests in the order in which it got them, and
/// send answers in the order of their commands. When the connection breaks, it drops the session.
#[derive(Debug)]
pub struct Session {
    pub(crate) connection: Connection,
    pub(crate) limits: Limits,
    pub(crate) protocol: Protocol,
    pub(crate) consistency: Consistency,
    /// Whether this node's copies are to answer reads of the cluster view.
    pub(crate) readonly: bool,
    /// Whether the next command of the cluster view is served here, wherever it belongs.
    pub(crate) asking: bool,
    pub(crate) authenticated: bool,
    pub(crate) name: Bytes,
    pub(crate) library_name: Bytes,
    pub(crate) library_version: Bytes,
    pub(crate) no_evict: bool,
    pub(crate) no_touch: bool,
    pub(crate) replies: Replies,
    /// Whether the command under way is to be answered with silence.
    pub(crate) silent: bool,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watched: Watched,
    /// Whether a command is under way that later ones have to wait for.
    pub(crate) held: bool,
    pub(crate) last_command: &'static str,
    /// When the command under way came, in microseconds since 1970.
    pub(crate) now_us: u64,
    /// What became of the last transaction.
    pub(crate) explanation: Option<Explanation>,
}

/// What CLIENT REPLY asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// None for the next command.
    SkipNext,
}

/// What a session contributes to its line of CLIENT LIST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// The name the client gave the connection; may be empty.
    pub name: String,
    /// Name of the client's library; may be empty.
    pub library_name: String,
    /// Version of the client's library; may be empty.
    pub library_version: String,
    /// Letters as in CLIENT LIST.
    pub flags: String,
    /// Commands queued since MULTI; `None`: no MULTI.
    pub queued: Option<usize>,
    /// Bytes of those commands.
    pub queued_bytes: usize,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// The last command, in lower case.
    pub last_command: &'static str,
}

impl Session {
    /// The session of a new connection.
    pub fn new(connection: Connection, limits: Limits) -> Session {
        Session {
            connection,
            limits,
            protocol: Protocol::default(),
            consistency: Consistency::default(),
            readonly: false,
            asking: false,
            authenticated: false,
            name: Bytes::new(),
            library_name: Bytes::new(),
            library_version: Bytes::new(),
            no_evict: false,
            no_touch: false,
            replies: Replies::On,
            silent: false,
            transaction: None,
            watched: Watched::default(),
            held: false,
            last_command: "NULL",
            now_us: 0,
            explanation: None,
        }
    }

    /// The protocol in which answers given from now on are rendered.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the next command can be interpreted now; if not, after the next [`Session::complete`] it can.
    pub fn may_continue(&self) -> bool {
        !self.held
    }

    /// Whether the client has to say who it is before it is served.
    pub fn needs_auth(&self, world: &dyn World) -> bool {
        !self.authenticated && world.password().is_some()
    }

    /// What CLIENT LIST shows of this session.
    pub fn facts(&self) -> SessionFacts {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut flags = String::new();
        for (letter, set) in [('x', self.transaction.is_some()), ('e', self.no_evict), ('T', self.no_touch)] {
            if set {
                flags.push(letter);
            }
        }
        if flags.is_empty() {
            flags.push('N');
        }
        SessionFacts {
            name: text(&self.name),
            library_name: text(&self.library_name),
            library_version: text(&self.library_version),
            flags,
            queued: self.transaction.as_ref().map(Transaction::count),
            queued_bytes: self.transaction.as_ref().map_or(0, Transaction::bytes),
            protocol: self.protocol,
            last_command: self.last_command,
        }
    }

    /// Takes one command line. No words are answered with silence.
    ///
    /// # Panics
    ///
    /// If [`Session::may_continue`] says no.
    pub fn command(&mut self, words: Vec<Bytes>, world: &dyn World) -> Step {
        assert!(self.may_continue(), "a command was given to a session that waits for an outcome");
        self.silent = self.replies != Replies::On;
        if self.replies == Replies::SkipNext {
            self.replies = Replies::On;
        }
        if words.is_empty() {
            return Step::Answer(Answer::default());
        }
        self.now_us = world.now_us();
        match self.interpret(words, world) {
            Step::Answer(mut answer) => {
                if self.silent {
                    answer.reply = None;
                }
                Step::Answer(answer)
            }
            later @ (Step::Submit { .. } | Step::Behind(_)) => later,
        }
    }

    /// Takes the outcome of a request that [`Session::command`] handed out with `then`. The reply is to be rendered
    /// in `then.protocol()`.
    pub fn complete(&mut self, then: Then, outcome: Outcome, world: &dyn World) -> Answer {
        let named = then.story.is(TRANSACTION_NAME);
        if named || matches!(then.what, What::Exec(_)) || then.story.is_told() {
            self.explanation = Some(Explanation::new(*then.story, &outcome, world.now_us()));
        }
        let mut answer = match then.what {
            What::Explain => Answer::from(self.explanation()),
            What::Plain => Answer::from(reply_of(outcome)),
            What::Join(join) => Answer::from(primary::join(&join, outcome)),
            What::Watch(keys) => {
                self.held = false;
                Answer::from(self.watched.learn(keys, outcome))
            }
            What::Exec(places) if places.is_empty() => Answer::from(reply_of(outcome)),
            What::Exec(places) => {
                self.held = false;
                self.merge(places, outcome, world)
            }
        };
        if then.quiet {
            answer.reply = None;
        }
        answer
    }

    /// Finds the command, checks whether it may run here and now, and runs, queues or hands it out.
    fn interpret(&mut self, words: Vec<Bytes>, world: &dyn World) -> Step {
        let found = match find(&words) {
            Ok(found) => found,
            Err(Unfound::Unwelcome) => {
                return Answer { reply: None, acts: alloc::vec![crate::Act::Close] }.into();
            }
            Err(Unfound::Error(message)) => return self.reject(message),
        };
        if !found.arity().allows(words.len()) {
            if found.name() == "exec" {
                // As Redis has it: an EXEC that cannot be understood ends the transaction.
                self.transaction = None;
                self.watched.clear();
                let why = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
                return Reply::error(why).into();
            }
            return self.reject(arity_error(found.name()));
        }
        self.last_command = found.name();
        match found {
            Found::Data(spec) => {
                if self.needs_auth(world) {
                    return self.reject(NO_AUTH.into());
                }
                self.data(spec, words, world)
            }
            Found::Local(local) => {
                if !local.needs_no_auth() && self.needs_auth(world) {
                    return self.reject(NO_AUTH.into());
                }
                self.local(local, words, world)
            }
        }
    }

    fn data(&mut self, spec: &'static Spec, mut words: Vec<Bytes>, world: &dyn World) -> Step {
        words.remove(0);
        if let Err(message) = self.check_sizes(spec, &words) {
            return self.reject(message);
        }
        let bytes = bytes_of(&words);
        let command = Command { code: spec.code, args: words };
        if self.transaction.is_some() {
            return self.queue(Queued::Data(command), bytes);
        }
        let map = world.cluster().filter(|_| self.connection.view == View::Cluster);
        if let Some((request, join)) = map.and_then(|map| primary::request(map, spec.name, &command.args)) {
            return self.submit(request, self.freshness(), What::Join(join));
        }
        match self.way(spec, &command.args, map) {
            Way::Moved(to) => Reply::error(to).into(),
            Way::Here => self.submit(Request::One(command), self.freshness(), What::Plain),
        }
    }

    /// Where a command belongs. Transactions are served wherever they come.
    fn way(&mut self, spec: &'static Spec, args: &[Bytes], map: Option<&ClusterMap>) -> Way {
        match map {
            _ if core::mem::take(&mut self.asking) => Way::Here,
            None => Way::Here,
            Some(map) => {
                let copies = self.readonly && spec.effect == Effect::Read;
                let keys = quorate_values::keys_of(spec, args);
                map.way(keys.iter().map(|key| slot_of(key)), copies)
            }
        }
    }

    fn local(&mut self, local: &'static Local, words: Vec<Bytes>, world: &dyn World) -> Step {
        match (local.in_multi, self.transaction.is_some()) {
            (InMulti::Refuse, true) => self.reject("ERR Command not allowed inside a transaction".into()),
            (InMulti::Queue, true) => {
                let bytes = bytes_of(&words);
                self.queue(Queued::Local(local, words), bytes)
            }
            _ => (local.run)(self, &words, world),
        }
    }

    fn queue(&mut self, queued: Queued, bytes: usize) -> Step {
        let Some(transaction) = &mut self.transaction else { unreachable!("queued without MULTI") };
        match transaction.push(queued, bytes, &self.limits) {
            Ok(()) => Reply::Simple("QUEUED".into()).into(),
            Err(message) => self.reject(message),
        }
    }

    /// An error that keeps the command from running: it spoils the transaction it came in.
    fn reject(&mut self, message: String) -> Step {
        if let Some(transaction) = &mut self.transaction {
            transaction.spoil();
        }
        Reply::error(message).into()
    }

    /// A read between WATCH and EXEC must not be older than what is watched, or the EXEC would let through what was
    /// computed from an older value.
    fn freshness(&self) -> Consistency {
        match self.consistency {
            Consistency::Relaxed if self.watched.is_empty() => Consistency::Relaxed,
            _ => self.strictly(),
        }
    }

    /// As fresh as can be, from the copies of this node if the client said READONLY.
    pub(crate) fn strictly(&self) -> Consistency {
        if self.readonly { Consistency::Near } else { Consistency::Strict }
    }

    pub(crate) fn submit(&mut self, request: Request, consistency: Consistency, what: What) -> Step {
        let then = self.then(what);
        Step::Submit { request, consistency, identity: None, then }
    }

    pub(crate) fn then(&self, what: What) -> Then {
        let story = Box::new(Story::new(self.last_command, self.now_us));
        Then { what, protocol: self.protocol, quiet: self.silent, story }
    }

    /// Refuses keys and values above the limits. Only a word that is longer than a key may be is looked at closely.
    pub(crate) fn check_sizes(&self, spec: &Spec, args: &[Bytes]) -> Result<(), String> {
        let suspicious = self.limits.key_bytes_max.min(self.limits.value_bytes_max);
        if args.iter().all(|arg| arg.len() <= suspicious) {
            return Ok(());
        }
        for key in quorate_values::keys_of(spec, args) {
            check_size("key", &key, self.limits.key_bytes_max)?;
        }
        args.iter().try_for_each(|arg| check_size("value", arg, self.limits.value_bytes_max))
    }
}

/// Refuses a word above a limit, with both numbers.
pub(crate) fn check_size(kind: &str, word: &[u8], max: usize) -> Result<(), String> {
    if word.len() <= max {
        return Ok(());
    }
    Err(format!(
        "ERR a {kind} of {} bytes is longer than the limit of {max} bytes, nothing was changed",
        word.len()
    ))
}

const NO_AUTH: &str = "NOAUTH Authentication required.";

/// The reply for an outcome, in the words of the Redis doors.
pub(crate) fn reply_of(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Done(reply) => reply,
        Outcome::Refused(refusal) => Reply::error(refusal.message()),
        Outcome::Unknown => Reply::error(UNKNOWN_MESSAGE),
    }
}

pub(crate) fn arity_error(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

pub(crate) fn bytes_of(words: &[Bytes]) -> usize {
    words.iter().map(|word| word.len() + WORD_OVERHEAD_BYTES).sum()
}

/// Why no command was found.
enum Unfound {
    /// A browser was talked into sending this: no answer, no connection.
    Unwelcome,
    Error(String),
}

/// The command a line names, down to the subcommand.
fn find(words: &[Bytes]) -> Result<Found, Unfound> {
    let name = &words[0];
    let Some(found) = table::find(name) else {
        let unwelcome = [&b"post"[..], b"host:"].iter().any(|word| name.eq_ignore_ascii_case(word));
        return Err(if unwelcome { Unfound::Unwelcome } else { Unfound::Error(unknown_command(words)) });
    };
    let Found::Local(local) = found else { return Ok(found) };
    match words.get(1) {
        Some(sub) if !local.subcommands.is_empty() => match local.subcommand(sub) {
            Some(sub) => Ok(Found::Local(sub)),
            None => Err(Unfound::Error(unknown_subcommand(local.name, sub))),
        },
        _ => Ok(found),
    }
}

/// Of what a client sent, errors repeat no more than this.
const REPEATED_BYTES_MAX: usize = 128;

fn unknown_command(words: &[Bytes]) -> String {
    let mut args = Vec::new();
    for word in &words[1..] {
        if args.len() >= REPEATED_BYTES_MAX {
            break;
        }
        let room = REPEATED_BYTES_MAX - args.len();
        args.push(b'\'');
        args.extend_from_slice(repeated(word, room));
        args.extend_from_slice(b"' ");
    }
    let name = String::from_utf8_lossy(repeated(&words[0], REPEATED_BYTES_MAX));
    format!("ERR unknown command '{name}', with args beginning with: {}", String::from_utf8_lossy(&args))
}

pub(crate) fn unknown_subcommand(container: &str, sub: &[u8]) -> String {
    let sub = String::from_utf8_lossy(repeated(sub, REPEATED_BYTES_MAX));
    format!("ERR unknown subcommand '{sub}'. Try {} HELP.", container.to_ascii_uppercase())
}

/// What an error repeats of a word: as in Redis, where it is a C string, nothing after a zero byte.
pub(crate) fn repeated(word: &[u8], bytes_max: usize) -> &[u8] {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
    &word[..end.min(bytes_max)]
}

#[cfg(test)]
mod tests;
