//! Keys of prepared transactions: what was found under their locks stays so until their outcome.
//!
//! Known to every replica, since it follows from the log alone. Whoever reads strictly waits for transactions that are
//! about to change what is read; a key that a prepared transaction has found does not expire before its outcome.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_commit::locks::{Mode, Want};
use quorate_commit::{Ledger, State, Transaction, TransactionId};
use quorate_kernel::wire;

use crate::part::{Part, Place};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guard {
    id: TransactionId,
    mode: Mode,
    now_ms: u64,
}

/// What a prepared transaction is going to do, and what it looks at.
#[derive(Debug, PartialEq, Eq)]
struct Prepared {
    part: Part,
    wants: Vec<Want<Place>>,
}

/// See the module's documentation.
#[derive(Debug, Default, PartialEq, Eq)]
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
                shield.raise(id, &record.transaction, export);
            }
        }
        shield
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A transaction is prepared.
    pub(crate) fn raise(&mut self, id: TransactionId, transaction: &Transaction, export: &Bytes) {
        // An export begins with its time.
        let now_ms = wire::decode_front::<u64>(export).map_or(0, |(now_ms, _)| now_ms);
        let part = Part::of(transaction);
        let wants = part.wants();
        for want in &wants {
            let guards = self.places.entry(want.key.clone()).or_default();
            match guards.binary_search_by_key(&id, |guard| guard.id) {
                Ok(place) => guards[place].mode = guards[place].mode.with(want.mode),
                Err(place) => guards.insert(place, Guard { id, mode: want.mode, now_ms }),
            }
        }
        self.prepared.insert(id, Prepared { part, wants });
    }

    /// It is prepared no more. What it was going to do, if it was prepared.
    pub(crate) fn lower(&mut self, id: TransactionId) -> Option<Part> {
        let Prepared { part, wants } = self.prepared.remove(&id)?;
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

    /// Whether something that is prepared will change what these want to see, or must not see what they change.
    pub(crate) fn is_in_the_way(&self, wants: &[Want<Place>]) -> bool {
        wants.iter().any(|want| {
            let guards = self.places.get(&want.key);
            guards.into_iter().flatten().any(|guard| !want.mode.goes_with(guard.mode))
        })
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
