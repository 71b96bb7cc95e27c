//! Tests that wait for a clock are slow on good days and fail on bad ones.

use super::ratchet::{self, Exception};
use super::{Complaint, Tree, source};

/// No test sleeps, but for the process tests that are listed with their reason.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let exceptions = ratchet::exceptions(tree);
    let granted = |wanted: &str| {
        exceptions
            .iter()
            .any(|(_, exception)| matches!(exception, Exception::Sleep { path } if path == wanted))
    };
    sleeping_tests(tree)
        .into_iter()
        .filter(|(path, _)| !granted(path))
        .map(|(path, line)| {
            Complaint::at(
                path,
                line,
                "a test may not sleep: step the machine, or poll a condition in a process test",
            )
        })
        .collect()
}

/// Every line of test code that sleeps.
pub(super) fn sleeping_tests(tree: &Tree) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let word = concat!("thread", "::sleep");
    for (path, text) in tree.rust().filter(|(_, text)| text.contains(word)) {
        let tests = source::test_lines(path, text);
        for (number, line) in (1..).zip(text.lines()) {
            if source::without_comment(line).contains(word) && source::within(number, &tests) {
                found.push((path, number));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_tests_are_caught_unless_listed() {
        let text = format!("fn a() {{ std::{}(d); }}\n", concat!("thread", "::sleep"));
        let unit = format!("#[cfg(test)]\nmod tests {{\n    {text}}}\n");
        assert_eq!(check(&Tree::of(&[("crates/a/src/a.rs", &text)])), []);
        assert_eq!(check(&Tree::of(&[("crates/a/src/a.rs", &unit)]))[0].line, Some(3));
        assert_eq!(check(&Tree::of(&[("crates/a/tests/a.rs", &text)])).len(), 1);
        let excuse = (ratchet::PATH, "sleep crates/a/tests/a.rs polls a real process\n");
        assert_eq!(check(&Tree::of(&[("crates/a/tests/a.rs", &text), excuse])), []);
    }
}
