//! Notes of the node's: small values that change only by agreement in the shard's log, and stand beside its keys.
//!
//! A note replaces the one it was built on, and no other: whoever proposes does not know what is in the log already.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::{Cx, wire};
use quorate_store::Scan;
use serde::{Deserialize, Serialize};

use crate::batch::Payload;
use crate::layout::{Area, note_key, notes_range};
use crate::machine::{Out, Shard};
use crate::overlay::Overlay;
use crate::view::View;

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Which.
    pub name: u8,
    /// The number of the note that it replaces; 0: there is none.
    pub on: u64,
    /// Its own number, higher.
    pub number: u64,
    /// What it says.
    pub content: Bytes,
}

impl Note {
    /// Whether it replaces the one it was built on; otherwise that is only compared, and stays.
    pub(crate) fn changes(&self) -> bool {
        self.number != self.on
    }
}

/// The notes of a shard, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(BTreeMap<u8, Note>);

impl Notes {
    pub(crate) fn load(cx: &Cx<'_>, area: Area) -> Self {
        let (start, end) = notes_range(area);
        let rows = cx.store.scan(Scan::range(&start, Some(&end)));
        let note = |value: &[u8]| match wire::decode::<Note>(value) {
            Ok(note) => (note.name, note),
            Err(error) => panic!("a row of a note: {error}"),
        };
        Notes(rows.iter().map(|(_, value)| note(value)).collect())
    }

    pub(crate) fn get(&self, name: u8) -> Option<&Note> {
        self.0.get(&name)
    }

    /// Whether all of these are built on what is there.
    pub(crate) fn fit(&self, notes: &[Note]) -> bool {
        let is_newer = |note: &Note| !note.changes() || note.number > note.on;
        notes.iter().all(|note| self.number(note.name) == note.on && is_newer(note))
    }

    fn number(&self, name: u8) -> u64 {
        self.0.get(&name).map_or(0, |note| note.number)
    }

    /// Replaces notes, on every replica alike; whether any was replaced.
    pub(crate) fn apply_all(&mut self, area: Area, notes: &[Note], overlay: &mut Overlay) -> bool {
        notes.iter().filter(|note| self.apply(area, note, overlay)).count() > 0
    }

    fn apply(&mut self, area: Area, note: &Note, overlay: &mut Overlay) -> bool {
        let on = self.number(note.name);
        let fits = on == note.on && note.number > on;
        if fits {
            overlay.put(note_key(area, note.name), Bytes::from(wire::encode(note)));
            self.0.insert(note.name, note.clone());
        }
        fits
    }
}

impl Shard {
    /// Replaces the notes that what was carried out replaces; whether there were any.
    pub(crate) fn replace_notes(&mut self, view: &mut View<'_>) -> bool {
        let notes = core::mem::take(&mut view.notes);
        self.notes.apply_all(self.log.data_prefix(), &notes, &mut view.overlay)
    }

    /// Puts notes into the log. Only while batches are taken; otherwise they are dropped, which is marked.
    pub(crate) fn propose_notes(&mut self, cx: &mut Cx<'_>, notes: Vec<Note>, out: &mut Out) {
        if !self.takes_batches() {
            return cx.marks.hit("shard.note.dropped");
        }
        let payload = Payload { now_ms: self.entry_time(cx), notes, ..Payload::default() };
        self.propose(cx, &payload, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Part;

    fn note(on: u64, number: u64) -> Note {
        Note { name: 1, on, number, content: Bytes::from_static(b"c") }
    }

    #[test]
    fn a_note_replaces_what_it_was_built_on_and_nothing_else() {
        let (area, mut overlay, mut notes) = ([0; 5], Overlay::default(), Notes::default());
        assert!(!notes.apply(area, &note(1, 2), &mut overlay), "there is none");
        assert!(notes.apply(area, &note(0, 1), &mut overlay));
        assert!(!notes.apply(area, &note(0, 2), &mut overlay), "it was built on none");
        assert!(!notes.apply(area, &note(1, 1), &mut overlay), "it is no newer");
        assert!(notes.apply_all(area, &[note(1, 3), note(1, 4)], &mut overlay));
        assert_eq!(notes.get(1), Some(&note(1, 3)), "the first of two that build on the same");
        assert_eq!(notes.get(0), None);
    }

    #[test]
    fn what_a_transaction_builds_on_is_compared() {
        let (mut overlay, mut notes) = (Overlay::default(), Notes::default());
        assert!(notes.fit(&[]) && notes.fit(&[note(0, 1)]) && !notes.fit(&[note(1, 2)]));
        assert!(notes.apply([0; 5], &note(0, 3), &mut overlay));
        assert!(notes.fit(&[note(3, 4)]) && notes.fit(&[note(3, 3)]), "replaced, and only compared");
        assert!(!notes.fit(&[note(3, 2)]), "it would be no newer");
        assert!(!notes.fit(&[note(3, 4), Note { name: 2, ..note(3, 4) }]), "all of them");
    }

    #[test]
    fn notes_stand_behind_all_else_in_a_part() {
        let plain = Part { versions: alloc::vec![(1, Bytes::from_static(b"k"))], ..Part::default() };
        let noted = Part { notes: alloc::vec![note(1, 2)], ..plain.clone() };
        assert!(noted.encode().starts_with(&plain.encode()), "a part without notes is as it was");
        for part in [plain, noted] {
            assert_eq!(Part::decode(&part.encode()), Ok(part));
        }
    }

    #[test]
    fn notes_stand_behind_all_else_in_an_entry() {
        let plain = Payload { now_ms: 5, ..Payload::default() };
        let noted = Payload { notes: alloc::vec![note(1, 2)], ..plain.clone() };
        for payload in [plain.clone(), noted.clone()] {
            assert_eq!(Payload::decode(&payload.encode()), Ok(payload));
        }
        assert!(noted.encode().starts_with(&plain.encode()), "an entry without notes is as it was");
    }
}
