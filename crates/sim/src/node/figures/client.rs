//! One client: a transaction after the other, each in rounds.

use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Outcome, Reply, Request, Version};
use quorate_workload::rounds;
use quorate_workload::transaction::{Ask, Read, Seen, Transaction, Write};

use super::setup::{Job, Manner, Source};
use crate::node::words;

/// How an attempt at a transaction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It happened.
    Committed,
    /// It took itself back, as it was meant to.
    RolledBack,
    /// A version had changed.
    Outrun,
    /// Nothing happened, for this reason.
    Refused(&'static str),
    /// Nobody knows.
    Unknown,
}

/// What follows.
#[derive(Debug)]
pub(super) enum Next {
    /// To ask all of this at once.
    Ask(Vec<Request>),
    /// The attempt is over.
    Over(Fate),
}

#[derive(Debug)]
enum Stage {
    /// Versions of `watched` keys, then what was read.
    Reading {
        reads: Vec<Read>,
        watched: usize,
    },
    Committing,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Client {
    source: Source,
    manner: Manner,
    /// As it was drawn, to begin it again.
    drawn: Job,
    pub(super) job: Job,
    /// When its first attempt began.
    pub(super) begun: Duration,
    /// How often it was tried.
    pub(super) attempts: u64,
    /// When the newest round was asked.
    pub(super) asked: Duration,
    /// Keys of its commit, to count the buckets of them.
    pub(super) touched: Vec<Bytes>,
    stage: Stage,
    watched: Vec<(Bytes, Version)>,
    replies: Vec<Option<Outcome>>,
    missing: usize,
}

impl Client {
    /// As [`Source::home`].
    pub(super) fn home(&self) -> Option<Bytes> {
        self.source.home()
    }

    pub(super) fn new(mut source: Source, manner: Manner) -> Client {
        let drawn = source.next(Duration::ZERO);
        Client {
            source,
            manner,
            job: drawn.clone(),
            drawn,
            begun: Duration::ZERO,
            attempts: 0,
            asked: Duration::ZERO,
            touched: Vec::new(),
            stage: Stage::Committing,
            watched: Vec::new(),
            replies: Vec::new(),
            missing: 0,
        }
    }

    /// Whether it is in the last round of its attempt.
    pub(super) fn commits(&self) -> bool {
        matches!(self.stage, Stage::Committing)
    }

    /// Begins the next transaction.
    pub(super) fn begin(&mut self, now: Duration) -> Result<Next, String> {
        self.drawn = self.source.next(now);
        self.begun = now;
        self.attempts = 0;
        self.again()
    }

    /// Begins another attempt at the same.
    pub(super) fn again(&mut self) -> Result<Next, String> {
        self.attempts += 1;
        self.job = self.drawn.clone();
        self.watched.clear();
        self.ask()
    }

    /// One answer of the round has come. What follows, if that was the last.
    pub(super) fn answered(&mut self, place: usize, outcome: Outcome) -> Result<Option<Next>, String> {
        let Some(slot) = self.replies.get_mut(place).filter(|slot| slot.is_none()) else {
            return Err(format!("an answer that nobody waits for: {place}"));
        };
        *slot = Some(outcome);
        self.missing -= 1;
        if self.missing > 0 {
            return Ok(None);
        }
        let mut replies = Vec::with_capacity(self.replies.len());
        for outcome in self.replies.drain(..).flatten() {
            match outcome {
                Outcome::Done(Reply::Error(error)) => return Err(format!("answered with {error:?}")),
                Outcome::Done(reply) => replies.push(reply),
                Outcome::Refused(why) => return Ok(Some(Next::Over(Fate::Refused(words::mark_of(&why))))),
                Outcome::Unknown => return Ok(Some(Next::Over(Fate::Unknown))),
            }
        }
        let Stage::Reading { reads, watched } = std::mem::replace(&mut self.stage, Stage::Committing) else {
            return match replies.pop() {
                Some(Reply::NilArray) => Ok(Some(Next::Over(Fate::Outrun))),
                Some(Reply::Array(_)) => Ok(Some(Next::Over(Fate::Committed))),
                other => Err(format!("EXEC was answered {other:?}")),
            };
        };
        let values = replies.split_off(watched);
        self.keep_versions(&reads, replies)?;
        let seen = seen(&reads, values)?;
        self.job.answered(seen);
        self.ask().map(Some)
    }

    fn keep_versions(&mut self, reads: &[Read], replies: Vec<Reply>) -> Result<(), String> {
        for (read, reply) in reads.iter().zip(replies) {
            let key = read.key().clone();
            let version = words::versions(std::slice::from_ref(&key), &reply);
            self.watched.extend(version.ok_or_else(|| format!("a version was answered {reply:?}"))?);
        }
        Ok(())
    }

    /// Does what the transaction wants next.
    fn ask(&mut self) -> Result<Next, String> {
        loop {
            match self.job.next() {
                Ask::Read { mut reads, .. } => {
                    if self.manner == Manner::Reads {
                        reads.retain(|read| !matches!(read, Read::Version(_)));
                    }
                    let watches = self.job.is_guarded();
                    let requests = asks(&reads, watches);
                    if requests.is_empty() {
                        self.job.answered(vec![Seen::Nothing; reads.len()]);
                        continue;
                    }
                    let watched = if watches { reads.len() } else { 0 };
                    self.stage = Stage::Reading { reads, watched };
                    return Ok(self.send(requests));
                }
                Ask::Commit { reads, writes } => {
                    let request = self.commit(&reads, &writes);
                    self.stage = Stage::Committing;
                    return Ok(match request {
                        Some(request) => self.send(vec![request]),
                        None => Next::Over(Fate::Committed),
                    });
                }
                Ask::Rollback => return Ok(Next::Over(Fate::RolledBack)),
                Ask::Finish => return Ok(Next::Over(Fate::Committed)),
                Ask::Impossible(why) => return Err(why),
            }
        }
    }

    fn send(&mut self, requests: Vec<Request>) -> Next {
        self.missing = requests.len();
        self.replies = vec![None; requests.len()];
        Next::Ask(requests)
    }

    /// The end of the transaction; `None` if there is nothing to compare, read or write.
    fn commit(&mut self, reads: &[Read], writes: &[Write]) -> Option<Request> {
        let mut commands = rounds::reads(reads);
        writes.iter().for_each(|write| rounds::write(write, &mut commands));
        self.touched = self.watched.iter().map(|(key, _)| key.clone()).collect();
        self.touched.extend(reads.iter().map(|read| read.key().clone()));
        self.touched.extend(writes.iter().map(|write| write.key().clone()));
        let commands: Vec<_> = commands.iter().map(|words| words::command(words)).collect();
        let watched = std::mem::take(&mut self.watched);
        (!commands.is_empty() || !watched.is_empty()).then_some(Request::Transaction { watched, commands })
    }
}

/// The requests of a round, each about one key so that none of them is a transaction: versions first, then values.
fn asks(reads: &[Read], watches: bool) -> Vec<Request> {
    let keys = reads.iter().filter(|_| watches).map(|read| Request::Versions(vec![read.key().clone()]));
    let values = reads.iter().flat_map(|read| rounds::reads(std::slice::from_ref(read)));
    keys.chain(values.map(|words| words::one(&words))).collect()
}

/// What the answers to them say.
fn seen(reads: &[Read], values: Vec<Reply>) -> Result<Vec<Seen>, String> {
    let mut values = values.into_iter();
    let mut all = Vec::with_capacity(reads.len());
    for read in reads {
        let reply = (!matches!(read, Read::Version(_))).then(|| values.next()).flatten();
        let found = rounds::seen(std::slice::from_ref(read), reply.clone().into_iter().collect());
        all.extend(found.ok_or_else(|| format!("{read:?} was answered {reply:?}"))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use quorate_kernel::Rng;

    use super::super::setup::Setup;
    use super::*;

    fn client(manner: Manner) -> Client {
        let setup = Setup::small(1, manner, 3);
        Client::new(setup.sources(&mut Rng::new(3)).remove(0), manner)
    }

    /// Answers a round as a store does in which nothing is.
    fn answer(client: &mut Client, requests: &[Request], commit: &Reply) -> Next {
        let mut last = None;
        for (place, request) in requests.iter().enumerate() {
            let reply = match request {
                Request::Versions(_) => Reply::Array(vec![Reply::Int(0)]),
                Request::One(_) => Reply::Array(vec![Reply::Nil]),
                Request::Transaction { .. } => commit.clone(),
                Request::Collect { .. } => panic!("only nodes ask this"),
            };
            last = client.answered(place, Outcome::Done(reply)).expect("an answer that makes sense");
        }
        last.expect("the round has ended")
    }

    fn play(manner: Manner, commit: &Reply) -> (usize, usize, Fate) {
        let mut client = client(manner);
        let (mut rounds, mut watched) = (0, 0);
        let mut next = client.begin(Duration::ZERO).expect("it begins");
        loop {
            match next {
                Next::Over(fate) => return (rounds, watched, fate),
                Next::Ask(requests) => {
                    rounds += 1;
                    if let Some(Request::Transaction { watched: keys, .. }) = requests.first() {
                        watched = keys.len();
                    }
                    next = answer(&mut client, &requests, commit);
                }
            }
        }
    }

    #[test]
    fn manners_differ_in_rounds_and_in_what_is_compared() {
        let done = Reply::Array(Vec::new());
        assert_eq!(play(Manner::Paper, &done), (6, 5, Fate::Committed));
        assert_eq!(play(Manner::OneShot, &done), (1, 0, Fate::Committed));
        let (rounds, watched, _) = play(Manner::Reads, &done);
        assert_eq!(rounds, watched + 1);
        assert!(watched < 5, "a transaction of five reads");
        assert_eq!(play(Manner::Paper, &Reply::NilArray).2, Fate::Outrun);
    }

    #[test]
    fn another_attempt_asks_for_the_same() {
        let mut client = client(Manner::Repeated);
        let texts = |next: Next| format!("{next:?}");
        let first = texts(client.begin(Duration::ZERO).expect("it begins"));
        assert_eq!(texts(client.again().expect("it begins")), first);
        assert_ne!(texts(client.begin(Duration::ZERO).expect("it begins")), first);
    }

    #[test]
    fn answers_that_make_no_sense_are_told() {
        let mut client = client(Manner::OneShot);
        client.begin(Duration::ZERO).expect("it begins");
        assert!(client.answered(7, Outcome::Unknown).is_err());
        assert!(client.answered(0, Outcome::Done(Reply::Ok)).is_err());
    }
}
