//! Dialogues with a few nodes on a stage.

use std::time::Duration;

use quorate_kernel::NodeId;
use quorate_membership::{Config, Input, Message, Timer};
use quorate_sim::membership::Stage;
use quorate_sim::transcript::{Directive, walk};

fn ids(directive: &Directive, key: &str) -> Vec<NodeId> {
    directive.all::<u64>(key).into_iter().map(NodeId).collect()
}

fn timer(directive: &Directive) -> Timer {
    match directive.get::<String>("timer").as_str() {
        "probe" => Timer::Probe,
        "batch" => Timer::Batch,
        "gossip" => Timer::Gossip,
        "resend" => Timer::Resend,
        "fallback" => Timer::Fallback,
        "join" => Timer::Join,
        "farewell" => Timer::Farewell,
        other => panic!("line {}: there is no timer {other}", directive.line),
    }
}

fn kind(msg: &Message) -> &'static str {
    match msg {
        Message::Probe { .. } | Message::ProbeAnswer { .. } => "probe",
        Message::News { .. } => "news",
        Message::Phase1a { .. } => "phase1a",
        Message::Phase1b { .. } => "phase1b",
        Message::Phase2a { .. } => "phase2a",
        Message::Welcome { .. } => "welcome",
        Message::Whole { .. } => "whole",
        _ => "other",
    }
}

/// `from=`, `to=`, `kind=` and `between=(a, b, ...)` say which messages are meant; all if none is given.
fn wanted(directive: &Directive) -> impl Fn(NodeId, NodeId, &Message) -> bool + use<> {
    let (from, to) = (directive.maybe::<u64>("from"), ids(directive, "to"));
    let (only, between) = (directive.maybe::<String>("kind"), ids(directive, "between"));
    move |sender, receiver, msg| {
        from.is_none_or(|from| from == sender.0)
            && (to.is_empty() || to.contains(&receiver))
            && only.as_ref().is_none_or(|only| only == kind(msg))
            && (between.is_empty() || (between.contains(&sender) && between.contains(&receiver)))
    }
}

fn configure(directive: &Directive, config: &mut Config) {
    config.steps_max = directive.maybe("steps").unwrap_or(config.steps_max);
    config.members_max = directive.maybe("members-max").unwrap_or(config.members_max);
}

fn answer(stage: &mut Stage, directive: &Directive) -> String {
    let node = || NodeId(directive.get("node"));
    match directive.name.as_str() {
        "founders" => {
            configure(directive, stage.config_mut());
            let first = ids(directive, "ids");
            first.iter().for_each(|id| stage.enter(*id, &first));
        }
        "enter" => ids(directive, "ids").into_iter().for_each(|id| stage.enter(id, &[])),
        "join" => stage.ask(node(), Input::Join { seeds: ids(directive, "seeds") }),
        "leave" => stage.ask(node(), Input::Leave),
        "alert" => stage.alert(node(), NodeId(directive.get("from")), NodeId(directive.get("about"))),
        "fire" => stage.fire(node(), timer(directive)),
        "run" => stage.run(Duration::from_millis(directive.get("ms")), &ids(directive, "nodes")),
        "deliver" => stage.deliver(!directive.has("once"), wanted(directive)),
        "lose" => stage.lose(wanted(directive)),
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
    walk("testdata/membership", |_| {
        let mut stage = Stage::new(Config::production());
        move |directive: &Directive| answer(&mut stage, directive)
    });
}

/// A node votes, dies, and comes back to other alerts: it votes once, whatever its disk had confirmed.
fn votes_after_restart(config: Config, confirmed: bool) -> usize {
    let mut stage = Stage::new(config);
    let founders = [1, 2, 3].map(NodeId);
    founders.iter().for_each(|id| stage.enter(*id, &founders));
    stage.hold_disk(NodeId(1), !confirmed);
    stage.alert(NodeId(1), NodeId(2), NodeId(7));
    stage.crash(NodeId(1));
    stage.restart(NodeId(1));
    stage.alert(NodeId(1), NodeId(2), NodeId(8));
    stage.fire(NodeId(1), Timer::Resend);
    stage.votes_in_one_round(NodeId(1))
}

#[test]
fn a_node_votes_once_over_restarts() {
    for confirmed in [true, false] {
        assert_eq!(votes_after_restart(Config::production(), confirmed), 1);
    }
}

/// What does not stand on disk yet, or is not looked at after a restart, is voted for twice: rules that a swarm of
/// faults breaks too rarely.
#[cfg(feature = "mutants")]
#[test]
fn forgetting_votes_shows() {
    use quorate_membership::Mutant;
    let broken = |mutant| Config { mutant: Some(mutant), ..Config::production() };
    assert_eq!(votes_after_restart(broken(Mutant::ForgetAcceptor), true), 2);
    assert_eq!(votes_after_restart(broken(Mutant::VoteEarly), false), 2);
}
