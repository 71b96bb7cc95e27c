//! Transactions that their clients name.

use super::*;
use quorate_api::Identity;

fn named(line: &str) -> (Request, Option<Identity>) {
    match step(&mut session(), line) {
        Step::Submit { request, identity, .. } => (request, identity.map(|boxed| *boxed)),
        other => panic!("{line} was answered: {other:?}"),
    }
}

fn refusal(line: &str) -> String {
    match reply(&mut session(), line) {
        Reply::Error(error) => error.0,
        other => panic!("{line} was answered: {other:?}"),
    }
}

#[test]
fn a_transaction_carries_the_name_that_its_client_gave_it() {
    let (request, identity) = named("quorate txn 18446744073709551615 7 123 5 2 a 3 b 0 2 3 set a x 2 del c");
    let expected = Identity { age_ms: 123, origin: u64::MAX, sequence: 7, settled_before: 5 };
    assert_eq!(identity, Some(expected));
    let Request::Transaction { watched, commands } = request else { panic!("{request:?}") };
    let watched: Vec<_> = watched.iter().map(|(key, version)| (key.as_ref(), version.0)).collect();
    assert_eq!(watched, [(&b"a"[..], 3), (b"b", 0)]);
    let names: Vec<_> =
        commands.iter().map(|command| quorate_values::by_code(command.code).unwrap().name).collect();
    assert_eq!(names, ["set", "del"]);
    assert_eq!(commands[0].args, words("a x"));
    let (_, identity) = named("quorate txn 1 1 0 0 1 a 3 0");
    assert!(identity.is_some(), "it may only watch");
    let (request, _, _) = submit(&mut session(), "quorate versions a b");
    assert_eq!(request, Request::Versions(words("a b")));
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    for (line, why) in [
        ("quorate txn x 1 0 0 0 1 2 get a", "origin is not a number"),
        ("quorate txn -1 1 0 0 0 1 2 get a", "origin is not a number"),
        ("quorate txn 1 0 0 0 0 1 2 get a", "sequence 0 is out of range"),
        ("quorate txn 1 18446744073709551615 0 0 0 1 2 get a", "out of range"),
        ("quorate txn 1 5 0 6 0 1 2 get a", "below 6 cannot be settled while 5"),
        ("quorate txn 1 5 0 5 2000 1 2 get a", "watched keys is 2000, above the limit of 1024"),
        ("quorate txn 1 5 0 5 1 a b 1 2 get a", "a version is not a number"),
        ("quorate txn 1 5 0 5 1 a 1 1", "a command's words is missing"),
        ("quorate txn 1 5 0 5 1 a 1 1 3 get a", "words are missing"),
        ("quorate txn 1 5 0 5 0 2 2 get a", "number of a command's words is missing"),
        ("quorate txn 1 5 0 5 0 1 0", "words are missing"),
        ("quorate txn 1 5 0 5 0 1 1 get", "wrong number of arguments for 'get'"),
        ("quorate txn 1 5 0 5 0 1 1 multi", "'multi' is no command about data"),
        ("quorate txn 1 5 0 5 0 1 2 get a b", "1 words stand behind"),
        ("quorate txn 1 5 0 5 0 0", "watches nothing and runs nothing"),
        ("quorate txn 1 5 0 5 0", "wrong number of arguments"),
    ] {
        assert!(refusal(line).contains(why), "{line}: {}", refusal(line));
    }
    let many = format!("quorate versions {}", "k ".repeat(1_025));
    assert!(refusal(&many).contains("at most 1024 keys"));
}

#[test]
fn it_is_refused_inside_multi() {
    let mut session = session();
    reply(&mut session, "multi");
    assert!(matches!(reply(&mut session, "quorate txn 1 5 0 5 0 1 2 get a"), Reply::Error(_)));
    assert!(matches!(reply(&mut session, "exec"), Reply::Error(_)));
}
