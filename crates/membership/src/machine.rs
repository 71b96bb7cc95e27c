//! State and dispatch.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::{Cx, Event, Machine, NodeId, Position};

use crate::chain::Chain;
use crate::config::Config;
use crate::joiner::Joiner;
use crate::message::{Message, Refusal};
use crate::outside::{Past, view_of};
use crate::record::Record;
use crate::restart::Restored;
use crate::seat::{Relation, Seat};
use crate::view::{Member, Meta, View, ViewId};

/// The timers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next probes.
    Probe,
    /// Alerts have waited for others long enough.
    Batch,
    /// The next round of gossip.
    Gossip,
    /// What may have been lost is said again.
    Resend,
    /// The fast round, or somebody's classic one, had time enough.
    Fallback,
    /// An attempt to join had time enough.
    Join,
    /// Tell members that this node is one no more; or, that it wants to be one no more.
    Farewell,
}

/// What the parent asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Become a member, through any of these. [`Output::Installed`] or [`Output::JoinFailed`] ends it.
    Join {
        /// Members, as far as known.
        seeds: Vec<NodeId>,
    },
    /// Be a member no more. [`Output::Left`] ends it. A member that is alone goes at once; if several are asked, the last
    /// of them stays until somebody else has come.
    Leave,
    /// What the parent makes of a view, for those who do not get there step by step. A function of the view before,
    /// what the parent said of it, and the cut, and of nothing else: all members must say the same.
    State {
        /// Number of the view. If it is not the newest one any more, this is dropped and marked.
        seq: u64,
        /// What to hand on with the view; at most [`Config::state_bytes_max`].
        state: Bytes,
    },
}

/// What the parent is told, in the order of the chain of views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The node is a member of this view, and has not seen how it came about: the founders' view, the first after
    /// joining, the one found at a restart, or one reached from too far behind.
    Installed {
        /// The view.
        view: View,
        /// What the parents of the members said of it. `None` for founders, who say it first, and without
        /// [`Config::needs_state`]. A node that restarts before its parent has said its part is told of the last view of
        /// which it had, and then again how the newest one came about.
        state: Option<Bytes>,
    },
    /// The view that follows the one of the last `Installed` or `NextView`, with no other in between.
    NextView {
        /// The view.
        view: View,
        /// Its members that the one before did not have.
        joined: Vec<Member>,
        /// Members of the one before that it has not.
        left: Vec<Member>,
    },
    /// The others removed this node. It may join again.
    Kicked {
        /// The first view known to be without it.
        view: ViewId,
    },
    /// The node is a member no more, as it wanted, and others know it: it may stop.
    Left {
        /// The newest view it knows.
        view: ViewId,
    },
    /// The attempts to join are used up.
    JoinFailed {
        /// Why the last ones failed.
        reason: Refusal,
    },
    /// More than half of the neighbourhood has not been heard for a while, or is back. Nothing can be decided by a side
    /// without a majority, and it is not told so by anybody else.
    Quorum {
        /// Whether it is back.
        reachable: bool,
    },
}

/// The effect buffer of a node.
pub type Out = quorate_kernel::Out<Message, Timer, Record, Output>;

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Life {
    Idle,
    Joining(Joiner),
    Member(Box<Seat>),
}

/// The membership of one node.
#[derive(Debug, Clone)]
pub struct Membership {
    pub(crate) me: NodeId,
    pub(crate) config: Config,
    pub(crate) meta: Meta,
    pub(crate) founders: Vec<(NodeId, Meta)>,
    pub(crate) restored: Option<Restored>,
    pub(crate) life: Life,
    /// The membership before, while this node is no member.
    pub(crate) past: Option<Past>,
}

impl Membership {
    /// A node. `founders` are the members of the first view, the same on all of them; empty for a node that is to join. They
    /// count only if nothing survives from an earlier life.
    ///
    /// # Panics
    /// If [`Config::complaints`] has any.
    pub fn new(me: NodeId, config: Config, meta: Meta, founders: Vec<(NodeId, Meta)>) -> Self {
        assert!(config.complaints().is_empty(), "{:?}", config.complaints());
        Membership { me, config, meta, founders, restored: None, life: Life::Idle, past: None }
    }

    pub(crate) fn seat(&self) -> Option<&Seat> {
        match &self.life {
            Life::Member(seat) => Some(seat),
            Life::Idle | Life::Joining(_) => None,
        }
    }

    /// The current view, if this node is a member, as far as it knows.
    pub fn view(&self) -> Option<&View> {
        self.seat().map(Seat::view)
    }

    /// The newest view this node knows, whether it is in it or not.
    pub fn last_view(&self) -> Option<&View> {
        self.view().or_else(|| self.past.as_ref().map(Past::view))
    }

    /// Whether this node wants to be a member and is none yet.
    pub fn is_joining(&self) -> bool {
        matches!(self.life, Life::Joining(_))
    }

    /// Whether this node wants to be a member no more.
    pub fn is_leaving(&self) -> bool {
        self.seat().is_some_and(|seat| seat.leaving)
    }

    /// Whether nobody is under suspicion, waits to join, or is being decided on.
    pub fn is_quiet(&self) -> bool {
        self.seat().is_none_or(Seat::is_quiet)
    }

    /// What the parent said of the current view.
    pub fn state(&self) -> Option<&Bytes> {
        self.seat().and_then(|seat| seat.chain.state.as_ref())
    }

    /// Whether this node watches `subject` and holds that it is faulty now.
    pub fn suspects(&self, subject: NodeId) -> bool {
        self.seat().is_some_and(|seat| seat.suspects(subject, &self.config))
    }

    /// Who watches `node`, member or not, with the rings.
    pub fn observers(&self, node: NodeId) -> Vec<(NodeId, crate::RingSet)> {
        self.seat().map(|seat| seat.rings.observers(node)).unwrap_or_default()
    }

    /// On which rings each subject is reported in the current view, as far as this node knows.
    pub fn reported(&self) -> Vec<(NodeId, crate::RingSet)> {
        let alerts =
            self.seat().map(|seat| seat.alerts.subjects().map(|(id, subject)| (id, subject.raised())));
        alerts.into_iter().flatten().collect()
    }

    /// What this node has to say of those it watches, or who want in through it, and has not said yet.
    pub fn pending(&self) -> Vec<(NodeId, crate::RingSet)> {
        let pending = self.seat().map(|seat| seat.pending.alerts.iter().map(|(id, alert)| (*id, alert.0)));
        pending.into_iter().flatten().collect()
    }

    fn dispatch(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        match event {
            Event::Start => self.start(cx, out),
            Event::Message { from, msg } => match &mut self.life {
                Life::Member(seat) => receive(seat, cx, from, msg, out),
                Life::Idle | Life::Joining(_) => self.receive_outside(cx, from, msg, out),
            },
            Event::Timer(timer) => self.on_timer(cx, timer, out),
            Event::Input(input) => self.on_input(cx, input, out),
        }
        self.look_outside(cx, out);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer, out: &mut Out) {
        match (&mut self.life, timer) {
            (Life::Member(seat), Timer::Probe) => seat.on_probe_timer(cx, out),
            (Life::Member(seat), Timer::Batch) => seat.on_batch(cx, out),
            (Life::Member(seat), Timer::Gossip) => seat.on_gossip(cx, out),
            (Life::Member(seat), Timer::Resend) => seat.on_resend(cx, out),
            (Life::Member(seat), Timer::Fallback) => seat.on_fallback(cx, out),
            (Life::Member(seat), Timer::Farewell) if seat.leaving => {
                seat.ask_to_leave(out);
                out.arm(Timer::Farewell, self.config.resend);
            }
            (Life::Joining(joiner), Timer::Join) => {
                let goes_on = joiner.attempt(cx, &self.config, &self.meta, out);
                let reason = joiner.refusal;
                if !goes_on {
                    self.life = Life::Idle;
                    cx.marks.hit("membership.join.failed");
                    out.output(Output::JoinFailed { reason });
                }
            }
            (Life::Idle | Life::Joining(_), Timer::Farewell) => {
                if let Some(past) = &mut self.past {
                    past.say_farewell(cx, &self.config, out);
                }
            }
            // A timer of a life that is over.
            _ => {}
        }
    }

    fn on_input(&mut self, cx: &mut Cx<'_>, input: Input, out: &mut Out) {
        match (input, &mut self.life) {
            (Input::Join { seeds }, Life::Idle | Life::Joining(_)) => {
                let mut joiner = Joiner::new(seeds.into_iter().filter(|seed| *seed != self.me).collect());
                if joiner.attempt(cx, &self.config, &self.meta, out) {
                    self.life = Life::Joining(joiner);
                } else {
                    self.life = Life::Idle;
                    out.output(Output::JoinFailed { reason: Refusal::NoAnswer });
                }
            }
            (Input::Join { .. }, Life::Member(_)) => cx.marks.hit("membership.join.member_already"),
            (Input::Leave, Life::Member(seat)) => {
                seat.leaving = true;
                if seat.is_alone() {
                    seat.removed = true;
                } else {
                    seat.ask_to_leave(out);
                    out.arm(Timer::Farewell, self.config.resend);
                }
            }
            (Input::Leave, Life::Idle | Life::Joining(_)) => {
                self.life = Life::Idle;
                out.disarm(Timer::Join);
                out.output(Output::Left { view: self.known() });
            }
            (Input::State { seq, state }, Life::Member(seat)) => seat.on_state(cx, seq, state, out),
            (Input::State { .. }, Life::Idle | Life::Joining(_)) => cx.marks.hit("membership.state.dropped"),
        }
    }

    /// The newest view a node that is no member knows; 0 if it knows none.
    fn known(&self) -> ViewId {
        self.past.as_ref().map(Past::id).unwrap_or_default()
    }

    /// If the newest view is without this node, its membership is over.
    fn look_outside(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if !self.seat().is_some_and(|seat| seat.removed) {
            return;
        }
        let Life::Member(seat) = core::mem::replace(&mut self.life, Life::Idle) else { return };
        let Seat { chain, leaving, .. } = *seat;
        out.disarm(Timer::Probe);
        let (view, cut) = (chain.view.clone(), chain.steps.back().cloned());
        let position = out.persist(Record::Outside { view, cut });
        out.discard(position);
        let view = chain.view.id;
        if !leaving {
            cx.marks.hit("membership.kicked");
            out.output(Output::Kicked { view });
        }
        let mut past = Past::new(chain, leaving, cx.now, &self.config);
        past.say_farewell(cx, &self.config, out);
        self.past = Some(past);
    }

    fn receive_outside(&mut self, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
        let known = self.known();
        let sent_in = view_of(&msg);
        let is_newer = sent_in.is_some_and(|view| view.seq > known.seq);
        let is_older = sent_in.is_some_and(|view| view.seq < known.seq && view.seq > 0);
        match (msg, &mut self.life) {
            (Message::Probe { number, .. }, Life::Joining(joiner)) => {
                // Says nothing about this node's disk.
                out.send_early(from, Message::ProbeAnswer { view: known, number, bootstrapping: true });
                if is_newer {
                    joiner.pull(cx, from, &self.config, out);
                }
            }
            (Message::Probe { number, .. }, _) if is_older => {
                // A view that is forgotten serves nobody.
                out.send_early(from, Message::ProbeAnswer { view: known, number, bootstrapping: false });
            }
            (Message::ProbeAnswer { view, .. }, _) => {
                if let Some(past) = &mut self.past {
                    past.heard(cx, from, view, &self.config, out);
                }
            }
            (Message::Pull { view }, _) => {
                if let Some(past) = &mut self.past {
                    past.help(cx, from, view, &self.config, out);
                }
            }
            (Message::Whole { view, state }, Life::Joining(_))
                if view.seq() > known.seq && view.has(self.me) && view.is_sound() =>
            {
                self.become_member(cx, view, state, out);
            }
            (_, _) if is_older => out.send(from, Message::Newer { view: known }),
            (Message::Observers { view, observers }, Life::Joining(joiner)) => {
                joiner.on_observers(view, &observers, &self.meta, out);
            }
            (Message::Welcome { .. } | Message::Newer { .. }, Life::Joining(joiner)) if is_newer => {
                joiner.pull(cx, from, &self.config, out);
            }
            (Message::Refused { reason }, Life::Joining(joiner)) => joiner.refusal = reason,
            // Of no use to a node that is no member.
            _ => {}
        }
    }

    fn become_member(&mut self, cx: &mut Cx<'_>, view: View, state: Option<Bytes>, out: &mut Out) {
        cx.marks.hit("membership.join.done");
        self.past = None;
        out.disarm(Timer::Join);
        out.disarm(Timer::Farewell);
        let chain = Chain::at(view, None, state.clone());
        self.take_seat(cx, chain, out).settle(cx, state, out);
    }

    /// Becomes, or is again, a member; the first probes leave at a random time, so that not all do at once.
    pub(crate) fn take_seat(&mut self, cx: &mut Cx<'_>, chain: Chain, out: &mut Out) -> &mut Seat {
        let interval = u64::try_from(self.config.probe_interval.as_nanos()).unwrap_or(u64::MAX);
        out.arm(Timer::Probe, core::time::Duration::from_nanos(cx.rng.below(interval.max(1))));
        self.life = Life::Member(Seat::new(self.me, &self.config, chain, cx.now));
        match &mut self.life {
            Life::Member(seat) => seat,
            Life::Idle | Life::Joining(_) => unreachable!("a seat was just taken"),
        }
    }
}

fn receive(seat: &mut Seat, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
    if let Some(heard) = seat.heard.get_mut(&from) {
        *heard = cx.now;
    }
    match msg {
        Message::Probe { view, number } => seat.on_probe(cx, from, view, number, out),
        Message::ProbeAnswer { view, number, bootstrapping } => {
            seat.on_probe_answer(cx, from, view, number, bootstrapping, out);
        }
        Message::PreJoin { meta } => seat.on_prejoin(cx, from, &meta, out),
        Message::Join { view, meta } => seat.on_join(cx, from, view, meta, out),
        Message::Pull { view } => seat.on_pull(cx, from, view, out),
        Message::Cuts { view, cuts } => seat.on_cuts(cx, view, cuts, out),
        Message::Whole { view, state } => seat.on_whole(cx, view, state, out),
        Message::Leave { view } => seat.on_leave(cx, from, view, out),
        Message::Welcome { view } | Message::Newer { view } => match seat.relation(view) {
            Relation::Newer => seat.fall_behind(cx, from, out),
            Relation::Older => out.send(from, Message::Newer { view: seat.id() }),
            Relation::Same | Relation::Foreign => {}
        },
        // Answers to a joiner that has become a member since.
        Message::Observers { .. } | Message::Refused { .. } => {}
        Message::News { view, epoch, reports, votes } => {
            if seat.is_current(cx, from, view, out) {
                seat.on_news(cx, from, epoch, &reports, votes, out);
            } else if seat.config.breaks(crate::Mutant::AlertsOfAnotherView) {
                seat.take_reports(cx, epoch, &reports, out);
            }
        }
        Message::Phase1a { view, .. }
        | Message::Phase1b { view, .. }
        | Message::Phase2a { view, .. }
        | Message::Outdone { view, .. }
        | Message::Ask { view, .. }
        | Message::Value { view, .. } => {
            if seat.is_current(cx, from, view, out) {
                receive_round(seat, cx, from, msg, out);
            }
        }
    }
}

/// Consensus messages of the current view.
fn receive_round(seat: &mut Seat, cx: &mut Cx<'_>, from: NodeId, msg: Message, out: &mut Out) {
    match msg {
        Message::Phase1a { rank, .. } => seat.on_phase1a(cx, from, rank, out),
        Message::Phase1b { rank, voted, .. } => seat.on_phase1b(cx, from, rank, voted, out),
        Message::Phase2a { rank, cut, .. } => seat.on_phase2a(cx, from, rank, cut, out),
        Message::Outdone { promised, .. } => seat.on_outdone(promised),
        Message::Ask { digest, .. } => seat.on_ask(from, digest, out),
        Message::Value { cut, .. } => seat.on_value(cx, cut, out),
        _ => {}
    }
}

impl Machine for Membership {
    type Msg = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    fn restore(&mut self, _cx: &mut Cx<'_>, _position: Position, record: Record) {
        self.restore_record(record);
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Timer, Input>, out: &mut Out) {
        self.dispatch(cx, event, out);
    }

    fn check(&self) {
        self.check_invariants();
    }
}

/// What is known of the members, for the first view.
pub(crate) fn shared_founders(founders: &[(NodeId, Meta)]) -> Vec<(NodeId, Arc<Meta>)> {
    founders.iter().map(|(id, meta)| (*id, Arc::new(meta.clone()))).collect()
}
