//! Clients with keys of their own that expire, move and are removed: what each answer must be is known up to the error
//! of wall clocks and to FLUSHALL, which anyone may do.

use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Outcome, Reply, Request, Version};
use quorate_kernel::Rng;

use super::words;
use crate::{Fault, Plan, Verdict};

mod compound;

/// Clocks are read in whole milliseconds, once when the key is set and once when it is looked at.
const ROUNDING: Duration = Duration::from_millis(2);

/// Keys of one client.
const KEYS: usize = 3;
/// Lists of one client at a time.
const LISTS_MAX: usize = 6;

/// What all of these clients share.
#[derive(Debug)]
pub(crate) struct Rules {
    /// How wrong any wall clock may be; `None`: they jump.
    pub(crate) wall_error: Option<Duration>,
    /// Percentage of FLUSHALL.
    pub(crate) flushes: u64,
    /// When FLUSHALL began and ended; no end: it may still happen.
    pub(crate) flushed: Vec<(Duration, Option<Duration>)>,
    pub(crate) expired_seen: u64,
    /// Scans that came to their end.
    pub(crate) scanned: u64,
}

impl Rules {
    /// Those of a run.
    pub(crate) fn draw(plan: &Plan, rng: &mut Rng) -> Self {
        Rules {
            wall_error: match plan.faults.has(Fault::WallJump) {
                true => None,
                false => Some(Duration::from_millis(plan.world.clock.wall_error_ms.unwrap_or(1_000))),
            },
            flushes: [0, 1, 3][rng.below(3) as usize],
            flushed: Vec::new(),
            expired_seen: 0,
            scanned: 0,
        }
    }

    /// Whether somebody may have removed everything since `since`.
    fn may_have_flushed(&self, since: Duration) -> bool {
        self.flushed.iter().any(|(_, end)| end.is_none_or(|end| end >= since))
    }

    /// Whether somebody certainly removed everything between the two.
    fn has_flushed(&self, from: Duration, to: Duration) -> bool {
        self.flushed.iter().any(|(start, end)| *start > from && end.is_some_and(|end| end < to))
    }
}

/// What a client knows of one of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Absent,
    Value { value: String, set: (Duration, Duration), expiry: Option<Expiry> },
}

/// When a key goes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expiry {
    span: Duration,
    /// Not before.
    earliest: Duration,
    /// Nobody who looks later sees it.
    latest: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Set {
        key: usize,
        span: Option<Duration>,
    },
    Get {
        key: usize,
    },
    Ttl {
        key: usize,
    },
    Remove {
        key: usize,
    },
    Persist {
        key: usize,
    },
    Expire {
        key: usize,
        span: Duration,
    },
    Rename {
        key: usize,
        to: usize,
    },
    Copy {
        key: usize,
        to: usize,
    },
    /// A transaction in which later commands meet what earlier ones moved.
    Chain {
        key: usize,
        to: usize,
        span: Option<Duration>,
    },
    Watch {
        key: usize,
    },
    Exec {
        key: usize,
    },
    List,
    /// A step of a scan.
    Scan,
    /// A list of several elements that is not there yet.
    Fill,
    /// A list is removed as a whole: any of them, so that older ones may go after younger ones.
    Spill {
        list: List,
    },
    /// Nothing is to expire.
    Keep,
    Flush,
}

/// A list of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct List {
    /// What it is named after.
    name: u64,
    /// When it was made; unknown as long as nobody has said that it was.
    made: Option<(Duration, Duration)>,
}

/// A scan under way.
#[derive(Debug)]
struct Scan {
    since: Duration,
    cursor: String,
    seen: Vec<Bytes>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Keeper {
    id: u64,
    /// Counts sets of keys: after a doubt new ones are used.
    generation: u64,
    values: u64,
    known: [Known; KEYS],
    /// Lists that were made, or may have been.
    lists: Vec<List>,
    /// A key that is watched, its version then, and whether this client has changed it since.
    watched: Option<(usize, Version, bool)>,
    scan: Option<Scan>,
    running: Option<(Act, Duration)>,
    pub(crate) done: u64,
}

impl Keeper {
    pub(crate) fn new(id: u64) -> Self {
        Keeper {
            id,
            generation: 0,
            values: 0,
            known: [const { Known::Absent }; KEYS],
            lists: Vec::new(),
            watched: None,
            scan: None,
            running: None,
            done: 0,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    fn name(&self, key: usize) -> String {
        format!("k{}.{}.{key}", self.id, self.generation)
    }

    fn draw(&self, (key, other): (usize, usize), span: Duration, rules: &Rules, rng: &mut Rng) -> Act {
        match rng.below(30) {
            // Nobody else touches these keys, and this client waits for the end of its scan.
            _ if self.scan.is_some() => Act::Scan,
            _ if rng.chance(rules.flushes, 100) => Act::Flush,
            0..=2 => Act::Set { key, span: Some(span) },
            3 => Act::Set { key, span: None },
            4..=8 => Act::Get { key },
            9 => Act::Ttl { key },
            10 => Act::Remove { key },
            11 => Act::Persist { key },
            12 => Act::Expire { key, span },
            13 => Act::Rename { key, to: other },
            14 | 15 => Act::Watch { key },
            16 | 17 if let Some((key, ..)) = self.watched => Act::Exec { key },
            18 if key != other => Act::Copy { key, to: other },
            19 | 20 if key != other => Act::Chain { key, to: other, span: rng.chance(1, 2).then_some(span) },
            21 => Act::Scan,
            22..=24 => Act::Keep,
            25 | 26 if self.lists.len() < LISTS_MAX => Act::Fill,
            25..=28 if let Some(list) = self.any_list(rng) => Act::Spill { list },
            _ => Act::List,
        }
    }

    fn any_list(&self, rng: &mut Rng) -> Option<List> {
        let place = rng.below(self.lists.len().max(1) as u64) as usize;
        self.lists.get(place).copied()
    }

    fn list_name(&self, list: u64) -> String {
        format!("l{}.{list}", self.id)
    }

    /// The next thing to do.
    pub(crate) fn begin(&mut self, rules: &mut Rules, rng: &mut Rng, now: Duration) -> Request {
        let (key, other) = (rng.below(KEYS as u64) as usize, rng.below(KEYS as u64) as usize);
        let span = Duration::from_millis(1 << rng.between(0, 11));
        let act = self.draw((key, other), span, rules, rng);
        self.running = Some((act, now));
        let name = self.name(if let Act::Exec { key } = act { key } else { key });
        let ms = |span: Duration| span.as_millis().to_string();
        match act {
            Act::Set { span, .. } => {
                self.values += 1;
                let value = self.value();
                match span {
                    Some(span) => words::one(&["SET", &name, &value, "PX", &ms(span)]),
                    None => words::one(&["SET", &name, &value]),
                }
            }
            Act::Get { .. } => words::one(&["GET", &name]),
            Act::Ttl { .. } => words::one(&["PTTL", &name]),
            Act::Remove { .. } => words::one(&["DEL", &name]),
            Act::Persist { .. } => words::one(&["PERSIST", &name]),
            Act::Expire { span, .. } => words::one(&["PEXPIRE", &name, &ms(span)]),
            Act::Rename { to, .. } => words::one(&["RENAME", &name, &self.name(to)]),
            Act::Copy { to, .. } => words::one(&["COPY", &name, &self.name(to), "REPLACE"]),
            Act::Watch { .. } => Request::Versions(vec![Bytes::from(name)]),
            Act::Exec { .. } => {
                self.values += 1;
                let version = self.watched.map_or(Version(0), |(_, version, _)| version);
                let commands = vec![words::command(&["SET", &name, &self.value()])];
                Request::Transaction { watched: vec![(Bytes::from(name), version)], commands }
            }
            Act::List => words::one(&["KEYS", &self.pattern()]),
            Act::Fill => {
                self.values += 1;
                self.lists.push(List { name: self.values, made: None });
                words::one(&["RPUSH", &self.list_name(self.values), "a", "b", "c"])
            }
            Act::Spill { list } => {
                self.lists.retain(|other| *other != list);
                words::one(&["DEL", &self.list_name(list.name)])
            }
            Act::Chain { .. } | Act::Scan | Act::Flush | Act::Keep => {
                self.begin_compound(act, (&name, &self.name(other)), rules, rng, now)
            }
        }
    }

    fn pattern(&self) -> String {
        format!("k{}.{}.*", self.id, self.generation)
    }

    /// Some are so long that two of them are more than tiny limits let buckets tell each other.
    fn value(&self) -> String {
        const LONG_BYTES: usize = 2_500;
        let width = if self.values % 12 == 5 { LONG_BYTES } else { 0 };
        format!("{}.{:0>width$}", self.id, self.values)
    }

    /// What came of it.
    ///
    /// # Errors
    /// If no correct store answers so.
    pub(crate) fn ended(&mut self, outcome: &Outcome, rules: &mut Rules, now: Duration) -> Verdict {
        let Some((act, start)) = self.running.take() else {
            return Err("an answer that nobody waits for".into());
        };
        let changes =
            !matches!(act, Act::Get { .. } | Act::Ttl { .. } | Act::Watch { .. } | Act::List | Act::Scan);
        match outcome {
            Outcome::Refused(_) => {
                if act == Act::Flush {
                    rules.flushed.retain(|(began, end)| *began != start || end.is_some());
                }
                Ok(())
            }
            Outcome::Unknown if changes => {
                self.generation += 1;
                self.watched = None;
                self.known = [const { Known::Absent }; KEYS];
                Ok(())
            }
            Outcome::Unknown => Ok(()),
            Outcome::Done(reply) => {
                self.done += 1;
                let verdict = self.take(act, reply, rules, (start, now));
                self.note_change(act, reply);
                verdict.map_err(|why| {
                    let name = format!("k{}.{}", self.id, self.generation);
                    format!(
                        "{name}: {act:?} at {start:?} was answered with {reply:?}: {why}; {:?}",
                        self.known
                    )
                })
            }
        }
    }

    /// Whether the watched key has changed by what was just done.
    fn note_change(&mut self, act: Act, reply: &Reply) {
        let Some((watched, _, changed)) = &mut self.watched else { return };
        *changed |= match act {
            Act::Set { key, .. } => key == *watched,
            Act::Remove { key } | Act::Persist { key } | Act::Expire { key, .. } => {
                key == *watched && *reply == Reply::Int(1)
            }
            Act::Rename { key, to } => {
                (key == *watched || to == *watched) && key != to && *reply == Reply::Ok
            }
            Act::Copy { to, .. } => to == *watched && *reply == Reply::Int(1),
            Act::Keep => matches!(reply, Reply::Array(items) if items.get(*watched) == Some(&Reply::Int(1))),
            Act::Chain { key, to, .. } => {
                let moved = matches!(reply, Reply::Array(items) if items.get(1) == Some(&Reply::Ok));
                key == *watched || (to == *watched && moved)
            }
            _ => false,
        };
    }

    fn take(&mut self, act: Act, reply: &Reply, rules: &mut Rules, at: (Duration, Duration)) -> Verdict {
        match act {
            Act::Set { key, span } => {
                if *reply != Reply::Ok {
                    return Err("OK was to come".into());
                }
                let expiry = span.map(|span| Expiry::new(span, at, rules));
                self.known[key] = Known::Value { value: self.value(), set: at, expiry };
                Ok(())
            }
            Act::Get { key } => {
                let seen = words::text(reply)?;
                self.judge(key, seen.is_some(), rules, at)?;
                match (&self.known[key], seen) {
                    (Known::Value { value, .. }, Some(seen)) if *value != seen => Err("another value".into()),
                    _ => Ok(()),
                }
            }
            Act::Ttl { key } => self.take_ttl(key, words::number(reply)?, rules, at),
            Act::Remove { key } => {
                self.judge(key, words::number(reply)? == 1, rules, at)?;
                self.known[key] = Known::Absent;
                Ok(())
            }
            Act::Persist { key } => self.take_persist(key, reply, rules, at),
            Act::Expire { key, span } => {
                self.judge(key, words::number(reply)? == 1, rules, at)?;
                if let Known::Value { expiry, .. } = &mut self.known[key] {
                    *expiry = Some(Expiry::new(span, at, rules));
                }
                Ok(())
            }
            Act::Rename { key, to } => {
                self.judge(key, *reply == Reply::Ok, rules, at)?;
                if matches!(self.known[key], Known::Value { .. }) && key != to {
                    self.known[to] = std::mem::replace(&mut self.known[key], Known::Absent);
                }
                Ok(())
            }
            Act::Watch { key } => {
                let Reply::Array(items) = reply else { return Err("a list was to come".into()) };
                let version = words::number(items.first().unwrap_or(&Reply::Nil))?.unsigned_abs();
                self.watched = Some((key, Version(version), false));
                Ok(())
            }
            Act::Exec { key } => self.take_exec(key, reply, at),
            Act::Fill => self.take_fill(words::number(reply)?, at),
            Act::Spill { list } => take_spill(list, words::number(reply)?, rules, at.0),
            Act::Chain { .. } | Act::Copy { .. } | Act::Scan | Act::Keep | Act::List | Act::Flush => {
                self.take_compound(act, reply, rules, at)
            }
        }
    }

    /// EXEC must not run if the watched key has changed since. It may stay undone without need.
    fn take_exec(&mut self, key: usize, reply: &Reply, at: (Duration, Duration)) -> Verdict {
        let changed = self.watched.take().is_none_or(|(.., changed)| changed);
        match reply {
            Reply::Array(items) if items[..] == [Reply::Ok] => {}
            Reply::NilArray => return Ok(()),
            _ => return Err("OK or nothing was to come".into()),
        }
        if changed {
            return Err("the watched key had changed".into());
        }
        self.known[key] = Known::Value { value: self.value(), set: at, expiry: None };
        Ok(())
    }

    fn take_fill(&mut self, length: i64, at: (Duration, Duration)) -> Verdict {
        if length != 3 {
            return Err("a list of three was to come".into());
        }
        // Nothing else runs meanwhile: it is the last.
        if let Some(list) = self.lists.last_mut() {
            list.made = Some(at);
        }
        Ok(())
    }

    fn take_ttl(&mut self, key: usize, ttl: i64, rules: &mut Rules, at: (Duration, Duration)) -> Verdict {
        const NO_KEY: i64 = -2;
        const NEVER: i64 = -1;
        self.judge(key, ttl != NO_KEY, rules, at)?;
        let Known::Value { expiry, .. } = &self.known[key] else { return Ok(()) };
        match (expiry, ttl) {
            (None, NEVER) => Ok(()),
            (Some(expiry), 0..) if u128::from(ttl.unsigned_abs()) <= expiry.span.as_millis() => Ok(()),
            _ => Err("no such time is left".into()),
        }
    }

    /// Whether a key may be seen, or not, by something that happened between the two times of `at`.
    fn judge(
        &mut self,
        key: usize,
        is_seen: bool,
        rules: &mut Rules,
        (start, end): (Duration, Duration),
    ) -> Verdict {
        let Known::Value { set, expiry, .. } = &self.known[key] else {
            return if is_seen { Err("it came back".into()) } else { Ok(()) };
        };
        let is_due = expiry.as_ref().is_some_and(|expiry| end >= expiry.earliest);
        let is_overdue =
            expiry.as_ref().and_then(|expiry| expiry.latest).is_some_and(|latest| start > latest);
        if is_seen {
            let flushed = rules.has_flushed(set.1, start);
            return match (is_overdue, flushed) {
                (true, _) => Err("it should have expired".into()),
                (_, true) => Err("it was flushed".into()),
                _ => Ok(()),
            };
        }
        if !is_due && !rules.may_have_flushed(set.0) {
            return Err("it is gone".into());
        }
        rules.expired_seen += u64::from(is_due);
        self.known[key] = Known::Absent;
        Ok(())
    }
}

/// Whether a list may have been there, or not, when it was removed.
fn take_spill(list: List, removed: i64, rules: &Rules, start: Duration) -> Verdict {
    match (removed, list.made) {
        (0 | 1, None) => Ok(()),
        (1, Some((_, end))) if rules.has_flushed(end, start) => Err("it was flushed".into()),
        (0, Some((began, _))) if !rules.may_have_flushed(began) => Err("it is gone".into()),
        (0 | 1, _) => Ok(()),
        _ => Err("one or none was to come".into()),
    }
}

impl Expiry {
    /// Something that was set between the two times of `at` to go after `span`.
    fn new(span: Duration, at: (Duration, Duration), rules: &Rules) -> Self {
        match rules.wall_error {
            Some(error) => Expiry {
                span,
                earliest: (at.0 + span).saturating_sub(2 * error + ROUNDING),
                latest: Some(at.1 + span + 2 * error + ROUNDING),
            },
            None => Expiry { span, earliest: at.0, latest: None },
        }
    }
}
