//! The members' side of joining.

use alloc::sync::Arc;
use quorate_kernel::{Cx, NodeId, Time};

use crate::machine::Out;
use crate::message::{Message, Refusal};
use crate::seat::{Relation, Seat};
use crate::view::{Meta, ViewId};

impl Seat {
    /// Why a node cannot become a member now, if it cannot.
    fn refusal(&self, now: Time, joiner: NodeId, meta: &Meta) -> Option<Refusal> {
        let same = |other: &Meta| !meta.peer.is_empty() && other.peer == meta.peer;
        if meta.size_bytes() > self.config.meta_bytes_max {
            Some(Refusal::MetaTooLarge)
        } else if self.view().members.iter().any(|member| same(&member.meta)) {
            Some(Refusal::AddressTaken)
        } else if self.view().members.len() >= self.config.members_max {
            Some(Refusal::Full)
        } else if !self.has_place(now, joiner) {
            Some(Refusal::Busy)
        } else {
            None
        }
    }

    /// Whether somebody who wants in may wait here. A joiner needs several observers: if each kept those who came first, all could be
    /// full of others, and nobody would ever come in (seed 501152 of `ring`). So whoever has the smaller id goes before, everywhere.
    fn has_place(&self, now: Time, joiner: NodeId) -> bool {
        let before = self.waiting.range(..joiner).filter(|(_, (asked, _))| self.still_asks(now, *asked));
        before.count() < self.config.joiners_max
    }

    /// Who asks no more keeps no place: it may be dead.
    fn still_asks(&self, now: Time, asked: Time) -> bool {
        now.since(asked) < self.config.alert_epoch
    }

    /// Lets somebody wait for the next view, in the place of another if need be.
    fn keep_waiting(&mut self, cx: &mut Cx<'_>, joiner: NodeId, meta: Arc<Meta>, out: &mut Out) {
        let mut waiting = core::mem::take(&mut self.waiting);
        waiting.retain(|_, (asked, _)| self.still_asks(cx.now, *asked));
        waiting.insert(joiner, (cx.now, meta));
        self.waiting = waiting;
        if self.waiting.len() > self.config.joiners_max
            && let Some((last, _)) = self.waiting.pop_last()
        {
            cx.marks.hit("membership.join.gives_way");
            self.refuse(cx, last, Refusal::Busy, out);
        }
    }

    fn refuse(&self, cx: &mut Cx<'_>, to: NodeId, reason: Refusal, out: &mut Out) {
        cx.marks.hit(match reason {
            Refusal::Full => "membership.join.full",
            Refusal::AddressTaken => "membership.join.address_taken",
            Refusal::MetaTooLarge => "membership.join.meta_too_large",
            Refusal::Busy | Refusal::NoAnswer => "membership.join.busy",
        });
        out.send(to, Message::Refused { reason });
    }

    /// Somebody wants in, and asks who its observers would be.
    pub(crate) fn on_prejoin(&mut self, cx: &mut Cx<'_>, from: NodeId, meta: &Meta, out: &mut Out) {
        if self.view().has(from) {
            // It is a member already: the answer was lost, or its removal is not known here.
            cx.marks.hit("membership.join.is_member");
            out.send(from, Message::Welcome { view: self.id() });
        } else if let Some(reason) = self.refusal(cx.now, from, meta) {
            self.refuse(cx, from, reason, out);
        } else {
            self.name_observers(from, out);
        }
    }

    fn name_observers(&self, joiner: NodeId, out: &mut Out) {
        out.send(joiner, Message::Observers { view: self.id(), observers: self.rings.observers(joiner) });
    }

    /// A joiner asks this node, as one of its observers.
    pub(crate) fn on_join(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, meta: Meta, out: &mut Out) {
        match self.relation(view) {
            Relation::Same => {}
            Relation::Newer => return self.fall_behind(cx, from, out),
            // The view has changed since: its observers may be others now.
            Relation::Older => return self.on_prejoin(cx, from, &meta, out),
            Relation::Foreign => return cx.marks.hit("membership.view.foreign"),
        }
        let rings = self.rings.between(self.me, from);
        if self.view().has(from) || rings.is_empty() {
            return self.on_prejoin(cx, from, &meta, out);
        }
        if let Some(reason) = self.refusal(cx.now, from, &meta) {
            return self.refuse(cx, from, reason, out);
        }
        let meta = Arc::new(meta);
        self.keep_waiting(cx, from, Arc::clone(&meta), out);
        self.alert(cx, from, rings, Some(meta), out);
    }

    /// A new view has begun: those who waited for it are told, the others ask anew.
    pub(crate) fn usher(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for (joiner, (_, meta)) in core::mem::take(&mut self.waiting) {
            if self.view().has(joiner) {
                cx.marks.hit("membership.join.welcomed");
                out.send(joiner, Message::Welcome { view: self.id() });
            } else {
                cx.marks.hit("membership.join.next_view");
                self.on_prejoin(cx, joiner, &meta, out);
            }
        }
    }

    /// A member wants out: this node, as one of its observers, takes it at its word.
    pub(crate) fn on_leave(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, out: &mut Out) {
        if !self.is_current(cx, from, view, out) {
            return;
        }
        let rings = self.rings.between(self.me, from);
        if self.view().has(from) && !rings.is_empty() {
            cx.marks.hit("membership.leave.taken");
            self.alert(cx, from, rings, None, out);
        }
    }

    /// This node wants out, and says so until it is.
    pub(crate) fn ask_to_leave(&self, out: &mut Out) {
        for (observer, _) in self.rings.observers(self.me) {
            out.send(observer, Message::Leave { view: self.id() });
        }
    }
}
