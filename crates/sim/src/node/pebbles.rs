//! A game that notices a value that is lost or doubled: pebbles lie on fields, and clients move them from field to field and
//! look at all of them at once. Whatever they do, every pebble is somewhere, and nowhere twice.

use bytes::Bytes;
use quorate_api::{Outcome, Reply, Request, Version};
use quorate_kernel::Rng;

use super::words;
use crate::Verdict;

/// Fields, of which each holds one pebble or none, and as many piles, which hold any number.
const FIELDS: u64 = 5;
/// Pebbles on fields, and as many others in piles.
const PEBBLES: u64 = 3;
/// There once the pebbles are.
const BEGUN: &str = "begun";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Lays all pebbles out, unless they are.
    Begin,
    /// Moves some; behind so many commands follows a look at everything, if one does.
    Move { looks_after: Option<usize> },
    /// Looks at everything.
    Look,
}

/// One player.
#[derive(Debug)]
pub(crate) struct Player {
    id: u64,
    running: Option<Act>,
    /// Whether the pebbles are known to be there.
    begun: bool,
    pub(crate) done: u64,
}

fn field(number: u64) -> String {
    format!("field:{number}")
}

fn pile(number: u64) -> String {
    format!("pile:{number}")
}

/// What shows all pebbles.
fn look() -> Vec<Vec<String>> {
    let mut fields = vec!["MGET".to_owned()];
    fields.extend((0..FIELDS).map(field));
    let mut commands = vec![fields];
    commands.extend((0..FIELDS).map(|number| vec!["LRANGE".into(), pile(number), "0".into(), "-1".into()]));
    commands
}

fn transaction(commands: Vec<Vec<String>>) -> Request {
    let commands = commands.iter().map(|words| words::command(words)).collect();
    Request::Transaction { watched: Vec::new(), commands }
}

impl Player {
    pub(crate) fn new(id: u64) -> Self {
        Player { id, running: None, begun: false, done: 0 }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// The next thing to do.
    pub(crate) fn begin(&mut self, rng: &mut Rng) -> Request {
        if !self.begun {
            self.running = Some(Act::Begin);
            return self.lay_out();
        }
        if rng.chance(1, 4) {
            self.running = Some(Act::Look);
            return transaction(look());
        }
        let mut commands = self.draw(rng);
        let looks_after = rng.chance(1, 4).then_some(commands.len());
        self.running = Some(Act::Move { looks_after });
        if looks_after.is_some() {
            commands.extend(look());
        }
        match &commands[..] {
            [alone] => words::one(alone),
            _ => transaction(commands),
        }
    }

    /// Nobody removes anything before all pebbles lie there, so a key that never was has version 0 until then.
    fn lay_out(&self) -> Request {
        let mut fields = vec!["MSETNX".to_owned(), BEGUN.into(), "yes".into()];
        (0..PEBBLES).for_each(|number| fields.extend([field(number), format!("f{number}")]));
        let mut first = vec!["RPUSH".to_owned(), pile(0)];
        first.extend((0..PEBBLES).map(|number| format!("p{number}")));
        let commands = [fields, first].map(|words| words::command(&words)).into();
        Request::Transaction { watched: vec![(Bytes::from_static(BEGUN.as_bytes()), Version(0))], commands }
    }

    /// Commands that move pebbles, none of which can drop one.
    fn draw(&self, rng: &mut Rng) -> Vec<Vec<String>> {
        let line = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let (one, two) = (rng.below(FIELDS), rng.below(FIELDS));
        let (a, b, hand) = (field(one), field(two), format!("hand:{}", self.id));
        let (p, q) = (pile(one), pile(two));
        let lines = match rng.below(9) {
            0 | 1 => vec![format!("RENAMENX {a} {b}")],
            2 => vec![format!("LMOVE {p} {q} LEFT RIGHT")],
            3 => vec![format!("RPOPLPUSH {p} {q}")],
            // Exchanges two fields, by way of a name that nobody else uses.
            4 => vec![
                format!("RENAMENX {a} {hand}"),
                format!("RENAMENX {b} {a}"),
                format!("RENAMENX {hand} {b}"),
                format!("RENAMENX {hand} {a}"),
            ],
            5 => vec![format!("COPY {a} {hand}"), format!("DEL {a}"), format!("RENAME {hand} {a}")],
            6 => vec![format!("COPY {a} {hand}"), format!("RENAMENX {a} {b}"), format!("DEL {hand}")],
            // A whole pile goes, and what was there comes to the other.
            7 => vec![
                format!("RENAMENX {p} {hand}"),
                format!("RENAMENX {q} {p}"),
                format!("RENAMENX {hand} {q}"),
                format!("RENAMENX {hand} {p}"),
            ],
            _ => vec![
                format!("LMOVE {p} {q} LEFT LEFT"),
                format!("LMOVE {q} {p} RIGHT RIGHT"),
                format!("RENAMENX {a} {b}"),
            ],
        };
        lines.into_iter().map(line).collect()
    }

    /// What came of it.
    ///
    /// # Errors
    /// If pebbles are missing or doubled, or no correct store answers so.
    pub(crate) fn ended(&mut self, outcome: &Outcome) -> Verdict {
        let Some(act) = self.running.take() else { return Err("an answer that nobody waits for".into()) };
        let Outcome::Done(reply) = outcome else { return Ok(()) };
        self.done += 1;
        match (act, reply) {
            (Act::Begin, Reply::NilArray) => {
                self.begun = true;
                Ok(())
            }
            (Act::Begin, Reply::Array(items)) if items[..] == [Reply::Int(1), Reply::Int(PEBBLES as i64)] => {
                self.begun = true;
                Ok(())
            }
            (Act::Look, Reply::Array(items)) => judge(items),
            (Act::Move { looks_after: Some(place) }, Reply::Array(items)) if items.len() > place => {
                judge(&items[place..])
            }
            (Act::Move { looks_after: None }, _) => Ok(()),
            _ => Err(format!("{act:?} was answered with {reply:?}")),
        }
        .map_err(|why| format!("pebbles: {why}: {reply:?}"))
    }
}

/// Whether all pebbles are there once.
fn judge(replies: &[Reply]) -> Verdict {
    let mut seen: Vec<&Bytes> = Vec::new();
    for reply in replies {
        let Reply::Array(items) = reply else { return Err("lists were to come".into()) };
        for item in items {
            match item {
                Reply::Bulk(pebble) => seen.push(pebble),
                Reply::Nil => {}
                other => return Err(format!("{other:?} is no pebble")),
            }
        }
    }
    seen.sort();
    let of = |kind| (0..PEBBLES).map(move |number| format!("{kind}{number}"));
    let expected: Vec<String> = of('f').chain(of('p')).collect();
    match seen.iter().map(|pebble| &pebble[..]).eq(expected.iter().map(String::as_bytes)) {
        true => Ok(()),
        false => Err("some are lost or doubled".into()),
    }
}
