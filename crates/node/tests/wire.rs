//! What nodes say to each other and write to disk keeps its bytes: version 1.
//!
//! Old nodes send and old disks hold these bytes. A line that changes is a new version, not a new golden file; only new
//! lines may come (`QUORATE_GOLDEN=1` writes them).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_api::{
    Bucket, Command, CommandCode, Culprit, Hold, Reason, ReasonKind, Reply, Request, SessionId,
    TransactionName, Version,
};
use quorate_commit::{LogId, NotTaken, Transaction, TransactionId};
use quorate_kernel::{NodeId, Time, wire};
use quorate_membership as membership;
use quorate_node::{
    AdminOutcome, AdminRequest, Endpoints, Group, GroupId, GroupRequest, Line, Member, Message, Name, Preset,
    Recovery, Seat, Span, Word,
};
use quorate_replog::{
    self as replog, Append, Ballot, Content, Echo, Entry, Epoch, Part, Prepare, Record, Seal, StateMeta,
};
use quorate_shard::Asked;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn member(id: u64) -> Member {
    let at = |port: u64| format!("10.0.0.{id}:{port}");
    let cluster = String::new();
    Member {
        id: NodeId(id),
        endpoints: Endpoints { peer: at(7379), client: at(6379), admin: at(8379), cluster }.into(),
    }
}

fn member_with_cluster_view(id: u64) -> Member {
    let Member { id, endpoints } = member(id);
    let cluster = format!("10.0.0.{id}:6380");
    Member { id, endpoints: Endpoints { cluster, ..(*endpoints).clone() }.into() }
}

fn log_member(id: u64) -> replog::Member {
    replog::Member { id: NodeId(id), info: Bytes::from_static(b"info") }
}

fn ballot(number: u64) -> Ballot {
    Ballot { epoch: 2, number, node: Some(NodeId(3)) }
}

fn epoch() -> Epoch {
    Epoch {
        number: 2,
        members: vec![log_member(1), log_member(3)],
        former: vec![log_member(2)],
        start: 300,
        heir: ballot(4),
    }
}

fn meta() -> StateMeta {
    StateMeta { applied: 310, applied_ballot: ballot(5), epoch: epoch(), generation: 7 }
}

fn entries() -> Vec<Entry> {
    let seal = Arc::new(Seal { members: vec![log_member(1)], former: vec![log_member(3)] });
    vec![
        Entry { ballot: ballot(5), content: Content::Command(Bytes::from_static(b"command")) },
        Entry { ballot: ballot(6), content: Content::Seal(seal) },
    ]
}

fn echo() -> Echo {
    Echo { sent_at: Time(1_000_000), round: 9 }
}

fn log_messages() -> Vec<(&'static str, replog::Message)> {
    use replog::Message;
    let prepare = Prepare {
        ballot: ballot(6),
        log_ballot: ballot(5),
        last: 311,
        trial: true,
        handed_over_by: Some(ballot(5)),
    };
    let append = Append {
        ballot: ballot(6),
        takeover: 310,
        prev: 311,
        prev_ballot: ballot(5),
        entries: entries(),
        chosen: 309,
        echo: echo(),
    };
    let rows = vec![(Bytes::from_static(b"key"), Bytes::from_static(b"value"))];
    let part = Part { ballot: ballot(6), meta: meta(), part: 1, rows, last: true };
    vec![
        ("log.prepare", Message::Prepare(prepare)),
        ("log.promise", Message::Promise { ballot: ballot(6), trial: false }),
        ("log.append", Message::Append(append)),
        ("log.accepted", Message::Accepted { ballot: ballot(6), matched: 313, echo: echo() }),
        ("log.conflict", Message::Conflict { ballot: ballot(6), matched_max: 300, echo: echo() }),
        ("log.stale", Message::Stale { promised: ballot(7), epoch: epoch(), settled: true }),
        ("log.part", Message::Part(part)),
        ("log.next_part", Message::NextPart { ballot: ballot(6), applied: 310, part: 2 }),
        ("log.handover", Message::Handover { ballot: ballot(6) }),
        ("log.retire", Message::Retire { ballot: ballot(6), epoch: epoch() }),
    ]
}

fn requests() -> Vec<Request> {
    let command = |arg: &'static str| Command { code: CommandCode(300), args: vec![Bytes::from(arg)] };
    vec![
        Request::One(command("a")),
        Request::Versions(vec![Bytes::from_static(b"b")]),
        Request::Transaction {
            watched: vec![(Bytes::from_static(b"c"), Version(5))],
            commands: vec![command("d")],
        },
        Request::Collect { part: Bytes::from_static(b"part"), known: vec![300], hold: None },
        Request::Collect {
            part: Bytes::from_static(b"part"),
            known: vec![300],
            hold: Some(Hold { name: 7, age: 5, ms: 20 }.into()),
        },
    ]
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Ok,
        Reply::Simple("PONG".into()),
        Reply::Int(-2),
        Reply::bulk("bulk"),
        Reply::Nil,
        Reply::NilArray,
        Reply::Array(vec![Reply::Int(1)]),
        Reply::Map(vec![(Reply::bulk("k"), Reply::Bool(true))]),
        Reply::Set(vec![Reply::Double(1.5)]),
        Reply::Verbatim(*b"txt", Bytes::from_static(b"words")),
        Reply::error("ERR no"),
    ]
}

fn not_taken(why: NotTaken) -> Message {
    Message::TransactionNotTaken { id: transaction_id(), why }
}

fn carried() -> Message {
    let transaction = Transaction {
        id: transaction_id(),
        coordinator: LogId(0),
        logs: vec![LogId(0), LogId(258)],
        part: Bytes::from_static(b"part"),
        others: vec![(LogId(258), Bytes::from_static(b"other"))],
        settled_before: 301,
        shares: true,
        members: Vec::new(),
    };
    Message::Carry { origin: NodeId(3), transaction: Box::new(transaction) }
}

fn transaction_id() -> TransactionId {
    TransactionId { age: 300, origin: 301, sequence: 302 }
}

fn changed() -> Box<Reason> {
    Box::new(Reason {
        kind: ReasonKind::Changed,
        bucket: Bucket(258),
        key: Some(Bytes::from_static(b"key")),
        versions: Some((Version(300), Version(301))),
        by: Culprit { node: Some(3), client: Some(300), ..Culprit::default() },
        waited_ms: 7,
    })
}

fn waited() -> Box<Reason> {
    let name = TransactionName { age_ms: 299, origin: 301, sequence: 300 };
    let by = Culprit { transaction: Some(name), expiry: true, ..Culprit::default() };
    let (kind, bucket) = (ReasonKind::Waited, Bucket(1));
    Box::new(Reason { kind, bucket, key: None, versions: None, by, waited_ms: 300 })
}

fn messages() -> Vec<(&'static str, Message)> {
    let session = SessionId(0x0123_4567_89ab_cdef);
    let change = AdminRequest::ChangeMembers { add: vec![member(4)], remove: vec![NodeId(1)] };
    let transfer = AdminRequest::TransferLeadership { to: Some(NodeId(3)) };
    let leave = membership::Message::Leave { view: membership::ViewId { seq: 300, hash: 7 } };
    let (zone, rack) = (Bytes::from_static(b"z"), Bytes::new());
    let stands = quorate_buckets::Node { id: NodeId(3), zone, rack, capacity: 300 };
    let standing = replog::Standing { log_ballot: ballot(5), last: 311 };
    let fenced = |standing| {
        let charter = Bytes::from_static(b"charter");
        Recovery::Fenced { epoch: 7 << 36, standing, fence: 7 << 36, charter }
    };
    let log = log_messages().into_iter().map(|(name, message)| (name, Message::Log(message)));
    let own = [
        ("submit", Message::Submit(Bytes::from_static(b"batch"))),
        ("answers", Message::Answers { session, first_seq: 300, replies: vec![Bytes::from_static(&[0])] }),
        ("gap", Message::Gap { session, expected: 7 }),
        ("session_lost", Message::SessionLost { session }),
        ("not_taken", Message::NotTaken),
        ("in.not_taken", Message::In(Bucket(258), Box::new(Message::NotTaken))),
        ("takes_batches", Message::TakesBatches),
        ("begin", Message::Begin { session }),
        ("begun", Message::Begun { session, since: 300 }),
        ("read", Message::Read { id: 9, requests: requests() }),
        ("read_answers", Message::ReadAnswers { id: 9, applied: 300, replies: replies() }),
        ("read_refused", Message::ReadRefused { id: 9 }),
        ("full", Message::Full),
        ("contact", Message::Contact(member(4))),
        ("contact.cluster", Message::Contact(member_with_cluster_view(4))),
        ("join", Message::Join(member(4))),
        ("admin.change", Message::Admin { id: 3, request: change }),
        ("admin.transfer", Message::Admin { id: 3, request: transfer }),
        ("admin_ended.done", Message::AdminEnded { id: 3, outcome: AdminOutcome::Done }),
        ("admin_ended.refused", Message::AdminEnded { id: 3, outcome: AdminOutcome::Refused("why".into()) }),
        ("admin_ended.unknown", Message::AdminEnded { id: 3, outcome: AdminOutcome::Unknown("why".into()) }),
        ("membership", Message::Membership(Box::new(leave))),
        ("acquaint", Message::Acquaint(vec![member(4), member_with_cluster_view(5)])),
        ("leads", Message::Leads { ballot: ballot(6) }),
        ("charter", Message::Charter(Bytes::from_static(b"charter"))),
        ("charter_wanted", Message::CharterWanted { number: 300 }),
        (
            "reason.request",
            Message::Reason { asked: Asked::Request { session, seq: 300 }, reason: changed() },
        ),
        ("reason.read", Message::Reason { asked: Asked::Read { name: 9, place: 2 }, reason: changed() }),
        (
            "reason.transaction",
            Message::Reason { asked: Asked::Transaction(transaction_id()), reason: waited() },
        ),
        ("report", Message::Report { mark: 300, members: vec![NodeId(1), NodeId(3)] }),
        ("read_index", Message::ReadIndex { id: 9 }),
        ("read_indexed", Message::ReadIndexed { id: 9, index: 300 }),
        ("admin.copies", Message::Admin { id: 4, request: AdminRequest::SetCopies { copies: 5 } }),
        ("admin.recover", Message::Admin { id: 3, request: AdminRequest::Recover { bucket: Bucket(258) } }),
        ("recovery.ask", Message::Recovery(Recovery::Ask { epoch: 7 << 36, view: 7 })),
        ("recovery.fenced", Message::Recovery(fenced(Some(standing)))),
        ("recovery.refused", Message::Recovery(fenced(None))),
        ("recovery.go_on", Message::Recovery(Recovery::GoOn { epoch: 7 << 36, charter: Bytes::new() })),
        ("recovery.era", Message::Recovery(Recovery::Era { epoch: 7 << 36 })),
        ("stands", Message::Stands(Box::new(stands))),
    ];
    own.into_iter().chain(log).chain(of_groups()).collect()
}

fn accepted(round: u64) -> replog::Message {
    replog::Message::Accepted { ballot: ballot(round), matched: 313, echo: echo() }
}

fn of_groups() -> Vec<(&'static str, Message)> {
    vec![
        ("group.seat", Message::Group(Box::new(told_seat()))),
        ("group.wants", Message::Group(Box::new(Word::Wants))),
        ("group.leaves", Message::Group(Box::new(Word::Leaves))),
        ("group.lived", Message::Group(Box::new(Word::Lived { seen: vec![(0, 0), (90_000, 3)], wanted: 9 }))),
        ("group.twice", Message::Group(Box::new(Word::Twice))),
        ("group.load", Message::Group(Box::new(Word::Load(300)))),
        ("group.echo", Message::Group(Box::new(Word::Echo { at: Time(300), is_back: true }))),
        ("group.agrees", Message::Group(Box::new(Word::Agrees(300)))),
        ("logs", Message::Logs(vec![(Bucket(0), accepted(6)), (Bucket(300), accepted(7))])),
        ("leads_all", Message::LeadsAll(vec![(Bucket(300), ballot(6))])),
        ("carry", carried()),
        ("together", Message::Together(vec![not_taken(NotTaken::Busy), not_taken(NotTaken::Settled)])),
        ("admin.group.split", of_group(GroupRequest::Split { group: GroupId(300) })),
        ("admin.group.merge", of_group(GroupRequest::Merge { group: GroupId(300) })),
        ("admin.group.repartition", of_group(GroupRequest::Repartition { group: GroupId(300), slot: 400 })),
        ("admin.group.move", of_group(GroupRequest::Move { node: NodeId(3), to: GroupId(300) })),
    ]
}

fn told_seat() -> Word {
    Word::Seat { seat: Box::new(seat()), figures: figures(), preset: Preset::Wide }
}

/// A home whose group has gone to another, but for the line of one neighbour.
fn seat() -> Seat {
    let (name, span) = (Name { id: GroupId(300), epoch: 7 }, Span { start: 1 << 63, end: 0 });
    let group = Group { name, span, members: vec![NodeId(1), NodeId(3)] };
    let gone = Line { number: 300, link: 300, group: None };
    Seat::new(gone.clone(), gone, Line { number: 9, link: 8, group: Some(group.into()) })
}

fn figures() -> Vec<(Bucket, u32, Option<NodeId>)> {
    vec![(Bucket(258), 300, Some(NodeId(3))), (Bucket(0), 0, None)]
}

fn of_group(request: GroupRequest) -> Message {
    Message::Admin { id: 5, request: AdminRequest::Group(request) }
}

fn records() -> Vec<(&'static str, quorate_node::Record)> {
    let of =
        |bucket| move |(name, record)| (name, quorate_node::Record::Log { bucket: Bucket(bucket), record });
    let other = ("in.promise", Record::Promise(ballot(6)));
    let fenced = ("in.fenced", Record::Fenced(7 << 36));
    let first = vec![
        ("promise", Record::Promise(ballot(6))),
        ("append", Record::Append { first: 311, log_ballot: ballot(5), entries: entries() }),
        ("entered", Record::Entered(epoch())),
        ("installed", Record::Installed { base: 310, base_ballot: ballot(5) }),
        ("kept", Record::Kept { promised: ballot(6), log_ballot: ballot(5), epochs: vec![epoch()] }),
        ("fenced", Record::Fenced(7 << 36)),
    ];
    let state = membership::Record::State { seq: 300, state: Bytes::from_static(b"state") };
    let membership = ("membership.state", quorate_node::Record::Membership(state));
    first.into_iter().map(of(0)).chain([other, fenced].map(of(258))).chain([membership]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("to a string");
        text
    })
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digit).collect()
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
        let old = lines.get(name).unwrap_or_else(|| panic!("{file} has no line for {name}"));
        assert_eq!(*old, hex(&wire::encode(&value)), "{name} is encoded as before");
        assert_eq!(wire::decode::<T>(&bytes_of(old)).as_ref(), Ok(&value), "{name} is decoded as before");
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
        assert!(
            wire::decode::<Message>(&[&bytes[..], &[0]].concat()).is_err(),
            "{name} and something behind it"
        );
    }
    assert!(wire::decode::<Message>(&[250, 1]).is_err(), "a kind that nobody knows");
}

/// A frame may have 48 MiB. Read level by level, these would take more stack than any thread has.
#[test]
fn whatever_lies_in_itself_a_million_times_is_refused() {
    let levels = |outer: Vec<u8>, inner: Vec<u8>| {
        let level = outer.strip_suffix(&inner[..]).expect("what it holds comes last");
        [level.repeat(1 << 20), inner].concat()
    };
    let full = wire::encode(&Message::Full);
    let one = wire::encode(&Message::In(Bucket(1), Box::new(Message::Full)));
    assert!(wire::decode::<Message>(&levels(one, full.clone())).is_err(), "of other buckets");
    let one = wire::encode(&Message::Together(vec![Message::Full]));
    assert!(wire::decode::<Message>(&levels(one, full)).is_err(), "together");
    let one = wire::encode(&Reply::Array(vec![Reply::Ok]));
    let array = levels(one, wire::encode(&Reply::Ok));
    assert!(wire::decode::<Reply>(&array).is_err(), "an array of arrays");
}
