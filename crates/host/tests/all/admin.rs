//! The operators' door.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use crate::common::{Node, PATIENCE, Wish, start, until, wish};
use quorate_host::{OutcomeReport, StatusReport, WhyReport};
use quorate_node::{GroupId, How, Policy};

fn admin_wish() -> Wish {
    let mut wish = wish();
    wish.config.listen.admin = "127.0.0.1:0".into();
    wish.config.admin.body_bytes_max = quorate_host::config::ByteCount::kib(1);
    wish
}

/// One exchange: the status code and the body.
fn exchange(node: &Node, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(node.handle.addresses().admin.expect("a door")).expect("open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("the node reads");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    let text = String::from_utf8(text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    (code, body.to_owned())
}

fn get(node: &Node, path: &str) -> (u16, String) {
    exchange(node, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

fn post(node: &Node, path: &str, body: &str) -> (u16, String) {
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json\r\n";
    exchange(node, &format!("POST {path} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

#[test]
fn pictures_of_the_node() {
    let node = start(admin_wish()).expect("started");
    let mut client = node.client();
    client.send("SET a 1\r\nGET a\r\n");
    client.expect("+OK\r\n$1\r\n1\r\n");
    let (code, body) = get(&node, "/status");
    assert_eq!(code, 200);
    let report: StatusReport = serde_json::from_str(&body).expect("a report");
    assert_eq!((report.node.role.as_str(), report.node.keys), ("toy", 1));
    assert_eq!(report.host.clients.commands, 2);
    assert!(report.process.resident_bytes > 0);
    let (code, metrics) = get(&node, "/metrics");
    assert_eq!(code, 200);
    for line in [
        "quorate_client_commands_total 2",
        "quorate_role{role=\"toy\"} 1",
        "quorate_request_duration_seconds_count{kind=\"write\"} 1",
        "quorate_request_duration_seconds_bucket{le=\"+Inf\",kind=\"read\"}",
        "quorate_log_sync_duration_seconds_count ",
        "quorate_keys 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    let (code, page) = get(&node, "/");
    assert_eq!(code, 200);
    assert!(page.contains("<h1>Node 1</h1>"), "{page}");
    assert_eq!(get(&node, "/health/live").0, 200);
    assert_eq!(get(&node, "/health/ready").0, 200);
}

/// Whatever somebody announces, the node holds no more than it reads, and lives on.
#[test]
fn announced_lengths_are_not_believed() {
    let node = start(admin_wish()).expect("started");
    let head = "Host: x\r\nContent-Type: application/json\r\n";
    for path in ["/members", "/nowhere", "/status"] {
        let (code, _) = exchange(
            &node,
            &format!("POST {path} HTTP/1.1\r\n{head}Content-Length: 99999999999999\r\n\r\n{{"),
        );
        assert!([404, 405, 413].contains(&code), "{path}: {code}");
    }
    let (code, body) = exchange(
        &node,
        &format!("POST /members HTTP/1.1\r\n{head}Content-Length: 99999999999999999999999\r\n\r\n{{"),
    );
    assert_eq!((code, body.as_str()), (400, ""));
    let chunks = format!("800\r\n{}\r\n", " ".repeat(0x800)).repeat(4);
    let (code, body) = exchange(
        &node,
        &format!("POST /members HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
    );
    assert!(code == 413 && body.contains("limit of 1024 bytes"), "{code} {body}");
    assert_eq!(get(&node, "/health/ready").0, 200);
}

#[test]
fn what_was_done_for_groups_is_told_with_its_reason_and_counted() {
    let node = start(admin_wish()).expect("started");
    let why = || serde_json::from_str::<WhyReport>(&get(&node, "/why").1).expect("a report");
    assert_eq!(why(), WhyReport::default());
    assert_eq!(post(&node, "/groups", r#"{"split":{"group":7}}"#).0, 200);
    let report = why();
    let [deed] = &report.deeds[..] else { panic!("one deed, not {report:?}") };
    assert_eq!((deed.number, deed.what.groups()), (1, vec![GroupId(7)]));
    assert_eq!(deed.motive.policy(), Policy::ByHand);
    assert_eq!(deed.end.as_ref().map(|end| &end.how), Some(&How::Done));
    let seen = || get(&node, "/metrics").1;
    until("the picture is a new one", || {
        seen().contains("quorate_group_operations_begun_total{operation=\"split\"} 1")
    });
    let metrics = seen();
    for line in [
        "quorate_group_operations_completed_total{operation=\"split\"} 1",
        "quorate_group_operations_given_up_total{operation=\"split\"} 0",
        "quorate_group_operations_begun_total{operation=\"failure\"} 0",
        "quorate_group_operation_duration_seconds_count{operation=\"split\"} 1",
        "quorate_group_operation_duration_seconds_count{operation=\"merge\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

#[test]
fn a_node_that_does_not_serve_is_not_ready() {
    let wish = admin_wish();
    wish.free.store(0, std::sync::atomic::Ordering::SeqCst);
    let node = start(wish).expect("started");
    until("it is not ready", || get(&node, "/health/ready").0 == 503);
    assert_eq!(get(&node, "/health/live").0, 200);
}

#[test]
fn operators_requests_reach_the_node() {
    let node = start(admin_wish()).expect("started");
    let outcome = |(code, body): (u16, String)| {
        (code, serde_json::from_str::<OutcomeReport>(&body).unwrap_or_else(|_| panic!("{body}")))
    };
    let (code, done) = outcome(post(&node, "/leadership", "{}"));
    assert_eq!((code, done.outcome.as_str()), (200, "done"));
    let (code, refused) = outcome(post(&node, "/members", r#"{"remove":[3]}"#));
    assert_eq!((code, refused.reason.as_deref()), (409, Some("toys do not change")));
    let (code, done) = outcome(post(&node, "/copies", r#"{"copies":5}"#));
    assert_eq!((code, done.outcome.as_str()), (200, "done"));
    assert_eq!(post(&node, "/copies", r#"{"copies":10}"#).0, 409, "toys refuse that");
    assert_eq!(post(&node, "/copies", r#"{"copies":300}"#).0, 400, "no such number");
    let (code, done) = outcome(post(&node, "/groups", r#"{"split":{"group":7}}"#));
    assert_eq!((code, done.outcome.as_str()), (200, "done"));
    assert_eq!(post(&node, "/groups", r#"{"move":{"node":3,"to":7}}"#).0, 409, "toys refuse that");
    assert_eq!(post(&node, "/groups", r#"{"join":{"group":7}}"#).0, 400, "there is no such thing");
    let (code, done) = outcome(post(&node, "/recover", r#"{"bucket":0,"accept_data_loss":true}"#));
    assert_eq!((code, done.outcome.as_str()), (200, "done"));
    let (code, refused) = outcome(post(&node, "/recover", r#"{"bucket":1,"accept_data_loss":true}"#));
    assert_eq!((code, refused.reason.as_deref()), (409, Some("that one is not halted")));
    assert_eq!(post(&node, "/recover", r#"{"bucket":0}"#).0, 400, "it must be said");
    assert_eq!(post(&node, "/recover", r#"{"bucket":0,"accept_data_loss":false}"#).0, 400);
}

#[test]
fn levels_of_the_log_change_while_running() {
    let mut wish = admin_wish();
    let set = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&set);
    wish.options.set_log_filter = Some(Arc::new(move |filter: &str| {
        if filter == "nonsense" {
            return Err("no such level".into());
        }
        filter.clone_into(&mut kept.lock().expect("not poisoned"));
        Ok(())
    }));
    let node = start(wish).expect("started");
    assert_eq!(post(&node, "/log-level", r#"{"filter":"debug"}"#).0, 200);
    assert_eq!(*set.lock().expect("not poisoned"), "debug");
    assert_eq!(post(&node, "/log-level", r#"{"filter":"nonsense"}"#).0, 400);
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let node = start(admin_wish()).expect("started");
    let wrong = [
        (get(&node, "/nothing"), 404, "there is no such path"),
        (get(&node, "/members"), 405, "takes POST only"),
        (post(&node, "/status", "{}"), 405, "takes GET only"),
        (post(&node, "/members", "{}"), 400, "name members"),
        (post(&node, "/members", "[1"), 400, "not what this path takes"),
        (post(&node, "/members", r#"{"drop":[1]}"#), 400, "unknown field"),
        (post(&node, "/members", &" ".repeat(2_000)), 413, "limit of 1024 bytes"),
        (post(&node, "/log-level", r#"{"filter":"x"}"#), 501, "without levels"),
        (
            exchange(
                &node,
                "POST /members HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
            ),
            415,
            "JSON",
        ),
    ];
    for ((code, body), expected, words) in wrong {
        assert_eq!(code, expected, "{body}");
        assert!(body.contains(words), "{words} is missing in {body}");
        assert!(serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["error"].is_string());
    }
}
