//! What a checker says.

use std::fmt;

use quorate_api::history::Check;

/// What one checker found out about one history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was judged.
    pub check: Check,
    /// The result.
    pub verdict: Verdict,
    /// How many records, keys and so on were looked at, for a person to see that something was.
    pub looked_at: String,
}

/// The end of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The history has the property.
    Ok,
    /// The history has not; each violation says why.
    Violated(Vec<Violation>),
    /// The history could not be judged, for this reason. It may have the property or not.
    GaveUp(String),
}

/// One way in which a history lacks a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the anomaly.
    pub name: &'static str,
    /// What happened, in lines for people.
    pub text: String,
    /// The lines of the history that show it.
    pub lines: Vec<usize>,
}

impl Report {
    /// Whether the history has the property for certain.
    pub fn is_ok(&self) -> bool {
        self.verdict == Verdict::Ok
    }

    /// Violations if there are any, else nothing wrong, unless something kept the checker from judging.
    pub(crate) fn new(
        check: Check,
        looked_at: String,
        violations: Vec<Violation>,
        hole: Option<String>,
    ) -> Self {
        let verdict = match (violations.is_empty(), hole) {
            (false, _) => Verdict::Violated(violations),
            (true, Some(hole)) => Verdict::GaveUp(hole),
            (true, None) => Verdict::Ok,
        };
        Report { check, verdict, looked_at }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.check.name();
        match &self.verdict {
            Verdict::Ok => write!(f, "{name}: ok ({})", self.looked_at),
            Verdict::GaveUp(reason) => {
                write!(f, "{name}: gave up, not judged: {reason} ({})", self.looked_at)
            }
            Verdict::Violated(violations) => {
                writeln!(f, "{name}: VIOLATED, {} found ({})", violations.len(), self.looked_at)?;
                for violation in violations {
                    write!(f, "\n{violation}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for line in self.text.lines() {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// At most this many violations of one kind are spelled out.
pub(crate) const SHOWN_MAX: usize = 10;
