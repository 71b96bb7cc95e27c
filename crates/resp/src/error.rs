//! Frames that cannot be understood.

use alloc::format;
use alloc::string::String;
use core::fmt;
use quorate_api::Reply;

/// Why a connection's bytes cannot be understood. The connection has to be closed after [`ProtocolError::reply`]:
/// nobody can know where the next command begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of words is no number, or above the limit.
    MultibulkLength,
    /// Many words from a client that has not said who it is.
    UnauthenticatedMultibulkLength,
    /// The line with the number of words does not end.
    MultibulkLine,
    /// A word does not begin with `$`.
    ExpectedDollar(u8),
    /// The length of a word is no number.
    BulkLength,
    /// The length of a word is above the limit: the length, and the limit.
    BulkTooLong(u64, u64),
    /// A long word from a client that has not said who it is.
    UnauthenticatedBulkLength,
    /// The line with the length of a word does not end.
    BulkLine,
    /// A word is not followed by CR and LF.
    BulkEnd,
    /// The words of a command are together longer than this limit.
    CommandTooLong(u64),
    /// An inline command does not end.
    Inline,
    /// An inline command opens a quote and does not close it, or goes on right after one.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// What the client is to read before it is disconnected: the words of Redis, where Redis has the case.
    pub fn reply(self) -> Reply {
        Reply::error(format!("ERR Protocol error: {self}"))
    }

    fn words(self) -> &'static str {
        match self {
            ProtocolError::MultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::MultibulkLine => "too big mbulk count string",
            ProtocolError::ExpectedDollar(_) => "expected '$'",
            ProtocolError::BulkLength | ProtocolError::BulkTooLong(..) => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::BulkLine => "too big bulk count string",
            ProtocolError::BulkEnd => "expected CR and LF after a bulk string, check its length",
            ProtocolError::CommandTooLong(_) => "too big request",
            ProtocolError::Inline => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())?;
        match self {
            ProtocolError::ExpectedDollar(byte) => {
                write!(f, ", got '{}'", String::from_utf8_lossy(core::slice::from_ref(byte)))
            }
            ProtocolError::BulkTooLong(length, max) => {
                write!(f, ", {length} bytes are more than the limit of {max}")
            }
            ProtocolError::CommandTooLong(max) => write!(f, ", the limit is {max} bytes"),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for ProtocolError {}
