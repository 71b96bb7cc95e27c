//! The native client against real nodes, some of which are killed: one hop, transactions, and changes that happen at most once.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Cluster, until};
use quorate_client::{Client, Counters, Options, Outcome, Refusal};

const NODES: usize = 3;
const ACCOUNTS: usize = 12;
const OPENING: i64 = 100;
const CLERKS: usize = 4;

fn doors(cluster: &Cluster, door: &str) -> Vec<String> {
    (1..=NODES).map(|node| cluster.door(node, door)).collect()
}

/// A client that gives a hanging node little time.
fn client(addresses: Vec<String>) -> Client {
    let patience = Duration::from_millis(800);
    Client::with_options(
        addresses,
        Options { patience, deadline: Duration::from_secs(30), ..Options::default() },
    )
}

fn account(number: usize) -> String {
    format!("account:{number}")
}

fn text<B: AsRef<[u8]>>(value: Option<B>) -> String {
    value.map(|bytes| String::from_utf8_lossy(bytes.as_ref()).into_owned()).unwrap_or_default()
}

fn differs(now: Counters, before: Counters) -> (u64, u64) {
    (now.asked - before.asked, now.moved - before.moved)
}

#[test]
fn requests_take_one_hop_and_transactions_span_buckets() {
    let cluster = Cluster::up(3, &["--buckets", "6"]);
    let mut client = client(doors(&cluster, "cluster"));
    for number in 0..40 {
        assert_eq!(client.put(format!("k{number}"), number.to_string()), Outcome::Done(()));
    }
    until("leaders stay, every leader is known, and no question is asked twice", || {
        let before = client.counters();
        for number in 0..40 {
            let value = client.get(format!("k{number}")).map(text);
            assert_eq!(value, Outcome::Done(number.to_string()));
        }
        differs(client.counters(), before) == (40, 0)
    });
    // Keys of several buckets and one that is not there, at one instant.
    let several = Outcome::Done(vec!["3".to_owned(), String::new(), "7".to_owned()]);
    let texts = |values: Vec<Option<_>>| values.into_iter().map(text).collect::<Vec<_>>();
    assert_eq!(client.get_all(&["k3", "none", "k7"]).map(texts), several);
    let mut transaction = client.begin();
    transaction.put("k7", "seven");
    assert_eq!(transaction.get("k3").map(text), Outcome::Done("3".into()));
    let values = transaction.get_all(&["k3", "k7", "k9", "none", "k9"]).map(texts);
    assert_eq!(values, Outcome::Done(["3", "seven", "9", "", "9"].map(str::to_owned).into()));
    assert_eq!(Client::new(doors(&cluster, "client")).put("k9", "changed"), Outcome::Done(()));
    assert_eq!(transaction.commit(), Outcome::Refused(Refusal::Conflict));
    assert_eq!(client.get_all(&["k7"]).map(texts), Outcome::Done(vec!["7".to_owned()]));
    assert_eq!(client.get_all::<&str>(&[]), Outcome::Done(Vec::new()));
    assert_eq!(client.delete("k0"), Outcome::Done(true));
    assert_eq!(client.delete("k0"), Outcome::Done(false));

    let mut transaction = client.begin();
    assert_eq!(transaction.get("k1").map(text), Outcome::Done("1".into()));
    transaction.put("k1", "one");
    transaction.delete("k2");
    assert_eq!(transaction.get("k1").map(text), Outcome::Done("one".into()));
    assert_eq!(transaction.get("k2"), Outcome::Done(None));
    transaction.abort();
    assert_eq!(client.get("k1").map(text), Outcome::Done("1".into()));

    let mut other = Client::new(doors(&cluster, "client"));
    let mut transaction = client.begin();
    assert_eq!(transaction.get("k1").map(text), Outcome::Done("1".into()));
    transaction.put("k3", "three");
    assert_eq!(other.put("k1", "changed"), Outcome::Done(()));
    assert_eq!(transaction.commit(), Outcome::Refused(Refusal::Conflict));
    assert_eq!(client.get("k3").map(text), Outcome::Done("3".into()));
}

/// A Redis client of one node.
struct Plain(TcpStream);

impl Plain {
    fn of(address: &str) -> Plain {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        Plain(stream)
    }

    /// Sends a transaction up to its end: each command is answered with one line.
    fn begin(&mut self, commands: &str) {
        self.0.write_all(format!("{commands}\r\n").as_bytes()).expect("a connection");
        for _ in commands.lines() {
            self.until(b"\r\n");
        }
    }

    /// Sends some commands and returns their answers, lines and all.
    fn ask(&mut self, commands: &str) -> String {
        self.0.write_all(format!("{commands}\r\nECHO over\r\n").as_bytes()).expect("a connection");
        self.until(b"$4\r\nover\r\n")
    }

    fn until(&mut self, end: &[u8]) -> String {
        let mut told = Vec::new();
        while !told.ends_with(end) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("an answer");
            told.push(byte[0]);
        }
        String::from_utf8_lossy(&told).replace("\r\n", " ")
    }
}

/// What EXPLAIN says of one reason: its cause, bucket, key, and whether a node and a transaction are named.
fn reason(told: &str) -> (String, String, String, bool, bool) {
    let behind = |field: &str| {
        let value = told.split(field).nth(1).expect("the field is there");
        value
            .trim_start()
            .split(' ')
            .find(|word| !word.starts_with('$') || *word == "$-1")
            .expect("a value")
            .to_owned()
    };
    let is_known = |field: &str| behind(field) != "$-1";
    (behind(" cause "), behind(" bucket "), behind(" key "), is_known(" node "), is_known(" transaction "))
}

#[test]
fn an_exec_that_did_nothing_is_explained_on_any_node() {
    let cluster = Cluster::up(3, &["--buckets", "2"]);
    let doors = doors(&cluster, "client");
    // `bar` lies in the first bucket, `foo` in the second.
    for (number, exec, changes) in [
        // In one bucket, and changed by one command.
        (0, "WATCH foo\r\nMULTI\r\nSET foo 2", "SET foo 1"),
        // Over two.
        (1, "WATCH foo\r\nMULTI\r\nSET bar 2", "SET foo 1"),
        (2, "WATCH foo\r\nMULTI\r\nSET bar 2", "MSET foo 1 bar 1"),
        // It only reads, in one and over both.
        (0, "WATCH foo\r\nMULTI\r\nGET foo", "SET foo 1"),
        (2, "WATCH foo\r\nMULTI\r\nGET bar", "MSET foo 1 bar 1"),
    ] {
        let (mut one, mut other) = (Plain::of(&doors[number]), Plain::of(&doors[(number + 1) % NODES]));
        one.begin(exec);
        other.ask(changes);
        assert!(one.ask("EXEC").starts_with("*-1 "), "{exec}");
        let told = one.ask("QUORATE EXPLAIN");
        let (cause, bucket, key, node, transaction) = reason(&told);
        assert_eq!([&cause[..], &bucket, &key], ["changed", ":1", "foo"], "{told}");
        assert_eq!(transaction, changes.starts_with("MSET"), "{told}");
        assert!(node || transaction, "{told}");
        assert!(other.ask("QUORATE EXPLAIN").starts_with("$-1 "), "it has nothing to explain");
    }
    let mut one = Plain::of(&doors[0]);
    one.begin("MULTI\r\nSET foo 3\r\nSET bar 3");
    assert!(one.ask("EXEC").starts_with("*2 "));
    assert!(one.ask("QUORATE EXPLAIN").contains(" outcome $4 done "));
}

#[test]
fn one_bucket_and_no_cluster_door_will_do() {
    let cluster = Cluster::up(3, &[]);
    let mut client = client(doors(&cluster, "client"));
    assert_eq!(client.get("a"), Outcome::Done(None));
    assert_eq!(client.put("a", "1"), Outcome::Done(()));
    let mut transaction = client.begin();
    assert_eq!(transaction.get("a").map(text), Outcome::Done("1".into()));
    assert_eq!(transaction.get("b"), Outcome::Done(None));
    transaction.put("b", "2");
    assert_eq!(transaction.commit(), Outcome::Done(()));
    assert_eq!(client.get("b").map(text), Outcome::Done("2".into()));
}

/// What became of a clerk's transfers, by their ids.
#[derive(Default)]
struct Book {
    done: BTreeSet<String>,
    refused: BTreeSet<String>,
    unknown: BTreeSet<String>,
    counters: Counters,
}

/// Moves money between accounts and notes each transfer under its id, in a key of its own and in the books of both accounts, until it
/// is told to stop.
fn transfer_until(clerk: usize, mut client: Client, stop: &AtomicBool) -> Book {
    let mut book = Book::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let id = format!("{clerk}.{number}");
        let (from, to) = ((clerk + number) % ACCOUNTS, (clerk + number * 5 + 1) % ACCOUNTS);
        if from == to {
            continue;
        }
        match transfer(&mut client, &id, from, to) {
            Outcome::Done(()) => book.done.insert(id),
            Outcome::Refused(_) => book.refused.insert(id),
            Outcome::Unknown(_) => book.unknown.insert(id),
        };
    }
    book.counters = client.counters();
    book
}

fn transfer(client: &mut Client, id: &str, from: usize, to: usize) -> Outcome<()> {
    let mut transaction = client.begin();
    for (number, change) in [(from, -1), (to, 1)] {
        // `balance id id id ...`
        let content = match transaction.get(account(number)) {
            Outcome::Done(value) => text(value),
            Outcome::Refused(why) => return Outcome::Refused(why),
            Outcome::Unknown(why) => return Outcome::Unknown(why),
        };
        let (balance, ids) = content.split_once(' ').unwrap_or((&content, ""));
        let balance: i64 = balance.parse().expect("a balance");
        transaction.put(account(number), format!("{} {id} {ids}", balance + change));
    }
    transaction.commit()
}

#[test]
fn transfers_happen_at_most_once_while_nodes_are_killed() {
    let cluster = Cluster::up(3, &["--buckets", "5"]);
    let addresses = doors(&cluster, "cluster");
    let mut first = client(addresses.clone());
    for number in 0..ACCOUNTS {
        assert_eq!(first.put(account(number), format!("{OPENING} ")), Outcome::Done(()));
    }
    let stop = AtomicBool::new(false);
    let books: Vec<Book> = std::thread::scope(|scope| {
        let clerks: Vec<_> = (0..CLERKS)
            .map(|clerk| {
                let (client, stop) = (client(addresses.clone()), &stop);
                scope.spawn(move || transfer_until(clerk, client, stop))
            })
            .collect();
        for round in 0..4 {
            let node = (round % NODES + 1).to_string();
            let begun = Instant::now();
            until("clerks have worked for a while", || begun.elapsed() > Duration::from_millis(700));
            cluster.run(&["kill", &node]).ok();
            until("they have worked without it", || begun.elapsed() > Duration::from_millis(2_500));
            cluster.run(&["revive", &node]).ok();
        }
        stop.store(true, Ordering::Relaxed);
        clerks.into_iter().map(|clerk| clerk.join().expect("a clerk")).collect()
    });
    judge(&mut first, &books);
}

/// All accounts at one instant.
fn look(client: &mut Client) -> Vec<String> {
    for _ in 0..100 {
        let mut transaction = client.begin();
        let contents: Vec<String> = (0..ACCOUNTS)
            .map(|number| text(transaction.get(account(number)).done().expect("nodes are back")))
            .collect();
        if transaction.commit() == Outcome::Done(()) {
            return contents;
        }
    }
    panic!("nobody writes any more, and the accounts change");
}

fn judge(client: &mut Client, books: &[Book]) {
    let contents = look(client);
    let mut balance = 0;
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for content in &contents {
        let mut words = content.split_whitespace();
        balance += words.next().and_then(|word| word.parse::<i64>().ok()).expect("a balance");
        words.for_each(|id| *seen.entry(id).or_default() += 1);
    }
    assert_eq!(balance, OPENING * ACCOUNTS as i64, "money was lost or made");
    let ids = |of: fn(&Book) -> &BTreeSet<String>| -> BTreeSet<&str> {
        books.iter().flat_map(of).map(String::as_str).collect()
    };
    let (done, refused) = (ids(|book| &book.done), ids(|book| &book.refused));
    let unknown = ids(|book| &book.unknown);
    for (id, times) in &seen {
        assert_eq!(*times, 2, "{id} is to be in the books of two accounts");
        assert!(!refused.contains(id), "{id} was refused and is there");
        assert!(done.contains(id) || unknown.contains(id), "{id}: nobody made it");
    }
    for id in &done {
        assert!(seen.contains_key(id), "{id} was acknowledged and is not there");
    }
    let broken: u64 = books.iter().map(|book| book.counters.broken).sum();
    println!(
        "{} done, {} refused, {} unknown; {broken} connections broke",
        done.len(),
        refused.len(),
        unknown.len()
    );
    assert!(done.len() > 50, "clerks got nowhere: {}", done.len());
    assert!(broken > 0, "nobody noticed the kills");
}
