//! What nodes say to each other about membership.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::ring::RingSet;
use crate::view::{Cut, Meta, View, ViewId, shared};

/// Names a round of consensus. Round 1 is the fast round, without a coordinator; from round 2 on each belongs to one
/// member, whose id is unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// 0: none; 1: fast; from 2 on: classic.
    pub round: u64,
    /// Who coordinates it; 0 in the fast round.
    pub node: NodeId,
}

impl Rank {
    /// Before all rounds.
    pub const NONE: Rank = Rank { round: 0, node: NodeId(0) };
    /// The fast round.
    pub const FAST: Rank = Rank { round: 1, node: NodeId(0) };
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.round {
            0 => f.write_str("none"),
            1 => f.write_str("fast"),
            round => write!(f, "{round}.{}", self.node),
        }
    }
}

/// Some members of a view, as bits in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Voters(Vec<u64>);

impl Voters {
    /// Adds the member at a place; whether it is new.
    pub(crate) fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Whether the member at a place is among them.
    pub fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The places of all.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        })
    }
}

/// Who voted for one value in one round, as far as the sender knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes {
    /// The round.
    pub rank: Rank,
    /// The value.
    pub digest: Digest,
    /// Who voted for it.
    pub voters: Voters,
}

/// On which rings a change of one node's membership was asked for. A member can only be reported as gone, anybody
/// else only as wanting in: the view says which it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// About whom.
    pub subject: NodeId,
    /// The rings of alerts of the current epoch.
    pub now: RingSet,
    /// The rings of alerts of the epoch before.
    pub before: RingSet,
    /// What is known of a joiner.
    pub meta: Option<JoinerMeta>,
}

/// What is known of a joiner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinerMeta(#[serde(with = "shared")] pub Arc<Meta>);

/// Why a node cannot become a member now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There are as many members as there may be.
    Full,
    /// A member has the same peer address. If that was an earlier life of the joiner, it will be removed soon.
    AddressTaken,
    /// What it says of itself is too long.
    MetaTooLarge,
    /// Too many want in at the same time.
    Busy,
    /// Nobody answered.
    NoAnswer,
}

/// A message between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From an observer to each of its subjects, all the time; now and then to any other member.
    Probe {
        /// The newest view the sender knows.
        view: ViewId,
        /// Counts the probes of this edge.
        number: u64,
    },
    /// The answer.
    ProbeAnswer {
        /// The newest view the sender knows.
        view: ViewId,
        /// Copied from the probe.
        number: u64,
        /// The sender is alive, and has not been told yet that it is a member.
        bootstrapping: bool,
    },
    /// From a node that wants in to any member: who would be my observers?
    PreJoin {
        /// What it says of itself.
        meta: Meta,
    },
    /// The answer: ask these.
    Observers {
        /// In which view.
        view: ViewId,
        /// Who, and on which rings.
        observers: Vec<(NodeId, RingSet)>,
    },
    /// From a node that wants in to each of its observers.
    Join {
        /// In which view they are its observers.
        view: ViewId,
        /// What it says of itself.
        meta: Meta,
    },
    /// From a member to one that may not know that it is one: pull the view.
    Welcome {
        /// The newest view the sender knows.
        view: ViewId,
    },
    /// From a member to a node that wants in: not now.
    Refused {
        /// Why.
        reason: Refusal,
    },
    /// From a member to some or all others: alerts, and votes. All of it only ever grows within a view.
    News {
        /// In which view.
        view: ViewId,
        /// The epoch of `Report::now`.
        epoch: u64,
        /// Alerts.
        reports: Vec<Report>,
        /// Votes.
        votes: Vec<Votes>,
    },
    /// From a coordinator to all members: will you promise this round?
    Phase1a {
        /// In which view.
        view: ViewId,
        /// The round.
        rank: Rank,
    },
    /// The answer of a member that promised.
    Phase1b {
        /// In which view.
        view: ViewId,
        /// The round.
        rank: Rank,
        /// Its newest vote.
        voted: Option<(Rank, Digest)>,
    },
    /// From a coordinator to all members: vote for this. The votes travel as [`Message::News`].
    Phase2a {
        /// In which view.
        view: ViewId,
        /// The round.
        rank: Rank,
        /// What to vote for.
        #[serde(with = "shared")]
        cut: Arc<Cut>,
    },
    /// From a member to a coordinator: I have promised a higher round.
    Outdone {
        /// In which view.
        view: ViewId,
        /// Which.
        promised: Rank,
    },
    /// To somebody who named a value: what is it?
    Ask {
        /// In which view.
        view: ViewId,
        /// Its name.
        digest: Digest,
    },
    /// The answer.
    Value {
        /// In which view.
        view: ViewId,
        /// The value.
        #[serde(with = "shared")]
        cut: Arc<Cut>,
    },
    /// To somebody who seems to be behind: there is a newer view.
    Newer {
        /// The newest view the sender knows.
        view: ViewId,
    },
    /// To somebody who knows a newer view: what came after this one?
    Pull {
        /// The newest view the sender knows.
        view: ViewId,
    },
    /// The answer, if the sender remembers: the decisions that follow.
    Cuts {
        /// The view they start from.
        view: ViewId,
        /// The cuts, in order.
        cuts: Vec<Cut>,
    },
    /// The answer otherwise, and to new members: the newest view, with what its parent says of it.
    Whole {
        /// The view.
        view: View,
        /// What the parent of the sender said of it.
        state: Option<Bytes>,
    },
    /// From a member that wants out to its observers.
    Leave {
        /// In which view.
        view: ViewId,
    },
}
