//! What must never happen to a chain of views, looked for after every step of every node.
//!
//! | property | how |
//! |---|---|
//! | V1, V6: one chain | a number has one view, with the same members, described alike, wherever it is seen |
//! | V2: no gaps | a parent is told one view after the other, or gets a whole one with its state |
//! | one vote | whatever befalls a node, it sends one vote in a round of a view, and none in the fast one after a promise |
//! | V3: alerts stay in their view | a ring counts only if its observer raised that alert in that view |
//! | V4: once in, once out | a membership begins in the view it is named after, and does not come back |
//! | one state | what parents derive from equal chains is equal |
//! | no way back | within one life the numbers of views grow |
//! | stability, where it is owed | nobody who is well is removed |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quorate_kernel::{NodeId, Rng};
use quorate_membership::{Digest, Membership, Message, Output, Rank, View, ViewId};

use crate::Verdict;

/// What one node's parent knows.
#[derive(Debug, Clone, Copy, Default)]
struct Parent {
    seq: u64,
    state: u64,
}

/// Every view there was, and what parents made of them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    views: BTreeMap<u64, View>,
    states: BTreeMap<u64, u64>,
    /// Who alerted about whom, in which view.
    raised: BTreeSet<(u64, NodeId, NodeId)>,
    /// What each node said it voted for, by view and round.
    votes: BTreeMap<(ViewId, Rank, NodeId), Digest>,
    /// Who promised a classic round without having voted.
    without_vote: BTreeSet<(ViewId, NodeId)>,
    /// The newest view seen in the current life of each node.
    seen: BTreeMap<NodeId, u64>,
    parents: BTreeMap<NodeId, Parent>,
    /// Any removal is a failure.
    removals_forbidden: bool,
    pub(crate) removals: u64,
    pub(crate) joins: u64,
}

/// What a parent makes of a view: something that depends on the whole chain before.
fn fold(state: u64, view: &View) -> u64 {
    let mut state = Rng::new(state ^ view.seq()).next_u64();
    for member in view.members.iter() {
        state = Rng::new(state ^ member.id.0.rotate_left(32) ^ member.since).next_u64();
    }
    state
}

impl Ledger {
    /// Nothing has happened yet. With `removals_forbidden`, nobody must ever be removed.
    pub(crate) fn new(removals_forbidden: bool) -> Self {
        Ledger { removals_forbidden, ..Ledger::default() }
    }

    /// A life of `node` begins.
    pub(crate) fn booted(&mut self, node: NodeId) {
        self.seen.remove(&node);
        self.parents.remove(&node);
    }

    /// The newest view that any node has installed for good.
    pub(crate) fn newest(&self) -> Option<&View> {
        self.views.values().next_back()
    }

    /// A node made a step.
    pub(crate) fn look(&mut self, node: NodeId, machine: &Membership) -> Verdict {
        let Some(view) = machine.view() else { return Ok(()) };
        let seq = view.seq();
        let seen = self.seen.entry(node).or_default();
        if seq < *seen {
            return Err(format!("{node:?} went back from view {seen} to {seq}"));
        }
        if seq > *seen {
            *seen = seq;
        }
        for (subject, _) in machine.pending() {
            self.raised.insert((seq, node, subject));
        }
        for (subject, rings) in machine.reported() {
            for (observer, over) in machine.observers(subject) {
                if !rings.and(over).is_empty() && !self.raised.contains(&(seq, observer, subject)) {
                    return Err(format!(
                        "{node:?} counts an alert about {subject:?} in view {seq} that {observer:?} did not raise there"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A message leaves a node.
    pub(crate) fn sent(&mut self, node: NodeId, msg: &Message) -> Verdict {
        if let Message::Phase1b { view, voted: None, .. } = msg {
            self.without_vote.insert((*view, node));
        }
        let Message::News { view, votes, .. } = msg else { return Ok(()) };
        let Some(known) = self.views.get(&view.seq).filter(|known| known.id == *view) else { return Ok(()) };
        let Some(index) = known.members.iter().position(|member| member.id == node) else { return Ok(()) };
        for vote in votes.iter().filter(|vote| vote.voters.has(index)) {
            if vote.rank == Rank::FAST && self.without_vote.contains(&(*view, node)) {
                return Err(format!(
                    "{node:?} votes in the fast round of {view:?} after it promised to be past it"
                ));
            }
            let first = *self.votes.entry((*view, vote.rank, node)).or_insert(vote.digest);
            if first != vote.digest {
                return Err(format!(
                    "{node:?} votes for {first:?} and {:?} in {:?} of {view:?}",
                    vote.digest, vote.rank
                ));
            }
        }
        Ok(())
    }

    /// A node has installed a view for good.
    fn enter(&mut self, node: NodeId, view: &View) -> Verdict {
        if let Some(known) = self.views.get(&view.seq()) {
            return match known == view && known.members.iter().zip(view.members.iter()).all(|(a, b)| a == b) {
                true => Ok(()),
                false => Err(format!("{node:?} has {view:?}, others have {known:?}")),
            };
        }
        if let Some(before) = self.views.get(&(view.seq() - 1)) {
            for member in view.members.iter() {
                let fits = match before.member(member.id) {
                    Some(same) => same == member,
                    None => member.since == view.seq(),
                };
                if !fits {
                    return Err(format!("{member:?} of view {} is not that of the view before", view.seq()));
                }
            }
            let left = before.members.iter().filter(|member| !view.has(member.id)).count() as u64;
            self.removals += left;
            self.joins += view.members.iter().filter(|member| member.since == view.seq()).count() as u64;
            if left > 0 && self.removals_forbidden {
                return Err(format!("{view:?} lacks a member of {before:?} that is well"));
            }
        }
        self.views.insert(view.seq(), view.clone());
        Ok(())
    }

    /// A node's parent is told something; what it has to say, and of which view.
    pub(crate) fn told(&mut self, node: NodeId, output: &Output) -> Result<Option<(u64, Bytes)>, String> {
        // What is only in memory may be forgotten and decided otherwise: a view counts once it is told.
        if let Output::Installed { view, .. } | Output::NextView { view, .. } = output {
            self.enter(node, view)?;
        }
        let parent = self.parents.entry(node).or_default();
        match output {
            Output::Installed { view, state } => {
                let state = match state {
                    Some(bytes) => <[u8; 8]>::try_from(&bytes[..]).map(u64::from_le_bytes).ok(),
                    None if view.seq() == 1 => Some(fold(0, view)),
                    None => None,
                };
                let Some(state) = state else {
                    return Err(format!("{node:?} has {view:?} and nothing to derive from"));
                };
                *parent = Parent { seq: view.seq(), state };
            }
            Output::NextView { view, joined, left } => {
                if view.seq() != parent.seq + 1 {
                    return Err(format!("{node:?} is told of view {} after {}", view.seq(), parent.seq));
                }
                let fits = joined.iter().all(|member| member.since == view.seq() && view.has(member.id))
                    && left.iter().all(|member| !view.has(member.id));
                if !fits {
                    return Err(format!("{node:?} is told of {joined:?} and {left:?} in {view:?}"));
                }
                *parent = Parent { seq: view.seq(), state: fold(parent.state, view) };
            }
            Output::Kicked { .. }
            | Output::Left { .. }
            | Output::JoinFailed { .. }
            | Output::Quorum { .. } => {
                return Ok(None);
            }
        }
        let Parent { seq, state } = *parent;
        let agreed = *self.states.entry(seq).or_insert(state);
        if agreed != state {
            return Err(format!("{node:?} derives {state:x} in view {seq}, others {agreed:x}"));
        }
        Ok(Some((seq, Bytes::copy_from_slice(&state.to_le_bytes()))))
    }
}
