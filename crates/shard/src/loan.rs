//! What a shard lends to a transaction that its coordinator evaluates, and what it does when the result is back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_values::{Kind, Need, Space};

use crate::part::{Change, Loan, Part, Rest};
use crate::view::View;

/// Rows and keys are read so many at a time.
const STEP: usize = 256;
/// Bytes around each thing that is lent, about.
const AROUND: usize = 16;

/// The keys that a part names, each with its value if it is there, and the others.
pub(crate) type Lent = (Vec<(Bytes, Option<Loan>)>, Rest);

/// How much may still be lent.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes + AROUND)?;
        Some(())
    }
}

impl View<'_> {
    /// What a part lends, in at most about `bytes_max` bytes; `None`: it would be more.
    pub(crate) fn lend(&mut self, part: &Part, bytes_max: usize) -> Option<Lent> {
        let mut room = Room(bytes_max);
        let mut loans = Vec::with_capacity(part.lends.len());
        for (key, need) in &part.lends {
            room.take(key.len())?;
            loans.push((key.clone(), self.lend_key(key, *need, &mut room)?));
        }
        let mut rest = Rest::default();
        if let Some(sight) = part.sight {
            let named: BTreeSet<&Bytes> = part.lends.iter().map(|(key, _)| key).collect();
            let counted = named.iter().filter(|key| self.has_row(key)).count();
            rest.count = self.key_count().saturating_sub(counted as u64);
            if sight.names {
                rest.names = self.lend_names(&named, &mut room)?;
            }
        }
        Some((loans, rest))
    }

    /// What is needed of a key, or that there is none; `None`: there is no room.
    fn lend_key(&mut self, key: &Bytes, need: Need, room: &mut Room) -> Option<Option<Loan>> {
        let Some(mut meta) = self.get(key) else { return Some(None) };
        if meta.kind == Kind::String && !need.body {
            meta.body = Bytes::new();
        }
        room.take(meta.body.len())?;
        let mut rows = BTreeMap::new();
        if meta.kind != Kind::String {
            self.lend_rows(key, need.rows, room, &mut rows)?;
        }
        Some(Some(Loan { meta, rows: rows.into_iter().collect() }))
    }

    /// The first and the last `count` rows of a key.
    fn lend_rows(
        &mut self,
        key: &Bytes,
        count: u64,
        room: &mut Room,
        rows: &mut BTreeMap<Bytes, Bytes>,
    ) -> Option<()> {
        for reverse in [false, true] {
            let (mut left, mut edge) = (count, None::<Bytes>);
            while left > 0 {
                let step = STEP.min(usize::try_from(left).unwrap_or(STEP));
                // Behind the last row that was read, or before it.
                let start = edge.as_ref().filter(|_| !reverse).map(|edge| [&edge[..], &[0]].concat());
                let end = edge.as_deref().filter(|_| reverse);
                let found = self.rows(key, start.as_deref().unwrap_or_default(), end, reverse, step);
                let is_over = found.len() < step;
                left -= found.len() as u64;
                for (row, value) in found {
                    if !rows.contains_key(&row) {
                        room.take(row.len() + value.len())?;
                    }
                    edge = Some(row.clone());
                    rows.insert(row, value);
                }
                if is_over && !reverse {
                    // That was all of them.
                    return Some(());
                }
                if is_over {
                    break;
                }
            }
        }
        Some(())
    }

    fn lend_names(&mut self, named: &BTreeSet<&Bytes>, room: &mut Room) -> Option<Vec<(Bytes, Kind)>> {
        let (mut names, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let (found, behind) = self.keys(from, STEP);
            for (key, kind) in found.into_iter().filter(|(key, _)| !named.contains(key)) {
                room.take(key.len())?;
                names.push((key, kind));
            }
            next = behind;
        }
        Some(names)
    }

    /// Makes the changes of a script, which found at `now_ms`, under this shard's locks, what they build on.
    pub(crate) fn replay(&mut self, changes: &[Change]) {
        self.begin_command();
        let keys: BTreeSet<&Bytes> = changes.iter().filter_map(Change::key).collect();
        for key in keys {
            // What had expired was lent as missing, and its rows must not come back with a new value.
            if self.get(key).is_none() {
                self.remove(key);
            }
        }
        // What was lent existed for the whole script, whatever the time.
        self.now_ms = 0;
        for change in changes {
            match change {
                Change::Set(key, meta) => self.set(key, meta.clone()),
                Change::Remove(key) => {
                    self.remove(key);
                }
                Change::SetRow(key, row, value) => self.set_row(key, row, value.clone()),
                Change::RemoveRow(key, row) => self.remove_row(key, row),
                Change::Clear => self.clear(),
            }
        }
    }
}

impl Change {
    /// The key that it is about, if it is about one.
    pub(crate) fn key(&self) -> Option<&Bytes> {
        match self {
            Change::Set(key, _)
            | Change::Remove(key)
            | Change::SetRow(key, ..)
            | Change::RemoveRow(key, _) => Some(key),
            Change::Clear => None,
        }
    }

    /// Bytes of what it carries, about.
    pub(crate) fn size_bytes(&self) -> usize {
        AROUND
            + match self {
                Change::Set(key, meta) => key.len() + meta.body.len(),
                Change::Remove(key) => key.len(),
                Change::SetRow(key, row, value) => key.len() + row.len() + value.len(),
                Change::RemoveRow(key, row) => key.len() + row.len(),
                Change::Clear => 0,
            }
    }
}
