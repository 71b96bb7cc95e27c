//! The shape of the command table: one [`Spec`] a command, kept beside the command's code.

use bytes::Bytes;
use quorate_api::{CommandCode, ErrorReply, Reply};

use crate::Space;

/// What a command does to the keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads only: may be answered by whoever may read.
    Read,
    /// May change something: goes through the log.
    Write,
}

/// How many arguments a command takes, its name included, in Redis's notation turned into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
}

impl Arity {
    /// Whether a command line of `count` words, the name included, fits.
    pub fn allows(self, count: usize) -> bool {
        match self {
            Arity::Exactly(exactly) => count == exactly,
            Arity::AtLeast(least) => count >= least,
        }
    }

    /// The number `COMMAND` shows: negative means "or more".
    pub fn signed(self) -> i64 {
        match self {
            Arity::Exactly(exactly) => exactly as i64,
            Arity::AtLeast(least) => -(least as i64),
        }
    }
}

/// Where the keys stand among a command's words, as `COMMAND` tells them (the name is word 0; `last` counts from
/// the end if negative; `first` 0: no keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlaces {
    /// First word that is a key.
    pub first: usize,
    /// Last word that is a key.
    pub last: isize,
    /// From one key to the next.
    pub step: usize,
}

impl KeyPlaces {
    /// No keys, or keys that only `keys_of` finds.
    pub const NONE: KeyPlaces = KeyPlaces { first: 0, last: 0, step: 0 };
    /// The first argument.
    pub const ONE: KeyPlaces = KeyPlaces { first: 1, last: 1, step: 1 };
    /// The first two arguments.
    pub const TWO: KeyPlaces = KeyPlaces { first: 1, last: 2, step: 1 };
    /// Every argument.
    pub const ALL: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 1 };
    /// The first of every pair of arguments.
    pub const PAIRS: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 2 };
}

/// One data command.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its number in the log, never changed or reused.
    pub code: CommandCode,
    /// Its name in lower case.
    pub name: &'static str,
    /// How many words.
    pub arity: Arity,
    /// What it does.
    pub effect: Effect,
    /// Where its keys stand; commands with a key count among their arguments say `movablekeys` in `flags`.
    pub keys: KeyPlaces,
    /// Further flags for `COMMAND` ("fast", "denyoom", "movablekeys", ...); "readonly" and "write" follow from
    /// `effect`, see [`Spec::command_flags`].
    pub flags: &'static [&'static str],
    /// ACL categories without the `@`, for `COMMAND`.
    pub categories: &'static [&'static str],
    /// `COMMAND DOCS` group ("string", "list", "generic", "server").
    pub group: &'static str,
    /// One line for `COMMAND DOCS`.
    pub summary: &'static str,
    /// Runs it. The number of `args` (without the name) has been checked against `arity`; everything else,
    /// `run` checks itself and answers in Redis's exact words. If the reply is an error, nothing was changed.
    pub run: fn(space: &mut dyn Space, args: &[Bytes]) -> Reply,
}

impl Spec {
    /// Whether it holds subcommands (OBJECT, MEMORY).
    fn is_container(&self) -> bool {
        matches!(self.name, "object" | "memory")
    }

    /// Whether clients cannot call it by its name: another command is made of it.
    pub fn is_internal(&self) -> bool {
        self.name.contains('|')
    }

    /// Whether it is about all keys there are (DBSIZE, FLUSHALL, ...) and names none.
    pub fn spans_keyspace(&self) -> bool {
        self.keys.first == 0 && self.categories.contains(&"keyspace") && !self.is_container()
    }

    /// The flags as `COMMAND INFO` shows them. Containers have none themselves.
    pub fn command_flags(&self) -> impl Iterator<Item = &'static str> + use<> {
        let effect = match self.effect {
            Effect::Read => "readonly",
            Effect::Write => "write",
        };
        (!self.is_container()).then_some(effect).into_iter().chain(self.flags.iter().copied())
    }
}

impl core::fmt::Debug for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Spec").field("code", &self.code).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a command's function returns; the two sides become one [`Reply`].
pub(crate) type Answer = Result<Reply, ErrorReply>;

/// Joins the two sides of an [`Answer`].
pub(crate) fn reply(answer: Answer) -> Reply {
    answer.unwrap_or_else(Reply::Error)
}

/// One line of the table: number, name, arity, effect, keys; flags, categories, group; function, summary.
macro_rules! spec {
    (
        $code:literal $name:literal $arity:ident($words:literal) $effect:ident $keys:ident
        $flags:tt $categories:tt $group:literal $run:path, $summary:literal
    ) => {
        $crate::table::Spec {
            code: quorate_api::CommandCode($code),
            name: $name,
            arity: $crate::table::Arity::$arity($words),
            effect: $crate::table::Effect::$effect,
            keys: $crate::table::KeyPlaces::$keys,
            flags: &$flags,
            categories: &$categories,
            group: $group,
            summary: $summary,
            run: |space, args| $crate::table::reply($run(space, args)),
        }
    };
}
pub(crate) use spec;
