//! How a request ends.

use thiserror::Error;

/// The three ways a request can end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request may have been refused, or be in doubt"]
pub enum Outcome<T> {
    /// It happened, exactly once.
    Done(T),
    /// It did not happen and never will.
    Refused(Refusal),
    /// The deadline passed in doubt: it happened once, or may still happen once, or never will. In words, what was heard last.
    Unknown(String),
}

/// Why nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Something that the transaction had read has changed since: read again and decide anew.
    #[error("what the transaction read has changed since")]
    Conflict,
    /// Nobody took it before the deadline; in words, what was heard last.
    #[error("no node took it in time: {0}")]
    NotInTime(String),
    /// A node refused it for a reason that will not pass by waiting, in these words.
    #[error("{0}")]
    Answered(String),
}

impl<T> Outcome<T> {
    /// The value, if it is done.
    pub fn done(self) -> Option<T> {
        match self {
            Outcome::Done(value) => Some(value),
            Outcome::Refused(_) | Outcome::Unknown(_) => None,
        }
    }

    /// What follows from the value, if it is done.
    pub(crate) fn and_then<U>(self, then: impl FnOnce(T) -> Outcome<U>) -> Outcome<U> {
        match self {
            Outcome::Done(value) => then(value),
            Outcome::Refused(why) => Outcome::Refused(why),
            Outcome::Unknown(why) => Outcome::Unknown(why),
        }
    }

    /// The same end with another value.
    pub fn map<U>(self, then: impl FnOnce(T) -> U) -> Outcome<U> {
        self.and_then(|value| Outcome::Done(then(value)))
    }
}
