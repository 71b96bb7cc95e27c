//! Going on without a majority, because an operator says so: what the others had and nobody here has is given up.
//!
//! Nothing here decides that this is to be done, or who goes on: the parent does, and sees to it that of those who are asked
//! only one is told to go on. Two steps:
//!
//! - *Fence.* A replica takes part in nothing below some epoch any more. It is on disk before anybody is told, so what the replica says
//!   of its log after that stays true: nobody can choose anything with its help behind it.
//! - *Go on alone.* One of them, whose log reaches furthest, takes all it has for chosen, and begins the epoch of the fence with
//!   itself as the only member. Others become members as at any time, by seal and succeed.
//!
//! The new epoch is of a new *era*: its number, and the index of its first entry, are far above whatever those who are
//! given up can have reached. So their logs agree with the new one nowhere: whoever of them comes back gets its state as a
//! snapshot, or nothing. `docs/decisions/0017-recovery.md` argues it.

use quorate_kernel::{Cx, wire};
use quorate_store::Batch;

use crate::Mutant;
use crate::machine::{Out, Output, Replog, Timer};
use crate::message::{Ballot, Index};
use crate::receive::Receiving;
use crate::record::{Epoch, Member, Record, StateMeta};

/// Epochs of one era: so many member changes can a log see between two recoveries.
pub const ERA_EPOCHS: u64 = 1 << 28;
/// Entries of one era, at least.
pub const ERA_ENTRIES: Index = 1 << 40;

/// The first index of the era that `index` is in.
pub fn era_start(index: Index) -> Index {
    index & !(ERA_ENTRIES - 1)
}

/// The first epoch of the era that `epoch` is in.
pub fn era_epoch(epoch: u64) -> u64 {
    epoch & !(ERA_EPOCHS - 1)
}

/// How far a replica is that takes part in nothing more. Of two, the one whose log reaches further is greater: it has all
/// that the other knows to be chosen, as with votes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Standing {
    /// The newest ballot whose leader's log this log has caught up with.
    pub log_ballot: Ballot,
    /// Its newest entry.
    pub last: Index,
}

impl Replog {
    /// The epoch below which this replica takes part in nothing; 0: there is none.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether the log is of an epoch before the fence: it is of no use but to whoever recovers it.
    pub fn is_given_up(&self) -> bool {
        self.epoch().number < self.fence
    }

    /// Whether this replica must take no part in the epoch it is in.
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_given_up() && !self.breaks(Mutant::FenceForgotten)
    }

    /// How far the log is, for a replica that was fenced; `None` while it may not be told: somebody may believe in a lease that this
    /// replica granted, or its state is about to change.
    pub fn standing(&self, cx: &Cx<'_>) -> Option<Standing> {
        let told = self.is_given_up() && cx.now >= self.bound_until && !self.awaits_install();
        told.then_some(Standing { log_ballot: self.log_ballot, last: self.log.last() })
    }

    /// Takes part in nothing below `epoch` from now on.
    pub(crate) fn raise_fence(&mut self, cx: &mut Cx<'_>, epoch: u64, out: &mut Out) {
        if epoch <= self.fence || epoch <= self.epoch().number {
            return;
        }
        cx.marks.hit("replog.fenced");
        self.fence = epoch;
        self.forcing = None;
        out.persist(Record::Fenced(epoch));
        self.follow(cx, None, out);
        // Whoever leads, or would, is to know at once.
        let overtaken = Ballot { epoch: self.epoch().number, ..Ballot::default() };
        for voter in self.voters.iter().filter(|voter| **voter != self.me) {
            out.send(*voter, self.stale(overtaken));
        }
    }

    /// A peer speaks of this epoch: if it is of a later era, whatever goes on here in this one was given up.
    pub(crate) fn hear_of_epoch(&mut self, cx: &mut Cx<'_>, epoch: u64, out: &mut Out) {
        if era_epoch(epoch) > era_epoch(self.epoch().number) {
            // Not at the epoch itself, for which whoever recovers the log is still to ask.
            self.raise_fence(cx, era_epoch(epoch) - 1, out);
        }
    }

    /// Whether a leader of this epoch is of a later era than the log here, of which then nothing counts, however much of it was chosen: the one
    /// who went on may not have had it. Two eras may begin at one index, where the second goes on from before the first.
    pub(crate) fn is_of_earlier_era(&self, epoch: u64) -> bool {
        era_epoch(self.epoch().number) < era_epoch(epoch) && !self.breaks(Mutant::EarlierEraCounts)
    }

    /// Goes on alone, in the epoch of the fence.
    pub(crate) fn go_on_alone(&mut self, cx: &mut Cx<'_>, epoch: u64, me: Member, out: &mut Out) {
        if !self.is_given_up() || self.fence != epoch || self.forcing.is_some() || self.awaits_install() {
            return;
        }
        cx.marks.hit("replog.alone.begun");
        self.abandon_receiving(cx, out);
        self.forcing = Some(me);
        // Whatever is in the log may have been acknowledged.
        self.choose(cx, self.log.last(), out);
        self.drive_forcing(cx, out);
    }

    /// Begins the new era once the state has everything that the log has.
    pub(crate) fn drive_forcing(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.applied < self.log.last() {
            return;
        }
        let Some(member) = self.forcing.take() else { return };
        let last = self.log.last();
        let raised =
            if self.breaks(Mutant::IndexNotRaised) { last + 1 } else { era_start(last) + ERA_ENTRIES };
        let (number, start) = (self.fence, raised);
        let heir = Ballot { epoch: number, number: 0, node: Some(self.me) };
        let epoch = Epoch { number, members: alloc::vec![member], former: alloc::vec![], start, heir };
        let meta = StateMeta { applied: start, applied_ballot: heir, epoch, generation: self.generation };
        let mut batch = Batch::default();
        batch.put(self.config.rows().meta_key(), wire::encode(&meta));
        // As if the same state had come as a snapshot that ends there: until it is durable, the old log is what a crash leaves.
        let installed = Some(cx.store.apply(batch));
        cx.store.checkpoint();
        self.receiving = Some(Receiving::own(self.me, meta.clone(), installed));
        self.log.restart(start, heir);
        (self.applied, self.chosen) = (start, start);
        self.checkpoint = None;
        self.take_state_epoch(meta.epoch);
        self.adopt_epoch();
        out.output(Output::Peers);
        out.output(Output::Installed);
        self.on_install_timer(cx, out);
    }

    /// The state of the new era is durable here: nobody else is asked.
    pub(crate) fn begin_alone(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        cx.marks.hit("replog.alone.done");
        out.disarm(Timer::Install);
        if !self.is_fenced() {
            self.stand(cx, false, None, out);
        }
    }
}
