use super::*;
use crate::{Act, ClientRow, Facts, Setting, View};
use alloc::vec;
use quorate_api::{Refusal, Version};

mod cluster;
mod named;

struct Quiet {
    password: Option<&'static [u8]>,
    clients: Vec<ClientRow>,
}

impl World for Quiet {
    fn now_us(&self) -> u64 {
        1_000_000
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
        self.clients.clone()
    }
    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "maxmemory".into(), value: "0".into(), settable: true }]
    }
    fn check_setting(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

const WORLD: Quiet = Quiet { password: None, clients: Vec::new() };

fn connection(id: u64) -> Connection {
    let (address, local_address) = (format!("10.0.0.1:{id}"), "10.0.0.2:6379".into());
    Connection { id, address, local_address, since_us: 0, view: View::Standalone }
}

fn session() -> Session {
    Session::new(connection(1), Limits::production())
}

fn words(line: &str) -> Vec<Bytes> {
    line.split_whitespace().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn step(session: &mut Session, line: &str) -> Step {
    session.command(words(line), &WORLD)
}

/// Runs a command that is answered at once.
fn answer(session: &mut Session, line: &str) -> Answer {
    match step(session, line) {
        Step::Answer(answer) => answer,
        Step::Submit { request, .. } => panic!("{line} went to the node: {request:?}"),
        Step::Behind(then) => session.complete(then, Outcome::Unknown, &WORLD),
    }
}

fn reply(session: &mut Session, line: &str) -> Reply {
    answer(session, line).reply.unwrap_or_else(|| panic!("{line} is answered with silence"))
}

/// Runs a command that goes to the node.
fn submit(session: &mut Session, line: &str) -> (Request, Consistency, Then) {
    match step(session, line) {
        Step::Submit { request, consistency, then, .. } => (request, consistency, then),
        other => panic!("{line} was answered: {other:?}"),
    }
}

fn versions(versions: &[i64]) -> Outcome {
    Outcome::Done(Reply::Array(versions.iter().copied().map(Reply::Int).collect()))
}

/// WATCH that brings back these versions.
fn watch(session: &mut Session, line: &str, outcome: Outcome) -> Reply {
    let (request, consistency, then) = submit(session, line);
    assert_eq!(request, Request::Versions(words(line)[1..].to_vec()));
    assert_eq!(consistency, Consistency::Strict);
    assert!(!session.may_continue());
    let answer = session.complete(then, outcome, &WORLD);
    assert!(session.may_continue());
    answer.reply.expect("WATCH is answered")
}

fn command(line: &str) -> Command {
    let mut args = words(line);
    let name = args.remove(0);
    Command { code: quorate_values::find(&name).expect("a data command").code, args }
}

#[test]
fn data_commands_go_to_the_node() {
    let mut session = session();
    let (request, consistency, then) = submit(&mut session, "GET a");
    assert_eq!(request, Request::One(command("get a")));
    assert_eq!(consistency, Consistency::Strict);
    assert!(session.may_continue(), "later commands need not wait for it");
    let answer = session.complete(then, Outcome::Done(Reply::Nil), &WORLD);
    assert_eq!(answer, Answer::from(Reply::Nil));
}

#[test]
fn outcomes_become_replies() {
    let refusals =
        [Refusal::NoLeader, Refusal::Busy, Refusal::NoSpace, Refusal::NoMemory, Refusal::NotServing];
    let mut session = session();
    for refusal in refusals {
        let (_, _, then) = submit(&mut session, "set a 1");
        let answer = session.complete(then, Outcome::Refused(refusal), &WORLD);
        assert_eq!(answer.reply, Some(Reply::error(refusal.message())));
    }
    let (_, _, then) = submit(&mut session, "set a 1");
    assert_eq!(session.complete(then, Outcome::Unknown, &WORLD).reply, Some(Reply::error(UNKNOWN_MESSAGE)));
}

#[test]
fn exec_carries_the_versions_of_its_watches() {
    let mut session = session();
    assert_eq!(watch(&mut session, "watch b a", versions(&[7, 0])), Reply::Ok);
    // The first version counts: a change between the two WATCHes must be noticed.
    assert_eq!(watch(&mut session, "watch b c", versions(&[9, 3])), Reply::Ok);
    reply(&mut session, "multi");
    assert_eq!(reply(&mut session, "incr a"), Reply::Simple("QUEUED".into()));
    let (request, consistency, then) = submit(&mut session, "exec");
    let watched = [("a", 0), ("b", 7), ("c", 3)];
    let watched = watched.map(|(key, version)| (Bytes::from_static(key.as_bytes()), Version(version)));
    assert_eq!(
        request,
        Request::Transaction { watched: watched.to_vec(), commands: vec![command("incr a")] }
    );
    assert_eq!(consistency, Consistency::Strict);
    assert!(session.may_continue(), "there is nothing to merge");
    assert_eq!(session.complete(then, Outcome::Done(Reply::NilArray), &WORLD).reply, Some(Reply::NilArray));
    // Nothing of it is left.
    reply(&mut session, "multi");
    reply(&mut session, "get a");
    let (request, _, _) = submit(&mut session, "exec");
    assert_eq!(request, Request::Transaction { watched: Vec::new(), commands: vec![command("get a")] });
}

#[test]
fn a_failed_watch_makes_the_next_exec_fail() {
    for outcome in
        [Outcome::Refused(Refusal::NoLeader), Outcome::Unknown, Outcome::Done(Reply::error("ERR x"))]
    {
        let mut session = session();
        assert!(matches!(watch(&mut session, "watch a", outcome), Reply::Error(_)));
        reply(&mut session, "multi");
        reply(&mut session, "set a 1");
        assert_eq!(reply(&mut session, "exec"), Reply::NilArray);
        reply(&mut session, "multi");
        reply(&mut session, "set a 1");
        submit(&mut session, "exec");
    }
}

#[test]
fn unwatch_forgives_a_failed_watch() {
    let mut session = session();
    watch(&mut session, "watch a", Outcome::Unknown);
    reply(&mut session, "unwatch");
    reply(&mut session, "multi");
    reply(&mut session, "set a 1");
    submit(&mut session, "exec");
}

#[test]
fn reads_between_watch_and_exec_are_strict() {
    let mut session = session();
    reply(&mut session, "quorate consistency relaxed");
    assert_eq!(submit(&mut session, "get a").1, Consistency::Relaxed);
    watch(&mut session, "watch a", versions(&[1]));
    assert_eq!(submit(&mut session, "get a").1, Consistency::Strict);
    reply(&mut session, "unwatch");
    assert_eq!(submit(&mut session, "get a").1, Consistency::Relaxed);
    reply(&mut session, "multi");
    reply(&mut session, "get a");
    assert_eq!(submit(&mut session, "exec").1, Consistency::Strict);
}

#[test]
fn local_commands_of_a_transaction_run_when_it_has_happened() {
    let mut session = session();
    reply(&mut session, "multi");
    for line in ["client setname x", "incr a", "client getname", "client kill id 9", "get a"] {
        assert_eq!(reply(&mut session, line), Reply::Simple("QUEUED".into()));
    }
    let (request, _, then) = submit(&mut session, "exec");
    assert_eq!(
        request,
        Request::Transaction { watched: Vec::new(), commands: vec![command("incr a"), command("get a")] }
    );
    assert!(!session.may_continue());
    assert!(session.facts().name.is_empty());
    let answer =
        session.complete(then, Outcome::Done(Reply::Array(vec![Reply::Int(1), Reply::bulk("1")])), &WORLD);
    assert!(session.may_continue());
    let merged = vec![Reply::Ok, Reply::Int(1), Reply::bulk("x"), Reply::Int(0), Reply::bulk("1")];
    assert_eq!(answer, Answer { reply: Some(Reply::Array(merged)), acts: Vec::new() });
}

#[test]
fn acts_inside_a_transaction_reach_the_host() {
    let mut session = session();
    reply(&mut session, "multi");
    reply(&mut session, "client pause 5 write");
    reply(&mut session, "config set maxmemory 1");
    let answer = answer(&mut session, "exec");
    assert_eq!(answer.reply, Some(Reply::Array(vec![Reply::Ok, Reply::Ok])));
    let acts = [
        Act::Pause { duration_ms: 5, writes_only: true },
        Act::Configure(vec![("maxmemory".into(), "1".into())]),
    ];
    assert_eq!(answer.acts, acts);
}

#[test]
fn refused_commands_spoil_the_transaction_and_free_its_memory() {
    for bad in ["nosuchcommand a", "get", "client nosuch", "save", "hello 3", "client reply skip"] {
        let mut session = session();
        reply(&mut session, "multi");
        reply(&mut session, "set a 1");
        assert!(matches!(reply(&mut session, bad), Reply::Error(_)), "{bad}");
        assert_eq!(session.facts().queued, Some(0));
        assert_eq!(reply(&mut session, "set b 1"), Reply::Simple("QUEUED".into()));
        assert_eq!(session.facts().queued, Some(0));
        let Reply::Error(error) = reply(&mut session, "exec") else { panic!("{bad} does not spoil") };
        assert!(error.0.starts_with("EXECABORT "), "{bad}");
        assert!(matches!(reply(&mut session, "exec"), Reply::Error(_)));
    }
}

#[test]
fn errors_that_leave_the_transaction_alone() {
    for harmless in ["multi", "watch a"] {
        let mut session = session();
        reply(&mut session, "multi");
        assert!(matches!(reply(&mut session, harmless), Reply::Error(_)));
        reply(&mut session, "get a");
        submit(&mut session, "exec");
    }
}

#[test]
#[should_panic(expected = "waits for an outcome")]
fn a_held_session_takes_no_command() {
    let mut session = session();
    submit(&mut session, "watch a");
    step(&mut session, "ping");
}

#[test]
fn silence_reaches_the_node_and_back() {
    let mut session = session();
    assert_eq!(answer(&mut session, "client reply skip"), Answer::default());
    let (_, _, then) = submit(&mut session, "set a 1");
    let (_, _, spoken) = submit(&mut session, "get a");
    assert_eq!(session.complete(spoken, Outcome::Done(Reply::Nil), &WORLD).reply, Some(Reply::Nil));
    assert_eq!(session.complete(then, Outcome::Done(Reply::Ok), &WORLD).reply, None);
    assert_eq!(answer(&mut session, "client reply off"), Answer::default());
    // What is to be done is done in silence, too.
    assert_eq!(answer(&mut session, "quit"), Answer { reply: None, acts: vec![Act::Close] });
}

#[test]
fn the_protocol_of_a_reply_is_that_of_its_command() {
    let mut session = session();
    let (_, _, before) = submit(&mut session, "get a");
    reply(&mut session, "hello 3");
    let (_, _, after) = submit(&mut session, "get a");
    assert_eq!((before.protocol(), after.protocol()), (Protocol::Resp2, Protocol::Resp3));
    assert_eq!(session.protocol(), Protocol::Resp3);
}

#[test]
fn killing_finds_others_and_itself() {
    let row = |id| {
        let other = Session::new(connection(id), Limits::production());
        ClientRow {
            id,
            address: format!("10.0.0.1:{id}"),
            local_address: "10.0.0.2:6379".into(),
            age_s: id,
            idle_s: 0,
            input_bytes: 0,
            output_bytes: 0,
            session: other.facts(),
        }
    };
    let world = Quiet { password: None, clients: vec![row(2), row(3)] };
    let cases: [(&str, i64, Vec<Act>); 9] = [
        ("client kill id 2", 1, vec![Act::KillClients(vec![2])]),
        ("client kill type normal", 2, vec![Act::KillClients(vec![2, 3])]),
        ("client kill skipme no", 3, vec![Act::KillClients(vec![2, 3]), Act::Close]),
        ("client kill addr 10.0.0.1:3", 1, vec![Act::KillClients(vec![3])]),
        ("client kill laddr 10.0.0.2:6379 id 3", 1, vec![Act::KillClients(vec![3])]),
        ("client kill maxage 3", 1, vec![Act::KillClients(vec![3])]),
        ("client kill id 1", 0, vec![]),
        ("client kill id 1 skipme no", 1, vec![Act::Close]),
        ("client kill type replica", 0, vec![]),
    ];
    for (line, count, acts) in cases {
        let Step::Answer(answer) = session().command(words(line), &world) else { panic!("{line}") };
        assert_eq!(answer, Answer { reply: Some(Reply::Int(count)), acts }, "{line}");
    }
    let Step::Answer(old) = session().command(words("client kill 10.0.0.1:3"), &world) else { panic!() };
    assert_eq!(old, Answer { reply: Some(Reply::Ok), acts: vec![Act::KillClients(vec![3])] });
    let Step::Answer(list) = session().command(words("client list"), &world) else { panic!() };
    let Some(Reply::Verbatim(_, lines)) = list.reply else { panic!("{list:?}") };
    assert_eq!(lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"id=")).count(), 3);
}

#[test]
fn a_password_gates_all_but_the_opening() {
    let world = Quiet { password: Some(b"sesame"), clients: Vec::new() };
    let mut session = session();
    assert!(session.needs_auth(&world));
    let mut ask = |line: &str| match session.command(words(line), &world) {
        Step::Answer(answer) => answer.reply.expect("an answer"),
        Step::Submit { .. } | Step::Behind(_) => panic!("{line} passed"),
    };
    for found in table::all() {
        let Found::Local(local) = found else { continue };
        if local.needs_no_auth() {
            assert!(["auth", "hello", "quit", "reset"].contains(&local.name), "{}", local.name);
        }
    }
    assert_eq!(ask("get a"), Reply::error(NO_AUTH));
    assert_eq!(ask("multi"), Reply::error(NO_AUTH));
    assert_eq!(ask("auth sesame"), Reply::Ok);
    assert!(!session.needs_auth(&world));
    assert!(matches!(session.command(words("get a"), &world), Step::Submit { .. }));
}

#[test]
fn browsers_are_shown_the_door() {
    for line in ["POST / HTTP/1.1", "Host: localhost"] {
        assert_eq!(answer(&mut session(), line), Answer { reply: None, acts: vec![Act::Close] });
    }
}

#[test]
fn limits_are_exact_and_named() {
    let limits = Limits::tiny();
    let mut session = Session::new(connection(1), limits.clone());
    let long = "k".repeat(limits.key_bytes_max + 1);
    let line = format!("mset a 1 {long} 2");
    let expected = "ERR a key of 17 bytes is longer than the limit of 16 bytes, nothing was changed";
    assert_eq!(reply(&mut session, &line), Reply::error(expected));
    // As a value it passes.
    submit(&mut session, &format!("set a {long}"));
    let value = "v".repeat(limits.value_bytes_max + 1);
    let expected = "ERR a value of 33 bytes is longer than the limit of 32 bytes, nothing was changed";
    assert_eq!(reply(&mut session, &format!("set a {value}")), Reply::error(expected));
}

#[test]
fn the_table_is_sound() {
    let mut names: Vec<&str> = table::all().map(Found::name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name is used twice");
    for found in table::all() {
        assert!(
            matches!(table::find(found.name().to_ascii_uppercase().as_bytes()), Some(same) if same.name() == found.name())
        );
        for sub in found.subcommands() {
            let (container, short) =
                sub.name.split_once('|').expect("subcommands are named after their container");
            assert_eq!(container, found.name());
            assert!([2, 3, 4, 8].iter().any(|words| sub.arity.allows(*words)), "{short}");
        }
        // Every container can tell what it contains.
        assert!(
            found.subcommands().is_empty()
                || found.subcommands().iter().any(|sub| sub.short_name() == "help")
        );
    }
}

#[test]
fn no_local_command_panics_on_few_or_odd_words() {
    for found in table::all() {
        let Found::Local(local) = found else { continue };
        let lines = core::iter::once(local.name.replace('|', " "))
            .chain(local.subcommands.iter().map(|sub| sub.name.replace('|', " ")));
        for line in lines {
            for extra in [
                "",
                " a",
                " 1",
                " a b",
                " 1 2",
                " id 1",
                " get",
                " on off x",
                " -1 0 0 0",
                " yes no maybe 4 5 6",
            ] {
                for multi in [false, true] {
                    let mut session = session();
                    if multi {
                        reply(&mut session, "multi");
                    }
                    step(&mut session, &format!("{line}{extra}"));
                    if multi && session.facts().queued.is_some() {
                        step(&mut session, "exec");
                    }
                }
            }
        }
    }
}

#[test]
fn an_explanation_comes_after_what_it_explains() {
    let mut session = session();
    watch(&mut session, "WATCH a", versions(&[3]));
    reply(&mut session, "MULTI");
    reply(&mut session, "GET a");
    let (_, _, mut exec) = submit(&mut session, "EXEC");
    let Step::Behind(explain) = step(&mut session, "QUORATE EXPLAIN") else { panic!("it waits") };
    let (_, _, later) = submit(&mut session, "GET a");
    let by = quorate_api::Culprit::default();
    let (kind, bucket) = (quorate_api::ReasonKind::Busy, quorate_api::Bucket(1));
    exec.note(quorate_api::Reason { kind, bucket, key: None, versions: None, by, waited_ms: 5 });
    session.complete(exec, Outcome::Done(Reply::Array(Vec::from([Reply::Nil]))), &WORLD);
    // It does not matter what has ended since.
    session.complete(later, Outcome::Unknown, &WORLD);
    let Some(Reply::Map(fields)) = session.complete(explain, Outcome::Unknown, &WORLD).reply else {
        panic!("a map")
    };
    let field = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| *field == Reply::bulk(Bytes::copy_from_slice(name.as_bytes())))
            .map(|(_, value)| value)
    };
    assert_eq!(field("outcome"), Some(&Reply::bulk("done")));
    assert_eq!(field("attempts"), Some(&Reply::Int(2)));
}
