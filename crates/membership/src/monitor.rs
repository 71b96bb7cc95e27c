//! Probes: to the subjects all the time, to anybody else now and then.
//!
//! Probes and their answers carry the newest view of their sender. So a member that sends but does not hear what the
//! others decide learns from the first answer that reaches it that it is behind; the published code leaves it behind.

use alloc::vec::Vec;
use quorate_kernel::{Cx, NodeId};

use crate::Mutant;
use crate::alert::Level;
use crate::config::Config;
use crate::machine::{Out, Output, Timer};
use crate::message::Message;
use crate::seat::{Relation, Seat};
use crate::view::ViewId;

impl Seat {
    /// One beat: judge what the last probes brought, send the next, see what has been going on for too long.
    pub(crate) fn on_probe_timer(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        out.arm(Timer::Probe, self.config.probe_interval);
        let epoch = self.alerts.epoch;
        let mut faulty = Vec::new();
        for (subject, edge) in &mut self.edges {
            if edge.alerted < epoch && edge.window.is_faulty(&self.config) {
                edge.alerted = epoch;
                faulty.push((*subject, edge.rings));
            }
            let number = edge.window.probe(&self.config);
            // Claims nothing that a crash could undo: a view that is forgotten is one that nobody can be served from.
            out.send_early(*subject, Message::Probe { view: self.chain.view.id, number });
        }
        for (subject, rings) in faulty {
            self.alert(cx, subject, rings, None, out);
        }
        if cx.now.since(self.sampled) >= self.config.resend {
            self.sampled = cx.now;
            for id in if self.is_alone() { Vec::new() } else { self.sample(cx, 1) } {
                // As above.
                out.send_early(id, Message::Probe { view: self.id(), number: 0 });
            }
        }
        self.tend_alerts(cx, out);
        self.tell_reach(cx, out);
    }

    /// Alerts lapse; subjects that stay between the watermarks are reported by all their observers.
    fn tend_alerts(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.alerts.is_empty() {
            self.alerts.epoch_began = cx.now;
            return;
        }
        if cx.now.since(self.alerts.epoch_began) >= self.config.alert_epoch {
            cx.marks.hit("membership.alert.epoch");
            self.alerts.enter_epoch(self.alerts.epoch + 1, cx.now);
            self.evaluate(cx, out);
        }
        if self.config.breaks(Mutant::NoReinforcement) {
            return;
        }
        if self.alerts.give_up_waiting(cx.now, &self.config) {
            cx.marks.hit("membership.alert.overdue");
            self.evaluate(cx, out);
        }
        let long = |since| cx.now.since(since) >= self.config.reinforce;
        let stuck: Vec<_> = self
            .alerts
            .subjects()
            .filter(|(id, subject)| {
                subject.unstable_since.is_some_and(long) && self.alerts.level(*id) == Level::Unstable
            })
            .map(|(id, subject)| (id, subject.meta.clone()))
            .collect();
        for (subject, meta) in stuck {
            let rings = self.rings.between(self.me, subject);
            if !rings.is_empty() && subject != self.me {
                cx.marks.hit("membership.alert.reinforced");
                self.alert(cx, subject, rings, meta, out);
            }
        }
    }

    /// Tells the parent when more than half of the neighbourhood falls silent, and when it is back.
    fn tell_reach(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let recent = |at: &&quorate_kernel::Time| cx.now.since(**at) <= self.config.isolated_after;
        let (all, heard) = (self.heard.len(), self.heard.values().filter(recent).count());
        // With the node itself. In a small view the neighbours are all others, so this is a majority of the members;
        // in a large one they are a random sample of them.
        let reachable = all == 0 || (heard + 1) * 2 > all + 1;
        if reachable != self.reachable {
            self.reachable = reachable;
            cx.marks.hit(if reachable { "membership.quorum.back" } else { "membership.quorum.lost" });
            out.output(Output::Quorum { reachable });
        }
    }

    /// An observer, or somebody at random, probes this node.
    pub(crate) fn on_probe(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        number: u64,
        out: &mut Out,
    ) {
        // Claims nothing that a crash could undo; see above.
        out.send_early(from, Message::ProbeAnswer { view: self.id(), number, bootstrapping: false });
        if self.relation(view) == Relation::Newer {
            self.fall_behind(cx, from, out);
        }
    }

    /// A probe was answered.
    pub(crate) fn on_probe_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        number: u64,
        bootstrapping: bool,
        out: &mut Out,
    ) {
        if let Some(edge) = self.edges.get_mut(&from).filter(|_| number > 0) {
            edge.window.answered(number, bootstrapping, &self.config);
        }
        if self.relation(view) == Relation::Newer {
            self.fall_behind(cx, from, out);
        }
        if bootstrapping && self.view().has(from) {
            cx.marks.hit("membership.probe.bootstrapping");
            out.send(from, Message::Welcome { view: self.id() });
        }
    }

    /// Whether this node holds that `subject` is faulty now.
    pub(crate) fn suspects(&self, subject: NodeId, config: &Config) -> bool {
        self.edges.get(&subject).is_some_and(|edge| edge.window.is_faulty(config))
    }
}
