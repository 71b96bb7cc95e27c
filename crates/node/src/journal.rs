//! The newest deeds of a node, and how often and for how long each kind was done since it was started. Kept in memory only.

use alloc::collections::VecDeque;
use core::time::Duration;
use quorate_kernel::{Time, Wall};

use crate::deeds::{Deed, DeedKind, End, How, What};
use crate::motive::Motive;

/// Deeds that are remembered; the oldest is forgotten for a newer one.
pub const DEEDS_MAX: usize = 256;

/// Upper bounds of durations that are counted together, in microseconds; what takes longer comes last.
pub const TOOK_BOUNDS_US: [u64; 15] = [
    500, 1_000, 2_000, 3_000, 4_000, 5_000, 7_500, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000,
];

/// How often one kind of deed was begun and ended, and how long it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were begun.
    pub begun: u64,
    /// How many of them happened.
    pub completed: u64,
    /// How many of them had no effect.
    pub given_up: u64,
    /// Of how many the end was not seen here.
    pub unseen: u64,
    /// Those that happened by how long they took: no longer than the bound at the same place, and longer than the one before.
    pub took: [u64; TOOK_BOUNDS_US.len() + 1],
    /// How long those that happened took together, in nanoseconds.
    pub took_ns: u64,
}

/// What a node remembers of what it did for groups.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    deeds: VecDeque<Deed>,
    dropped: u64,
    tallies: [Tally; DeedKind::ALL.len()],
}

/// A deed that is under way.
#[derive(Debug)]
#[must_use]
pub struct Begun {
    number: u64,
    at: Time,
    kind: Option<DeedKind>,
}

/// When something happens, by both clocks.
pub type Clocks = (Time, Wall);

impl Journal {
    /// The deeds that are remembered, the oldest first.
    pub fn deeds(&self) -> impl Iterator<Item = &Deed> {
        self.deeds.iter()
    }

    /// How many are not remembered any more.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How often each kind was begun and ended.
    pub fn tallies(&self) -> impl Iterator<Item = (DeedKind, &Tally)> {
        DeedKind::ALL.into_iter().zip(&self.tallies)
    }

    /// Something is begun, for this reason.
    pub fn begin(&mut self, (now, wall): Clocks, what: What, motive: Motive) -> Begun {
        let kind = what.kind();
        if let Some(kind) = kind {
            self.tallies[kind as usize].begun += 1;
        }
        Begun { number: self.write(wall, what, motive), at: now, kind }
    }

    /// It has ended.
    pub fn end(&mut self, now: Time, begun: Begun, how: How) {
        let took = now.since(begun.at);
        if let Some(kind) = begun.kind {
            self.tallies[kind as usize].count(&how, took);
        }
        self.finish(begun.number, took, how);
    }

    /// Something that takes no time, or was wanted and could not even be begun: it is remembered and not counted.
    pub fn remark(&mut self, wall: Wall, what: What, motive: Motive, how: How) {
        let number = self.write(wall, what, motive);
        self.finish(number, Duration::ZERO, how);
    }

    fn finish(&mut self, number: u64, took: Duration, how: How) {
        let first = self.deeds.front().map_or(0, |deed| deed.number);
        // Whoever has done that much meanwhile has forgotten it.
        let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(deed) = place.and_then(|place| self.deeds.get_mut(place)) {
            deed.end = Some(End { took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX), how });
        }
    }

    /// Writes a deed down; what is tried again after it had no effect stays one. Its number.
    fn write(&mut self, wall: Wall, what: What, motive: Motive) -> u64 {
        let groups = what.groups();
        let is_done = |deed: &Deed| matches!(&deed.end, Some(End { how: How::Done, .. }));
        let same = self.deeds.iter_mut().rev().filter(|deed| deed.what.groups() == groups);
        let mut since = same.take_while(|deed| !is_done(deed));
        let again = since.find(|deed| {
            what.kind().is_some_and(|kind| kind != DeedKind::Lead)
                && deed.what.kind() == what.kind()
                && matches!(&deed.end, Some(End { how: How::GivenUp(_), .. }))
        });
        if let Some(deed) = again {
            deed.tries = deed.tries.saturating_add(1);
            (deed.what, deed.motive, deed.end) = (what, motive, None);
            return deed.number;
        }
        if self.deeds.len() == DEEDS_MAX {
            self.deeds.pop_front();
            self.dropped += 1;
        }
        let number = self.dropped + self.deeds.len() as u64 + 1;
        self.deeds.push_back(Deed { number, unix_ms: wall.unix_ms, what, motive, tries: 1, end: None });
        number
    }
}

impl Tally {
    fn count(&mut self, how: &How, took: Duration) {
        match how {
            How::GivenUp(_) => self.given_up += 1,
            How::Unseen(_) => self.unseen += 1,
            How::Done => {
                self.completed += 1;
                let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.took[TOOK_BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
                let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                self.took_ns = self.took_ns.saturating_add(ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use quorate_groups::GroupId;
    use quorate_kernel::NodeId;

    const WALL: Wall = Wall { unix_ms: 77, error_ms: 0 };

    fn join(group: u64, node: u64) -> What {
        What::Join { group: GroupId(group), nodes: [NodeId(node)].into() }
    }

    fn begin(journal: &mut Journal, ms: u64, what: What) -> Begun {
        journal.begin((Time(ms * 1_000_000), WALL), what, Motive::Asked)
    }

    #[test]
    fn the_oldest_are_forgotten_and_counted() {
        let mut journal = Journal::default();
        let first = begin(&mut journal, 0, join(1, 1));
        for group in 2..=DEEDS_MAX as u64 + 3 {
            let begun = begin(&mut journal, 1, join(group, 1));
            journal.end(Time(2_000_000), begun, How::Done);
        }
        assert_eq!((journal.deeds().count(), journal.dropped()), (DEEDS_MAX, 3));
        let numbers: Vec<u64> = journal.deeds().map(|deed| deed.number).collect();
        assert_eq!((numbers[0], numbers[DEEDS_MAX - 1]), (4, DEEDS_MAX as u64 + 3));
        // Its end is counted though nobody remembers it, and given to no other.
        journal.end(Time(9_000_000_000), first, How::GivenUp("late".into()));
        assert!(journal.deeds().all(|deed| deed.end.as_ref().is_some_and(|end| end.how == How::Done)));
        let (_, tally) = journal.tallies().find(|(kind, _)| *kind == DeedKind::Join).expect("all kinds");
        assert_eq!(
            (tally.begun, tally.completed, tally.given_up),
            (DEEDS_MAX as u64 + 3, DEEDS_MAX as u64 + 2, 1)
        );
        assert_eq!((tally.took[1], tally.took_ns), (tally.completed, tally.completed * 1_000_000));
    }

    #[test]
    fn what_is_tried_again_stays_one_until_something_happens() {
        let mut journal = Journal::default();
        for (node, how) in
            [(1, How::GivenUp("x".into())), (2, How::GivenUp("x".into())), (3, How::Done), (4, How::Done)]
        {
            let begun = begin(&mut journal, node, join(1, node));
            journal.end(Time(node * 1_000_000 + 5_000), begun, how);
        }
        let seen: Vec<_> =
            journal.deeds().map(|deed| (deed.number, deed.tries, deed.what.nodes()[0].0)).collect();
        assert_eq!(seen, [(1, 3, 3), (2, 1, 4)]);
        let end = journal.deeds().next().and_then(|deed| deed.end.clone()).expect("it has ended");
        assert_eq!(end, End { took_us: 5, how: How::Done });
        let no = || How::GivenUp("no".into());
        // Another group's, or another kind, is told apart.
        journal.remark(WALL, join(2, 1), Motive::Twice, no());
        journal.remark(WALL, What::Leave { group: GroupId(2), nodes: Vec::new() }, Motive::Twice, no());
        journal.remark(WALL, join(2, 1), Motive::Twice, no());
        assert_eq!(journal.deeds().map(|deed| deed.tries).collect::<Vec<_>>(), [3, 1, 2, 1]);
        let (_, tally) = journal.tallies().find(|(kind, _)| *kind == DeedKind::Join).expect("all kinds");
        assert_eq!(
            (tally.begun, tally.completed, tally.given_up),
            (4, 2, 2),
            "what was not begun does not count"
        );
    }

    #[test]
    fn kinds_stand_where_they_are_looked_for() {
        for (place, kind) in DeedKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{}", kind.name());
        }
    }
}
