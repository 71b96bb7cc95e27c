//! Readiness: one thread, one `epoll_wait` a turn.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener as StdListener;

use anyhow::Result;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::path::{Client, Data, Log, READ_BYTES};

const LISTENER: Token = Token(usize::MAX);

struct Connection {
    socket: TcpStream,
    client: Client,
}

pub(crate) fn serve(listener: StdListener, mut log: Log) -> Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let (mut data, mut batch, mut buffer) = (Data::default(), Vec::new(), vec![0; READ_BYTES]);
    let mut owed = Vec::new();
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
                continue;
            }
            let index = event.token().0;
            let Some(connection) = connections[index].as_mut() else { continue };
            if !read(connection, &mut buffer, &mut data, &mut batch) {
                connections[index] = None;
                continue;
            }
            owed.push(index);
        }
        if !batch.is_empty() {
            log.append(&batch)?;
            batch.clear();
        }
        for index in owed.drain(..) {
            let Some(connection) = connections[index].as_mut() else { continue };
            // Closed-loop clients never owe us room in the socket: a short write ends the connection.
            if connection.socket.write_all(&connection.client.output).is_err() {
                connections[index] = None;
                continue;
            }
            connection.client.output.clear();
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, connections: &mut Vec<Option<Connection>>) -> Result<()> {
    loop {
        match listener.accept() {
            Ok((mut socket, _)) => {
                socket.set_nodelay(true)?;
                let token = Token(connections.len());
                poll.registry().register(&mut socket, token, Interest::READABLE)?;
                connections.push(Some(Connection { socket, client: Client::default() }));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads what is there; false if the connection is to be closed.
fn read(connection: &mut Connection, buffer: &mut [u8], data: &mut Data, batch: &mut Vec<u8>) -> bool {
    loop {
        match connection.socket.read(buffer) {
            Ok(0) => return false,
            Ok(count) => {
                if connection.client.receive(&buffer[..count], data, batch).is_err() {
                    return false;
                }
                // A short read has emptied the socket: no need to be told so by another call.
                if count < buffer.len() {
                    return true;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
}
