//! The exceptions to the rules, each with its reason, in `xtask/ratchet.txt`.
//!
//! One exception a line: `file PATH LINES REASON`, `function PATH NAME LINES REASON` or `sleep PATH REASON`. A
//! number may only be lowered; an exception nobody needs any more has to go.

use super::{Complaint, Tree, budget, sleep};

/// Where the exceptions stand.
pub(super) const PATH: &str = "xtask/ratchet.txt";

/// One exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exception {
    /// A file that may be this long.
    File { path: String, lines: usize },
    /// A function that may be this long.
    Function { path: String, name: String, lines: usize },
    /// A process test that may sleep.
    Sleep { path: String },
}

/// Every well-formed exception with its line; malformed ones are complained about by [`check`] alone.
pub(super) fn exceptions(tree: &Tree) -> Vec<(usize, Exception)> {
    numbered(tree).filter_map(|(line, text)| Some((line, parse(text)?))).collect()
}

/// Complains of exceptions that cannot be read, have no reason or are not needed.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (line, text) in numbered(tree) {
        let Some(exception) = parse(text) else {
            complaints.push(Complaint::at(
                PATH,
                line,
                "write `file PATH LINES REASON`, `function PATH NAME LINES REASON` or `sleep PATH REASON`",
            ));
            continue;
        };
        if !needed(tree, &exception) {
            complaints.push(Complaint::at(PATH, line, "nothing needs this exception any more: remove it"));
        }
    }
    complaints
}

fn numbered(tree: &Tree) -> impl Iterator<Item = (usize, &str)> {
    let text = tree.files.get(PATH).map_or("", String::as_str);
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

fn parse(line: &str) -> Option<Exception> {
    let mut words = line.split_whitespace();
    let kind = words.next()?;
    let path = words.next()?.to_owned();
    let exception = match kind {
        "file" => Exception::File { path, lines: words.next()?.parse().ok()? },
        "function" => {
            let name = words.next()?.to_owned();
            Exception::Function { path, name, lines: words.next()?.parse().ok()? }
        }
        "sleep" => Exception::Sleep { path },
        _ => return None,
    };
    // The reason: at least two words, so that "x" does not pass for one.
    (words.count() >= 2).then_some(exception)
}

fn needed(tree: &Tree, exception: &Exception) -> bool {
    match exception {
        Exception::File { path, .. } => budget::long_files(tree).any(|(long, _)| long == path),
        Exception::Function { path, name, .. } => {
            budget::long_functions(tree).iter().any(|long| long.path == *path && long.name == *name)
        }
        Exception::Sleep { path } => sleep::sleeping_tests(tree).iter().any(|(found, _)| found == path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read() {
        let file = Exception::File { path: "a.rs".to_owned(), lines: 600 };
        assert_eq!(parse("file a.rs 600 a table"), Some(file));
        let function = Exception::Function { path: "a.rs".to_owned(), name: "f".to_owned(), lines: 90 };
        assert_eq!(parse("function a.rs f 90 one match"), Some(function));
        assert_eq!(
            parse("sleep t.rs waits for processes"),
            Some(Exception::Sleep { path: "t.rs".to_owned() })
        );
    }

    #[test]
    fn exceptions_without_a_reason_or_a_use_are_caught() {
        assert_eq!(parse("file a.rs 600"), None);
        assert_eq!(parse("file a.rs many because of it"), None);
        assert_eq!(parse("anything a.rs because of it"), None);
        let tree =
            Tree::of(&[(PATH, "# comment\n\nfile a.rs 600 a table\nnonsense\n"), ("a.rs", "fn a() {}\n")]);
        let lines: Vec<_> = check(&tree).into_iter().map(|complaint| complaint.line).collect();
        assert_eq!(lines, [Some(3), Some(4)]);
    }
}
