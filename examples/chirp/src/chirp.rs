//! The application: what users do, as reads and transactions of the native client.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_client::{Client, Outcome, Refusal};

use crate::list::{self, Damaged, follows_keys, posts_key, read_tail, tail_key};
use crate::post::{self, Feed, Post, merge};
use crate::{ChirpError, User};

/// A user follows at most so many others, so that all their chunks fit into one answer.
pub const FOLLOWS_MAX: usize = 500;
/// A timeline has at most so many posts, for the same reason.
pub const TIMELINE_LENGTH_MAX: usize = 50;

/// How often a change is tried whose list others change meanwhile.
const ATTEMPTS_MAX: usize = 100;
/// How often lists are asked for that prove to be longer than was known; each time more of them is asked for.
const QUESTIONS_MAX: usize = 32;
/// The chunks of so many users are remembered.
const SPANS_MAX: usize = 100_000;

/// The chunks of a list of posts that are asked for, both ends included.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: u64,
    tail: u64,
}

/// What users do. It has one request under way at a time: a program with several threads gives each its own.
#[derive(Debug)]
pub struct Chirp {
    client: Client,
    /// Where the newest posts of users were last time; most often they still are. Forgotten when there are too many.
    spans: HashMap<User, Span>,
}

impl Chirp {
    /// On the cluster of this client.
    pub fn new(client: Client) -> Chirp {
        Chirp { client, spans: HashMap::new() }
    }

    /// Posts a text of 1 to 140 characters (Unicode scalar values).
    ///
    /// # Errors
    /// [`ChirpError`]; but for [`ChirpError::Unknown`], nothing was posted.
    pub fn post(&mut self, author: &User, text: &str) -> Result<Post, ChirpError> {
        post::check_text(text)?;
        for _ in 0..ATTEMPTS_MAX {
            let known = self.spans.get(author).map_or(0, |span| span.tail);
            let mut transaction = self.client.begin();
            let tail_key = tail_key(author);
            let mut chunk_key = posts_key(author, known);
            let mut read = done(transaction.get_all(&[&tail_key, &chunk_key]))?;
            let mut chunk = read.pop().flatten();
            let tail = read_tail(&tail_key, read.pop().flatten().as_ref())?;
            if tail.unwrap_or(0) != known {
                chunk_key = posts_key(author, tail.unwrap_or(0));
                chunk = done(transaction.get(&chunk_key))?;
            }
            // A chunk that no tail names is what somebody left who removed keys by hand.
            let chunk = chunk.filter(|_| tail.is_some());
            let last = chunk.as_ref().map(|chunk| post::read(author, &chunk_key, chunk)).transpose()?;
            let last = last.and_then(|mut posts| posts.pop());
            if tail.is_some() && last.is_none() {
                return Err(ChirpError::Damaged(chunk_key));
            }
            let post = post::next(author, last.as_ref(), unix_ms(), text);
            let line = post::line(&post);
            let newest = match list::with_line(chunk.as_ref(), &line) {
                Some(whole) => {
                    transaction.put(&chunk_key, whole);
                    tail.unwrap_or(0)
                }
                None => {
                    let next = tail.map_or(0, |tail| tail + 1);
                    transaction.put(posts_key(author, next), format!("{line}\n"));
                    next
                }
            };
            if tail != Some(newest) {
                transaction.put(&tail_key, newest.to_string());
            }
            match transaction.commit() {
                Outcome::Refused(Refusal::Conflict) => {}
                end => {
                    done(end)?;
                    self.remember(author, Span { from: newest, tail: newest });
                    return Ok(post);
                }
            }
        }
        Err(ChirpError::Contended(author.clone()))
    }

    /// Lets a user follow others; how many were not followed before.
    ///
    /// # Errors
    /// [`ChirpError`]; but for [`ChirpError::Unknown`], nothing was changed.
    pub fn follow(&mut self, user: &User, others: &[User]) -> Result<usize, ChirpError> {
        if others.contains(user) {
            return Err(ChirpError::Own(user.clone()));
        }
        self.change_follows(user, |follows| {
            let mut count = follows.iter().map(Vec::len).sum::<usize>();
            let mut added = 0;
            for other in others {
                if follows.iter().flatten().any(|name| name == other) {
                    continue;
                }
                let has_room = |chunk: &&mut Vec<User>| {
                    let bytes: usize = chunk.iter().map(|name| name.name().len() + 1).sum();
                    bytes + other.name().len() < list::CHUNK_BYTES_MAX
                };
                let chunk = follows.iter_mut().find(has_room).filter(|_| count < FOLLOWS_MAX);
                chunk.ok_or_else(|| ChirpError::Full(user.clone()))?.push(other.clone());
                (count, added) = (count + 1, added + 1);
            }
            Ok(added)
        })
    }

    /// Lets a user no longer follow others; how many were followed before.
    ///
    /// # Errors
    /// [`ChirpError`]; but for [`ChirpError::Unknown`], nothing was changed.
    pub fn unfollow(&mut self, user: &User, others: &[User]) -> Result<usize, ChirpError> {
        self.change_follows(user, |follows| {
            let before: usize = follows.iter().map(Vec::len).sum();
            follows.iter_mut().for_each(|chunk| chunk.retain(|name| !others.contains(name)));
            Ok(before - follows.iter().map(Vec::len).sum::<usize>())
        })
    }

    /// Whom a user follows, in the order of their names.
    ///
    /// # Errors
    /// [`ChirpError`], if it cannot be read.
    pub fn follows(&mut self, user: &User) -> Result<Vec<User>, ChirpError> {
        let keys = follows_keys(user);
        let values = done(self.client.get_all(&keys))?;
        let mut names = read_follows(&keys, &values)?.concat();
        names.sort();
        Ok(names)
    }

    /// The newest posts of each of these users, as they stood at one instant: at least `limit` of each, unless there are fewer.
    ///
    /// # Errors
    /// [`ChirpError`], if they cannot be read.
    pub fn feeds(&mut self, authors: &[User], limit: usize) -> Result<Vec<Feed>, ChirpError> {
        let limit = limit.min(TIMELINE_LENGTH_MAX);
        for _ in 0..QUESTIONS_MAX {
            let spans: Vec<Span> =
                authors.iter().map(|author| self.spans.get(author).copied().unwrap_or_default()).collect();
            let keys: Vec<String> =
                authors.iter().zip(&spans).flat_map(|(author, span)| keys(author, *span)).collect();
            let mut values = done(self.client.get_all(&keys))?.into_iter();
            let mut feeds = Vec::with_capacity(authors.len());
            for (author, span) in authors.iter().zip(spans) {
                let own: Vec<_> = values.by_ref().take(keys_count(span)).collect();
                let (feed, next) = read_feed(author, span, &own, limit)?;
                feeds.extend(feed);
                self.remember(author, next);
            }
            if feeds.len() == authors.len() {
                return Ok(feeds);
            }
        }
        let text = "lists grew while they were read, all the time; try again";
        Err(ChirpError::Refused(text.to_owned()))
    }

    /// The newest posts of all whom a user follows, the newest first: at most `limit`, and [`TIMELINE_LENGTH_MAX`].
    ///
    /// # Errors
    /// [`ChirpError`], if it cannot be read.
    pub fn timeline(&mut self, user: &User, limit: usize) -> Result<Vec<Post>, ChirpError> {
        let limit = limit.min(TIMELINE_LENGTH_MAX);
        let follows = self.follows(user)?;
        Ok(merge(self.feeds(&follows, limit)?, limit))
    }

    /// Changes whom a user follows, by chunks; nothing is written if `change` counts no change.
    fn change_follows(
        &mut self,
        user: &User,
        change: impl Fn(&mut Vec<Vec<User>>) -> Result<usize, ChirpError>,
    ) -> Result<usize, ChirpError> {
        let keys = follows_keys(user);
        for _ in 0..ATTEMPTS_MAX {
            let mut transaction = self.client.begin();
            let values = done(transaction.get_all(&keys))?;
            let before = read_follows(&keys, &values)?;
            let mut after = before.clone();
            let count = change(&mut after)?;
            if count == 0 {
                return Ok(0);
            }
            for ((key, before), after) in keys.iter().zip(&before).zip(&after) {
                match after.is_empty() {
                    _ if before == after => {}
                    true => transaction.delete(key),
                    false => {
                        transaction.put(key, after.iter().map(|name| format!("{name}\n")).collect::<String>())
                    }
                }
            }
            match transaction.commit() {
                Outcome::Refused(Refusal::Conflict) => {}
                end => return done(end).map(|()| count),
            }
        }
        Err(ChirpError::Contended(user.clone()))
    }

    fn remember(&mut self, author: &User, span: Span) {
        if self.spans.len() >= SPANS_MAX {
            self.spans.clear();
        }
        self.spans.insert(author.clone(), span);
    }
}

/// What brings the posts of a span: the key that names the tail, and those of the chunks.
fn keys(author: &User, span: Span) -> impl Iterator<Item = String> {
    std::iter::once(tail_key(author)).chain((span.from..=span.tail).map(|chunk| posts_key(author, chunk)))
}

fn keys_count(span: Span) -> usize {
    (span.tail - span.from) as usize + 2
}

/// What was read of a span: the posts if they are enough, and the span to ask for next time.
fn read_feed(
    author: &User,
    span: Span,
    values: &[Option<Bytes>],
    limit: usize,
) -> Result<(Option<Feed>, Span), ChirpError> {
    let (tail, chunks) = values.split_first().expect("there is a value for each key, and one names the tail");
    let feed = |posts| Feed { author: author.clone(), posts };
    let Some(tail) = read_tail(&tail_key(author), tail.as_ref())? else {
        return Ok((Some(feed(Vec::new())), Span::default()));
    };
    if tail != span.tail {
        return Ok((None, Span { from: tail, tail }));
    }
    let mut posts = Vec::new();
    let mut in_tail = 0;
    for (chunk, value) in (span.from..).zip(chunks) {
        let key = posts_key(author, chunk);
        let some = value.as_ref().ok_or_else(|| Damaged(key.clone()))?;
        let some = post::read(author, &key, some)?;
        in_tail = some.len();
        posts.extend(some);
    }
    if posts.len() < limit && span.from > 0 {
        return Ok((None, Span { from: span.from - 1, tail }));
    }
    // Once the tail alone has enough, the chunks before it need not be read any more.
    let from = if in_tail >= limit { tail } else { span.from };
    Ok((Some(feed(posts)), Span { from, tail }))
}

/// The names in each of the chunks.
fn read_follows(keys: &[String], values: &[Option<Bytes>]) -> Result<Vec<Vec<User>>, ChirpError> {
    let nothing = Bytes::new();
    let read_one = |(key, value): (&String, &Option<Bytes>)| {
        let names =
            list::lines(key, value.as_ref().unwrap_or(&nothing))?.map(str::parse).collect::<Result<_, _>>();
        names.map_err(|_: ChirpError| ChirpError::Damaged(key.clone()))
    };
    keys.iter().zip(values).map(read_one).collect()
}

fn done<T>(outcome: Outcome<T>) -> Result<T, ChirpError> {
    match outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Refused(why) => Err(why.into()),
        Outcome::Unknown(why) => Err(ChirpError::Unknown(why)),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
