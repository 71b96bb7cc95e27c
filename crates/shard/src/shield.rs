//! Keys of prepared transactions: what was found under their locks stays so until their outcome.
//!
//! Known to every replica, since it follows from the log alone. Whoever reads strictly waits for transactions that were
//! about to change what is read when he came; a key that a prepared transaction has found does not expire before its outcome.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_commit::locks::{Mode, Want};
use quorate_commit::{Ledger, State, Transaction, TransactionId};
use quorate_kernel::wire;
use quorate_replog::Index;

use crate::part::{Part, Place};

#[derive(Debug, Clone, Copy)]
struct Guard {
    id: TransactionId,
    mode: Mode,
    now_ms: u64,
    /// The entry of the vote; 0: it is in a snapshot, or older than this life.
    since: Index,
}

impl PartialEq for Guard {
    /// Whether both say the same of the ledger, which does not know entries.
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.mode, self.now_ms) == (other.id, other.mode, other.now_ms)
    }
}

/// What a prepared transaction is going to do, and what it looks at.
#[derive(Debug)]
struct Prepared {
    part: Part,
    wants: Vec<Want<Place>>,
    /// As in [`Guard`].
    since: Index,
}

impl PartialEq for Prepared {
    /// Whether both say the same of the ledger, which does not know entries.
    fn eq(&self, other: &Self) -> bool {
        (&self.part, &self.wants) == (&other.part, &other.wants)
    }
}

/// A transaction as it was prepared by this entry: it may be prepared anew by another.
pub(crate) type Standing = (TransactionId, Index);

/// See the module's documentation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Shield {
    /// By transaction; few have the same place.
    places: BTreeMap<Place, Vec<Guard>>,
    prepared: BTreeMap<TransactionId, Prepared>,
}

impl Shield {
    /// What the ledger says.
    pub(crate) fn of(ledger: &Ledger) -> Shield {
        let mut shield = Shield::default();
        for (id, record) in ledger.records() {
            if let State::Prepared(export) = &record.state {
                shield.raise(0, id, &record.transaction, export);
            }
        }
        shield
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A transaction is prepared by entry `since`.
    pub(crate) fn raise(
        &mut self,
        since: Index,
        id: TransactionId,
        transaction: &Transaction,
        export: &Bytes,
    ) {
        // An export begins with its time.
        let now_ms = wire::decode_front::<u64>(export).map_or(0, |(now_ms, _)| now_ms);
        let part = Part::of(transaction);
        let wants = part.wants();
        for want in &wants {
            let guards = self.places.entry(want.key.clone()).or_default();
            match guards.binary_search_by_key(&id, |guard| guard.id) {
                Ok(place) => guards[place].mode = guards[place].mode.with(want.mode),
                Err(place) => guards.insert(place, Guard { id, mode: want.mode, now_ms, since }),
            }
        }
        self.prepared.insert(id, Prepared { part, wants, since });
    }

    /// It is prepared no more. What it was going to do, if it was prepared.
    pub(crate) fn lower(&mut self, id: TransactionId) -> Option<Part> {
        let Prepared { part, wants, .. } = self.prepared.remove(&id)?;
        for want in wants {
            let emptied = self.places.get_mut(&want.key).is_some_and(|guards| {
                guards.retain(|guard| guard.id != id);
                guards.is_empty()
            });
            if emptied {
                self.places.remove(&want.key);
            }
        }
        Some(part)
    }

    /// Something that was prepared by an entry up to `upto` and will change what these want to see.
    pub(crate) fn in_the_way(&self, wants: &[Want<Place>], upto: Index) -> Option<Standing> {
        wants.iter().find_map(|want| {
            let guards = self.places.get(&want.key);
            let mut older = guards.into_iter().flatten().filter(|guard| guard.since <= upto);
            let guard = older.find(|guard| !want.mode.goes_with(guard.mode))?;
            Some((guard.id, guard.since))
        })
    }

    /// Whether it is still prepared as it was.
    pub(crate) fn stands(&self, (id, since): Standing) -> bool {
        self.prepared.get(&id).is_some_and(|prepared| prepared.since == since)
    }

    /// Whether a prepared transaction has found this key, which expires at `expire_ms`, alive.
    pub(crate) fn keeps(&self, key: &[u8], expire_ms: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let found = |guard: &Guard| expire_ms > guard.now_ms;
        let key = self.places.get(&Place::Key(Bytes::copy_from_slice(key)));
        let all = self.places.get(&Place::Keyspace);
        // Whoever only writes is not concerned with all keys.
        key.is_some_and(|guards| guards.iter().any(found))
            || all.is_some_and(|guards| guards.iter().any(|guard| guard.mode != Mode::Intend && found(guard)))
    }
}

#[cfg(test)]
mod tests {
    use quorate_api::Command;
    use quorate_commit::LogId;

    use super::*;
    use crate::part::Export;

    /// Or whoever reads a popular key would wait as long as transactions keep coming.
    #[test]
    fn a_read_waits_for_what_was_prepared_when_it_came_and_for_nothing_later() {
        let code = quorate_values::find(b"set").expect("a command").code;
        let args = Vec::from([Bytes::from_static(b"k"), Bytes::from_static(b"v")]);
        let part = Part { commands: Vec::from([(0, Command { code, args })]), ..Part::default() };
        let transaction = |sequence| Transaction {
            id: TransactionId { age: 1, origin: 1, sequence },
            coordinator: LogId(0),
            logs: Vec::from([LogId(0), LogId(1)]),
            part: part.encode(),
            others: Vec::new(),
            settled_before: 0,
            shares: false,
            members: Vec::new(),
        };
        let export = Bytes::from(wire::encode(&Export::default()));
        let mut shield = Shield::default();
        for (sequence, since) in [(1, 5), (2, 9)] {
            let transaction = transaction(sequence);
            shield.raise(since, transaction.id, &transaction, &export);
        }
        let read = [Want { key: Place::Key(Bytes::from_static(b"k")), mode: Mode::Read, expected: None }];
        let first = (transaction(1).id, 5);
        assert_eq!(shield.in_the_way(&read, 5), Some(first), "prepared by an entry that was chosen by then");
        assert_eq!(shield.in_the_way(&read, 4), None);
        assert!(shield.stands(first));
        shield.lower(first.0);
        assert!(!shield.stands(first));
        assert_eq!(shield.in_the_way(&read, 8), None, "the next was prepared later");
        assert_eq!(shield.in_the_way(&read, 9), Some((transaction(2).id, 9)));
        shield.raise(12, first.0, &transaction(1), &export);
        assert!(!shield.stands(first), "it is prepared anew, which nobody who came before waits for");
    }
}
