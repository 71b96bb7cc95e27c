//! Coming back after a restart, and letting go of records that are no longer needed.

use alloc::vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::{Cx, Position, wire};
use quorate_store::{Batch, Scan, Store};

use crate::Mutant;
use crate::machine::{Out, Output, Replog, Timer};
use crate::message::{Ballot, Index};
use crate::record::{Epoch, Record, StateMeta};
use crate::rows::Rows;

/// Rows removed from abandoned areas in one step.
const SWEEP_ROWS: usize = 256;

impl Replog {
    /// Whether the store has the state of the log with this number.
    pub fn survives(store: &dyn Store, log: u16) -> bool {
        store.get(&Rows { log }.meta_key()).is_some()
    }

    pub(crate) fn restore_record(&mut self, position: Position, record: Record) {
        self.restored = true;
        match record {
            Record::Promise(ballot) => self.restore_promise(ballot),
            Record::Append { first, log_ballot, entries } => {
                self.restore_entries(first, &entries);
                self.log_ballot = self.log_ballot.max(log_ballot);
                self.journal.push_back((first + entries.len() as u64 - 1, position));
            }
            Record::Entered(epoch) => self.restore_epoch(epoch),
            Record::Installed { base, base_ballot } => {
                self.restore_base(base, base_ballot);
            }
            Record::Fenced(epoch) => self.fence = self.fence.max(epoch),
            Record::Kept { promised, log_ballot, epochs } => {
                self.restore_promise(promised);
                self.log_ballot = self.log_ballot.max(log_ballot);
                // All that was known, while of older records only the newest epochs may be left: records go a file at a time.
                self.epochs = epochs;
            }
        }
    }

    /// The log begins behind `base`. What follows there in records from before stays if the logs agree: it was written anew
    /// behind this record, but a crash may have come before it was there.
    fn restore_base(&mut self, base: Index, base_ballot: Ballot) {
        let unknown = self.log.base() == base && self.log.ballot_at(base) == Some(Ballot::default());
        if self.breaks(Mutant::TailForgotten) {
            self.log.restart(base, base_ballot);
        } else if unknown {
            // Records up to it were discarded: it is chosen, and this is its ballot.
            self.log.vouch(base_ballot);
        } else {
            self.log.rebase(base, base_ballot);
        }
        let last = self.log.last();
        self.journal.retain(|(newest, _)| *newest > base && last > base);
    }

    fn restore_entries(&mut self, first: Index, entries: &[crate::Entry]) {
        if first > self.log.last() + 1 {
            // What was between was discarded, of which some older records may be left: the store has it, whose meta row will be
            // compared.
            self.log.restart(first - 1, Ballot::default());
        }
        let kept = self.log.base().max(first - 1);
        if kept < self.log.last() {
            self.log.truncate_from(kept + 1);
        }
        // Entries up to the base are in the store already: discarding keeps whole records only.
        for (entry, index) in entries.iter().zip(first..) {
            if index > kept {
                self.log.push(entry.clone());
            }
        }
    }

    fn restore_promise(&mut self, ballot: Ballot) {
        let promised = self.ahead.entry(ballot.epoch).or_default();
        *promised = ballot.max(*promised);
    }

    fn restore_epoch(&mut self, epoch: Epoch) {
        if self.epochs.last().is_none_or(|newest| newest.number < epoch.number) {
            self.epochs.push(epoch);
        }
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let meta = cx.store.get(&self.config.rows().meta_key()).map(|bytes| read_meta(&bytes));
        if let Some(meta) = &meta {
            self.take_store(meta, out);
        } else if !self.restored && !self.bootstrap.is_empty() {
            self.found_log(out);
        } else {
            assert!(
                self.log.base() == 0,
                "records begin behind entry {}, but the store is empty",
                self.log.base()
            );
        }
        self.infer_epochs(cx, out);
        self.chosen = self.applied.max(self.epoch().start);
        self.adopt_epoch();
        self.garbage = self.config.rows().abandoned(cx, self.generation);
        if !self.garbage.is_empty() {
            out.arm(Timer::Sweep, Duration::ZERO);
        }
        // A former life may have granted a lease just before it ended: to whom it had promised last, since it promised
        // to nobody else while an earlier lease ran.
        self.bound_to = self.ahead.values().copied().max().unwrap_or(self.promised);
        self.bound_until =
            if self.breaks(Mutant::VoteRightAfterRestart) { cx.now } else { cx.now + self.config.lease };
        self.heard = cx.now;
        self.arm_election(cx, out);
        out.output(Output::Peers);
        if self.chosen > self.applied {
            out.output(Output::Chosen);
        }
    }

    /// Brings the log in line with the state that survived in the store.
    fn take_store(&mut self, meta: &StateMeta, out: &mut Out) {
        self.restored = true;
        self.generation = meta.generation;
        self.applied = meta.applied;
        if self.log.last() < meta.applied {
            // The store is ahead of the records: the end of an installation was cut short.
            self.restart_log(meta, out);
        } else if self.log.base() == meta.applied {
            self.log.vouch(meta.applied_ballot);
        } else if self.log.base() > meta.applied {
            panic!("the store ends at entry {}, the records begin behind {}", meta.applied, self.log.base());
        } else if self.log.ballot_at(meta.applied) != Some(meta.applied_ballot) {
            self.restart_log(meta, out);
        } else if self.log.base() > 0 {
            // Older entries may still help a follower; but the ballot of the base is not known.
            self.log.forget_to(self.log.base() + 1);
        }
        self.take_state_epoch(meta.epoch.clone());
    }

    /// The state is of this epoch; earlier ones are of no interest any more. A node that joined from the first entry on
    /// knows none before the first seal.
    pub(crate) fn take_state_epoch(&mut self, state: Epoch) {
        self.epochs.retain(|epoch| epoch.number > state.number);
        if state.number > 0 {
            self.epochs.insert(0, state);
        }
    }

    /// What the store holds is chosen, and the log is of no use to it: begin anew behind it.
    fn restart_log(&mut self, meta: &StateMeta, out: &mut Out) {
        self.log.restart(meta.applied, meta.applied_ballot);
        out.persist(Record::Installed { base: meta.applied, base_ballot: meta.applied_ballot });
    }

    /// The first start of the first members.
    fn found_log(&mut self, out: &mut Out) {
        let first = Ballot { epoch: 1, number: 0, node: None };
        let epoch =
            Epoch { number: 1, members: self.bootstrap.clone(), former: vec![], start: 0, heir: first };
        self.promised = first;
        self.epochs = vec![epoch];
        self.persist_kept(out);
    }

    /// Persists what discarded records said besides entries.
    fn persist_kept(&self, out: &mut Out) -> Position {
        let forgets = self.breaks(Mutant::KeptWithoutPromise);
        let (promised, log_ballot) = match forgets {
            true => (Ballot::default(), Ballot::default()),
            false => (self.promised, self.log_ballot),
        };
        let kept = out.persist(Record::Kept { promised, log_ballot, epochs: self.epochs.clone() });
        for ahead in self.ahead.values() {
            out.persist(Record::Promise(*ahead));
        }
        if self.fence > 0 {
            out.persist(Record::Fenced(self.fence));
        }
        kept
    }

    /// Bounds the entries in memory and the records on disk. Called after every step; nearly always two comparisons.
    pub(crate) fn tend_log(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.log.bytes() > self.config.log_bytes_max {
            self.shrink_log();
        }
        if let Some((sequence, applied)) = self.checkpoint {
            if cx.store.durable() >= sequence || self.breaks(Mutant::DiscardBeforeDurable) {
                self.checkpoint = None;
                self.discard_to(applied, out);
            }
        } else if self.journal_bytes > self.config.checkpoint_bytes && self.receiving.is_none() {
            self.journal_bytes = 0;
            cx.store.checkpoint();
            self.checkpoint = Some((cx.store.sequence(), self.applied));
        }
    }

    fn shrink_log(&mut self) {
        let keep = self.config.log_bytes_max / 4 * 3;
        let mut bytes = self.log.bytes();
        let mut to = self.log.base();
        while bytes > keep && to < self.applied {
            to += 1;
            bytes -= self.log.get(to).map_or(0, crate::Entry::size_bytes);
        }
        self.log.forget_to(to);
    }

    /// Lets go of the records whose entries the store holds for good.
    fn discard_to(&mut self, durable: Index, out: &mut Out) {
        while self.journal.front().is_some_and(|(last, _)| *last <= durable) {
            self.journal.pop_front();
        }
        // Kept first, so that what the discarded records said besides entries is never missing.
        let kept = self.persist_kept(out);
        if core::mem::take(&mut self.in_the_way)
            && self.log.base() <= durable
            && let Some(base_ballot) = self.log.ballot_at(durable)
        {
            // Others wait for room, and nobody may ever choose what is left: it moves behind them. Some of the old records may
            // survive, so this is where the log begins.
            self.journal.clear();
            out.persist(Record::Installed { base: durable, base_ballot });
            let tail = self.log.slice(durable + 1, usize::MAX);
            if !tail.is_empty() {
                self.persist_entries(durable + 1, tail, out);
            }
            self.journal_bytes = 0;
            return out.discard(kept);
        }
        out.discard(self.journal.front().map_or(kept, |(_, position)| *position));
    }

    /// The state was replaced, and is durable: nothing that was persisted before is needed any more.
    pub(crate) fn persist_installed(&mut self, base: Index, base_ballot: Ballot, out: &mut Out) {
        self.journal.clear();
        self.journal_bytes = 0;
        let kept = self.persist_kept(out);
        out.persist(Record::Installed { base, base_ballot });
        let tail = self.log.slice(base + 1, usize::MAX);
        if !tail.is_empty() {
            self.persist_entries(base + 1, tail, out);
        }
        out.discard(kept);
    }

    /// Removes some rows of abandoned areas.
    pub(crate) fn sweep(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(generation) = self.garbage.last().copied() else { return };
        let (area, end) = (self.config.rows().area(generation), self.config.rows().area_end(generation));
        // From where the last step ended: a store passes over every row that was removed before it finds one that is left.
        let after = self.swept.take().filter(|(swept, _)| *swept == generation);
        let start = after.map_or_else(|| Bytes::copy_from_slice(&area), |(_, last)| last);
        let rows = cx.store.scan(Scan::range(&start, Some(&end)).rows(SWEEP_ROWS));
        if let Some((last, _)) = rows.last() {
            self.swept = Some((generation, last.clone()));
            let writes = rows.into_iter().map(|(key, _)| (key, None)).collect();
            cx.store.apply(Batch { writes });
        } else {
            self.garbage.pop();
        }
        if !self.garbage.is_empty() {
            out.arm(Timer::Sweep, Duration::from_millis(1));
        }
    }
}

/// Reads the meta row.
///
/// # Panics
/// If it does not decode: rows come back as they were written or the store stops the process.
pub(crate) fn read_meta(bytes: &Bytes) -> StateMeta {
    match wire::decode(bytes) {
        Ok(meta) => meta,
        Err(error) => panic!("the meta row of the state: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use quorate_kernel::NodeId;

    fn epoch(number: u64) -> Epoch {
        Epoch {
            number,
            members: vec![],
            former: vec![],
            start: number * 10,
            heir: Ballot { epoch: number, number: 1, node: None },
        }
    }

    #[test]
    fn what_was_kept_stands_though_newer_epochs_came_first() {
        // The records that said so of epochs 2 and 3 stood in files that are gone, that of epoch 4 in one that is not.
        let mut log = Replog::new(NodeId(1), Config::production(), vec![]);
        let promised = Ballot { epoch: 4, number: 7, node: Some(NodeId(2)) };
        let epochs = vec![epoch(2), epoch(3), epoch(4)];
        log.restore_record(Position(100), Record::Entered(epoch(4)));
        log.restore_record(
            Position(101),
            Record::Kept { promised, log_ballot: promised, epochs: epochs.clone() },
        );
        log.restore_record(Position(102), Record::Entered(epoch(5)));
        assert_eq!(log.epochs, [epochs, vec![epoch(5)]].concat());
    }
}
