//! The harness: whole nodes without faults, and their clients.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use quorate_api::{Consistency, Outcome, Reply};
use quorate_kernel::{ClusterId, NodeId, Rng};
use quorate_node::{
    ClientRequest, ConnectionId, Input, Limits, Message, Node, NodeConfig, Output, Placing, Preset, Ticket,
    Topology,
};
use quorate_replog::Config;

use super::chirps::{Chirper, Step, Trend, Users, key};
use super::setup::{Setup, System};
use super::streets::Streets;
use super::tally::{Crowd, Tally};
use crate::node::operator::member;
use crate::node::words;
use crate::{Agenda, Boot, Harness, Nodes, Seen, Verdict};

const LOOK: u64 = 0;
const CONNECT: u64 = 1;
/// Clients above this number begin: their first operation is due.
const BEGIN: u64 = 1 << 32;
/// Clients look so often who leads.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Nodes learn so often whom they are connected to.
const CONNECT_EVERY: Duration = Duration::from_millis(5);
/// One way between a client and a node.
pub(super) const CLIENT: Duration = Duration::from_micros(150);
/// Clients begin within so many microseconds.
pub(super) const BEGIN_WITHIN_US: u64 = 100_000;
/// A client that knows nobody to ask tries again after so long.
const AGAIN: Duration = Duration::from_millis(50);
/// Trends of the first half of the trace, by which partitions are cut.
const HISTORY: usize = 10;
/// What a post says.
const TEXT: &str = "a post has no more than a hundred and forty characters, and most have far fewer";

/// See the module's documentation.
pub(super) struct Town {
    setup: Setup,
    rng: Rng,
    users: Rc<Users>,
    streets: Streets,
    trend: Trend,
    clients: Vec<Chirper>,
    /// When each client's request leaves it.
    asked: Vec<Duration>,
    told: BTreeSet<(NodeId, NodeId)>,
    tally: Tally,
}

impl Town {
    pub(super) fn new(setup: Setup) -> Town {
        let mut rng = setup.chance();
        let users = Users::draw(&setup, &mut rng);
        let history: Vec<Trend> = (0..HISTORY).map(|_| Trend::draw(&setup, &users, &mut rng)).collect();
        let streets = Streets::new(&setup, &users, &history, &mut rng);
        let clients: Vec<Chirper> = (0..setup.clients()).map(|_| Chirper::new(rng.fork())).collect();
        let asked = vec![Duration::MAX; clients.len()];
        let trend = Trend::draw(&setup, &users, &mut rng);
        let tally = Tally::new(setup.nodes);
        Town { setup, rng, users, streets, trend, clients, asked, told: BTreeSet::new(), tally }
    }

    /// Whether all nodes are in groups of which all know, and all buckets are led.
    pub(super) fn is_formed(&self, nodes: &Nodes<Node>) -> bool {
        let is_ring = self.setup.system == System::Groups;
        let knows = |node: &Node| {
            let groups = node.groups();
            let held: usize = groups.iter().map(|group| group.members.len()).sum();
            let most = groups.iter().map(|group| group.members.len()).max().unwrap_or_default();
            held == self.setup.nodes && most < 2 * usize::from(self.setup.copies)
        };
        nodes.live().count() == self.setup.nodes
            && self.streets.is_led()
            && nodes.live().all(|(_, node)| !is_ring || knows(node))
    }

    /// A client's next operation.
    fn ask(&mut self, client: usize, after: Duration) -> Option<(Duration, NodeId, Input)> {
        let (step, user) = self.clients[client].next(&self.setup, &self.users, &self.trend);
        let (place, name) = self.streets.find(key(user));
        let request = match step {
            Step::Get => words::one(&["GET", &name]),
            Step::Set => words::one(&["SET", &name, TEXT]),
        };
        let request = ClientRequest {
            connection: ConnectionId(client as u64 + 1),
            ticket: Ticket(client as u64),
            request,
            consistency: Consistency::Strict,
            identity: None,
        };
        Some((after + CLIENT, self.streets.leader(place)?, Input::Requests(vec![request])))
    }

    fn go_on(&mut self, client: usize, agenda: &mut Agenda<Input>) {
        let pause = self.clients[client].pause(&self.setup);
        match self.ask(client, CLIENT + pause) {
            Some((after, node, input)) => {
                self.asked[client] = agenda.now() + after - CLIENT;
                agenda.input(after, node, input);
            }
            None => agenda.wake(AGAIN, BEGIN + client as u64),
        }
    }

    fn connect(&mut self, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        if self.told.len() == self.setup.nodes * (self.setup.nodes - 1) {
            return;
        }
        for (from, to) in live.iter().flat_map(|from| live.iter().map(move |to| (*from, *to))) {
            let together = self.streets.part_of(from) == self.streets.part_of(to);
            if from != to && together && self.told.insert((from, to)) {
                agenda.input(Duration::from_millis(1), from, Input::PeerConnected(to));
            }
        }
        agenda.wake(CONNECT_EVERY, CONNECT);
    }

    /// What a node has at least that leads the hottest bucket, over the mean of all nodes.
    pub(super) fn hottest_over_mean(&self) -> f64 {
        self.users.hottest_bucket(&self.trend, &self.setup) * self.setup.nodes as f64
    }
}

impl Crowd for Town {
    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn open(&mut self) -> Vec<(Duration, NodeId, Input)> {
        let begins: Vec<u64> = self.clients.iter().map(|_| self.rng.below(BEGIN_WITHIN_US)).collect();
        let begins = begins.into_iter().map(Duration::from_micros).enumerate();
        begins.filter_map(|(client, after)| self.ask(client, after)).collect()
    }

    fn move_now(&mut self) {
        self.trend = Trend::draw(&self.setup, &self.users, &mut self.rng);
    }
}

impl Harness for Town {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, _: Boot) -> Node {
        let (copies, founders) = (u64::from(self.setup.copies), self.setup.founders() as u64);
        let is_ring = self.setup.system == System::Groups;
        let first = self.streets.part_of(node) as u64 * copies;
        let bootstrap = match is_ring {
            true if node.0 > founders => 0..0,
            true => 1..founders + 1,
            false => first + 1..first + copies + 1,
        };
        let placing = Placing { preset: Some(Preset::Steady), ..Placing::production() };
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(8 + first),
            bootstrap: bootstrap.map(NodeId).map(member).collect(),
            buckets: if is_ring { self.setup.buckets() } else { self.setup.buckets_of_one() },
            copies: if is_ring { self.setup.copies } else { 0 },
            topology: if is_ring { Topology::Ring } else { Topology::View },
            placing,
            log: Config::production(),
            limits: Limits::production(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(CONNECT_EVERY, CONNECT);
        agenda.wake(LOOK_EVERY, LOOK);
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        match token {
            LOOK => {
                self.streets.look(nodes);
                agenda.wake(LOOK_EVERY, LOOK);
            }
            CONNECT => self.connect(nodes, agenda),
            client => self.go_on((client - BEGIN) as usize, agenda),
        }
        Ok(())
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        let Output::Replies(replies) = output else { return Ok(()) };
        for (_, ticket, outcome) in replies {
            match outcome {
                Outcome::Done(Reply::Error(error)) => return Err(format!("answered with {error:?}")),
                Outcome::Done(_) => {
                    let took = (seen.now + CLIENT).checked_sub(self.asked[ticket.0 as usize]);
                    self.tally.done(seen.node, took);
                }
                Outcome::Refused(_) | Outcome::Unknown => self.tally.failed(),
            }
            self.go_on(ticket.0 as usize, agenda);
        }
        Ok(())
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        (msg, 0)
    }
}
