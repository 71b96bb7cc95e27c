//! The volatile part: what only the primary of a log knows, and its successor finds out anew.

use alloc::collections::{BTreeMap, BTreeSet};
use bytes::Bytes;
use quorate_kernel::Time;

use crate::bundle::Bundles;
use crate::record::{Transaction, Vote};
use crate::{LogId, TransactionId, View};

/// Entries about one transaction that are appended and not applied yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) local: bool,
    pub(crate) revert: bool,
    pub(crate) global: bool,
}

impl Flight {
    pub(crate) fn any(self) -> bool {
        self.local || self.revert || self.global
    }
}

/// A transaction that the primary is concerned with: unfinished, or finished and not yet acknowledged by all.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    /// The transaction, as long as the log does not have it.
    pub(crate) begins: Option<Transaction>,
    pub(crate) flight: Flight,
    /// The parent has its locks and is not done with checking.
    pub(crate) pending: bool,
    /// An older one waits for its locks; it will be told when its vote is in the log.
    pub(crate) wanted: bool,
    /// Whom it waits for, for explanations.
    pub(crate) behind: Option<TransactionId>,
    /// Whoever asked for it was told that it waits, for explanations.
    pub(crate) told: bool,
    /// What it waited for last, and who was in its way there, for explanations.
    pub(crate) in_the_way: Option<(Bytes, TransactionId)>,
    pub(crate) since: Time,
    pub(crate) due: Time,
    pub(crate) retries: u32,
    /// The newest view of its coordinator heard of.
    pub(crate) cv_seen: View,
    /// The coordinator's: votes of this view, of epochs that were not taken back.
    pub(crate) votes: BTreeMap<LogId, Vote>,
    /// The coordinator's: the least epoch of a vote that counts.
    pub(crate) min_epoch: BTreeMap<LogId, u64>,
    /// The coordinator's: it has decided, so that nothing is taken back any more.
    pub(crate) decided: bool,
    /// The coordinator's: who has the outcome.
    pub(crate) acknowledged: BTreeSet<LogId>,
    /// For mutants that count what must not be counted.
    pub(crate) counted: usize,
}

impl Live {
    pub(crate) fn new(begins: Option<Transaction>, now: Time) -> Self {
        Live {
            begins,
            flight: Flight::default(),
            pending: false,
            wanted: false,
            behind: None,
            told: false,
            in_the_way: None,
            since: now,
            due: now,
            retries: 0,
            cv_seen: View::default(),
            votes: BTreeMap::new(),
            min_epoch: BTreeMap::new(),
            decided: false,
            acknowledged: BTreeSet::new(),
            counted: 0,
        }
    }
}

/// One reign of this primary.
#[derive(Debug)]
pub(crate) struct Reign {
    pub(crate) view: View,
    pub(crate) live: BTreeMap<TransactionId, Live>,
    /// How many of these the log does not have.
    pub(crate) unlogged: usize,
    /// When which transaction is to be looked after.
    pub(crate) due: BTreeSet<(Time, TransactionId)>,
    /// What all participants have acknowledged, to be forgotten once its origin has settled it.
    pub(crate) acknowledged: BTreeSet<TransactionId>,
    /// Named by an entry under way that forgets them.
    pub(crate) forgetting: BTreeSet<TransactionId>,
    pub(crate) forget_at: Option<Time>,
    /// Horizons that are on their way to the log.
    pub(crate) settling: BTreeMap<u64, u64>,
    /// When the parent was last asked for a tick.
    pub(crate) armed: Option<Time>,
    /// Transactions whose locks may be free, or which are overtaken: to be tried again.
    pub(crate) woken: BTreeSet<TransactionId>,
    /// Votes of this log's own on what it decides itself: what it would export. The log has them with the decision.
    pub(crate) kept: BTreeMap<TransactionId, Bytes>,
    /// Requests that go together.
    pub(crate) bundles: Bundles,
}

impl Reign {
    pub(crate) fn new(view: View) -> Self {
        Reign {
            view,
            live: BTreeMap::new(),
            unlogged: 0,
            due: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            forgetting: BTreeSet::new(),
            forget_at: None,
            settling: BTreeMap::new(),
            armed: None,
            woken: BTreeSet::new(),
            kept: BTreeMap::new(),
            bundles: Bundles::default(),
        }
    }

    pub(crate) fn insert(&mut self, id: TransactionId, live: Live) {
        self.due.insert((live.due, id));
        self.unlogged += usize::from(live.begins.is_some());
        let before = self.live.insert(id, live);
        assert!(before.is_none(), "{id:?} is taken up twice");
    }

    pub(crate) fn remove(&mut self, id: TransactionId) {
        self.logged(id);
        if let Some(live) = self.live.remove(&id) {
            self.due.remove(&(live.due, id));
        }
        self.woken.remove(&id);
        self.kept.remove(&id);
    }

    /// The log has it now.
    pub(crate) fn logged(&mut self, id: TransactionId) {
        let begins = self.live.get_mut(&id).and_then(|live| live.begins.take());
        self.unlogged -= usize::from(begins.is_some());
    }

    /// Looks after a transaction at `at`, and not before.
    pub(crate) fn schedule(&mut self, id: TransactionId, at: Time) {
        if let Some(live) = self.live.get_mut(&id) {
            self.due.remove(&(live.due, id));
            live.due = at;
            self.due.insert((at, id));
        }
    }
}
