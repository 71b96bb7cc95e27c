//! What stands in logs, and what is remembered of it.

use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{LogId, TransactionId};

/// A transaction as one of its logs knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Its name.
    pub id: TransactionId,
    /// The log that decides; one of `logs`.
    pub coordinator: LogId,
    /// All logs that take part, ascending, each once.
    pub logs: Vec<LogId>,
    /// What it does at this log.
    pub part: Bytes,
    /// For the coordinator: the parts of other logs, which it hands on. Logs that are not named here must be asked by the
    /// origin itself; if it dies on the way, the transaction is aborted.
    pub others: Vec<(LogId, Bytes)>,
    /// The origin knows the outcome of everything it numbered below this, and never asks for any of it again.
    pub settled_before: u64,
    /// Whether its coordinator may make it a member of a bundle: no log refuses it for what others did, nothing that is
    /// exported speaks against it, and the coordinator has all parts.
    pub shares: bool,
    /// For the coordinator of a bundle: the requests that it consists of, in the order in which they happen.
    pub members: Vec<Member>,
}

/// A request that happens as part of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub id: TransactionId,
    /// As in [`Transaction::settled_before`].
    pub settled_before: u64,
}

impl Transaction {
    /// Bytes of all its parts.
    pub fn bytes(&self) -> usize {
        self.part.len() + self.others.iter().map(|(_, part)| part.len()).sum::<usize>()
    }

    /// What is known of a transaction whose request never came to this log.
    pub(crate) fn unknown(id: TransactionId, coordinator: LogId, mut logs: Vec<LogId>, me: LogId) -> Self {
        logs.extend([coordinator, me]);
        logs.sort_unstable();
        logs.dedup();
        Transaction {
            id,
            coordinator,
            logs,
            part: Bytes::new(),
            others: Vec::new(),
            settled_before: 0,
            shares: false,
            members: Vec::new(),
        }
    }

    /// The part of `log`, if the coordinator is to hand it on: the transaction as that log is to know it.
    pub(crate) fn for_log(&self, log: LogId) -> Option<Transaction> {
        let (_, part) = self.others.iter().find(|(other, _)| *other == log)?;
        let (part, logs) = (part.clone(), self.logs.clone());
        Some(Transaction { part, logs, others: Vec::new(), members: Vec::new(), ..*self })
    }

    /// Whether no second phase is needed.
    pub fn is_alone(&self) -> bool {
        self.logs.len() == 1
    }
}

/// Why a transaction did not happen, in enough detail to explain it to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The log at which it ended.
    pub log: LogId,
    /// What kind of reason.
    pub cause: Cause,
    /// The resource, or more words, as its parent puts them.
    pub resource: Bytes,
    /// The transaction that stood in the way, if one did.
    pub by: Option<TransactionId>,
    /// How long it had waited at that log, on the clock of the last primary.
    pub waited_ms: u64,
}

/// What a transaction waits for, or has waited for, at one log: told to its origin, and in no log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The log.
    pub log: LogId,
    /// The resource, as its parent puts it.
    pub resource: Bytes,
    /// Who has it, or is before this one.
    pub by: TransactionId,
    /// How long it has been since the log got the transaction.
    pub waited_ms: u64,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// The log's parent refused: a version has moved on, a descriptor is old.
    Resource,
    /// The request never came to the log.
    Unreached,
    /// The coordinator knows nothing of it: the request never came there, or its primary died with it.
    Unknown,
    /// The origin had said that it was done with it.
    Settled,
    /// The log's tables are full.
    Busy,
    /// Something is longer than the limits allow.
    TooLarge,
    /// It waited longer than it may.
    GaveUp,
    /// All could have done it; what they exported together speaks against it.
    Votes,
    /// As a member of a bundle it is too long; alone it may not be.
    Crowded,
}

/// How a transaction ended. The same at all logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It happened, with what the coordinator made of the votes.
    Committed(Bytes),
    /// It did not happen.
    Aborted(Refusal),
}

impl Outcome {
    /// Whether it happened.
    pub fn is_commit(&self) -> bool {
        matches!(self, Outcome::Committed(_))
    }
}

/// What a log says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote {
    /// Everything is locked and in order; this is exported to the coordinator.
    Yes(Bytes),
    /// It cannot be.
    No(Refusal),
}

/// An entry of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// This log's vote.
    Local {
        /// Which transaction.
        id: TransactionId,
        /// How often a vote of this log was taken back before.
        epoch: u64,
        /// The vote.
        vote: Vote,
        /// The transaction, unless the log knows it from an earlier vote.
        begins: Option<Transaction>,
    },
    /// This log's yes of this epoch is taken back.
    Revert {
        /// Which transaction.
        id: TransactionId,
        /// Which of its votes.
        epoch: u64,
    },
    /// The outcome. In the coordinator's log it is the decision; in others it is what the decision does.
    Global {
        /// Which transaction.
        id: TransactionId,
        /// Who decided.
        coordinator: LogId,
        /// All logs that take part, as far as they are known.
        logs: Vec<LogId>,
        /// The outcome.
        outcome: Outcome,
    },
    /// Begin and end of a transaction at the log that decides: one of this log alone, or one on which it kept its vote to
    /// itself, or that it never began.
    AtOnce {
        /// The transaction.
        transaction: Transaction,
        /// The outcome.
        outcome: Outcome,
    },
    /// All participants have these outcomes in their logs, and their origins will not ask again: they are forgotten.
    Forget {
        /// Which transactions.
        ids: Vec<TransactionId>,
    },
    /// An origin will never ask again for what it numbered below this.
    Settle {
        /// Which origin.
        origin: u64,
        /// The number; the greatest there is means that the origin is gone for good.
        before: u64,
    },
}

impl Entry {
    /// Bytes of what parents have put into it, about: parts, exports, decisions.
    pub fn size_bytes(&self) -> usize {
        let parts = |transaction: &Transaction| {
            transaction.part.len() + transaction.others.iter().map(|(_, part)| part.len()).sum::<usize>()
        };
        let decided = |outcome: &Outcome| match outcome {
            Outcome::Committed(decision) => decision.len(),
            Outcome::Aborted(refusal) => refusal.resource.len(),
        };
        match self {
            Entry::Local { vote, begins, .. } => {
                let voted = match vote {
                    Vote::Yes(export) => export.len(),
                    Vote::No(refusal) => refusal.resource.len(),
                };
                voted + begins.as_ref().map_or(0, parts)
            }
            Entry::Global { outcome, .. } => decided(outcome),
            Entry::AtOnce { transaction, outcome } => parts(transaction) + decided(outcome),
            Entry::Revert { .. } | Entry::Forget { .. } | Entry::Settle { .. } => 0,
        }
    }

    /// The transaction it is about, if it is about one.
    pub fn id(&self) -> Option<TransactionId> {
        match self {
            Entry::Local { id, .. } | Entry::Revert { id, .. } | Entry::Global { id, .. } => Some(*id),
            Entry::AtOnce { transaction, .. } => Some(transaction.id),
            Entry::Forget { .. } | Entry::Settle { .. } => None,
        }
    }
}

/// What a log remembers of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The transaction; its parts are forgotten once it is done.
    pub transaction: Transaction,
    /// How often a vote of this log was taken back.
    pub epoch: u64,
    /// How far it has come here.
    pub state: State,
}

/// How far a transaction has come at one log. One that the log has not voted on yet is not remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The vote was taken back: it waits for its locks again.
    Waiting,
    /// The log voted yes, exporting this; the locks are held until the outcome or a revert.
    Prepared(Bytes),
    /// The log voted no.
    Refused(Refusal),
    /// The outcome is in the log. What a commit decided is kept by the coordinator alone, which has to repeat it.
    Done(Outcome),
}

impl Record {
    /// The outcome, if there is one.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the log holds locks for it.
    pub fn is_prepared(&self) -> bool {
        matches!(self.state, State::Prepared(_))
    }
}
