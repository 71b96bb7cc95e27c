//! One connection of a client.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use quorate_api::{Outcome, Reason, Reply};
use quorate_kernel::Time;
use quorate_node::{ConnectionId, Ticket};
use quorate_resp::{Act, Answer, ClientRow, Parser, Protocol, Session, Then, World, render};

use crate::buffer::OutBuffer;
use crate::stats::Kind;

/// A command whose answer has not been rendered yet: answers leave in the order in which commands came.
#[derive(Debug)]
struct Slot {
    ticket: Ticket,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The node has it.
    Waiting(Pending),
    /// It waits for earlier ones only.
    Done(Option<Reply>, Protocol),
    /// It is answered when earlier ones are.
    Behind(Then),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) then: Then,
    pub(super) began: Time,
    pub(super) kind: Kind,
    pub(super) bytes: usize,
}

/// What a read left behind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All there was.
    Drained,
    /// There may be more: another turn.
    More,
    /// The client closed its side.
    Closed,
}

/// As long as nothing is known of a client's answers, few of its requests are under way.
const ANSWER_BYTES_FIRST: usize = 128 << 10;

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ConnectionId,
    pub(super) stream: TcpStream,
    address: String,
    local_address: String,
    pub(super) since: Time,
    /// When something last came or went.
    pub(super) active: Time,
    pub(super) parser: Parser,
    pub(super) session: Session,
    pub(super) input: BytesMut,
    pub(super) output: OutBuffer,
    slots: VecDeque<Slot>,
    /// What to expect of the next answer: as many bytes as the longest of late had.
    answer_bytes: usize,
    /// Requests the node has.
    pub(super) waiting: usize,
    /// Their bytes.
    pub(super) waiting_bytes: usize,
    /// Requests that a pause holds back.
    pub(super) paused: usize,
    /// There may be bytes to read.
    pub(super) readable: bool,
    /// It is on the list of those to be served in the next turn.
    pub(super) listed: bool,
    /// It is on the list of those with something to send.
    pub(super) unsent: bool,
    /// The system says that the client has closed its side; there may be bytes before that.
    pub(super) hung_up: bool,
    /// The client has closed its side, and all before that was read.
    pub(super) ended: bool,
    /// Nothing more is taken; it ends once everything owed is sent.
    pub(super) closing: bool,
    /// The node knows of it.
    pub(super) submitted: bool,
}

impl Client {
    pub(super) fn new(
        connection: quorate_resp::Connection,
        stream: TcpStream,
        limits: quorate_resp::Limits,
        now: Time,
    ) -> Client {
        Client {
            id: ConnectionId(connection.id),
            stream,
            address: connection.address.clone(),
            local_address: connection.local_address.clone(),
            since: now,
            active: now,
            parser: Parser::new(limits.clone()),
            session: Session::new(connection, limits),
            input: BytesMut::new(),
            output: OutBuffer::default(),
            slots: VecDeque::new(),
            answer_bytes: ANSWER_BYTES_FIRST,
            waiting: 0,
            waiting_bytes: 0,
            paused: 0,
            readable: false,
            listed: false,
            unsent: false,
            hung_up: false,
            ended: false,
            closing: false,
            submitted: false,
        }
    }

    /// Whether the next command may be taken: not too much is under way or waits to be sent.
    pub(super) fn may_take(&self, pipeline_max: usize, output_soft: usize) -> bool {
        let expected =
            self.output.waiting().saturating_add(self.slots.len().saturating_mul(self.answer_bytes));
        !self.closing
            && self.session.may_continue()
            && self.slots.len() < pipeline_max
            && (expected < output_soft || (self.slots.is_empty() && self.output.waiting() < output_soft))
    }

    /// Reads at most about `bytes_max` bytes.
    pub(super) fn read(&mut self, scratch: &mut [u8], bytes_max: usize) -> io::Result<(usize, Progress)> {
        let mut taken = 0;
        while taken < bytes_max {
            match self.stream.read(scratch) {
                Ok(0) => return Ok((taken, Progress::Closed)),
                Ok(count) => {
                    taken += count;
                    self.input.extend_from_slice(&scratch[..count]);
                    // A short read means that nothing is left, unless the end waits behind it.
                    if count < scratch.len() && !self.hung_up {
                        return Ok((taken, Progress::Drained));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((taken, Progress::Drained));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((taken, Progress::More))
    }

    /// The next command, if one has arrived whole.
    pub(super) fn next_command(&mut self, world: &dyn World) -> Result<Option<Vec<Bytes>>, Reply> {
        self.parser.restrict(self.session.needs_auth(world));
        let next = self.parser.next(&mut self.input).map_err(|error| error.reply());
        if self.input.is_empty() {
            // An idle connection keeps no buffer.
            self.input = BytesMut::new();
        }
        next
    }

    /// Takes the end of a command that the session answered by itself; returns what else is to be done.
    pub(super) fn answered(&mut self, ticket: Ticket, answer: Answer) -> Vec<Act> {
        let protocol = self.session.protocol();
        if self.slots.is_empty() {
            if let Some(reply) = &answer.reply {
                render(reply, protocol, self.output.tail());
            }
        } else {
            self.slots.push_back(Slot { ticket, content: Content::Done(answer.reply, protocol) });
        }
        answer.acts
    }

    /// Keeps the place of a command that the node has to answer.
    pub(super) fn submitted(&mut self, ticket: Ticket, pending: Pending) {
        self.waiting += 1;
        self.waiting_bytes += pending.bytes;
        self.submitted = true;
        self.slots.push_back(Slot { ticket, content: Content::Waiting(pending) });
    }

    /// Takes the end of a request; `None` if there is no such request (any more).
    pub(super) fn complete(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        world: &dyn World,
    ) -> Option<(Ended, Vec<Act>)> {
        let at = self.slots.binary_search_by_key(&ticket, |slot| slot.ticket).ok()?;
        let slot = self.slots.get_mut(at)?;
        if !matches!(slot.content, Content::Waiting(_)) {
            return None;
        }
        let Content::Waiting(pending) =
            std::mem::replace(&mut slot.content, Content::Done(None, Protocol::Resp2))
        else {
            return None;
        };
        let (told, protocol) = (
            Ended { began: pending.began, kind: pending.kind, bytes: pending.bytes },
            pending.then.protocol(),
        );
        self.waiting -= 1;
        self.waiting_bytes -= pending.bytes;
        let answer = self.session.complete(pending.then, outcome, world);
        slot.content = Content::Done(answer.reply, protocol);
        self.render_ready(world);
        Some((told, answer.acts))
    }

    /// Keeps the place of a command that is answered when all before it are.
    pub(super) fn behind(&mut self, ticket: Ticket, then: Then, world: &dyn World) {
        self.slots.push_back(Slot { ticket, content: Content::Behind(then) });
        self.render_ready(world);
    }

    /// Takes a reason of a request under way.
    pub(super) fn note(&mut self, ticket: Ticket, reason: Reason) {
        let Ok(at) = self.slots.binary_search_by_key(&ticket, |slot| slot.ticket) else { return };
        if let Content::Waiting(pending) = &mut self.slots[at].content {
            pending.then.note(reason);
        }
    }

    /// Renders the answers at the front that are there.
    fn render_ready(&mut self, world: &dyn World) {
        while let Some(slot) = self.slots.pop_front() {
            let (reply, protocol) = match slot.content {
                Content::Waiting(_) => {
                    self.slots.push_front(slot);
                    break;
                }
                Content::Done(reply, protocol) => (reply, protocol),
                Content::Behind(then) => {
                    let protocol = then.protocol();
                    // Whatever the outcome says: it says nothing here.
                    (self.session.complete(then, Outcome::Unknown, world).reply, protocol)
                }
            };
            if let Some(reply) = reply {
                let tail = self.output.tail();
                let before = tail.len();
                render(&reply, protocol, tail);
                let bytes = tail.len() - before;
                self.answer_bytes = bytes.max(self.answer_bytes - self.answer_bytes / 8);
            }
        }
        if self.slots.is_empty() && self.slots.capacity() > 64 {
            self.slots.shrink_to(8);
        }
    }

    /// Whether nothing is owed any more.
    pub(super) fn settled(&self) -> bool {
        self.slots.is_empty() && self.output.is_empty()
    }

    /// Its line of CLIENT LIST.
    pub(super) fn row(&self, now: Time) -> ClientRow {
        ClientRow {
            id: self.id.0,
            address: self.address.clone(),
            local_address: self.local_address.clone(),
            age_s: now.since(self.since).as_secs(),
            idle_s: now.since(self.active).as_secs(),
            input_bytes: self.input.len() as u64,
            output_bytes: self.output.waiting() as u64,
            session: self.session.facts(),
        }
    }
}

/// What is measured of a request that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) began: Time,
    pub(super) kind: Kind,
    pub(super) bytes: usize,
}
