//! What a client is answered, independent of the protocol version it speaks.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A reply in the terms of RESP3; the door renders it for RESP2 where a client speaks that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// Another simple string.
    Simple(String),
    /// An integer.
    Int(i64),
    /// A string of bytes.
    Bulk(Bytes),
    /// No value: `$-1` in RESP2, `_` in RESP3.
    Nil,
    /// No array: `*-1` in RESP2, `_` in RESP3.
    NilArray,
    /// A sequence.
    Array(Vec<Reply>),
    /// Pairs: an array of twice the length in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// A set: an array in RESP2.
    Set(Vec<Reply>),
    /// A truth value: 1 or 0 in RESP2.
    Bool(bool),
    /// A floating-point number: a bulk string in RESP2.
    Double(f64),
    /// Text with a format of three letters: a bulk string in RESP2.
    Verbatim([u8; 3], Bytes),
    /// An error.
    Error(ErrorReply),
}

/// An error in the exact words the client is to read, first word included (`ERR ...`, `WRONGTYPE ...`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReply(pub String);

impl Reply {
    /// An error in exactly these words.
    pub fn error(message: impl Into<String>) -> Reply {
        Reply::Error(ErrorReply(message.into()))
    }

    /// A string of bytes.
    pub fn bulk(bytes: impl Into<Bytes>) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// Bytes the reply occupies, roughly, for limits.
    pub fn size_bytes(&self) -> usize {
        const BASE: usize = 16;
        BASE + match self {
            Reply::Ok | Reply::Nil | Reply::NilArray | Reply::Int(_) | Reply::Bool(_) | Reply::Double(_) => 0,
            Reply::Simple(text) | Reply::Error(ErrorReply(text)) => text.len(),
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => bytes.len(),
            Reply::Array(items) | Reply::Set(items) => items.iter().map(Reply::size_bytes).sum(),
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| key.size_bytes() + value.size_bytes()).sum(),
        }
    }
}
