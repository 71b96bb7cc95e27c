//! House rules as tests: each rule is a pure function from the tree of files to complaints.
//!
//! A rule that cannot fail is worth nothing, so that every rule's file ends with a test that feeds it a violation.
//! Exceptions that deserve to exist stand, with their reason, in `xtask/ratchet.txt`.

mod attributes;
mod budget;
mod decisions;
mod dependencies;
mod documents;
mod early;
mod edges;
mod programs;
mod ratchet;
mod sleep;
mod source;
mod testdata;
mod tree;
mod words;

use std::fmt;

pub(crate) use tree::Tree;

/// A house rule.
pub(crate) struct Rule {
    /// Shown beside each complaint.
    pub(crate) name: &'static str,
    /// Finds the violations.
    pub(crate) check: fn(&Tree) -> Vec<Complaint>,
}

/// Every house rule.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: "edges", check: edges::check },
    Rule { name: "machine crates", check: dependencies::machines },
    Rule { name: "confined libraries", check: dependencies::confined },
    Rule { name: "dependency reasons", check: dependencies::reasons },
    Rule { name: "lints", check: attributes::workspace_lints },
    Rule { name: "allow reasons", check: attributes::allow_reasons },
    Rule { name: "file budget", check: budget::files },
    Rule { name: "function budget", check: budget::functions },
    Rule { name: "ratchet", check: ratchet::check },
    Rule { name: "leftovers", check: words::leftovers },
    Rule { name: "banned words", check: words::banned },
    Rule { name: "sleep", check: sleep::check },
    Rule { name: "early sends", check: early::check },
    Rule { name: "crate documentation", check: documents::crates },
    Rule { name: "links", check: documents::links },
    Rule { name: "programs", check: programs::check },
    Rule { name: "decision records", check: decisions::check },
    Rule { name: "testdata", check: testdata::check },
];

/// One violation: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: String,
    line: Option<usize>,
    text: String,
}

impl Complaint {
    fn file(path: &str, text: impl Into<String>) -> Self {
        Complaint { path: path.to_owned(), line: None, text: text.into() }
    }

    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Complaint { path: path.to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn the_house_rules_hold_here() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace");
        let tree = Tree::load(root, Command::new(env!("CARGO"))).expect("the tree can be read");
        let complaints: Vec<String> = RULES
            .iter()
            .flat_map(|rule| (rule.check)(&tree))
            .map(|complaint| complaint.to_string())
            .collect();
        assert!(complaints.is_empty(), "house rules are broken:\n{}", complaints.join("\n"));
    }
}
