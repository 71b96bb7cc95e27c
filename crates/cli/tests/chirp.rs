//! Chirp on real nodes: the library, the page for browsers, and the load, whose fetches are never out of order.

mod common;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use chirp::{Chirp, ChirpError, Client, FOLLOWS_MAX, TIMELINE_LENGTH_MAX, User, serve};
use common::{Cluster, until};
use quorate_client::Outcome;

const NODES: usize = 3;

fn doors(cluster: &Cluster) -> Vec<String> {
    (1..=NODES).map(|node| cluster.door(node, "cluster")).collect()
}

fn user(name: &str) -> User {
    name.parse().expect("a name")
}

fn texts(posts: &[chirp::Post]) -> Vec<&str> {
    posts.iter().map(|post| post.text.as_str()).collect()
}

#[test]
fn users_post_follow_and_read_timelines() {
    let cluster = Cluster::up(NODES as u64, &["--buckets", "6"]);
    let mut chirp = Chirp::new(Client::new(doors(&cluster)));
    let (alice, bob, carol) = (user("alice"), user("bob"), user("carol"));
    assert_eq!(chirp.timeline(&bob, 20), Ok(Vec::new()));
    assert_eq!(chirp.follow(&bob, &[alice.clone(), carol.clone()]), Ok(2));
    assert_eq!(chirp.follow(&bob, &[carol.clone(), alice.clone()]), Ok(0));
    assert_eq!(chirp.post(&alice, "first\r\nof \"alice\"").map(|post| post.number), Ok(1));
    assert_eq!(chirp.post(&carol, &"🐦".repeat(140)).map(|post| post.number), Ok(1));
    assert_eq!(chirp.post(&alice, "second").map(|post| post.number), Ok(2));
    let timeline = chirp.timeline(&bob, 20).expect("it can be read");
    let own: Vec<_> = timeline.iter().filter(|post| post.author == alice).cloned().collect();
    assert_eq!((timeline.len(), texts(&own)), (3, vec!["second", "first\r\nof \"alice\""]));
    assert_eq!(chirp.timeline(&bob, 1).map(|posts| posts.len()), Ok(1));
    assert_eq!(chirp.unfollow(&bob, std::slice::from_ref(&carol)), Ok(1));
    assert_eq!(chirp.unfollow(&bob, std::slice::from_ref(&carol)), Ok(0));
    assert_eq!(chirp.follows(&bob), Ok(vec![alice.clone()]));

    assert_eq!(chirp.post(&alice, &"x".repeat(141)), Err(ChirpError::Length(141)));
    assert_eq!(chirp.post(&alice, ""), Err(ChirpError::Length(0)));
    assert_eq!(chirp.follow(&bob, std::slice::from_ref(&bob)), Err(ChirpError::Own(bob.clone())));
    let many: Vec<User> =
        (0..FOLLOWS_MAX).map(|number| user(&format!("somebody_with_a_name_as_long_{number}"))).collect();
    assert_eq!(chirp.follow(&bob, &many), Err(ChirpError::Full(bob.clone())));
    assert_eq!(chirp.follow(&carol, &many), Ok(FOLLOWS_MAX));
    assert_eq!(chirp.follows(&carol).map(|names| names.len()), Ok(FOLLOWS_MAX));
    assert_eq!(chirp.follow(&carol, std::slice::from_ref(&alice)), Err(ChirpError::Full(carol.clone())));
    assert_eq!(chirp.follows(&bob), Ok(vec![alice]), "all or none");
    let mut client = Client::new(doors(&cluster));
    assert_eq!(client.put("chirp:{dave}:posts", "nonsense"), Outcome::Done(()));
    let damaged = ChirpError::Damaged("chirp:{dave}:posts".into());
    assert_eq!(chirp.post(&user("dave"), "text"), Err(damaged.clone()));
    assert_eq!(chirp.feeds(&[user("dave")], 1), Err(damaged));
}

#[test]
fn posts_of_several_clients_at_once_fill_chunk_after_chunk() {
    let cluster = Cluster::up(NODES as u64, &[]);
    let doors = doors(&cluster);
    let (author, reader) = (user("author"), user("reader"));
    let mut chirp = Chirp::new(Client::new(doors.clone()));
    assert_eq!(chirp.follow(&reader, std::slice::from_ref(&author)), Ok(1));
    let (clients, each) = (3, 30);
    thread::scope(|scope| {
        for client in 0..clients {
            let (author, doors) = (&author, doors.clone());
            scope.spawn(move || {
                let mut chirp = Chirp::new(Client::new(doors));
                for number in 0..each {
                    // As long as a post can be: four bytes a character, thirteen posts a chunk.
                    let text = format!("{client}.{number} {}", "𝄞".repeat(133));
                    chirp.post(author, &text).expect("it is posted");
                }
            });
        }
        // While they post, what is read is whole and grows.
        let mut newest = 0;
        while newest < clients * each {
            let posts = chirp.timeline(&reader, 5).expect("it can be read");
            let numbers: Vec<u64> = posts.iter().map(|post| post.number).collect();
            let last = numbers.first().copied().unwrap_or(0);
            let expected: Vec<u64> = (1..=last).rev().take(5).collect();
            assert_eq!(numbers, expected);
            assert!(last >= newest, "#{last} after #{newest}");
            newest = last;
        }
    });
    // A client that has never asked finds its way to the end of the list, and back.
    let mut fresh = Chirp::new(Client::new(doors.clone()));
    let feeds = fresh.feeds(std::slice::from_ref(&author), TIMELINE_LENGTH_MAX).expect("it can be read");
    let posts = &feeds[0].posts;
    assert!(posts.len() >= TIMELINE_LENGTH_MAX, "{}", posts.len());
    assert!(posts.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
    let unique: BTreeSet<&str> = posts.iter().map(|post| post.text.as_str()).collect();
    assert_eq!(unique.len(), posts.len());
    let mut client = Client::new(doors);
    let tail = client.get("chirp:{author}:posts").done().flatten().expect("there is a tail");
    let tail: u64 = String::from_utf8_lossy(&tail).parse().expect("a number");
    assert!(tail >= 6, "{tail}");
    let keys: Vec<String> = (0..=tail).map(|chunk| format!("chirp:{{author}}:posts:{chunk}")).collect();
    for chunk in client.get_all(&keys).done().expect("chunks") {
        let bytes = chunk.expect("each is there").len();
        assert!((1..=8 << 10).contains(&bytes), "{bytes}");
    }
}

/// The answer to a request, as it comes over the wire.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the page is served");
    stream.set_read_timeout(Some(common::PATIENCE)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in UTF-8");
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

fn post(address: SocketAddr, path: &str, form: &str) -> String {
    let length = form.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Length: {length}"
    );
    ask(address, &format!("{head}\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{form}"))
}

#[track_caller]
fn assert_has(answer: &str, status: u16, words: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(words), "no `{words}` in: {answer}");
}

#[test]
fn the_page_works_in_a_browser() {
    let cluster = Cluster::up(NODES as u64, &[]);
    let doors = doors(&cluster);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let page = listener.local_addr().expect("an address");
    // Ends with the process.
    thread::spawn(move || serve(listener, &doors));
    assert_has(&get(page, "/"), 200, "Who are you?");
    assert_has(&post(page, "/follow", "user=bob&other=alice"), 303, "Location: /?user=bob\r\n");
    let written = "user=alice&text=%3Cscript%3Ealert%281%29%3C%2Fscript%3E+%26+%F0%9F%90%A6";
    assert_has(&post(page, "/post", written), 303, "Location: /?user=alice\r\n");
    let shown = get(page, "/?user=bob");
    assert_has(&shown, 200, "&lt;script&gt;alert(1)&lt;/script&gt; &amp; 🐦");
    assert!(!shown.contains("<script"), "{shown}");
    assert_has(&post(page, "/unfollow", "user=bob&other=alice"), 303, "Location: /?user=bob\r\n");
    assert_has(&get(page, "/?user=bob"), 200, "Nothing yet: follow somebody who posts.");

    let long = format!("user=alice&text={}", "x".repeat(141));
    assert_has(&post(page, "/post", &long), 400, "a post has 1 to 140 characters, and this has 141");
    assert_has(&post(page, "/follow", "user=bob&other=bob"), 400, "bob cannot follow bob");
    assert_has(&get(page, "/?user=%3Cb%3E"), 400, "`&lt;b&gt;` is no user name");
    assert_has(&get(page, "/nowhere"), 404, "there is no such page");
    assert_has(&get(page, "/post"), 405, "does not work so");
    // What is promised to be long is refused before any of it is read.
    let huge = format!("POST /post HTTP/1.1\r\nHost: {page}\r\nContent-Length: 99999999999999\r\n\r\n");
    assert_has(&ask(page, &huge), 413, "longer than 8192 bytes");
    assert_has(
        &ask(page, &huge.replace("Content-Length: 99999999999999", "Transfer-Encoding: chunked")),
        411,
        "whole",
    );
    let foreign = format!("POST /post HTTP/1.1\r\nHost: {page}\r\nOrigin: http://evil.example\r\n\r\n");
    assert_has(&ask(page, &foreign), 403, "another page");
    // More clients that say nothing than there are threads: whoever asks still gets an answer, once they are given up.
    let idle: Vec<_> =
        (0..chirp::WORKERS + 1).map(|_| TcpStream::connect(page).expect("it listens")).collect();
    assert_has(&get(page, "/"), 200, "Who are you?");
    drop(idle);
    cluster.run(&["kill", "1"]).ok();
    until("a post succeeds without the node that led", || {
        post(page, "/post", "user=alice&text=after").starts_with("HTTP/1.1 303 ")
    });
    assert_has(&get(page, "/?user=alice"), 200, "after");
}

#[test]
fn the_load_sees_every_author_in_order() {
    let cluster = Cluster::up(NODES as u64, &["--buckets", "6"]);
    let results = cluster.data.join("results.jsonl");
    let path = results.to_str().expect("UTF-8");
    let small = ["bench", "chirp", "--clients", "6", "--output", "json"];
    cluster.run(&[&small[..], &["--threads", "2"]].concat()).fails(2, "choose --clients");
    cluster.run(&[&small[..], &["--exponent", "1"]].concat()).fails(2, "exponent");
    cluster.run(&[&small[..], &["--prefix", "a:b"]].concat()).fails(2, "no user name");
    let words =
        ["--operations", "600", "--seconds", "60", "--warmup", "0", "--fetches", "2", "--results", path];
    // The second finds other users, and others followed, than it wants.
    for (users, seed) in [("60", "1"), ("40", "2")] {
        let graph = ["--users", users, "--seed", seed];
        let run = &cluster.run(&[&small[..], &words, &graph].concat()).json()["run"];
        let count = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{run:#}"));
        assert_eq!(count(&run["counts"]["done"]), 600, "{run:#}");
        assert_eq!(count(&run["out_of_order"]), 0, "{run:#}");
        assert_eq!(count(&run["update"]["count"]) + count(&run["fetch"]["count"]), 600);
        assert_eq!(count(&run["fetch"]["count"]), count(&run["fetches"]));
        assert!((350..=400).contains(&count(&run["fetches"])), "{run:#}");
        assert!(run["fetches_in_time_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{run:#}");
    }
    let paced = ["--seconds", "1.5", "--warmup", "0.2", "--rate", "60", "--users", "40"];
    let run = &cluster.run(&[&small[..], &paced].concat()).json()["run"];
    assert!(run["counts"]["done"].as_u64().is_some_and(|done| done <= 100), "{run:#}");
    assert_eq!(run["out_of_order"], 0, "{run:#}");
    let lines = std::fs::read_to_string(&results).expect("results");
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.lines().all(|line| line.starts_with("{\"benchmark\":\"chirp\"")), "{lines}");
}
