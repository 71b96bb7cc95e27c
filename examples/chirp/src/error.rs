//! What can go wrong, in words for whoever asked.

use quorate_client::Refusal;
use thiserror::Error;

use crate::list::Damaged;
use crate::{FOLLOWS_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, User};

/// Why there is no answer. But for [`ChirpError::Unknown`], nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChirpError {
    /// This is no name of a user.
    #[error("`{0}` is no user name: it has 1 to {NAME_LENGTH_MAX} letters (a to z, A to Z), digits or `_`")]
    Name(String),
    /// A text of so many characters (Unicode scalar values) is no post.
    #[error("a post has 1 to {TEXT_LENGTH_MAX} characters, and this has {0}")]
    Length(usize),
    /// Nobody follows themselves.
    #[error("{0} cannot follow {0}")]
    Own(User),
    /// The user would follow more than [`FOLLOWS_MAX`] others.
    #[error("{0} follows {FOLLOWS_MAX} users at most")]
    Full(User),
    /// The cluster did not take it.
    #[error("it did not happen: {0}")]
    Refused(String),
    /// Others changed the same list all the time.
    #[error("it did not happen: others change {0}'s list all the time; try again")]
    Contended(User),
    /// The deadline passed in doubt.
    #[error("it may have happened, or may still happen: {0}; look before you try again")]
    Unknown(String),
    /// What is stored was not written by this program.
    #[error("what is stored under `{0}` makes no sense")]
    Damaged(String),
}

impl From<Refusal> for ChirpError {
    fn from(refusal: Refusal) -> ChirpError {
        ChirpError::Refused(refusal.to_string())
    }
}

impl From<Damaged> for ChirpError {
    fn from(damaged: Damaged) -> ChirpError {
        ChirpError::Damaged(damaged.0)
    }
}
