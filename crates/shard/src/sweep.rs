//! What nobody can see any more is removed bit by bit, each time from where it ended before: a store goes slowly over rows that are gone.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_store::Row;

use crate::Mutant;
use crate::layout::{Header, Keys, number_in};
use crate::view::View;

/// Rows of dead collections and keyspaces removed with each entry.
const SWEEP_ROWS: usize = 32;

/// A key before which there is no row of some kind: where to look for the first one. Each replica has its own, and they only save time.
#[derive(Debug, Default)]
pub(crate) struct Front(Bytes);

impl Front {
    /// Where to begin, of all that there may be from `start` on.
    fn after(&self, start: Vec<u8>) -> Bytes {
        if self.0[..] > start[..] { self.0.clone() } else { Bytes::from(start) }
    }

    /// There is nothing up to this row any more.
    pub(crate) fn pass(&mut self, row_key: &Bytes) {
        self.0 = Bytes::from([row_key, &[0][..]].concat());
    }

    /// A row like this is there again.
    pub(crate) fn begin(&mut self, row_key: &[u8]) {
        if self.0[..] > *row_key {
            self.0 = Bytes::copy_from_slice(row_key);
        }
    }
}

/// Where what is to go is looked for.
#[derive(Debug, Default)]
pub(crate) struct Fronts {
    keyspaces: Front,
    elements: Front,
    dead: Front,
    pub(crate) expiries: Front,
}

impl View<'_> {
    /// The first rows of some kind, in `start..end`.
    pub(crate) fn first_rows(&self, front: &Front, start: Vec<u8>, end: &[u8], rows_max: usize) -> Vec<Row> {
        self.merged(&front.after(start), end, false, rows_max)
    }

    /// The elements of this key are to be removed.
    pub(crate) fn put_dead(&mut self, header: &Header) {
        let keys = self.keys_of();
        let row_key = keys.dead(header.collection);
        if !self.limits.breaks(Mutant::FrontsStay) {
            self.fronts.dead.begin(&row_key);
            self.fronts.elements.begin(&keys.element(header.collection, &[]));
        }
        self.overlay.put(Bytes::from(row_key), Bytes::new());
        self.state.dead_collections += 1;
    }

    /// Removes some of what nobody can see any more.
    pub(crate) fn sweep(&mut self) {
        if self.state.keyspace_oldest < self.state.keyspace {
            self.sweep_keyspaces();
        } else if self.state.dead_collections > 0 {
            self.sweep_collections();
        }
    }

    fn sweep_keyspaces(&mut self) {
        let start = Keys::new(self.area, self.state.keyspace_oldest).keyspace_start();
        let end = self.keys_of().keyspace_start();
        let rows = self.first_rows(&self.fronts.keyspaces, start, &end, SWEEP_ROWS);
        if rows.len() < SWEEP_ROWS {
            self.state.keyspace_oldest = self.state.keyspace;
        }
        for (row_key, _) in rows {
            self.fronts.keyspaces.pass(&row_key);
            self.overlay.delete(row_key);
        }
    }

    fn sweep_collections(&mut self) {
        let keys = self.keys_of();
        let dead = self.first_rows(&self.fronts.dead, keys.dead(0), &keys.dead_end(), 1);
        let Some((dead_key, _)) = dead.into_iter().next() else { return };
        let collection = number_in(&dead_key);
        let (start, end) = (keys.element(collection, &[]), keys.element(collection + 1, &[]));
        let rows = self.first_rows(&self.fronts.elements, start, &end, SWEEP_ROWS);
        if rows.len() < SWEEP_ROWS {
            self.fronts.dead.pass(&dead_key);
            self.overlay.delete(dead_key);
            self.state.dead_collections -= 1;
        }
        for (row_key, _) in rows {
            self.fronts.elements.pass(&row_key);
            self.overlay.delete(row_key);
        }
    }
}
