//! What listings look like: columns for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;

/// How listings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// Rows under headings.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Table { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row; each cell becomes a line of its column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The columns, each as wide as its widest cell; what looks like a number stands to the right.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_number = |cell: &String| cell.chars().all(|c| c.is_ascii_digit() || ".-%".contains(c));
        let layout: Vec<(usize, bool)> =
            (0..columns).map(|column| (width(column), cells(column).skip(1).all(is_number))).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, (width, right)) in row.iter().zip(&layout) {
                let pad = " ".repeat(width - cell.chars().count());
                let (before, after) = if *right { (pad.as_str(), "") } else { ("", pad.as_str()) };
                line.push_str(before);
                line.push_str(cell);
                line.push_str(after);
                line.push_str("  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Prints text to standard output. Whoever reads it may stop reading: that is not an error.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints bytes as they are; otherwise like [`print`].
///
/// # Errors
/// See [`print`].
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints one JSON document.
///
/// # Errors
/// See [`print`].
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Whether a person watches.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["node", "role"]);
        table.row(["1".into(), "leader".into()]);
        table.row(["12".into(), String::new()]);
        assert_eq!(table.render(), "node  role\n   1  leader\n  12\n");
    }
}
