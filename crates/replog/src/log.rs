//! The entries in memory.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::message::{Ballot, Index};
use crate::record::Entry;

/// A contiguous run of entries behind a base that is known to be chosen (and usually applied).
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    base: Index,
    base_ballot: Ballot,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Log {
    /// Index of the entry before the first one held; its ballot is still known.
    pub(crate) fn base(&self) -> Index {
        self.base
    }

    /// Index of the newest entry.
    pub(crate) fn last(&self) -> Index {
        self.base + self.entries.len() as u64
    }

    /// Bytes of the entries held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entry at `index`, if held.
    pub(crate) fn get(&self, index: Index) -> Option<&Entry> {
        let offset = index.checked_sub(self.base + 1)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }

    /// The ballot of the entry at `index`; `None` before the base and behind the end.
    pub(crate) fn ballot_at(&self, index: Index) -> Option<Ballot> {
        if index == self.base { Some(self.base_ballot) } else { self.get(index).map(|entry| entry.ballot) }
    }

    /// Adds an entry at the end and returns its index.
    pub(crate) fn push(&mut self, entry: Entry) -> Index {
        self.bytes += entry.size_bytes();
        self.entries.push_back(entry);
        self.last()
    }

    /// Drops all entries from `index` on.
    pub(crate) fn truncate_from(&mut self, index: Index) {
        assert!(index > self.base, "entries before the base are gone, they cannot be replaced");
        while self.last() >= index {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= entry.size_bytes();
            }
        }
    }

    /// Lets go of entries up to `index`, the new base.
    pub(crate) fn forget_to(&mut self, index: Index) {
        assert!(index <= self.last(), "cannot forget entry {index} behind the end {}", self.last());
        while self.base < index {
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.size_bytes();
                self.base += 1;
                self.base_ballot = entry.ballot;
            }
        }
    }

    /// Starts anew behind `base`, with nothing.
    pub(crate) fn restart(&mut self, base: Index, base_ballot: Ballot) {
        *self = Log { base, base_ballot, entries: VecDeque::new(), bytes: 0 };
    }

    /// Starts anew behind `base`, keeping entries that follow it if the logs agree there.
    pub(crate) fn rebase(&mut self, base: Index, base_ballot: Ballot) {
        if self.ballot_at(base) == Some(base_ballot) {
            self.forget_to(base);
        } else {
            self.restart(base, base_ballot);
        }
    }

    /// Learns the ballot of the base, which the records alone did not tell.
    pub(crate) fn vouch(&mut self, base_ballot: Ballot) {
        self.base_ballot = base_ballot;
    }

    /// Entries from `first` on, as many as fit into `bytes_max`, but one at least if there is one.
    pub(crate) fn slice(&self, first: Index, bytes_max: usize) -> Vec<Entry> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut index = first;
        while let Some(entry) = self.get(index) {
            bytes += entry.size_bytes();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
            index += 1;
        }
        taken
    }

    /// The entry before the run of entries with the ballot of the one at `index`: where logs that differ at `index`
    /// may agree. Not below the base.
    pub(crate) fn before_ballot_at(&self, index: Index) -> Index {
        let ballot = self.ballot_at(index);
        let mut before = index;
        while before > self.base && self.ballot_at(before) == ballot {
            before -= 1;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Content;
    use bytes::Bytes;

    fn entry(number: u64) -> Entry {
        let ballot = Ballot { epoch: 1, number, node: None };
        Entry { ballot, content: Content::Command(Bytes::from_static(b"x")) }
    }

    fn log(ballots: &[u64]) -> Log {
        let mut log = Log::default();
        for number in ballots {
            log.push(entry(*number));
        }
        log
    }

    #[test]
    fn forgets_from_the_front_and_truncates_from_the_back() {
        let mut log = log(&[1, 1, 2, 3]);
        log.forget_to(2);
        assert_eq!((log.base(), log.last(), log.ballot_at(2)), (2, 4, Some(entry(1).ballot)));
        assert_eq!(log.get(2), None);
        log.truncate_from(4);
        assert_eq!((log.last(), log.ballot_at(3)), (3, Some(entry(2).ballot)));
        assert_eq!(log.bytes(), entry(2).size_bytes());
    }

    #[test]
    fn slices_are_bounded_but_never_empty() {
        let log = log(&[1, 1, 2]);
        let one = entry(1).size_bytes();
        assert_eq!(log.slice(1, 0).len(), 1);
        assert_eq!(log.slice(1, 2 * one).len(), 2);
        assert_eq!(log.slice(4, 1000).len(), 0);
    }

    #[test]
    fn rebasing_keeps_what_agrees() {
        let mut kept = log(&[1, 1, 2]);
        kept.rebase(2, entry(1).ballot);
        assert_eq!((kept.base(), kept.last()), (2, 3));
        let mut dropped = log(&[1, 1, 2]);
        dropped.rebase(2, entry(9).ballot);
        assert_eq!((dropped.base(), dropped.last(), dropped.bytes()), (2, 2, 0));
    }

    #[test]
    fn conflicts_skip_a_whole_ballot() {
        let log = log(&[1, 2, 2, 2, 3]);
        assert_eq!(log.before_ballot_at(4), 1);
        assert_eq!(log.before_ballot_at(5), 4);
    }
}
