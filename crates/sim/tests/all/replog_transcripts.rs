//! Dialogues with a few logs on a stage.

use std::time::Duration;

use quorate_kernel::NodeId;
use quorate_replog::{Config, Input, Member, Message, Timer};
use quorate_sim::replog::Stage;
use quorate_sim::transcript::{Directive, walk};

fn config() -> Config {
    let ms = Duration::from_millis;
    Config { heartbeat: ms(10), election: ms(100), lease: Duration::ZERO, ..Config::tiny() }
}

fn ids(directive: &Directive, key: &str) -> Vec<NodeId> {
    directive.all::<u64>(key).into_iter().map(NodeId).collect()
}

fn members(ids: Vec<NodeId>) -> Vec<Member> {
    ids.into_iter().map(|id| Member { id, info: Default::default() }).collect()
}

fn timer(directive: &Directive) -> Timer {
    match directive.get::<String>("timer").as_str() {
        "election" => Timer::Election,
        "heartbeat" => Timer::Heartbeat,
        "install" => Timer::Install,
        "sweep" => Timer::Sweep,
        "spared" => Timer::Spared,
        other => panic!("line {}: there is no timer {other}", directive.line),
    }
}

fn kind(msg: &Message) -> &'static str {
    match msg {
        Message::Prepare(_) => "prepare",
        Message::Promise { .. } => "promise",
        Message::Append(_) => "append",
        Message::Accepted { .. } => "accepted",
        Message::Conflict { .. } => "conflict",
        Message::Stale { .. } => "stale",
        Message::Part(_) => "part",
        Message::NextPart { .. } => "next-part",
        Message::Handover { .. } => "handover",
        Message::Retire { .. } => "retire",
    }
}

/// `from=`, `to=`, `kind=` and `between=(a, b, ...)` say which messages are meant; all if none is given.
fn wanted(directive: &Directive) -> impl Fn(NodeId, NodeId, &Message) -> bool + use<> {
    let (from, to) = (directive.maybe::<u64>("from"), directive.maybe::<u64>("to"));
    let (only, between) = (directive.maybe::<String>("kind"), ids(directive, "between"));
    move |sender, receiver, msg| {
        from.is_none_or(|from| from == sender.0)
            && to.is_none_or(|to| to == receiver.0)
            && only.as_ref().is_none_or(|only| only == kind(msg))
            && (between.is_empty() || (between.contains(&sender) && between.contains(&receiver)))
    }
}

fn configure(directive: &Directive, config: &mut Config) {
    let ms = |key| directive.maybe::<u64>(key).map(Duration::from_millis);
    config.lease = ms("lease").unwrap_or(config.lease);
    config.election = ms("election").unwrap_or(config.election);
    config.change_deadline = ms("change-deadline").unwrap_or(config.change_deadline);
    config.log_bytes_max = directive.maybe("log-bytes").unwrap_or(config.log_bytes_max);
    config.append_bytes_max = directive.maybe("append-bytes").unwrap_or(config.append_bytes_max);
    config.snapshot_part_bytes = directive.maybe("part-bytes").unwrap_or(config.snapshot_part_bytes);
}

fn answer(stage: &mut Stage, directive: &Directive) -> String {
    let node = || NodeId(directive.get("node"));
    match directive.name.as_str() {
        "members" => {
            configure(directive, stage.config_mut());
            let first = ids(directive, "ids");
            first.iter().for_each(|id| stage.enter(*id, &first));
        }
        "spare" => ids(directive, "ids").into_iter().for_each(|id| stage.enter(id, &[])),
        "fire" => stage.fire(node(), timer(directive)),
        "wait" => stage.wait(Duration::from_millis(directive.get("ms"))),
        "run" => stage.run(Duration::from_millis(directive.get("ms")), &ids(directive, "nodes")),
        "deliver-one" => stage.deliver_one(wanted(directive)),
        "deliver" => stage.deliver(!directive.has("once"), wanted(directive)),
        "lose" => stage.lose(wanted(directive)),
        "propose" => directive.all::<String>("values").iter().for_each(|value| stage.propose(node(), value)),
        "read" => stage.ask(node(), Input::Read(directive.get("ticket"))),
        "change" => {
            let (add, remove) = (members(ids(directive, "add")), ids(directive, "remove"));
            stage.ask(node(), Input::Change { ticket: directive.get("ticket"), add, remove });
        }
        "give-up" => {
            let (ticket, late) = (directive.get("ticket"), directive.has("late"));
            stage.ask(node(), Input::GiveUp { ticket, late });
        }
        "transfer" => stage.ask(node(), Input::Transfer(directive.maybe("to").map(NodeId))),
        "lost" => stage.ask(node(), Input::PeerLost(NodeId(directive.get("peer")))),
        "connected" => stage.ask(node(), Input::PeerConnected(NodeId(directive.get("peer")))),
        "hold-disk" => stage.hold_disk(node(), true),
        "free-disk" => stage.hold_disk(node(), false),
        "crash" => stage.crash(node()),
        "restart" => stage.restart(node()),
        "show" => ids(directive, "nodes").into_iter().for_each(|id| stage.show(id)),
        other => panic!("line {}: there is no command {other}", directive.line),
    }
    stage.take_said()
}

#[test]
fn transcripts() {
    walk("testdata/replog", |_| {
        let mut stage = Stage::new(config());
        move |directive: &Directive| answer(&mut stage, directive)
    });
}
