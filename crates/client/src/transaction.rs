//! Transactions: reads that remember versions, and writes that happen together or not at all.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::client::{Change, Read};
use crate::{Client, Outcome};

/// A transaction that has not ended. What it reads is what has been committed, or what it has itself written; nothing that it writes is
/// seen by others before [`Transaction::commit`]. Dropped, it is as if it had never been.
///
/// Until it commits, two keys may have been read at different times. A commit that is done says that all that was read still stood,
/// so that reads and writes are as if at one instant; whoever only reads and needs that commits as well.
#[derive(Debug)]
pub struct Transaction<'a> {
    client: &'a mut Client,
    reads: BTreeMap<Vec<u8>, Read>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(client: &'a mut Client) -> Self {
        Transaction { client, reads: BTreeMap::new(), writes: BTreeMap::new() }
    }

    /// The value of a key, `None` if there is none. The same key is read once; what was written here is read back. The end is never
    /// unknown.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Outcome<Option<Bytes>> {
        let key = key.as_ref();
        if let Some(written) = self.writes.get(key) {
            return Outcome::Done(written.as_deref().map(Bytes::copy_from_slice));
        }
        if let Some(read) = self.reads.get(key) {
            return Outcome::Done(read.value.clone());
        }
        self.client.read_version(key).map(|read| {
            let value = read.value.clone();
            self.reads.insert(key.to_vec(), read);
            value
        })
    }

    /// The values of several keys in their order, as [`Transaction::get`] brings each, with one question to one node about all that
    /// were not read yet. What holds no string counts as none.
    pub fn get_all<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Outcome<Vec<Option<Bytes>>> {
        let is_new = |key: &&[u8]| !self.writes.contains_key(*key) && !self.reads.contains_key(*key);
        let new: BTreeSet<&[u8]> = keys.iter().map(AsRef::as_ref).filter(is_new).collect();
        let new: Vec<&[u8]> = new.into_iter().collect();
        self.client.read_versions(&new).map(|reads| {
            self.reads.extend(new.iter().map(|key| key.to_vec()).zip(reads));
            keys.iter().map(|key| self.known(key.as_ref())).collect()
        })
    }

    /// What was written to a key here, or read from it.
    fn known(&self, key: &[u8]) -> Option<Bytes> {
        match self.writes.get(key) {
            Some(written) => written.as_deref().map(Bytes::copy_from_slice),
            None => self.reads.get(key).and_then(|read| read.value.clone()),
        }
    }

    /// Sets a key to a value, when it commits.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.writes.insert(key.as_ref().to_vec(), Some(value.as_ref().to_vec()));
    }

    /// Removes a key, when it commits.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.writes.insert(key.as_ref().to_vec(), None);
    }

    /// Writes everything, if everything that was read still has the version it had; otherwise nothing, which is
    /// [`Refusal::Conflict`](crate::Refusal::Conflict).
    pub fn commit(self) -> Outcome<()> {
        // One read is of one instant.
        if self.writes.is_empty() && self.reads.len() <= 1 {
            return Outcome::Done(());
        }
        let watched = self.reads.iter().map(|(key, read)| (&key[..], read.version)).collect();
        let commands = self.writes.iter().map(|(key, value)| match value {
            Some(value) => vec![&b"SET"[..], key, value],
            None => vec![&b"DEL"[..], key],
        });
        let change = Change { watched, commands: commands.collect() };
        self.client.change(&change).map(|_| ())
    }

    /// Ends it: nothing happens.
    pub fn abort(self) {}
}
