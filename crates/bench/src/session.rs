//! One connection of a client: what it waits for, and what is on its way.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// Consumed bytes are cut off when there are more than this.
const CONSUMED_MAX: usize = 64 << 10;
/// First and longest wait before connecting again.
const BACKOFF_NS: (u64, u64) = (10_000_000, 500_000_000);

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// When it was due: latency counts from here.
    pub(crate) due_ns: u64,
    /// When it was sent: the time limit counts from here.
    pub(crate) sent_ns: u64,
}

#[derive(Debug)]
enum Link {
    /// Nothing until then.
    Waiting {
        until_ns: u64,
    },
    Connecting {
        stream: TcpStream,
        since_ns: u64,
    },
    Open(TcpStream),
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    /// Which of the addresses is used.
    pub(crate) address: usize,
    backoff_ns: u64,
    pub(crate) out: Vec<u8>,
    out_at: usize,
    input: Vec<u8>,
    input_at: usize,
    /// Oldest first.
    pub(crate) flights: VecDeque<Flight>,
    /// Nothing new is begun before.
    pub(crate) resume_ns: u64,
    /// Whether it is in the driver's list of those that can begin something.
    pub(crate) is_listed: bool,
}

/// What an event on a session came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing yet.
    Wait,
    /// The connection stands from now on, or stood before.
    Open,
    /// It cannot be used.
    Broken,
}

impl Session {
    pub(crate) fn new(address: usize) -> Session {
        Session {
            link: Link::Waiting { until_ns: 0 },
            address,
            backoff_ns: BACKOFF_NS.0,
            out: Vec::new(),
            out_at: 0,
            input: Vec::new(),
            input_at: 0,
            flights: VecDeque::new(),
            resume_ns: 0,
            is_listed: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_))
    }

    /// Begins to connect if the time has come.
    pub(crate) fn connect(
        &mut self,
        registry: &Registry,
        token: Token,
        addresses: &[SocketAddr],
        now_ns: u64,
    ) {
        let Link::Waiting { until_ns } = self.link else { return };
        if now_ns < until_ns {
            return;
        }
        let connecting =
            TcpStream::connect(addresses[self.address % addresses.len()]).and_then(|mut stream| {
                registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                Ok(stream)
            });
        match connecting {
            Ok(stream) => self.link = Link::Connecting { stream, since_ns: now_ns },
            Err(_) => self.close(now_ns),
        }
    }

    /// An event has come: finishes connecting.
    pub(crate) fn wake(&mut self) -> Readiness {
        let Link::Connecting { stream, .. } = &self.link else {
            return if self.is_open() { Readiness::Open } else { Readiness::Wait };
        };
        if matches!(stream.take_error(), Err(_) | Ok(Some(_))) {
            return Readiness::Broken;
        }
        match stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Readiness::Wait,
            Err(_) => return Readiness::Broken,
        }
        if stream.set_nodelay(true).is_err() {
            return Readiness::Broken;
        }
        let before = std::mem::replace(&mut self.link, Link::Waiting { until_ns: 0 });
        if let Link::Connecting { stream, .. } = before {
            self.link = Link::Open(stream);
        }
        Readiness::Open
    }

    /// Whether an answer, or the connection itself, is overdue.
    pub(crate) fn is_overdue(&self, now_ns: u64, limit_ns: u64) -> bool {
        let since = match &self.link {
            Link::Waiting { .. } => return false,
            Link::Connecting { since_ns, .. } => Some(*since_ns),
            Link::Open(_) => self.flights.front().map(|flight| flight.sent_ns),
        };
        since.is_some_and(|since| now_ns.saturating_sub(since) > limit_ns)
    }

    /// Reads all there is, with `to_the_end` the end behind it as well; `false` if the connection is broken.
    pub(crate) fn fill(&mut self, scratch: &mut [u8], to_the_end: bool) -> bool {
        let Link::Open(stream) = &mut self.link else { return true };
        if self.input_at == self.input.len() {
            self.input.clear();
            self.input_at = 0;
        }
        loop {
            match stream.read(scratch) {
                Ok(0) => return false,
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    // A short read has emptied the socket: the next bytes are another event.
                    if count < scratch.len() && !to_the_end {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// What was read and not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input[self.input_at..]
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.input_at += bytes;
        self.backoff_ns = BACKOFF_NS.0;
        if self.input_at > CONSUMED_MAX && self.input_at * 2 > self.input.len() {
            self.input.drain(..self.input_at);
            self.input_at = 0;
        }
    }

    /// Writes what can be written; `false` if the connection is broken.
    pub(crate) fn flush(&mut self) -> bool {
        let Link::Open(stream) = &mut self.link else { return true };
        while self.out_at < self.out.len() {
            match stream.write(&self.out[self.out_at..]) {
                Ok(0) => return false,
                Ok(count) => self.out_at += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.out_at = 0;
        true
    }

    /// Gives the connection up; the next attempt goes to the next address, after a growing wait.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.link = Link::Waiting { until_ns: now_ns + self.backoff_ns };
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_NS.1);
        self.address += 1;
        self.out.clear();
        self.out_at = 0;
        self.input.clear();
        self.input_at = 0;
    }
}
