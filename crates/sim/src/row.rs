//! Lines of results, by name.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// Something measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A number of things.
    Count(u64),
    /// A number with a fraction.
    Number(f64),
    /// Several numbers of things.
    Counts(Vec<u64>),
    /// Words.
    Text(String),
}

/// One line of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// What was found, by name.
    pub facts: Vec<(&'static str, Fact)>,
}

/// Who is told what an experiment finds, and how far it is.
pub trait Audience {
    /// A row is there.
    fn row(&mut self, row: Row);

    /// A run that may take hours is at this time of its own world, and in this phase.
    fn far(&mut self, _phase: &'static str, _now: Duration) {}
}

/// Who wants to hear of rows alone.
impl<F: FnMut(Row)> Audience for F {
    fn row(&mut self, row: Row) {
        self(row);
    }
}

impl Row {
    pub(crate) fn new(experiment: &'static str) -> Row {
        Row { experiment, facts: Vec::new() }
    }

    pub(crate) fn count(mut self, name: &'static str, count: u64) -> Row {
        self.facts.push((name, Fact::Count(count)));
        self
    }

    pub(crate) fn number(mut self, name: &'static str, number: f64) -> Row {
        self.facts.push((name, Fact::Number(number)));
        self
    }

    pub(crate) fn counts(mut self, name: &'static str, counts: Vec<u64>) -> Row {
        self.facts.push((name, Fact::Counts(counts)));
        self
    }

    pub(crate) fn text(mut self, name: &'static str, text: impl Into<String>) -> Row {
        self.facts.push((name, Fact::Text(text.into())));
        self
    }
}

impl fmt::Display for Row {
    /// As one JSON object, without the braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("\"experiment\":\"{}\"", self.experiment);
        for (name, fact) in &self.facts {
            write!(line, ",\"{name}\":")?;
            match fact {
                Fact::Count(count) => write!(line, "{count}")?,
                Fact::Number(number) => write!(line, "{number:.3}")?,
                Fact::Counts(counts) => write!(line, "{counts:?}")?,
                Fact::Text(text) => write!(line, "{text:?}")?,
            }
        }
        f.write_str(&line)
    }
}
