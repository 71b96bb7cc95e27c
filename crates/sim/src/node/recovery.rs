//! Clusters in which most copies of buckets are lost at once, an operator lets the buckets go on with what is left, and those who were
//! given up come back.
//!
//! Clients append marks of their own to lists, several lists at once too, and read them. What they were told is compared with
//! the lists as they are in the end: of a bucket that was recovered, marks may be missing that no survivor had applied when the
//! others died, and no others; everything told after the recovery holds.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::{Bucket, Consistency, Outcome, Refusal, Reply, Request};
use quorate_kernel::{ClusterId, NodeId, Rng};
use quorate_node::{
    AdminOutcome, AdminRequest, ClientRequest, ConnectionId, Input, Limits, LogConfig, Message, Node,
    NodeConfig, Output, Placing, Record, Ticket, Topology,
};

use super::equality::Equality;
use super::operator::{Links, member};
use super::placed::placed;
use super::words;
use crate::{Agenda, Boot, Harness, Nodes, Seen, Verdict, through_bytes};

const LINKS: u64 = 1 << 40;
const LINKS_EVERY: Duration = Duration::from_millis(40);
/// Keys of each bucket.
const KEYS: usize = 2;

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// Buckets that were recovered.
    pub recovered: u64,
    /// Among these, bucket 0.
    pub first: u64,
    /// Buckets of which no member was left.
    pub nothing_left: u64,
    /// Among those that were recovered, those that had been recovered before.
    pub again: u64,
    /// Nodes that came back.
    pub returned: u64,
    /// Marks that clients were told are there, and are not.
    pub lost: u64,
    /// Marks that clients were told are there.
    pub told: u64,
    /// Requests that were refused because their bucket was halted.
    pub halted: u64,
    /// All that happened, if it was wanted.
    pub lines: Vec<String>,
}

/// What befalls a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Losses {
    /// Anything.
    Any,
    /// Who goes on is lost too, soon, and comes back when another has gone on: two eras begin at one index.
    Twice,
}

/// What a client asked.
#[derive(Debug, Clone)]
struct Asked {
    client: u64,
    node: NodeId,
    began: Duration,
    /// The keys that get the mark; if there is none, the key that is read.
    mark: Option<u64>,
    keys: Vec<usize>,
}

/// A mark that a client was told is in these lists.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) mark: u64,
    pub(super) keys: Vec<usize>,
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

/// A list as somebody read it.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) key: usize,
    pub(super) marks: Vec<u64>,
    pub(super) began: Duration,
}

/// The harness.
#[derive(Debug)]
pub(super) struct Clients {
    rng: Rng,
    first: Vec<NodeId>,
    pub(super) buckets: NonZeroU16,
    copies: u8,
    placing: Placing,
    log: LogConfig,
    limits: Limits,
    /// The keys, `KEYS` of each bucket.
    pub(super) keys: Vec<Vec<u8>>,
    links: Links,
    pub(super) equality: Equality,
    tickets: u64,
    clients: u64,
    pub(super) at_work: bool,
    asked: BTreeMap<Ticket, Asked>,
    pub(super) told: Vec<Told>,
    /// Marks that are in no list.
    pub(super) refused: BTreeSet<u64>,
    pub(super) sights: Vec<Sight>,
    /// The latest answers to [`Clients::read_here`], by node and key.
    pub(super) copies_read: BTreeMap<(NodeId, usize), Vec<u64>>,
    pub(super) halted: u64,
    pub(super) admin: BTreeMap<Ticket, AdminOutcome>,
}

impl Clients {
    pub(super) fn new(
        rng: Rng,
        first: Vec<NodeId>,
        setup: (NonZeroU16, u8, LogConfig),
        clients: u64,
    ) -> Self {
        let (buckets, copies, log) = setup;
        let mut keys = Vec::new();
        for bucket in (0..buckets.get()).map(Bucket) {
            let names = (0..).map(|number: u32| format!("list:{number}").into_bytes());
            keys.extend(names.filter(|name| Bucket::of_key(name, buckets) == bucket).take(KEYS));
        }
        let mut placing = Placing::production();
        placing.repair_after = Some(Duration::from_millis(500));
        Clients {
            rng,
            links: Links::new(first.clone()),
            first,
            buckets,
            copies,
            placing,
            log,
            limits: Limits { deadline: Duration::from_secs(2), ..Limits::production() },
            keys,
            equality: Equality::new(1),
            tickets: 0,
            clients,
            at_work: true,
            asked: BTreeMap::new(),
            told: Vec::new(),
            refused: BTreeSet::new(),
            sights: Vec::new(),
            copies_read: BTreeMap::new(),
            halted: 0,
            admin: BTreeMap::new(),
        }
    }

    pub(super) fn bucket_of(&self, key: usize) -> Bucket {
        Bucket::of_key(&self.keys[key], self.buckets)
    }

    /// Whether nobody waits for an answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.asked.is_empty()
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// An operator's word, and where its end will be told.
    pub(super) fn word(&mut self, request: AdminRequest) -> (Ticket, Input) {
        let ticket = self.next_ticket();
        (ticket, Input::Admin(ticket, request))
    }

    fn ask(&mut self, asked: Asked, consistency: Consistency) -> Input {
        let ticket = self.next_ticket();
        let push = |key: &usize| {
            let mark = asked.mark.unwrap_or_default().to_string();
            words::command(&[b"RPUSH".as_slice(), &self.keys[*key], mark.as_bytes()])
        };
        let request = match (asked.mark, &asked.keys[..]) {
            (None, keys) => words::one(&[b"LRANGE".as_slice(), &self.keys[keys[0]], b"0", b"-1"]),
            (Some(_), [key]) => Request::One(push(key)),
            (Some(_), keys) => {
                Request::Transaction { watched: Vec::new(), commands: keys.iter().map(push).collect() }
            }
        };
        let connection = ConnectionId(ticket.0);
        self.asked.insert(ticket, asked);
        Input::Requests(vec![ClientRequest { connection, ticket, request, consistency, identity: None }])
    }

    /// Reads a key at a node, as its copy has it.
    pub(super) fn read_here(&mut self, node: NodeId, key: usize, now: Duration) -> Input {
        let asked = Asked { client: u64::MAX, node, began: now, mark: None, keys: vec![key] };
        self.ask(asked, Consistency::Relaxed)
    }

    /// Reads a key, strictly.
    pub(super) fn read(&mut self, node: NodeId, key: usize, now: Duration) -> Input {
        let asked = Asked { client: u64::MAX - 1, node, began: now, mark: None, keys: vec![key] };
        self.ask(asked, Consistency::Strict)
    }

    fn begin(&mut self, client: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let Some(node) = self.rng.pick(&live).copied().filter(|_| self.at_work) else {
            return agenda.wake(Duration::from_millis(20), client);
        };
        let key = self.rng.below(self.keys.len() as u64) as usize;
        let other = self.rng.below(self.keys.len() as u64) as usize;
        let mark = Some(self.tickets + 1);
        let (mark, keys) = match self.rng.below(10) {
            0..3 => (None, vec![key]),
            3..8 => (mark, vec![key]),
            _ if key != other => (mark, vec![key, other]),
            _ => (mark, vec![key]),
        };
        let asked = Asked { client, node, began: agenda.now(), mark, keys };
        let input = self.ask(asked, Consistency::Strict);
        agenda.input(Duration::ZERO, node, input);
    }

    fn answered(&mut self, ticket: Ticket, outcome: Outcome, agenda: &mut Agenda<Input>) -> Verdict {
        let Some(Asked { client, node, began, mark, keys }) = self.asked.remove(&ticket) else {
            return Err(format!("{ticket:?} is answered twice: {outcome:?}"));
        };
        if client < self.clients {
            let pause = Duration::from_micros(self.rng.between(500, 20_000));
            agenda.wake(pause, client);
        }
        match (outcome, mark) {
            (Outcome::Done(Reply::Error(error)), _) => return Err(format!("{error:?}")),
            (Outcome::Done(_), Some(mark)) => {
                self.told.push(Told { mark, keys, began, ended: agenda.now() });
            }
            (Outcome::Done(reply), None) => {
                let marks = marks_of(&reply)?;
                match client {
                    u64::MAX => drop(self.copies_read.insert((node, keys[0]), marks)),
                    _ => self.sights.push(Sight { key: keys[0], marks, began }),
                }
            }
            (Outcome::Refused(why), mark) => {
                self.halted += u64::from(why == Refusal::Halted);
                if why == Refusal::Halted && agenda.now() > began + Duration::from_millis(50) {
                    return Err(format!("a halted bucket was told of after {:?}", agenda.now() - began));
                }
                self.refused.extend(mark);
            }
            (Outcome::Unknown, _) => {}
        }
        Ok(())
    }

    pub(super) fn compare(&mut self, nodes: &Nodes<Node>) -> Verdict {
        for (id, machine) in nodes.live() {
            if let Some(store) = nodes.store(id) {
                self.equality.compare(id, machine, store)?;
            }
        }
        Ok(())
    }
}

fn marks_of(reply: &Reply) -> Result<Vec<u64>, String> {
    let Reply::Array(items) = reply else { return Err(format!("a list was to come, not {reply:?}")) };
    let mark = |item: &Reply| {
        let text = words::text(item)?.ok_or("a list has no gaps")?;
        text.parse::<u64>().map_err(|error| error.to_string())
    };
    items.iter().map(mark).collect()
}

impl Harness for Clients {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, _: Boot) -> Node {
        self.links.booted(node);
        self.equality.booted(node);
        let founds = self.first.contains(&node);
        let bootstrap = if founds { self.first.iter().copied().map(member).collect() } else { Vec::new() };
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(7),
            bootstrap,
            buckets: self.buckets,
            copies: self.copies,
            topology: Topology::View,
            placing: placed(node, self.placing.clone()),
            log: self.log.clone(),
            limits: self.limits.clone(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        (0..self.clients).for_each(|client| agenda.wake(Duration::from_secs(1), client));
        agenda.wake(Duration::from_millis(5), LINKS);
    }

    fn observe(&mut self, seen: Seen<'_, Node>) -> Verdict {
        let Some(store) = seen.nodes.store(seen.node) else { return Ok(()) };
        self.equality.look(seen.node, seen.machine, store)
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        match output {
            Output::Replies(replies) => {
                for (_, ticket, outcome) in replies {
                    self.answered(ticket, outcome, agenda)?;
                }
            }
            Output::Peers(peers) => self.links.wants(seen.node, &peers),
            Output::Admin(ticket, outcome) => drop(self.admin.insert(ticket, outcome)),
            Output::Reason(..) => {}
            Output::ReadyToStop => return Err("nobody asked a node to stop".into()),
        }
        Ok(())
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        if token == LINKS {
            self.links.look(nodes, 0, &mut self.rng, agenda);
            agenda.wake(LINKS_EVERY, LINKS);
        } else {
            self.begin(token, nodes, agenda);
        }
        Ok(())
    }

    fn refused(&mut self, _: NodeId, input: Input, agenda: &mut Agenda<Input>) {
        let Input::Requests(requests) = input else { return };
        for request in requests {
            if let Some(asked) = self.asked.remove(&request.ticket) {
                self.refused.extend(asked.mark);
                if asked.client < self.clients {
                    agenda.wake(Duration::from_millis(5), asked.client);
                }
            }
        }
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        self.links.died(node, &mut self.rng, agenda);
        for (_, asked) in self.asked.extract_if(.., |_, asked| asked.node == node) {
            if asked.client < self.clients {
                agenda.wake(Duration::from_millis(5), asked.client);
            }
        }
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        through_bytes(&msg)
    }

    fn keep(&mut self, record: Record) -> Record {
        through_bytes(&record).0
    }
}
