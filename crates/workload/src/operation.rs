//! One operation of one client: requests out, answers in, a record at the end.

use bytes::Bytes;
use quorate_api::history::{Ending, Op, Record};
use quorate_api::{ErrorReply, Outcome, Reply, UNKNOWN_MESSAGE};

use crate::kinds::Plan;
use crate::replies;

/// A command as a client sends it, its name first.
pub type Words = Vec<Bytes>;

/// What to send next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One command.
    Command(Words),
    /// WATCH: the versions of these keys from now on are what the next transaction depends on. Answered with anything
    /// that is not an error.
    Watch(Vec<Bytes>),
    /// MULTI, the commands, EXEC: all of them if no watched key has changed, answered with an array; otherwise nothing,
    /// answered with [`Reply::NilArray`] or [`Reply::Nil`].
    Transaction {
        /// All keys that were watched, for drivers that keep versions themselves.
        watched: Vec<Bytes>,
        /// The commands in order.
        commands: Vec<Words>,
    },
    /// UNWATCH: there will be no transaction.
    Unwatch,
}

/// An answer that no correct store gives: a reply of the wrong kind, or an error about the request itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Surprise {
    /// What was asked.
    pub request: Request,
    /// What was answered.
    pub reply: Reply,
}

impl std::fmt::Display for Surprise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} was answered with {:?}, which does not fit", self.request, self.reply)
    }
}

impl std::error::Error for Surprise {}

/// An operation under way.
#[derive(Debug, Clone)]
pub struct Operation {
    pub(crate) plan: Plan,
    pub(crate) request: Option<Request>,
    /// What the record will say, as far as it is known.
    pub(crate) ops: Vec<Op>,
    pub(crate) ending: Ending,
    pub(crate) is_final: bool,
}

/// What a driver's outcome means to an operation.
enum Answer {
    Reply(Reply),
    Fail,
    Unknown,
}

impl Operation {
    /// What to send now; `None` when the operation has ended.
    pub fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// Takes the answer to [`Operation::request`]. A driver whose connection broke after sending says
    /// [`Outcome::Unknown`]; if it is asked to UNWATCH then, it need not do so on a new connection.
    ///
    /// # Errors
    /// If a correct store does not answer so; the operation then counts as of unknown outcome.
    ///
    /// # Panics
    /// If the operation has ended.
    pub fn answered(&mut self, outcome: Outcome) -> Result<(), Surprise> {
        let request = self.request.take().expect("an operation that has ended waits for no answer");
        if request == Request::Unwatch {
            return Ok(());
        }
        let changes = matches!(request, Request::Command(_) | Request::Transaction { .. });
        let reply = match answer(outcome) {
            Ok(Answer::Reply(reply)) => reply,
            Ok(Answer::Fail) => {
                self.abandon();
                return Ok(());
            }
            Ok(Answer::Unknown) => {
                // Before its last request an operation of several steps has changed nothing.
                let may_have_happened = changes && self.is_last_step();
                self.abandon();
                if may_have_happened {
                    self.ending = Ending::Unknown;
                }
                return Ok(());
            }
            Err(reply) => return Err(self.surprised(request, reply)),
        };
        match self.advance(&request, &reply) {
            Some(()) => Ok(()),
            None => Err(self.surprised(request, reply)),
        }
    }

    /// The record of an operation that has ended. An operation that was cut short (the driver stopped waiting) is of
    /// unknown outcome.
    pub fn record(self, client: u64, start: u64, end: u64) -> Record {
        let ending =
            if self.request.is_some() && self.is_last_step() { Ending::Unknown } else { self.ending };
        let end = (ending != Ending::Unknown).then_some(end);
        Record { client, start, end, outcome: ending, ops: self.ops, is_final: self.is_final }
    }

    /// Whether it has ended and was acknowledged.
    pub fn is_ok(&self) -> bool {
        self.request.is_none() && self.ending == Ending::Ok
    }

    /// Ends it without effect.
    pub(crate) fn abandon(&mut self) {
        self.ending = Ending::Fail;
        if !matches!(self.plan, Plan::Single | Plan::Batch) {
            self.request = Some(Request::Unwatch);
            self.plan = Plan::Over;
        }
    }

    /// Whether the request under way is the one that changes something.
    fn is_last_step(&self) -> bool {
        match &self.plan {
            Plan::Single | Plan::Batch => true,
            Plan::Over => self.ending == Ending::Unknown,
            Plan::Swap { is_sent, .. } | Plan::Transfer { is_sent, .. } | Plan::Exchange { is_sent, .. } => {
                *is_sent
            }
        }
    }

    fn surprised(&mut self, request: Request, reply: Reply) -> Surprise {
        self.ending = Ending::Unknown;
        self.plan = Plan::Over;
        Surprise { request, reply }
    }

    fn advance(&mut self, request: &Request, reply: &Reply) -> Option<()> {
        match (&self.plan, request) {
            (Plan::Single, Request::Command(words)) => {
                replies::fill(&mut self.ops[0], words, reply)?;
                self.ending = Ending::Ok;
                Some(())
            }
            (Plan::Batch, Request::Transaction { commands, .. }) => {
                let Reply::Array(replies) = reply else { return None };
                if replies.len() != commands.len() {
                    return None;
                }
                for ((op, words), reply) in self.ops.iter_mut().zip(commands).zip(replies) {
                    replies::fill(op, words, reply)?;
                }
                self.ending = Ending::Ok;
                Some(())
            }
            _ => self.advance_watched(request, reply),
        }
    }
}

/// Sorts error replies: those that say that nothing happened, the one that says "unknown", and nonsense (as an error).
fn answer(outcome: Outcome) -> Result<Answer, Reply> {
    let reply = match outcome {
        Outcome::Done(reply) => reply,
        Outcome::Refused(_) => return Ok(Answer::Fail),
        Outcome::Unknown => return Ok(Answer::Unknown),
    };
    let Reply::Error(ErrorReply(message)) = &reply else { return Ok(Answer::Reply(reply)) };
    match Meaning::of(message) {
        Meaning::Unknown => Ok(Answer::Unknown),
        Meaning::Refused => Ok(Answer::Fail),
        Meaning::Nonsense => Err(reply),
    }
}

/// What an error reply says of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing happened.
    Refused,
    /// It may have happened.
    Unknown,
    /// Something is wrong with the request itself, which no correct server says of a workload's.
    Nonsense,
}

impl Meaning {
    /// What this error message says.
    pub fn of(message: &str) -> Meaning {
        let first = |message: &str| message.split(' ').next().unwrap_or_default().to_owned();
        if first(message) == first(UNKNOWN_MESSAGE) {
            return Meaning::Unknown;
        }
        let is_refusal = message.ends_with("nothing was changed")
            || [
                "TRYAGAIN",
                "BUSY",
                "NOSPACE",
                "OOM",
                "LOADING",
                "CLUSTERDOWN",
                "EXECABORT",
                "MOVED",
                "ASK",
                "READONLY",
            ]
            .contains(&first(message).as_str());
        if is_refusal { Meaning::Refused } else { Meaning::Nonsense }
    }
}
