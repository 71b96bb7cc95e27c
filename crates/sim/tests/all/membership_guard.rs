//! Why a node that promised a classic round must not vote in the fast one: random schedules with two proposals, a
//! tenth of all messages lost, and nodes that soon lose patience.
//!
//! `QUORATE_RUNS` says how many schedules for each size, `QUORATE_RESULT` names a file that the figures are appended to.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use quorate_kernel::{Cx, Event, Machine, NodeId, Position, Rng};
use quorate_membership::{
    Config, JoinerMeta, Membership, Message, Meta, Mutant, Out, Output, Record, Report, RingSet, Timer,
    ViewId,
};
use quorate_sim::{
    Agenda, Boot, Harness, Latency, NetworkOptions, Order, Seen, Verdict, World, WorldOptions,
};

/// A member whose alerts a script raises: its input is a joiner that all observers are said to have heard.
struct Voter(Membership);

impl Machine for Voter {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = NodeId;
    type Output = Output;

    fn restore(&mut self, cx: &mut Cx<'_>, position: Position, record: Record) {
        self.0.restore(cx, position, record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, NodeId>, out: &mut Out) {
        let event = match event {
            Event::Start => Event::Start,
            Event::Timer(timer) => Event::Timer(timer),
            Event::Message { from, msg } => Event::Message { from, msg },
            Event::Input(subject) => {
                let Some(view) = self.0.view() else { return };
                let meta = Some(JoinerMeta(Arc::new(Meta::default())));
                let report = Report { subject, now: RingSet(1023), before: RingSet(0), meta };
                let msg = Message::News { view: view.id, epoch: 1, reports: vec![report], votes: Vec::new() };
                Event::Message { from: cx.me, msg }
            }
        };
        self.0.step(cx, event, out);
    }
}

struct Voters {
    config: Config,
    nodes: u64,
    decided: BTreeSet<ViewId>,
}

impl Harness for Voters {
    type Machine = Voter;

    fn machine(&mut self, node: NodeId, _: Boot) -> Voter {
        let founders = (1..=self.nodes).map(|id| (NodeId(id), Meta::default())).collect();
        Voter(Membership::new(node, self.config.clone(), Meta::default(), founders))
    }

    fn output(&mut self, _: Seen<'_, Voter>, output: Output, _: &mut Agenda<NodeId>) -> Verdict {
        if let Output::NextView { view, .. } = output
            && view.seq() == 2
        {
            self.decided.insert(view.id);
        }
        Ok(())
    }
}

/// In how many of so many schedules two different cuts are decided.
fn contradictions(nodes: u64, runs: u64, mutant: Option<Mutant>) -> u64 {
    let (ms, never) = (Duration::from_millis, Duration::from_secs(1_000));
    let config = Config {
        probe_interval: never,
        probe_timeout: never,
        resend: never,
        alert_epoch: never,
        fallback: ms(5),
        fallback_spread: ms(20),
        needs_state: false,
        mutant,
        ..Config::production()
    };
    let mut found = 0;
    for seed in 0..runs {
        let network = NetworkOptions {
            latency: Latency::Uniform(ms(1), ms(40)),
            order: Order::Free,
            loss_ppm: 100_000,
            ..NetworkOptions::default()
        };
        let options = WorldOptions { network, ..WorldOptions::calm(seed, nodes as usize) };
        let voters = Voters { config: config.clone(), nodes, decided: BTreeSet::new() };
        let mut world = World::new(options, voters);
        let mut rng = Rng::new(seed);
        for id in (1..=nodes).map(NodeId) {
            // Most see the one joiner, some the other.
            let joiner = NodeId(100 + u64::from(rng.chance(1, 4)));
            world.input(ms(10 + rng.below(100)), id, joiner);
        }
        world.run_for(ms(600));
        found += u64::from(world.harness().decided.len() > 1);
    }
    found
}

#[test]
fn without_the_guard_two_cuts_are_decided_and_with_it_never() {
    let runs = std::env::var("QUORATE_RUNS").map_or(500, |runs| runs.parse().expect("a whole number"));
    let mut without = 0;
    for nodes in [5, 6, 7, 9] {
        let broken = contradictions(nodes, runs, Some(Mutant::FastVoteAfterPromise));
        let whole = contradictions(nodes, runs, None);
        let line = format!(
            "{{\"experiment\":\"guard\",\"nodes\":{nodes},\"runs\":{runs},\"contradictions_without\":{broken},\
             \"contradictions_with\":{whole}}}"
        );
        println!("{line}");
        if let Ok(path) = std::env::var("QUORATE_RESULT") {
            let mut file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .expect("a file to append to");
            writeln!(file, "{line}").expect("written");
        }
        assert_eq!(whole, 0, "{nodes} nodes decide once");
        without += broken;
    }
    assert!(without > 0, "the guard was not needed");
}
