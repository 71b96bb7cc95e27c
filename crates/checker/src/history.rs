//! Reading histories.

use std::collections::HashMap;
use std::io::BufRead;
use std::ops::Deref;

use quorate_api::history::{Ending, Record};

/// A record and where it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of its line, from 1.
    pub line: usize,
    /// What the line says.
    pub record: Record,
}

impl Deref for Entry {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl Entry {
    /// The time by which it had certainly taken effect; the end of time if its outcome is unknown.
    pub(crate) fn deadline(&self) -> u64 {
        match self.outcome {
            Ending::Unknown => u64::MAX,
            Ending::Ok | Ending::Fail => self.end.unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == Ending::Ok
    }
}

/// Records that are well formed, in order of their starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    entries: Vec<Entry>,
}

/// Why some input is not a history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input could not be read.
    #[error("line {line}: {source}")]
    Input {
        /// The line, from 1.
        line: usize,
        /// What happened.
        source: std::io::Error,
    },
    /// A line does not follow the format.
    #[error("line {line}: {what}")]
    Format {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl History {
    /// Reads JSON lines.
    ///
    /// # Errors
    /// If reading fails, a line is no record, or records contradict each other; the error names the line.
    pub fn read(mut input: impl BufRead) -> Result<History, ReadError> {
        let (mut entries, mut text, mut line) = (Vec::new(), Vec::new(), 0);
        loop {
            line += 1;
            text.clear();
            let count =
                input.read_until(b'\n', &mut text).map_err(|source| ReadError::Input { line, source })?;
            if count == 0 {
                return History::from_entries(entries);
            }
            let trimmed = text.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                continue;
            }
            let record = serde_json::from_slice(trimmed)
                .map_err(|error| ReadError::Format { line, what: explain(&error) })?;
            entries.push(Entry { line, record });
        }
    }

    /// A history of records that are already at hand; the first counts as line 1.
    ///
    /// # Errors
    /// If a record contradicts itself or another.
    pub fn from_records(records: impl IntoIterator<Item = Record>) -> Result<History, ReadError> {
        let numbered = records.into_iter().zip(1..);
        History::from_entries(numbered.map(|(record, line)| Entry { line, record }).collect())
    }

    fn from_entries(mut entries: Vec<Entry>) -> Result<History, ReadError> {
        for entry in &entries {
            if let Some(what) = contradiction(&entry.record) {
                return Err(ReadError::Format { line: entry.line, what });
            }
        }
        // Equal starts keep the order of their lines; an end at the moment of a start overlaps it.
        entries.sort_by_key(|entry| entry.start);
        let mut busy: HashMap<u64, (u64, usize)> = HashMap::new();
        for entry in &entries {
            if let Some((until, line)) = busy.get(&entry.client)
                && entry.start < *until
            {
                let what = format!(
                    "client {} starts at {}, before its request of line {line} has ended at {until}; a client that \
                     asks for several things at once must appear as several clients",
                    entry.client, entry.start
                );
                return Err(ReadError::Format { line: entry.line, what });
            }
            let until = entry.end.unwrap_or(entry.start);
            busy.insert(entry.client, (until, entry.line));
        }
        Ok(History { entries })
    }

    /// The records in order of their starts.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

fn contradiction(record: &Record) -> Option<String> {
    if record.ops.is_empty() {
        return Some("`ops` is empty: a record needs at least one operation".into());
    }
    match (record.outcome, record.end) {
        (Ending::Ok | Ending::Fail, None) => {
            Some("`end` is missing; only a record with outcome \"unknown\" may leave it out".into())
        }
        (_, Some(end)) if end < record.start => {
            Some(format!("it ends at {end}, before its start at {}", record.start))
        }
        _ => None,
    }
}

/// serde's words without the position in a text of one line.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what} (column {}); the format is described in FORMAT.md", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        History::read(text.as_bytes()).expect_err("a bad history").to_string()
    }

    #[test]
    fn comments_and_empty_lines_are_skipped_but_counted() {
        let text = "# why\n\n{\"client\":1,\"start\":5,\"end\":9,\"outcome\":\"ok\",\"ops\":[{\"f\":\"read\",\"key\":\"x\"}]}\n";
        let history = History::read(text.as_bytes()).expect("a history");
        assert_eq!(history.entries().len(), 1);
        assert_eq!(history.entries()[0].line, 3);
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        let good = r#"{"client":1,"start":1,"end":2,"outcome":"ok","ops":[{"f":"read","key":"x"}]}"#;
        assert!(error_of("#\n{").starts_with("line 2: EOF while parsing"));
        assert!(error_of(&format!("{good}\nnonsense")).starts_with("line 2: expected"));
        assert!(error_of(&good.replace("\"end\":2,", "")).contains("`end` is missing"));
        assert!(error_of(&good.replace("\"end\":2", "\"end\":0")).contains("before its start"));
        assert!(error_of(&good.replace("\"read\"", "\"reed\"")).contains("unknown variant `reed`"));
        assert!(error_of(&good.replace("\"key\"", "\"kee\"")).contains("unknown field `kee`"));
        assert!(error_of(&good.replace("\"ok\"", "\"good\"")).contains("unknown variant `good`"));
        assert!(error_of(&good.replace("[{\"f\":\"read\",\"key\":\"x\"}]", "[]")).contains("`ops` is empty"));
        let overlap = good.replace("\"start\":1", "\"start\":0");
        assert!(error_of(&format!("{good}\n{overlap}")).contains("several clients"), "same client twice");
    }

    #[test]
    fn null_is_a_known_result_and_absence_is_not() {
        let line = |result: &str| {
            let text = format!(
                "{{\"client\":1,\"start\":1,\"end\":2,\"outcome\":\"ok\",\"ops\":[{{\"f\":\"read\",\"key\":\"x\"{result}}}]}}"
            );
            let history = History::read(text.as_bytes()).expect("a history");
            history.entries()[0].ops[0].clone()
        };
        use quorate_api::history::Op;
        let key = || "x".to_string();
        assert_eq!(line(""), Op::Read { key: key(), result: None });
        assert_eq!(line(",\"result\":null"), Op::Read { key: key(), result: Some(None) });
        assert_eq!(line(",\"result\":\"v\""), Op::Read { key: key(), result: Some(Some("v".into())) });
    }
}
