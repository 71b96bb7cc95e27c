//! A member: its place in one view, and everything that begins anew with the next.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::Fast;

use crate::Mutant;
use crate::admit::Waiting;
use crate::alert::{Alerts, Level};
use crate::chain::Chain;
use crate::config::Config;
use crate::consensus::Consensus;
use crate::detect::Window;
use crate::hash::Digest;
use crate::machine::{Out, Timer};
use crate::message::{Message, Report, Votes};
use crate::ring::{RingSet, Rings};
use crate::spread::Spread;
use crate::view::{Change, Cut, Meta, View, ViewId};

/// One subject of this node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edge {
    /// The rings on which this node watches it.
    pub(crate) rings: RingSet,
    /// What came of its probes. Goes on over views.
    pub(crate) window: Window,
    /// In which epoch of the view this node last alerted about it; 0: in none.
    pub(crate) alerted: u64,
}

/// Alerts of this node that wait to leave together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    pub(crate) alerts: BTreeMap<NodeId, (RingSet, Option<Arc<Meta>>)>,
    pub(crate) first: Time,
    pub(crate) last: Time,
}

/// How the view of a message stands to the own one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Same,
    Older,
    Newer,
    /// The same number in another chain: another cluster.
    Foreign,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) me: NodeId,
    pub(crate) config: Config,
    pub(crate) chain: Chain,
    pub(crate) rings: Rings,
    pub(crate) fast_needed: usize,
    pub(crate) classic_needed: usize,
    pub(crate) edges: BTreeMap<NodeId, Edge>,
    /// Subjects and observers, and when each was last heard.
    pub(crate) heard: BTreeMap<NodeId, Time>,
    pub(crate) alerts: Alerts,
    pub(crate) pending: Pending,
    pub(crate) consensus: Consensus,
    pub(crate) spread: Spread,
    /// Joiners that asked this node, as one of their observers.
    pub(crate) waiting: Waiting,
    /// Who is to get the view once the parent has said its part.
    pub(crate) pullers: BTreeSet<NodeId>,
    pub(crate) pulled: Option<Time>,
    pub(crate) sampled: Time,
    pub(crate) leaving: bool,
    pub(crate) reachable: bool,
    /// The newest view has this node no more.
    pub(crate) removed: bool,
}

impl Seat {
    /// The place of `me` in the newest view of `chain`.
    pub(crate) fn new(me: NodeId, config: &Config, chain: Chain, now: Time) -> Box<Seat> {
        let mut seat = Box::new(Seat {
            me,
            config: config.clone(),
            chain,
            rings: Rings::new(Default::default(), 0),
            fast_needed: 0,
            classic_needed: 0,
            edges: BTreeMap::new(),
            heard: BTreeMap::new(),
            alerts: Alerts::default(),
            pending: Pending::default(),
            consensus: Consensus::default(),
            spread: Spread::default(),
            waiting: Waiting::default(),
            pullers: BTreeSet::new(),
            pulled: None,
            sampled: now,
            leaving: false,
            reachable: true,
            removed: false,
        });
        seat.sit(now);
        seat
    }

    /// The current view.
    pub(crate) fn view(&self) -> &View {
        &self.chain.view
    }

    /// The name of the current view.
    pub(crate) fn id(&self) -> ViewId {
        self.chain.view.id
    }

    /// Takes the place in a new view: everything that belongs to one view begins anew.
    pub(crate) fn sit(&mut self, now: Time) {
        let ids = self.view().members.iter().map(|member| member.id).collect();
        self.rings = Rings::new(ids, self.config.rings);
        let fast = Fast::new(self.rings.ids());
        (self.fast_needed, self.classic_needed) = (fast.fast().needed(), fast.classic().needed());
        let mut before = core::mem::take(&mut self.edges);
        for (subject, rings) in self.rings.subjects(self.me) {
            let lenient = self.view().seq() == 1;
            let known = before.remove(&subject).map(|edge| edge.window);
            let window = known.unwrap_or_else(|| Window::new(lenient));
            self.edges.insert(subject, Edge { rings, window, alerted: 0 });
        }
        let heard = core::mem::take(&mut self.heard);
        let observers = self.rings.observers(self.me).into_iter().map(|(observer, _)| observer);
        let neighbours = self.edges.keys().copied().chain(observers);
        self.heard = neighbours.map(|id| (id, heard.get(&id).copied().unwrap_or(now))).collect();
        self.alerts = Alerts::new(now);
        self.pending = Pending::default();
        self.consensus = Consensus::default();
        self.spread = Spread::default();
        self.pulled = None;
    }

    /// Whether the node alone decides.
    pub(crate) fn is_alone(&self) -> bool {
        self.rings.ids().len() == 1
    }

    /// How the view of a message stands to the own one.
    pub(crate) fn relation(&self, view: ViewId) -> Relation {
        let own = self.id();
        if view.seq < own.seq {
            Relation::Older
        } else if view.seq > own.seq {
            Relation::Newer
        } else if view == own {
            Relation::Same
        } else {
            Relation::Foreign
        }
    }

    /// Whether a message belongs to the current view. If not, whoever is behind is told, or asks.
    pub(crate) fn is_current(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, out: &mut Out) -> bool {
        match self.relation(view) {
            Relation::Same => return true,
            Relation::Older => {
                cx.marks.hit("membership.view.peer_behind");
                if !self.config.breaks(Mutant::NoCatchUp) {
                    out.send(from, Message::Newer { view: self.id() });
                }
            }
            Relation::Newer => self.fall_behind(cx, from, out),
            Relation::Foreign => cx.marks.hit("membership.view.foreign"),
        }
        false
    }

    /// Somebody knows a newer view: ask for it, one at a time.
    pub(crate) fn fall_behind(&mut self, cx: &mut Cx<'_>, from: NodeId, out: &mut Out) {
        if self.config.breaks(Mutant::NoCatchUp) {
            return;
        }
        if self.pulled.is_some_and(|at| cx.now.since(at) < self.config.resend) {
            return;
        }
        cx.marks.hit("membership.view.behind");
        self.pulled = Some(cx.now);
        out.send(from, Message::Pull { view: self.id() });
    }

    /// News of this view arrived.
    pub(crate) fn on_news(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        epoch: u64,
        reports: &[Report],
        votes: Vec<Votes>,
        out: &mut Out,
    ) {
        let forgets =
            self.config.breaks(Mutant::JoinerForgottenWhenAnnounced) && self.consensus.own.is_some();
        let view = self.id();
        if !forgets {
            self.take_reports(cx, epoch, reports, out);
        }
        // An alert may have been the last that a decision needed, and the votes are of the view before.
        if self.id() == view {
            self.on_votes(cx, from, votes, out);
        }
    }

    /// Takes over what others have alerted about.
    pub(crate) fn take_reports(&mut self, cx: &mut Cx<'_>, epoch: u64, reports: &[Report], out: &mut Out) {
        self.alerts.enter_epoch(epoch, cx.now);
        let mut fresh = false;
        for report in reports {
            if self.alerts.add(report, epoch, &self.rings, &self.config) {
                fresh = true;
                self.relay(report.subject, out);
            }
        }
        if fresh {
            self.evaluate(cx, out);
        }
    }

    /// An alert of this node about a subject; it leaves with others (batching).
    pub(crate) fn alert(
        &mut self,
        cx: &mut Cx<'_>,
        subject: NodeId,
        rings: RingSet,
        meta: Option<Arc<Meta>>,
        out: &mut Out,
    ) {
        let known = self.alerts.get(subject).map(|subject| subject.now).unwrap_or_default();
        if rings.is_empty() || rings.or(known) == known {
            return;
        }
        cx.marks.hit(if meta.is_some() { "membership.alert.up" } else { "membership.alert.down" });
        if self.pending.alerts.is_empty() {
            self.pending.first = cx.now;
            out.arm(Timer::Batch, self.config.batch_quiet);
        }
        self.pending.last = cx.now;
        let entry = self.pending.alerts.entry(subject).or_default();
        entry.0 = entry.0.or(rings);
        entry.1 = entry.1.take().or(meta);
    }

    /// The batch timer ran out: the alerts leave, unless more came and there is time.
    pub(crate) fn on_batch(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.pending.alerts.is_empty() {
            return;
        }
        let due =
            (self.pending.last + self.config.batch_quiet).min(self.pending.first + self.config.batch_age_max);
        if due > cx.now {
            out.arm(Timer::Batch, due.since(cx.now));
            return;
        }
        let epoch = self.alerts.epoch;
        for (subject, (now, meta)) in core::mem::take(&mut self.pending).alerts {
            let meta = meta.map(crate::message::JoinerMeta);
            let report = Report { subject, now, before: RingSet::default(), meta };
            if self.alerts.add(&report, epoch, &self.rings, &self.config) {
                self.spread.reports.insert(subject);
            }
        }
        self.spread_now(cx, out);
        self.evaluate(cx, out);
    }

    /// Whether the alerts make a cut; if so it is proposed, once in each view.
    pub(crate) fn evaluate(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.alerts.derive(cx.now, &self.config);
        self.keep_resending(out);
        if self.consensus.own.is_some() {
            return;
        }
        let Some(stable) = self.alerts.stable() else { return };
        if stable.contains(&self.me) && !self.all_leave(&stable) {
            // Nobody is the judge of itself: who cannot hear would remove all others with itself.
            cx.marks.hit("membership.cut.about_me");
            return;
        }
        let cut = self.cut_of(&stable);
        if !cut.changes.is_empty() && !cut.changes.contains(&Change::Remove { id: self.me }) {
            self.propose(cx, Arc::new(cut), out);
        }
    }

    /// Whether this node wants to go and no member is to stay: then those who are to go have to see each other out.
    fn all_leave(&self, stable: &[NodeId]) -> bool {
        self.leaving && self.rings.ids().iter().all(|id| stable.contains(id))
    }

    /// The cut that a set of subjects makes: removals first if there is no room for all, and never more of them than
    /// leave a majority of the members. A larger cut could only be decided with the votes of those whom it removes, and
    /// would leave a view whose members may mostly be dead. The rest comes with the next views.
    fn cut_of(&self, stable: &[NodeId]) -> Cut {
        let (gone, new): (Vec<NodeId>, Vec<NodeId>) = stable.iter().partition(|id| self.view().has(**id));
        let gone = gone.into_iter().map(|id| Change::Remove { id });
        let most = (self.rings.ids().len() - self.classic_needed).max(1);
        let mut changes: Vec<Change> = gone.take(most.min(self.config.changes_max)).collect();
        let places = self.config.members_max.saturating_sub(self.view().members.len() - changes.len());
        let room = places.min(self.config.changes_max - changes.len());
        let meta =
            |id: NodeId| self.alerts.get(id).and_then(|subject| subject.meta.clone()).unwrap_or_default();
        changes.extend(new.into_iter().take(room).map(|id| Change::Join { id, meta: meta(id) }));
        changes.sort_by_key(Change::node);
        Cut { changes }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        let noise = |id| self.alerts.level(id) == Level::Noise;
        self.pending.alerts.is_empty()
            && self.alerts.subjects().all(|(id, _)| noise(id))
            && !self.consensus.is_active()
    }

    /// The names of all values that matter still.
    pub(crate) fn named(&self) -> BTreeSet<Digest> {
        self.consensus.named()
    }
}
