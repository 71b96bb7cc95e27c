//! A node that is no member: it never was one, wants to be one, or is one no more.
//!
//! Who was a member still knows the decision that removed it, and may be the only one that does: of two members, the
//! one that removes the other needs the other's vote, and that vote may be lost. So it answers those who are behind, and
//! for a while goes to them.

use alloc::collections::BTreeSet;
use quorate_kernel::{Cx, NodeId, Time};

use crate::chain::{Chain, Help};
use crate::config::Config;
use crate::machine::{Out, Output, Timer};
use crate::message::Message;
use crate::view::{View, ViewId};

/// What is left of a membership that is over.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub(crate) chain: Chain,
    /// Members that are known to know.
    told: BTreeSet<NodeId>,
    until: Time,
    /// The parent waits to hear that it may go.
    leaving: bool,
    over: bool,
}

impl Past {
    pub(crate) fn new(chain: Chain, leaving: bool, now: Time, config: &Config) -> Past {
        Past { chain, told: BTreeSet::new(), until: now + config.farewell, leaving, over: false }
    }

    /// The newest view this node knows.
    pub(crate) fn view(&self) -> &View {
        &self.chain.view
    }

    /// Its number and hash.
    pub(crate) fn id(&self) -> ViewId {
        self.chain.view.id
    }

    /// Tells members of the view that begins without this node, until more than half of them know.
    pub(crate) fn say_farewell(&mut self, cx: &mut Cx<'_>, config: &Config, out: &mut Out) {
        let members = &self.chain.view.members;
        if self.over {
            return;
        }
        let nobody = members.iter().all(|member| member.id == cx.me);
        if nobody || self.told.len() * 2 > members.len() || cx.now >= self.until {
            self.over = true;
            if core::mem::take(&mut self.leaving) {
                cx.marks.hit("membership.leave.done");
                out.output(Output::Left { view: self.id() });
            }
            return;
        }
        out.arm(Timer::Farewell, config.resend / 4);
        let few = members.len() <= config.unicast_members_max;
        let count = if few { members.len() } else { config.gossip_fanout };
        for turn in 0..count {
            let place = if few { turn } else { cx.rng.below(members.len() as u64) as usize };
            let id = members[place].id;
            if !self.told.contains(&id) && id != cx.me {
                // Claims nothing that a crash could undo: a view that is forgotten serves nobody.
                out.send_early(id, Message::Probe { view: self.id(), number: 0 });
            }
        }
    }

    /// A member shows how far it is.
    pub(crate) fn heard(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        config: &Config,
        out: &mut Out,
    ) {
        if view.seq >= self.id().seq && self.chain.view.has(from) && self.told.insert(from) && !self.over {
            self.say_farewell(cx, config, out);
        }
    }

    /// Somebody is behind, or may be.
    pub(crate) fn help(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        known: ViewId,
        config: &Config,
        out: &mut Out,
    ) {
        if let Help::Answer(answer) = self.chain.help(known, config)
            && matches!(answer, Message::Cuts { .. })
        {
            cx.marks.hit("membership.outside.served");
            out.send(from, answer);
        }
    }
}

/// The view that a message was sent in; `None` for messages that belong to none.
pub(crate) fn view_of(msg: &Message) -> Option<ViewId> {
    match msg {
        Message::Probe { view, .. }
        | Message::ProbeAnswer { view, .. }
        | Message::Observers { view, .. }
        | Message::Join { view, .. }
        | Message::Welcome { view }
        | Message::News { view, .. }
        | Message::Phase1a { view, .. }
        | Message::Phase1b { view, .. }
        | Message::Phase2a { view, .. }
        | Message::Outdone { view, .. }
        | Message::Ask { view, .. }
        | Message::Value { view, .. }
        | Message::Newer { view }
        | Message::Pull { view }
        | Message::Cuts { view, .. }
        | Message::Leave { view } => Some(*view),
        Message::PreJoin { .. } | Message::Refused { .. } | Message::Whole { .. } => None,
    }
}
