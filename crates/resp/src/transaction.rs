//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Consistency, Outcome, Reply, Request, Version};
use quorate_values::KeyPlaces;

use crate::explain::Explanation;
use crate::session::{check_size, reply_of};
use crate::step::What;
use crate::table::{InMulti, Local};
use crate::{Act, Answer, Limits, Session, Step, World};

/// What stands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// A command was refused: EXEC will refuse them all.
    spoilt: bool,
}

#[derive(Debug)]
pub(crate) enum Queued {
    Data(Command),
    Local(&'static Local, Vec<Bytes>),
}

/// Where a reply of EXEC comes from.
#[derive(Debug)]
pub(crate) enum Place {
    /// The next of the node's replies.
    Node,
    /// This command, run when the transaction has happened.
    Local(&'static Local, Vec<Bytes>),
}

impl Transaction {
    pub(crate) fn count(&self) -> usize {
        self.queued.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues a command. After the first refusal none is kept: they will not run.
    pub(crate) fn push(&mut self, queued: Queued, bytes: usize, limits: &Limits) -> Result<(), String> {
        if self.spoilt {
            return Ok(());
        }
        if self.queued.len() >= limits.queued_commands_max {
            let max = limits.queued_commands_max;
            return Err(format!("ERR a transaction takes at most {max} commands, EXEC will refuse this one"));
        }
        if self.bytes + bytes > limits.queued_bytes_max {
            let max = limits.queued_bytes_max;
            return Err(format!("ERR a transaction takes at most {max} bytes, EXEC will refuse this one"));
        }
        self.bytes += bytes;
        self.queued.push(queued);
        Ok(())
    }

    /// A command was refused.
    pub(crate) fn spoil(&mut self) {
        *self = Transaction { spoilt: true, ..Transaction::default() };
    }
}

/// The keys a connection watches.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    versions: BTreeMap<Bytes, Version>,
    /// A WATCH failed. A client that does not look at its reply must not get an unguarded EXEC: the next one is
    /// answered as if a key had changed.
    failed: bool,
}

impl Watched {
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty() && !self.failed
    }

    pub(crate) fn clear(&mut self) {
        *self = Watched::default();
    }

    /// Takes the versions of keys; the first version of a key stays, as it was watched from then on.
    pub(crate) fn learn(&mut self, keys: Vec<Bytes>, outcome: Outcome) -> Reply {
        let versions = match outcome {
            Outcome::Done(Reply::Array(versions)) if versions.len() == keys.len() => versions,
            other => {
                self.failed = true;
                return reply_of(other);
            }
        };
        for (key, version) in keys.into_iter().zip(versions) {
            let Reply::Int(version) = version else { panic!("a version that is no integer: {version:?}") };
            let version = Version(u64::try_from(version).expect("versions are not negative"));
            // The key lies in a read buffer, which a watch must not keep alive.
            self.versions.entry(Bytes::copy_from_slice(&key)).or_insert(version);
        }
        Reply::Ok
    }
}

const EVERY_WORD: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 1 };

pub(crate) static COMMANDS: [Local; 5] = [
    Local::new("discard", 1, "2.0.0", "Discards a transaction.", discard)
        .transaction()
        .in_multi(InMulti::Run),
    Local::new("exec", 1, "1.2.0", "Executes all commands in a transaction.", exec)
        .transaction()
        .fast(&["slow", "transaction"])
        .flags(&["noscript", "loading", "stale", "skip_slowlog"])
        .in_multi(InMulti::Run),
    Local::new("multi", 1, "1.2.0", "Starts a transaction.", multi).transaction().in_multi(InMulti::Run),
    Local::new("unwatch", 1, "2.2.0", "Forgets about watched keys.", unwatch).transaction(),
    Local::new("watch", -2, "2.2.0", "Makes the next transaction depend on keys staying as they are.", watch)
        .transaction()
        .in_multi(InMulti::Run)
        .keys(EVERY_WORD),
];

fn multi(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    if session.transaction.is_some() {
        return Reply::error("ERR MULTI calls can not be nested").into();
    }
    session.transaction = Some(Transaction::default());
    Reply::Ok.into()
}

fn discard(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    if session.transaction.take().is_none() {
        return Reply::error("ERR DISCARD without MULTI").into();
    }
    session.watched.clear();
    Reply::Ok.into()
}

fn unwatch(session: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    session.watched.clear();
    Reply::Ok.into()
}

fn watch(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    if session.transaction.is_some() {
        return Reply::error("ERR WATCH inside MULTI is not allowed").into();
    }
    let keys = &words[1..];
    if let Err(message) = session.may_watch(keys) {
        session.watched.failed = true;
        return Reply::error(message).into();
    }
    session.held = true;
    let request = Request::Versions(keys.to_vec());
    session.submit(request, Consistency::Strict, What::Watch(keys.to_vec()))
}

fn exec(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    let Some(transaction) = session.transaction.take() else {
        return Reply::error("ERR EXEC without MULTI").into();
    };
    let watched = core::mem::take(&mut session.watched);
    if transaction.spoilt {
        let why = "EXECABORT Transaction discarded because of previous errors.";
        session.explanation = Some(Explanation::at_the_door("error", why));
        return Reply::error(why).into();
    }
    if watched.failed {
        session.explanation = Some(Explanation::at_the_door("nil", "a WATCH before it had failed"));
        return Reply::NilArray.into();
    }
    let mut commands = Vec::new();
    let mut places = Vec::new();
    for queued in transaction.queued {
        places.push(match queued {
            Queued::Data(command) => {
                commands.push(command);
                Place::Node
            }
            Queued::Local(local, words) => Place::Local(local, words),
        });
    }
    if commands.is_empty() && watched.versions.is_empty() {
        session.explanation = Some(Explanation::at_the_door("done", "there was nothing to do"));
        return session.merge(places, Outcome::Done(Reply::Array(Vec::new())), world).into();
    }
    if places.len() == commands.len() {
        // Nothing to merge.
        places.clear();
    }
    session.held = !places.is_empty();
    let request = Request::Transaction { watched: watched.versions.into_iter().collect(), commands };
    session.submit(request, session.strictly(), What::Exec(places))
}

impl Session {
    fn may_watch(&self, keys: &[Bytes]) -> Result<(), String> {
        let max = self.limits.watched_keys_max;
        if self.watched.versions.len() + keys.len() > max {
            return Err(format!("ERR a connection watches at most {max} keys, the next EXEC will not run"));
        }
        keys.iter().try_for_each(|key| check_size("key", key, self.limits.key_bytes_max))
    }

    /// Runs the local commands of a transaction that has happened and puts their replies between the node's.
    pub(crate) fn merge(&mut self, places: Vec<Place>, outcome: Outcome, world: &dyn World) -> Answer {
        let of_node = match outcome {
            Outcome::Done(Reply::Array(replies)) => replies,
            not_happened => return Answer::from(reply_of(not_happened)),
        };
        let mut of_node = of_node.into_iter();
        let mut replies = Vec::with_capacity(places.len());
        let mut acts: Vec<Act> = Vec::new();
        for place in places {
            replies.push(match place {
                Place::Node => of_node.next().expect("a node answers each command of a transaction"),
                Place::Local(local, words) => {
                    let Step::Answer(answer) = (local.run)(self, &words, world) else {
                        unreachable!("{} is queued, so it is answered here", local.name)
                    };
                    acts.extend(answer.acts);
                    answer.reply.expect("commands without a reply are refused in transactions")
                }
            });
        }
        assert!(of_node.next().is_none(), "a node answers nothing but the commands of a transaction");
        Answer { reply: Some(Reply::Array(replies)), acts }
    }
}
