//! A node that wants in: ask a seed who would observe it, ask those, take the view.

use alloc::vec::Vec;
use quorate_kernel::{Cx, NodeId, Time};

use crate::config::Config;
use crate::machine::{Out, Timer};
use crate::message::{Message, Refusal};
use crate::ring::RingSet;
use crate::view::{Meta, ViewId};

/// Seeds asked at once: some may be no members (yet) themselves, and then do not answer.
const ASKED: usize = 8;
/// Seeds and observers remembered as further seeds.
const SEEDS_MAX: usize = 64;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Joiner {
    seeds: Vec<NodeId>,
    next: usize,
    attempts: u32,
    /// Why the newest attempt failed, as far as somebody said so.
    pub(crate) refusal: Refusal,
    /// The newest view in which somebody was asked to be an observer.
    joining: ViewId,
    pulled: Option<Time>,
}

impl Joiner {
    pub(crate) fn new(seeds: Vec<NodeId>) -> Joiner {
        let mut joiner = Joiner {
            seeds: Vec::new(),
            next: 0,
            attempts: 0,
            refusal: Refusal::NoAnswer,
            joining: ViewId::default(),
            pulled: None,
        };
        seeds.into_iter().for_each(|seed| joiner.learn(seed));
        joiner
    }

    fn learn(&mut self, seed: NodeId) {
        if self.seeds.len() < SEEDS_MAX && !self.seeds.contains(&seed) {
            self.seeds.push(seed);
        }
    }

    /// Begins an attempt; false if there were enough.
    pub(crate) fn attempt(&mut self, cx: &mut Cx<'_>, config: &Config, meta: &Meta, out: &mut Out) -> bool {
        if self.attempts >= config.join_attempts || self.seeds.is_empty() {
            return false;
        }
        self.attempts += 1;
        self.joining = ViewId::default();
        cx.marks.hit("membership.join.attempt");
        for _ in 0..ASKED.min(self.seeds.len()) {
            let seed = self.seeds[self.next % self.seeds.len()];
            self.next += 1;
            out.send(seed, Message::PreJoin { meta: meta.clone() });
        }
        // Joiners that began together do not ask together for ever.
        let jitter = config.join_timeout / 4;
        let jitter = core::time::Duration::from_nanos(cx.rng.between(0, jitter.as_nanos() as u64));
        out.arm(Timer::Join, config.join_timeout + jitter);
        true
    }

    /// Somebody says who the observers would be. Every attempt asks once for each view, the newest heard of.
    pub(crate) fn on_observers(
        &mut self,
        view: ViewId,
        observers: &[(NodeId, RingSet)],
        meta: &Meta,
        out: &mut Out,
    ) {
        if view.seq <= self.joining.seq {
            return;
        }
        self.joining = view;
        for (observer, _) in observers {
            self.learn(*observer);
            out.send(*observer, Message::Join { view, meta: meta.clone() });
        }
    }

    /// Somebody has a view that this node may be in.
    pub(crate) fn pull(&mut self, cx: &mut Cx<'_>, from: NodeId, config: &Config, out: &mut Out) {
        if self.pulled.is_some_and(|at| cx.now.since(at) < config.resend) {
            return;
        }
        self.pulled = Some(cx.now);
        self.learn(from);
        out.send(from, Message::Pull { view: ViewId::default() });
    }
}
