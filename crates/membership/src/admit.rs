//! The members' side of joining.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use quorate_kernel::{Cx, NodeId, Time};

use crate::config::Config;
use crate::machine::Out;
use crate::message::{Message, Refusal};
use crate::seat::{Relation, Seat};
use crate::view::{Meta, ViewId};

/// Joiners that asked a member, as one of their observers, and when they did last.
///
/// A joiner needs several observers. If each kept those who came first, all could be full of different ones, and nobody would ever come in (seed
/// 501152 of `ring`). So whoever has the smaller id goes before, everywhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(BTreeMap<NodeId, Asked>);

/// A joiner asked to be let in by the next view after this one, which may be newer than the own.
#[derive(Debug, Clone)]
struct Asked {
    at: Time,
    view: ViewId,
    meta: Arc<Meta>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Who asks no more keeps no place: it may be dead.
    fn still_asks(now: Time, asked: Time, config: &Config) -> bool {
        now.since(asked) < config.alert_epoch
    }

    fn has_place(&self, now: Time, joiner: NodeId, config: &Config) -> bool {
        let before = self.0.range(..joiner).filter(|(_, asked)| Self::still_asks(now, asked.at, config));
        before.count() < config.joiners_max
    }

    /// Lets somebody wait who has a place. Returns who has none any more.
    fn take(&mut self, joiner: NodeId, asked: Asked, config: &Config) -> Option<NodeId> {
        let now = asked.at;
        self.0.retain(|_, asked| Self::still_asks(now, asked.at, config));
        self.0.insert(joiner, asked);
        let is_over = self.0.len() > config.joiners_max;
        is_over.then(|| self.0.pop_last()).flatten().map(|(last, _)| last)
    }
}

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
        } else if !self.waiting.has_place(now, joiner, &self.config) {
            Some(Refusal::Busy)
        } else {
            None
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
            Relation::Newer => return self.keep_for_later(cx, from, view, meta, out),
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
        self.let_wait(cx, from, view, Arc::clone(&meta), out);
        self.alert(cx, from, rings, Some(meta), out);
    }

    fn let_wait(&mut self, cx: &mut Cx<'_>, joiner: NodeId, view: ViewId, meta: Arc<Meta>, out: &mut Out) {
        let asked = Asked { at: cx.now, view, meta };
        if let Some(other) = self.waiting.take(joiner, asked, &self.config) {
            cx.marks.hit("membership.join.gives_way");
            self.refuse(cx, other, Refusal::Busy, out);
        }
    }

    /// A joiner has heard of a view before this node, and asks each observer once: it must not have asked this one in vain. Other members tell of that
    /// view; the joiner knows its name alone.
    fn keep_for_later(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, meta: Meta, out: &mut Out) {
        if self.refusal(cx.now, from, &meta).is_none() && !self.view().has(from) {
            cx.marks.hit("membership.join.early");
            self.let_wait(cx, from, view, Arc::new(meta), out);
        }
    }

    /// A new view has begun: those who waited for it are told, the others ask anew.
    pub(crate) fn usher(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for (joiner, asked) in core::mem::take(&mut self.waiting).0 {
            let relation = self.relation(asked.view);
            if self.view().has(joiner) {
                cx.marks.hit("membership.join.welcomed");
                out.send(joiner, Message::Welcome { view: self.id() });
            } else if matches!(relation, Relation::Same | Relation::Newer) {
                self.on_join(cx, joiner, asked.view, asked.meta.as_ref().clone(), out);
            } else {
                cx.marks.hit("membership.join.next_view");
                self.on_prejoin(cx, joiner, &asked.meta, out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ask(waiting: &mut Waiting, config: &Config, now: Time, joiner: u64) {
        if waiting.has_place(now, NodeId(joiner), config) {
            let asked = Asked { at: now, view: ViewId::default(), meta: Arc::default() };
            waiting.take(NodeId(joiner), asked, config);
        }
    }

    fn ids(waiting: &Waiting) -> Vec<u64> {
        waiting.0.keys().map(|id| id.0).collect()
    }

    #[test]
    fn observers_keep_the_same_joiners_whoever_asked_them_first() {
        let config = Config { joiners_max: 3, ..Config::production() };
        let (mut one, mut other) = (Waiting::default(), Waiting::default());
        for joiner in [9, 7, 8, 2, 3, 4, 9] {
            ask(&mut one, &config, Time(1), joiner);
        }
        for joiner in [3, 2, 4, 9, 8, 7] {
            ask(&mut other, &config, Time(1), joiner);
        }
        assert_eq!((ids(&one), ids(&other)), ([2, 3, 4].into(), [2, 3, 4].into()));
    }

    #[test]
    fn who_asks_no_more_keeps_no_place() {
        let config = Config { joiners_max: 2, ..Config::production() };
        let mut waiting = Waiting::default();
        [1, 2].into_iter().for_each(|joiner| ask(&mut waiting, &config, Time(1), joiner));
        let later = Time(1) + config.alert_epoch / 2;
        ask(&mut waiting, &config, later, 2);
        ask(&mut waiting, &config, later, 5);
        assert_eq!(ids(&waiting), [1, 2]);
        ask(&mut waiting, &config, Time(1) + config.alert_epoch, 5);
        assert_eq!(ids(&waiting), [2, 5]);
    }
}
