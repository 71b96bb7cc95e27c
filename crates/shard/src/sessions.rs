//! The sessions of a shard: in memory, and as rows beside the values.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::{Cx, wire};
use quorate_replog::Index;
use quorate_replog::session::Session;
use quorate_store::Scan;

use crate::layout::{Area, number_in, session_key, sessions_range};
use crate::overlay::Overlay;

/// Bounds of a shard. Which sessions are forgotten is part of what the log means: the same on all members, for as long
/// as the log lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// So many sessions are remembered; the one unused for longest goes first.
    pub sessions_max: usize,
    /// But none that was used by one of so many newest entries. An origin that was cut off for longer than these took
    /// to be written is told that its requests may or may not have happened.
    pub unused_entries_min: Index,
    /// Entries applied in one step at most: a long backlog must not stop heartbeats. Of no consequence for the state,
    /// so it may differ between members.
    pub apply_entries_max: usize,
    /// Bytes of the batches that go into one entry together, unless a single one is longer.
    pub entry_bytes_max: usize,
    /// Bytes of one reply at most; a request with a longer one is refused and changes nothing. It must fit into a
    /// message between nodes.
    pub reply_bytes_max: usize,
    /// Bytes of replies to reads given together, unless a single one is longer. Of no consequence for the state.
    pub replies_bytes_max: usize,
    /// Transactions over several shards.
    pub commit: quorate_commit::Config,
    /// An origin of transactions that has asked for nothing for so long is settled when there are too many: should it
    /// still live, it begins anew. Longer than a request may be under way.
    pub origin_idle: Duration,
    /// The ring position behind the last that is this shard's, whose first is the next shard's; `None`: it ends with the
    /// ring.
    pub ring_end: Option<u64>,
    /// Keys that transactions hold or wait for at the primary; above it new ones are refused as busy.
    pub locked_keys_max: usize,
    /// Which rule is broken, for the simulator to notice.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl Limits {
    /// For servers.
    pub fn production() -> Self {
        Limits {
            sessions_max: 4_096,
            unused_entries_min: 100_000,
            apply_entries_max: 64,
            entry_bytes_max: 1 << 20,
            // The longest string there can be, and a little for what is around it.
            reply_bytes_max: (32 << 20) + (64 << 10),
            replies_bytes_max: 4 << 20,
            commit: quorate_commit::Config {
                // Below a node's deadline, so that clients learn that nothing happened.
                patience: Some(Duration::from_secs(3)),
                // What one transaction may move from shard to shard. It is logged with the vote and again with the
                // decision, at each shard, and kept until its origin has the outcome.
                payload_bytes_max: 4 << 20,
                ..quorate_commit::Config::production()
            },
            origin_idle: Duration::from_secs(60),
            ring_end: None,
            locked_keys_max: 1 << 20,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// So small that a simulation meets both.
    pub fn tiny() -> Self {
        Limits {
            sessions_max: 2,
            unused_entries_min: 150,
            apply_entries_max: 3,
            entry_bytes_max: 300,
            reply_bytes_max: 32 << 20,
            replies_bytes_max: 100,
            commit: quorate_commit::Config::tiny(),
            origin_idle: Duration::from_millis(500),
            ring_end: None,
            locked_keys_max: 20,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Whether a session that began after entry `since` and is not known at entry `index` has certainly never been:
    /// had it been, it could not have been forgotten yet.
    pub(crate) fn is_new(&self, since: Index, index: Index) -> bool {
        index <= since.saturating_add(self.unused_entries_min)
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: crate::Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn breaks(&self, _: crate::Mutant) -> bool {
        false
    }
}

/// All sessions, and which of them have changed since they were last written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    table: BTreeMap<u64, Session>,
    changed: BTreeSet<u64>,
    /// Sessions that ended when the log went on without its newest entries: their rows are still there.
    ended: Vec<u64>,
}

impl Sessions {
    /// Those in the store. Sessions that were not used since entry `floor`, where the log went on without its newest entries, have
    /// ended: their origins count from numbers that it may know nothing of.
    pub(crate) fn load(cx: &mut Cx<'_>, area: Area, floor: Index) -> Self {
        let (start, end) = sessions_range(area);
        let rows = cx.store.scan(Scan::range(&start, Some(&end)));
        let sessions = rows.into_iter().map(|(key, value)| match wire::decode::<Session>(&value) {
            Ok(session) => (number_in(&key), session),
            Err(error) => panic!("the row of a session: {error}"),
        });
        let (table, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            sessions.partition(|(_, session)| session.used() >= floor);
        Sessions { table, changed: BTreeSet::new(), ended: ended.into_keys().collect() }
    }

    /// Removes the rows of those that have ended. Called before anything else is applied: all replicas do it with the same entry.
    pub(crate) fn bury_ended(&mut self, area: Area, overlay: &mut Overlay) {
        for number in core::mem::take(&mut self.ended) {
            overlay.delete(session_key(area, number));
        }
    }

    pub(crate) fn get(&self, session: u64) -> Option<&Session> {
        self.table.get(&session)
    }

    /// The session, which from now on counts as changed; created if `create`.
    pub(crate) fn change(&mut self, session: u64, create: bool) -> Option<&mut Session> {
        if create && !self.table.contains_key(&session) {
            self.table.insert(session, Session::default());
        }
        let found = self.table.get_mut(&session)?;
        self.changed.insert(session);
        Some(found)
    }

    /// Forgets the oldest sessions if there are too many. Called after every entry: how many entries are applied in one
    /// step differs between replicas, and what a session is told must not. `appended`: what a leader knows of sessions in
    /// its log; whoever asks again in one that is forgotten must hear that it is lost, and not wait for an answer.
    pub(crate) fn forget_oldest(
        &mut self,
        (area, index): (Area, Index),
        limits: &Limits,
        overlay: &mut Overlay,
        appended: &mut BTreeMap<u64, u64>,
    ) {
        while self.table.len() > limits.sessions_max {
            let oldest = self.table.iter().min_by_key(|(_, session)| session.used());
            let Some((number, used)) = oldest.map(|(number, session)| (*number, session.used())) else {
                break;
            };
            if used + limits.unused_entries_min > index {
                break;
            }
            self.table.remove(&number);
            self.changed.remove(&number);
            appended.remove(&number);
            overlay.delete(session_key(area, number));
        }
    }

    /// Adds the rows of what has changed to `overlay`.
    pub(crate) fn write(&mut self, area: Area, overlay: &mut Overlay) {
        for number in core::mem::take(&mut self.changed) {
            if let Some(session) = self.table.get(&number) {
                overlay.put(session_key(area, number), Bytes::from(wire::encode(session)));
            }
        }
    }
}
