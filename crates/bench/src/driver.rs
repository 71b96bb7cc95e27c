//! One thread that plays many clients.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};

use crate::clock;
use crate::player::{End, Player, Start, Step};
use crate::progress::Progress;
use crate::report::{Counts, Measured};
use crate::session::{Flight, Readiness, Session};
use crate::timer::Timer;
use quorate_client::resp;

/// How often reconnecting and time limits are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long a client waits after a refusal, so that it does not ask a node that cannot serve all the time.
const REFUSED_PAUSE_NS: u64 = 20_000_000;
/// Bytes read at once.
const SCRATCH_BYTES: usize = 64 << 10;
const TIMER: Token = Token(usize::MAX);

/// What one driver is told.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) clients: usize,
    /// The first address of the first client.
    pub(crate) address_first: usize,
    /// Nanoseconds between two operations of this driver; `None`: as soon as a client is free.
    pub(crate) interval_ns: Option<f64>,
    /// When measuring begins and when nothing new is begun any more.
    pub(crate) measure_from_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) limit_ns: u64,
}

/// Plays clients until the end.
pub(crate) struct Driver<P> {
    poll: Poll,
    timer: Timer,
    orders: Orders,
    player: P,
    sessions: Vec<Session>,
    /// Sessions that can begin something.
    free: VecDeque<usize>,
    /// How many operations may still be begun, by all drivers together.
    budget: Arc<AtomicU64>,
    progress: Arc<Progress>,
    /// When the next operation is due, in an open loop.
    due_ns: f64,
    is_exhausted: bool,
    /// Where sockets are read into: shared, so that thousands of idle clients take no memory for it.
    scratch: Vec<u8>,
    /// How often the cluster's addresses have changed, as far as this driver knows.
    moves_seen: u64,
    pub(crate) measured: Measured,
}

impl<P: Player> Driver<P> {
    pub(crate) fn new(
        orders: Orders,
        player: P,
        budget: Arc<AtomicU64>,
        progress: Arc<Progress>,
    ) -> io::Result<Driver<P>> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let sessions = (0..orders.clients).map(|index| Session::new(orders.address_first + index)).collect();
        Ok(Driver {
            timer,
            poll,
            player,
            sessions,
            free: VecDeque::new(),
            budget,
            progress,
            due_ns: clock::now_ns() as f64,
            is_exhausted: false,
            scratch: vec![0; SCRATCH_BYTES],
            moves_seen: 0,
            measured: Measured::default(),
            orders,
        })
    }

    /// Plays to the end: nothing new after it, but what is under way is waited for.
    pub(crate) fn play(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut next_tick = 0;
        loop {
            let now = clock::now_ns();
            if now >= next_tick {
                next_tick = now + TICK.as_nanos() as u64;
                self.tick(now);
                if self.is_over(now) && self.sessions.iter().all(|session| session.flights.is_empty()) {
                    return Ok(());
                }
            }
            self.begin_due(now);
            if self.orders.interval_ns.is_some() && !self.free.is_empty() && !self.is_over(now) {
                self.timer.set(self.due_ns as u64)?;
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = clock::now_ns();
            for event in &events {
                match event.token() {
                    TIMER => self.timer.clear(),
                    Token(index) => self.wake(index, event.is_read_closed() || event.is_error(), now),
                }
            }
        }
    }

    fn is_over(&self, now: u64) -> bool {
        self.is_exhausted || now >= self.orders.end_ns || self.progress.is_stopped()
    }

    fn tick(&mut self, now: u64) {
        if let Some(addresses) = self.progress.moved(&mut self.moves_seen) {
            self.orders.addresses = addresses;
        }
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            if session.is_overdue(now, self.orders.limit_ns) {
                self.break_off(index, now);
            }
            let over = self.is_over(now);
            let session = &mut self.sessions[index];
            if !over {
                session.connect(self.poll.registry(), Token(index), &self.orders.addresses, now);
            }
            self.list(index, now);
        }
    }

    /// Notes that a session can begin something, if it can.
    fn list(&mut self, index: usize, now: u64) {
        let depth = self.player.depth();
        let session = &mut self.sessions[index];
        let can = session.is_open() && session.flights.len() < depth && now >= session.resume_ns;
        if can && !session.is_listed {
            session.is_listed = true;
            self.free.push_back(index);
        }
    }

    /// When the next operation was due, if one is.
    fn take_due(&mut self, now: u64) -> Option<u64> {
        let Some(interval) = self.orders.interval_ns else { return Some(now) };
        if self.due_ns > now as f64 {
            return None;
        }
        let due = self.due_ns as u64;
        self.due_ns += interval;
        Some(due)
    }

    fn take_budget(&mut self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        let has_some = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        // Not `|= !has_some`: Rust 1.95 (LLVM 22.1.2) then sets it when some is left, in optimised builds.
        if !has_some {
            self.is_exhausted = true;
        }
        has_some
    }

    /// Begins what is due on sessions that are free.
    fn begin_due(&mut self, now: u64) {
        let depth = self.player.depth();
        while let Some(index) = self.free.pop_front() {
            self.sessions[index].is_listed = false;
            let mut has_begun = false;
            let is_paced = self.orders.interval_ns.is_some();
            while self.sessions[index].is_open()
                && self.sessions[index].flights.len() < depth
                && now >= self.sessions[index].resume_ns
                && !self.is_over(now)
            {
                let Some(due_ns) = self.take_due(now) else { break };
                if !self.take_budget() {
                    break;
                }
                let is_measured = due_ns >= self.orders.measure_from_ns;
                let session = &mut self.sessions[index];
                if !self.player.begin(index, Start { now_ns: now, due_ns, is_measured }, &mut session.out) {
                    self.is_exhausted = true;
                    break;
                }
                session.flights.push_back(Flight { due_ns, sent_ns: now });
                has_begun = true;
                if is_paced {
                    // One each, so that the load spreads over all connections.
                    break;
                }
            }
            if has_begun && !self.sessions[index].flush() {
                self.break_off(index, now);
            }
            self.list(index, now);
            if !has_begun {
                return;
            }
        }
    }

    fn wake(&mut self, index: usize, is_closed: bool, now: u64) {
        match self.sessions[index].wake() {
            Readiness::Wait => return,
            Readiness::Broken => return self.break_off(index, now),
            Readiness::Open => {}
        }
        let is_alive = self.sessions[index].fill(&mut self.scratch, is_closed);
        let makes_sense = self.take_replies(index, now);
        if !is_alive || !makes_sense || !self.sessions[index].flush() {
            return self.break_off(index, now);
        }
        self.list(index, now);
    }

    /// Hands whole replies to the player; `false` if they make no sense.
    fn take_replies(&mut self, index: usize, now: u64) -> bool {
        loop {
            let session = &mut self.sessions[index];
            let unread = session.unread();
            if unread.is_empty() {
                return true;
            }
            let length = match resp::reply_length(unread) {
                Ok(Some(length)) => length,
                Ok(None) => return true,
                Err(_) => return false,
            };
            if session.flights.is_empty() {
                // An error before the server closes the connection, most likely.
                return false;
            }
            let mut out = std::mem::take(&mut session.out);
            let step = self.player.reply(index, &session.unread()[..length], now, &mut out);
            session.out = out;
            session.consume(length);
            if let Step::Ended { end, is_write } = step {
                self.ended(index, end, is_write, now);
                if end == End::Nonsense {
                    return false;
                }
            }
        }
    }

    fn ended(&mut self, index: usize, end: End, is_write: bool, now: u64) {
        let Some(flight) = self.sessions[index].flights.pop_front() else { return };
        let is_measured = flight.due_ns >= self.orders.measure_from_ns;
        match end {
            End::Done => {
                self.progress.count_done(1);
                if is_write {
                    self.progress.write_acknowledged(now);
                }
                if is_measured {
                    let (due, took) = (flight.due_ns, now.saturating_sub(flight.due_ns));
                    self.measured.record(took, is_write);
                    let sent_after = flight.sent_ns.saturating_sub(due);
                    self.measured.minutes.count(due - self.orders.measure_from_ns, sent_after, took);
                }
            }
            End::Refused => self.sessions[index].resume_ns = now + REFUSED_PAUSE_NS,
            End::Aborted | End::Unknown | End::Nonsense => {}
        }
        if !matches!(end, End::Done | End::Aborted) {
            self.progress.count_failed(1);
        }
        if is_measured || end == End::Nonsense {
            let counts: &mut Counts = &mut self.measured.counts;
            match end {
                End::Done => counts.done += 1,
                End::Refused => counts.refused += 1,
                End::Aborted => counts.aborted += 1,
                End::Unknown => counts.unknown += 1,
                End::Nonsense => counts.nonsense += 1,
            }
        }
    }

    /// Closes a session's connection; nobody knows what became of its operations.
    fn break_off(&mut self, index: usize, now: u64) {
        if self.sessions[index].is_open() {
            self.measured.counts.broken += 1;
        }
        while !self.sessions[index].flights.is_empty() {
            if let Step::Ended { end, is_write } = self.player.lost(index, now) {
                self.ended(index, end, is_write, now);
            }
        }
        self.sessions[index].close(now);
    }

    /// The player, with what it noted.
    pub(crate) fn into_player(self) -> P {
        self.player
    }

    /// Operations that were due and never sent: an open loop that could not keep its rate.
    pub(crate) fn not_sent(&self) -> u64 {
        let Some(interval) = self.orders.interval_ns else { return 0 };
        let end = clock::now_ns().min(self.orders.end_ns) as f64;
        if self.progress.is_stopped() || self.is_exhausted || end <= self.due_ns {
            return 0;
        }
        ((end - self.due_ns) / interval) as u64
    }
}
