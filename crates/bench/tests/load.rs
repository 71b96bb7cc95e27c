//! The load generator against servers that misbehave as they are told.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorate_api::history::{Ending, Record};
use quorate_bench::{Keys, LoadOptions, Machine, Mix, Pace, PlainSpec, Progress, Report, Work};
use quorate_client::resp;
use quorate_workload::{Distribution, Kind, Spec};

/// What a server does with a request, given its number: bytes to answer, or nothing and close.
type Behaviour = Arc<dyn Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// A server on a port of its own; returns its address.
fn server(behaviour: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let (behaviour, count): (Behaviour, _) = (Arc::new(behaviour), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (behaviour, count) = (Arc::clone(&behaviour), Arc::clone(&count));
            std::thread::spawn(move || serve(stream, &behaviour, &count));
        }
    });
    address
}

fn serve(mut stream: TcpStream, behaviour: &Behaviour, count: &AtomicU64) {
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        // A request has the form of an array of strings, like a reply.
        while let Ok(Some(length)) = resp::reply_length(&input) {
            let request: Vec<u8> = input.drain(..length).collect();
            let Some(answer) = behaviour(count.fetch_add(1, Ordering::SeqCst), &request) else { return };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => input.extend_from_slice(&chunk[..read]),
        }
    }
}

fn options(addresses: &[&String]) -> LoadOptions {
    LoadOptions {
        addresses: addresses.iter().map(|address| (*address).clone()).collect(),
        clients: 1,
        threads: 1,
        pace: Pace::Closed,
        warmup: Duration::ZERO,
        duration: Some(Duration::from_secs(20)),
        operations: Some(100),
        timeout: Duration::from_secs(10),
        seed: 1,
        servers: Vec::new(),
        machine: Machine::default(),
    }
}

fn plain(read_percent: u64) -> PlainSpec {
    PlainSpec {
        mix: Mix { read_percent },
        keys: 10,
        choice: Keys::Drawn(Distribution::Uniform),
        prefix: "k".into(),
        value_bytes: 8,
        pipeline: 1,
        all_exist: false,
    }
}

fn load(options: &LoadOptions, work: &Work) -> (Report, Vec<Record>) {
    let records = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&records);
    let report = quorate_bench::run(options, work, &Arc::new(Progress::default()), move |record| {
        kept.lock().expect("whole").push(record);
    });
    let records = std::mem::take(&mut *records.lock().expect("whole"));
    (report.expect("a report"), records)
}

fn ok() -> Option<Vec<u8>> {
    Some(b"+OK\r\n".to_vec())
}

#[test]
fn every_operation_is_counted_once() {
    let address = server(|_, _| ok());
    let options = LoadOptions { clients: 7, threads: 3, operations: Some(1_000), ..options(&[&address]) };
    let (report, _) = load(&options, &Work::Plain(PlainSpec { pipeline: 4, ..plain(0) }));
    assert_eq!((report.counts.done, report.counts.refused, report.counts.unknown), (1_000, 0, 0));
    assert_eq!(report.writes.map(|latency| latency.count), Some(1_000));
    assert!(report.reads.is_none());
}

#[test]
fn errors_are_told_apart() {
    let address = server(|number, _| match number % 4 {
        0 => Some(b"-UNKNOWN the deadline passed\r\n".to_vec()),
        1 => Some(b"-TRYAGAIN nothing happened\r\n".to_vec()),
        _ => ok(),
    });
    let (report, _) =
        load(&LoadOptions { operations: Some(40), ..options(&[&address]) }, &Work::Plain(plain(0)));
    assert_eq!((report.counts.done, report.counts.refused, report.counts.unknown), (20, 10, 10));
}

#[test]
fn a_server_that_says_nothing_is_left_for_the_next() {
    let silent = server(|_, _| Some(Vec::new()));
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").to_string();
    let good = server(|_, _| ok());
    let mut options = options(&[&silent, &dead, &good]);
    options.timeout = Duration::from_millis(200);
    let (report, _) = load(&options, &Work::Plain(plain(0)));
    assert_eq!((report.counts.done, report.counts.unknown, report.counts.broken), (99, 1, 1));
}

#[test]
fn nonsense_is_noticed() {
    let address = server(|number, _| if number == 5 { Some(b":7\r\n".to_vec()) } else { ok() });
    let (report, _) = load(&options(&[&address]), &Work::Plain(plain(0)));
    assert_eq!((report.counts.done, report.counts.nonsense), (99, 1));
    let address = server(|number, _| if number == 5 { Some(b"what?\r\n".to_vec()) } else { ok() });
    let (report, _) = load(&options(&[&address]), &Work::Plain(plain(0)));
    assert_eq!((report.counts.done, report.counts.unknown), (99, 1), "not even a protocol");
}

/// While a server stalls, an open loop goes on being due: a closed one would hide that in a single answer.
#[test]
fn latency_counts_from_when_an_operation_was_due() {
    const STALL: Duration = Duration::from_millis(400);
    let stalls = || {
        server(|number, _| {
            if number == 100 {
                let end = Instant::now() + STALL;
                while Instant::now() < end {
                    std::thread::park_timeout(STALL);
                }
            }
            ok()
        })
    };
    let open = LoadOptions {
        pace: Pace::Open(1_000.0),
        duration: Some(Duration::from_secs(1)),
        operations: None,
        ..options(&[&stalls()])
    };
    let (report, _) = load(&open, &Work::Plain(plain(0)));
    let latency = report.writes.expect("writes");
    assert!(latency.p90_us > 100_000.0, "{latency:?}");
    assert!(latency.max_us > 390_000.0, "{latency:?}");
    assert!(report.gap_ms_max >= 390, "{} ms", report.gap_ms_max);
    assert!((900..=1_001).contains(&(report.counts.done + report.counts.not_sent)), "{:?}", report.counts);
    let closed = LoadOptions { operations: Some(600), ..options(&[&stalls()]) };
    let (report, _) = load(&closed, &Work::Plain(plain(0)));
    assert!(report.writes.expect("writes").p90_us < 100_000.0);
}

#[test]
fn what_broke_after_sending_is_unknown_and_what_was_refused_is_not() {
    let address = server(|number, request| {
        let is_get = request.starts_with(b"*2\r\n$3\r\nGET");
        match number {
            3 => None,
            6 => Some(b"-BUSY a queue is full, nothing was changed\r\n".to_vec()),
            _ if is_get => Some(b"$-1\r\n".to_vec()),
            _ => ok(),
        }
    });
    let work = Work::Judged { spec: Spec::new(Kind::Register), first_client: 7 };
    let (report, records) = load(&LoadOptions { operations: Some(20), ..options(&[&address]) }, &work);
    let endings = |wanted| records.iter().filter(|record| record.outcome == wanted).count();
    assert_eq!((endings(Ending::Ok), endings(Ending::Fail), endings(Ending::Unknown)), (18, 1, 1));
    assert_eq!((report.counts.done, report.counts.refused, report.counts.unknown), (18, 1, 1));
    assert!(records.iter().all(|record| record.client == 7));
    let unknown = records.iter().find(|record| record.outcome == Ending::Unknown).expect("one");
    assert_eq!(unknown.end, None);
    assert_sequential(&records);
}

/// A client asks one thing at a time.
fn assert_sequential(records: &[Record]) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for record in records {
        let before = last.insert(record.client, record.end.unwrap_or(record.start)).unwrap_or(0);
        assert!(record.start >= before, "{record:?}");
    }
}

#[test]
fn transactions_that_others_made_void_are_no_refusals() {
    // WATCH, two GET, MULTI, two INCRBY, EXEC; every EXEC finds a key changed.
    let address = server(|_, request| {
        let name: Vec<u8> = request.split(|byte| *byte == b'\n').nth(2).unwrap_or_default().to_vec();
        let reply: &[u8] = match name.as_slice() {
            b"GET\r" => b"$3\r\n100\r\n",
            b"INCRBY\r" => b"+QUEUED\r\n",
            b"EXEC\r" => b"*-1\r\n",
            _ => b"+OK\r\n",
        };
        Some(reply.to_vec())
    });
    let spec = Spec { read_percent: 0, ..Spec::new(Kind::Bank) };
    let work = Work::Judged { spec, first_client: 0 };
    let (report, records) = load(&LoadOptions { operations: Some(10), ..options(&[&address]) }, &work);
    assert_eq!((report.counts.aborted, report.counts.refused, report.counts.done), (10, 0, 0));
    assert!(records.iter().all(|record| record.outcome == Ending::Fail));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let address = "127.0.0.1:1".to_owned();
    let progress = Arc::new(Progress::default());
    let refused = |options: LoadOptions| {
        let result = quorate_bench::run(&options, &Work::Plain(plain(0)), &progress, |_| {});
        result.expect_err("refused").to_string()
    };
    assert!(refused(LoadOptions { clients: 0, ..options(&[&address]) }).contains("client"));
    assert!(refused(LoadOptions { pace: Pace::Open(0.0), ..options(&[&address]) }).contains("rate"));
    assert!(
        refused(LoadOptions { addresses: vec!["nowhere".into()], ..options(&[&address]) })
            .contains("nowhere")
    );
    assert!(refused(LoadOptions { addresses: Vec::new(), ..options(&[&address]) }).contains("address"));
}
