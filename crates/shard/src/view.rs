//! The keyspace as commands see it: the rows of the store under the changes that are being made.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use quorate_api::{Version, position_of};
use quorate_kernel::Rng;
use quorate_store::{Batch, Row, Scan, Store};
use quorate_values::{Kind, Meta, Space};

use crate::Mutant;
use crate::layout::{
    Area, HEADER_KEY_BYTES, Header, Keys, State, decode_value, encode_value, number_in, removal_key,
};
use crate::notes::Note;
use crate::overlay::Overlay;
use crate::reasons::Moved;
use crate::sessions::Limits;
use crate::shield::Shield;
use crate::sweep::Fronts;

/// Marks the version of a key whose time is over: removing it gives it the next one.
pub(crate) const VERSION_OVER: u64 = 1 << 62;

/// The key that was looked at last: most commands look at one key several times.
struct Last {
    row_key: Bytes,
    header: Option<Header>,
}

impl Last {
    fn key(&self) -> &[u8] {
        self.row_key.get(HEADER_KEY_BYTES..).unwrap_or_default()
    }
}

/// A keyspace in one instant.
pub(crate) struct View<'a> {
    store: &'a dyn Store,
    pub(crate) limits: &'a Limits,
    pub(crate) area: Area,
    pub(crate) state: State,
    pub(crate) overlay: Overlay,
    pub(crate) now_ms: u64,
    chance: Rng,
    /// The newest version before the command that runs: keys above it have been given a new one.
    version_before: u64,
    last: Option<Last>,
    /// Where row keys are cut from: thus many share one allocation, and another owner of one costs none.
    row_keys: BytesMut,
    /// A key was met that the asked-for time would have expired and logged time has not: the earliest such time.
    pub(crate) expiry_pending: Option<u64>,
    /// What must not expire.
    pub(crate) shield: Shield,
    /// Where what is to go is looked for.
    pub(crate) fronts: Fronts,
    /// Whether this is a look for a vote, which must find the same when it is carried out.
    pub(crate) looks: bool,
    /// Something is there only because another transaction has found it: for this one it may be gone by the outcome.
    pub(crate) leans: bool,
    /// Whether a key was met that expires at some time.
    pub(crate) meets_expiry: bool,
    /// Whether a collection got its number.
    pub(crate) begins_collection: bool,
    /// Why the request that ran last did nothing, if a watched key had changed.
    pub(crate) outrun: Option<Moved>,
    /// What is carried out puts these notes in the place of others.
    pub(crate) notes: Vec<Note>,
}

impl<'a> View<'a> {
    /// For applying: time is logged time.
    pub(crate) fn applying(store: &'a dyn Store, limits: &'a Limits, area: Area, state: State) -> Self {
        View {
            store,
            limits,
            area,
            now_ms: state.now_ms,
            version_before: state.versions,
            state,
            overlay: Overlay::default(),
            chance: Rng::new(0),
            last: None,
            row_keys: BytesMut::new(),
            expiry_pending: None,
            shield: Shield::default(),
            fronts: Fronts::default(),
            looks: false,
            leans: false,
            meets_expiry: false,
            begins_collection: false,
            outrun: None,
            notes: Vec::new(),
        }
    }

    /// Takes what outlives it, or gives it back.
    pub(crate) fn exchange(&mut self, shield: &mut Shield, fronts: &mut Fronts) {
        core::mem::swap(&mut self.shield, shield);
        core::mem::swap(&mut self.fronts, fronts);
    }

    /// For reading as of `now_ms`; where that is later than logged time and it matters, `expiry_pending` tells.
    pub(crate) fn reading(
        store: &'a dyn Store,
        limits: &'a Limits,
        area: Area,
        state: State,
        now_ms: u64,
        seed: u64,
    ) -> Self {
        let mut view = View::applying(store, limits, area, state);
        view.now_ms = now_ms.max(state.now_ms);
        view.chance = Rng::new(seed);
        view
    }

    /// The next entry begins, with its logged time and chance.
    pub(crate) fn begin_entry(&mut self, now_ms: u64, seed: u64) {
        self.state.now_ms = self.state.now_ms.max(now_ms);
        self.now_ms = self.state.now_ms;
        self.chance = Rng::new(seed);
        self.last = None;
    }

    /// A transaction is carried out, with the time and chance with which it was prepared.
    pub(crate) fn begin_transaction(&mut self, now_ms: u64, seed: u64) {
        self.state.now_ms = self.state.now_ms.max(now_ms);
        self.now_ms = now_ms;
        self.chance = Rng::new(seed);
        self.last = None;
    }

    /// Time has come to `now_ms` elsewhere, and what was decided there went by it.
    pub(crate) fn time_is(&mut self, now_ms: u64) {
        self.state.now_ms = self.state.now_ms.max(now_ms);
    }

    /// It is over: time is logged time again.
    pub(crate) fn end_transaction(&mut self) {
        self.now_ms = self.state.now_ms;
        self.last = None;
    }

    /// The next request begins; [`View::take_back`] returns to here.
    pub(crate) fn begin_request(&mut self) -> State {
        self.overlay.mark();
        self.state
    }

    /// The request that began with `state` changes nothing after all.
    pub(crate) fn take_back(&mut self, state: State) {
        self.overlay.take_back();
        self.state = state;
        self.last = None;
    }

    /// The next command begins.
    pub(crate) fn begin_command(&mut self) {
        self.version_before = self.state.versions;
    }

    pub(crate) fn keys_of(&self) -> Keys {
        Keys::new(self.area, self.state.keyspace)
    }

    fn row_at(&self, row_key: &[u8]) -> Option<Bytes> {
        match self.overlay.get(row_key) {
            Some(changed) => changed.clone(),
            None => self.store.get(row_key),
        }
    }

    /// The key's header and body, expired or not.
    pub(crate) fn raw(&mut self, key: &[u8]) -> Option<(Header, Bytes)> {
        let row_key = match &self.last {
            Some(last) if last.key() == key => last.row_key.clone(),
            _ => {
                const ROW_KEYS_BYTES: usize = 4 << 10;
                if self.row_keys.capacity() < HEADER_KEY_BYTES + key.len() {
                    self.row_keys.reserve(ROW_KEYS_BYTES.max(HEADER_KEY_BYTES + key.len()));
                }
                self.keys_of().write_header(position_of(key), key, &mut self.row_keys);
                self.row_keys.split().freeze()
            }
        };
        let value = self.row_at(&row_key).map(decode_value);
        self.last = Some(Last { row_key, header: value.as_ref().map(|(header, _)| *header) });
        value
    }

    /// The key's header, expired or not.
    fn header(&mut self, key: &[u8]) -> Option<Header> {
        match &self.last {
            Some(last) if last.key() == key => last.header,
            _ => self.raw(key).map(|(header, _)| header),
        }
    }

    /// Writes the key's row, or deletes it.
    fn put_row(&mut self, key: &[u8], row: Option<(Header, &[u8])>) {
        if self.last.as_ref().is_none_or(|last| last.key() != key) {
            self.raw(key);
        }
        let Some(last) = &mut self.last else { panic!("what was just read is known") };
        last.header = row.map(|(header, _)| header);
        match row {
            Some((header, body)) => self.overlay.put(last.row_key.clone(), encode_value(&header, body)),
            None => self.overlay.delete(last.row_key.clone()),
        }
    }

    /// Whether a key counts: it exists, or has expired and is not yet removed.
    pub(crate) fn has_row(&mut self, key: &[u8]) -> bool {
        self.header(key).is_some()
    }

    fn live(&mut self, key: &[u8]) -> Option<(Header, Bytes)> {
        let (header, body) = self.raw(key)?;
        if !self.is_live(key, &header) {
            return None;
        }
        Some((header, body))
    }

    pub(crate) fn is_live(&mut self, key: &[u8], header: &Header) -> bool {
        self.meets_expiry |= header.expire_ms.is_some();
        let Some(expire_ms) = header.expire_ms.filter(|expire_ms| *expire_ms <= self.now_ms) else {
            return true;
        };
        if self.is_kept(key, expire_ms) {
            self.leans = true;
            return true;
        }
        if expire_ms > self.state.now_ms || self.looks {
            self.expires_first(expire_ms);
        }
        false
    }

    fn next_version(&mut self) -> u64 {
        self.state.versions += 1;
        self.state.versions
    }

    /// Gives a key whose elements change its new version, once a command.
    fn touch(&mut self, key: &[u8]) -> Header {
        let missing = "rows of a key that does not exist";
        let Some(header) = self.header(key) else { panic!("{missing}") };
        if header.version > self.version_before {
            return header;
        }
        let Some((header, body)) = self.raw(key) else { panic!("{missing}") };
        let header = Header { version: self.next_version(), ..header };
        self.put_row(key, Some((header, &body)));
        header
    }

    /// The key's version, for WATCH.
    pub(crate) fn version(&mut self, key: &[u8]) -> Version {
        if let Some((header, _)) = self.raw(key) {
            // What is past its time and not removed yet is neither what was there nor, again, what was there before.
            let over = if self.is_live(key, &header) { 0 } else { VERSION_OVER };
            return Version(header.version | over);
        }
        let removed = self.row_at(&removal_key(self.area, position_of(key)));
        let removed = removed.and_then(|row| row.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)));
        Version(removed.unwrap_or(0).max(self.state.cleared))
    }

    /// Rows from `start` to `end` as they are under the changes.
    pub(crate) fn merged(&self, start: &[u8], end: &[u8], reverse: bool, rows_max: usize) -> Vec<Row> {
        if start >= end || rows_max == 0 {
            return Vec::new();
        }
        let changed = || self.overlay.range(start, end);
        let count = changed().count();
        let mut scan = Scan::range(start, Some(end)).rows(rows_max.saturating_add(count));
        scan.reverse = reverse;
        let rows = self.store.scan(scan);
        if count == 0 {
            return rows;
        }
        // The store gave enough rows to make up for every one that is changed, so the first `rows_max` are right.
        let mut merged: BTreeMap<Bytes, Bytes> = rows.into_iter().collect();
        for (key, value) in changed() {
            match value {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
        if reverse {
            merged.into_iter().rev().take(rows_max).collect()
        } else {
            merged.into_iter().take(rows_max).collect()
        }
    }

    pub(crate) fn remove_raw(&mut self, key: &[u8]) -> Option<Header> {
        let header = self.header(key)?;
        let keys = self.keys_of();
        self.put_row(key, None);
        if let Some(expire_ms) = header.expire_ms {
            if !self.limits.breaks(Mutant::ExpiryRowLeft) {
                self.overlay.delete(Bytes::from(keys.expiry(expire_ms, key)));
            }
            self.state.expiring -= 1;
        }
        if header.collection != 0 {
            self.put_dead(&header);
        }
        let removal = self.next_version().to_be_bytes();
        let removal_key = removal_key(self.area, position_of(key));
        self.overlay.put(removal_key, Bytes::copy_from_slice(&removal));
        self.state.keys -= 1;
        Some(header)
    }

    /// The changes as a batch.
    pub(crate) fn into_batch(self) -> (State, Batch) {
        (self.state, Batch { writes: self.overlay.into_writes() })
    }
}

impl Space for View<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn random(&mut self) -> u64 {
        self.chance.next_u64()
    }

    fn get(&mut self, key: &[u8]) -> Option<Meta> {
        let (header, body) = self.live(key)?;
        Some(Meta { kind: header.kind, expire_ms: header.expire_ms, body })
    }

    fn set(&mut self, key: &[u8], meta: Meta) {
        let old = self.header(key);
        let old = match old {
            // What expired unseen is removed for good before its name is used again.
            Some(header) if !self.is_live(key, &header) => {
                self.remove_raw(key);
                None
            }
            other => other,
        };
        let mut version = self.next_version();
        if self.limits.breaks(Mutant::VersionKept) {
            version = old.map_or(version, |old| old.version);
        }
        let collection = match (old, meta.kind) {
            (_, Kind::String) => 0,
            (Some(old), Kind::List) if old.kind == Kind::List => old.collection,
            (_, Kind::List) => {
                self.begins_collection = true;
                version
            }
        };
        let keys = self.keys_of();
        let old_expire_ms = old.and_then(|old| old.expire_ms);
        if old_expire_ms != meta.expire_ms {
            if let Some(expire_ms) = old_expire_ms {
                self.overlay.delete(Bytes::from(keys.expiry(expire_ms, key)));
                self.state.expiring -= 1;
            }
            if let Some(expire_ms) = meta.expire_ms {
                self.put_expiry(expire_ms, key);
            }
        }
        if old.is_none() {
            self.state.keys += 1;
        }
        if old.is_none() && self.limits.breaks(Mutant::VersionsRestart) {
            version = 1;
        }
        let header = Header { version, kind: meta.kind, expire_ms: meta.expire_ms, collection };
        self.put_row(key, Some((header, &meta.body)));
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some(header) = self.header(key) else { return false };
        let live = self.is_live(key, &header);
        self.remove_raw(key);
        live
    }

    fn row(&mut self, key: &[u8], row: &[u8]) -> Option<Bytes> {
        let header = self.header(key)?;
        self.row_at(&self.keys_of().element(header.collection, row))
    }

    fn set_row(&mut self, key: &[u8], row: &[u8], value: Bytes) {
        let header = self.touch(key);
        self.overlay.put(Bytes::from(self.keys_of().element(header.collection, row)), value);
    }

    fn remove_row(&mut self, key: &[u8], row: &[u8]) {
        let header = self.touch(key);
        self.overlay.delete(Bytes::from(self.keys_of().element(header.collection, row)));
    }

    fn rows(
        &mut self,
        key: &[u8],
        start: &[u8],
        end: Option<&[u8]>,
        reverse: bool,
        rows_max: usize,
    ) -> Vec<(Bytes, Bytes)> {
        let Some(header) = self.header(key) else { return Vec::new() };
        let keys = self.keys_of();
        let first = keys.element(header.collection, start);
        let behind = match end {
            Some(end) => keys.element(header.collection, end),
            None => keys.element(header.collection + 1, &[]),
        };
        let rows = self.merged(&first, &behind, reverse, rows_max);
        rows.into_iter().map(|(row_key, value)| (row_key.slice(HEADER_KEY_BYTES..), value)).collect()
    }

    fn keys(&mut self, from: u64, keys_max: usize) -> (Vec<(Bytes, Kind)>, Option<u64>) {
        let keys = self.keys_of();
        let end = keys.headers_end();
        let mut start = keys.header(from, &[]);
        let mut found: Vec<(Bytes, Kind)> = Vec::new();
        let mut newest = None;
        loop {
            let rows = self.merged(&start, &end, false, keys_max.clamp(1, 256));
            let Some((last, _)) = rows.last() else {
                // Whoever goes through all keys goes on where the next shard's begin.
                return (found, self.limits.ring_end.filter(|end| from < *end));
            };
            start = [last, &[0][..]].concat();
            for (row_key, value) in rows {
                let position = number_in(&row_key);
                if found.len() >= keys_max && newest != Some(position) {
                    return (found, Some(position));
                }
                newest = Some(position);
                let (header, _) = decode_value(value);
                let key = row_key.slice(HEADER_KEY_BYTES..);
                if self.is_live(&key, &header) {
                    found.push((key, header.kind));
                }
            }
        }
    }

    fn key_count(&mut self) -> u64 {
        if self.looks {
            self.await_expiry();
        }
        self.state.keys
    }

    fn clear(&mut self) {
        self.state.keyspace += 1;
        self.state.cleared = self.next_version();
        self.state.keys = 0;
        self.state.expiring = 0;
        self.state.dead_collections = 0;
        self.state.next_expiry_ms = None;
        self.last = None;
    }
}
