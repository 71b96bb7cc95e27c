//! Changes of one or more entries, made but not yet applied to the store.

use alloc::collections::btree_map::Range;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Bound;

/// A row as it will be; `None`: it will be gone.
type Change = Option<Bytes>;

/// Changes over the rows of the store. Those of the request that runs can be taken back.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changes: BTreeMap<Bytes, Change>,
    /// What stood here before each change of the request that runs, the oldest first.
    before: Vec<(Bytes, Option<Change>)>,
}

impl Overlay {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Change> {
        self.changes.get(key)
    }

    pub(crate) fn range(&self, start: &[u8], end: &[u8]) -> Range<'_, Bytes, Change> {
        self.changes.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Bytes) {
        self.change(key, Some(value));
    }

    pub(crate) fn delete(&mut self, key: Bytes) {
        self.change(key, None);
    }

    fn change(&mut self, key: Bytes, value: Change) {
        let before = self.changes.insert(key.clone(), value);
        self.before.push((key, before));
    }

    /// Changes a row, and cannot take that back.
    pub(crate) fn set(&mut self, key: Bytes, value: Change) {
        self.changes.insert(key, value);
    }

    /// What was changed since the mark, as it is now.
    pub(crate) fn changed(&self) -> Vec<(Bytes, Change)> {
        let keys: BTreeSet<&Bytes> = self.before.iter().map(|(key, _)| key).collect();
        let now = |key: &Bytes| self.changes.get(key).map(|value| (key.clone(), value.clone()));
        keys.into_iter().filter_map(now).collect()
    }

    /// From here on, changes can be taken back.
    pub(crate) fn mark(&mut self) {
        self.before.clear();
    }

    /// Takes back what was changed since the mark.
    pub(crate) fn take_back(&mut self) {
        while let Some((key, before)) = self.before.pop() {
            match before {
                Some(value) => self.changes.insert(key, value),
                None => self.changes.remove(&key),
            };
        }
    }

    pub(crate) fn into_writes(self) -> Vec<(Bytes, Change)> {
        self.changes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_since_the_mark_can_be_taken_back() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut overlay = Overlay::default();
        overlay.put(bytes("a"), bytes("1"));
        overlay.delete(bytes("b"));
        overlay.mark();
        overlay.put(bytes("a"), bytes("2"));
        overlay.delete(bytes("a"));
        overlay.put(bytes("b"), bytes("3"));
        overlay.put(bytes("c"), bytes("4"));
        overlay.take_back();
        assert_eq!(overlay.into_writes(), [(bytes("a"), Some(bytes("1"))), (bytes("b"), None)]);
    }
}
