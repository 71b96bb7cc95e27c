//! What votes and decisions say, and logs do not keep.
//!
//! A participant's log keeps its vote without the replies that its commands will give: as long as the vote stands nothing of what they are about
//! changes, so whoever leads the log next runs them again, with the same time and chance, and says the same. The
//! coordinator's log keeps the decision with the replies, since the origin may ask again when everything has changed; but not those of
//! requests that only read, which may just as well be asked anew.

use alloc::collections::BTreeMap;
use bytes::Bytes;
use quorate_commit::{Attempt, Outcome, State, TransactionId};
use quorate_kernel::Cx;

use crate::desk::{Desk, run_part};
use crate::machine::Shard;
use crate::part::{Decision, Export, Part, digest};
use crate::replies::plain_bytes;
use crate::view::View;

/// Replies of no more bytes than this are logged: what is kept in their place is no shorter.
const LOGGED_BYTES_MAX: usize = 8;

/// Like locks it is the primary's, and volatile. Each with what the log has in its place: only beside that it is true.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// Exports of standing votes, with their replies: those that this primary gave.
    found: BTreeMap<TransactionId, (Bytes, Bytes)>,
    /// Decisions on their way into the log, with all replies.
    decided: BTreeMap<TransactionId, (Bytes, Decision)>,
}

impl Aside {
    /// It has its outcome, or will vote anew.
    pub(crate) fn forget_found(&mut self, id: TransactionId) {
        self.found.remove(&id);
    }

    /// A coordinator has decided this. What is to be logged of it, where these members only read.
    pub(crate) fn decided(&mut self, id: TransactionId, decision: Decision, readers: &[u32]) -> Bytes {
        if readers.is_empty() {
            return decision.encode();
        }
        let logged = decision.clone().remembered(readers).encode();
        self.decided.insert(id, (logged.clone(), decision));
        logged
    }

    /// It does not happen after all.
    pub(crate) fn forget_decided(&mut self, id: TransactionId) {
        self.decided.remove(&id);
    }

    /// The decision on `id` with all replies, once.
    pub(crate) fn take_decided(&mut self, id: TransactionId, logged: &Bytes) -> Option<Decision> {
        let (beside, decision) = self.decided.remove(&id)?;
        (beside == *logged).then_some(decision)
    }

    /// The outcome as the origin is told it.
    pub(crate) fn whole_outcome(&mut self, id: TransactionId, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Committed(logged) => {
                let whole = self.take_decided(id, &logged);
                Outcome::Committed(whole.map_or(logged, Decision::encode))
            }
            Outcome::Aborted(refusal) => Outcome::Aborted(refusal),
        }
    }
}

impl Desk {
    /// A transaction has its locks, and this was found under them.
    pub(crate) fn ready(&mut self, id: TransactionId, decides: bool, found: (Export, bool)) -> Attempt {
        let (export, stays) = found;
        let replies_bytes = plain_bytes(&export.replies);
        let short = (!decides && replies_bytes > LOGGED_BYTES_MAX).then(|| export.clone().logged().encode());
        let whole = export.encode();
        if replies_bytes.max(whole.len()) > self.limits.commit.payload_bytes_max {
            return Attempt::TooLarge;
        }
        let logged = short.unwrap_or_else(|| whole.clone());
        if !decides {
            self.aside.found.insert(id, (logged.clone(), whole));
        }
        Attempt::Ready { export: logged, stays }
    }
}

impl Shard {
    /// The export of a vote that stands, which the log keeps as `logged`, with its replies.
    pub(crate) fn whole_export(&mut self, cx: &mut Cx<'_>, id: TransactionId, logged: Bytes) -> Bytes {
        let found = self.transactions.desk.aside.found.get(&id);
        if let Some((_, whole)) = found.filter(|(beside, _)| *beside == logged) {
            return whole.clone();
        }
        let (Ok(mut export), Some(record)) =
            (Export::decode(&logged), self.transactions.commit.ledger().get(id))
        else {
            return logged;
        };
        let is_standing = matches!(&record.state, State::Prepared(stands) if *stands == logged);
        let Some(voted) = export.digest.take().filter(|_| is_standing) else { return logged };
        let part = Part::of(&record.transaction);
        cx.marks.hit("shard.vote.found_again");
        let area = self.log.data_prefix();
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, export.now_ms, export.seed);
        view.shield = core::mem::take(&mut self.transactions.shield);
        view.begin_transaction(export.now_ms, export.seed);
        export.replies = run_part(&mut view, &part);
        self.transactions.shield = core::mem::take(&mut view.shield);
        if digest(&export.replies) != voted {
            self.transactions.desk.strayed.get_or_insert(id);
            return logged;
        }
        let whole = export.encode();
        self.transactions.desk.aside.found.insert(id, (logged, whole.clone()));
        whole
    }
}
