//! From the bytes of a connection to commands.

use alloc::vec::Vec;
use bytes::{Buf, Bytes, BytesMut};

use crate::limits::WORD_OVERHEAD_BYTES;
use crate::{Limits, ProtocolError, inline, number};

/// What a client may send before it has said who it is.
const RESTRICTED_WORDS_MAX: usize = 10;
const RESTRICTED_BULK_BYTES_MAX: usize = 16_384;

/// Room made for words on the strength of an announced number alone.
const WORDS_BELIEVED: usize = 16;

/// An incremental parser of one connection's bytes: arrays of bulk strings, and inline commands.
///
/// Words are cut out of the buffer without copying. A word therefore keeps the read buffer it lies in alive: whoever
/// keeps one for long (the store does, a queue of requests does not) copies it. Nothing is looked at twice: words
/// that are complete leave the buffer at once, and a search for the end of a line goes on where it stopped. Nothing
/// is allocated on the word of a client: room grows with what has arrived.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    restricted: bool,
    /// The command whose words are arriving.
    partial: Option<Partial>,
    /// Bytes of the current line already searched for its end.
    scanned: usize,
    failed: Option<ProtocolError>,
}

#[derive(Debug)]
struct Partial {
    missing: usize,
    words: Vec<Bytes>,
    bytes: usize,
    /// Length of the word under way, once its line has arrived.
    bulk: Option<usize>,
}

impl Parser {
    /// A parser at the start of a connection.
    pub fn new(limits: Limits) -> Parser {
        Parser { limits, restricted: false, partial: None, scanned: 0, failed: None }
    }

    /// Whether the client has yet to say who it is ([`crate::Session::needs_auth`]): until then it gets ten words
    /// of 16 KiB each, as in Redis, so that strangers cannot make the node hold much.
    pub fn restrict(&mut self, restricted: bool) {
        self.restricted = restricted;
    }

    /// The next command: its words, never none of them. `None`: more bytes are needed.
    ///
    /// An error is final: every later call repeats it.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.advance(buffer);
        self.failed = result.as_ref().err().copied();
        result
    }

    /// How many bytes beyond those in the buffer the word under way needs; 0 if that is not known. A hint for the
    /// size of the next read.
    pub fn bytes_missing(&self, buffer: &BytesMut) -> usize {
        let bulk = self.partial.as_ref().and_then(|partial| partial.bulk);
        bulk.map_or(0, |bulk| (bulk + 2).saturating_sub(buffer.len()))
    }

    fn advance(&mut self, buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        // Every turn either returns or consumes at least a line's end.
        loop {
            if self.partial.is_some() {
                return self.words(buffer);
            }
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(end) = self.line_end(buffer, ProtocolError::MultibulkLine)? else {
                        return Ok(None);
                    };
                    self.partial = self.multibulk(&buffer[..end])?;
                    buffer.advance(end);
                }
                Some(_) => {
                    let Some(end) = self.line_end(buffer, ProtocolError::Inline)? else { return Ok(None) };
                    let words = inline::split(&buffer[..end]).ok_or(ProtocolError::UnbalancedQuotes)?;
                    buffer.advance(end);
                    if !words.is_empty() {
                        return Ok(Some(words));
                    }
                }
            }
        }
    }

    /// Where the first line ends, behind its LF; `too_long` if that is not within the limit.
    fn line_end(&mut self, buffer: &[u8], too_long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        let window = buffer.len().min(self.limits.inline_bytes_max);
        match buffer[self.scanned..window].iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let end = self.scanned + at + 1;
                self.scanned = 0;
                Ok(Some(end))
            }
            None if window == self.limits.inline_bytes_max => Err(too_long),
            None => {
                self.scanned = window;
                Ok(None)
            }
        }
    }

    /// The announcement of an array; `None` for an empty one, which Redis passes over.
    fn multibulk(&self, line: &[u8]) -> Result<Option<Partial>, ProtocolError> {
        let count = length_of(line).ok_or(ProtocolError::MultibulkLength)?;
        let Ok(count) = usize::try_from(count) else { return Ok(None) };
        if count > self.limits.words_max {
            return Err(ProtocolError::MultibulkLength);
        }
        if self.restricted && count > RESTRICTED_WORDS_MAX {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        if count == 0 {
            return Ok(None);
        }
        let words = Vec::with_capacity(count.min(WORDS_BELIEVED));
        Ok(Some(Partial { missing: count, words, bytes: 0, bulk: None }))
    }

    /// Takes the words of the command under way, as far as they have arrived.
    fn words(&mut self, buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        let Some(mut partial) = self.partial.take() else { return Ok(None) };
        while partial.missing > 0 {
            if !self.word(&mut partial, buffer)? {
                self.partial = Some(partial);
                return Ok(None);
            }
            partial.missing -= 1;
        }
        Ok(Some(partial.words))
    }

    /// Takes one word; whether it was there.
    fn word(&mut self, partial: &mut Partial, buffer: &mut BytesMut) -> Result<bool, ProtocolError> {
        let length = match partial.bulk {
            Some(length) => length,
            None => {
                match buffer.first() {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::ExpectedDollar(*other)),
                }
                let Some(end) = self.line_end(buffer, ProtocolError::BulkLine)? else { return Ok(false) };
                let length = self.bulk(&buffer[..end])?;
                buffer.advance(end);
                partial.bytes += length + WORD_OVERHEAD_BYTES;
                if partial.bytes > self.limits.command_bytes_max {
                    return Err(ProtocolError::CommandTooLong(self.limits.command_bytes_max as u64));
                }
                partial.bulk = Some(length);
                length
            }
        };
        if buffer.len() < length + 2 {
            return Ok(false);
        }
        if &buffer[length..length + 2] != b"\r\n" {
            return Err(ProtocolError::BulkEnd);
        }
        partial.words.push(buffer.split_to(length).freeze());
        buffer.advance(2);
        partial.bulk = None;
        Ok(true)
    }

    /// The announcement of a word: its length.
    fn bulk(&self, line: &[u8]) -> Result<usize, ProtocolError> {
        let announced = length_of(line).ok_or(ProtocolError::BulkLength)?;
        let length = usize::try_from(announced).map_err(|_| ProtocolError::BulkLength)?;
        if length > self.limits.bulk_bytes_max {
            return Err(ProtocolError::BulkTooLong(length as u64, self.limits.bulk_bytes_max as u64));
        }
        if self.restricted && length > RESTRICTED_BULK_BYTES_MAX {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        Ok(length)
    }
}

/// The number between a line's first byte and its CR and LF.
fn length_of(line: &[u8]) -> Option<i64> {
    number::integer(line.strip_suffix(b"\r\n")?.get(1..)?)
}

#[cfg(test)]
mod tests;
