//! What nodes say to each other about membership and write to disk keeps its bytes: version 1.
//!
//! A line that changes is a new version, not a new golden file; only new lines may come (`QUORATE_GOLDEN=1` writes them).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_kernel::{NodeId, wire};
use quorate_membership::{
    Base, Change, Config, Cut, Digest, Input, JoinerMeta, Membership, Message, Meta, Rank, Record, Refusal,
    Report, RingSet, Step, View, ViewId, Vote, Voters, Votes,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn id(seq: u64) -> ViewId {
    ViewId { seq, hash: 0x0123_4567_89ab_cdef }
}

fn meta() -> Meta {
    Meta {
        peer: Bytes::from_static(b"10.0.0.7:7379"),
        info: Bytes::from_static(b"10.0.0.7:6379"),
        zone: Bytes::from_static(b"b"),
        rack: Bytes::from_static(b"r"),
        capacity: 300,
    }
}

fn cut() -> Cut {
    Cut {
        changes: vec![
            Change::Remove { id: NodeId(3) },
            Change::Join { id: NodeId(7), meta: Arc::new(meta()) },
        ],
    }
}

/// Views are made by the machine alone, so they are read from their bytes: members 1 and 3, of view 300.
fn view() -> View {
    let mut bytes = wire::encode(&id(300));
    bytes.extend_from_slice(&[2, 1, 1, 0, 0, 0, 0, 5, 3, 172, 2, 0, 0, 1, b'a', 0, 9]);
    wire::decode(&bytes).expect("a view")
}

fn rank() -> Rank {
    Rank { round: 4, node: NodeId(3) }
}

fn voters() -> Voters {
    wire::decode(&[2, 5, 1]).expect("voters")
}

fn messages() -> Vec<(&'static str, Message)> {
    let digest = Digest(300, 7);
    let view_id = id(300);
    let down = Report { subject: NodeId(3), now: RingSet(5), before: RingSet(0), meta: None };
    let up = Report { subject: NodeId(7), meta: Some(JoinerMeta(Arc::new(meta()))), ..down.clone() };
    let votes = vec![Votes { rank: Rank::FAST, digest, voters: voters() }];
    vec![
        ("probe", Message::Probe { view: view_id, number: 9 }),
        ("probe_answer", Message::ProbeAnswer { view: view_id, number: 9, bootstrapping: true }),
        ("prejoin", Message::PreJoin { meta: meta() }),
        ("observers", Message::Observers { view: view_id, observers: vec![(NodeId(1), RingSet(1023))] }),
        ("join", Message::Join { view: view_id, meta: meta() }),
        ("welcome", Message::Welcome { view: view_id }),
        ("refused", Message::Refused { reason: Refusal::AddressTaken }),
        ("news", Message::News { view: view_id, epoch: 2, reports: vec![down, up], votes }),
        ("phase1a", Message::Phase1a { view: view_id, rank: rank() }),
        ("phase1b", Message::Phase1b { view: view_id, rank: rank(), voted: Some((Rank::FAST, digest)) }),
        ("phase2a", Message::Phase2a { view: view_id, rank: rank(), cut: Arc::new(cut()) }),
        ("outdone", Message::Outdone { view: view_id, promised: rank() }),
        ("ask", Message::Ask { view: view_id, digest }),
        ("value", Message::Value { view: view_id, cut: Arc::new(cut()) }),
        ("newer", Message::Newer { view: view_id }),
        ("pull", Message::Pull { view: view_id }),
        ("cuts", Message::Cuts { view: view_id, cuts: vec![cut()] }),
        ("whole", Message::Whole { view: view(), state: Some(Bytes::from_static(b"state")) }),
        ("leave", Message::Leave { view: view_id }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let step = Some(Step { from: id(299), cut: Arc::new(cut()) });
    let base = Some(Base { view: view(), state: Bytes::from_static(b"state"), cuts: vec![cut()] });
    vec![
        ("installed", Record::Installed { view: view(), cut: step.clone(), state: None, base }),
        ("state", Record::State { seq: 300, state: Bytes::from_static(b"state") }),
        (
            "acceptor",
            Record::Acceptor {
                view: id(300),
                promised: rank(),
                vote: Some(Vote { rank: Rank::FAST, cut: Arc::new(cut()) }),
            },
        ),
        ("outside", Record::Outside { view: view(), cut: step }),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("to a string");
        text
    })
}

/// Compares samples with the lines of a golden file, both ways.
fn compare<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    file: &str,
    samples: Vec<(&'static str, T)>,
) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/wire/v1").join(file);
    let text: String =
        samples.iter().map(|(name, value)| format!("{name} {}\n", hex(&wire::encode(value)))).collect();
    if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(&path, text).expect("the golden file is written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file is there");
    let lines: BTreeMap<&str, &str> = golden.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.len(), samples.len(), "a line for every sample in {file}, and no other");
    for (name, value) in samples {
        assert_eq!(
            lines.get(name).copied(),
            Some(&*hex(&wire::encode(&value))),
            "{name} is encoded as before"
        );
        assert_eq!(wire::decode::<T>(&wire::encode(&value)).as_ref(), Ok(&value), "{name} comes back");
    }
}

#[test]
fn messages_keep_their_bytes() {
    compare("messages.txt", messages());
}

#[test]
fn records_keep_their_bytes() {
    compare("records.txt", records());
}

#[test]
fn whatever_is_cut_or_unknown_is_refused() {
    for (name, message) in messages() {
        let bytes = wire::encode(&message);
        for end in 0..bytes.len() {
            assert!(wire::decode::<Message>(&bytes[..end]).is_err(), "{name} cut at {end}");
        }
    }
    assert!(wire::decode::<Message>(&[250, 1]).is_err(), "a kind that nobody knows");
}

/// Whatever arrives, a member goes on: nonsense is ignored.
#[test]
fn nonsense_changes_nothing() {
    use quorate_kernel::{Cx, Event, Machine, Marks, Position, Rng, Time, Wall};
    let founders: Vec<_> = (1..=3).map(|id| (NodeId(id), Meta::default())).collect();
    let mut machine = Membership::new(NodeId(1), Config::production(), Meta::default(), founders);
    let (mut rng, mut marks) = (Rng::new(1), Marks::default());
    let mut store = quorate_store::MemoryStore::default();
    let mut out = quorate_membership::Out::new(Position(1));
    let mut step = |event| {
        let cx = &mut Cx {
            me: NodeId(1),
            now: Time(1_000_000_000),
            wall: Wall::default(),
            rng: &mut rng,
            store: &mut store,
            marks: &mut marks,
        };
        machine.step(cx, event, &mut out);
        machine.check();
    };
    step(Event::Start);
    // A view that was asked for is believed: nodes of one cluster trust each other.
    for (_, msg) in messages().into_iter().filter(|(name, _)| *name != "whole") {
        step(Event::Message { from: NodeId(2), msg });
    }
    step(Event::Input(Input::State { seq: 77, state: Bytes::new() }));
    let last = machine.view().expect("a founder");
    assert_eq!(last.seq(), 1);
}
