//! Clients of transactions: rounds of reads, each key watched before it is read, then all writes at once.

use std::sync::Arc;

use quorate_api::{ErrorReply, Reply};
use quorate_workload::transaction::{Ask, Read, Transaction};
use quorate_workload::{Meaning, Words};

use crate::player::{End, Player, Start, Step};
use crate::progress::Progress;
use crate::script;
use crate::tally::{Fate, Tally};
use quorate_client::resp;
use quorate_workload::rounds;

/// Where transactions come from and go to.
pub(crate) trait Source {
    /// What they are.
    type Transaction: Transaction;

    /// The next one of this client, if there is one.
    fn next(&mut self, client: usize) -> Option<Self::Transaction>;

    /// It has ended, and happened if `is_done`.
    fn ended(&mut self, transaction: Self::Transaction, is_done: bool);
}

/// How transactions are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Whether keys are watched before they are read, if the transaction depends on what it reads.
    pub(crate) watch: bool,
    /// Whether writes stand between MULTI and EXEC.
    pub(crate) multi: bool,
}

/// What the replies that come are for.
#[derive(Debug)]
enum Stage {
    /// A round of reads, the first reply that of a WATCH if there is one.
    Reading { reads: Vec<Read>, kind: Option<usize>, is_watched: bool },
    /// The end of it all.
    Committing,
    /// An UNWATCH: how it ended is known.
    Leaving(Fate),
}

/// A transaction under way.
struct Playing<T> {
    transaction: T,
    start: Start,
    stage: Stage,
    /// When the requests of this stage were sent.
    sent_ns: u64,
    expected: usize,
    replies: Vec<Reply>,
    /// Whether the connection watches keys.
    has_watched: bool,
}

/// What follows when all replies of a stage are there.
enum Next {
    /// Go on.
    More,
    /// It has ended.
    Over(Fate),
    /// The answers make no sense.
    Nonsense(String),
}

/// Plays clients of one source.
pub(crate) struct Transact<S: Source> {
    source: S,
    manner: Manner,
    playing: Vec<Option<Playing<S::Transaction>>>,
    pub(crate) tally: Tally,
    /// The kind of the round that commits, if it is measured apart.
    commit_kind: Option<usize>,
    progress: Arc<Progress>,
}

impl<S: Source> Transact<S> {
    pub(crate) fn new(
        source: S,
        clients: usize,
        manner: Manner,
        kinds: &'static [&'static str],
        progress: Arc<Progress>,
    ) -> Transact<S> {
        let commit_kind = kinds.iter().position(|kind| *kind == "commit").filter(|_| manner.multi);
        let playing = (0..clients).map(|_| None).collect();
        Transact { source, manner, playing, tally: Tally::new(kinds), commit_kind, progress }
    }

    /// Does what the transaction wants next.
    fn ask(&self, playing: &mut Playing<S::Transaction>, now_ns: u64, out: &mut Vec<u8>) -> Next {
        loop {
            playing.sent_ns = now_ns;
            let commands = match playing.transaction.next() {
                Ask::Read { reads, kind } => {
                    let is_watched = self.manner.watch && playing.transaction.is_guarded();
                    let mut commands = rounds::reads(&reads);
                    if is_watched {
                        commands.insert(0, rounds::watch(&reads));
                    }
                    playing.has_watched |= is_watched;
                    if commands.is_empty() {
                        let nothing = rounds::seen(&reads, Vec::new()).unwrap_or_default();
                        playing.transaction.answered(nothing);
                        continue;
                    }
                    playing.stage = Stage::Reading { reads, kind, is_watched };
                    commands
                }
                Ask::Commit { reads, writes } => {
                    let mut commands = rounds::reads(&reads);
                    writes.iter().for_each(|write| rounds::write(write, &mut commands));
                    if commands.is_empty() && !playing.has_watched {
                        return Next::Over(Fate::Committed);
                    }
                    if self.manner.multi {
                        commands.insert(0, rounds::bare("MULTI"));
                        commands.push(rounds::bare("EXEC"));
                    }
                    playing.stage = Stage::Committing;
                    commands
                }
                Ask::Rollback => return self.leave(playing, Fate::RolledBack, out),
                Ask::Finish => return Next::Over(Fate::Committed),
                Ask::Impossible(why) => return Next::Nonsense(why),
            };
            send(playing, &commands, out);
            return Next::More;
        }
    }

    /// Ends a transaction before its commit. What is watched must not spoil the next one.
    fn leave(&self, playing: &mut Playing<S::Transaction>, fate: Fate, out: &mut Vec<u8>) -> Next {
        if !playing.has_watched {
            return Next::Over(fate);
        }
        playing.stage = Stage::Leaving(fate);
        send(playing, &[rounds::bare("UNWATCH")], out);
        Next::More
    }

    /// All replies of a stage are there.
    fn take(&mut self, playing: &mut Playing<S::Transaction>, now_ns: u64, out: &mut Vec<u8>) -> Next {
        let mut replies = std::mem::take(&mut playing.replies);
        let took = now_ns.saturating_sub(playing.sent_ns);
        let (reads, kind, is_watched) = match &mut playing.stage {
            Stage::Leaving(fate) => return Next::Over(*fate),
            Stage::Committing => {
                if let (Some(kind), true) = (self.commit_kind, playing.start.is_measured) {
                    self.tally.round(kind, took);
                }
                return committed(replies, self.manner.multi);
            }
            Stage::Reading { reads, kind, is_watched } => (std::mem::take(reads), *kind, *is_watched),
        };
        if let Some(message) = first_error(&replies) {
            return match Meaning::of(message) {
                Meaning::Nonsense => Next::Nonsense(format!("a read was answered {message}")),
                // Reads change nothing.
                Meaning::Refused | Meaning::Unknown => self.leave(playing, Fate::Refused, out),
            };
        }
        if let (Some(kind), true) = (kind, playing.start.is_measured) {
            self.tally.round(kind, took);
        }
        if is_watched {
            replies.remove(0);
        }
        let Some(seen) = rounds::seen(&reads, replies) else {
            return Next::Nonsense("a read was answered with something of another kind".into());
        };
        playing.transaction.answered(seen);
        self.ask(playing, now_ns, out)
    }

    fn end(&mut self, playing: Playing<S::Transaction>, fate: Option<Fate>, now_ns: u64) -> Step {
        let Playing { transaction, start, .. } = playing;
        let is_write = transaction.is_write();
        if let (Some(fate), true) = (fate, start.is_measured) {
            let took = now_ns.saturating_sub(start.due_ns);
            self.tally.ended(transaction.kind(), fate, took, transaction.operations());
        }
        let end = match fate {
            Some(Fate::Committed) => End::Done,
            Some(Fate::RolledBack | Fate::Outrun) => End::Aborted,
            Some(Fate::Refused) => End::Refused,
            Some(Fate::Unknown) => End::Unknown,
            None => End::Nonsense,
        };
        self.source.ended(transaction, end == End::Done);
        Step::Ended { end, is_write }
    }

    fn follow(&mut self, client: usize, playing: Playing<S::Transaction>, next: Next, now_ns: u64) -> Step {
        match next {
            Next::More => {
                self.playing[client] = Some(playing);
                Step::More
            }
            Next::Over(fate) => self.end(playing, Some(fate), now_ns),
            Next::Nonsense(why) => {
                self.progress.surprised(format!("client {client}: {why}"));
                self.end(playing, None, now_ns)
            }
        }
    }
}

fn send<T>(playing: &mut Playing<T>, commands: &[Words], out: &mut Vec<u8>) {
    playing.expected = commands.len();
    commands.iter().for_each(|words| resp::encode(out, words));
}

fn first_error(replies: &[Reply]) -> Option<&str> {
    replies.iter().find_map(|reply| match reply {
        Reply::Error(ErrorReply(message)) => Some(message.as_ref()),
        _ => None,
    })
}

/// What the replies to the last requests mean.
fn committed(mut replies: Vec<Reply>, multi: bool) -> Next {
    if multi && replies.first() != Some(&Reply::Ok) {
        // Without MULTI the commands may have run one by one.
        return Next::Nonsense(format!("MULTI was answered {:?}", replies.first()));
    }
    let results = match (multi, replies.pop()) {
        (true, Some(Reply::Nil | Reply::NilArray)) => return Next::Over(Fate::Outrun),
        (true, Some(Reply::Array(results))) => {
            // Each was run, and none of them can fail.
            return match first_error(&results) {
                Some(message) => Next::Nonsense(format!("a command of a transaction was answered {message}")),
                None => Next::Over(Fate::Committed),
            };
        }
        (_, last) => last.into_iter().chain(if multi { Vec::new() } else { replies }).collect::<Vec<_>>(),
    };
    match first_error(&results).map(|message| (Meaning::of(message), message)) {
        None if multi => Next::Nonsense(format!("EXEC was answered {results:?}")),
        None => Next::Over(Fate::Committed),
        Some((Meaning::Refused, _)) => Next::Over(Fate::Refused),
        Some((Meaning::Unknown, _)) => Next::Over(Fate::Unknown),
        Some((Meaning::Nonsense, message)) => Next::Nonsense(format!("a write was answered {message}")),
    }
}

impl<S: Source> Player for Transact<S> {
    fn depth(&self) -> usize {
        1
    }

    fn begin(&mut self, client: usize, start: Start, out: &mut Vec<u8>) -> bool {
        let Some(transaction) = self.source.next(client) else { return false };
        let mut playing = Playing {
            transaction,
            start,
            stage: Stage::Committing,
            sent_ns: start.now_ns,
            expected: 0,
            replies: Vec::new(),
            has_watched: false,
        };
        match self.ask(&mut playing, start.now_ns, out) {
            Next::More => {
                self.playing[client] = Some(playing);
                true
            }
            // Every transaction asks for something first.
            Next::Over(_) | Next::Nonsense(_) => false,
        }
    }

    fn reply(&mut self, client: usize, reply: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Step {
        let Some(mut playing) = self.playing[client].take() else {
            return Step::Ended { end: End::Nonsense, is_write: false };
        };
        let Ok(Some((reply, _))) = resp::parse(reply) else {
            // The session has found its length already.
            return self.end(playing, None, now_ns);
        };
        if script::is_turned_away(&reply) {
            return self.end(playing, Some(Fate::Refused), now_ns);
        }
        playing.replies.push(reply);
        if playing.replies.len() < playing.expected {
            self.playing[client] = Some(playing);
            return Step::More;
        }
        let next = self.take(&mut playing, now_ns, out);
        self.follow(client, playing, next, now_ns)
    }

    fn lost(&mut self, client: usize, now_ns: u64) -> Step {
        let Some(playing) = self.playing[client].take() else {
            return Step::Ended { end: End::Unknown, is_write: false };
        };
        let fate = match &playing.stage {
            // Nothing was written yet.
            Stage::Reading { .. } => Fate::Refused,
            Stage::Committing => Fate::Unknown,
            Stage::Leaving(fate) => *fate,
        };
        self.end(playing, Some(fate), now_ns)
    }
}

#[cfg(test)]
mod tests;
