//! A test for each claim of the papers that the log builds on, and for each departure from them. The names begin with
//! paper and section: `vsr` is Liskov and Cowling, Viewstamped Replication Revisited (2012); `raft` is Ongaro,
//! Consensus: Bridging Theory and Practice (2014); `stop_sign` is Lamport, Malkhi and Zhou (2010).

use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::NodeId;
use quorate_replog::session::{Admission, Session};
use quorate_replog::{Append, Ballot, Config, Echo, Input, Member, Message, Prepare, Timer};
use quorate_sim::replog::Stage;

const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);
const N3: NodeId = NodeId(3);
const N4: NodeId = NodeId(4);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three logs; node 1 leads.
fn led() -> Stage {
    with_lease(Duration::ZERO)
}

fn with_lease(lease: Duration) -> Stage {
    let config = Config { heartbeat: ms(10), election: ms(100), lease, ..Config::tiny() };
    let mut stage = Stage::new(config);
    [N1, N2, N3].iter().for_each(|node| stage.enter(*node, &[N1, N2, N3]));
    // A restarted node may have granted a lease: nobody promises anything before that is over.
    stage.wait(lease);
    elect(&mut stage, N1, &[N1, N2, N3]);
    stage.take_said();
    stage
}

/// `node` is elected by those who hear each other.
fn elect(stage: &mut Stage, node: NodeId, among: &[NodeId]) {
    for _ in 0..10 {
        if stage.log(node).leads() {
            return;
        }
        stage.wait(ms(200));
        stage.fire(node, Timer::Election);
        reach(stage, among);
        stage.lose(|_, _, _| true);
    }
    panic!("{node:?} is not elected: {}", stage.take_said());
}

/// Everything between these nodes arrives.
fn reach(stage: &mut Stage, among: &[NodeId]) {
    stage.deliver(true, |from, to, _| among.contains(&from) && among.contains(&to));
}

fn all(stage: &mut Stage) {
    stage.deliver(true, |_, _, _| true);
}

fn change(ticket: u64, add: &[NodeId], remove: &[NodeId]) -> Input {
    let add = add.iter().map(|id| Member { id: *id, info: Bytes::new() }).collect();
    Input::Change { ticket, add, remove: remove.to_vec() }
}

#[test]
fn vsr_4_1_an_operation_is_committed_when_a_quorum_has_it() {
    let mut stage = led();
    stage.propose(N1, "a");
    assert_eq!(stage.log(N1).chosen(), 0, "the primary alone is no quorum");
    reach(&mut stage, &[N1, N2]);
    assert_eq!((stage.log(N1).chosen(), stage.log(N1).applied()), (1, 1));
    assert_eq!(stage.log(N2).chosen(), 0, "a backup learns of it with the next message");
    stage.propose(N1, "b");
    reach(&mut stage, &[N1, N2]);
    assert_eq!(stage.log(N2).chosen(), 1);
}

#[test]
fn vsr_4_1_a_backup_accepts_in_order_only() {
    let mut stage = led();
    stage.propose(N1, "a");
    stage.lose(|_, to, _| to == N2);
    stage.propose(N1, "b");
    stage.deliver(false, |_, to, _| to == N2);
    assert_eq!(stage.log(N2).last(), 0, "an entry without its predecessor is not taken");
    assert_eq!(stage.mark("replog.append.conflict"), 1);
    all(&mut stage);
    assert_eq!(stage.log(N2).last(), 2, "and comes again with it");
}

#[test]
fn vsr_4_1_departure_the_own_copy_counts_when_it_is_on_disk() {
    let mut stage = led();
    stage.hold_disk(N1, true);
    stage.propose(N1, "a");
    reach(&mut stage, &[N1, N2]);
    assert_eq!(stage.log(N1).chosen(), 0, "one disk has it");
    all(&mut stage);
    assert_eq!(stage.log(N1).chosen(), 1, "two other disks have it");
}

#[test]
fn vsr_4_2_the_new_primary_has_every_committed_operation() {
    let mut stage = led();
    stage.propose(N1, "a");
    reach(&mut stage, &[N1, N2]);
    stage.lose(|_, _, _| true);
    stage.crash(N1);
    stage.wait(ms(300));
    stage.fire(N3, Timer::Election);
    reach(&mut stage, &[N2, N3]);
    assert!(!stage.log(N3).leads(), "node 3 lacks a committed operation");
    elect(&mut stage, N2, &[N2, N3]);
    all(&mut stage);
    stage.fire(N2, Timer::Heartbeat);
    all(&mut stage);
    assert_eq!((stage.log(N2).chosen(), stage.log(N3).chosen()), (1, 1));
}

#[test]
fn vsr_4_2_the_later_normal_view_wins_over_the_longer_log() {
    let mut stage = led();
    for value in ["x", "y", "z"] {
        stage.propose(N1, value);
    }
    stage.lose(|_, _, _| true);
    elect(&mut stage, N2, &[N2, N3]);
    stage.propose(N2, "a");
    reach(&mut stage, &[N2, N3]);
    stage.lose(|_, _, _| true);
    assert!(stage.log(N1).last() > stage.log(N3).last());
    stage.crash(N2);
    stage.wait(ms(300));
    stage.fire(N1, Timer::Heartbeat);
    stage.fire(N1, Timer::Election);
    reach(&mut stage, &[N1, N3]);
    assert!(!stage.log(N1).leads(), "its log is longer, and of an earlier view");
    elect(&mut stage, N3, &[N1, N3]);
    stage.fire(N3, Timer::Heartbeat);
    all(&mut stage);
    assert_eq!(stage.log(N1).last(), 1, "the tail of the earlier view is gone");
}

#[test]
fn vsr_4_2_messages_of_earlier_views_are_ignored() {
    let mut stage = led();
    stage.propose(N1, "late");
    elect_without_losing(&mut stage, N2, &[N2, N3]);
    stage.deliver(false, |from, _, _| from == N1);
    assert_eq!((stage.log(N2).last(), stage.log(N3).last()), (0, 0));
    assert!(stage.mark("replog.append.stale") > 0);
    all(&mut stage);
    assert!(!stage.log(N1).leads(), "the old primary learns of the new view");
}

/// As [`elect`], but what others have sent stays on its way.
fn elect_without_losing(stage: &mut Stage, node: NodeId, among: &[NodeId]) {
    while !stage.log(node).leads() {
        stage.wait(ms(200));
        stage.fire(node, Timer::Election);
        reach(stage, among);
    }
}

#[test]
fn vsr_4_3_departure_a_replica_recovers_from_its_own_disk_and_keeps_its_promises() {
    let mut stage = led();
    stage.propose(N1, "a");
    reach(&mut stage, &[N1, N2]);
    stage.lose(|_, _, _| true);
    for node in [N1, N2, N3] {
        stage.crash(node);
    }
    // All at once: in the paper none of them could recover.
    for node in [N1, N2, N3] {
        stage.restart(node);
    }
    elect(&mut stage, N2, &[N1, N2, N3]);
    let ballot = stage.log(N2).leading();
    assert!(ballot.is_some_and(|ballot| ballot.number > 1), "{ballot:?}: the first ballot is not led again");
    stage.fire(N2, Timer::Heartbeat);
    all(&mut stage);
    assert_eq!(stage.log(N3).chosen(), 1);
}

#[test]
fn vsr_4_3_departure_what_the_disk_did_not_confirm_was_told_to_nobody() {
    let mut stage = led();
    stage.hold_disk(N2, true);
    stage.hold_disk(N3, true);
    stage.propose(N1, "a");
    all(&mut stage);
    assert_eq!(stage.log(N1).chosen(), 0, "no acknowledgement has left");
    stage.crash(N2);
    stage.restart(N2);
    assert_eq!(stage.log(N2).last(), 0);
}

#[test]
fn vsr_4_5_a_request_sent_again_is_answered_with_the_first_result() {
    let mut session = Session::default();
    assert_eq!(session.admit(1), Admission::Apply);
    session.finish(1, Bytes::from_static(b"first"), 7);
    assert_eq!(session.admit(1), Admission::Replay(Bytes::from_static(b"first")));
    assert_eq!(session.admit(2), Admission::Apply);
}

#[test]
fn vsr_5_2_departure_state_transfer_cuts_nothing_before_it_has_what_follows() {
    let mut stage = led();
    stage.propose(N1, "a");
    reach(&mut stage, &[N1, N2]);
    stage.propose(N1, "b");
    stage.lose(|_, _, _| true);
    stage.crash(N1);
    stage.restart(N1);
    elect(&mut stage, N1, &[N1, N3]);
    stage.fire(N1, Timer::Heartbeat);
    stage.deliver(false, |_, to, _| to == N2);
    assert!(stage.mark("replog.append.conflict") > 0, "node 2 lacks b");
    assert_eq!(stage.log(N2).last(), 1, "and keeps a, though it does not know that a is chosen");
    assert_eq!(stage.log(N2).chosen(), 0);
}

#[test]
fn stop_sign_nothing_is_proposed_behind_it() {
    let mut stage = led();
    stage.enter(N4, &[]);
    stage.ask(N1, change(1, &[N4], &[]));
    stage.deliver(true, |from, to, _| [N1, N4].contains(&from) && [N1, N4].contains(&to));
    assert_eq!(stage.mark("replog.seal.proposed"), 1);
    let last = stage.log(N1).last();
    assert!(!stage.log(N1).can_propose());
    stage.propose(N1, "too late");
    assert_eq!(stage.log(N1).last(), last);
    all(&mut stage);
    assert_eq!(stage.log(N1).epoch().number, 2);
    assert!(stage.log(N1).can_propose());
}

#[test]
fn stop_sign_new_members_count_from_the_next_epoch_on() {
    let mut stage = led();
    stage.enter(N4, &[]);
    stage.ask(N1, change(1, &[N4], &[]));
    reach(&mut stage, &[N1, N4]);
    let seal = stage.log(N1).last();
    assert_eq!(stage.log(N4).last(), seal, "two of the four have the seal");
    assert_eq!(stage.log(N1).chosen(), seal - 1, "but only one of the three who decide");
    reach(&mut stage, &[N1, N2]);
    assert_eq!(stage.log(N1).chosen(), seal);
    stage.propose(N1, "a");
    reach(&mut stage, &[N1, N2]);
    assert_eq!(stage.log(N1).chosen(), seal, "two of four are no quorum");
    reach(&mut stage, &[N1, N4]);
    assert_eq!(stage.log(N1).chosen(), seal + 1);
}

#[test]
fn stop_sign_one_change_at_a_time_and_none_on_top_of_an_unchosen_takeover() {
    let mut stage = led();
    stage.propose(N1, "a");
    stage.lose(|_, to, _| to == N3);
    reach(&mut stage, &[N1, N2]);
    stage.lose(|_, _, _| true);
    stage.crash(N1);
    stage.wait(ms(300));
    stage.fire(N2, Timer::Election);
    stage.deliver(true, |_, _, msg| matches!(msg, Message::Prepare(_) | Message::Promise { .. }));
    assert!(
        stage.log(N2).leads() && !stage.log(N2).is_ready(),
        "what it took over is not chosen under its ballot yet"
    );
    stage.take_said();
    stage.ask(N2, change(1, &[], &[N1]));
    assert!(stage.take_said().contains("change 1 refused: the leader has only just taken over"));
    stage.fire(N2, Timer::Heartbeat);
    all(&mut stage);
    stage.enter(N4, &[]);
    stage.ask(N2, change(2, &[N4], &[]));
    stage.take_said();
    stage.ask(N2, change(3, &[], &[N1]));
    assert!(stage.take_said().contains("change 3 refused: another member change is under way"));
}

#[test]
fn stop_sign_former_members_stay_until_a_quorum_of_the_successor_has_everything() {
    let mut stage = led();
    stage.enter(N4, &[]);
    stage.ask(N1, change(1, &[N4], &[N1, N2, N3]));
    reach(&mut stage, &[N1, N4]);
    stage.lose(|_, to, _| to == N4);
    reach(&mut stage, &[N1, N2, N3]);
    assert!(stage.log(N1).leads() && !stage.log(N1).is_member(), "a caretaker");
    stage.lose(|_, to, _| to == N4);
    stage.fire(N1, Timer::Heartbeat);
    reach(&mut stage, &[N1, N2, N3]);
    assert!(!stage.log(N2).is_retired() && !stage.log(N1).is_retired());
    for _ in 0..20 {
        stage.run(ms(20), &[N1, N2, N3, N4]);
    }
    assert!(stage.log(N4).leads());
    assert!([N1, N2, N3].iter().all(|node| stage.log(*node).is_retired()));
}

#[test]
fn raft_3_5_logs_that_agree_at_an_index_agree_before_it() {
    let mut stage = led();
    for value in ["a", "b", "c"] {
        stage.propose(N1, value);
    }
    stage.deliver(false, |_, to, _| to == N2);
    stage.lose(|_, _, _| true);
    elect(&mut stage, N2, &[N2, N3]);
    stage.propose(N2, "d");
    stage.fire(N2, Timer::Heartbeat);
    reach(&mut stage, &[N2, N3]);
    stage.propose(N2, "e");
    for (left, right) in [(N1, N2), (N2, N3), (N1, N3)] {
        let (left, right) = (stage.log(left), stage.log(right));
        let agree = |index: &u64| left.ballot_at(*index) == right.ballot_at(*index);
        let newest = (1..=left.last().min(right.last())).rfind(agree).unwrap_or(0);
        assert_eq!(newest, left.last().min(right.last()).min(4));
        assert!((1..=newest).all(|index| agree(&index)));
    }
}

#[test]
fn raft_3_6_2_departure_an_old_entry_counts_once_the_whole_takeover_has_arrived() {
    let mut stage = led();
    stage.config_mut().append_bytes_max = 50;
    for node in [N1, N2, N3] {
        stage.crash(node);
        stage.restart(node);
    }
    elect(&mut stage, N1, &[N1, N2, N3]);
    stage.propose(N1, "old1");
    stage.propose(N1, "old2");
    stage.lose(|_, _, _| true);
    stage.crash(N1);
    stage.restart(N1);
    stage.wait(ms(300));
    stage.fire(N1, Timer::Election);
    let small = |msg: &Message| !matches!(msg, Message::Append(append) if append.prev == 1);
    stage.deliver(true, |_, _, msg| small(msg));
    assert!(stage.log(N1).leads());
    assert_eq!((stage.log(N2).last(), stage.log(N3).last()), (1, 1), "old1 is everywhere");
    assert_eq!(stage.log(N1).chosen(), 0, "and not chosen: node 1 took over two entries");
    all(&mut stage);
    assert_eq!(stage.log(N1).chosen(), 2, "no entry of the own ballot was needed");
}

#[test]
fn raft_3_10_a_leader_hands_over_to_a_follower_that_has_everything() {
    let mut stage = led();
    stage.propose(N1, "a");
    stage.ask(N1, Input::Transfer(Some(N3)));
    assert!(!stage.on_the_way().any(|(_, _, msg)| matches!(msg, Message::Handover { .. })), "node 3 lacks a");
    assert!(!stage.log(N1).can_propose(), "nothing is taken meanwhile");
    all(&mut stage);
    assert!(stage.log(N3).leads() && !stage.log(N1).leads());
}

#[test]
fn raft_3_10_departure_a_leader_waits_for_a_successor_that_is_further_away_than_a_timeout() {
    let mut stage = led();
    stage.run(ms(150), &[N1, N2]);
    all(&mut stage);
    stage.ask(N1, Input::Transfer(Some(N3)));
    stage.run(ms(140), &[N1, N2]);
    assert_eq!(stage.mark("replog.transfer.failed"), 0, "node 3 cannot have been heard yet");
    all(&mut stage);
    assert!(stage.log(N3).leads() && !stage.log(N1).leads());
    stage.ask(N3, Input::Transfer(Some(N1)));
    stage.run(ms(310), &[N2, N3]);
    assert_eq!(stage.mark("replog.transfer.failed"), 1, "but not for ever");
}

#[test]
fn raft_6_4_a_read_without_lease_asks_a_quorum_and_all_waiting_reads_share_the_round() {
    let mut stage = led();
    stage.ask(N1, Input::Read(1));
    stage.ask(N1, Input::Read(2));
    stage.ask(N1, Input::Read(3));
    assert!(!stage.take_said().contains("says read"));
    reach(&mut stage, &[N1, N2]);
    let said = stage.take_said();
    assert!(["read 1 at 0", "read 2 at 0", "read 3 at 0"].iter().all(|read| said.contains(read)), "{said}");
    assert_eq!(stage.mark("replog.read.round"), 2, "one for the first, one for those that came meanwhile");
}

#[test]
fn raft_6_4_1_a_lease_is_given_by_followers_and_ends_earlier_for_the_leader() {
    let mut stage = with_lease(ms(80));
    stage.propose(N1, "a");
    all(&mut stage);
    stage.take_said();
    stage.wait(ms(78));
    stage.ask(N1, Input::Read(1));
    assert!(stage.take_said().contains("read 1 at 1"));
    stage.wait(ms(1));
    stage.ask(N1, Input::Read(2));
    assert!(!stage.take_said().contains("says read 2"), "both clocks may be wrong by one percent");
}

#[test]
fn raft_9_6_a_node_that_returns_disturbs_nobody() {
    let mut stage = led();
    stage.run(ms(150), &[N1, N2]);
    stage.lose(|_, _, _| true);
    stage.fire(N3, Timer::Election);
    let before = stage.log(N1).leading();
    stage.deliver(true, |_, _, msg| matches!(msg, Message::Prepare(_) | Message::Promise { .. }));
    assert_eq!(stage.mark("replog.prepare.trial_refused"), 2);
    stage.run(ms(50), &[N1, N2, N3]);
    assert_eq!(stage.log(N1).leading(), before);
}

#[test]
fn nonsense_from_a_peer_is_ignored_and_marked() {
    let mut stage = led();
    let foreign = Ballot { epoch: 1, number: 9, node: Some(N2) };
    let prepare =
        Prepare { ballot: foreign, log_ballot: foreign, last: 9, trial: false, handed_over_by: None };
    stage.inject(N3, N1, Message::Prepare(prepare));
    assert_eq!(stage.mark("replog.prepare.forged"), 1);
    let append = Append {
        ballot: foreign,
        takeover: 0,
        prev: 0,
        prev_ballot: Ballot::default(),
        entries: Vec::new(),
        chosen: 0,
        echo: Echo::default(),
    };
    stage.inject(N3, N1, Message::Append(append));
    assert_eq!(stage.mark("replog.append.forged"), 1);
    let ballot = stage.log(N1).leading().expect("node 1 leads");
    stage.inject(N4, N1, Message::Accepted { ballot, matched: 1, echo: Echo::default() });
    assert_eq!(stage.mark("replog.accepted.stranger"), 1);
    assert_eq!(stage.log(N1).leading(), Some(ballot));
}
