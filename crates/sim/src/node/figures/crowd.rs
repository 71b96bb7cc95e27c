//! The harness: whole nodes without faults, their clients, and before these whoever loads what they ask for.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_api::{Bucket, Consistency, Outcome, Request};
use quorate_kernel::{ClusterId, NodeId, Rng, wire};
use quorate_node::{
    ClientRequest, ConnectionId, Input, Message, Node, NodeConfig, Output, Placing, Ticket, Topology,
};
use quorate_replog::Config;
use quorate_workload::rounds;
use quorate_workload::transaction::{Transaction, Write};

use super::client::{Client, Fate, Next};
use super::setup::{Manner, Setup};
use super::tally::Tally;
use crate::node::operator::{leader, member};
use crate::node::words;
use crate::{Agenda, Boot, Harness, Nodes, Seen, Verdict};

const FORM: u64 = 0;
const FORM_EVERY: Duration = Duration::from_millis(20);
/// Buckets that are led may still be handed to nodes that lead fewer.
const SETTLE: Duration = Duration::from_secs(5);
/// Rows that one loader has under way, and loaders of a node.
const ROWS_AT_ONCE: usize = 100;
const LOADERS_PER_NODE: usize = 2;
/// Requests have the number of their asker above this many bits of a counter.
const COUNTER_BITS: u32 = 40;

/// How far the run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Forming,
    Loading,
    Working,
}

/// See the module's documentation.
pub(super) struct Crowd {
    setup: Setup,
    rng: Rng,
    stage: Stage,
    told: BTreeSet<(NodeId, NodeId)>,
    clients: Vec<Client>,
    /// To which node each of them is connected.
    doors: Vec<NodeId>,
    /// For each client, then each loader: the first number of its round, and when its newest answer came.
    rounds: Vec<(u64, Duration)>,
    counter: u64,
    /// Answers that each loader waits for.
    loading: Vec<usize>,
    rows: Box<dyn Iterator<Item = Write>>,
    /// When the clients began.
    pub(super) began: Option<Duration>,
    pub(super) tally: Tally,
}

/// The node of this place, if they stand in a circle.
fn node_at(place: usize, nodes: usize) -> NodeId {
    NodeId((place % nodes) as u64 + 1)
}

impl Crowd {
    pub(super) fn new(setup: Setup) -> Crowd {
        let mut rng = Rng::new(setup.seed ^ 0x6372_6f77_6421);
        let sources = setup.sources(&mut rng);
        let clients = sources.into_iter().map(|source| Client::new(source, setup.manner)).collect();
        let loaders = setup.nodes * LOADERS_PER_NODE;
        Crowd {
            doors: (0..setup.clients).map(|client| node_at(client, setup.nodes)).collect(),
            rounds: vec![(0, Duration::ZERO); setup.clients + loaders],
            loading: vec![0; loaders],
            tally: Tally::new(setup.load.kinds()),
            stage: Stage::Forming,
            told: BTreeSet::new(),
            counter: 0,
            began: None,
            clients,
            rows: setup.rows(),
            rng,
            setup,
        }
    }

    /// The transactions that have not ended: their kinds, when they began, and how often they were tried.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (usize, Duration, u64)> + '_ {
        self.clients.iter().map(|client| (client.job.kind(), client.begun, client.attempts))
    }

    fn node_of(&self, asker: usize) -> NodeId {
        self.doors.get(asker).copied().unwrap_or_else(|| node_at(asker, self.setup.nodes))
    }

    /// Clients whose node leads what they are about go to the next that does not.
    fn go_away(&mut self, nodes: &Nodes<Node>) {
        for (door, client) in self.doors.iter_mut().zip(&self.clients) {
            let home = client.home().map(|key| Bucket::of_key(&key, self.setup.buckets));
            if let Some(leader) =
                home.and_then(|bucket| leader(nodes, bucket)).filter(|leader| leader == door)
            {
                *door = node_at(leader.0 as usize, self.setup.nodes);
            }
        }
    }

    /// Hands a round to the asker's node, where it arrives `after` from now.
    fn send(&mut self, asker: usize, requests: Vec<Request>, after: Duration, agenda: &mut Agenda<Input>) {
        let first = self.counter;
        self.counter += requests.len() as u64;
        self.rounds[asker] = (first, Duration::ZERO);
        let ticket = |place: usize| Ticket(((asker as u64) << COUNTER_BITS) | (first + place as u64));
        let requests = requests.into_iter().enumerate().map(|(place, request)| ClientRequest {
            connection: ConnectionId(asker as u64 + 1),
            ticket: ticket(place),
            request,
            consistency: Consistency::Strict,
            identity: None,
        });
        agenda.input(after, self.node_of(asker), Input::Requests(requests.collect()));
    }

    /// Whether every bucket is led, and every node knows by whom.
    fn is_formed(&self, nodes: &Nodes<Node>) -> bool {
        let buckets = || (0..self.setup.buckets.get()).map(Bucket);
        buckets().all(|bucket| leader(nodes, bucket).is_some())
            && nodes.live().count() == self.setup.nodes
            && nodes.live().all(|(_, node)| {
                let status = node.status();
                status.buckets.iter().all(|bucket| bucket.believed_leader.is_some())
            })
    }

    /// Lets a loader write its next rows. Once there are none left and all have been written, the clients begin.
    fn load(&mut self, loader: usize, agenda: &mut Agenda<Input>) -> Verdict {
        let mut commands = Vec::new();
        for write in self.rows.by_ref().take(ROWS_AT_ONCE) {
            rounds::write(&write, &mut commands);
        }
        let requests: Vec<Request> = commands.iter().map(|words| words::one(words)).collect();
        self.loading[loader] = requests.len();
        if !requests.is_empty() {
            let after = self.setup.way(&mut self.rng);
            self.send(self.clients.len() + loader, requests, after, agenda);
        } else if self.loading.iter().all(|waiting| *waiting == 0) && self.began.is_none() {
            return self.open(agenda);
        }
        Ok(())
    }

    fn loaded(&mut self, loader: usize, outcome: &Outcome, agenda: &mut Agenda<Input>) -> Verdict {
        if !matches!(outcome, Outcome::Done(_)) {
            return Err(format!("a row was not loaded: {outcome:?}"));
        }
        self.loading[loader] -= 1;
        if self.loading[loader] == 0 { self.load(loader, agenda) } else { Ok(()) }
    }

    /// All clients begin.
    fn open(&mut self, agenda: &mut Agenda<Input>) -> Verdict {
        self.stage = Stage::Working;
        let now = agenda.now();
        self.began = Some(now);
        self.tally.open(now + self.setup.warm, now + self.setup.warm + self.setup.span);
        for client in 0..self.clients.len() {
            let next = self.clients[client].begin(now)?;
            self.go_on(client, next, now, agenda)?;
        }
        Ok(())
    }

    /// A client at `now`, which may be later than the world's, does what follows.
    fn go_on(&mut self, who: usize, next: Next, now: Duration, agenda: &mut Agenda<Input>) -> Verdict {
        let mut next = next;
        loop {
            match next {
                Next::Ask(requests) => {
                    self.clients[who].asked = now;
                    let there = self.setup.way(&mut self.rng);
                    self.send(who, requests, now + there - agenda.now(), agenda);
                    return Ok(());
                }
                Next::Over(fate) => {
                    let client = &mut self.clients[who];
                    let again = self.setup.manner == Manner::Repeated
                        && matches!(fate, Fate::Outrun | Fate::Refused(_));
                    self.tally.attempt(&fate, now);
                    next = if again {
                        client.again()?
                    } else {
                        let buckets =
                            client.touched.iter().map(|key| Bucket::of_key(key, self.setup.buckets));
                        let buckets = buckets.collect::<BTreeSet<_>>().len() as u64;
                        self.tally.ended(&client.job, &fate, (client.begun, now), (buckets, client.attempts));
                        client.begin(now)?
                    };
                }
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, outcome: Outcome, agenda: &mut Agenda<Input>) -> Verdict {
        let asker = (ticket.0 >> COUNTER_BITS) as usize;
        let back = self.setup.way(&mut self.rng);
        if asker >= self.clients.len() {
            return self.loaded(asker - self.clients.len(), &outcome, agenda);
        }
        let (first, heard) = &mut self.rounds[asker];
        *heard = (*heard).max(agenda.now() + back);
        let (place, at) = ((ticket.0 & ((1 << COUNTER_BITS) - 1)).wrapping_sub(*first), *heard);
        let client = &mut self.clients[asker];
        let commits = client.commits();
        let Some(next) = client.answered(place as usize, outcome)? else { return Ok(()) };
        self.tally.round(commits, client.asked, at);
        self.go_on(asker, next, at, agenda)
    }
}

impl Harness for Crowd {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, _: Boot) -> Node {
        let bootstrap = (1..=self.setup.nodes as u64).map(NodeId).map(member).collect();
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(7),
            bootstrap,
            buckets: self.setup.buckets,
            copies: self.setup.copies,
            topology: Topology::View,
            placing: Placing::production(),
            log: Config::production(),
            limits: self.setup.limits(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(FORM_EVERY, FORM);
    }

    fn woken(&mut self, _: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        if !self.is_formed(nodes) || agenda.now() < SETTLE {
            agenda.wake(FORM_EVERY, FORM);
            return Ok(());
        }
        if self.setup.away {
            self.go_away(nodes);
        }
        self.stage = Stage::Loading;
        (0..self.loading.len()).try_for_each(|loader| match self.stage {
            Stage::Loading => self.load(loader, agenda),
            Stage::Forming | Stage::Working => Ok(()),
        })
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        match output {
            Output::Replies(replies) => {
                for (_, ticket, outcome) in replies {
                    self.answered(ticket, outcome, agenda)?;
                }
            }
            Output::Peers(peers) => {
                for peer in peers.iter().map(|peer| peer.id) {
                    if self.told.insert((seen.node, peer)) {
                        agenda.input(Duration::from_millis(1), seen.node, Input::PeerConnected(peer));
                    }
                }
            }
            Output::Reason(..) | Output::Admin(..) | Output::ReadyToStop => {}
        }
        Ok(())
    }

    /// Other runs compare what arrives with what was sent; here the size is all that counts.
    fn carry(&mut self, msg: Message) -> (Message, usize) {
        let bytes = wire::encode(&msg).len();
        (msg, bytes)
    }
}
