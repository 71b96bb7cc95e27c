//! One connection to one node.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use quorate_api::Reply;

use crate::resp;

/// Why no answer came.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nothing left this client.
    Unsent(String),
    /// The request left, or part of it; the answer did not come.
    Lost(String),
}

/// A connection on which one question at a time is asked. After an error it is of no more use.
#[derive(Debug)]
pub(crate) struct Link {
    address: String,
    stream: TcpStream,
    input: Vec<u8>,
}

impl Link {
    /// Connects to the first address of a name that accepts.
    pub(crate) fn open(address: &str, patience: Duration) -> Result<Link, Broken> {
        let unsent = |error: io::Error| Broken::Unsent(format!("{address}: {error}"));
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for found in address.to_socket_addrs().map_err(unsent)? {
            match TcpStream::connect_timeout(&found, patience) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(unsent)?;
                    return Ok(Link { address: address.to_owned(), stream, input: Vec::new() });
                }
                Err(error) => last = error,
            }
        }
        Err(unsent(last))
    }

    /// Sends requests and waits for as many replies as they bring.
    pub(crate) fn exchange(
        &mut self,
        requests: &[u8],
        count: usize,
        patience: Duration,
    ) -> Result<Vec<Reply>, Broken> {
        self.try_exchange(requests, count, Instant::now() + patience)
            .map_err(|error| Broken::Lost(format!("{}: {error}", self.address)))
    }

    fn try_exchange(&mut self, requests: &[u8], count: usize, until: Instant) -> io::Result<Vec<Reply>> {
        self.stream.set_write_timeout(Some(left(until)?))?;
        self.stream.write_all(requests)?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match resp::parse(&self.input).map_err(io::Error::other)? {
                Some((reply, length)) => {
                    self.input.drain(..length);
                    replies.push(reply);
                }
                None => self.receive(until)?,
            }
        }
        if !self.input.is_empty() {
            return Err(io::Error::other("it answered what nobody asked"));
        }
        Ok(replies)
    }

    fn receive(&mut self, until: Instant) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        self.stream.set_read_timeout(Some(left(until)?))?;
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The time until then, as sockets want it: never zero.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
