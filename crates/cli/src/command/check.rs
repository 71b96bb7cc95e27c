//! `check`: judges histories.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_api::history::Check as Property;
use quorate_checker::{History, Report, Verdict};
use serde_json::{Value, json};

use crate::exit::{self, WithCode as _};
use crate::output::{Format, print, print_json};

/// Judge histories of what clients asked and were told.
///
/// A history has one JSON object a line; crates/checker/FORMAT.md describes it. `quorate bench --history FILE` writes
/// one. Exit codes: 0 all properties hold, 1 one is violated, 2 no history, 3 gave up without a verdict.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The histories; `-` is standard input. Each is judged by itself.
    #[arg(required = true)]
    pub(crate) histories: Vec<PathBuf>,
    /// What to judge for; can be repeated. Without it, what suits the operations in the history.
    #[arg(long = "for", value_name = "PROPERTY", value_parser = property)]
    pub(crate) properties: Vec<Property>,
}

fn property(name: &str) -> Result<Property, String> {
    Property::find(name).ok_or_else(|| {
        let known: Vec<&str> = Property::ALL.into_iter().map(Property::name).collect();
        format!("there are {}", known.join(", "))
    })
}

/// Judges all of them.
pub(crate) fn run(check: &Check, format: Format) -> Result<ExitCode> {
    let (mut told, mut worst) = (Vec::new(), 0);
    for path in &check.histories {
        let history = read(path).code(exit::USAGE)?;
        let suggested;
        let properties = match check.properties.as_slice() {
            [] => {
                suggested = quorate_checker::suggest(&history);
                &suggested
            }
            named => named,
        };
        for property in properties {
            let report = quorate_checker::check(&history, *property);
            worst = worse(worst, code(&report));
            match format {
                Format::Json => told.push(describe(path, &report)),
                Format::Text => print(&format!("{}: {report}\n", path.display()))?,
            }
        }
    }
    if format == Format::Json {
        print_json(&told)?;
    }
    Ok(ExitCode::from(worst))
}

fn read(path: &Path) -> Result<History> {
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
    };
    History::read(BufReader::new(input)).with_context(|| format!("{} is no history", path.display()))
}

/// The exit code a verdict stands for.
pub(crate) fn code(report: &Report) -> u8 {
    match report.verdict {
        Verdict::Ok => 0,
        Verdict::Violated(_) => exit::FAILED,
        Verdict::GaveUp(_) => exit::UNKNOWN,
    }
}

/// A violation is worse than not knowing.
fn worse(one: u8, other: u8) -> u8 {
    match (one, other) {
        (exit::FAILED, _) | (_, exit::FAILED) => exit::FAILED,
        (one, other) => one.max(other),
    }
}

/// A verdict as JSON.
pub(crate) fn describe(path: &Path, report: &Report) -> Value {
    let (verdict, reason, violations) = match &report.verdict {
        Verdict::Ok => ("ok", None, Vec::new()),
        Verdict::GaveUp(reason) => ("gave_up", Some(reason), Vec::new()),
        Verdict::Violated(violations) => {
            let one = |violation: &quorate_checker::Violation| json!({ "name": violation.name, "text": violation.text, "lines": violation.lines });
            ("violated", None, violations.iter().map(one).collect())
        }
    };
    json!({
        "history": path.display().to_string(),
        "property": report.check.name(),
        "verdict": verdict,
        "reason": reason,
        "violations": violations,
        "looked_at": report.looked_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_the_worst() {
        assert_eq!(worse(0, exit::UNKNOWN), exit::UNKNOWN);
        assert_eq!(worse(exit::UNKNOWN, exit::FAILED), exit::FAILED);
        assert_eq!(worse(exit::FAILED, exit::UNKNOWN), exit::FAILED);
        assert_eq!(worse(0, 0), 0);
    }

    #[test]
    fn properties_are_known_by_name() {
        assert_eq!(property("linear"), Ok(Property::Linear));
        assert!(property("nice").unwrap_err().contains("serial"));
    }
}
