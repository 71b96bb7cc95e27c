//! Strict reads: at the primary, and at copies that were told how far they have to be.
//!
//! A read is answered from a state that contains every entry that was known to be chosen when it came, and in which nothing
//! is prepared any more that one of these had prepared to change what it looks at: its outcome may be known elsewhere. What is
//! prepared by later entries was decided after the read came, and one of a single key does not wait for it: or a stream of transactions would keep it
//! waiting for ever. One of several keys does: while it waited for one of them, a transaction on the second may have been prepared, decided and acknowledged, and
//! what came of that may be seen on a third. So that it comes to an end nevertheless, it keeps a place among transactions from its second look on, as a batch
//! does that waits. All this follows from the log, so a copy answers as the primary does, once the
//! primary, certain of leading, has told it an entry. What has to wait for an outcome, or for an entry of its own (a key whose
//! time is over by this clock and not by the log), is left to the primary.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use quorate_api::{Reply, Request};
use quorate_commit::locks::Want;
use quorate_commit::{LogId, TransactionId};
use quorate_kernel::{Cx, Event, NodeId};
use quorate_replog::{self as replog, Index};
use quorate_values::by_code;

use crate::Mutant;
use crate::collect::say_waited;
use crate::holds::hold_of;
use crate::machine::{Out, Output, Shard};
use crate::part::{Place, wants_of};
use crate::reasons::Asked;
use crate::shield::{Shield, Standing};
use crate::view::View;

/// Reads that a copy lets wait for entries, each of many requests; more are refused, and asked of the primary.
const AT_COPY_MAX: usize = 256;

/// For so long a read keeps others from what it wants, in milliseconds: its client may have gone, and what it waits for may take long.
const PLACE_MAX_MS: u64 = 1_000;

/// A read under way.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The newest entry that was known to be chosen when it came, or a later one.
    pub(crate) index: Index,
    pub(crate) ticket: u64,
    pub(crate) requests: Vec<Request>,
    /// Whether it has waited for a transaction, or for what it holds.
    pub(crate) has_waited: bool,
    /// Its place among transactions, if it keeps one.
    place: Option<TransactionId>,
}

impl Reading {
    pub(crate) fn new(index: Index, ticket: u64, requests: Vec<Request>) -> Self {
        Reading { index, ticket, requests, has_waited: false, place: None }
    }

    fn answer(&self, view: &mut View<'_>, request: &Request) -> Reply {
        let mut reply = crate::run::run_request(view, request);
        if self.has_waited && matches!(request, Request::Collect { .. }) {
            say_waited(&mut reply);
        }
        reply
    }
}

/// A transaction that a read waits for, and what the read wants, if it is of several keys.
type InTheWay = (Standing, Option<Vec<Want<Place>>>);

/// Whether what a request sees must be of one moment: several keys, or all. Stamps of a collect are compared, and so are versions that are watched; and whoever
/// scans sees many moments anyway.
fn is_of_several(request: &Request, wants: &[Want<Place>]) -> bool {
    let is_exempt = match request {
        Request::Collect { .. } | Request::Versions(_) => true,
        Request::One(command) => by_code(command.code).is_some_and(|spec| spec.name == "scan"),
        Request::Transaction { .. } => false,
    };
    let mut keys = wants.iter().map(|want| &want.key).filter(|key| **key != Place::Everybody);
    let first = keys.next();
    !is_exempt && (first == Some(&Place::Keyspace) || keys.any(|key| Some(key) != first))
}

/// What the log was asked for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// These are to be answered here.
    Answers { ticket: u64, requests: Vec<Request> },
    /// A copy is to answer.
    Index { ticket: u64, replica: NodeId },
}

impl Wanted {
    fn ticket(&self) -> u64 {
        match self {
            Wanted::Answers { ticket, .. } | Wanted::Index { ticket, .. } => *ticket,
        }
    }
}

/// The reads of a shard.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// What the log has not allowed yet, by the log's ticket.
    asked: BTreeMap<u64, Wanted>,
    tickets: u64,
    /// Allowed reads that wait for an entry to be applied.
    allowed: VecDeque<Reading>,
    /// The same for those of a copy, by the entry and their tickets: what it is told may overtake what it was told before.
    at_copy: BTreeMap<(Index, u64), Reading>,
    /// Allowed reads that wait for logged time to pass a key's expiry.
    untimely: Vec<Reading>,
    /// Allowed reads that wait for the outcome of transactions; each with one of these, if it is known which.
    behind: Vec<(Option<Standing>, Reading)>,
}

impl Reads {
    /// The log does not allow it.
    pub(crate) fn refused(&mut self, ticket: u64, out: &mut Out) {
        if let Some(asked) = self.asked.remove(&ticket) {
            out.output(Output::ReadRefused { ticket: asked.ticket() });
        }
    }

    /// Who leads has changed, or is not known: what may need an entry of this node's is asked elsewhere.
    pub(crate) fn led_elsewhere(&mut self, out: &mut Out) {
        let behind = self.behind.drain(..).map(|(_, reading)| reading);
        for reading in self.untimely.drain(..).chain(behind) {
            out.output(Output::ReadRefused { ticket: reading.ticket });
        }
    }
}

impl Shard {
    /// Asks the log whether, and as of which entry, something may be read.
    pub(crate) fn ask_log(&mut self, cx: &mut Cx<'_>, wanted: Wanted, out: &mut Out) {
        self.reads.tickets += 1;
        self.reads.asked.insert(self.reads.tickets, wanted);
        self.step_log(cx, Event::Input(replog::Input::Read(self.reads.tickets)), out);
    }

    /// The log allows a read as of entry `index`.
    pub(crate) fn read_allowed(&mut self, cx: &mut Cx<'_>, ticket: u64, index: Index, out: &mut Out) {
        match self.reads.asked.remove(&ticket) {
            Some(Wanted::Answers { ticket, requests }) => {
                self.reads.allowed.push_back(Reading::new(index, ticket, requests));
                self.serve_reads(cx, out);
            }
            Some(Wanted::Index { ticket, replica }) => {
                // It is chosen: a quorum's disks have it.
                out.output_early(Output::ReadIndex { ticket, index });
                self.step_log(cx, Event::Input(replog::Input::Inform(replica)), out);
            }
            None => {}
        }
    }

    /// Takes reads that this copy is to answer once it has applied the entry that the primary named.
    pub(crate) fn read_at(&mut self, cx: &mut Cx<'_>, reading: Reading, out: &mut Out) {
        let index = if self.limits.breaks(Mutant::CopiesReadAtOnce) { 0 } else { reading.index };
        if self.reads.at_copy.len() >= AT_COPY_MAX {
            cx.marks.hit("shard.read.copy_full");
            return out.output(Output::ReadRefused { ticket: reading.ticket });
        }
        if index > self.log.applied() {
            cx.marks.hit("shard.read.copy_waits");
        }
        self.reads.at_copy.insert((index, reading.ticket), reading);
        self.serve_reads(cx, out);
    }

    /// Answers from the state as it is here now, however old.
    pub fn read_relaxed(&self, cx: &mut Cx<'_>, request: &Request) -> Reply {
        let area = self.log.data_prefix();
        let (now_ms, seed) = (cx.wall.unix_ms, cx.rng.next_u64());
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, now_ms, seed);
        crate::run::run_request(&mut view, request)
    }

    /// Answers the allowed reads whose entry is applied.
    pub(crate) fn serve_reads(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        while let Some(reading) = self.reads.allowed.front() {
            if reading.index > self.log.applied() && !self.limits.breaks(Mutant::ReadBeforeApplied) {
                break;
            }
            if let Some(reading) = self.reads.allowed.pop_front() {
                self.serve(cx, reading, out);
            }
        }
        while let Some(first) = self.reads.at_copy.first_entry()
            && first.key().0 <= self.log.applied()
        {
            let reading = first.remove();
            self.serve(cx, reading, out);
        }
        let shield = &self.transactions.shield;
        let free = self
            .reads
            .behind
            .extract_if(.., |(behind, _)| !behind.is_some_and(|standing| shield.stands(standing)));
        for (_, reading) in free.collect::<Vec<_>>() {
            self.serve(cx, reading, out);
        }
        if !self.reads.untimely.is_empty() {
            let now_ms = self.state.now_ms;
            let waiting = core::mem::take(&mut self.reads.untimely);
            // Time has gone on, or leadership will be lost: each pass makes progress or waits for the next entry.
            for reading in waiting {
                if now_ms >= self.ticked_ms || !self.log.leads() {
                    self.serve(cx, reading, out);
                } else {
                    self.reads.untimely.push(reading);
                }
            }
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, mut reading: Reading, out: &mut Out) {
        if self.waits_to_hold(cx, &mut reading, out) {
            return self.reads.behind.push((None, reading));
        }
        let area = self.log.data_prefix();
        let now_ms = cx.wall.unix_ms;
        let seed = cx.rng.next_u64();
        let mut view = View::reading(&*cx.store, &self.limits, area, self.state, now_ms, seed);
        view.shield = core::mem::take(&mut self.transactions.shield);
        let (mut replies, mut bytes) = (Vec::with_capacity(reading.requests.len()), 0);
        let (mut waits, mut behind) = (false, None);
        let mut reasons = Vec::new();
        for request in &reading.requests {
            if let Some(standing) = self.in_the_way(&view.shield, request, reading.index) {
                // Its outcome may be known elsewhere, and what is seen here must not be older.
                cx.marks.hit("shard.read.waits_for_transaction");
                (waits, behind) = (replies.is_empty(), Some(standing));
                break;
            }
            let reply = reading.answer(&mut view, request);
            if view.leans {
                // A key is past its time and there only because a transaction that found it waits for its outcome: whoever
                // sees it now would see it for as long as that takes.
                cx.marks.hit("shard.read.leans");
                waits = replies.is_empty();
                break;
            }
            bytes += reply.size_bytes();
            if bytes > self.limits.replies_bytes_max && !replies.is_empty() {
                cx.marks.hit("shard.read.answered_in_part");
                break;
            }
            if let Some(moved) = view.outrun.take() {
                let (name, place) = (reading.ticket, replies.len() as u32);
                reasons.push((
                    Asked::Read { name, place },
                    self.writers.reason(LogId(self.log.number().into()), moved),
                ));
            }
            replies.push(reply);
        }
        self.transactions.shield = core::mem::take(&mut view.shield);
        if waits {
            return self.wait_for(cx, behind, reading, out);
        }
        if view.expiry_pending.is_none() || self.limits.breaks(Mutant::ExpiryByLocalClock) {
            // What was read is chosen and applied: other nodes' disks have it, and why nothing was.
            for (asked, reason) in reasons {
                out.output_early(Output::Reason { to: None, asked, reason });
            }
            let (ticket, applied, answered) = (reading.ticket, self.log.applied(), replies.len());
            out.output_early(Output::Read { ticket, applied, replies });
            for hold in reading.requests.iter().take(answered).filter_map(hold_of) {
                self.answered_hold(cx, hold, out);
            }
            return self.leave_place(cx, reading.place, out);
        }
        // By this clock a key has expired, but the log does not say so yet. Were it read as gone now, another leader
        // with a slower clock could show it again: let the log decide, then read.
        cx.marks.hit("shard.read.waits_for_expiry");
        if self.takes_batches() {
            self.reads.untimely.push(reading);
            self.tick(cx, now_ms, out);
        } else {
            out.output(Output::ReadRefused { ticket: reading.ticket });
            self.leave_place(cx, reading.place, out);
        }
    }

    /// What a read waits for that came when `index` was the newest entry.
    fn in_the_way(&self, shield: &Shield, request: &Request, index: Index) -> Option<InTheWay> {
        let passes = self.limits.breaks(Mutant::ReadsPassTransactions)
            || (self.limits.breaks(Mutant::CopiesPassTransactions) && !self.log.leads());
        if passes || shield.is_empty() {
            return None;
        }
        let wants = wants_of(request);
        let of_several = is_of_several(request, &wants) && !self.limits.breaks(Mutant::SeveralReadApart);
        let standing = shield.in_the_way(&wants, if of_several { self.log.applied() } else { index })?;
        Some((standing, of_several.then_some(wants)))
    }

    /// A read waits for the outcome of a transaction, if it is known which. One of several keys that has waited before keeps a place from now on.
    fn wait_for(&mut self, cx: &mut Cx<'_>, behind: Option<InTheWay>, mut reading: Reading, out: &mut Out) {
        if !self.log.leads() {
            // The primary knows the outcome first; this copy would perhaps hear of it with the next beat.
            cx.marks.hit("shard.read.copy_leaves");
            return out.output_early(Output::ReadRefused { ticket: reading.ticket });
        }
        let has_waited = core::mem::replace(&mut reading.has_waited, true);
        let (standing, wants) = behind.unzip();
        if has_waited && let Some(wants) = wants.flatten() {
            cx.marks.hit("shard.read.keeps_place");
            let transactions = &mut self.transactions;
            let id = *reading.place.get_or_insert_with(|| transactions.place(cx.wall.unix_ms));
            transactions.desk.locks.keep_place(id, &wants);
            let owners = transactions.desk.locks.pass(id, &wants).err().unwrap_or_default();
            self.commit(cx, out, |commit, turn| commit.wanted_by(turn, id, &owners));
        }
        self.reads.behind.push((standing, reading));
    }

    /// Reads that have kept places for long keep them no more.
    pub(crate) fn leave_old_places(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let is_old = |place: &mut TransactionId| cx.wall.unix_ms.saturating_sub(place.age) >= PLACE_MAX_MS;
        let behind = self.reads.behind.iter_mut();
        let old: Vec<TransactionId> =
            behind.filter_map(|(_, reading)| reading.place.take_if(is_old)).collect();
        old.into_iter().for_each(|place| self.leave_place(cx, Some(place), out));
    }

    /// A read is answered, and in nobody's way any more.
    pub(crate) fn leave_place(&mut self, cx: &mut Cx<'_>, place: Option<TransactionId>, out: &mut Out) {
        let Some(id) = place else { return };
        self.transactions.desk.released = true;
        let woken = self.transactions.desk.locks.release(id);
        self.commit(cx, out, |commit, turn| commit.may_go_on(turn, woken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_api::Command;

    #[test]
    fn one_moment_matters_to_whoever_sees_several_keys() {
        let command = |words: &[&'static str]| Command {
            code: quorate_values::find(words[0].as_bytes()).expect("a command").code,
            args: words[1..].iter().map(|word| Bytes::from_static(word.as_bytes())).collect(),
        };
        let several = |request: &Request| is_of_several(request, &wants_of(request));
        let one = |words: &[&'static str]| several(&Request::One(command(words)));
        assert_eq!(
            [one(&["get", "x"]), one(&["mget", "x", "x"]), one(&["mget", "x", "y"])],
            [false, false, true]
        );
        assert_eq!([one(&["dbsize"]), one(&["scan", "0"])], [true, false]);
        let commands = [command(&["get", "x"]), command(&["get", "y"])].into();
        assert!(several(&Request::Transaction { watched: Vec::new(), commands }));
        assert!(!several(&Request::Versions(["x", "y"].map(Bytes::from).into())));
    }
}
