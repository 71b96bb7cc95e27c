//! Clients: they write and read, believe hints about who leads, lose patience and ask again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::{NodeId, Rng};
use quorate_replog::Index;

use super::ledger::Ledger;
use super::parent::{Ask, Command};
use crate::{Agenda, Verdict};

/// How clients behave.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    /// Whether requests are numbered, so that a retry is harmless.
    pub(crate) sessions: bool,
    /// Requests a client has under way.
    pub(crate) window: usize,
    /// How long a client waits at most before it does the next thing.
    pub(crate) think: Duration,
    /// How long a client waits for an answer.
    pub(crate) patience: Duration,
    /// Percentage of reads.
    pub(crate) reads: u64,
    /// Bytes of a command's padding at most.
    pub(crate) padding_max: u64,
}

/// A write under way.
#[derive(Debug, Clone)]
struct Write {
    seq: u64,
    key: u8,
    padding: Bytes,
    /// What was known when it was first asked for.
    floor: Index,
    asked: bool,
    deadline: Duration,
}

/// One client.
#[derive(Debug, Clone, Default)]
struct Client {
    seq: u64,
    writes: VecDeque<Write>,
    target: Option<NodeId>,
    done_since_healing: bool,
}

/// All clients, and what they asked.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) manners: Manners,
    clients: Vec<Client>,
    attempts: u64,
    /// Attempts of which nothing was heard yet: client and request.
    asked: BTreeMap<u64, (usize, u64)>,
    /// Reads of which nothing was heard yet, and what was known when they began.
    reads: BTreeMap<u64, Index>,
    healed: Option<Duration>,
    pub(crate) acknowledged: u64,
    pub(crate) read: u64,
}

/// How long clients go on asking for new things after all faults are over.
const LAST_WORDS: Duration = Duration::from_millis(300);

impl Clients {
    pub(crate) fn new(manners: Manners, count: u32) -> Self {
        Clients {
            manners,
            clients: vec![Client::default(); count as usize],
            attempts: 0,
            asked: BTreeMap::new(),
            reads: BTreeMap::new(),
            healed: None,
            acknowledged: 0,
            read: 0,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.clients.len() as u64
    }

    pub(crate) fn healed(&mut self, now: Duration) {
        self.healed = Some(now);
        self.manners.patience = self.manners.patience.max(Duration::from_secs(2));
        self.manners.think = self.manners.think.max(Duration::from_millis(20));
    }

    /// Client `who` does the next thing.
    pub(crate) fn wake(
        &mut self,
        who: usize,
        ledger: &Ledger,
        nodes: &[NodeId],
        rng: &mut Rng,
        agenda: &mut Agenda<Ask>,
    ) {
        let now = agenda.now();
        self.lose_patience(who, nodes, now, rng);
        let client = &mut self.clients[who];
        let leaving =
            self.healed.is_some_and(|healed| now > healed + LAST_WORDS) && client.done_since_healing;
        if !leaving {
            let reads = rng.chance(self.manners.reads, 100) && self.healed.is_none();
            if reads {
                self.begin_read(who, ledger, nodes, rng, agenda);
            } else if client.writes.len() < self.manners.window {
                client.seq += 1;
                let padding = Bytes::from(vec![b'.'; rng.below(self.manners.padding_max + 1) as usize]);
                let (seq, key, floor) = (client.seq, rng.below(5) as u8, ledger.floor());
                client.writes.push_back(Write { seq, key, padding, floor, asked: false, deadline: now });
            }
        }
        self.ask(who, nodes, rng, agenda);
        let think = self.manners.think.as_micros() as u64;
        let pause = if leaving { 50_000 } else { rng.between(think / 8, think) };
        agenda.wake(Duration::from_micros(pause), who as u64);
    }

    /// Requests that were not answered in time: asked again within a session, given up otherwise.
    fn lose_patience(&mut self, who: usize, nodes: &[NodeId], now: Duration, rng: &mut Rng) {
        let client = &mut self.clients[who];
        if !client.writes.iter().any(|write| write.asked && write.deadline <= now) {
            return;
        }
        client.target = rng.pick(nodes).copied();
        if self.manners.sessions {
            client.writes.iter_mut().for_each(|write| write.asked = false);
        } else {
            client.writes.retain(|write| !write.asked || write.deadline > now);
        }
    }

    /// Sends every request that is not under way.
    fn ask(&mut self, who: usize, nodes: &[NodeId], rng: &mut Rng, agenda: &mut Agenda<Ask>) {
        let client = &mut self.clients[who];
        let target = *client.target.get_or_insert_with(|| *rng.pick(nodes).expect("there are nodes"));
        let settled = client.writes.front().map_or(0, |write| write.seq);
        for write in client.writes.iter_mut().filter(|write| !write.asked) {
            self.attempts += 1;
            self.asked.insert(self.attempts, (who, write.seq));
            write.asked = true;
            write.deadline = agenda.now() + self.manners.patience;
            let command = Command {
                attempt: self.attempts,
                client: who as u64,
                seq: if self.manners.sessions { write.seq } else { 0 },
                settled,
                key: write.key,
                padding: write.padding.clone(),
            };
            agenda.input(Duration::ZERO, target, Ask::Write(command));
        }
    }

    fn begin_read(
        &mut self,
        who: usize,
        ledger: &Ledger,
        nodes: &[NodeId],
        rng: &mut Rng,
        agenda: &mut Agenda<Ask>,
    ) {
        // Mostly who is believed to lead, sometimes anyone: former leaders must not answer.
        let target = match self.clients[who].target {
            Some(target) if rng.chance(2, 3) => target,
            _ => *rng.pick(nodes).expect("there are nodes"),
        };
        self.read_from(target, ledger, agenda);
    }

    /// Somebody reads from `target` right now.
    pub(crate) fn read_from(&mut self, target: NodeId, ledger: &Ledger, agenda: &mut Agenda<Ask>) {
        self.attempts += 1;
        self.reads.insert(self.attempts, ledger.floor());
        agenda.input(Duration::ZERO, target, Ask::Read(self.attempts));
    }

    /// An attempt to write had an effect.
    pub(crate) fn done(&mut self, attempt: u64, index: Index, ledger: &mut Ledger) -> Verdict {
        let Some((who, seq)) = self.asked.remove(&attempt) else { return Ok(()) };
        let healed = self.healed.is_some();
        let client = &mut self.clients[who];
        let Some(at) = client.writes.iter().position(|write| write.seq == seq) else { return Ok(()) };
        let Some(write) = client.writes.remove(at) else { return Ok(()) };
        client.done_since_healing |= healed;
        self.acknowledged += 1;
        ledger.written(who as u64, seq, index, write.floor)
    }

    /// An attempt to write had no effect, and will have none.
    pub(crate) fn refused(&mut self, attempt: u64, hint: Option<NodeId>, nodes: &[NodeId], rng: &mut Rng) {
        let Some((who, seq)) = self.asked.remove(&attempt) else { return };
        let client = &mut self.clients[who];
        client.target = hint.filter(|hint| nodes.contains(hint)).or_else(|| rng.pick(nodes).copied());
        for write in client.writes.iter_mut().filter(|write| write.seq >= seq) {
            // Later requests of the session wait for this one.
            if write.seq == seq || self.manners.sessions {
                write.asked = false;
            }
        }
    }

    pub(crate) fn was_read(&mut self, ticket: u64, index: Index, ledger: &mut Ledger) -> Verdict {
        let Some(floor) = self.reads.remove(&ticket) else { return Ok(()) };
        self.read += 1;
        ledger.read(ticket, index, floor)
    }

    pub(crate) fn read_refused(&mut self, ticket: u64, hint: Option<NodeId>, rng: &mut Rng) {
        if self.reads.remove(&ticket).is_some() && hint.is_some() && rng.chance(1, 2) {
            let count = self.clients.len() as u64;
            self.clients[rng.below(count) as usize].target = hint;
        }
    }

    /// Whether everyone has got what they wanted.
    pub(crate) fn content(&self) -> Verdict {
        for (who, client) in self.clients.iter().enumerate() {
            if !client.done_since_healing {
                return Err(format!("client {who} has got nothing done since all faults were over"));
            }
            if let Some(write) = client.writes.front() {
                return Err(format!("client {who} still waits for write {}", write.seq));
            }
        }
        Ok(())
    }
}
