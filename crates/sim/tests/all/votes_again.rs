//! A participant's log keeps a vote without the replies of its commands: whoever leads it next finds them again (`quorate-shard`'s `aside.rs`).

use std::time::Duration;

use quorate_api::Reply;

use crate::alone::{ME, Stage};

#[test]
fn who_leads_next_says_with_a_vote_what_was_said_before() {
    let mut stage = Stage::new(None);
    let long = "a value that is long enough".repeat(9);
    let brief = ["SET", "brief", &long, "PX", "2000"];
    let set = stage.begin_with(1, &[&["SET", "x", &long, "PX", "600000"], &["SET", "n", "41"], &brief]);
    stage.end(set);
    // What they say follows from values, also one whose time is soon over, from the time and from what comes before.
    let id = stage
        .begin_with(2, &[&["GET", "x"], &["PTTL", "x"], &["INCR", "n"], &["GET", "n"], &["GET", "brief"]]);
    let first = stage.vote(id).expect("a vote");
    assert!(matches!(&first.replies[1], (2, Reply::Int(left)) if *left < 600_000), "{:?}", first.replies);
    assert_eq!(first.replies[3..], [(4, Reply::bulk("42")), (5, Reply::bulk(long))]);
    assert_eq!(stage.0.marks().count("shard.vote.found_again"), 0);

    stage.0.crash(ME);
    stage.0.restart(ME);
    stage.0.harness_mut().said.clear();
    stage.0.run_for(Duration::from_secs(60));
    stage.query(id);
    assert_eq!(stage.vote(id), Some(first), "after a minute, by another life");
    assert!(stage.0.marks().count("shard.vote.found_again") > 0, "they were not in the log");
    stage.end(id);
    stage.read(1, &["GET", "n"]);
    assert_eq!(stage.answer(1), Some(&Reply::bulk("42")));
}
