//! A client that waits for each answer: for commands typed by people, and for steps that are not measured.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use quorate_api::{Outcome, Reply};
use quorate_workload::{Operation, Request, Words};
use thiserror::Error;

use crate::clock;
use crate::script;
use quorate_client::resp::{self, Malformed};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody could be reached. Nothing happened.
    #[error("no node can be reached: {0}; nothing was changed")]
    Unreachable(String),
    /// The connection broke, or the answer did not come in time. The request may have taken effect.
    #[error(
        "the connection to {address} broke before the answer came ({source}): the request may have taken effect"
    )]
    Lost {
        /// To whom.
        address: String,
        /// How.
        source: io::Error,
    },
    /// What came is no answer. The request may have taken effect.
    #[error("{address}: {source}")]
    Malformed {
        /// From whom.
        address: String,
        /// What is wrong with it.
        source: Malformed,
    },
}

/// A connection to the first of several nodes that answers.
#[derive(Debug)]
pub struct Client {
    address: String,
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects to the first of `addresses` that accepts.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if none does.
    pub fn connect<A: AsRef<str>>(addresses: &[A], wait: Duration) -> Result<Client, ClientError> {
        let mut reasons = Vec::new();
        for address in addresses {
            let address = address.as_ref();
            match open(address, wait) {
                Ok(stream) => return Ok(Client { address: address.to_owned(), stream, input: Vec::new() }),
                Err(error) => reasons.push(format!("{address}: {error}")),
            }
        }
        Err(ClientError::Unreachable(reasons.join("; ")))
    }

    /// Sends one command and waits for its answer.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, ClientError> {
        let mut out = Vec::new();
        resp::encode(&mut out, words);
        self.send(&out)?;
        self.receive()
    }

    /// Sends several commands, then waits for their answers. The answers should fit into the buffers of the
    /// connection, or both sides wait for each other.
    ///
    /// # Errors
    /// If not all answers come.
    pub fn call_all(&mut self, commands: &[Words]) -> Result<Vec<Reply>, ClientError> {
        let mut out = Vec::new();
        commands.iter().for_each(|words| resp::encode(&mut out, words));
        self.send(&out)?;
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Carries out a whole operation; what became of it is in the operation.
    ///
    /// # Errors
    /// If the connection is of no more use. The operation has ended nevertheless.
    pub fn perform(&mut self, operation: &mut Operation) -> Result<(), ClientError> {
        while let Some(request) = operation.request().cloned() {
            let result = self.exchange(&request);
            let (outcome, error) = match result {
                Ok(outcome) => (outcome, None),
                Err(error) => (Outcome::Unknown, Some(error)),
            };
            // A surprise is an outcome that nobody knows.
            let surprised = operation.answered(outcome).is_err();
            if let Some(error) = error {
                // An UNWATCH has nothing to undo on a broken connection.
                if operation.request().is_some() {
                    let _ = operation.answered(Outcome::Unknown);
                }
                return Err(error);
            }
            if surprised {
                return Ok(());
            }
        }
        Ok(())
    }

    fn exchange(&mut self, request: &Request) -> Result<Outcome, ClientError> {
        let mut out = Vec::new();
        let expected = script::encode(&mut out, request);
        self.send(&out)?;
        let mut replies = Vec::new();
        for _ in 0..expected {
            replies.push(self.receive()?);
        }
        Ok(script::outcome(request, replies))
    }

    fn send(&mut self, out: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(out).map_err(|source| self.lost(source))
    }

    fn receive(&mut self) -> Result<Reply, ClientError> {
        let begun = clock::now_ns();
        loop {
            let parsed = resp::parse(&self.input)
                .map_err(|source| ClientError::Malformed { address: self.address.clone(), source })?;
            if let Some((reply, length)) = parsed {
                self.input.drain(..length);
                return Ok(reply);
            }
            let mut chunk = [0; 16 << 10];
            let limit = self.stream.read_timeout().ok().flatten().unwrap_or(Duration::MAX);
            if Duration::from_nanos(clock::now_ns() - begun) > limit {
                return Err(self.lost(io::ErrorKind::TimedOut.into()));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn lost(&self, source: io::Error) -> ClientError {
        ClientError::Lost { address: self.address.clone(), source }
    }
}

fn open(address: &str, wait: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for found in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&found, wait) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(wait))?;
                stream.set_write_timeout(Some(wait))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
