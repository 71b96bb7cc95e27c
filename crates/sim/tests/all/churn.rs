//! Nodes that die one after the other with all they have, each replaced by a new one, faster than a copy is made.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Bucket, Command, Consistency, Outcome, Reply, Request};
use quorate_kernel::{ClusterId, NodeId, Rng};
use quorate_node::{
    ClientRequest, ConnectionId, Endpoints, Input, Limits, Member, Message, Node, NodeConfig, Output,
    Placing, Record, Ticket, Topology,
};
use quorate_sim::{
    Agenda, Boot, DiskOptions, Harness, Latency, NetworkOptions, Nodes, Replacement, Seen, Verdict, World,
    WorldOptions, through_bytes,
};

const NODES: u64 = 9;
const BUCKETS: NonZeroU16 = NonZeroU16::new(4).unwrap();
/// Between two deaths.
const EVERY: Duration = Duration::from_millis(1_500);
const DEATHS: usize = 30;
/// Values that every copy has to be sent, and a name for each bucket that is counted.
const BALLAST: u64 = 240;

fn command(name: &str, args: &[&str]) -> Request {
    let spec = quorate_values::find(name.as_bytes()).expect("a command");
    let args = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect();
    Request::One(Command { code: spec.code, args })
}

/// A key of each bucket.
fn counters() -> Vec<String> {
    let mut keys = BTreeMap::new();
    for number in 0..1_000 {
        let key = format!("counter:{number}");
        keys.entry(Bucket::of_key(key.as_bytes(), BUCKETS)).or_insert(key);
    }
    keys.into_values().collect()
}

/// A client with one request under way, which turns to another node when its own dies.
#[derive(Default)]
struct Client {
    connection: u64,
    at: Option<NodeId>,
    /// What was asked: a part of the ballast, or a counter by its place, with what had been acknowledged of it by then.
    asked: Option<(u64, Option<(usize, i64)>)>,
}

struct Churn {
    rng: Rng,
    counters: Vec<String>,
    told: BTreeSet<(NodeId, NodeId)>,
    clients: Vec<Client>,
    tickets: u64,
    loaded: u64,
    /// By counter: what was acknowledged last, and how often it was asked for.
    acknowledged: Vec<i64>,
    attempts: Vec<i64>,
}

impl Churn {
    fn new(seed: u64) -> Churn {
        let counters = counters();
        let count = counters.len();
        Churn {
            rng: Rng::new(seed),
            counters,
            told: BTreeSet::new(),
            clients: (0..4).map(|_| Client::default()).collect(),
            tickets: 0,
            loaded: 0,
            acknowledged: vec![0; count],
            attempts: vec![0; count],
        }
    }

    fn ask(&mut self, place: usize, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let client = &mut self.clients[place];
        if client.at.is_none_or(|at| !live.contains(&at)) {
            client.at = self.rng.pick(&live).copied();
            client.connection += 10;
            client.asked = None;
        }
        let (Some(at), None) = (client.at, client.asked) else { return };
        self.tickets += 1;
        let counter = (self.loaded >= BALLAST).then(|| self.rng.below(self.counters.len() as u64) as usize);
        client.asked = Some((self.tickets, counter.map(|it| (it, self.acknowledged[it]))));
        let request = match counter {
            Some(counter) => {
                self.attempts[counter] += 1;
                command("incr", &[&self.counters[counter]])
            }
            None => {
                self.loaded += 1;
                command("set", &[&format!("ballast:{}", self.loaded), &"x".repeat(400)])
            }
        };
        let connection = ConnectionId(client.connection + place as u64);
        let (ticket, consistency) = (Ticket(self.tickets), Consistency::Strict);
        let request = ClientRequest { connection, ticket, request, consistency, identity: None };
        agenda.input(Duration::ZERO, at, Input::Requests(vec![request]));
    }
}

impl Harness for Churn {
    type Machine = Node;

    fn machine(&mut self, id: NodeId, boot: Boot) -> Node {
        let member = |id: u64| {
            let endpoints = Endpoints { peer: format!("peer.{id}:1"), ..Endpoints::default() };
            Member { id: NodeId(id), endpoints: endpoints.into() }
        };
        let first = if matches!(boot, Boot::Replacing(_)) { 0..0 } else { 1..NODES + 1 };
        // A copy takes a second or two.
        let log = quorate_replog::Config {
            snapshot_part_bytes: 300,
            snapshot_parts_max: 1,
            log_bytes_max: 2_000,
            ..quorate_replog::Config::production()
        };
        let placing = Placing::production();
        Node::new(NodeConfig {
            me: member(id.0),
            cluster: ClusterId(1),
            bootstrap: first.map(member).collect(),
            buckets: BUCKETS,
            copies: NODES as u8,
            topology: Topology::Ring,
            placing: Placing { repair_after: Some(Duration::from_millis(300)), ..placing },
            log,
            limits: Limits { deadline: Duration::from_secs(2), ..Limits::production() },
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(Duration::from_millis(1), 0);
    }

    fn woken(&mut self, _: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        for (from, to) in live.iter().flat_map(|from| live.iter().map(move |to| (*from, *to))) {
            if from != to && self.told.insert((from, to)) {
                agenda.input(Duration::from_millis(1), from, Input::PeerConnected(to));
            }
        }
        (0..self.clients.len()).for_each(|place| self.ask(place, nodes, agenda));
        agenda.wake(Duration::from_millis(5), 0);
        Ok(())
    }

    fn output(&mut self, _: Seen<'_, Node>, output: Output, _: &mut Agenda<Input>) -> Verdict {
        let Output::Replies(replies) = output else { return Ok(()) };
        for (connection, ticket, outcome) in replies {
            let client = &mut self.clients[(connection.0 % 10) as usize];
            let Some((_, counter)) = client.asked.take_if(|(asked, _)| *asked == ticket.0) else { continue };
            let (Some((counter, before)), Outcome::Done(Reply::Int(now))) = (counter, &outcome) else {
                continue;
            };
            let (name, most) = (&self.counters[counter], self.attempts[counter]);
            if *now > most || *now <= before {
                return Err(format!("{name} is {now} after {before}, asked for {most} times"));
            }
            let last = &mut self.acknowledged[counter];
            *last = (*last).max(*now);
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        let peers: Vec<NodeId> =
            self.told.iter().filter(|(_, to)| *to == node).map(|(from, _)| *from).collect();
        self.told.retain(|(from, to)| *from != node && *to != node);
        peers
            .into_iter()
            .for_each(|peer| agenda.input(Duration::from_millis(1), peer, Input::PeerLost(node)));
    }

    fn disk_lost(&mut self, _: NodeId) -> Replacement {
        Replacement::NewIdentity
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }
}

/// How many buckets are led and have all nodes as members.
fn whole(world: &World<Churn>) -> usize {
    let is_whole = |bucket: &Bucket| {
        let leads = |(_, node): &(NodeId, &Node)| {
            let shard = node.shard(*bucket);
            shard.is_some_and(|it| it.takes_batches() && it.log().epoch().members.len() == NODES as usize)
        };
        world.nodes().live().any(|it| leads(&it))
    };
    (0..BUCKETS.get()).map(Bucket).filter(is_whole).count()
}

/// Half an hour of real churn lost buckets so (here: seed 1): their logs waited for learners, gave up when the group changed again, and began
/// anew, while members that had died stayed members.
#[test]
fn logs_keep_their_majorities_though_members_die_faster_than_copies_are_made() {
    for seed in 0..3 {
        let mut options = WorldOptions::calm(seed, NODES as usize);
        options.disk = DiskOptions { volatile: true, ..options.disk };
        let latency = Latency::Uniform(Duration::from_millis(2), Duration::from_millis(8));
        options.network = NetworkOptions { latency, ..options.network };
        let mut world = World::new(options, Churn::new(seed));
        let founded = world.run_until_done(Duration::from_secs(20), |world| {
            whole(world) == usize::from(BUCKETS.get())
                && world.harness().acknowledged.iter().all(|it| *it > 0)
        });
        assert!(founded, "seed {seed}: it does not begin: {:?}", world.failure());
        let mut rng = Rng::new(seed);
        for _ in 0..DEATHS {
            world.run_for(EVERY);
            let live: Vec<NodeId> = world.nodes().live().map(|(id, _)| id).collect();
            let victim = *rng.pick(&live).expect("somebody lives");
            world.crash(victim);
            world.restart(victim);
        }
        let before = world.harness().acknowledged.clone();
        let goes_on = world.run_until_done(Duration::from_secs(30), |world| {
            let grew = world.harness().acknowledged.iter().zip(&before).all(|(now, before)| now > before);
            grew && whole(world) == usize::from(BUCKETS.get())
        });
        let led = whole(&world);
        assert!(goes_on, "seed {seed}: {led} buckets are whole after {before:?}: {:?}", world.failure());
    }
}

/// Most founders die one soon after the other. While a view of all nodes had to agree who is there, its members could never agree again, and nobody
/// came in any more; the members of a group watch each other.
#[test]
fn nodes_come_in_after_most_founders_have_died() {
    for seed in 0..2 {
        let mut options = WorldOptions::calm(seed, NODES as usize);
        options.disk = DiskOptions { volatile: true, ..options.disk };
        let latency = Latency::Uniform(Duration::from_millis(2), Duration::from_millis(8));
        options.network = NetworkOptions { latency, ..options.network };
        let mut world = World::new(options, Churn::new(seed));
        let all = usize::from(BUCKETS.get());
        let founded = world.run_until_done(Duration::from_secs(20), |world| whole(world) == all);
        assert!(founded, "seed {seed}: it does not begin: {:?}", world.failure());
        for victim in 1..=6 {
            world.run_for(EVERY);
            world.crash(NodeId(victim));
            world.restart(NodeId(victim));
        }
        let comes_back = world.run_until_done(Duration::from_secs(90), |world| whole(world) == all);
        let led = whole(&world);
        assert!(comes_back, "seed {seed}: {led} buckets are whole: {:?}", world.failure());
    }
}
