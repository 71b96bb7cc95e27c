//! Holds: what a node asks several shards for stays as it is for a moment, so that it finds all of it so when it asks again.
//!
//! Where others change what is read without locks (decision 0014) all the time, no two rounds of questions find the same. So the primaries of a further round keep
//! others from changing it: each waits its turn, as a transaction would, locks the keys to read, and answers; the round after that
//! finds nothing changed and ends the holds. Nobody relies on them: a hold ends by itself after a time, with the reign, or where there is no room for it, and then
//! the rounds differ. So nothing is logged, no other node is asked, and what waits for each other in a circle goes on after that time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Hold, Request};
use quorate_commit::TransactionId;
use quorate_commit::locks::Want;
use quorate_kernel::{Cx, Marks, Time};
use quorate_replog::Index;

use crate::machine::{Out, Shard, Timer};
use crate::part::{Place, wants_of};
use crate::reads::Reading;

/// So many are there at once; further questions are answered without.
pub(crate) const HOLDS_MAX: usize = 256;
/// None lasts longer, whatever was asked.
const HOLD_MAX: Duration = Duration::from_millis(1_000);

/// One of them, at a primary.
#[derive(Debug)]
struct Holding {
    /// Its place among transactions. The origin says that it is none.
    id: TransactionId,
    wants: Vec<Want<Place>>,
    /// Who had some of what it wants when it was looked at last. They were asked to give way, if they are younger.
    behind: Vec<TransactionId>,
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

/// What a question holds, or holds no longer.
pub(crate) fn hold_of(request: &Request) -> Option<Hold> {
    match request {
        Request::Collect { hold, .. } => hold.as_deref().copied(),
        _ => None,
    }
}

impl Shard {
    /// Whether a read is to wait for what it holds. One that has waited for longer than it wants to hold goes on without, and so does one among others.
    pub(crate) fn waits_to_hold(&mut self, cx: &mut Cx<'_>, reading: &mut Reading, out: &mut Out) -> bool {
        let [request] = &reading.requests[..] else { return false };
        let hold = hold_of(request).filter(|hold| hold.ms > 0);
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
            let wants = wants_of(request);
            let id = TransactionId { age, origin: 0, sequence: name };
            let holding = Holding { id, wants, behind: Vec::new(), after: None, until: now + lasting(ms) };
            self.transactions.holds.0.insert(name, holding);
            self.arm_holds(now, out);
        }
        // Some give way at once. Then those are asked who were behind them; each time there are fewer who are younger.
        while let Some((id, owners)) = self.try_hold(cx, name) {
            self.commit(cx, out, |commit, turn| commit.wanted_by(turn, id, &owners));
        }
        let (transactions, applied) = (&self.transactions, self.log.applied());
        let Some(holding) = transactions.holds.0.get(&name) else { return false };
        let is_ready = holding.after.is_some_and(|(after, behind)| {
            after <= applied
                && transactions.desk.ahead.is_past(behind)
                && transactions.shield.in_the_way(&holding.wants, applied).is_none()
        });
        reading.has_waited |= !is_ready;
        !is_ready
    }

    /// Locks what is to be held, if nobody is in the way. If others are than before: who.
    fn try_hold(&mut self, cx: &mut Cx<'_>, name: u64) -> Option<(TransactionId, Vec<TransactionId>)> {
        let desk = &mut self.transactions.desk;
        let holding = self.transactions.holds.0.get_mut(&name).filter(|holding| holding.after.is_none())?;
        if desk.locks.hold(holding.id, &holding.wants) {
            cx.marks.hit("shard.hold.begun");
            holding.after = Some((desk.newest_batch, desk.ahead.newest()));
            return None;
        }
        let owners = desk.locks.pass(holding.id, &holding.wants).err().unwrap_or_default();
        if owners == holding.behind {
            return None;
        }
        holding.behind.clone_from(&owners);
        Some((holding.id, owners))
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

    /// Those for which an older transaction waits end: it is to go first. Whom that wakes, oldest first.
    pub(crate) fn end_holds_of_younger(&mut self, marks: &mut Marks) -> Vec<TransactionId> {
        let desk = &mut self.transactions.desk;
        let mut woken = BTreeSet::new();
        for id in core::mem::take(&mut desk.outranked) {
            let holds = &mut self.transactions.holds.0;
            if holds.get(&id.sequence).is_some_and(|holding| holding.id == id) {
                marks.hit("shard.hold.outranked");
                holds.remove(&id.sequence);
                desk.released = true;
                woken.extend(desk.locks.release(id));
            }
        }
        woken.into_iter().collect()
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
