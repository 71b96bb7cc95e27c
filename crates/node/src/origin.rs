//! Writes on their way from this node's clients into the log.
//!
//! The node has one session with the log. A write gets its number when it is first sent, and keeps it for ever; after
//! a doubt everything unanswered is sent again, in order, and the log applies each number once. Writes leave in order
//! through a window of bytes, behind a cursor that a doubt moves back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::{Outcome, Refusal, Request, SessionId};
use quorate_kernel::{NodeId, Time};
use quorate_replog::Index;
use quorate_shard::{BatchHeader, decode_reply, encode_batch};

use crate::config::Limits;
use crate::interface::{ClientRequest, ConnectionId, Ticket};

/// Where an answer belongs.
pub(crate) type Address = (ConnectionId, Ticket);

/// A write that has its number.
#[derive(Debug)]
struct Sent {
    request: Request,
    bytes: usize,
    taken_at: Time,
    /// `None`: nobody waits for the answer any more.
    address: Option<Address>,
    answered: bool,
}

/// A write that has none yet.
#[derive(Debug)]
struct Unsent {
    request: ClientRequest,
    bytes: usize,
    taken_at: Time,
}

/// The writes of this node.
#[derive(Debug)]
pub(crate) struct Origin {
    me: NodeId,
    session: SessionId,
    /// An entry the log had when the session began; not known until a leader has told.
    since: Option<Index>,
    /// Number of the first of `sent`.
    first_seq: u64,
    sent: VecDeque<Sent>,
    /// How many of `sent` are under way; the others are to be sent again.
    cursor: usize,
    cursor_bytes: usize,
    unsent: VecDeque<Unsent>,
    bytes: usize,
    /// Writes whose clients wait.
    awaited: usize,
    /// Whom everything before the cursor was sent to.
    pub(crate) target: Option<NodeId>,
    /// Nothing is sent before: the target did not take what it got.
    paused_until: Time,
    /// When something was last answered, or first sent.
    progressed: Time,
    /// How often in a row everything was sent again without an answer.
    doubts: u32,
    /// The last gap that was heeded, and when: many batches may complain of the same one.
    gap: (u64, Time),
}

impl Origin {
    pub(crate) fn new(me: NodeId) -> Self {
        Origin {
            me,
            session: SessionId(0),
            since: None,
            first_seq: 1,
            sent: VecDeque::new(),
            cursor: 0,
            cursor_bytes: 0,
            unsent: VecDeque::new(),
            bytes: 0,
            awaited: 0,
            target: None,
            paused_until: Time::default(),
            progressed: Time::default(),
            doubts: 0,
            gap: (0, Time::default()),
        }
    }

    /// Begins a new session, named by chance: no other may ever have had the name.
    pub(crate) fn begin_session(&mut self, chance: u64) {
        assert!(self.sent.is_empty(), "numbers belong to their session");
        self.session = SessionId(chance);
        self.since = None;
        self.first_seq = 1;
        (self.cursor, self.cursor_bytes) = (0, 0);
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// A leader told how far the log is.
    pub(crate) fn begun(&mut self, since: Index) {
        self.since.get_or_insert(since);
    }

    /// Whether a leader must tell how far the log is before anything can be sent.
    pub(crate) fn needs_beginning(&self) -> bool {
        self.since.is_none() && !self.unsent.is_empty()
    }

    /// Writes that are kept: not answered, or behind one that is not.
    pub(crate) fn count(&self) -> usize {
        self.sent.len() + self.unsent.len()
    }

    /// Writes whose clients wait.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Bytes of the writes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn take(&mut self, request: ClientRequest, taken_at: Time) {
        let bytes = size_of_request(&request.request);
        self.bytes += bytes;
        self.awaited += 1;
        self.unsent.push_back(Unsent { request, bytes, taken_at });
    }

    /// The next batch to send to the target, of what is to be sent again and then of what is new.
    pub(crate) fn next_batch(&mut self, limits: &Limits, now: Time) -> Option<Bytes> {
        let since = self.since?;
        if now < self.paused_until || self.cursor_bytes >= limits.window_bytes_max {
            return None;
        }
        let first = self.cursor;
        let mut bytes = 0;
        loop {
            let next = match self.sent.get(self.cursor) {
                Some(sent) => Some(sent.bytes),
                None => self.unsent.front().map(|unsent| unsent.bytes),
            };
            let Some(next) = next.filter(|next| bytes == 0 || bytes + next <= limits.batch_bytes_max) else {
                break;
            };
            if self.cursor == self.sent.len() {
                self.number_next();
            }
            bytes += next;
            self.cursor += 1;
        }
        if self.cursor == first {
            return None;
        }
        if first == 0 {
            self.progressed = now;
        }
        self.cursor_bytes += bytes;
        let header = BatchHeader {
            origin: self.me,
            session: self.session,
            first_seq: self.first_seq + first as u64,
            count: (self.cursor - first) as u64,
            settled_before: self.first_seq,
            since,
        };
        Some(encode_batch(&header, self.sent.range(first..self.cursor).map(|sent| &sent.request)))
    }

    fn number_next(&mut self) {
        if let Some(Unsent { request, bytes, taken_at }) = self.unsent.pop_front() {
            let address = Some((request.connection, request.ticket));
            self.sent.push_back(Sent { request: request.request, bytes, taken_at, address, answered: false });
        }
    }

    /// Everything from number `from` on is to be sent again.
    fn rewind(&mut self, from: u64) {
        let place = usize::try_from(from.saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        if place < self.cursor {
            let again: usize = self.sent.range(place..self.cursor).map(|sent| sent.bytes).sum();
            self.cursor_bytes -= again;
            self.cursor = place;
        }
    }

    /// Sends to `target` from now on; what another did not answer is sent again.
    pub(crate) fn turn_to(&mut self, target: NodeId) {
        if self.target != Some(target) {
            self.target = Some(target);
            self.paused_until = Time::default();
            self.doubts = 0;
            self.rewind(0);
        }
    }

    /// The target said that it did not take something.
    pub(crate) fn pause(&mut self, until: Time) {
        self.paused_until = until;
        self.rewind(0);
    }

    /// The target takes batches now.
    pub(crate) fn resume(&mut self) {
        self.paused_until = Time::default();
        self.rewind(0);
    }

    /// The target lacks what is before some batch. Returns whether that is news.
    pub(crate) fn gap(&mut self, expected: u64, retry: Duration, now: Time) -> bool {
        let (same, heeded) = (self.gap.0 == expected, now.since(self.gap.1) < retry);
        if expected < self.first_seq || (same && heeded) {
            return false;
        }
        self.gap = (expected, now);
        self.rewind(expected);
        true
    }

    /// Whether nothing was answered for so long that everything under way is to be sent again, which it then is. Each
    /// time in a row it takes twice as long: a slow leader must not be buried under repetitions.
    pub(crate) fn doubts(&mut self, retry: Duration, now: Time) -> bool {
        const DOUBLINGS_MAX: u32 = 4;
        let patience = retry * (1 << self.doubts.min(DOUBLINGS_MAX));
        if self.cursor == 0 || now.since(self.progressed) < patience {
            return false;
        }
        self.doubts += 1;
        self.rewind(0);
        true
    }

    /// Who waits for the answer to the request of this number.
    pub(crate) fn address(&self, session: SessionId, seq: u64) -> Option<Address> {
        let place = seq.checked_sub(self.first_seq).filter(|_| session == self.session)?;
        self.sent.get(usize::try_from(place).ok()?)?.address
    }

    /// Requests from `first_seq` on were applied.
    pub(crate) fn answered(
        &mut self,
        first_seq: u64,
        replies: &[Bytes],
        now: Time,
    ) -> Vec<(Address, Outcome)> {
        let mut ends = Vec::with_capacity(replies.len());
        for (reply, seq) in replies.iter().zip(first_seq..) {
            let place = seq.checked_sub(self.first_seq).and_then(|place| usize::try_from(place).ok());
            let Some(sent) = place.and_then(|place| self.sent.get_mut(place)) else { continue };
            if core::mem::replace(&mut sent.answered, true) {
                continue;
            }
            if let Some(address) = sent.address.take() {
                self.awaited -= 1;
                // A reply that cannot be read, or is no longer known, leaves open what happened.
                let outcome = decode_reply(reply).ok().flatten().map_or(Outcome::Unknown, Outcome::Done);
                ends.push((address, outcome));
            }
        }
        while self.sent.front().is_some_and(|sent| sent.answered) {
            if let Some(sent) = self.sent.pop_front() {
                self.bytes -= sent.bytes;
                self.first_seq += 1;
                self.progressed = now;
                self.doubts = 0;
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.cursor_bytes -= sent.bytes;
                }
            }
        }
        ends
    }

    /// The log does not know the session: what was sent may have happened, and a retry could make it happen twice.
    pub(crate) fn session_lost(&mut self) -> Vec<(Address, Outcome)> {
        let mut ends = Vec::new();
        for sent in self.sent.drain(..) {
            self.bytes -= sent.bytes;
            ends.extend(sent.address.map(|address| (address, Outcome::Unknown)));
        }
        self.awaited -= ends.len();
        ends
    }

    /// A mutant: what was sent forgets its numbers.
    pub(crate) fn forget_numbers(&mut self) {
        while let Some(sent) = self.sent.pop_back() {
            let Some((connection, ticket)) = sent.address else {
                self.bytes -= sent.bytes;
                continue;
            };
            let consistency = quorate_api::Consistency::Strict;
            let request =
                ClientRequest { connection, ticket, request: sent.request, consistency, identity: None };
            self.unsent.push_front(Unsent { request, bytes: sent.bytes, taken_at: sent.taken_at });
        }
    }

    /// What has waited for longer than `deadline` ends: unsent writes certainly did not happen.
    pub(crate) fn overdue(
        &mut self,
        deadline: Duration,
        refused: bool,
        now: Time,
    ) -> Vec<(Address, Outcome)> {
        let mut ends = Vec::new();
        let end = if refused { Outcome::Refused(Refusal::NoLeader) } else { Outcome::Unknown };
        for sent in &mut self.sent {
            if now.since(sent.taken_at) < deadline {
                break;
            }
            ends.extend(sent.address.take().map(|address| (address, end.clone())));
        }
        self.awaited -= ends.len();
        while self.unsent.front().is_some_and(|unsent| now.since(unsent.taken_at) >= deadline) {
            ends.extend(self.refuse_front(Refusal::NoLeader));
        }
        ends
    }

    /// Ends everything unsent.
    pub(crate) fn refuse_unsent(&mut self, refusal: Refusal) -> Vec<(Address, Outcome)> {
        let mut ends = Vec::new();
        while let Some(end) = self.refuse_front(refusal) {
            ends.push(end);
        }
        ends
    }

    fn refuse_front(&mut self, refusal: Refusal) -> Option<(Address, Outcome)> {
        let unsent = self.unsent.pop_front()?;
        self.bytes -= unsent.bytes;
        self.awaited -= 1;
        Some(((unsent.request.connection, unsent.request.ticket), Outcome::Refused(refusal)))
    }

    /// A connection is gone: its unsent writes never happen.
    pub(crate) fn forget_unsent(&mut self, connection: ConnectionId) -> usize {
        let before = self.unsent.len();
        let bytes = &mut self.bytes;
        self.unsent.retain(|unsent| {
            let keep = unsent.request.connection != connection;
            *bytes -= if keep { 0 } else { unsent.bytes };
            keep
        });
        let forgotten = before - self.unsent.len();
        self.awaited -= forgotten;
        forgotten
    }

    pub(crate) fn check(&self) {
        assert!(self.cursor <= self.sent.len());
        let sent = self.sent.iter().map(|sent| sent.bytes);
        assert_eq!(self.cursor_bytes, sent.clone().take(self.cursor).sum(), "bytes before the cursor");
        let unsent = self.unsent.iter().map(|unsent| unsent.bytes);
        assert_eq!(self.bytes, sent.chain(unsent).sum(), "bytes of all writes");
        let awaited = self.sent.iter().filter(|sent| sent.address.is_some()).count();
        assert_eq!(self.awaited, awaited + self.unsent.len(), "writes whose clients wait");
    }
}

/// Bytes a request occupies, roughly.
pub(crate) fn size_of_request(request: &Request) -> usize {
    const BASE: usize = 32;
    let of_args = |args: &[Bytes]| args.iter().map(|arg| arg.len() + 8).sum::<usize>();
    BASE + match request {
        Request::One(command) => of_args(&command.args),
        Request::Versions(keys) => of_args(keys),
        Request::Collect { part, known, .. } => part.len() + known.len() * 8,
        Request::Transaction { watched, commands } => {
            let watched: usize = watched.iter().map(|(key, _)| key.len() + 16).sum();
            watched + commands.iter().map(|command| BASE + of_args(&command.args)).sum::<usize>()
        }
    }
}
