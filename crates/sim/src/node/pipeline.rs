//! A client that does not wait for answers: appends to a list of its own and reads it, many requests at once.
//!
//! Each connection has its own key and nobody else touches it, so what every request must see is known to the letter:
//! the order of requests on a connection, that each happens at most once, and that refusals are true. A counter that all
//! share shows whether what a connection sees ever runs backwards.

use quorate_api::{Outcome, Reply, Request};
use quorate_kernel::Rng;
use quorate_node::ConnectionId;

use super::words;
use crate::Verdict;

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Push(Option<End>),
    Read(Option<Vec<u64>>),
    /// Adds one to the counter.
    Bump(Option<i64>),
    /// Reads the counter.
    Peek(Option<i64>),
}

/// How an append ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done { length: u64 },
    Refused,
    Unknown,
}

/// The key of one connection.
#[derive(Debug)]
struct Thread {
    key: String,
    steps: Vec<Step>,
    content: Option<Vec<u64>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pipeline {
    id: u64,
    pub(crate) connection: Option<ConnectionId>,
    threads: Vec<Thread>,
    pub(crate) in_flight: usize,
    pub(crate) done: u64,
    pub(crate) done_since_healing: bool,
}

/// The counter that everyone shares.
const COUNTER: &str = "counter";
/// Requests under way at most.
const WINDOW: usize = 24;

impl Pipeline {
    pub(crate) fn new(id: u64) -> Self {
        Pipeline {
            id,
            connection: None,
            threads: Vec::new(),
            in_flight: 0,
            done: 0,
            done_since_healing: false,
        }
    }

    /// A new connection, and so a new key.
    pub(crate) fn connected(&mut self, connection: ConnectionId) {
        self.connection = Some(connection);
        let key = format!("p{}.{}", self.id, self.threads.len());
        self.threads.push(Thread { key, steps: Vec::new(), content: None });
    }

    /// Whether the key has grown so long that reading it takes more time than it is worth.
    pub(crate) fn is_tired(&self) -> bool {
        const STEPS_MAX: usize = 150;
        self.in_flight == 0 && self.threads.last().is_some_and(|thread| thread.steps.len() > STEPS_MAX)
    }

    /// The next requests, each with its name.
    pub(crate) fn burst(&mut self, rng: &mut Rng) -> Vec<(u64, Request)> {
        let number = self.threads.len() as u64 - 1;
        let room = WINDOW.saturating_sub(self.in_flight);
        let count = rng.between(1, 8).min(room as u64);
        let Some(thread) = self.threads.last_mut() else { return Vec::new() };
        self.in_flight += count as usize;
        let next = |_| {
            let place = thread.steps.len() as u64;
            let value = place.to_string();
            let push: [&[u8]; 3] = [b"RPUSH", thread.key.as_bytes(), value.as_bytes()];
            let (step, request) = match rng.below(12) {
                8 => (Step::Bump(None), words::one(&["INCR", COUNTER])),
                9..=11 => (Step::Peek(None), words::one(&["GET", COUNTER])),
                0..=2 => {
                    let read: [&[u8]; 4] = [b"LRANGE", thread.key.as_bytes(), b"0", b"-1"];
                    (Step::Read(None), words::one(&read))
                }
                3 => {
                    let commands = vec![words::command(&push)];
                    (Step::Push(None), Request::Transaction { watched: Vec::new(), commands })
                }
                _ => (Step::Push(None), words::one(&push)),
            };
            thread.steps.push(step);
            (number << 32 | place, request)
        };
        (0..count).map(next).collect()
    }

    /// A request has ended.
    ///
    /// # Errors
    /// If no correct store answers so.
    pub(crate) fn ended(&mut self, what: u64, outcome: Outcome, healed: bool) -> Verdict {
        self.in_flight -= 1;
        let (number, place) = ((what >> 32) as usize, (what & 0xffff_ffff) as usize);
        let key = self.threads[number].key.clone();
        match &mut self.threads[number].steps[place] {
            Step::Push(end) => {
                let length = match outcome {
                    Outcome::Refused(_) => {
                        *end = Some(End::Refused);
                        return Ok(());
                    }
                    Outcome::Unknown => {
                        *end = Some(End::Unknown);
                        return Ok(());
                    }
                    Outcome::Done(Reply::Array(items)) if items.len() == 1 => words::number(&items[0])?,
                    Outcome::Done(reply) => words::number(&reply).map_err(|why| format!("{key}: {why}"))?,
                };
                *end = Some(End::Done { length: length.unsigned_abs() });
                self.done += 1;
                self.done_since_healing |= healed;
            }
            Step::Bump(value) => {
                if let Outcome::Done(reply) = outcome {
                    *value = Some(words::number(&reply)?);
                }
            }
            Step::Peek(value) => {
                if let Outcome::Done(reply) = outcome {
                    let text = words::text(&reply)?.unwrap_or_else(|| "0".to_owned());
                    *value = Some(text.parse().map_err(|_| format!("the counter is {text:?}"))?);
                }
            }
            Step::Read(content) => {
                if let Outcome::Done(reply) = outcome {
                    *content = Some(elements(&reply).map_err(|why| format!("{key}: {why}"))?);
                }
            }
        }
        Ok(())
    }

    /// The next key of which the end is not known yet.
    pub(crate) fn last_look(&self) -> Option<(u64, Request)> {
        let number = self.threads.iter().position(Thread::is_open)?;
        let key = &self.threads[number].key;
        Some((number as u64, words::one(&[&b"LRANGE"[..], key.as_bytes(), b"0", b"-1"])))
    }

    /// What the last look showed.
    ///
    /// # Errors
    /// If it is in contradiction to what was answered before.
    pub(crate) fn looked(&mut self, number: u64, outcome: &Outcome) -> Verdict {
        let Outcome::Done(reply) = outcome else { return Ok(()) };
        let thread = &mut self.threads[number as usize];
        let content = elements(reply)?;
        thread.content = Some(content);
        thread.judge().map_err(|why| format!("the list {}: {why}; {thread:?}", thread.key))
    }
}

fn elements(reply: &Reply) -> Result<Vec<u64>, String> {
    let Reply::Array(items) = reply else { return Err(format!("a list was to come, not {reply:?}")) };
    let element = |item: &Reply| {
        let text = words::text(item)?.ok_or("an element is missing")?;
        text.parse().map_err(|_| format!("nobody added {text:?}"))
    };
    items.iter().map(element).collect()
}

impl Thread {
    /// Whether a last look is due. Where every request was refused, as on a connection to a dead node, there is
    /// nothing to see.
    fn is_open(&self) -> bool {
        let nothing = |step: &Step| match step {
            Step::Push(end) => *end == Some(End::Refused),
            Step::Read(content) => content.is_none(),
            Step::Bump(value) | Step::Peek(value) => value.is_none(),
        };
        self.content.is_none() && !self.steps.iter().all(nothing)
    }

    fn judge(&self) -> Verdict {
        let content = self.content.as_deref().unwrap_or_default();
        if !content.is_sorted_by(|a, b| a < b) {
            return Err("appends took effect out of order, or twice".into());
        }
        let (mut seen, mut count) = (0, 0);
        for (step, place) in self.steps.iter().zip(0_u64..) {
            let at = content.binary_search(&place);
            match (step, at) {
                (Step::Push(Some(End::Done { length })), Ok(at)) if at as u64 + 1 == *length => {}
                (Step::Push(Some(End::Done { .. })), Ok(_)) => {
                    return Err(format!("append {place} was answered with a wrong length"));
                }
                (Step::Push(Some(End::Done { .. })), Err(_)) => {
                    return Err(format!("append {place} was acknowledged and is not there"));
                }
                (Step::Push(Some(End::Refused)), Ok(_)) => {
                    return Err(format!("append {place} was refused and is there"));
                }
                (Step::Read(Some(read)), _) => {
                    if !content.starts_with(read) {
                        return Err(format!("read {place} shows what never was"));
                    }
                    if read.len() < seen {
                        return Err(format!("read {place} shows less than a read before it"));
                    }
                    seen = read.len();
                    self.judge_read(place, read)?;
                }
                (Step::Bump(Some(value)), _) if *value > count => count = *value,
                (Step::Peek(Some(value)), _) if *value >= count => count = *value,
                (Step::Bump(Some(_)) | Step::Peek(Some(_)), _) => {
                    return Err(format!("the counter ran backwards at request {place}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A read shows all acknowledged appends before it on its connection, and none after it.
    fn judge_read(&self, place: u64, read: &[u64]) -> Verdict {
        if read.last().is_some_and(|last| *last > place) {
            return Err(format!("read {place} shows an append behind it"));
        }
        let before = self.steps.iter().zip(0..place);
        for (_, push) in before.filter(|(step, _)| matches!(step, Step::Push(Some(End::Done { .. })))) {
            if read.binary_search(&push).is_err() {
                return Err(format!("read {place} does not show append {push} before it"));
            }
        }
        Ok(())
    }
}
