//! What a replica must find again after a restart, and how its state lies in the store.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::message::{Ballot, Index};

/// A member of a log, with what its parent wants to remember of it (addresses, say).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// Opaque to the log.
    pub info: Bytes,
}

/// A member list with its number. A log's members never change within an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Epoch {
    /// 0: none yet; 1: the bootstrap; each seal adds one.
    pub number: u64,
    /// The members, by id.
    pub members: Vec<Member>,
    /// Those of the epoch before who are not among them.
    pub former: Vec<Member>,
    /// The entry that sealed the epoch before; 0 for the first epoch.
    pub start: Index,
    /// The only ballot that may be led in this epoch without an election: that of the leader who proposed the seal.
    pub heir: Ballot,
}

impl Epoch {
    /// None yet.
    pub(crate) const NONE: Epoch = Epoch {
        number: 0,
        members: Vec::new(),
        former: Vec::new(),
        start: 0,
        heir: Ballot { epoch: 0, number: 0, node: None },
    };

    /// The epoch that begins when `seal`, proposed under `ballot`, is chosen as entry `start`.
    pub(crate) fn after(seal: &Seal, ballot: Ballot, start: Index) -> Self {
        let number = ballot.epoch + 1;
        let heir = Ballot { epoch: number, ..ballot };
        Epoch { number, members: seal.members.clone(), former: seal.former.clone(), start, heir }
    }

    /// Whether `node` is a member.
    pub fn has(&self, node: NodeId) -> bool {
        self.members.iter().any(|member| member.id == node)
    }

    /// Whether `node` was a member of the epoch before and is none now.
    pub fn had(&self, node: NodeId) -> bool {
        self.former.iter().any(|member| member.id == node)
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The ballot under which it was first proposed.
    pub ballot: Ballot,
    /// What it says.
    pub content: Content,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Opaque to the log.
    Command(Bytes),
    /// Ends the epoch (stop-sign) and names the members of the next one. Shared, since a log keeps one for each change of its members that it still has.
    Seal(Arc<Seal>),
}

/// The end of an epoch. Says everything about the next one that its ballot and index do not say, so that a node which
/// has never heard of the epoch it ends can follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The members of the next epoch, by id.
    pub members: Vec<Member>,
    /// Those of this epoch who are not among them.
    pub former: Vec<Member>,
}

impl Entry {
    /// Bytes it occupies, roughly.
    pub fn size_bytes(&self) -> usize {
        const BASE: usize = 48;
        BASE + match &self.content {
            Content::Command(bytes) => bytes.len(),
            Content::Seal(seal) => {
                seal.members.iter().chain(&seal.former).map(|member| BASE + member.info.len()).sum()
            }
        }
    }
}

/// A record in the node's log of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// No ballot below this one will be accepted or promised.
    Promise(Ballot),
    /// The log ends before `first`; then these entries follow.
    Append {
        /// Index of the first of `entries`.
        first: Index,
        /// The newest ballot whose leader's log this log has caught up with.
        log_ballot: Ballot,
        /// What follows.
        entries: Vec<Entry>,
    },
    /// The seal at the start of this epoch is chosen.
    Entered(Epoch),
    /// The state up to this entry is durable in the store, as when it came as a snapshot: the log starts behind it, with what
    /// follows there if the log of the records before agrees with it.
    Installed {
        /// Newest entry of the snapshot.
        base: Index,
        /// The ballot of that entry.
        base_ballot: Ballot,
    },
    /// All that must not be forgotten when earlier records are discarded, entries apart.
    Kept {
        /// As in `Promise`.
        promised: Ballot,
        /// As in `Append`.
        log_ballot: Ballot,
        /// Epochs from the one of the state in the store on.
        epochs: Vec<Epoch>,
    },
    /// Nothing below this epoch will be accepted, promised or led.
    Fenced(u64),
}

impl Record {
    /// Bytes of its entries, about.
    pub fn size_bytes(&self) -> usize {
        match self {
            Record::Append { entries, .. } => entries.iter().map(Entry::size_bytes).sum(),
            Record::Promise(_)
            | Record::Entered(_)
            | Record::Installed { .. }
            | Record::Kept { .. }
            | Record::Fenced(_) => 0,
        }
    }
}

/// The row in the store that says what the rows beside it are worth. Written in the same batch as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateMeta {
    /// Newest applied entry.
    pub applied: Index,
    /// The ballot of that entry.
    pub applied_ballot: Ballot,
    /// The epoch at that entry.
    pub epoch: Epoch,
    /// Which of the areas for rows is in use.
    pub generation: u32,
}
