//! The harness: nodes that come and go, whom they are connected to, and their clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::time::Duration;

use quorate_api::history::{Ending, Op, Record};
use quorate_kernel::{NodeId, Rng};
use quorate_node::Ticket;

use super::kind::{Answer, Kind, Said};
use super::setup::{FOUNDERS, Setup};
use crate::{Agenda, Boot, Harness, Input, Latency, Msg, Nodes, Replacement, Seen, Verdict};

const JOIN: u64 = 0;
const ASK: u64 = 1;
/// Nodes that wait to join are looked at so often.
const JOIN_EVERY: Duration = Duration::from_millis(100);
/// A new connection stands after so long.
const CONNECT: Duration = Duration::from_millis(2);
/// Who has no answer to its first words tries another address after so long.
const JOIN_AGAIN: Duration = Duration::from_secs(5);

/// What clients got.
#[derive(Debug, Default, Clone)]
pub(super) struct Got {
    pub(super) asked: u64,
    pub(super) failed: u64,
    /// Their node died meanwhile, and they with it.
    pub(super) lost: u64,
    /// Of reads and of writes, in microseconds.
    pub(super) took: [Vec<u64>; 2],
}

/// Something that a client asked.
struct Asked {
    node: NodeId,
    at: Duration,
    keys: Vec<u64>,
    /// What it writes; none: it reads.
    value: Option<String>,
    counts: bool,
}

/// See the module's documentation.
pub(super) struct Land<K> {
    kind: PhantomData<K>,
    setup: Setup,
    rng: Rng,
    /// Nodes that are there and were let in, or try to be.
    live: Vec<NodeId>,
    /// Those of them that serve.
    ready: Vec<NodeId>,
    /// When nodes will die; none of them before nodes die at all.
    deaths_due: Option<BTreeSet<(Duration, NodeId)>>,
    /// Nodes that run and know nobody yet.
    strangers: VecDeque<NodeId>,
    /// When a node was told of somebody first.
    began: BTreeMap<NodeId, Duration>,
    /// Whom a node is connected to, and who to it.
    to: BTreeMap<NodeId, BTreeSet<NodeId>>,
    from: BTreeMap<NodeId, BTreeSet<NodeId>>,
    asked: BTreeMap<Ticket, Asked>,
    /// What clients did, if it is judged.
    pub(super) records: Vec<Record>,
    tickets: u64,
    /// Whether nodes die and clients ask, and whether that is counted.
    pub(super) is_open: bool,
    pub(super) counts: bool,
    /// Keys that are still to be read once more in the end.
    pub(super) looks: Option<u64>,
    pub(super) deaths: u64,
    pub(super) got: Got,
    /// How many messages were sent, by what they are for.
    pub(super) sent: BTreeMap<&'static str, u64>,
}

impl<K: Kind> Land<K> {
    pub(super) fn new(setup: Setup) -> Land<K> {
        Land {
            kind: PhantomData,
            rng: Rng::new(setup.seed ^ 0x6c61_6e64),
            setup,
            live: Vec::new(),
            ready: Vec::new(),
            deaths_due: None,
            strangers: VecDeque::new(),
            began: BTreeMap::new(),
            to: BTreeMap::new(),
            from: BTreeMap::new(),
            asked: BTreeMap::new(),
            records: Vec::new(),
            tickets: 0,
            is_open: false,
            counts: false,
            looks: None,
            deaths: 0,
            got: Got::default(),
            sent: BTreeMap::new(),
        }
    }

    /// Nodes that know nobody yet.
    pub(super) fn waiting(&self) -> usize {
        self.strangers.len()
    }

    /// So many of those that wait get the address of somebody.
    fn let_some_in(&mut self, nodes: &Nodes<K>, agenda: &mut Agenda<Input<Self>>) {
        let share = self.live.len() * self.setup.joins_percent as usize / 100;
        let now = agenda.now();
        for _ in 0..(share / 10).max(1) {
            let Some(node) = self.strangers.pop_front() else { break };
            if nodes.machine(node).is_none() {
                continue;
            }
            self.introduce(node, agenda);
            self.began.insert(node, now);
            self.live.push(node);
        }
        let late: Vec<NodeId> =
            self.began.iter().filter(|(_, at)| now - **at >= JOIN_AGAIN).map(|(id, _)| *id).collect();
        let serving: Vec<NodeId> =
            self.began.keys().copied().filter(|id| nodes.machine(*id).is_some_and(K::serves)).collect();
        for node in serving {
            self.began.remove(&node);
            self.ready.push(node);
            self.expect_death(node, self.setup.lives.of(self.setup.lifetime), now);
        }
        for node in late {
            match nodes.machine(node).map(K::is_stranger) {
                Some(true) => {
                    self.introduce(node, agenda);
                    self.began.insert(node, now);
                }
                Some(false) => {}
                None => drop(self.began.remove(&node)),
            }
        }
        self.kill_some(agenda);
        agenda.wake(JOIN_EVERY, JOIN);
    }

    fn introduce(&mut self, node: NodeId, agenda: &mut Agenda<Input<Self>>) {
        if let Some(seed) = self.rng.pick(&self.live).copied() {
            self.connect(node, seed, agenda);
        }
    }

    fn connect(&mut self, from: NodeId, to: NodeId, agenda: &mut Agenda<Input<Self>>) {
        if self.to.entry(from).or_default().insert(to) {
            self.from.entry(to).or_default().insert(from);
            agenda.input(CONNECT, from, K::connected(to));
        }
    }

    fn is_live(&self, node: NodeId) -> bool {
        self.to.contains_key(&node)
    }

    fn wants(&mut self, node: NodeId, wanted: BTreeSet<NodeId>, agenda: &mut Agenda<Input<Self>>) {
        let gone: Vec<NodeId> =
            self.to.entry(node).or_default().extract_if(.., |id| !wanted.contains(id)).collect();
        for id in gone {
            self.from.entry(id).or_default().remove(&node);
            agenda.input(Duration::ZERO, node, K::lost(id));
        }
        for id in wanted.into_iter().filter(|id| *id != node) {
            if self.is_live(id) {
                self.connect(node, id, agenda);
            }
        }
    }

    fn pause(&mut self, mean: Duration) -> Duration {
        // An exponential draw would need a logarithm; between half and one and a half is as good here.
        mean / 2 + mean.mul_f64(self.rng.fraction())
    }

    fn ask(&mut self, agenda: &mut Agenda<Input<Self>>) {
        agenda.wake(self.pause(self.setup.think / self.setup.nodes as u32), ASK);
        let looks = self.looks.is_some_and(|left| left > 0);
        let Some(node) = self.rng.pick(&self.ready).copied().filter(|_| self.is_open || looks) else {
            return;
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let (keys, value) = match &mut self.looks {
            Some(left) => {
                *left -= 1;
                (vec![*left], None)
            }
            None => (
                (0..self.setup.keys_each).map(|_| self.rng.below(self.setup.keys)).collect(),
                self.rng.chance(1, 2).then(|| format!("value:{}", self.tickets)),
            ),
        };
        let asks = K::ask(ticket, &keys, value.as_deref());
        let (at, counts) = (agenda.now(), self.counts);
        self.got.asked += u64::from(counts);
        self.asked.insert(ticket, Asked { node, at, keys, value, counts });
        agenda.input(Duration::ZERO, node, asks);
    }

    /// Writes down what a client did; `Unknown` is also what nobody told it.
    fn note(&mut self, ticket: Ticket, asked: Asked, now: Duration, answer: Answer) {
        let Asked { at, keys, value, .. } = asked;
        let [key] = keys[..] else { return };
        if !self.setup.is_judged {
            return;
        }
        let key = format!("key:{key}");
        let (ending, op) = match (answer, value) {
            (Answer::Value(result), None) => (Ending::Ok, Op::Read { key, result: Some(result) }),
            (_, None) => (Ending::Fail, Op::Read { key, result: None }),
            (Answer::Written, value) => (Ending::Ok, Op::Write { key, value }),
            (Answer::Refused, value) => (Ending::Fail, Op::Write { key, value }),
            (_, value) => (Ending::Unknown, Op::Write { key, value }),
        };
        let (start, end) = (at.as_nanos() as u64, now.as_nanos() as u64);
        let end = (ending != Ending::Unknown).then_some(end);
        let is_final = self.looks.is_some();
        self.records.push(Record { client: ticket.0, start, end, outcome: ending, ops: vec![op], is_final });
    }

    fn expect_death(&mut self, node: NodeId, left: Latency, now: Duration) {
        if let Some(due) = &mut self.deaths_due {
            due.insert((now + Duration::from_nanos(left.draw(&mut self.rng)), node));
        }
    }

    fn kill_some(&mut self, agenda: &mut Agenda<Input<Self>>) {
        let now = agenda.now();
        if !self.is_open {
            self.deaths_due = None;
        } else if self.deaths_due.is_none() {
            self.deaths_due = Some(BTreeSet::new());
            let left = self.setup.lives.left(self.setup.lifetime);
            self.ready.clone().into_iter().for_each(|node| self.expect_death(node, left, now));
        }
        while let Some(due) = &mut self.deaths_due
            && let Some((_, node)) = due.first().copied().filter(|(at, _)| *at <= now)
        {
            due.pop_first();
            self.deaths += 1;
            agenda.crash(Duration::ZERO, node, Duration::from_millis(10));
        }
    }

    /// Requests that have not ended.
    pub(super) fn open(&self) -> usize {
        self.asked.len()
    }
}

impl<K: Kind> Harness for Land<K> {
    type Machine = K;

    fn machine(&mut self, node: NodeId, boot: Boot) -> K {
        let is_founder = boot == Boot::First && node.0 <= FOUNDERS;
        self.to.entry(node).or_default();
        match is_founder {
            true => {
                self.live.push(node);
                self.ready.push(node);
            }
            false => self.strangers.push_back(node),
        }
        K::of(&self.setup, node, is_founder)
    }

    fn start(&mut self, agenda: &mut Agenda<Input<Self>>) {
        [JOIN, ASK].into_iter().for_each(|token| agenda.wake(Duration::from_secs(2), token));
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<K>, agenda: &mut Agenda<Input<Self>>) -> Verdict {
        match token {
            JOIN => self.let_some_in(nodes, agenda),
            _ => self.ask(agenda),
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input<Self>>) {
        self.live.retain(|id| *id != node);
        self.ready.retain(|id| *id != node);
        self.began.remove(&node);
        for peer in self.to.remove(&node).unwrap_or_default() {
            self.from.entry(peer).or_default().remove(&node);
        }
        for peer in self.from.remove(&node).unwrap_or_default() {
            self.to.entry(peer).or_default().remove(&node);
            agenda.input(self.setup.noticed, peer, K::lost(node));
        }
        let lost: Vec<Ticket> =
            self.asked.iter().filter(|(_, asked)| asked.node == node).map(|(ticket, _)| *ticket).collect();
        for ticket in lost {
            let Some(asked) = self.asked.remove(&ticket) else { continue };
            self.got.lost += u64::from(asked.counts);
            self.note(ticket, asked, agenda.now(), Answer::Unknown);
        }
    }

    fn output(&mut self, seen: Seen<'_, K>, output: K::Output, agenda: &mut Agenda<Input<Self>>) -> Verdict {
        let answers = match K::said(output) {
            Said::Peers(peers) => {
                self.wants(seen.node, peers, agenda);
                return Ok(());
            }
            Said::Answers(answers) => answers,
            Said::Nothing => return Ok(()),
        };
        for (ticket, answer) in answers {
            agenda.input(Duration::ZERO, seen.node, K::goes(ticket));
            let Some(asked) = self.asked.remove(&ticket) else { continue };
            let is_done = match &answer {
                Answer::Nonsense(why) => return Err(why.clone()),
                Answer::Value(_) | Answer::Written => true,
                Answer::Refused | Answer::Unknown => false,
            };
            if asked.counts && is_done {
                let took = (seen.now - asked.at).as_micros() as u64;
                self.got.took[usize::from(asked.value.is_some())].push(took);
            } else if asked.counts {
                self.got.failed += 1;
            }
            self.note(ticket, asked, seen.now, answer);
        }
        Ok(())
    }

    fn disk_lost(&mut self, _: NodeId) -> Replacement {
        Replacement::NewIdentity
    }

    fn carry(&mut self, msg: Msg<Self>) -> (Msg<Self>, usize) {
        *self.sent.entry(K::purpose(&msg)).or_default() += 1;
        (msg, 0)
    }
}
