//! The client doors: connections, their commands, and the way of answers back.

mod client;
mod door;
mod measure;
mod outlook;

use std::collections::VecDeque;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpListener;
use quorate_api::{Outcome, Reason, Refusal};
use quorate_kernel::Time;
use quorate_node::{ClientRequest, ConnectionId, Ticket};
use quorate_resp::{Act, Step, View};

use crate::config::Limits;
use crate::map::MapKeeper;
use crate::stats::{ClientStats, Histogram, Kind};
use crate::token;
use client::{Client, Pending, Progress};
use measure::{measure, wire_limits};
pub(crate) use outlook::{About, Tunable};
use outlook::{Outlook, Table};

/// How long a connection that is to be closed may take to read what it is owed.
const CLOSING_MAX: Duration = Duration::from_secs(10);
/// When so many requests have been taken, other connections wait for the next turn: what other nodes say goes first, however many clients
/// there are, so that a node that is asked too much still leads.
const REQUESTS_A_TURN: usize = 4_096;

/// A pause that a client asked for.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Time,
    writes_only: bool,
}

/// All connections of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// The standalone door and that of the cluster view, as far as they are open.
    listeners: Vec<(View, TcpListener)>,
    limits: Limits,
    wire_limits: quorate_resp::Limits,
    table: Table,
    next_id: u64,
    next_ticket: u64,
    /// To be served in the next turn.
    ready: Vec<u64>,
    /// With something to send.
    unsent: Vec<u64>,
    /// More connections may wait at the door; not before this time.
    accept_at: Option<Time>,
    /// Requests gathered in this turn.
    pub(crate) batch: Vec<ClientRequest>,
    /// Refusals of this turn that did not come from the node.
    refused: Vec<(ConnectionId, Ticket)>,
    /// Connections that ended since the last turn and that the node knows of.
    pub(crate) closed: Vec<ConnectionId>,
    pause: Option<Pause>,
    paused: VecDeque<(Kind, ClientRequest)>,
    pub(crate) about: About,
    /// What the cluster view shows.
    pub(crate) keeper: MapKeeper,
    tunable: Tunable,
    pub(crate) stats: ClientStats,
    /// What the counters stood at when a client reset them.
    stats_base: ClientStats,
    pub(crate) latency: [Histogram; 3],
    scratch: Vec<u8>,
}

impl Clients {
    pub(crate) fn new(listeners: Vec<(View, TcpListener)>, limits: Limits, about: About) -> Clients {
        Clients {
            listeners,
            wire_limits: wire_limits(&limits),
            tunable: Tunable {
                idle_s: limits.idle_ms.div_ceil(1_000),
                connections_max: limits.connections_max,
            },
            scratch: vec![0; limits.turn_bytes.get().min(64 << 10)],
            limits,
            table: Table::new(),
            next_id: 0,
            next_ticket: 0,
            ready: Vec::new(),
            unsent: Vec::new(),
            accept_at: None,
            batch: Vec::new(),
            refused: Vec::new(),
            closed: Vec::new(),
            pause: None,
            paused: VecDeque::new(),
            about,
            keeper: MapKeeper::default(),
            stats: ClientStats::default(),
            stats_base: ClientStats::default(),
            latency: Default::default(),
        }
    }

    /// Whether there is work that no event will announce.
    pub(crate) fn has_work(&self, now: Time) -> bool {
        !self.ready.is_empty() || self.accept_at.is_some_and(|at| at <= now)
    }

    /// When something has to be done even if nothing arrives.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.accept_at.into_iter().chain(self.pause.map(|pause| pause.until)).min()
    }

    /// An event of the poll.
    pub(crate) fn event(&mut self, event: &Event) {
        let id = token::index(event.token()) as u64;
        let Some(Some(client)) = self.table.get_mut(&id) else { return };
        client.hung_up |= event.is_read_closed() || event.is_error();
        client.readable |= event.is_readable() || client.hung_up;
        list(&mut self.ready, client);
        if event.is_writable() && !client.output.is_empty() && !client.unsent {
            client.unsent = true;
            self.unsent.push(id);
        }
    }

    /// Reads from every connection that has something, and gathers requests.
    pub(crate) fn read(&mut self, now: Time, wall_us: u64) {
        self.resume(now);
        let mut ready = std::mem::take(&mut self.ready).into_iter();
        while self.batch.len() < REQUESTS_A_TURN
            && let Some(id) = ready.next()
        {
            let Some(mut client) = self.table.get_mut(&id).and_then(Option::take) else { continue };
            client.listed = false;
            let keep = self.serve(&mut client, now, wall_us);
            self.put_back(client, keep);
        }
        // The others come first in the next turn.
        self.ready.splice(0..0, ready);
    }

    fn put_back(&mut self, mut client: Box<Client>, keep: bool) {
        let id = client.id.0;
        if !keep || (client.closing && client.settled()) {
            self.forget(&client);
            return;
        }
        if !client.output.is_empty() && !client.unsent {
            client.unsent = true;
            self.unsent.push(id);
        }
        if let Some(place) = self.table.get_mut(&id) {
            *place = Some(client);
        }
    }

    /// A connection ends here; its stream closes when `client` is dropped.
    fn forget(&mut self, client: &Client) {
        self.table.remove(&client.id.0);
        self.stats.connections -= 1;
        self.stats.in_flight -= client.waiting as u64;
        self.stats.in_flight_bytes -= client.waiting_bytes as u64;
        if client.paused > 0 {
            self.paused.retain(|(_, request)| request.connection != client.id);
        }
        if client.submitted {
            self.closed.push(client.id);
        }
    }

    /// Reads and takes commands; says whether the connection stays.
    fn serve(&mut self, client: &mut Client, now: Time, wall_us: u64) -> bool {
        self.take_commands(client, now, wall_us);
        let may_take = client.may_take(self.limits.pipeline_max, self.limits.output_soft_bytes.get());
        if client.readable && (may_take || client.closing) {
            let mut scratch = std::mem::take(&mut self.scratch);
            let read = client.read(&mut scratch, self.limits.turn_bytes.get());
            self.scratch = scratch;
            let Ok((bytes, progress)) = read else { return false };
            client.readable = progress == Progress::More;
            client.ended |= progress == Progress::Closed;
            self.stats.bytes_in += bytes as u64;
            if client.closing {
                // Thrown away: bytes left unread would make the system reset the connection, and the client lose
                // the answers it is owed.
                client.input.clear();
            } else {
                client.active = now;
                self.take_commands(client, now, wall_us);
            }
            if client.readable {
                list(&mut self.ready, client);
            }
        }
        // A client may close its side behind its last command and still read the answers.
        client.closing |=
            client.ended && client.may_take(self.limits.pipeline_max, self.limits.output_soft_bytes.get());
        true
    }

    /// Takes the commands that have arrived, as far as limits allow.
    fn take_commands(&mut self, client: &mut Client, now: Time, wall_us: u64) {
        let (pipeline_max, soft) = (self.limits.pipeline_max, self.limits.output_soft_bytes.get());
        while !client.input.is_empty() && client.may_take(pipeline_max, soft) {
            let world = self.outlook(now, wall_us);
            let step = match client.next_command(&world) {
                Ok(Some(words)) => client.session.command(words, &world),
                Ok(None) => return,
                Err(reply) => {
                    self.stats.protocol_errors += 1;
                    let ticket = self.ticket();
                    client.answered(ticket, reply.into());
                    client.closing = true;
                    client.input.clear();
                    return;
                }
            };
            self.stats.commands += 1;
            let ticket = self.ticket();
            match step {
                Step::Answer(answer) => {
                    let acts = client.answered(ticket, answer);
                    self.act(client, acts, now);
                }
                Step::Behind(then) => client.behind(ticket, then, &self.outlook(now, wall_us)),
                Step::Submit { request, consistency, identity, then } => {
                    let connection = client.id;
                    let request = ClientRequest { connection, ticket, request, consistency, identity };
                    self.submit(client, request, then, now);
                }
            }
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn submit(&mut self, client: &mut Client, request: ClientRequest, then: quorate_resp::Then, now: Time) {
        let (kind, bytes) = measure(&request.request);
        let full = self.stats.in_flight >= self.limits.requests_max as u64
            || self.stats.in_flight_bytes.saturating_add(bytes as u64) > self.limits.requests_bytes_max.0;
        client.submitted(request.ticket, Pending { then, began: now, kind, bytes });
        self.stats.in_flight += 1;
        self.stats.in_flight_bytes += bytes as u64;
        let held = self.pause.is_some_and(|pause| !pause.writes_only || kind != Kind::Read);
        if full {
            self.refused.push((client.id, request.ticket));
        } else if held || client.paused > 0 {
            client.paused += 1;
            self.paused.push_back((kind, request));
        } else {
            self.batch.push(request);
        }
    }

    fn outlook(&self, now: Time, wall_us: u64) -> Outlook<'_> {
        Outlook {
            now,
            wall_us,
            about: &self.about,
            tunable: self.tunable,
            stats: &self.stats,
            stats_base: &self.stats_base,
            table: &self.table,
            map: &self.keeper.map,
        }
    }

    /// Does what a command asks for outside its session.
    fn act(&mut self, client: &mut Client, acts: Vec<Act>, now: Time) {
        for act in acts {
            match act {
                Act::Close => client.closing = true,
                Act::KillClients(ids) => {
                    for id in ids {
                        if let Some(other) = self.table.get_mut(&id).and_then(Option::take) {
                            self.forget(&other);
                        }
                    }
                }
                Act::Pause { duration_ms, writes_only } => {
                    self.pause = Some(Pause { until: now + Duration::from_millis(duration_ms), writes_only });
                }
                Act::Unpause => self.pause = Some(Pause { until: now, writes_only: false }),
                Act::Configure(settings) => {
                    settings.iter().for_each(|(name, value)| self.configure(name, value))
                }
                Act::ResetStatistics => self.stats_base = self.stats,
            }
        }
    }

    fn configure(&mut self, name: &str, value: &str) {
        match (name, value.parse::<u32>()) {
            ("timeout", Ok(seconds)) => self.tunable.idle_s = u64::from(seconds),
            ("maxclients", Ok(count)) => self.tunable.connections_max = count as usize,
            _ => tracing::warn!(name, value, "a setting that was checked cannot be set"),
        }
    }

    /// Submits what a pause held back, once it is over.
    fn resume(&mut self, now: Time) {
        if self.pause.is_none_or(|pause| pause.until > now) {
            return;
        }
        self.pause = None;
        for (_, request) in std::mem::take(&mut self.paused) {
            if let Some(Some(client)) = self.table.get_mut(&request.connection.0) {
                client.paused -= 1;
                self.batch.push(request);
            }
        }
    }

    /// Answers the requests that were refused at the door.
    pub(crate) fn refuse_excess(&mut self, now: Time, wall_us: u64) {
        for (connection, ticket) in std::mem::take(&mut self.refused) {
            self.complete(connection, ticket, Outcome::Refused(Refusal::Busy), now, wall_us);
        }
    }

    /// Takes a reason of a request under way.
    pub(crate) fn note(&mut self, connection: ConnectionId, ticket: Ticket, reason: Reason) {
        if let Some(Some(client)) = self.table.get_mut(&connection.0) {
            client.note(ticket, reason);
        }
    }

    /// Takes the end of a request.
    pub(crate) fn complete(
        &mut self,
        connection: ConnectionId,
        ticket: Ticket,
        outcome: Outcome,
        now: Time,
        wall_us: u64,
    ) {
        match &outcome {
            Outcome::Refused(_) => self.stats.refused += 1,
            Outcome::Unknown => self.stats.unknown += 1,
            Outcome::Done(_) => {}
        }
        let Some(mut client) = self.table.get_mut(&connection.0).and_then(Option::take) else { return };
        // It would be refused again and again: elsewhere it is served.
        let is_to_leave = matches!(outcome, Outcome::Refused(Refusal::NotServing));
        let world = self.outlook(now, wall_us);
        if let Some((ended, acts)) = client.complete(ticket, outcome, &world) {
            client.closing |= is_to_leave;
            self.stats.in_flight -= 1;
            self.stats.in_flight_bytes -= ended.bytes as u64;
            self.latency[ended.kind as usize].record(now.since(ended.began));
            self.act(&mut client, acts, now);
        }
        if !client.input.is_empty() || client.readable || client.ended {
            list(&mut self.ready, &mut client);
        }
        self.put_back(client, true);
    }

    /// Writes what waits, one connection after the other.
    pub(crate) fn flush(&mut self, now: Time) {
        let soft = self.limits.output_soft_bytes.get();
        for id in std::mem::take(&mut self.unsent) {
            let Some(mut client) = self.table.get_mut(&id).and_then(Option::take) else { continue };
            client.unsent = false;
            let before = client.output.waiting();
            let Ok(sent) = client.output.flush(&mut client.stream) else {
                self.forget(&client);
                continue;
            };
            self.stats.bytes_out += sent as u64;
            if sent > 0 {
                client.active = now;
            }
            let left = client.output.waiting();
            if left > self.limits.output_hard_bytes.get() {
                tracing::warn!(client = id, bytes = left, "a client does not read its answers: disconnected");
                self.stats.slow_closed += 1;
                self.forget(&client);
                continue;
            }
            if before >= soft && left < soft {
                list(&mut self.ready, &mut client);
            }
            if client.closing && client.settled() {
                self.forget(&client);
                continue;
            }
            // The rest goes when the system says that there is room.
            if let Some(place) = self.table.get_mut(&id) {
                *place = Some(client);
            }
        }
    }

    /// Closes connections that have been silent for too long.
    pub(crate) fn sweep(&mut self, now: Time) {
        let idle = Duration::from_secs(self.tunable.idle_s);
        let is_idle = |client: &Client| {
            let silent = now.since(client.active);
            (client.closing && silent > CLOSING_MAX)
                || (!idle.is_zero() && silent > idle && client.waiting == 0)
        };
        let over: Vec<_> = self
            .table
            .values()
            .flatten()
            .filter(|client| is_idle(client))
            .map(|client| client.id.0)
            .collect();
        for id in over {
            if let Some(client) = self.table.get_mut(&id).and_then(Option::take) {
                self.stats.idle_closed += 1;
                self.forget(&client);
            }
        }
    }

    /// Whether nobody is connected.
    pub(crate) fn all_gone(&self) -> bool {
        self.table.values().flatten().next().is_none()
    }

    /// Whether every answer has been sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.table.values().flatten().all(|client| client.output.is_empty())
    }
}

fn list(ready: &mut Vec<u64>, client: &mut Client) {
    if !client.listed {
        client.listed = true;
        ready.push(client.id.0);
    }
}
