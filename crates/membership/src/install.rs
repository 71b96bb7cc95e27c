//! From one view to the next, and for those who are behind, over several.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::{Cx, NodeId};

use crate::Mutant;
use crate::chain::{Chain, Help};
use crate::machine::{Out, Output, Timer};
use crate::message::Message;
use crate::record::{Record, Step};
use crate::seat::{Relation, Seat};
use crate::view::{Change, Cut, Member, View, ViewId};

impl Seat {
    /// The view's decision is known.
    pub(crate) fn decide(&mut self, cx: &mut Cx<'_>, cut: Arc<Cut>, out: &mut Out) {
        let cut =
            if self.config.breaks(Mutant::JoinerForgottenWhenAnnounced) { self.recall(&cut) } else { cut };
        let Some(next) = self.view().after(&cut) else {
            panic!("a cut was decided that does not fit: {cut:?}")
        };
        self.advance(cx, next, cut, true, out);
    }

    /// What the published code installs: what this node itself happens to know of each joiner.
    fn recall(&self, cut: &Cut) -> Arc<Cut> {
        let known =
            |id: NodeId| self.alerts.get(id).and_then(|subject| subject.meta.clone()).unwrap_or_default();
        let recall = |change: &Change| match change {
            Change::Join { id, .. } => Change::Join { id: *id, meta: known(*id) },
            Change::Remove { id } => Change::Remove { id: *id },
        };
        Arc::new(Cut { changes: cut.changes.iter().map(recall).collect() })
    }

    /// The next view begins.
    fn advance(&mut self, cx: &mut Cx<'_>, next: View, cut: Arc<Cut>, tell: bool, out: &mut Out) {
        let step = Step { from: self.id(), cut };
        let (joined, left) = changes(self.view(), &next);
        self.chain.push(next.clone(), step.clone(), &self.config);
        cx.marks.hit("membership.view.next");
        self.hush(out);
        if !next.has(self.me) {
            self.removed = true;
            return;
        }
        self.persist(Some(step), None, out);
        if tell {
            out.output(Output::NextView { view: next, joined, left: left.clone() });
        }
        let was_subject: Vec<NodeId> =
            left.iter().map(|member| member.id).filter(|id| self.edges.contains_key(id)).collect();
        self.sit(cx.now);
        for id in was_subject {
            out.send(id, Message::Newer { view: self.id() });
        }
        self.usher(cx, out);
    }

    /// The timers of the old view.
    fn hush(&self, out: &mut Out) {
        for timer in [Timer::Batch, Timer::Gossip, Timer::Resend, Timer::Fallback] {
            out.disarm(timer);
        }
    }

    /// Persists the newest view. Nothing that was persisted before is needed any more.
    pub(crate) fn persist(&self, cut: Option<Step>, state: Option<Bytes>, out: &mut Out) {
        let base = self.chain.base.clone();
        let position = out.persist(Record::Installed { view: self.view().clone(), cut, state, base });
        out.discard(position);
    }

    /// Somebody asks for what came after a view.
    pub(crate) fn on_pull(&mut self, cx: &mut Cx<'_>, from: NodeId, known: ViewId, out: &mut Out) {
        match self.chain.help(known, &self.config) {
            Help::Answer(answer) => {
                let whole = matches!(answer, Message::Whole { .. });
                cx.marks.hit(if whole { "membership.served.whole" } else { "membership.served.cuts" });
                out.send(from, answer);
            }
            Help::Later if self.pullers.len() < self.config.joiners_max => {
                cx.marks.hit("membership.served.later");
                self.pullers.insert(from);
            }
            Help::Later | Help::None => {
                if self.relation(known) == Relation::Newer {
                    self.fall_behind(cx, from, out);
                }
            }
        }
    }

    /// The parent has said what belongs to a view.
    pub(crate) fn on_state(&mut self, cx: &mut Cx<'_>, seq: u64, state: Bytes, out: &mut Out) {
        if state.len() > self.config.state_bytes_max || seq != self.view().seq() {
            cx.marks.hit("membership.state.dropped");
            return;
        }
        self.chain.state = Some(state.clone());
        self.chain.base = None;
        out.persist(Record::State { seq, state });
        for from in core::mem::take(&mut self.pullers) {
            self.on_pull(cx, from, ViewId::default(), out);
        }
    }

    /// Decisions that this node lacks, in order.
    pub(crate) fn on_cuts(&mut self, cx: &mut Cx<'_>, from: ViewId, cuts: Vec<Cut>, out: &mut Out) {
        if self.relation(from) != Relation::Same {
            return;
        }
        self.pulled = None;
        let skips = self.config.breaks(Mutant::SkipView);
        let last = cuts.len().saturating_sub(1);
        for (index, cut) in cuts.into_iter().enumerate() {
            let Some(next) = self.view().after(&cut) else {
                cx.marks.hit("membership.cuts.nonsense");
                return;
            };
            cx.marks.hit("membership.view.caught_up");
            self.advance(cx, next, Arc::new(cut), !skips || index == last, out);
            if self.removed {
                return;
            }
        }
    }

    /// The newest view as a whole: too much has happened since, or nobody remembers.
    pub(crate) fn on_whole(&mut self, cx: &mut Cx<'_>, view: View, state: Option<Bytes>, out: &mut Out) {
        // Nobody sends a view to a member that did not ask.
        let asked = self.pulled.is_some();
        if !asked || self.relation(view.id) != Relation::Newer || !view.is_sound() {
            return;
        }
        cx.marks.hit("membership.view.jumped");
        self.hush(out);
        self.chain = Chain::at(view, None, state.clone());
        if !self.view().has(self.me) {
            self.removed = true;
            return;
        }
        self.sit(cx.now);
        self.settle(cx, state, out);
    }

    /// The newest view came as a whole, and this node is in it.
    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>, state: Option<Bytes>, out: &mut Out) {
        self.persist(None, state.clone(), out);
        out.output(Output::Installed { view: self.view().clone(), state });
        self.usher(cx, out);
    }
}

/// Who is new in the second of two views, and who was in the first only.
pub(crate) fn changes(before: &View, next: &View) -> (Vec<Member>, Vec<Member>) {
    let joined = next.members.iter().filter(|member| member.since == next.seq());
    let left = before.members.iter().filter(|member| !next.has(member.id));
    (joined.cloned().collect(), left.cloned().collect())
}
