//! A host and a node in miniature: the session's requests run at once on a keyspace in memory.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use quorate_api::{
    Bucket, Command, Culprit, Outcome, Reason, ReasonKind, Refusal, Reply, Request, TransactionName, Version,
};
use quorate_resp::{
    Act, Answer, ClientRow, Connection, Facts, Limits, Parser, Protocol, Session, Setting, Step, View, World,
    render,
};
use quorate_values::model::MemorySpace;

/// 14 November 2023, 22:13:20.5 UTC.
pub(crate) const NOW_US: u64 = 1_700_000_000_500_000;

/// What the sessions of these tests may know.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestWorld {
    pub(crate) password: Option<Bytes>,
    pub(crate) clients: Vec<ClientRow>,
}

impl World for TestWorld {
    fn now_us(&self) -> u64 {
        NOW_US
    }

    fn password(&self) -> Option<&[u8]> {
        self.password.as_deref()
    }

    fn replicas(&self) -> u64 {
        2
    }

    fn facts(&self) -> Facts {
        Facts {
            operating_system: "Linux 6.1.0 x86_64".into(),
            process_id: 42,
            run_id: "0123456789abcdef0123456789abcdef01234567".into(),
            port: 6379,
            uptime_s: 100_000,
            executable: "/usr/bin/quorate".into(),
            clients_connected: 1 + self.clients.len() as u64,
            clients_max: 10_000,
            memory_used_bytes: 1_015_800,
            durable: true,
            keys: 3,
            keys_expiring: 1,
            cluster: vec![("node".into(), "1".into())],
            ..Facts::default()
        }
    }

    fn clients(&self) -> Vec<ClientRow> {
        self.clients.clone()
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |name, value: &str, settable| Setting {
            name: Cow::Borrowed(name),
            value: value.into(),
            settable,
        };
        vec![
            setting("maxclients", "10000", true),
            setting("maxmemory", "0", true),
            setting("port", "6379", false),
        ]
    }

    fn check_setting(&self, _name: &str, value: &str) -> Result<(), String> {
        value.parse::<u64>().map(|_| ()).map_err(|_| "argument must be a memory value".into())
    }
}

/// The node: one keyspace, every request at once.
#[derive(Debug)]
pub(crate) struct TestNode {
    space: MemorySpace,
    versions: BTreeMap<Bytes, u64>,
    /// What every request ends with, if not with what it asks for.
    pub(crate) ends_with: Option<Outcome>,
    /// What is told of the next request.
    pub(crate) tells: Vec<Reason>,
}

impl TestNode {
    pub(crate) fn new() -> TestNode {
        TestNode {
            space: MemorySpace::new(NOW_US / 1_000, 1),
            versions: BTreeMap::new(),
            ends_with: None,
            tells: Vec::new(),
        }
    }

    pub(crate) fn answer(&mut self, request: Request) -> Outcome {
        if let Some(outcome) = &self.ends_with {
            return outcome.clone();
        }
        Outcome::Done(match request {
            Request::One(command) => self.run(&command),
            Request::Versions(keys) => {
                Reply::Array(keys.iter().map(|key| Reply::Int(self.version(key).0 as i64)).collect())
            }
            Request::Transaction { watched, commands } => {
                if watched.iter().any(|(key, version)| self.version(key) != *version) {
                    Reply::NilArray
                } else {
                    Reply::Array(commands.iter().map(|command| self.run(command)).collect())
                }
            }
            Request::Collect { .. } => panic!("only nodes ask this"),
        })
    }

    /// What it tells of a request before it answers it: the key that has changed, if one has, or what it was told to.
    pub(crate) fn reasons(&mut self, request: &Request) -> Vec<Reason> {
        let mut reasons = std::mem::take(&mut self.tells);
        if let Request::Transaction { watched, .. } = request
            && self.ends_with.is_none()
            && let Some((key, version)) = watched.iter().find(|(key, version)| self.version(key) != *version)
        {
            let versions = Some((*version, self.version(key)));
            let by = Culprit { node: Some(3), ..Culprit::default() };
            let (kind, key) = (ReasonKind::Changed, Some(key.clone()));
            reasons.push(Reason { kind, bucket: Bucket(0), key, versions, by, waited_ms: 0 });
        }
        reasons
    }

    fn version(&self, key: &Bytes) -> Version {
        Version(self.versions.get(key).copied().unwrap_or(0))
    }

    fn run(&mut self, command: &Command) -> Reply {
        let spec = quorate_values::by_code(command.code).expect("the session takes codes from the table");
        assert!(spec.arity.allows(command.args.len() + 1), "the session checks the number of arguments");
        let before = self.space.changes();
        let reply = (spec.run)(&mut self.space, &command.args);
        if self.space.changes() != before {
            for key in quorate_values::keys_of(spec, &command.args) {
                *self.versions.entry(key).or_default() += 1;
            }
        }
        reply
    }
}

/// One connection with its parser and session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) parser: Parser,
    pub(crate) session: Session,
    pub(crate) input: BytesMut,
    pub(crate) output: Vec<u8>,
    pub(crate) acts: Vec<Act>,
    pub(crate) closed: bool,
}

impl Client {
    pub(crate) fn new(id: u64, limits: Limits) -> Client {
        let connection = Connection {
            id,
            address: format!("10.0.0.1:{}", 50_000 + id),
            local_address: "10.0.0.2:6379".into(),
            since_us: NOW_US - 5_000_000,
            view: View::Standalone,
        };
        Client {
            parser: Parser::new(limits.clone()),
            session: Session::new(connection, limits),
            input: BytesMut::new(),
            output: Vec::new(),
            acts: Vec::new(),
            closed: false,
        }
    }

    /// Takes bytes as they come, and does all that they ask for.
    pub(crate) fn receive(&mut self, bytes: &[u8], world: &dyn World, node: &mut TestNode) {
        self.input.extend_from_slice(bytes);
        while !self.closed {
            self.parser.restrict(self.session.needs_auth(world));
            match self.parser.next(&mut self.input) {
                Ok(None) => return,
                Ok(Some(words)) => self.command(words, world, node),
                Err(error) => {
                    let acts = vec![Act::Close];
                    self.take(Answer { reply: Some(error.reply()), acts }, self.session.protocol());
                }
            }
        }
    }

    fn command(&mut self, words: Vec<Bytes>, world: &dyn World, node: &mut TestNode) {
        match self.session.command(words, world) {
            Step::Answer(answer) => self.take(answer, self.session.protocol()),
            Step::Behind(then) => {
                let protocol = then.protocol();
                let answer = self.session.complete(then, Outcome::Unknown, world);
                self.take(answer, protocol);
            }
            Step::Submit { request, mut then, .. } => {
                let protocol = then.protocol();
                for reason in node.reasons(&request) {
                    then.note(reason);
                }
                let outcome = node.answer(request);
                let answer = self.session.complete(then, outcome, world);
                self.take(answer, protocol);
            }
        }
    }

    fn take(&mut self, answer: Answer, protocol: Protocol) {
        if let Some(reply) = &answer.reply {
            render(reply, protocol, &mut self.output);
        }
        self.closed |= answer.acts.contains(&Act::Close);
        self.acts.extend(answer.acts);
    }
}

/// A command line in the form clients send.
pub(crate) fn frame(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What a transcript may let the node end requests with.
pub(crate) fn outcome_named(name: &str) -> Option<Outcome> {
    match name {
        "well" => None,
        "unknown" => Some(Outcome::Unknown),
        "busy" => Some(Outcome::Refused(Refusal::Busy)),
        "leaderless" => Some(Outcome::Refused(Refusal::NoLeader)),
        other => panic!("no such end of a request: {other}"),
    }
}

/// What a transcript may let the node tell of the next request.
pub(crate) fn reason_named(name: &str) -> Reason {
    let transaction = Some(TransactionName { age_ms: NOW_US / 1_000, origin: u64::MAX, sequence: 7 });
    let by = Culprit { transaction, node: Some(u64::MAX), client: Some(12), expiry: false };
    let reason = |kind| Reason {
        kind,
        bucket: Bucket(2),
        key: Some(Bytes::from_static(b"locked")),
        versions: None,
        by,
        waited_ms: 250,
    };
    match name {
        "waited" => reason(ReasonKind::Waited),
        "gave-up" => reason(ReasonKind::GaveUp),
        "lost" => Reason { key: None, by: Culprit::default(), waited_ms: 0, ..reason(ReasonKind::Lost) },
        other => panic!("no such reason: {other}"),
    }
}
