//! Completion: io_uring for the sockets, and, if asked, for the log.

use std::net::TcpListener as StdListener;
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result, ensure};
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};

use crate::path::{Client, Data, Log, READ_BYTES};

const ENTRIES: u32 = 4096;
const ACCEPT: u64 = u64::MAX;
const LOG_WRITE: u64 = u64::MAX - 1;
const LOG_SYNC: u64 = u64::MAX - 2;
/// Set in the number of a send; a receive is the plain index of its connection.
const SEND: u64 = 1 << 32;

struct Connection {
    socket: RawFd,
    client: Client,
    buffer: Box<[u8]>,
    /// What the kernel is sending: must stay where it is until it says so.
    sending: Vec<u8>,
}

struct Server {
    ring: IoUring,
    listener: RawFd,
    connections: Vec<Option<Connection>>,
    data: Data,
    log: Log,
    /// What the next sync will cover, and who waits for it.
    batch: Vec<u8>,
    owed: Vec<usize>,
    /// What a sync under way covers; empty if there is none.
    syncing: Vec<u8>,
    syncing_owed: Vec<usize>,
    sync_in_ring: bool,
}

pub(crate) fn serve(listener: StdListener, log: Log, sync_in_ring: bool) -> Result<()> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .build(ENTRIES)
        .context("this kernel offers no io_uring")?;
    let mut server = Server {
        ring,
        listener: listener.as_raw_fd(),
        connections: Vec::new(),
        data: Data::default(),
        log,
        batch: Vec::new(),
        owed: Vec::new(),
        syncing: Vec::new(),
        syncing_owed: Vec::new(),
        sync_in_ring,
    };
    server.accept()?;
    loop {
        server.turn()?;
    }
}

impl Server {
    fn turn(&mut self) -> Result<()> {
        self.ring.submit_and_wait(1)?;
        let completed: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (name, result) in completed {
            match name {
                ACCEPT => self.accepted(result)?,
                LOG_WRITE => ensure!(result as usize == self.syncing.len(), "log write: {result}"),
                LOG_SYNC => {
                    ensure!(result >= 0, "log sync: {result}");
                    self.syncing.clear();
                    for index in std::mem::take(&mut self.syncing_owed) {
                        self.send(index)?;
                    }
                }
                _ if name & SEND != 0 => self.sent((name & !SEND) as usize, result)?,
                _ => self.received(name as usize, result)?,
            }
        }
        if self.batch.is_empty() {
            return self.answer_all();
        }
        if !self.sync_in_ring {
            self.log.append(&self.batch)?;
            self.batch.clear();
            return self.answer_all();
        }
        if self.syncing.is_empty() { self.sync() } else { Ok(()) }
    }

    fn answer_all(&mut self) -> Result<()> {
        for index in std::mem::take(&mut self.owed) {
            self.send(index)?;
        }
        Ok(())
    }

    /// Write and fdatasync, linked, while this thread goes on gathering the next batch.
    fn sync(&mut self) -> Result<()> {
        std::mem::swap(&mut self.batch, &mut self.syncing);
        std::mem::swap(&mut self.owed, &mut self.syncing_owed);
        let file = types::Fd(self.log.descriptor());
        let place = self.log.place(self.syncing.len());
        let write =
            opcode::Write::new(file, self.syncing.as_ptr(), self.syncing.len() as u32).offset(place).build();
        self.push(write.user_data(LOG_WRITE).flags(Flags::IO_LINK))?;
        let sync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build();
        self.push(sync.user_data(LOG_SYNC))
    }

    fn accept(&mut self) -> Result<()> {
        let accept = opcode::AcceptMulti::new(types::Fd(self.listener)).build().user_data(ACCEPT);
        self.push(accept)
    }

    fn accepted(&mut self, result: i32) -> Result<()> {
        ensure!(result >= 0, "accept: {result}");
        let on: libc::c_int = 1;
        // SAFETY: the option is an integer that lives for the call, its size is given.
        let code = unsafe {
            let (value, size) = ((&raw const on).cast(), size_of_val(&on) as u32);
            libc::setsockopt(result, libc::IPPROTO_TCP, libc::TCP_NODELAY, value, size)
        };
        ensure!(code == 0, "TCP_NODELAY was refused");
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        self.connections.push(Some(Connection {
            socket: result,
            client: Client::default(),
            buffer,
            sending: Vec::new(),
        }));
        self.receive(self.connections.len() - 1)
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let (start, count) = (connection.buffer.as_mut_ptr(), connection.buffer.len() as u32);
        let entry =
            opcode::Recv::new(types::Fd(connection.socket), start, count).build().user_data(index as u64);
        self.push(entry)
    }

    fn received(&mut self, index: usize, result: i32) -> Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let count = usize::try_from(result).unwrap_or(0);
        let (client, bytes) = (&mut connection.client, &connection.buffer[..count]);
        if count == 0 || client.receive(bytes, &mut self.data, &mut self.batch).is_err() {
            return self.close(index);
        }
        // A closed-loop client sends no more before its answer: `sent` receives again.
        if connection.client.output.is_empty() {
            return self.receive(index);
        }
        self.owed.push(index);
        Ok(())
    }

    fn send(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        std::mem::swap(&mut connection.sending, &mut connection.client.output);
        let (start, count) = (connection.sending.as_ptr(), connection.sending.len() as u32);
        let entry = opcode::Send::new(types::Fd(connection.socket), start, count).build();
        self.push(entry.user_data(SEND | index as u64))
    }

    fn sent(&mut self, index: usize, result: i32) -> Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        if usize::try_from(result) != Ok(connection.sending.len()) {
            return self.close(index);
        }
        connection.sending.clear();
        self.receive(index)
    }

    fn close(&mut self, index: usize) -> Result<()> {
        if let Some(connection) = self.connections[index].take() {
            // SAFETY: the descriptor is this connection's, which is gone from here on; no operation on it is under way.
            unsafe { libc::close(connection.socket) };
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: every buffer handed over belongs to a connection or to `syncing`, and stays there, unchanged, until
        // the completion that names it.
        unsafe { self.ring.submission().push(&entry) }.context("the submission queue is full")
    }
}
