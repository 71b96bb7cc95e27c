//! Any bytes from a client: nothing panics, limits hold, and it does not matter how the bytes are cut.
//!
//! The first byte of an input says how long the pieces are and how requests end; the rest is what the client sends.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use quorate_api::{Outcome, Refusal, Reply, Request};
use quorate_resp::{
    Act, ClientRow, Connection, Facts, Limits, Parser, Session, Setting, Step, View, World, render,
};

struct Bare {
    password: Option<&'static [u8]>,
}

impl World for Bare {
    fn now_us(&self) -> u64 {
        1_700_000_000_000_000
    }

    fn password(&self) -> Option<&[u8]> {
        self.password
    }

    fn replicas(&self) -> u64 {
        2
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn clients(&self) -> Vec<ClientRow> {
        Vec::new()
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "maxmemory".into(), value: "0".into(), settable: true }]
    }

    fn check_setting(&self, _name: &str, value: &str) -> Result<(), String> {
        value.parse::<u64>().map(|_| ()).map_err(|error| error.to_string())
    }
}

/// An end that fits the request.
fn outcome_of(request: &Request, choice: u8) -> Outcome {
    match choice % 4 {
        0 => Outcome::Unknown,
        1 => Outcome::Refused(Refusal::NoLeader),
        _ => Outcome::Done(match request {
            Request::One(_) => Reply::Nil,
            Request::Versions(keys) => Reply::Array(vec![Reply::Int(1); keys.len()]),
            Request::Transaction { commands, .. } => Reply::Array(vec![Reply::Ok; commands.len()]),
            Request::Collect { .. } => panic!("only nodes ask this"),
        }),
    }
}

/// All that the client gets to read.
fn converse(bytes: &[u8], piece: usize, choice: u8) -> Vec<u8> {
    let limits = if choice & 16 == 0 { Limits::tiny() } else { Limits::production() };
    let world = Bare { password: (choice & 32 != 0).then_some(b"x") };
    let view = if choice & 64 == 0 { View::Standalone } else { View::Cluster };
    let connection =
        Connection { id: 1, address: "a:1".into(), local_address: "b:2".into(), since_us: 0, view };
    let mut parser = Parser::new(limits.clone());
    let mut session = Session::new(connection, limits.clone());
    let mut buffer = BytesMut::new();
    let mut output = Vec::new();
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            parser.restrict(session.needs_auth(&world));
            let words = match parser.next(&mut buffer) {
                Ok(Some(words)) => words,
                Ok(None) => break,
                Err(error) => {
                    render(&error.reply(), session.protocol(), &mut output);
                    return output;
                }
            };
            assert!(words.iter().map(|word| word.len()).sum::<usize>() <= limits.command_bytes_max);
            let (answer, protocol) = match session.command(words, &world) {
                Step::Answer(answer) => (answer, session.protocol()),
                Step::Behind(then) => {
                    let protocol = then.protocol();
                    (session.complete(then, Outcome::Unknown, &world), protocol)
                }
                Step::Submit { request, then, .. } => {
                    let protocol = then.protocol();
                    (session.complete(then, outcome_of(&request, choice), &world), protocol)
                }
            };
            assert!(session.may_continue());
            if let Some(reply) = &answer.reply {
                render(reply, protocol, &mut output);
            }
            if answer.acts.contains(&Act::Close) {
                return output;
            }
            let facts = session.facts();
            assert!(facts.queued.unwrap_or(0) <= limits.queued_commands_max);
            assert!(facts.queued_bytes <= limits.queued_bytes_max);
        }
    }
    output
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let whole = converse(bytes, bytes.len().max(1), *choice);
    let cut = converse(bytes, usize::from(choice >> 6) * 3 + 1, *choice);
    assert_eq!(whole, cut, "it matters how the bytes are cut");
});
