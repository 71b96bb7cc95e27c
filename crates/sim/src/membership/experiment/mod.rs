//! What the paper measured (Suresh et al. 2018, section 7), measured again in virtual time, with the machine itself.
//!
//! | experiment | what happens |
//! |---|---|
//! | `crashes` | ten of the members crash at once |
//! | `deaf` | ten members hear nobody for 20 s, hear again for 20 s, and so on |
//! | `lossy` | four of five messages from and to one in a hundred members are lost |
//! | `bootstrap` | all but one start within a second and join |
//! | `conflicts` | how often two nodes propose different cuts, by watermarks and number of failures |
//! | `small` | how long clusters of three to nine take to remove one that crashed |

mod conflicts;
mod fleet;
mod runs;

use std::fmt::{self, Write as _};

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

impl Row {
    fn new(experiment: &'static str) -> Row {
        Row { experiment, facts: Vec::new() }
    }

    fn count(mut self, name: &'static str, count: u64) -> Row {
        self.facts.push((name, Fact::Count(count)));
        self
    }

    fn number(mut self, name: &'static str, number: f64) -> Row {
        self.facts.push((name, Fact::Number(number)));
        self
    }

    fn counts(mut self, name: &'static str, counts: Vec<u64>) -> Row {
        self.facts.push((name, Fact::Counts(counts)));
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

/// The names of all experiments.
pub const NAMES: [&str; 6] = ["crashes", "deaf", "lossy", "bootstrap", "conflicts", "small"];

/// Runs one experiment with so many nodes; `None` if there is none of that name.
pub fn run(name: &str, nodes: usize, seed: u64) -> Option<Vec<Row>> {
    Some(match name {
        "crashes" => vec![runs::crashes(nodes, seed)],
        "deaf" => vec![runs::deaf(nodes, seed)],
        "lossy" => vec![runs::lossy(nodes, seed)],
        "bootstrap" => vec![runs::bootstrap(nodes, seed)],
        "conflicts" => conflicts::table(nodes, seed),
        "small" => runs::small(seed),
        _ => return None,
    })
}
