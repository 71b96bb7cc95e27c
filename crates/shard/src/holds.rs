//! Holds: what a node asks several shards for stays as it is for a moment, so that it finds all of it so when it asks again.
//!
//! Where others change what is read without locks (decision 0014) all the time, no two rounds of questions find the same. So the primaries of a further round keep
//! others from changing it: each waits its turn, as a transaction would, locks the keys to read, and answers; the round after that
//! finds nothing changed and ends the holds. Nobody relies on them: a hold ends by itself after a time, with the reign, or where there is no room for it, and then
//! the rounds differ. So nothing is logged, no other node is asked, and what waits for each other in a circle goes on after that time.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Hold, Request};
use quorate_commit::TransactionId;
use quorate_commit::locks::Want;
use quorate_kernel::{Cx, Time};
use quorate_replog::Index;

use crate::machine::{Out, Shard, Timer};
use crate::part::{Place, wants_of};
use crate::reads::Reading;

/// So many are there at once; further questions are answered without.
const HOLDS_MAX: usize = 256;
/// None lasts longer, whatever was asked.
const HOLD_MAX: Duration = Duration::from_millis(1_000);

/// One of them, at a primary.
#[derive(Debug)]
struct Holding {
    /// Its place among transactions. The origin says that it is none.
    id: TransactionId,
    wants: Vec<Want<Place>>,
    /// Since it has its locks: the newest entry that changes something without any, and the newest outcome whose locks were handed over. These are
    /// to be applied before it answers.
    after: Option<(Index, u64)>,
    until: Time,
}

/// By their names.
#[derive(Debug, Default)]
pub(crate) struct Holds(BTreeMap<u64, Holding>);

impl Holds {
    /// The locks are gone.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a read that travels alone holds.
pub(crate) fn hold_of(requests: &[Request]) -> Option<Hold> {
    match requests {
        [Request::Collect { hold, .. }] => hold.as_deref().copied(),
        _ => None,
    }
}

impl Shard {
    /// Whether a read is to wait for what it holds. One that has waited for longer than it wants to hold goes on without.
    pub(crate) fn waits_to_hold(&mut self, cx: &mut Cx<'_>, reading: &mut Reading, out: &mut Out) -> bool {
        let hold = hold_of(&reading.requests).filter(|hold| hold.ms > 0);
        let Some(Hold { name, age, ms }) = hold else { return false };
        let now = cx.now;
        if self.transactions.commit.view().is_none() {
            return false;
        }
        if !self.transactions.holds.0.contains_key(&name) {
            if reading.has_waited || self.transactions.holds.0.len() >= HOLDS_MAX {
                cx.marks.hit("shard.hold.without");
                return false;
            }
            let wants = reading.requests.iter().flat_map(wants_of).collect();
            let id = TransactionId { age, origin: 0, sequence: name };
            let holding = Holding { id, wants, after: None, until: now + lasting(ms) };
            self.transactions.holds.0.insert(name, holding);
            self.arm_holds(now, out);
        }
        let (transactions, applied) = (&mut self.transactions, self.log.applied());
        let Some(holding) = transactions.holds.0.get_mut(&name) else { return false };
        let (locks, id) = (&mut transactions.desk.locks, holding.id);
        if holding.after.is_none() && locks.hold(id, &holding.wants) {
            cx.marks.hit("shard.hold.begun");
            holding.after = Some((transactions.desk.newest_batch, transactions.desk.ahead.newest()));
        } else if holding.after.is_none() && !reading.has_waited {
            let owners = locks.pass(id, &holding.wants).err().unwrap_or_default();
            self.commit(cx, out, |commit, turn| commit.wanted_by(turn, id, &owners));
        }
        let transactions = &mut self.transactions;
        let Some(holding) = transactions.holds.0.get_mut(&name) else { return false };
        let is_ready = holding.after.is_some_and(|(after, behind)| {
            after <= applied
                && transactions.desk.ahead.is_past(behind)
                && transactions.shield.in_the_way(&holding.wants, applied).is_none()
        });
        reading.has_waited |= !is_ready;
        !is_ready
    }

    /// A read was answered: what it holds lasts from now on, or ends.
    pub(crate) fn answered_hold(&mut self, cx: &mut Cx<'_>, Hold { name, ms, .. }: Hold, out: &mut Out) {
        if ms == 0 {
            return self.end_hold(cx, name, out);
        }
        if let Some(holding) = self.transactions.holds.0.get_mut(&name) {
            holding.until = cx.now + lasting(ms);
            self.arm_holds(cx.now, out);
        }
    }

    /// Some have lasted long enough.
    pub(crate) fn end_holds(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let over = self.transactions.holds.0.iter().filter(|(_, holding)| holding.until <= cx.now);
        let over: Vec<u64> = over.map(|(name, _)| *name).collect();
        for name in over {
            cx.marks.hit("shard.hold.lapsed");
            self.end_hold(cx, name, out);
        }
        // Some wait for what they do not have.
        self.serve_reads(cx, out);
        self.arm_holds(cx.now, out);
    }

    /// Those for which an older transaction waits end: it is to go first.
    pub(crate) fn end_holds_of_younger(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for id in core::mem::take(&mut self.transactions.desk.outranked) {
            if self.transactions.holds.0.get(&id.sequence).is_some_and(|holding| holding.id == id) {
                cx.marks.hit("shard.hold.outranked");
                self.end_hold(cx, id.sequence, out);
            }
        }
    }

    fn end_hold(&mut self, cx: &mut Cx<'_>, name: u64, out: &mut Out) {
        if let Some(holding) = self.transactions.holds.0.remove(&name) {
            self.leave_place(cx, Some(holding.id), out);
        }
    }

    fn arm_holds(&self, now: Time, out: &mut Out) {
        if let Some(until) = self.transactions.holds.0.values().map(|holding| holding.until).min() {
            out.arm(Timer::Holds, until.since(now));
        }
    }
}

fn lasting(ms: u32) -> Duration {
    Duration::from_millis(ms.into()).min(HOLD_MAX)
}
