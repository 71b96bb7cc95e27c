//! Connections that other nodes opened: messages come in here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::time::Duration;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use quorate_kernel::{NodeId, Time, frame};

use super::hello::{self, Answer, FRAME_VERSION, KIND_MESSAGE, Myself, Refused};
use crate::config::Peers as Config;
use crate::founding;
use crate::token;

/// Bytes read from one connection before the others get their turn.
const TURN_BYTES: usize = 1 << 20;
/// Capacity that an empty buffer may keep.
const KEPT_BYTES: usize = 64 << 10;
/// How many nodes that introduced themselves are remembered. First members, which are given their ids, come early.
const MET_MAX: usize = 4_096;

/// What happened on inbound connections since the last call.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes_in: u64,
    pub(crate) messages_in: u64,
    pub(crate) refused: u64,
    pub(crate) garbage: u64,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Known once it has introduced itself.
    from: Option<NodeId>,
    deadline: Time,
    /// Whether there may be more to read.
    readable: bool,
    /// The system says that the other side has closed; there may be bytes before that.
    hung_up: bool,
}

/// All inbound connections.
#[derive(Debug)]
pub(crate) struct Inbound {
    listener: TcpListener,
    connections: BTreeMap<usize, Connection>,
    next: usize,
    config: Config,
    scratch: Vec<u8>,
    /// Somebody may wait at the door; not before this time.
    accept_at: Option<Time>,
    /// Connections that may have more to read.
    unread: Vec<usize>,
    /// Who has introduced itself, up to [`MET_MAX`] of them: an id that comes with an empty directory must not be one of these.
    met: BTreeSet<NodeId>,
    pub(crate) counts: Counts,
}

/// Who introduced itself, with its own words about where it is.
pub(crate) type Introduced = (NodeId, quorate_node::Endpoints);

impl Inbound {
    pub(crate) fn new(listener: TcpListener, config: Config) -> Inbound {
        Inbound {
            listener,
            connections: BTreeMap::new(),
            next: 0,
            config,
            scratch: vec![0; 64 << 10],
            accept_at: None,
            unread: Vec::new(),
            met: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn listener(&mut self) -> &mut TcpListener {
        &mut self.listener
    }

    /// Somebody waits at the door.
    pub(crate) fn door(&mut self, now: Time) {
        self.accept_at = Some(now);
    }

    /// When to accept whoever waits.
    pub(crate) fn accept_at(&self) -> Option<Time> {
        self.accept_at
    }

    /// Accepts whoever waits.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        if self.accept_at.is_none_or(|at| at > now) {
            return;
        }
        self.accept_at = self.accept_all(registry, now).err().map(|error| {
            tracing::warn!(%error, "cannot accept peers; resting a moment");
            now + crate::accept::PAUSE
        });
    }

    /// An error that is not about one connection (no more descriptors) is returned.
    fn accept_all(&mut self, registry: &Registry, now: Time) -> io::Result<()> {
        loop {
            let (mut stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if crate::accept::concerns_one(&error) => continue,
                Err(error) => return Err(error),
            };
            if self.connections.len() >= self.config.connections_max {
                tracing::warn!(%address, limit = self.config.connections_max, "too many peer connections: closed");
                self.counts.refused += 1;
                continue;
            }
            self.next += 1;
            let index = self.next;
            crate::accept::set_options(&stream, Duration::from_millis(self.config.silent_ms));
            if registry.register(&mut stream, token::peer_in(index), Interest::READABLE).is_err() {
                continue;
            }
            let deadline = now + Duration::from_millis(self.config.handshake_ms);
            let connection = Connection {
                stream,
                input: Vec::new(),
                from: None,
                deadline,
                readable: false,
                hung_up: false,
            };
            self.connections.insert(index, connection);
        }
    }

    /// Notes that there is something to read.
    pub(crate) fn ready(&mut self, event: &Event) {
        let index = token::index(event.token());
        let Some(connection) = self.connections.get_mut(&index) else { return };
        connection.hung_up |= event.is_read_closed() || event.is_error();
        if !connection.readable {
            connection.readable = true;
            self.unread.push(index);
        }
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Number of nodes that are connected.
    pub(crate) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Reads from every ready connection. `take` gets each message and says whether it decoded. Returns who
    /// introduced itself.
    pub(crate) fn read(
        &mut self,
        me: &Myself,
        mut take: impl FnMut(NodeId, &[u8]) -> bool,
    ) -> Vec<Introduced> {
        let mut introduced = Vec::new();
        for index in std::mem::take(&mut self.unread) {
            let Some(mut connection) = self.connections.remove(&index) else { continue };
            match self.read_one(&mut connection, me, &mut take, &mut introduced) {
                Ok(()) => {
                    if connection.readable {
                        self.unread.push(index);
                    }
                    self.connections.insert(index, connection);
                }
                Err(reason) => {
                    let address = connection.stream.peer_addr().ok();
                    match reason {
                        None => {
                            tracing::debug!(?address, from = ?connection.from, "a peer closed its connection")
                        }
                        Some(reason) => {
                            tracing::warn!(?address, from = ?connection.from, %reason, "peer connection closed")
                        }
                    }
                }
            }
        }
        for (id, _) in &introduced {
            self.keep_newest(*id);
            if self.met.len() < MET_MAX {
                self.met.insert(*id);
            }
        }
        introduced
    }

    /// Reads and cuts; an error ends the connection (`None`: the other side closed it).
    fn read_one(
        &mut self,
        connection: &mut Connection,
        me: &Myself,
        take: &mut impl FnMut(NodeId, &[u8]) -> bool,
        introduced: &mut Vec<Introduced>,
    ) -> Result<(), Option<String>> {
        let mut taken = 0;
        let mut closed = false;
        while taken < TURN_BYTES {
            match connection.stream.read(&mut self.scratch) {
                Ok(0) => {
                    closed = true;
                    break;
                }
                Ok(count) => {
                    taken += count;
                    connection.input.extend_from_slice(&self.scratch[..count]);
                    // A short read means that nothing is left, unless the end waits behind it.
                    if count < self.scratch.len() && !connection.hung_up {
                        connection.readable = false;
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.readable = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Some(error.to_string())),
            }
        }
        self.counts.bytes_in += taken as u64;
        let cut = self.cut(connection, me, take, introduced)?;
        connection.input.drain(..cut);
        if connection.input.is_empty() {
            connection.input.shrink_to(KEPT_BYTES);
        }
        if closed { Err(None) } else { Ok(()) }
    }

    /// Hands out all whole frames; returns the bytes they took.
    fn cut(
        &mut self,
        connection: &mut Connection,
        me: &Myself,
        take: &mut impl FnMut(NodeId, &[u8]) -> bool,
        introduced: &mut Vec<Introduced>,
    ) -> Result<usize, Option<String>> {
        let mut at = 0;
        let from = match connection.from {
            Some(from) => from,
            None => {
                if let Some(question) = founding::read_question(&connection.input) {
                    let mut answer = Vec::new();
                    founding::put_said(&mut answer, &me.answer(&question, self.met.contains(&question.id)));
                    // It fits the system's buffer; and the connection was for nothing else.
                    let _ = io::Write::write(&mut connection.stream, &answer);
                    return Err(None);
                }
                let read = hello::read_hello(&connection.input);
                let read = read.inspect_err(|_| self.counts.garbage += 1).map_err(Some)?;
                let Some((greeting, bytes)) = read else { return Ok(0) };
                at = bytes;
                self.answer(connection, me, &greeting)?;
                introduced.push((greeting.id, greeting.endpoints));
                connection.from = Some(greeting.id);
                greeting.id
            }
        };
        let limit = self.config.frame_bytes_max.get();
        loop {
            let cut =
                frame::cut(&connection.input[at..], FRAME_VERSION, limit).map_err(|error| error.to_string());
            let frame = match cut {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(at),
                Err(reason) => {
                    self.counts.garbage += 1;
                    return Err(Some(reason));
                }
            };
            if frame.kind != KIND_MESSAGE || !take(from, frame.payload) {
                self.counts.garbage += 1;
                return Err(Some(format!("a frame of kind {} that does not decode", frame.kind)));
            }
            self.counts.messages_in += 1;
            at += frame.bytes;
        }
    }

    /// Answers a greeting; an error if it is refused.
    fn answer(
        &mut self,
        connection: &mut Connection,
        me: &Myself,
        greeting: &hello::Hello,
    ) -> Result<(), Option<String>> {
        let mut bytes = Vec::new();
        let judged = me.judge(greeting);
        let answer = match judged.clone() {
            Ok(welcome) => Answer::Welcome(welcome),
            Err(reason) => Answer::Refused(Refused { reason }),
        };
        hello::put_answer(&mut bytes, &answer);
        // The first bytes on a fresh connection fit the system's buffer; if not, the other side tries again.
        let sent = io::Write::write(&mut connection.stream, &bytes);
        if let Err(reason) = judged {
            self.counts.refused += 1;
            return Err(Some(format!("refused node {}: {reason}", greeting.id)));
        }
        match sent {
            Ok(count) if count == bytes.len() => Ok(()),
            _ => Err(Some("the answer to its greeting could not be sent".into())),
        }
    }

    /// A node that connects again has lost its older connection, even if nobody noticed.
    fn keep_newest(&mut self, id: NodeId) {
        let newest =
            self.connections.iter().rev().find(|(_, one)| one.from == Some(id)).map(|(index, _)| *index);
        self.connections.retain(|index, one| one.from != Some(id) || Some(*index) == newest);
    }

    /// Closes connections that have not introduced themselves in time.
    pub(crate) fn expire(&mut self, now: Time) {
        let before = self.connections.len();
        self.connections.retain(|_, one| one.from.is_some() || one.deadline > now);
        self.counts.garbage += (before - self.connections.len()) as u64;
    }
}
