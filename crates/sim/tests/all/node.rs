//! Whole nodes under everything at once.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::{Bucket, Command, Consistency, Outcome, Reply, Request};
use quorate_kernel::{ClusterId, NodeId};
use quorate_node::{
    ClientRequest, ConnectionId, Endpoints, Input, Limits, Member, Node, NodeConfig, Output, Placing, Ticket,
    Topology,
};
use quorate_sim::node::{Play, Stress, swarm};
use quorate_sim::{
    Agenda, Batch, Boot, Harness, Nodes, Overrides, Plan, Report, Seen, TraceLevel, Verdict, World,
    WorldOptions, run_many,
};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |count| count.parse().expect("a number"))
}

#[test]
fn swarm_of_nodes() {
    let kind = swarm();
    let (from, seeds) = (variable("FROM", 0), variable("SEEDS", 60));
    let batch = Batch { failures_max: 5, ..Batch::of(from..from + seeds) };
    let told = |report: &Report| {
        if report.failure.is_some() {
            println!("seed {}: {}", report.plan.seed, report.explain("node"));
        }
    };
    let summary = run_many(&kind.profile, &batch, &|plan| kind.run(plan), &told);
    println!("{}", summary.coverage);
    summary.expect_success("node");
}

/// Transactions over keys that expire in the moment in which they are looked at.
#[test]
fn what_a_vote_found_does_not_expire() {
    let mut kind = swarm();
    kind.profile.floors.clear();
    kind.stress =
        Stress { play: Some(Play::Pipelines), buckets: NonZeroU16::new(3), brief: true, ..kind.stress };
    let (from, seeds) = (variable("FROM", 0), variable("SEEDS", 60));
    kind.run_many(from..from + seeds, false, 1).expect_success("node");
}

#[test]
fn trace_of_one() {
    let Ok(seed) = std::env::var("TRACE") else { return };
    let mut kind = swarm();
    kind.stress.play = match std::env::var("PLAY").as_deref() {
        Ok("keys") => Some(Play::Keys),
        Ok("pipelines") => Some(Play::Pipelines),
        Ok("pebbles") => Some(Play::Pebbles),
        _ => None,
    };
    let words = std::env::var("WITH").unwrap_or_default();
    let overrides = Overrides::parse(words.split_whitespace()).expect("flags");
    let plan = Plan::draw(&kind.profile, seed.parse().expect("a number"), &overrides);
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    for line in &report.lines {
        println!("{line}");
    }
    println!("{}", report.coverage);
    println!("{:?}", report.failure);
}

/// A node as it is on a real machine, of a cluster that `first` begin.
pub(crate) fn node_of(id: NodeId, first: impl IntoIterator<Item = u64>, buckets: NonZeroU16) -> Node {
    let member = |id| Member { id: NodeId(id), endpoints: Endpoints::default().into() };
    Node::new(NodeConfig {
        me: member(id.0),
        cluster: ClusterId(1),
        bootstrap: first.into_iter().map(member).collect(),
        copies: 0,
        topology: Topology::View,
        placing: Placing::production(),
        buckets,
        log: quorate_replog::Config::production(),
        limits: Limits::production(),
    })
}

/// Worlds without faults in which a client of one node writes without a pause while another node, the leader, dies.
#[test]
fn writes_go_on_soon_after_the_leader_died() {
    let mut gaps: Vec<Duration> = (0..20).map(gap_after_the_leader_died).collect();
    gaps.sort();
    let (middle, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!("without writes for {middle:?} (median), {worst:?} (worst)");
    // The follower's patience is one to two election times; then an election, and what was under way is sent again.
    let election = quorate_replog::Config::production().election;
    assert!(middle < election * 2 + Duration::from_millis(20), "{gaps:?}");
    assert!(worst < election * 5, "{gaps:?}");
}

fn gap_after_the_leader_died(seed: u64) -> Duration {
    let mut world = World::new(WorldOptions::calm(seed, 3), Writer::default());
    let leads = |world: &World<Writer>| {
        let leading = world.nodes().live().find(|(_, node)| {
            node.is_ready() && node.shard(Bucket(0)).is_some_and(|shard| shard.log().leads())
        });
        leading.map(|(id, _)| id)
    };
    assert!(world.run_until_done(Duration::from_secs(5), |world| leads(world).is_some()));
    let leader = leads(&world).expect("somebody leads");
    let at = world.nodes().ids().find(|id| *id != leader).expect("three nodes");
    world.harness_mut().at = Some(at);
    world.run_for(Duration::from_millis(300));
    assert!(world.harness().done > 50, "it writes: {}", world.harness().done);
    world.crash(leader);
    let died = world.now();
    world.harness_mut().resumed = None;
    world.harness_mut().died = Some(died);
    assert!(world.run_until_done(Duration::from_secs(10), |world| world.harness().resumed.is_some()));
    world.harness().resumed.expect("just seen") - died
}

/// A client that always has one write under way.
#[derive(Default)]
struct Writer {
    at: Option<NodeId>,
    ticket: u64,
    waiting: bool,
    done: u64,
    died: Option<Duration>,
    /// When something that was asked for after the death was done.
    resumed: Option<Duration>,
}

impl Harness for Writer {
    type Machine = Node;

    fn machine(&mut self, id: NodeId, _: Boot) -> Node {
        node_of(id, 1..=3, NonZeroU16::MIN)
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(Duration::from_millis(1), 0);
    }

    fn woken(&mut self, _: u64, _: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        if let (Some(at), false) = (self.at, self.waiting) {
            self.waiting = true;
            self.ticket += 1;
            let spec = quorate_values::find(b"incr").expect("a command");
            let command = Command { code: spec.code, args: vec![bytes::Bytes::from_static(b"n")] };
            let request = ClientRequest {
                connection: ConnectionId(1),
                ticket: Ticket(self.ticket),
                request: Request::One(command),
                consistency: Consistency::Strict,
                identity: None,
            };
            agenda.input(Duration::ZERO, at, Input::Requests(vec![request]));
        }
        agenda.wake(Duration::from_millis(1), 0);
        Ok(())
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, _: &mut Agenda<Input>) -> Verdict {
        let Output::Replies(replies) = output else { return Ok(()) };
        for (_, ticket, outcome) in replies {
            assert_eq!(ticket, Ticket(self.ticket));
            self.waiting = false;
            self.done += 1;
            // Each write happens once, also those that the old leader may have taken.
            if outcome != Outcome::Done(Reply::Int(self.done as i64)) {
                return Err(format!("write {} was answered with {outcome:?}", self.done));
            }
            if self.died.is_some_and(|died| seen.now > died + Duration::from_millis(20)) {
                self.resumed.get_or_insert(seen.now);
            }
        }
        Ok(())
    }
}
