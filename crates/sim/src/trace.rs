//! What happened, as one number or line by line.

use std::fmt::{self, Write as _};

/// How much is recorded of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceLevel {
    /// A hash over what kind of event happened where and when.
    #[default]
    Cheap,
    /// A hash over the text of every event, message and effect.
    Full,
    /// As [`TraceLevel::Full`], and every line goes to standard error.
    Print,
    /// As [`TraceLevel::Full`], and every line is kept for the caller.
    Keep,
}

/// A rolling hash over everything that happened. Two runs of one seed must end with the same.
#[derive(Debug)]
pub(crate) struct Trace {
    level: TraceLevel,
    hash: u64,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(level: TraceLevel) -> Self {
        Trace { level, hash: 0xcbf2_9ce4_8422_2325, lines: Vec::new() }
    }

    /// Takes a number into the hash.
    #[inline]
    pub(crate) fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Whether text is wanted.
    #[inline]
    pub(crate) fn wants_text(&self) -> bool {
        self.level != TraceLevel::Cheap
    }

    /// Takes a line of text into the hash, and shows or keeps it.
    pub(crate) fn line(&mut self, now: u64, text: fmt::Arguments<'_>) {
        write!(self, "{now} {text}").expect("hashing text does not fail");
        match self.level {
            TraceLevel::Cheap | TraceLevel::Full => {}
            TraceLevel::Print => eprintln!("{:14.9} {text}", now as f64 / 1e9),
            TraceLevel::Keep => self.lines.push(format!("{:14.9} {text}", now as f64 / 1e9)),
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        Ok(())
    }
}
