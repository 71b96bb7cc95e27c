//! Clients of workloads, whose every operation becomes a record of a history.

use std::sync::Arc;

use quorate_api::history::{Ending, Op, Record};
use quorate_api::{Outcome, Reply};
use quorate_kernel::Rng;
use quorate_workload::{Client, Operation, Request, Workload};

use crate::player::{End, Player, Start, Step};
use crate::progress::Progress;
use crate::script;
use quorate_client::resp;

/// Takes records as they end.
pub(crate) type Sink = Arc<dyn Fn(Record) + Send + Sync>;

/// One client and what it is doing.
struct Playing {
    client: Client,
    flight: Option<Flight>,
}

struct Flight {
    operation: Operation,
    /// What the replies answer. Kept apart: the operation has moved on when the last one comes.
    request: Request,
    begun_ns: u64,
    expected: usize,
    replies: Vec<Reply>,
    /// Whether some answer was an error or did not come.
    was_refused: bool,
}

/// Plays clients of one workload.
pub(crate) struct Judged {
    workload: Workload,
    clients: Vec<Playing>,
    sink: Sink,
    progress: Arc<Progress>,
}

impl Judged {
    /// Plays `clients` clients whose numbers in the history begin with `first`.
    pub(crate) fn new(
        workload: Workload,
        clients: usize,
        first: u64,
        seed: u64,
        sink: Sink,
        progress: Arc<Progress>,
    ) -> Judged {
        let mut rng = Rng::new(seed);
        let clients = (0..clients as u64)
            .map(|index| Playing { client: Client::new(first + index, rng.fork()), flight: None })
            .collect();
        Judged { workload, clients, sink, progress }
    }

    /// Records an operation that has ended.
    fn end(&mut self, client: usize, flight: Flight, now_ns: u64, nonsense: bool) -> Step {
        let was_refused = flight.was_refused;
        let number = self.clients[client].client.id;
        let record = flight.operation.record(number, flight.begun_ns, now_ns);
        let is_write = record.ops.iter().any(|op| !Op::is_read(op));
        let end = match record.outcome {
            _ if nonsense => End::Nonsense,
            Ending::Ok => End::Done,
            Ending::Fail if was_refused => End::Refused,
            Ending::Fail => End::Aborted,
            Ending::Unknown => End::Unknown,
        };
        (self.sink)(record);
        Step::Ended { end, is_write }
    }
}

impl Player for Judged {
    fn depth(&self) -> usize {
        1
    }

    fn begin(&mut self, client: usize, start: Start, out: &mut Vec<u8>) -> bool {
        let playing = &mut self.clients[client];
        let operation = self.workload.next(&mut playing.client);
        let Some(request) = operation.request().cloned() else { return false };
        let expected = script::encode(out, &request);
        playing.flight = Some(Flight {
            operation,
            request,
            begun_ns: start.now_ns,
            expected,
            replies: Vec::new(),
            was_refused: false,
        });
        true
    }

    fn reply(&mut self, client: usize, reply: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Step {
        let Some(mut flight) = self.clients[client].flight.take() else {
            return Step::Ended { end: End::Nonsense, is_write: false };
        };
        let Ok(Some((reply, _))) = resp::parse(reply) else {
            // The session has found its length already.
            return self.end(client, flight, now_ns, true);
        };
        let turned_away = script::is_turned_away(&reply);
        flight.replies.push(reply);
        if flight.replies.len() < flight.expected && !turned_away {
            self.clients[client].flight = Some(flight);
            return Step::More;
        }
        let outcome = script::outcome(&flight.request, std::mem::take(&mut flight.replies));
        flight.was_refused |= !matches!(&outcome, Outcome::Done(reply) if !matches!(reply, Reply::Error(_)));
        if let Err(surprise) = flight.operation.answered(outcome) {
            self.progress.surprised(format!("client {}: {surprise}", self.clients[client].client.id));
            return self.end(client, flight, now_ns, true);
        }
        match flight.operation.request().cloned() {
            Some(request) => {
                flight.expected = script::encode(out, &request);
                flight.request = request;
                self.clients[client].flight = Some(flight);
                Step::More
            }
            None => self.end(client, flight, now_ns, false),
        }
    }

    fn lost(&mut self, client: usize, now_ns: u64) -> Step {
        let Some(mut flight) = self.clients[client].flight.take() else {
            return Step::Ended { end: End::Unknown, is_write: false };
        };
        flight.was_refused = true;
        // At most two steps: what was under way, and an UNWATCH that nobody needs any more.
        for _ in 0..2 {
            if flight.operation.request().is_some() && flight.operation.answered(Outcome::Unknown).is_err() {
                break;
            }
        }
        self.end(client, flight, now_ns, false)
    }
}
