//! Batches that wait for transactions, at the primary.
//!
//! A batch takes no locks: it is done in one entry. What touches something that is locked waits, and everything of its session
//! behind it; each keeps a place among the transactions by its age, so that those that come later do not get past it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_commit::TransactionId;
use quorate_commit::locks::{LockTable, Want};
use quorate_kernel::Marks;

use crate::batch::{batch_header, decode_batch};
use crate::part::{Place, wants_of};

/// A batch that waits.
#[derive(Debug)]
struct Waiting {
    /// Its place among transactions. The origin says that it is none.
    id: TransactionId,
    batch: Bytes,
    /// What it waited for last, and who was in its way there.
    hindrance: Option<(Place, TransactionId)>,
}

/// The batches that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Held {
    waiting: Vec<Waiting>,
    newest: u64,
}

/// Which batches go on, and who has to know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passing {
    /// These go into the log now.
    pub(crate) batches: Vec<Bytes>,
    /// Then these have no need of their places any more.
    pub(crate) places: Vec<TransactionId>,
    /// These wait for what others hold.
    pub(crate) hindered: Vec<(TransactionId, Vec<TransactionId>)>,
    /// There was no room for more in this entry.
    pub(crate) more: bool,
    /// Of those that go on now, these had waited: for what, and for how many milliseconds.
    pub(crate) waited: Vec<(Bytes, (Place, TransactionId), u64)>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A place among transactions for what takes no locks and came at `now_ms`.
    pub(crate) fn place(&mut self, now_ms: u64) -> TransactionId {
        self.newest += 1;
        TransactionId { age: now_ms, origin: 0, sequence: self.newest }
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        core::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.batch)
    }

    /// Keeps back batches that must wait for locks, and those of the same sessions behind them. Those that were kept back
    /// are looked at if `again`. At `now_ms`; together at most `bytes_max`, or one batch.
    pub(crate) fn pass(
        &mut self,
        locks: &mut LockTable<Place>,
        batches: Vec<Bytes>,
        (again, now_ms, bytes_max): (bool, u64, usize),
        marks: &mut Marks,
    ) -> Passing {
        let mut passing = Passing::default();
        let mut bytes = 0;
        // A session's numbers enter the log in order, or what is behind a gap is never applied.
        let mut sessions: BTreeSet<u64> = BTreeSet::new();
        let before = core::mem::take(&mut self.waiting);
        let looked_at = if again { 0 } else { before.len() };
        let came: Vec<Waiting> = batches
            .into_iter()
            .map(|batch| Waiting { id: self.place(now_ms), batch, hindrance: None })
            .collect();
        for (number, mut waiting) in before.into_iter().chain(came).enumerate() {
            let session = batch_header(&waiting.batch).map(|header| header.session.0).unwrap_or_default();
            if number < looked_at || sessions.contains(&session) {
                sessions.insert(session);
                self.waiting.push(waiting);
                continue;
            }
            let wants = wants_of_batch(&waiting.batch);
            if let Err(owners) = locks.pass(waiting.id, &wants) {
                marks.hit("shard.batch.waits_for_locks");
                locks.keep_place(waiting.id, &wants);
                let hindrance = locks.hindrance(waiting.id).map(|(place, owner)| (place.clone(), owner));
                waiting.hindrance = hindrance.or(waiting.hindrance);
                passing.hindered.push((waiting.id, owners));
            } else if passing.batches.is_empty() || bytes + waiting.batch.len() <= bytes_max {
                bytes += waiting.batch.len();
                passing.places.push(waiting.id);
                if let Some(hindrance) = waiting.hindrance.take() {
                    let waited_ms = now_ms.saturating_sub(waiting.id.age);
                    passing.waited.push((waiting.batch.clone(), hindrance, waited_ms));
                }
                passing.batches.push(waiting.batch);
                continue;
            } else {
                passing.more = true;
            }
            sessions.insert(session);
            self.waiting.push(waiting);
        }
        passing
    }
}

fn wants_of_batch(batch: &Bytes) -> Vec<Want<Place>> {
    decode_batch(batch).map(|(_, requests)| requests.iter().flat_map(wants_of).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchHeader, encode_batch};
    use quorate_api::{Command, Request, SessionId};
    use quorate_commit::locks::Mode;
    use quorate_kernel::NodeId;

    #[test]
    fn what_goes_on_says_what_it_has_waited_for() {
        let key = Bytes::from_static(b"k");
        let code = quorate_values::find(b"del").expect("a command").code;
        let commands = Vec::from([Command { code, args: Vec::from([key.clone()]) }]);
        let (origin, session) = (NodeId(1), SessionId(7));
        let header = BatchHeader { origin, session, first_seq: 1, count: 1, settled_before: 1, since: 0 };
        let batch = encode_batch(&header, [&Request::Transaction { watched: Vec::new(), commands }]);
        let owner = TransactionId { age: 5, origin: 1, sequence: 1 };
        let (mut locks, mut held, mut marks) = (LockTable::new(100), Held::default(), Marks::default());
        let place = Place::Key(key);
        locks.try_all(owner, &[Want { key: place.clone(), mode: Mode::Write, expected: None }]);
        let mut pass = |locks: &mut LockTable<Place>, batches, now_ms| {
            held.pass(locks, batches, (true, now_ms, 1 << 20), &mut marks)
        };
        assert_eq!(pass(&mut locks, Vec::from([batch.clone()]), 9).waited, []);
        assert_eq!(pass(&mut locks, Vec::new(), 50).batches.len(), 0);
        locks.release(owner);
        assert_eq!(pass(&mut locks, Vec::new(), 100).waited, [(batch, (place, owner), 91)]);
    }
}
