//! What logs tell each other. Parents carry it from the primary of one log to the primary of another; it may be lost,
//! doubled, and overtake anything.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{LogId, Outcome, Transaction, TransactionId, View, Vote, Wait};

/// A message between logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The log that says it. Trusted within one cluster.
    pub from: LogId,
    /// Which transaction it is about.
    pub id: TransactionId,
    /// What it says.
    pub word: Word,
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// A participant tells the coordinator its vote, once that is in its log, and whenever asked.
    Vote {
        /// The newest view of the coordinator that the participant has heard of concerning this transaction.
        cv: View,
        /// The epoch of the vote.
        epoch: u64,
        /// The vote.
        vote: Vote,
    },
    /// The coordinator tells the outcome, once that is in its log, until it is acknowledged.
    Global {
        /// All logs that take part, as far as they are known.
        logs: Vec<LogId>,
        /// The outcome.
        outcome: Outcome,
    },
    /// A participant has the outcome in its log.
    Acknowledge,
    /// A participant asks the coordinator whether it may take back its yes, because an older transaction needs the locks.
    RevertRequest {
        /// The epoch of the vote.
        epoch: u64,
        /// The view of the participant.
        pv: View,
    },
    /// The coordinator agrees: it has forgotten the vote, and no vote of this epoch will count.
    RevertGrant {
        /// As it was asked.
        epoch: u64,
        /// The view of the coordinator.
        cv: View,
        /// As it was asked.
        pv: View,
    },
    /// The coordinator asks for a vote.
    QueryLocal {
        /// The view of the coordinator.
        cv: View,
        /// Votes of earlier epochs do not count any more: a grant under way was lost perhaps, and this stands for it.
        min_epoch: u64,
        /// The transaction, if the coordinator hands its parts on; it begins at the participant with this.
        transaction: Option<Transaction>,
    },
    /// A participant asks the coordinator for the outcome.
    QueryGlobal {
        /// All logs that take part, as far as the participant knows.
        logs: Vec<LogId>,
    },
    /// A participant tells the coordinator what it waits or has waited for, so that the origin learns it. Nothing depends
    /// on it.
    Waits(Wait),
}
