//! Taking over the state from a leader, part by part.
//!
//! The rows go into an area of their own. Only when all are there does one batch turn the meta row to the new area,
//! and only when that batch is durable does the replica acknowledge: until then its old state, with its old log, is
//! what it would come back with, and nobody may count on more.

use core::time::Duration;
use quorate_kernel::{Cx, NodeId, wire};
use quorate_store::{Batch, Sequence};

use crate::Mutant;
use crate::machine::{Out, Output, Replog, Timer};
use crate::message::{Ballot, Echo, Message, Part};
use crate::record::StateMeta;

/// How often to look whether the state is durable.
const INSTALL_POLL: Duration = Duration::from_millis(5);

/// A snapshot that arrives.
#[derive(Debug, Clone)]
pub(crate) struct Receiving {
    from: NodeId,
    meta: StateMeta,
    generation: u32,
    next_part: u64,
    /// Set when all rows and the turned meta row are applied: durable once the store says so.
    installed: Option<Sequence>,
    /// The ballot under which it came last.
    ballot: Ballot,
}

impl Receiving {
    /// The own state, which is to count as one that ends elsewhere.
    pub(crate) fn own(me: NodeId, meta: StateMeta, installed: Option<Sequence>) -> Self {
        let (generation, ballot) = (meta.generation, meta.applied_ballot);
        Receiving { from: me, meta, generation, next_part: 0, installed, ballot }
    }
}

impl Replog {
    /// Whether the state was replaced but is not durable yet: nothing may be accepted on top of it.
    pub(crate) fn awaits_install(&self) -> bool {
        self.receiving.as_ref().is_some_and(|receiving| receiving.installed.is_some())
    }

    pub(crate) fn on_part(&mut self, cx: &mut Cx<'_>, from: NodeId, part: Part, out: &mut Out) {
        if !self.recognise(cx, from, part.ballot, out) || self.awaits_install() {
            return;
        }
        let applied = part.meta.applied;
        if applied <= self.chosen && !self.is_of_earlier_era(part.ballot.epoch) {
            // Nothing in it is news. Told at once: what is chosen was on disk before it was acknowledged.
            let accepted =
                Message::Accepted { ballot: part.ballot, matched: self.chosen, echo: Echo::default() };
            return out.send(from, accepted);
        }
        let same = |receiving: &Receiving| receiving.from == from && receiving.meta == part.meta;
        if !self.receiving.as_ref().is_some_and(same) {
            self.begin_receiving(cx, from, &part, out);
        }
        let Some(receiving) = &mut self.receiving else { return };
        receiving.ballot = part.ballot;
        if part.part == receiving.next_part {
            receiving.next_part += 1;
            let prefix = self.config.rows().area(receiving.generation);
            let mut batch = Batch::default();
            for (key, value) in part.rows {
                batch.put([&prefix[..], &key[..]].concat(), value);
            }
            cx.store.apply(batch);
            if part.last {
                return self.install(cx, out);
            }
        }
        let next = Message::NextPart { ballot: part.ballot, applied, part: receiving.next_part };
        // Tells only what to send next; a restarted replica begins anew.
        out.send_early(from, next);
    }

    fn begin_receiving(&mut self, cx: &mut Cx<'_>, from: NodeId, part: &Part, out: &mut Out) {
        cx.marks.hit("replog.install.begun");
        self.abandon_receiving(cx, out);
        let is_free = |number: &u32| *number != self.generation && !self.garbage.contains(number);
        // As many as there are snapshots under way, and some that are swept.
        let Some(generation) = (0..).find(is_free) else { panic!("every area is in use") };
        self.receiving = Some(Receiving {
            from,
            meta: part.meta.clone(),
            generation,
            next_part: 0,
            installed: None,
            ballot: part.ballot,
        });
    }

    /// Gives up a snapshot of which not all has come: its sender is gone, or entries come instead.
    pub(crate) fn abandon_receiving(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.awaits_install() {
            return;
        }
        if let Some(receiving) = self.receiving.take() {
            cx.marks.hit("replog.install.abandoned");
            self.garbage.push(receiving.generation);
            out.arm(Timer::Sweep, Duration::ZERO);
        }
    }

    /// All rows are there: turn to the new area.
    fn install(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(receiving) = &mut self.receiving else { return };
        let meta = StateMeta { generation: receiving.generation, ..receiving.meta.clone() };
        let mut batch = Batch::default();
        batch.put(self.config.rows().meta_key(), wire::encode(&meta));
        receiving.installed = Some(cx.store.apply(batch));
        cx.store.checkpoint();
        self.garbage.push(self.generation);
        out.arm(Timer::Sweep, Duration::ZERO);
        self.generation = meta.generation;
        self.log.rebase(meta.applied, meta.applied_ballot);
        self.applied = meta.applied;
        self.chosen = meta.applied;
        self.checkpoint = None;
        let entered = meta.epoch.number > self.epoch().number;
        self.take_state_epoch(meta.epoch);
        if entered {
            self.adopt_epoch();
            self.arm_election(cx, out);
            out.output(Output::Peers);
        }
        out.output(Output::Installed);
        self.on_install_timer(cx, out);
    }

    pub(crate) fn on_install_timer(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(Receiving { from, meta, installed: Some(sequence), ballot, .. }) = self.receiving.clone()
        else {
            return;
        };
        if cx.store.durable() < sequence && !self.breaks(Mutant::InstallBeforeDurable) {
            return out.arm(Timer::Install, INSTALL_POLL);
        }
        cx.marks.hit("replog.install.done");
        self.receiving = None;
        let matched = meta.applied;
        self.persist_installed(matched, meta.applied_ballot, out);
        if from == self.me {
            return self.begin_alone(cx, out);
        }
        out.send(from, Message::Accepted { ballot, matched, echo: Echo::default() });
    }
}
