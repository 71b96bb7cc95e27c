//! Looks: what a transaction finds under its locks, and says with its vote.
//!
//! Usually a look shows what is applied. While an outcome is on its way through the log, its locks belong to others already, and
//! what it changes is known: its commands ran when it was voted on, and will do the same again. So those others look at
//! the store under these changes, and their votes stand in the log right behind the outcome.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_commit::{Attempt, TransactionId};
use quorate_kernel::Cx;
use quorate_replog::Index;
use quorate_values::by_code;

use crate::Mutant;
use crate::desk::run_part;
use crate::machine::{Out, Shard};
use crate::part::{Export, Part};
use crate::view::View;

/// A transaction that has its locks.
#[derive(Debug)]
pub(crate) struct Unchecked {
    pub(crate) id: TransactionId,
    /// What it does here.
    pub(crate) part: Part,
    /// Whether this log decides about it.
    pub(crate) decides: bool,
    /// It is looked at once this entry is applied,
    pub(crate) after: Index,
    /// and the outcomes up to this one, whose locks it may have,
    pub(crate) behind: u64,
    /// unless it can be shown what these are going to change.
    pub(crate) sees_ahead: bool,
}

/// Rows as they will be.
type Changes = Vec<(Bytes, Option<Bytes>)>;

/// Outcomes on their way through the log whose locks were handed over. Like locks it is the primary's, and volatile.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// What those that voted yes are going to change.
    foreseen: BTreeMap<TransactionId, Changes>,
    foreseen_bytes: usize,
    /// Outcomes, numbered in the order of the log.
    outcomes: BTreeMap<u64, (TransactionId, Changes)>,
    newest: u64,
}

impl Ahead {
    /// What is remembered of looks; those beyond keep their locks until the outcome is applied.
    const BYTES_MAX: usize = 4 << 20;

    /// Whether no outcome is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// What `id` changed in its look. A collection that began there will bear another number when it is carried out.
    pub(crate) fn remember(&mut self, id: TransactionId, look: &View<'_>) {
        self.forget(id);
        if look.begins_collection {
            return;
        }
        let changes = look.overlay.changed();
        let bytes = bytes_of(&changes);
        if self.foreseen_bytes + bytes <= Self::BYTES_MAX {
            self.foreseen_bytes += bytes;
            self.foreseen.insert(id, changes);
        }
    }

    /// The outcome of `id` is on its way. Whether others may have its locks.
    pub(crate) fn hand_over(&mut self, id: TransactionId, commits: bool) -> bool {
        let foreseen = self.foreseen.remove(&id);
        self.foreseen_bytes -= foreseen.as_ref().map_or(0, bytes_of);
        let changes = if commits { foreseen } else { Some(Changes::new()) };
        let Some(changes) = changes else { return false };
        self.newest += 1;
        self.outcomes.insert(self.newest, (id, changes));
        true
    }

    /// The number of the newest outcome whose locks were handed over.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether all up to this one are applied.
    pub(crate) fn is_past(&self, number: u64) -> bool {
        self.outcomes.first_key_value().is_none_or(|(first, _)| *first > number)
    }

    /// It has its outcome, or will vote anew.
    pub(crate) fn forget(&mut self, id: TransactionId) {
        self.foreseen_bytes -= self.foreseen.remove(&id).as_ref().map_or(0, bytes_of);
        self.outcomes.retain(|_, (other, _)| *other != id);
    }
}

fn bytes_of(changes: &Changes) -> usize {
    changes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len)).sum()
}

impl Part {
    /// Whether what it changes is known when it is voted on: by its own commands alone, each about keys that it names.
    fn is_foreseeable(&self) -> bool {
        let named = |code| by_code(code).is_some_and(|spec| !spec.spans_keyspace());
        self.lends.is_empty()
            && self.sight.is_none()
            && self.script.is_empty()
            && self.notes.is_empty()
            && self.commands.iter().all(|(_, command)| named(command.code))
    }

    /// Whether it can be shown what will be: it asks for no versions, which are given when changes are applied.
    pub(crate) fn sees_ahead(&self) -> bool {
        self.is_foreseeable() && self.watched.is_empty() && self.versions.is_empty()
    }
}

impl View<'_> {
    /// Versions from here on are given in looks alone.
    const NOBODYS: u64 = 1 << 61;

    /// For a look whose changes others may be shown: shows it what outcomes on their way will change, if it `sees` that, and
    /// gives versions, which number collections, that nobody else gives.
    pub(crate) fn look_ahead(&mut self, ahead: &Ahead, sees: bool) {
        for (key, value) in ahead.outcomes.values().filter(|_| sees).flat_map(|(_, changes)| changes) {
            self.overlay.set(key.clone(), value.clone());
        }
        self.state.versions = Self::NOBODYS;
        // Not what they will be. Nobody asks, and whoever removes what is only going to be there counts down.
        for count in [&mut self.state.keys, &mut self.state.expiring, &mut self.state.dead_collections] {
            *count += Self::NOBODYS;
        }
        self.overlay.mark();
    }
}

impl Shard {
    /// What comes of the next look that can be had.
    pub(crate) fn next_look(&mut self, cx: &mut Cx<'_>, out: &mut Out) -> Option<(TransactionId, Attempt)> {
        while let Some(unchecked) = self.next_due() {
            let id = unchecked.id;
            if self.transactions.desk.locks.holds(id)
                && let Some(attempt) = self.look_at(cx, unchecked, out)
            {
                return Some((id, attempt));
            }
        }
        None
    }

    /// The next of those that were just tried and want a version that has passed: versions do not come back, so it is refused,
    /// whether it has its locks or waits, and keeps nobody waiting who might succeed.
    pub(crate) fn hopeless(&mut self, cx: &mut Cx<'_>) -> Option<(TransactionId, Attempt)> {
        let (area, applied_ms) = (self.log.data_prefix(), self.state.now_ms);
        while let Some((id, watched)) = self.transactions.desk.hopes.pop() {
            let mut view = View::reading(&*cx.store, &self.limits, area, self.state, applied_ms, 0);
            view.shield = core::mem::take(&mut self.transactions.shield);
            let moved = view.moved(&watched);
            self.transactions.shield = core::mem::take(&mut view.shield);
            // A copy may have shown a version that is not applied here yet.
            if let Some(moved) = moved.filter(|moved| moved.found > moved.watched) {
                cx.marks.hit("shard.transaction.hopeless");
                return Some((id, self.writers.refuse(self.transactions.desk.me, moved)));
            }
        }
        None
    }

    /// The next of those that have their locks and can be looked at now.
    fn next_due(&mut self) -> Option<Unchecked> {
        let early = self.limits.breaks(Mutant::LooksTooEarly);
        let applied = if early { Index::MAX } else { self.log.applied() };
        let desk = &mut self.transactions.desk;
        let is_due = |unchecked: &Unchecked| {
            unchecked.after <= applied && (unchecked.sees_ahead || desk.ahead.is_past(unchecked.behind))
        };
        let due = desk.unchecked.iter().position(is_due)?;
        Some(desk.unchecked.swap_remove(due))
    }

    /// Looks at what a transaction needs, with its locks held: compares versions, and runs its commands to learn their
    /// replies. `None`: not yet.
    fn look_at(&mut self, cx: &mut Cx<'_>, unchecked: Unchecked, out: &mut Out) -> Option<Attempt> {
        let Unchecked { id, part, decides, .. } = &unchecked;
        let known_ms = self.state.now_ms.max(self.transactions.latest_ms);
        let (now_ms, seed) = (cx.wall.unix_ms.max(known_ms), cx.rng.next_u64());
        let (area, desk) = (self.log.data_prefix(), &mut self.transactions.desk);
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, now_ms, seed);
        view.looks = true;
        view.shield = core::mem::take(&mut self.transactions.shield);
        let foreseeable = part.is_foreseeable();
        if foreseeable && !self.limits.breaks(Mutant::OutcomesUnseen) {
            view.look_ahead(&desk.ahead, unchecked.sees_ahead);
        }
        let found = match view.moved(&part.watched) {
            Some(moved) => Err(self.writers.refuse(desk.me, moved)),
            None if !self.notes.fit(&part.notes) && !self.limits.breaks(Mutant::NotesUncompared) => {
                Err(Attempt::Refused { resource: Bytes::new(), by: None })
            }
            None => {
                let replies = run_part(&mut view, part);
                if !part.lends.is_empty() {
                    cx.marks.hit("shard.transaction.lends");
                }
                match view.lend(part, self.limits.commit.payload_bytes_max) {
                    Some((loans, rest)) => {
                        let export = Export { now_ms, seed, replies, loans, rest, digest: None };
                        // Time passes votes that are not in the log.
                        let expires = view.meets_expiry && !self.limits.breaks(Mutant::TimePassesKeptVotes);
                        Ok((export, foreseeable && !expires))
                    }
                    None => Err(Attempt::TooLarge),
                }
            }
        };
        let (expiry_pending, leans) = (view.expiry_pending.is_some(), view.leans);
        self.transactions.shield = core::mem::take(&mut view.shield);
        if (expiry_pending || leans) && !desk.ahead.is_past(unchecked.behind) {
            // What has expired may be kept for the sake of an outcome on its way.
            cx.marks.hit("shard.transaction.looks_again");
            desk.unchecked.push(Unchecked { sees_ahead: false, ..unchecked });
            return None;
        }
        if self.limits.breaks(Mutant::StaleExport)
            && let Ok((export, stays)) = &found
        {
            let first = self.transactions.exported.entry(*id).or_insert_with(|| export.clone());
            return Some(desk.ready(*id, *decides, (first.clone(), *stays)));
        }
        if expiry_pending {
            // As with reads: by this clock a key has expired, and the log must say so first.
            cx.marks.hit("shard.transaction.waits_for_expiry");
            self.tick(cx, now_ms, out);
            let due = self.log.last().max(self.log.applied() + 1);
            self.transactions.desk.unchecked.push(Unchecked { after: due, ..unchecked });
            return None;
        }
        if leans {
            cx.marks.hit("shard.transaction.leans");
            return Some(Attempt::Full);
        }
        if foreseeable && found.is_ok() {
            if !desk.ahead.is_past(unchecked.behind) {
                cx.marks.hit("shard.transaction.looks_ahead");
            }
            desk.ahead.remember(*id, &view);
        }
        Some(found.map_or_else(|attempt| attempt, |found| desk.ready(*id, *decides, found)))
    }
}
