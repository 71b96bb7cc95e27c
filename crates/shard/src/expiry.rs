//! Keys whose time is over: when they go, and what waits for that.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::Mutant;
use crate::layout::{HEADER_KEY_BYTES, number_in};
use crate::view::View;

/// Expired keys removed with each entry. More wait for the next one; they do not exist meanwhile.
const EXPIRE_KEYS: usize = 64;

impl View<'_> {
    /// Removes keys that have expired by logged time, some of them if they are many.
    pub(crate) fn expire_due(&mut self) {
        let now_ms = self.state.now_ms;
        if self.state.next_expiry_ms.is_none_or(|next_ms| next_ms > now_ms) {
            return;
        }
        let mut kept = false;
        for row_key in self.first_expiries(EXPIRE_KEYS) {
            let (expire_ms, key) = (number_in(&row_key), row_key.slice(HEADER_KEY_BYTES..));
            if expire_ms > now_ms {
                break;
            }
            if self.is_kept(&key, expire_ms) {
                kept = true;
                continue;
            }
            self.remove_raw(&key);
            if !kept {
                self.fronts.expiries.pass(&row_key);
            }
        }
        self.state.next_expiry_ms = self.first_expiries(1).first().map(|row_key| number_in(row_key));
    }

    /// The first keys that expire, in the order of their times.
    fn first_expiries(&self, keys_max: usize) -> Vec<Bytes> {
        let keys = self.keys_of();
        let rows =
            self.first_rows(&self.fronts.expiries, keys.expiry(0, &[]), &keys.expiries_end(), keys_max);
        rows.into_iter().map(|(row_key, _)| row_key).collect()
    }

    /// A key gets a time at which it expires.
    pub(crate) fn put_expiry(&mut self, expire_ms: u64, key: &[u8]) {
        let row_key = self.keys_of().expiry(expire_ms, key);
        if !self.limits.breaks(Mutant::FrontsStay) {
            self.fronts.expiries.begin(&row_key);
        }
        self.overlay.put(Bytes::from(row_key), Bytes::new());
        self.state.expiring += 1;
        let next_ms = self.state.next_expiry_ms.unwrap_or(expire_ms);
        self.state.next_expiry_ms = Some(next_ms.min(expire_ms));
    }

    /// Keys count until they are removed: for a vote, those past their time must be first.
    pub(crate) fn await_expiry(&mut self) {
        let Some(next_ms) = self.state.next_expiry_ms else { return };
        let keys = self.keys_of();
        let end = keys.expiry(self.now_ms.saturating_add(1), &[]);
        let due = self.merged(&keys.expiry(next_ms, &[]), &end, false, 1);
        if let Some((row_key, _)) = due.first() {
            let (expire_ms, key) = (number_in(row_key), row_key.slice(HEADER_KEY_BYTES..));
            if self.is_kept(&key, expire_ms) {
                self.leans = true;
            } else {
                self.expires_first(expire_ms);
            }
        }
    }

    /// The log must say first that this time has come.
    pub(crate) fn expires_first(&mut self, expire_ms: u64) {
        let earliest = self.expiry_pending.map_or(expire_ms, |other| other.min(expire_ms));
        self.expiry_pending = Some(earliest);
    }

    /// Whether a transaction that found the key waits for its outcome.
    pub(crate) fn is_kept(&self, key: &[u8], expire_ms: u64) -> bool {
        !self.limits.breaks(Mutant::ExpiryPassesTransactions) && self.shield.keeps(key, expire_ms)
    }
}
