//! Locks for parents whose resources are keys: shared by those that do the same, taken all or none, queued by age.
//!
//! A transaction says at once all that it wants. It gets everything or waits for everything, holding nothing; and it never
//! gets past an older one that waits for something it shares with it, unless both may have it at once. Deadlocks between logs end
//! because an older one that waits has younger holders revert ([`crate::Resources::wait`]); that this comes to an end rests on
//! both rules, and on every release waking whoever may go on. Locks are volatile: a new primary takes those again that its
//! log proves.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::{Mutant, TransactionId};

#[cfg(test)]
mod tests;

/// What a transaction does with a key: alone, or together with those that do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It reads it; others may read it too.
    Read,
    /// For a key that stands for many: it writes some of them, which it locks as well; others may do so too.
    Intend,
    /// It writes it, and may read it.
    Write,
}

impl Mode {
    /// Whether two may have it at once, one for this and one for the other.
    pub fn goes_with(self, other: Mode) -> bool {
        self == other && self != Mode::Write
    }

    /// What allows both.
    #[must_use]
    pub fn with(self, other: Mode) -> Mode {
        if self == other { self } else { Mode::Write }
    }
}

/// A key that a transaction wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want<K> {
    /// Which key.
    pub key: K,
    /// What for.
    pub mode: Mode,
    /// The version it must have, if that matters.
    pub expected: Option<u64>,
}

/// What came of asking for locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It holds everything.
    All,
    /// It holds nothing and waits. These hold what it wants; none, if it only waits behind older ones that wait.
    Waits(Vec<TransactionId>),
    /// There are too many keys in the table; it neither holds nor waits.
    Full,
}

/// A waiter at one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiter {
    mode: Mode,
    expected: Option<u64>,
    /// It will not lock: see [`LockTable::keep_place`].
    passes: bool,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    /// Of the holders, if there are any.
    mode: Mode,
    holders: BTreeSet<TransactionId>,
    queue: BTreeMap<TransactionId, Waiter>,
}

impl Lock {
    fn conflicts(&self, id: TransactionId, mode: Mode) -> bool {
        let others = self.holders.len() > usize::from(self.holders.contains(&id));
        others && !mode.goes_with(self.mode)
    }

    /// Whether an older one waits that does not go with this one.
    fn is_behind(&self, id: TransactionId, mode: Mode) -> bool {
        let mut older = self.queue.range(..id);
        older.any(|(_, waiter)| !mode.goes_with(waiter.mode))
    }

    /// Whether `id` may take it now.
    fn is_free_for(&self, id: TransactionId, mode: Mode) -> bool {
        !self.conflicts(id, mode) && !self.is_behind(id, mode)
    }

    /// Whether somebody who locks has it, or is older and waits for it, and does not go with this one.
    fn hinders(&self, id: TransactionId, mode: Mode) -> bool {
        let mut older = self.queue.range(..id).filter(|(_, waiter)| !waiter.passes);
        self.conflicts(id, mode) || older.any(|(_, waiter)| !mode.goes_with(waiter.mode))
    }

    /// Who may get the lock next: the oldest waiter, and all that go with it.
    fn next(&self) -> impl Iterator<Item = TransactionId> + '_ {
        let first = self.queue.first_key_value();
        let may = move |id: &TransactionId, waiter: &Waiter| {
            first.is_some_and(|(oldest, other)| id == oldest || waiter.mode.goes_with(other.mode))
        };
        self.queue.iter().filter(move |(id, waiter)| may(id, waiter)).map(|(id, _)| *id)
    }
}

/// What one transaction wants, and whether it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim<K> {
    wants: Vec<Want<K>>,
    holds: bool,
    passes: bool,
}

/// The locks of one log.
#[derive(Debug, Clone)]
pub struct LockTable<K> {
    locks: BTreeMap<K, Lock>,
    claims: BTreeMap<TransactionId, Claim<K>>,
    keys_max: usize,
    mutant: Option<Mutant>,
}

impl<K: Ord + Clone> LockTable<K> {
    /// No locks. When `keys_max` different keys are held or waited for, claims on further ones are refused.
    pub fn new(keys_max: usize) -> Self {
        LockTable { locks: BTreeMap::new(), claims: BTreeMap::new(), keys_max, mutant: None }
    }

    /// The same with a broken rule.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn broken(mut self, mutant: Option<Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    /// Takes all that `id` wants, or queues it for all of it. What it wants does not change while it holds or waits; a
    /// claim that is known is only tried again.
    pub fn try_all(&mut self, id: TransactionId, wants: &[Want<K>]) -> Taken {
        if !self.claims.contains_key(&id) {
            let wants = merged(wants);
            let new = wants.iter().filter(|want| !self.locks.contains_key(&want.key)).count();
            if self.locks.len() + new > self.keys_max {
                return Taken::Full;
            }
            self.claims.insert(id, Claim { wants, holds: false, passes: false });
        }
        let Some(claim) = self.claims.get_mut(&id) else { return Taken::Full };
        if claim.holds {
            return Taken::All;
        }
        let overtakes = self.mutant == Some(Mutant::Overtake);
        let free = claim.wants.iter().all(|want| {
            self.locks.get(&want.key).is_none_or(|lock| {
                !lock.conflicts(id, want.mode) && (overtakes || !lock.is_behind(id, want.mode))
            })
        });
        for want in &claim.wants {
            let lock = self.locks.entry(want.key.clone()).or_insert_with(|| Lock {
                mode: Mode::Read,
                holders: BTreeSet::new(),
                queue: BTreeMap::new(),
            });
            if free {
                lock.queue.remove(&id);
                lock.mode = want.mode;
                lock.holders.insert(id);
            } else {
                lock.queue.insert(id, Waiter { mode: want.mode, expected: want.expected, passes: false });
            }
        }
        claim.holds = free;
        if free { Taken::All } else { Taken::Waits(self.in_the_way(id)) }
    }

    /// Takes all that `id` wants, for a new primary: nothing conflicts with it.
    ///
    /// # Panics
    /// If something does.
    pub fn relock(&mut self, id: TransactionId, wants: &[Want<K>]) {
        let keys_max = core::mem::replace(&mut self.keys_max, usize::MAX);
        let taken = self.try_all(id, wants);
        self.keys_max = keys_max;
        assert!(taken == Taken::All, "two prepared transactions hold conflicting locks: {id:?}");
    }

    /// Queues `id` for all that it wants, giving back what it holds. Whom that wakes, oldest first; `id` itself may be
    /// among them.
    pub fn wait(&mut self, id: TransactionId, wants: &[Want<K>]) -> Vec<TransactionId> {
        self.queue(id, wants, false)
    }

    fn queue(&mut self, id: TransactionId, wants: &[Want<K>], passes: bool) -> Vec<TransactionId> {
        self.take_out(id);
        let wants = merged(wants);
        for want in &wants {
            let lock = self.locks.entry(want.key.clone()).or_insert_with(|| Lock {
                mode: want.mode,
                holders: BTreeSet::new(),
                queue: BTreeMap::new(),
            });
            lock.queue.insert(id, Waiter { mode: want.mode, expected: want.expected, passes });
        }
        let woken = self.next_at(&wants);
        self.claims.insert(id, Claim { wants, holds: false, passes });
        woken
    }

    /// Whether somebody is in the way of `id`, which takes no locks because it is done at once, in one entry: a holder, or
    /// an older one that waits to lock. `Err` names the holders.
    ///
    /// # Errors
    /// Who holds what it wants; nobody, if it is only behind others that wait.
    pub fn pass(&self, id: TransactionId, wants: &[Want<K>]) -> Result<(), Vec<TransactionId>> {
        let lock_of = |want: &Want<K>| self.locks.get(&want.key).map(|lock| (lock, want.mode));
        let mut locks = wants.iter().filter_map(lock_of);
        match locks.any(|(lock, mode)| lock.hinders(id, mode)) {
            true => Err(self.owners_of(id, wants)),
            false => Ok(()),
        }
    }

    /// Keeps `id`, in whose way somebody is, a place by its age: nothing younger that locks gets past it until it is
    /// released, or those that come after it could keep it waiting for ever. Without room in the table it gets none.
    pub fn keep_place(&mut self, id: TransactionId, wants: &[Want<K>]) {
        let new = wants.iter().filter(|want| !self.locks.contains_key(&want.key)).count();
        if !self.claims.contains_key(&id) && self.locks.len() + new <= self.keys_max {
            // Nobody waits for somebody who has held nothing.
            self.queue(id, wants, true);
        }
    }

    /// Takes all that `id` wants, or keeps it a place as [`LockTable::keep_place`] does: it is not told when it may try again. Whether
    /// it holds everything.
    pub fn hold(&mut self, id: TransactionId, wants: &[Want<K>]) -> bool {
        let is_free =
            |want: &Want<K>| self.locks.get(&want.key).is_none_or(|lock| lock.is_free_for(id, want.mode));
        if self.holds(id) {
            return true;
        }
        if !wants.iter().all(is_free) {
            self.keep_place(id, wants);
            return false;
        }
        // Whoever waits behind its place goes on waiting, for what it holds.
        self.take_out(id);
        self.try_all(id, wants) == Taken::All
    }

    /// Gives back what `id` holds, or ends its waiting. Whom that wakes, oldest first.
    pub fn release(&mut self, id: TransactionId) -> Vec<TransactionId> {
        let wants = self.take_out(id);
        self.next_at(&wants)
    }

    /// Whether somebody waits for this key.
    pub fn is_waited_for(&self, key: &K) -> bool {
        self.locks.get(key).is_some_and(|lock| !lock.queue.is_empty())
    }

    /// Waiters that want another version of `key` than `version`, which it has from now on: they can never succeed.
    pub fn overtaken(&self, key: &K, version: u64) -> Vec<TransactionId> {
        let queue = self.locks.get(key).into_iter().flat_map(|lock| &lock.queue);
        let old = queue.filter(|(_, waiter)| waiter.expected.is_some_and(|expected| expected != version));
        old.map(|(id, _)| *id).collect()
    }

    /// For explanations: a key that `id`, which waits, cannot have, and who has it or is before it; the oldest of these.
    pub fn hindrance(&self, id: TransactionId) -> Option<(&K, TransactionId)> {
        let wants = &self.claims.get(&id).filter(|claim| !claim.holds)?.wants;
        let locks = || {
            wants.iter().filter_map(|want| {
                self.locks.get_key_value(&want.key).map(|(key, lock)| (key, lock, want.mode))
            })
        };
        let held = locks().filter(|(_, lock, mode)| lock.conflicts(id, *mode));
        let held = held.filter_map(|(key, lock, _)| {
            let others = lock.holders.iter().filter(|holder| **holder != id);
            others.min().map(|owner| (key, *owner))
        });
        let behind = locks().filter_map(|(key, lock, mode)| {
            let mut older = lock.queue.range(..id).filter(|(_, waiter)| !mode.goes_with(waiter.mode));
            older.next().map(|(owner, _)| (key, *owner))
        });
        held.chain(behind).next()
    }

    /// Whether `id` holds its locks.
    pub fn holds(&self, id: TransactionId) -> bool {
        self.claims.get(&id).is_some_and(|claim| claim.holds)
    }

    /// Whether `id` waits for its locks.
    pub fn waits(&self, id: TransactionId) -> bool {
        self.claims.get(&id).is_some_and(|claim| !claim.holds)
    }

    /// How many hold or wait.
    pub fn count(&self) -> usize {
        self.claims.len()
    }

    /// Waiters that nothing is in the way of. There are none, unless somebody was woken and not tried.
    pub fn overlooked(&self) -> Vec<TransactionId> {
        let waiting = self.claims.iter().filter(|(_, claim)| !claim.holds && !claim.passes);
        let free = waiting.filter(|(id, claim)| {
            claim
                .wants
                .iter()
                .all(|want| self.locks.get(&want.key).is_none_or(|lock| lock.is_free_for(**id, want.mode)))
        });
        free.map(|(id, _)| *id).collect()
    }

    /// All holders of what `id` wants and cannot have: each of several readers is in a writer's way.
    fn in_the_way(&self, id: TransactionId) -> Vec<TransactionId> {
        self.claims.get(&id).map_or_else(Vec::new, |claim| self.owners_of(id, &claim.wants))
    }

    fn owners_of(&self, id: TransactionId, wants: &[Want<K>]) -> Vec<TransactionId> {
        let writers_only = self.mutant == Some(Mutant::ReadersKept);
        let mut owners = BTreeSet::new();
        for want in wants {
            let lock = self.locks.get(&want.key).filter(|lock| lock.conflicts(id, want.mode));
            if let Some(lock) = lock.filter(|lock| !writers_only || lock.mode == Mode::Write) {
                owners.extend(lock.holders.iter().copied().filter(|holder| *holder != id));
            }
        }
        owners.into_iter().collect()
    }

    fn take_out(&mut self, id: TransactionId) -> Vec<Want<K>> {
        let Some(claim) = self.claims.remove(&id) else { return Vec::new() };
        for want in &claim.wants {
            if let Some(lock) = self.locks.get_mut(&want.key) {
                lock.holders.remove(&id);
                lock.queue.remove(&id);
                if lock.holders.is_empty() && lock.queue.is_empty() {
                    self.locks.remove(&want.key);
                }
            }
        }
        claim.wants
    }

    fn next_at(&self, wants: &[Want<K>]) -> Vec<TransactionId> {
        let locks = wants.iter().filter_map(|want| self.locks.get(&want.key));
        let woken: BTreeSet<TransactionId> = locks.flat_map(Lock::next).collect();
        woken.into_iter().collect()
    }
}

/// Each key once, for the stronger of what it is wanted for.
fn merged<K: Ord + Clone>(wants: &[Want<K>]) -> Vec<Want<K>> {
    let mut sorted: Vec<Want<K>> = wants.to_vec();
    sorted.sort_by(|one, other| one.key.cmp(&other.key));
    let mut merged: Vec<Want<K>> = Vec::with_capacity(sorted.len());
    for want in sorted {
        match merged.last_mut().filter(|last| last.key == want.key) {
            Some(last) => {
                last.mode = last.mode.with(want.mode);
                last.expected = last.expected.or(want.expected);
            }
            None => merged.push(want),
        }
    }
    merged
}
