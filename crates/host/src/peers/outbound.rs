//! Connections that this node opens: its messages go out here.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry};
use quorate_kernel::{NodeId, Rng, Time, frame};

use super::hello::{self, Answer, FRAME_VERSION, GREETING_BYTES_MAX, KIND_MESSAGE, Myself, Welcome};
use crate::buffer::OutBuffer;
use crate::config::Peers as Config;
use crate::token;

/// How far a connection is.
#[derive(Debug)]
enum State {
    /// Dials again at this time.
    Waiting { until: Time },
    /// The name is being looked up.
    Resolving,
    /// Connecting, or introducing itself.
    Greeting { stream: TcpStream, connected: bool, deadline: Time, input: Vec<u8> },
    /// Messages may be sent.
    Standing { stream: TcpStream },
}

/// What became of a connection.
#[derive(Debug)]
pub(crate) enum Change {
    /// Nothing to tell.
    None,
    /// It stands.
    Connected(Welcome),
    /// It stood and broke.
    Lost,
}

/// One address that is dialed until it is not wanted any more.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) index: usize,
    pub(crate) address: String,
    /// Who is to be found there; `None` where only an address is known.
    expected: Option<NodeId>,
    /// Who is expected, or was found.
    pub(crate) id: Option<NodeId>,
    state: State,
    output: OutBuffer,
    /// Failed attempts in a row.
    failures: u32,
    /// The reason last told, so that the same one is not told at each attempt.
    told: Option<String>,
    pub(crate) messages_out: u64,
    pub(crate) dropped: u64,
    pub(crate) bytes_out: u64,
}

impl Outbound {
    pub(crate) fn new(index: usize, address: String, id: Option<NodeId>, now: Time) -> Outbound {
        Outbound {
            index,
            address,
            expected: id,
            id,
            state: State::Waiting { until: now },
            output: OutBuffer::default(),
            failures: 0,
            told: None,
            messages_out: 0,
            dropped: 0,
            bytes_out: 0,
        }
    }

    pub(crate) fn stands(&self) -> bool {
        matches!(self.state, State::Standing { .. })
    }

    /// Bytes that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.output.waiting()
    }

    /// When something has to be done even if nothing arrives.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Greeting { deadline, .. } => Some(deadline),
            State::Resolving | State::Standing { .. } => None,
        }
    }

    /// Whether the address is to be looked up (and then handed to [`Outbound::dial`]) now.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        let due = matches!(self.state, State::Waiting { until } if until <= now);
        if due {
            self.state = State::Resolving;
        }
        due
    }

    /// Failed attempts in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Dials at once, because the other node has just been heard of and said where it is.
    pub(crate) fn hurry(&mut self, address: &str, now: Time) {
        if let State::Waiting { until } = &mut self.state {
            *until = now.min(*until);
            if !address.is_empty() {
                address.clone_into(&mut self.address);
            }
        }
    }

    /// Takes the looked-up address.
    pub(crate) fn dial(
        &mut self,
        found: io::Result<SocketAddr>,
        registry: &Registry,
        config: &Config,
        rng: &mut Rng,
        now: Time,
    ) {
        if !matches!(self.state, State::Resolving) {
            return;
        }
        let opened = found.and_then(TcpStream::connect).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            registry.register(&mut stream, token::peer_out(self.index), interest)?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => {
                let deadline = now + Duration::from_millis(config.handshake_ms);
                self.state = State::Greeting { stream, connected: false, deadline, input: Vec::new() };
            }
            Err(error) => {
                self.fail(&error.to_string(), config, rng, now);
            }
        }
    }

    /// Ends whatever stands and dials again later.
    fn fail(&mut self, reason: &str, config: &Config, rng: &mut Rng, now: Time) -> Change {
        let stood = self.stands();
        if stood || self.told.as_deref() != Some(reason) {
            tracing::info!(address = %self.address, id = ?self.id, reason, stood, "no connection to this peer; trying again");
            self.told = Some(reason.to_owned());
        }
        self.failures = if stood { 0 } else { self.failures.saturating_add(1) };
        let doubled = config.reconnect_ms_min.saturating_mul(1 << self.failures.min(20));
        let most = doubled.min(config.reconnect_ms_max).max(1);
        let pause = Duration::from_micros(rng.between(most * 500, most * 1_000));
        self.state = State::Waiting { until: now + pause };
        self.output.clear();
        if stood { Change::Lost } else { Change::None }
    }

    /// Gives up an attempt that takes too long.
    pub(crate) fn expire(&mut self, config: &Config, rng: &mut Rng, now: Time) {
        if matches!(self.state, State::Greeting { deadline, .. } if deadline <= now) {
            self.fail("it did not answer in time", config, rng, now);
        }
    }

    /// Something can be read or written.
    pub(crate) fn ready(&mut self, me: &Myself, config: &Config, rng: &mut Rng, now: Time) -> Change {
        match self.advance(me, config) {
            Ok(Some(welcome)) => {
                self.failures = 0;
                self.told = None;
                Change::Connected(welcome)
            }
            Ok(None) => Change::None,
            Err(reason) => self.fail(&reason, config, rng, now),
        }
    }

    /// Goes as far as it can; returns the answer to the greeting when it has come.
    fn advance(&mut self, me: &Myself, config: &Config) -> Result<Option<Welcome>, String> {
        let words = |error: io::Error| error.to_string();
        match &mut self.state {
            State::Waiting { .. } | State::Resolving => return Ok(None),
            State::Standing { stream } => {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(0) => return Err("it closed the connection".into()),
                    Ok(_) => return Err("it sent something on a connection that is not for that".into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(words(error)),
                }
                self.bytes_out += self.output.flush(stream).map_err(words)? as u64;
                return Ok(None);
            }
            State::Greeting { stream, connected, input, .. } => {
                if !*connected {
                    if let Some(error) = stream.take_error().map_err(words)? {
                        return Err(words(error));
                    }
                    if stream.peer_addr().is_err() {
                        return Ok(None);
                    }
                    *connected = true;
                    set_options(stream, config);
                    hello::put_hello(self.output.tail(), &me.hello());
                }
                self.output.flush(&mut *stream).map_err(words)?;
                if !read_some(stream, input)? {
                    return Ok(None);
                }
            }
        }
        self.greeted(me)
    }

    /// The answer to the greeting has arrived whole.
    fn greeted(&mut self, me: &Myself) -> Result<Option<Welcome>, String> {
        let State::Greeting { input, .. } = &self.state else { return Ok(None) };
        let Some((answer, bytes)) = hello::read_answer(input)? else { return Ok(None) };
        let welcome = match answer {
            Answer::Refused(refused) => return Err(format!("it refused this node: {}", refused.reason)),
            Answer::Welcome(welcome) => welcome,
        };
        me.judge_welcome(&welcome, self.expected)?;
        if input.len() != bytes {
            return Err("it sent something on a connection that is not for that".into());
        }
        let State::Greeting { stream, .. } = std::mem::replace(&mut self.state, State::Resolving) else {
            return Ok(None);
        };
        self.state = State::Standing { stream };
        self.id = Some(welcome.id);
        Ok(Some(welcome))
    }

    /// Queues a message, or drops it: where nothing stands, or too much waits already, the protocols send again.
    pub(crate) fn send(&mut self, config: &Config, fill: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        if !self.stands() || self.output.waiting() >= config.queue_bytes_max.get() {
            self.dropped += 1;
            return false;
        }
        let tail = self.output.tail();
        let before = tail.len();
        frame::append(tail, FRAME_VERSION, KIND_MESSAGE, fill);
        let bytes = tail.len() - before;
        if bytes > config.frame_bytes_max.get() {
            // The other side would close the connection, again and again.
            tail.truncate(before);
            tracing::error!(bytes, limit = %config.frame_bytes_max, "a message is longer than peers.frame_bytes_max: dropped");
            self.dropped += 1;
            return false;
        }
        self.messages_out += 1;
        true
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self, config: &Config, rng: &mut Rng, now: Time) -> Change {
        let State::Standing { stream } = &mut self.state else { return Change::None };
        match self.output.flush(stream) {
            Ok(count) => {
                self.bytes_out += count as u64;
                Change::None
            }
            Err(error) => self.fail(&error.to_string(), config, rng, now),
        }
    }
}

/// Reads the answer to the greeting as far as it is there; says whether anything came.
fn read_some(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<bool, String> {
    let mut scratch = [0; 512];
    let before = input.len();
    while input.len() <= GREETING_BYTES_MAX {
        match stream.read(&mut scratch) {
            // A refusal is followed by the end; what was read before it still counts.
            Ok(0) if input.len() > before => break,
            Ok(0) => return Err("it closed the connection without an answer".into()),
            Ok(count) => input.extend_from_slice(&scratch[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(input.len() > before)
}

/// An option that cannot be set only costs speed, or time until a dead machine is noticed.
fn set_options(stream: &TcpStream, config: &Config) {
    crate::accept::set_options(stream, Duration::from_millis(config.silent_ms));
    let silent_ms = u32::try_from(config.silent_ms).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, silent_ms);
}
