//! The client: requests, and what is done about those that are not answered.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_api::{Identity, Reply, slot_of};

use crate::answer::{Meaning, meaning_of_all};
use crate::backoff::{Backoff, chance};
use crate::link::Broken;
use crate::resp;
use crate::router::{Counters, Router};
use crate::{Options, Outcome, Refusal, Transaction};

/// After so many redirections in a row there is a pause before the next.
const REDIRECTIONS_MAX: u32 = 3;

/// A client of a cluster. See the crate's documentation.
#[derive(Debug)]
pub struct Client {
    options: Options,
    router: Router,
    /// Names this client, or a part of its life, in its requests.
    origin: u64,
    /// The number of the newest change; all others have ended.
    sequence: u64,
}

/// A key that was read for a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) version: u64,
    pub(crate) value: Option<Bytes>,
}

/// A change: what must not have changed since it was read, and what runs then.
#[derive(Debug, Default)]
pub(crate) struct Change<'a> {
    pub(crate) watched: Vec<(&'a [u8], u64)>,
    pub(crate) commands: Vec<Vec<&'a [u8]>>,
}

impl Client {
    /// A client of the cluster in which these doors are (`host:port`), preferably those for the cluster view. One is enough; more
    /// help when it is down. Connects when it is first used.
    pub fn new<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Client {
        Client::with_options(addresses, Options::default())
    }

    /// The same, with times of one's own.
    pub fn with_options<A: Into<String>>(addresses: impl IntoIterator<Item = A>, options: Options) -> Client {
        let addresses = addresses.into_iter().map(Into::into).collect();
        Client { router: Router::new(addresses, options.clone()), options, origin: chance(), sequence: 0 }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.router.counters
    }

    /// The value of a key, `None` if there is none: the newest. Reading changes nothing, so the end is never unknown. A key that
    /// holds no string is [`Refusal::Answered`].
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Outcome<Option<Bytes>> {
        let key = key.as_ref();
        let mut request = Vec::new();
        resp::encode(&mut request, &[&b"GET"[..], key]);
        self.read(slot_of(key), &request, 1).and_then(|replies| value_of(replies.first()))
    }

    /// The values of several keys in their order, `None` where there is none: all of them as they stood at one instant, wherever
    /// they lie. It is one question to one node, of which the newest values are told. What holds no string counts as none. The end is
    /// never unknown; an answer that would be longer than 32 MiB is [`Refusal::Answered`].
    pub fn get_all<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Outcome<Vec<Option<Bytes>>> {
        let Some(slot) = lowest_slot(keys) else { return Outcome::Done(Vec::new()) };
        let mut request = Vec::new();
        resp::encode(&mut request, &with_keys(&[b"MGET"], keys));
        self.read(slot, &request, 1).and_then(|replies| values_of(replies.first(), keys.len()))
    }

    /// Sets a key to a value.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Outcome<()> {
        let commands = vec![vec![&b"SET"[..], key.as_ref(), value.as_ref()]];
        self.change(&Change { watched: Vec::new(), commands }).map(|_| ())
    }

    /// Removes a key; whether it was there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Outcome<bool> {
        let commands = vec![vec![&b"DEL"[..], key.as_ref()]];
        let end = self.change(&Change { watched: Vec::new(), commands });
        end.map(|replies| replies.first() == Some(&Reply::Int(1)))
    }

    /// Begins a transaction. Nothing is locked, and nothing is sent before something is read.
    pub fn begin(&mut self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Reads a key with its version.
    pub(crate) fn read_version(&mut self, key: &[u8]) -> Outcome<Read> {
        let mut requests = Vec::new();
        // The version first: should the key change between the two, the version is the old one, and the commit notices.
        resp::encode(&mut requests, &[&b"QUORATE"[..], b"VERSIONS", key]);
        resp::encode(&mut requests, &[&b"GET"[..], key]);
        self.read(slot_of(key), &requests, 2).and_then(|replies| {
            let version = match replies.first() {
                Some(Reply::Array(versions)) => versions.first(),
                _ => None,
            };
            let Some(Reply::Int(version)) = version else {
                return Outcome::Refused(Refusal::Answered("the answer is no version".into()));
            };
            let version = version.cast_unsigned();
            value_of(replies.get(1)).map(|value| Read { version, value })
        })
    }

    /// Reads several keys with their versions. Where keys change meanwhile, their versions are the old ones.
    pub(crate) fn read_versions(&mut self, keys: &[&[u8]]) -> Outcome<Vec<Read>> {
        let Some(slot) = lowest_slot(keys) else { return Outcome::Done(Vec::new()) };
        let mut requests = Vec::new();
        resp::encode(&mut requests, &with_keys(&[b"QUORATE", b"VERSIONS"], keys));
        resp::encode(&mut requests, &with_keys(&[b"MGET"], keys));
        self.read(slot, &requests, 2).and_then(|replies| {
            let Some(versions) = versions_of(replies.first(), keys.len()) else {
                return Outcome::Refused(Refusal::Answered("the answer is no versions".into()));
            };
            values_of(replies.get(1), keys.len()).map(|values| {
                let pairs = versions.into_iter().zip(values);
                pairs.map(|(version, value)| Read { version, value }).collect()
            })
        })
    }

    /// Asks until somebody answers, or there is no time left: nothing is changed by it.
    fn read(&mut self, slot: u16, requests: &[u8], count: usize) -> Outcome<Vec<Reply>> {
        let mut backoff = Backoff::new(&self.options);
        let mut redirections = 0;
        loop {
            let why = match self.router.ask(slot, requests, count, backoff.left()) {
                Ok(replies) => match meaning_of_all(&replies) {
                    Meaning::Answer => return Outcome::Done(replies),
                    Meaning::Refused(why) => return Outcome::Refused(Refusal::Answered(why)),
                    Meaning::Moved(to) => {
                        self.router.moved(slot, &to);
                        redirections += 1;
                        if redirections <= REDIRECTIONS_MAX {
                            continue;
                        }
                        format!("sent on to {to}")
                    }
                    Meaning::Passing(why)
                    | Meaning::Doubt(why)
                    | Meaning::Aborted(why)
                    | Meaning::Settled(why) => {
                        self.router.is_in_doubt(slot);
                        why
                    }
                },
                Err(Broken::Unsent(why) | Broken::Lost(why)) => why,
            };
            redirections = 0;
            if !backoff.pause() {
                return Outcome::Refused(Refusal::NotInTime(why));
            }
        }
    }

    /// Makes a change: asks for it under one name until its end is known, or there is no time left.
    pub(crate) fn change(&mut self, change: &Change<'_>) -> Outcome<Vec<Reply>> {
        let slot = change.slot();
        let mut backoff = Backoff::new(&self.options);
        let mut attempt = Attempt { age_ms: unix_ms(), ..Attempt::default() };
        let mut request = self.next_request(change, attempt.age_ms);
        loop {
            let answer = self.router.ask(slot, &request, 1, backoff.left());
            let next = attempt.judge(answer);
            match next {
                Next::End(end) => return end,
                Next::Elsewhere(to) => {
                    self.router.moved(slot, &to);
                    if attempt.redirections <= REDIRECTIONS_MAX {
                        continue;
                    }
                }
                Next::Again { unserved } if unserved => self.router.is_in_doubt(slot),
                Next::Again { .. } => {}
                Next::Anew { origin } => {
                    if origin {
                        (self.origin, self.sequence) = (chance(), 0);
                    }
                    request = self.next_request(change, attempt.age_ms);
                }
            }
            attempt.redirections = 0;
            if !backoff.pause() {
                return attempt.give_up();
            }
        }
    }

    /// The change under the next name.
    fn next_request(&mut self, change: &Change<'_>, age_ms: u64) -> Vec<u8> {
        self.sequence += 1;
        // One change at a time: those before have ended, and nobody asks for them any more.
        let (origin, sequence) = (self.origin, self.sequence);
        change.encode(&Identity { age_ms, origin, sequence, settled_before: sequence })
    }
}

/// What is known of a change that has not ended.
#[derive(Debug, Default)]
struct Attempt {
    age_ms: u64,
    /// Whether somebody may have done it under the name that it has now.
    doubt: bool,
    /// How often in a row a name came to an end without its change.
    aborts: u32,
    /// How often in a row it was sent elsewhere.
    redirections: u32,
    why: String,
}

/// What is to be done about a change.
#[derive(Debug, PartialEq, Eq)]
enum Next<T> {
    End(Outcome<T>),
    /// The node at this address leads.
    Elsewhere(String),
    /// Under the same name; `unserved`: the node that was asked cannot serve.
    Again {
        unserved: bool,
    },
    /// Under a new name, and as somebody new if `origin`.
    Anew {
        origin: bool,
    },
}

impl Attempt {
    /// What an answer, or that there is none, means for the change.
    fn judge(&mut self, answer: Result<Vec<Reply>, Broken>) -> Next<Vec<Reply>> {
        let replies = match answer {
            Ok(replies) => replies,
            Err(Broken::Unsent(why)) => {
                self.why = why;
                return Next::Again { unserved: false };
            }
            Err(Broken::Lost(why)) => {
                (self.why, self.doubt) = (why, true);
                return Next::Again { unserved: false };
            }
        };
        match meaning_of_all(&replies) {
            Meaning::Answer => Next::End(end_of(replies)),
            Meaning::Moved(to) => {
                self.redirections += 1;
                self.why = format!("sent on to {to}");
                Next::Elsewhere(to)
            }
            Meaning::Passing(why) => {
                self.why = why;
                Next::Again { unserved: true }
            }
            Meaning::Doubt(why) => {
                (self.why, self.doubt) = (why, true);
                Next::Again { unserved: true }
            }
            Meaning::Aborted(why) => {
                (self.why, self.doubt) = (why, false);
                self.aborts += 1;
                // The first time it is bad luck. Then this client may have been taken for dead.
                Next::Anew { origin: self.aborts > 1 }
            }
            // Forgotten, whatever it was.
            Meaning::Settled(why) if self.doubt => Next::End(Outcome::Unknown(why)),
            Meaning::Settled(why) => {
                self.why = why;
                Next::Anew { origin: true }
            }
            // It says what this node thinks of the request now, and not what became of it before.
            Meaning::Refused(why) if self.doubt => {
                self.why = why;
                Next::Again { unserved: true }
            }
            Meaning::Refused(why) => Next::End(Outcome::Refused(Refusal::Answered(why))),
        }
    }

    fn give_up<T>(self) -> Outcome<T> {
        match self.doubt {
            true => Outcome::Unknown(self.why),
            false => Outcome::Refused(Refusal::NotInTime(self.why)),
        }
    }
}

/// The end that the answer to a change tells.
fn end_of(mut replies: Vec<Reply>) -> Outcome<Vec<Reply>> {
    match replies.pop() {
        Some(Reply::NilArray | Reply::Nil) => Outcome::Refused(Refusal::Conflict),
        Some(Reply::Array(replies)) => Outcome::Done(replies),
        other => Outcome::Unknown(format!("the answer makes no sense: {other:?}")),
    }
}

fn value_of(reply: Option<&Reply>) -> Outcome<Option<Bytes>> {
    match reply {
        Some(Reply::Bulk(value)) => Outcome::Done(Some(value.clone())),
        Some(Reply::Nil) => Outcome::Done(None),
        other => Outcome::Refused(Refusal::Answered(format!("the answer is no value: {other:?}"))),
    }
}

/// The values that the answer to MGET tells.
fn values_of(reply: Option<&Reply>, count: usize) -> Outcome<Vec<Option<Bytes>>> {
    if let Some(Reply::Array(replies)) = reply
        && replies.len() == count
    {
        let mut values = Vec::with_capacity(count);
        for reply in replies {
            match value_of(Some(reply)) {
                Outcome::Done(value) => values.push(value),
                Outcome::Refused(why) => return Outcome::Refused(why),
                Outcome::Unknown(why) => return Outcome::Unknown(why),
            }
        }
        return Outcome::Done(values);
    }
    Outcome::Refused(Refusal::Answered(format!("the answer is not {count} values")))
}

/// The versions that the answer to QUORATE VERSIONS tells.
fn versions_of(reply: Option<&Reply>, count: usize) -> Option<Vec<u64>> {
    let Some(Reply::Array(replies)) = reply else { return None };
    let number =
        |reply: &Reply| if let Reply::Int(number) = reply { Some(number.cast_unsigned()) } else { None };
    replies.iter().map(number).collect::<Option<Vec<_>>>().filter(|versions| versions.len() == count)
}

/// The lowest slot of several keys, whose leader is asked about all of them.
fn lowest_slot<K: AsRef<[u8]>>(keys: &[K]) -> Option<u16> {
    keys.iter().map(|key| slot_of(key.as_ref())).min()
}

/// A command about several keys.
fn with_keys<'a, K: AsRef<[u8]>>(command: &[&'a [u8]], keys: &'a [K]) -> Vec<&'a [u8]> {
    command.iter().copied().chain(keys.iter().map(AsRef::as_ref)).collect()
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Change<'_> {
    /// The lowest slot of its keys: the bucket there coordinates it.
    fn slot(&self) -> u16 {
        let watched = self.watched.iter().map(|(key, _)| *key);
        let written = self.commands.iter().filter_map(|words| words.get(1).copied());
        watched.chain(written).map(slot_of).min().unwrap_or_default()
    }

    /// QUORATE TXN as it goes over the wire.
    fn encode(&self, identity: &Identity) -> Vec<u8> {
        let Identity { age_ms, origin, sequence, settled_before } = *identity;
        let number = |number: u64| number.to_string().into_bytes();
        let mut words: Vec<Vec<u8>> = vec![b"QUORATE".into(), b"TXN".into()];
        words.extend([origin, sequence, age_ms, settled_before].map(number));
        words.push(number(self.watched.len() as u64));
        for (key, version) in &self.watched {
            words.extend([key.to_vec(), number(*version)]);
        }
        words.push(number(self.commands.len() as u64));
        for command in &self.commands {
            words.push(number(command.len() as u64));
            words.extend(command.iter().map(|word| word.to_vec()));
        }
        let mut request = Vec::new();
        resp::encode(&mut request, &words);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Result<Vec<Reply>, Broken> {
        Ok(vec![Reply::error(text)])
    }

    fn lost() -> Result<Vec<Reply>, Broken> {
        Err(Broken::Lost("it broke".into()))
    }

    fn done() -> Result<Vec<Reply>, Broken> {
        Ok(vec![Reply::Array(vec![Reply::Ok])])
    }

    #[test]
    fn what_was_sent_and_not_answered_stays_in_doubt_until_its_name_is_answered_for() {
        let mut attempt = Attempt::default();
        assert_eq!(attempt.judge(lost()), Next::Again { unserved: false });
        assert_eq!(attempt.judge(error("TRYAGAIN later")), Next::Again { unserved: true });
        assert_eq!(attempt.judge(error("NOSPACE")), Next::Again { unserved: true }, "that is about now");
        assert!(matches!(attempt.give_up::<()>(), Outcome::Unknown(_)));
        let mut attempt = Attempt::default();
        assert_eq!(attempt.judge(error("UNKNOWN")), Next::Again { unserved: true });
        assert_eq!(attempt.judge(error("ABORTED")), Next::Anew { origin: false });
        assert!(matches!(attempt.give_up::<()>(), Outcome::Refused(Refusal::NotInTime(_))));
    }

    #[test]
    fn what_never_left_or_was_not_taken_is_refused() {
        let mut attempt = Attempt::default();
        assert_eq!(attempt.judge(Err(Broken::Unsent("down".into()))), Next::Again { unserved: false });
        assert_eq!(attempt.judge(error("BUSY")), Next::Again { unserved: true });
        assert_eq!(attempt.judge(error("MOVED 1 a:1")), Next::Elsewhere("a:1".into()));
        assert!(matches!(attempt.give_up::<()>(), Outcome::Refused(Refusal::NotInTime(_))));
        let refused = Next::End(Outcome::Refused(Refusal::Answered("NOSPACE".into())));
        assert_eq!(Attempt::default().judge(error("NOSPACE")), refused);
    }

    #[test]
    fn answers_end_it() {
        assert_eq!(Attempt::default().judge(done()), Next::End(Outcome::Done(vec![Reply::Ok])));
        let conflict = Next::End(Outcome::Refused(Refusal::Conflict));
        assert_eq!(Attempt::default().judge(Ok(vec![Reply::NilArray])), conflict);
        let mut attempt = Attempt::default();
        assert_eq!(attempt.judge(lost()), Next::Again { unserved: false });
        assert_eq!(attempt.judge(done()), Next::End(Outcome::Done(vec![Reply::Ok])));
    }

    #[test]
    fn a_name_that_is_forgotten_is_unknown_if_it_was_in_doubt() {
        assert_eq!(Attempt::default().judge(error("SETTLED")), Next::Anew { origin: true });
        let mut attempt = Attempt { doubt: true, ..Attempt::default() };
        assert_eq!(attempt.judge(error("SETTLED")), Next::End(Outcome::Unknown("SETTLED".into())));
        let mut attempt = Attempt::default();
        let anew = [attempt.judge(error("ABORTED")), attempt.judge(error("ABORTED"))];
        assert_eq!(anew, [Next::Anew { origin: false }, Next::Anew { origin: true }]);
    }

    #[test]
    fn answers_about_several_keys_have_a_value_for_each() {
        let value = |text: &str| Reply::Bulk(Bytes::copy_from_slice(text.as_bytes()));
        let reply = Reply::Array(vec![value("a"), Reply::Nil]);
        let values = vec![Some(Bytes::from_static(b"a")), None];
        assert_eq!(values_of(Some(&reply), 2), Outcome::Done(values));
        for wrong in [reply.clone(), Reply::Nil, Reply::Array(vec![Reply::Ok; 3])] {
            assert!(
                matches!(values_of(Some(&wrong), 3), Outcome::Refused(Refusal::Answered(_))),
                "{wrong:?}"
            );
        }
        let versions = Reply::Array(vec![Reply::Int(7), Reply::Int(-1)]);
        assert_eq!(versions_of(Some(&versions), 2), Some(vec![7, u64::MAX]));
        assert_eq!(versions_of(Some(&versions), 1), None);
        assert_eq!(versions_of(Some(&reply), 2), None);
        assert_eq!(lowest_slot(&["b", "foo"]), Some(slot_of(b"b").min(slot_of(b"foo"))));
        assert_eq!(lowest_slot::<&str>(&[]), None);
    }

    #[test]
    fn a_change_names_what_it_depends_on() {
        let commands = vec![vec![&b"SET"[..], b"b", b"x"]];
        let change = Change { watched: vec![(b"foo", 7)], commands };
        assert_eq!(change.slot(), slot_of(b"b").min(slot_of(b"foo")));
        let identity = Identity { age_ms: 3, origin: 1, sequence: 2, settled_before: 2 };
        let mut expected = Vec::new();
        let words = ["QUORATE", "TXN", "1", "2", "3", "2", "1", "foo", "7", "1", "3", "SET", "b", "x"];
        resp::encode(&mut expected, &words);
        assert_eq!(change.encode(&identity), expected);
    }
}
