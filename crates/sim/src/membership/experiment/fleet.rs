//! Many nodes, few faults: the harness of experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_kernel::{NodeId, Rng, wire};
use quorate_membership::{Config, Input, Membership, Message, Meta, Output};

use crate::{Agenda, Boot, Harness, Latency, NetworkOptions, Order, Seen, Verdict, World, WorldOptions};

/// Which messages are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// None.
    None,
    /// All to the victims, while the flag is up.
    Deaf,
    /// This percentage of those from and to the victims.
    Lossy(u64),
    /// All from the victims to those of their observers that are named, while the flag is up.
    Links,
}

/// When a view was installed for the first and last time, by how many, and how large it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Installed {
    pub(super) first: Duration,
    pub(super) last: Duration,
    pub(super) nodes: u64,
    pub(super) size: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Fleet {
    config: Config,
    founders: Vec<(NodeId, Meta)>,
    pub(super) harm: Harm,
    pub(super) victims: BTreeSet<NodeId>,
    /// Observers that do not hear victims, with those: for [`Harm::Links`].
    pub(super) links: BTreeSet<(NodeId, NodeId)>,
    pub(super) harmful: bool,
    rng: Rng,
    pub(super) views: BTreeMap<u64, Installed>,
    pub(super) sizes: BTreeSet<u64>,
    pub(super) kicked: BTreeSet<NodeId>,
    /// Bytes each node sent and received, without headers of transports.
    pub(super) bytes: Vec<(u64, u64)>,
    pub(super) joining_failed: u64,
}

impl Fleet {
    pub(super) fn new(config: Config, founders: usize, nodes: usize, seed: u64) -> Fleet {
        let ids = (1..=founders as u64).map(NodeId);
        Fleet {
            config,
            founders: ids.map(|id| (id, Meta::default())).collect(),
            harm: Harm::None,
            victims: BTreeSet::new(),
            links: BTreeSet::new(),
            harmful: false,
            rng: Rng::new(seed),
            views: BTreeMap::new(),
            sizes: BTreeSet::new(),
            kicked: BTreeSet::new(),
            bytes: vec![(0, 0); nodes + 1],
            joining_failed: 0,
        }
    }

    /// A world of a local network around it.
    pub(super) fn world(self, nodes: usize, seed: u64) -> World<Fleet> {
        let network = NetworkOptions {
            latency: Latency::Uniform(Duration::from_micros(100), Duration::from_micros(900)),
            order: Order::Free,
            ..NetworkOptions::default()
        };
        let options = WorldOptions {
            network,
            start_within: Duration::from_millis(500),
            events_max: u64::MAX,
            ..WorldOptions::calm(seed, nodes)
        };
        World::new(options, self)
    }

    fn enter(&mut self, now: Duration, seq: u64, size: usize) {
        self.sizes.insert(size as u64);
        let first = Installed { first: now, last: now, nodes: 0, size: size as u64 };
        let installed = self.views.entry(seq).or_insert(first);
        installed.last = now;
        installed.nodes += 1;
    }
}

impl Harness for Fleet {
    type Machine = Membership;

    fn machine(&mut self, node: NodeId, _: Boot) -> Membership {
        let founds = self.founders.last().is_some_and(|(last, _)| node <= *last);
        let founders = if founds { self.founders.clone() } else { Vec::new() };
        Membership::new(node, self.config.clone(), Meta::default(), founders)
    }

    fn output(&mut self, seen: Seen<'_, Membership>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        match output {
            Output::Installed { view, .. } | Output::NextView { view, .. } => {
                self.enter(seen.now, view.seq(), view.members.len());
            }
            Output::Kicked { .. } => {
                self.kicked.insert(seen.node);
            }
            Output::JoinFailed { .. } => {
                self.joining_failed += 1;
                agenda.input(Duration::ZERO, seen.node, Input::Join { seeds: vec![NodeId(1)] });
            }
            Output::Left { .. } | Output::Quorum { .. } => {}
        }
        Ok(())
    }

    fn loses(&mut self, from: NodeId, to: NodeId, msg: &Message) -> bool {
        let bytes = match msg {
            Message::Probe { .. } | Message::ProbeAnswer { .. } => 16,
            msg => wire::encode(msg).len() as u64,
        };
        self.bytes[from.0 as usize].0 += bytes;
        let (sends, hears) = (self.victims.contains(&from), self.victims.contains(&to));
        let lost = self.harmful
            && match self.harm {
                Harm::None => false,
                Harm::Deaf => hears,
                Harm::Lossy(percent) => (sends || hears) && self.rng.chance(percent, 100),
                Harm::Links => self.links.contains(&(to, from)),
            };
        if !lost {
            self.bytes[to.0 as usize].1 += bytes;
        }
        lost
    }
}
