//! Links as what transactions between logs are about: Scatter's nested consensus is atomic commitment with these.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_commit::{Attempt, LogId, Resources, Transaction, TransactionId, Verdict};
use quorate_kernel::wire;

use crate::group::GroupId;
use crate::operation::Part;
use crate::parliament::{Parliament, Refusal};

/// What an operation asks of the log of its coordinator, which hands the other parts on; none if that group has no part in it.
pub fn transaction(
    id: TransactionId,
    coordinator: GroupId,
    parts: &BTreeMap<GroupId, Part>,
) -> Option<Transaction> {
    let encode = |part: &Part| Bytes::from(wire::encode(part));
    let own = parts.get(&coordinator)?;
    let mut logs: Vec<LogId> = parts.values().map(|part| part.group.log()).collect();
    logs.sort_unstable();
    let others = parts.iter().filter(|(group, _)| **group != coordinator);
    Some(Transaction {
        id,
        coordinator: own.group.log(),
        logs,
        part: encode(own),
        others: others.map(|(_, part)| (part.group.log(), encode(part))).collect(),
        settled_before: 0,
        shares: false,
        members: Vec::new(),
    })
}

/// What a transaction asks of this group; nothing, if its request never came here or cannot be read.
fn part_of(transaction: &Transaction) -> Option<Part> {
    wire::decode(&transaction.part).ok()
}

/// Nobody waits for a link: what cannot have it now is refused, and its coordinator tries again if the policy still wants it.
impl Resources for Parliament {
    fn prepare(&mut self, transaction: &Transaction) -> Attempt {
        let refused = |resource: Bytes, by| Attempt::Refused { resource, by };
        let Some(part) = part_of(transaction) else {
            return refused(Bytes::from_static(b"unreadable"), None);
        };
        match Parliament::prepare(self, transaction.id, &part) {
            // A locked link changes for nobody else.
            Ok(()) => Attempt::Ready { export: Bytes::new(), stays: true },
            Err(Refusal::Locked { border, by }) => refused(format!("link {border:016x}").into(), Some(by)),
            Err(Refusal::Changed) => refused(Bytes::from_static(b"changed"), None),
            Err(Refusal::Ended) => refused(Bytes::from_static(b"ended"), None),
        }
    }

    fn relock(&mut self, transaction: &Transaction) {
        if let Some(part) = part_of(transaction) {
            Parliament::relock(self, transaction.id, &part);
        }
    }

    fn wait(&mut self, transaction: &Transaction) -> Vec<TransactionId> {
        // Votes are taken back for those who wait, and nobody does.
        Parliament::release(self, transaction.id);
        Vec::new()
    }

    fn release(&mut self, id: TransactionId) -> Vec<TransactionId> {
        Parliament::release(self, id);
        Vec::new()
    }

    fn decide(&mut self, _: &Transaction, _: &BTreeMap<LogId, Bytes>) -> Verdict {
        Verdict::Commit(Bytes::new())
    }

    fn share(&mut self, _: &Bytes, _: LogId) -> Bytes {
        Bytes::new()
    }

    fn carry_out(&mut self, transaction: &Transaction, _: &Bytes) {
        if let Some(part) = part_of(transaction) {
            Parliament::carry_out(self, transaction.id, &part);
        }
    }

    fn bundle(&mut self, _: &[(usize, Bytes)]) -> Bytes {
        // Operations do not go together.
        Bytes::new()
    }

    fn excerpts(&mut self, _: &Bytes, count: usize) -> Vec<Bytes> {
        vec![Bytes::new(); count]
    }
}
