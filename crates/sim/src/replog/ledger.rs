//! What must never happen to a replicated log, looked for after every step of every node.
//!
//! | property | how |
//! |---|---|
//! | agreement | the entry at an index is the same wherever and whenever it counts as chosen |
//! | nothing twice | no proposal is chosen at two indices; with sessions, no request takes effect twice |
//! | one state | equal sums over all rows at equal applied entries |
//! | one leader | a ballot is led by one node in one life |
//! | one chain | an epoch number has one member list, one start and one heir |
//! | no way back | within one life, chosen, applied and epochs only grow |
//! | linearizability | entries give the order: whoever starts after an answer was given is answered from a later state |

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_kernel::{NodeId, wire};
use quorate_replog::{Ballot, Content, Entry, Epoch, Index};

use super::parent::{Command, Parent};
use crate::Verdict;

/// What was last seen of one identity.
#[derive(Debug, Clone, Default)]
struct View {
    life: u64,
    chosen: Index,
    applied: Index,
    epoch: u64,
    leading: Option<Ballot>,
}

/// Everything that was ever chosen, and who ever led.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By index, from 1 at place 0.
    entries: Vec<Option<Entry>>,
    sums: BTreeMap<Index, u64>,
    attempts: BTreeMap<u64, Index>,
    effects: BTreeMap<(u64, u64), Index>,
    pub(crate) epochs: BTreeMap<u64, Epoch>,
    leaders: BTreeMap<Ballot, (NodeId, u64)>,
    views: BTreeMap<NodeId, View>,
    lives: u64,
    /// The newest entry that an answer was given from, or that did what a client was told is done.
    floor: Index,
}

impl Ledger {
    /// A life of `node` begins.
    pub(crate) fn booted(&mut self, node: NodeId) {
        self.lives += 1;
        self.views.insert(node, View { life: self.lives, ..View::default() });
    }

    /// What an operation that starts now has to see.
    pub(crate) fn floor(&self) -> Index {
        self.floor
    }

    /// How many entries are known to be chosen.
    pub(crate) fn chosen_count(&self) -> u64 {
        self.entries.iter().flatten().count() as u64
    }

    /// Looks at a node after its step.
    pub(crate) fn look(&mut self, node: NodeId, parent: &Parent) -> Verdict {
        let log = parent.log();
        let view = self.views.entry(node).or_default();
        let old = view.clone();
        let (applied, sum) = parent.state();
        view.chosen = log.chosen();
        view.applied = applied;
        view.epoch = log.epoch().number;
        view.leading = log.leading();
        if old.chosen > log.chosen() || old.applied > applied || old.epoch > log.epoch().number {
            return Err(format!("{node:?} went back: {old:?} to chosen {} applied {applied}", log.chosen()));
        }
        if log.chosen() > old.chosen {
            self.chosen(node, parent, old.chosen + 1)?;
        }
        if applied > old.applied {
            self.applied(node, applied, sum)?;
        }
        if log.epoch().number > old.epoch {
            self.entered(node, log.epoch())?;
        }
        match log.leading() {
            Some(ballot) if old.leading != Some(ballot) => self.leads(node, old.life, ballot),
            _ => Ok(()),
        }
    }

    fn chosen(&mut self, node: NodeId, parent: &Parent, first: Index) -> Verdict {
        let log = parent.log();
        for index in first..=log.chosen() {
            // Entries that came with a snapshot were seen elsewhere.
            let Some(entry) = parent.chosen_entry(index) else { continue };
            let place = index as usize - 1;
            if self.entries.len() <= place {
                self.entries.resize(place + 1, None);
            }
            match &self.entries[place] {
                Some(known) if known == entry => {}
                Some(known) => {
                    return Err(format!("{node:?} chose {entry:?} as entry {index}, which is {known:?}"));
                }
                None => {
                    self.entries[place] = Some(entry.clone());
                    self.once(index, entry.clone())?;
                }
            }
        }
        Ok(())
    }

    /// No proposal is chosen twice.
    fn once(&mut self, index: Index, entry: Entry) -> Verdict {
        let Content::Command(bytes) = entry.content else { return Ok(()) };
        let command = decode(&bytes);
        match self.attempts.insert(command.attempt, index) {
            Some(other) => {
                Err(format!("attempt {} was chosen at {other} and again at {index}", command.attempt))
            }
            None => Ok(()),
        }
    }

    fn applied(&mut self, node: NodeId, applied: Index, sum: u64) -> Verdict {
        match self.sums.insert(applied, sum) {
            Some(other) if other != sum => {
                Err(format!("{node:?} has another state than others after entry {applied}"))
            }
            _ => Ok(()),
        }
    }

    fn entered(&mut self, node: NodeId, epoch: &Epoch) -> Verdict {
        match self.epochs.get(&epoch.number) {
            Some(known) if known == epoch => Ok(()),
            Some(known) => Err(format!("{node:?} entered {epoch:?}, which is {known:?}")),
            None => {
                self.epochs.insert(epoch.number, epoch.clone());
                Ok(())
            }
        }
    }

    fn leads(&mut self, node: NodeId, life: u64, ballot: Ballot) -> Verdict {
        match self.leaders.insert(ballot, (node, life)) {
            Some(other) if other != (node, life) => {
                Err(format!("{ballot:?} is led by {node:?} in life {life}, and by {other:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A write was answered: entry `index` did it. `floor` is what was known when it was first asked for.
    pub(crate) fn written(&mut self, client: u64, seq: u64, index: Index, floor: Index) -> Verdict {
        if index <= floor {
            return Err(format!(
                "write {seq} of client {client} was done by entry {index}, though entry {floor} was seen before"
            ));
        }
        if self.entries.get(index as usize - 1).is_none_or(Option::is_none) {
            return Err(format!(
                "write {seq} of client {client} was answered, but entry {index} is not chosen"
            ));
        }
        match self.effects.insert((client, seq), index) {
            Some(other) if other != index => {
                return Err(format!("write {seq} of client {client} was done by {other} and by {index}"));
            }
            _ => {}
        }
        self.floor = self.floor.max(index);
        Ok(())
    }

    /// A read was answered from the state as of `index`.
    pub(crate) fn read(&mut self, ticket: u64, index: Index, floor: Index) -> Verdict {
        if index < floor {
            return Err(format!(
                "read {ticket} saw the state at entry {index}, though entry {floor} was seen before it began"
            ));
        }
        self.floor = self.floor.max(index);
        Ok(())
    }

    /// Every write that was answered is in the state that all have come to.
    pub(crate) fn finish(&self) -> Verdict {
        for ((client, seq), index) in &self.effects {
            let entry = self.entries.get(*index as usize - 1).and_then(Option::as_ref);
            let Some(Entry { content: Content::Command(bytes), .. }) = entry else {
                return Err(format!("write {seq} of client {client} was answered and entry {index} is none"));
            };
            let command = decode(bytes);
            if command.client != *client || (command.seq != 0 && command.seq != *seq) {
                return Err(format!("write {seq} of client {client} was not done by entry {index}"));
            }
        }
        Ok(())
    }
}

fn decode(bytes: &Bytes) -> Command {
    wire::decode(bytes).expect("only commands of ours are proposed")
}
