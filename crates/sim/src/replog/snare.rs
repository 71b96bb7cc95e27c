//! Snares: faults that wait for a message and strike right after it left. They do nothing that chance could not do; they
//! make it likely.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use quorate_kernel::{NodeId, Rng};
use quorate_replog::{Ballot, Content, Message};

use super::parent::Ask;
use crate::Agenda;

/// The message that a snare waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bait {
    /// A candidate asks in earnest.
    Prepare,
    /// A promise in earnest.
    Promise,
    /// A new leader's first message.
    FirstWords,
    /// A leader's beat without entries.
    Beat,
    /// Entries for a follower.
    Entries,
    /// Entries of earlier leaders, from a new one.
    OldEntries,
    /// A follower acknowledges.
    Accepted,
    /// Somebody is asked to take over.
    Handover,
    /// A seal.
    Seal,
    /// A part of a snapshot.
    Part,
    /// A former member is told that nobody needs it.
    Retire,
}

/// What a snare does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The sender crashes.
    Crash,
    /// The sender crashes and restarts at once; the receiver is cut off.
    Amnesia,
    /// The sender can be heard by the receiver alone for some time; then the receiver crashes and restarts at once, and
    /// the sender is cut off altogether for this many milliseconds.
    Unbind(u64),
    /// The sender freezes, and is cut off when it has been answered.
    Pause,
    /// The sender is cut off.
    Isolate,
    /// The sender and those whom the seal adds are on one side, all others on the other.
    Split,
    /// This one message is lost.
    Lose,
    /// The sender loses its disk, if it can be spared.
    Ruin,
}

/// A fault that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snare {
    /// For what.
    pub bait: Bait,
    /// To do what.
    pub trap: Trap,
    /// How often, in a thousand.
    pub chance: u64,
    /// For how long, at most.
    pub span: Duration,
}

/// The snares of a run.
#[derive(Debug)]
pub(crate) struct Snares {
    laid: Vec<Snare>,
    sprung: Vec<(Trap, NodeId, NodeId, Duration)>,
    /// Two sides that do not hear each other: one of them.
    side: BTreeSet<NodeId>,
    /// The first talks to nobody but the second.
    pair: Option<(NodeId, NodeId)>,
    apart_for: Duration,
    apart_until: Option<Duration>,
    /// The newest ballot that anyone was heard to lead.
    newest: Ballot,
}

impl Snares {
    pub(crate) fn new(laid: &[Snare]) -> Self {
        Snares {
            laid: laid.to_vec(),
            sprung: Vec::new(),
            side: BTreeSet::new(),
            pair: None,
            apart_for: Duration::ZERO,
            apart_until: None,
            newest: Ballot::default(),
        }
    }

    pub(crate) fn are_laid(&self) -> bool {
        !self.laid.is_empty()
    }

    /// A message passes; whether it is lost.
    pub(crate) fn pass(&mut self, from: NodeId, to: NodeId, msg: &Message, rng: &mut Rng) -> bool {
        let mut lost = self.are_apart(from, to);
        let newest = self.newest;
        if let Message::Append(append) = msg {
            self.newest = newest.max(append.ballot);
        }
        for snare in &self.laid {
            if !takes(snare.bait, msg, newest) || !rng.chance(snare.chance, 1_000) {
                continue;
            }
            let most = snare.span.as_micros() as u64;
            let span = Duration::from_micros(rng.between((most / 16).max(1), most.max(1)));
            match snare.trap {
                Trap::Lose => lost = true,
                Trap::Split if self.apart_for.is_zero() => {
                    self.side = side(from, msg);
                    self.apart_for = span;
                }
                Trap::Unbind(_) if self.apart_for.is_zero() => {
                    self.pair = Some((from, to));
                    self.apart_for = span * 2;
                    self.sprung.push((snare.trap, from, to, span));
                }
                Trap::Split | Trap::Unbind(_) => {}
                trap => self.sprung.push((trap, from, to, span)),
            }
        }
        lost
    }

    fn are_apart(&self, from: NodeId, to: NodeId) -> bool {
        let sides = self.side.contains(&from) != self.side.contains(&to);
        let pair = self
            .pair
            .is_some_and(|(one, other)| (from == one && to != other) || (to == one && from != other));
        sides || pair
    }

    /// Lets what was sprung strike. Who is cut off or dead now.
    pub(crate) fn spring(&mut self, agenda: &mut Agenda<Ask>) -> Vec<NodeId> {
        if !self.apart_for.is_zero() {
            let until = *self.apart_until.get_or_insert(agenda.now() + self.apart_for);
            if agenda.now() >= until {
                self.side.clear();
                self.pair = None;
                self.apart_for = Duration::ZERO;
                self.apart_until = None;
            }
        }
        let mut gone = Vec::new();
        for (trap, from, to, span) in mem::take(&mut self.sprung) {
            match trap {
                Trap::Crash => agenda.crash(Duration::ZERO, from, span),
                Trap::Amnesia => {
                    agenda.crash(Duration::ZERO, from, Duration::from_millis(1));
                    agenda.isolate(Duration::from_millis(1), to, span);
                    continue;
                }
                Trap::Unbind(ms) => {
                    agenda.crash(span, to, Duration::from_millis(2));
                    agenda.isolate(span, from, Duration::from_millis(ms));
                    continue;
                }
                Trap::Pause => {
                    agenda.pause(Duration::ZERO, from, span);
                    agenda.isolate(Duration::from_millis(5), from, span + Duration::from_millis(50));
                }
                Trap::Isolate => agenda.isolate(Duration::ZERO, from, span),
                Trap::Ruin => agenda.ruin(Duration::ZERO, from, span),
                Trap::Split | Trap::Lose => continue,
            }
            gone.push(from);
        }
        gone
    }
}

fn takes(bait: Bait, msg: &Message, newest: Ballot) -> bool {
    match (bait, msg) {
        (Bait::Prepare, Message::Prepare(prepare)) => !prepare.trial,
        (Bait::Promise, Message::Promise { trial, .. }) => !trial,
        (Bait::FirstWords, Message::Append(append)) => append.ballot > newest,
        (Bait::Beat, Message::Append(append)) => append.entries.is_empty(),
        (Bait::Entries, Message::Append(append)) => !append.entries.is_empty(),
        (Bait::OldEntries, Message::Append(append)) => {
            let old = |ballot: Ballot| ballot < append.ballot;
            append.entries.first().is_some_and(|entry| old(entry.ballot))
        }
        (Bait::Seal, Message::Append(append)) => {
            append.entries.iter().any(|entry| matches!(entry.content, Content::Seal(_)))
        }
        (Bait::Accepted, Message::Accepted { .. })
        | (Bait::Handover, Message::Handover { .. })
        | (Bait::Part, Message::Part(_))
        | (Bait::Retire, Message::Retire { .. }) => true,
        _ => false,
    }
}

/// The sender and whoever a seal in the message adds to the members: those who are neither sender nor former, as far as
/// the sealed list can tell, are split evenly by their numbers.
fn side(from: NodeId, msg: &Message) -> BTreeSet<NodeId> {
    let Message::Append(append) = msg else { return BTreeSet::from([from]) };
    let seals = append.entries.iter().filter_map(|entry| match &entry.content {
        Content::Seal(seal) => Some(&**seal),
        Content::Command(_) => None,
    });
    let mut side = BTreeSet::from([from]);
    for seal in seals {
        let count = seal.members.len();
        // Enough for a quorum of the new list, newest identities first: they are the likeliest to have just joined.
        let chosen = seal.members.iter().rev().map(|member| member.id).filter(|id| *id != from);
        side.extend(chosen.take(count / 2));
    }
    side
}
