//! The shape of the table of local commands.

use bytes::Bytes;
use quorate_values::{Arity, Effect, KeyPlaces, Spec};

use crate::{Session, Step, World, local};

/// Runs a local command; the words include its name.
pub(crate) type Run = fn(&mut Session, &[Bytes], &dyn World) -> Step;

/// What a command does between MULTI and EXEC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InMulti {
    /// It waits for EXEC.
    Queue,
    /// It runs at once.
    Run,
    /// It is refused, and the transaction with it.
    Refuse,
}

/// A command that a session answers itself, or a subcommand of one.
pub(crate) struct Local {
    /// Its name in lower case; that of a subcommand is `container|name`.
    pub(crate) name: &'static str,
    pub(crate) arity: Arity,
    pub(crate) summary: &'static str,
    pub(crate) since: &'static str,
    pub(crate) group: &'static str,
    pub(crate) flags: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) keys: KeyPlaces,
    pub(crate) in_multi: InMulti,
    pub(crate) subcommands: &'static [Local],
    pub(crate) run: Run,
}

impl core::fmt::Debug for Local {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Local").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(crate) const NO_KEYS: KeyPlaces = KeyPlaces { first: 0, last: 0, step: 0 };

/// Flags of what anybody may ask at any time.
const PLAIN: &[&str] = &["noscript", "loading", "stale"];
/// Flags of what concerns the node rather than the connection.
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];
/// Flags of what opens a connection.
const OPENING: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];

impl Local {
    /// A command with the commonest properties; `arity` in Redis's notation, negative for "at least".
    pub(crate) const fn new(
        name: &'static str,
        arity: i8,
        since: &'static str,
        summary: &'static str,
        run: Run,
    ) -> Local {
        let words = arity.unsigned_abs() as usize;
        Local {
            name,
            arity: if arity < 0 { Arity::AtLeast(words) } else { Arity::Exactly(words) },
            summary,
            since,
            group: "server",
            flags: PLAIN,
            categories: &["slow"],
            keys: NO_KEYS,
            in_multi: InMulti::Queue,
            subcommands: &[],
            run,
        }
    }

    /// A command with subcommands; alone it has too few arguments.
    pub(crate) const fn container(
        name: &'static str,
        since: &'static str,
        summary: &'static str,
        subcommands: &'static [Local],
    ) -> Local {
        let mut container = Local::new(name, -2, since, summary, local::help);
        container.flags = &[];
        container.subcommands = subcommands;
        container
    }

    /// The list of a container's subcommands.
    pub(crate) const fn help(name: &'static str, since: &'static str) -> Local {
        let mut help = Local::new(name, 2, since, "Lists the subcommands.", local::help);
        help.flags = &["loading", "stale"];
        help
    }

    /// It concerns the connection.
    pub(crate) const fn connection(mut self) -> Local {
        self.group = "connection";
        self.categories = &["slow", "connection"];
        self
    }

    /// It opens a connection: allowed to those who have not said who they are.
    pub(crate) const fn opening(mut self) -> Local {
        self.group = "connection";
        self.categories = &["fast", "connection"];
        self.flags = OPENING;
        self
    }

    /// It is for operators.
    pub(crate) const fn admin(mut self) -> Local {
        self.flags = ADMIN;
        self.categories = &["admin", "slow", "dangerous"];
        self
    }

    /// It is for operators, about connections.
    pub(crate) const fn connection_admin(mut self) -> Local {
        self.group = "connection";
        self.flags = ADMIN;
        self.categories = &["admin", "slow", "dangerous", "connection"];
        self
    }

    /// It has these flags instead of those of its kind.
    pub(crate) const fn flags(mut self, flags: &'static [&'static str]) -> Local {
        self.flags = flags;
        self
    }

    /// It is part of MULTI and runs at once there.
    pub(crate) const fn transaction(mut self) -> Local {
        self.group = "transactions";
        self.categories = &["fast", "transaction"];
        self.flags = &["noscript", "loading", "stale", "fast", "allow_busy"];
        self
    }

    /// It belongs to this group.
    pub(crate) const fn group(mut self, group: &'static str) -> Local {
        self.group = group;
        self
    }

    /// It answers in constant time.
    pub(crate) const fn fast(mut self, categories: &'static [&'static str]) -> Local {
        self.flags = &["loading", "stale", "fast"];
        self.categories = categories;
        self
    }

    /// What it does between MULTI and EXEC.
    pub(crate) const fn in_multi(mut self, in_multi: InMulti) -> Local {
        self.in_multi = in_multi;
        self
    }

    /// Where its keys stand.
    pub(crate) const fn keys(mut self, keys: KeyPlaces) -> Local {
        self.keys = keys;
        self
    }

    /// Whether those may run it who have not said who they are.
    pub(crate) fn needs_no_auth(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// The subcommand of this name, in any case of letters.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&'static Local> {
        self.subcommands.iter().find(|sub| sub.short_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name without that of the container.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, short)| short)
    }
}

/// A command by whichever table knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    Data(&'static Spec),
    Local(&'static Local),
}

impl Found {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Found::Data(spec) => spec.name,
            Found::Local(local) => local.name,
        }
    }

    pub(crate) fn arity(self) -> Arity {
        match self {
            Found::Data(spec) => spec.arity,
            Found::Local(local) => local.arity,
        }
    }

    pub(crate) fn keys(self) -> KeyPlaces {
        match self {
            Found::Data(spec) => spec.keys,
            Found::Local(local) => local.keys,
        }
    }

    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Found::Data(spec) => spec.flags,
            Found::Local(local) => local.flags,
        }
    }

    pub(crate) fn categories(self) -> &'static [&'static str] {
        match self {
            Found::Data(spec) => spec.categories,
            Found::Local(local) => local.categories,
        }
    }

    pub(crate) fn subcommands(self) -> &'static [Local] {
        match self {
            Found::Data(_) => &[],
            Found::Local(local) => local.subcommands,
        }
    }

    /// What it does to the keyspace; `None`: nothing at all.
    pub(crate) fn effect(self) -> Option<Effect> {
        match self {
            Found::Data(spec) => Some(spec.effect),
            Found::Local(_) => None,
        }
    }
}

/// The command of this name, in any case of letters; data commands are looked for first, being the many.
pub(crate) fn find(name: &[u8]) -> Option<Found> {
    match quorate_values::find(name).filter(|spec| !spec.is_internal()) {
        Some(spec) => Some(Found::Data(spec)),
        None => local::all().find(|local| local.name.as_bytes().eq_ignore_ascii_case(name)).map(Found::Local),
    }
}

/// All commands, without their subcommands.
pub(crate) fn all() -> impl Iterator<Item = Found> {
    let data = quorate_values::all().iter().filter(|spec| !spec.is_internal());
    data.map(Found::Data).chain(local::all().map(Found::Local))
}
