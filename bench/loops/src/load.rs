//! Closed-loop clients on one thread: each sends a command, waits for its answer, sends the next.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

const KEYS: u64 = 10_000;
pub(crate) const VALUE_BYTES: usize = 100;

/// What was seen from outside.
pub(crate) struct Seen {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

/// What the clients ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Set,
    Get,
}

struct Caller {
    socket: TcpStream,
    asked: Instant,
    expected: usize,
    received: usize,
}

/// Loads a server for `warm` unmeasured and then for `measured`; `begun` is called between the two.
pub(crate) fn run(
    port: u16,
    operation: Operation,
    clients: usize,
    warm: Duration,
    measured: Duration,
    mut begun: impl FnMut(),
) -> Result<Seen> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut callers = connect(port, clients, &poll)?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut latencies_us, mut buffer, mut command) =
        (Vec::with_capacity(1 << 21), vec![0; 1 << 16], Vec::new());
    for caller in &mut callers {
        ask(caller, operation, &mut random, &mut command)?;
    }
    let mut start = Instant::now() + warm;
    let mut measuring = false;
    loop {
        poll.poll(&mut events, Some(Duration::from_secs(5)))?;
        ensure!(!events.is_empty(), "no answer within 5 s");
        let now = Instant::now();
        if !measuring && now >= start {
            (measuring, start) = (true, now);
            latencies_us.clear();
            begun();
        }
        if measuring && now >= start + measured {
            return Ok(seen(latencies_us, now - start));
        }
        for event in &events {
            let caller = &mut callers[event.token().0];
            if answered(caller, &mut buffer)? {
                latencies_us.push(caller.asked.elapsed().as_micros() as u64);
                ask(caller, operation, &mut random, &mut command)?;
            }
        }
    }
}

fn connect(port: u16, clients: usize, poll: &Poll) -> Result<Vec<Caller>> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut callers = Vec::new();
    for index in 0..clients {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        poll.registry().register(&mut socket, Token(index), Interest::READABLE)?;
        callers.push(Caller { socket, asked: Instant::now(), expected: 0, received: 0 });
    }
    Ok(callers)
}

fn ask(caller: &mut Caller, operation: Operation, random: &mut u64, command: &mut Vec<u8>) -> Result<()> {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let key = format!("key:{:08}", *random % KEYS);
    command.clear();
    match operation {
        Operation::Set => {
            let value = [b'v'; VALUE_BYTES];
            write!(command, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${VALUE_BYTES}\r\n", key.len())?;
            command.extend_from_slice(&value);
            command.extend_from_slice(b"\r\n");
            caller.expected = b"+OK\r\n".len();
        }
        Operation::Get => {
            write!(command, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())?;
            // The keys were all set before.
            caller.expected = format!("${VALUE_BYTES}\r\n\r\n").len() + VALUE_BYTES;
        }
    }
    caller.received = 0;
    caller.asked = Instant::now();
    caller.socket.write_all(command)?;
    Ok(())
}

fn answered(caller: &mut Caller, buffer: &mut [u8]) -> Result<bool> {
    match caller.socket.read(buffer) {
        Ok(0) => anyhow::bail!("the server closed a connection"),
        Ok(count) => caller.received += count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    ensure!(caller.received <= caller.expected, "more came than was asked for");
    Ok(caller.received == caller.expected)
}

fn seen(mut latencies_us: Vec<u64>, time: Duration) -> Seen {
    latencies_us.sort_unstable();
    let at =
        |share: f64| latencies_us.get((latencies_us.len() as f64 * share) as usize).copied().unwrap_or(0);
    Seen {
        operations: latencies_us.len() as u64,
        seconds: time.as_secs_f64(),
        p50_us: at(0.50),
        p99_us: at(0.99),
    }
}

/// Sets every key once, so that each GET finds something.
pub(crate) fn fill(port: u16) -> Result<()> {
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
    socket.set_nodelay(true)?;
    let value = "v".repeat(VALUE_BYTES);
    let mut reply = [0; 5];
    for start in (0..KEYS).step_by(100) {
        let mut commands = String::new();
        for key in start..start + 100 {
            commands += &format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:{key:08}\r\n${VALUE_BYTES}\r\n{value}\r\n");
        }
        socket.write_all(commands.as_bytes())?;
        for _ in 0..100 {
            socket.read_exact(&mut reply)?;
            ensure!(&reply == b"+OK\r\n", "a SET was refused");
        }
    }
    Ok(())
}
