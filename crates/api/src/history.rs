//! Histories: what clients asked a cluster, when, and what they were told.
//!
//! A history is text, one JSON object a line, each a [`Record`]; empty lines and lines that start with `#` mean
//! nothing. The simulator, the benchmark and tests against real processes write it, the checker judges it. The format
//! is described with examples in `crates/checker/FORMAT.md`.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize};

/// One thing that one client asked for: a single operation, or several that happen at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Who asked. A client asks one thing at a time; its records in order of time are its session.
    pub client: u64,
    /// When it was asked, in nanoseconds on a clock that all clients share.
    pub start: u64,
    /// When the answer came, on the same clock; not needed if the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// How it ended.
    pub outcome: Ending,
    /// What was asked, in order; more than one is a transaction.
    pub ops: Vec<Op>,
    /// Whether this belongs to the last look at everything, after faults are healed and clients are done.
    #[serde(default, rename = "final", skip_serializing_if = "is_false")]
    pub is_final: bool,
}

/// How a record ended, as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It happened once, between start and end.
    Ok,
    /// It did not happen and never will.
    Fail,
    /// It may have happened, may happen at any time after its start, or may never happen.
    #[serde(alias = "info")]
    Unknown,
}

/// One operation on one key (two for a move). A `result` that is left out is a result that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Reads a register.
    Read {
        /// Which register.
        key: String,
        /// Its value, null if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
        result: Option<Option<String>>,
    },
    /// Writes a register.
    Write {
        /// Which register.
        key: String,
        /// The new value; null removes it.
        value: Option<String>,
    },
    /// Writes a register if it has an expected value.
    Cas {
        /// Which register.
        key: String,
        /// The expected value; null: none.
        expect: Option<String>,
        /// The new value.
        value: String,
        /// Whether it was written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<bool>,
    },
    /// Adds to a counter, which starts at 0.
    Add {
        /// Which counter.
        key: String,
        /// How much, negative to subtract.
        amount: i64,
        /// The sum after the addition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<i64>,
    },
    /// Reads a counter.
    Count {
        /// Which counter.
        key: String,
        /// Its sum, 0 if nobody has added to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<i64>,
    },
    /// Adds an element at the end of a list.
    Append {
        /// Which list.
        key: String,
        /// The element.
        value: String,
        /// The number of elements after that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<u64>,
    },
    /// Adds an element at the front of a list.
    Prepend {
        /// Which list.
        key: String,
        /// The element.
        value: String,
        /// The number of elements after that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<u64>,
    },
    /// Reads a whole list.
    List {
        /// Which list.
        key: String,
        /// Its elements from the front.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Vec<String>>,
    },
    /// Takes the first element of a list.
    PopFront {
        /// Which list.
        key: String,
        /// The element, null if the list was empty.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
        result: Option<Option<String>>,
    },
    /// Takes the last element of a list.
    PopBack {
        /// Which list.
        key: String,
        /// The element, null if the list was empty.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
        result: Option<Option<String>>,
    },
    /// Takes the first element of one list and adds it at the end of another, at one instant.
    Move {
        /// The list to take from.
        key: String,
        /// The list to add to.
        to: String,
        /// The element, null if the first list was empty.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
        result: Option<Option<String>>,
    },
}

impl Op {
    /// The key; of a move the list it takes from.
    pub fn key(&self) -> &str {
        match self {
            Op::Read { key, .. }
            | Op::Write { key, .. }
            | Op::Cas { key, .. }
            | Op::Add { key, .. }
            | Op::Count { key, .. }
            | Op::Append { key, .. }
            | Op::Prepend { key, .. }
            | Op::List { key, .. }
            | Op::PopFront { key, .. }
            | Op::PopBack { key, .. }
            | Op::Move { key, .. } => key,
        }
    }

    /// The name of the operation in the format.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Read { .. } => "read",
            Op::Write { .. } => "write",
            Op::Cas { .. } => "cas",
            Op::Add { .. } => "add",
            Op::Count { .. } => "count",
            Op::Append { .. } => "append",
            Op::Prepend { .. } => "prepend",
            Op::List { .. } => "list",
            Op::PopFront { .. } => "pop_front",
            Op::PopBack { .. } => "pop_back",
            Op::Move { .. } => "move",
        }
    }

    /// Whether it never changes anything.
    pub fn is_read(&self) -> bool {
        matches!(self, Op::Read { .. } | Op::Count { .. } | Op::List { .. })
    }
}

/// What a history can be judged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Each key by itself (keys that one record touches together) behaves as one copy.
    Linear,
    /// Transactions that append to lists and read them are as if one by one, in an order that respects time.
    Serial,
    /// Transfers keep the total of all accounts.
    Bank,
    /// Keys that name each other stay one ring.
    Cycle,
    /// Each client sees its own writes, never goes back in time, and its writes are seen in order.
    Session,
    /// The last look shows every acknowledged write.
    Durable,
}

impl Check {
    /// All checks.
    pub const ALL: [Check; 6] =
        [Check::Linear, Check::Serial, Check::Bank, Check::Cycle, Check::Session, Check::Durable];

    /// Its name, as on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Check::Linear => "linear",
            Check::Serial => "serial",
            Check::Bank => "bank",
            Check::Cycle => "cycle",
            Check::Session => "session",
            Check::Durable => "durable",
        }
    }

    /// The check of this name.
    pub fn find(name: &str) -> Option<Check> {
        Check::ALL.into_iter().find(|check| check.name() == name)
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A field that is there is known, also if it is null.
fn known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for check in Check::ALL {
            assert_eq!(Check::find(check.name()), Some(check));
        }
        assert_eq!(Check::find("all"), None);
    }
}
