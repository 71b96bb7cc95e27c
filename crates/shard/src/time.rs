//! Logged time: when it goes on, and what holds it back.
//!
//! Keys expire by logged time, which the primary takes from its clock. What a transaction has found under its locks is kept
//! from expiring by its vote in the log; until the vote is there, by the primary, which logs no later time than that of
//! the look. A look is not earlier than anything that was logged, or is about to be.

use bytes::Bytes;
use core::time::Duration;
use quorate_commit::{Entry, LogId, Outcome, Vote};
use quorate_kernel::{Cx, wire};

use crate::Mutant;
use crate::batch::Payload;
use crate::machine::{Out, Shard, Timer};
use crate::part::Decision;

/// The times of an entry, in milliseconds since 1970; 0: none.
pub(crate) struct Times {
    /// When was found what it says.
    pub(crate) found: u64,
    /// What logged time comes to by it.
    pub(crate) brought: u64,
}

impl Times {
    /// In the log `me`.
    pub(crate) fn of(entry: &Entry, me: LogId) -> Times {
        // An export begins with its time.
        let front = |bytes: &Bytes| wire::decode_front::<u64>(bytes).map_or(0, |(now_ms, _)| now_ms);
        let decode = |decision: &Bytes| Decision::decode(decision).unwrap_or_default();
        let brought = |decision: &Decision| {
            decision.shares.values().map(|share| share.now_ms).fold(decision.now_ms, u64::max)
        };
        let (found, brought) = match entry {
            Entry::Local { vote: Vote::Yes(export), .. } => (front(export), 0),
            Entry::Global { outcome: Outcome::Committed(decision), .. } => (0, brought(&decode(decision))),
            Entry::AtOnce { outcome: Outcome::Committed(decision), .. } => {
                let decision = decode(decision);
                (decision.shares.get(&me).map_or(0, |share| share.now_ms), brought(&decision))
            }
            _ => (0, 0),
        };
        Times { found, brought }
    }
}

impl Shard {
    /// The time of the next entry: this node's clock, but not later than what votes that wait to be logged were found at, or
    /// what they found could expire before they are there.
    pub(crate) fn entry_time(&mut self, cx: &Cx<'_>) -> u64 {
        let now_ms = cx.wall.unix_ms.min(self.entry_time_max());
        self.transactions.latest_ms = self.transactions.latest_ms.max(now_ms);
        now_ms
    }

    pub(crate) fn entry_time_max(&self) -> u64 {
        let me = self.transactions.desk.me;
        let votes = self.transactions.entries.iter().map(|entry| Times::of(entry, me).found);
        let oldest = votes.filter(|found| *found > 0).min();
        oldest.filter(|_| !self.limits.breaks(Mutant::TimePassesVotes)).unwrap_or(u64::MAX)
    }

    /// Logs that time has come to `now_ms`, as far as votes that wait to be logged allow.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>, now_ms: u64, out: &mut Out) {
        let now_ms = now_ms.min(self.entry_time_max());
        self.transactions.latest_ms = self.transactions.latest_ms.max(now_ms);
        if now_ms > self.ticked_ms && self.takes_batches() {
            self.ticked_ms = now_ms;
            self.propose(cx, &Payload { now_ms, ..Payload::default() }, out);
        }
    }

    /// For a leader: wakes when the next key expires.
    pub(crate) fn arm_expiry(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        const SOONEST: Duration = Duration::from_millis(20);
        const LATEST: Duration = Duration::from_secs(60);
        if let (true, Some(next_ms)) = (self.log.leads(), self.state.next_expiry_ms) {
            let wait = Duration::from_millis(next_ms.saturating_sub(cx.wall.unix_ms));
            out.arm(Timer::Expiry, wait.clamp(SOONEST, LATEST));
        }
    }

    pub(crate) fn on_expiry(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.state.next_expiry_ms.is_some_and(|next_ms| next_ms <= cx.wall.unix_ms) {
            self.tick(cx, cx.wall.unix_ms, out);
        }
        self.arm_expiry(cx, out);
    }
}
