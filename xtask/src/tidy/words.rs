//! Words that must not be committed: leftovers of unfinished work, and whatever means nothing to a reader.

use super::{Complaint, Tree};

/// Marks of unfinished work. In pieces, so that this file does not hold them.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("#[ign", "ore"),
];

/// Words that say nothing to a reader of the project, one a line.
const BANNED_PATH: &str = "xtask/banned-words.txt";

/// Code and documents hold no unfinished work and no test that never runs.
pub(super) fn leftovers(tree: &Tree) -> Vec<Complaint> {
    let code = [".rs", ".py", ".sh", ".toml", ".md", ".js"];
    let paths = tree.files.iter().filter(|(path, _)| code.iter().any(|ending| path.ends_with(ending)));
    let mut complaints = Vec::new();
    for (path, text) in paths {
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(word) = LEFTOVERS.iter().find(|word| holds_word(line, word)) {
                complaints.push(Complaint::at(path, number, format!("finish it or file it: `{word}`")));
            }
        }
    }
    complaints
}

/// No file names a place on somebody's machine or talks about how the text came to be.
pub(super) fn banned(tree: &Tree) -> Vec<Complaint> {
    let Some(list) = tree.files.get(BANNED_PATH) else {
        return vec![Complaint::file(BANNED_PATH, "is missing: it lists the banned words")];
    };
    let words: Vec<String> = list
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(str::to_lowercase)
        .collect();
    let mut complaints = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| *path != BANNED_PATH) {
        for (number, line) in (1..).zip(text.lines()) {
            let lower = line.to_lowercase();
            if let Some(word) = words.iter().find(|word| holds_word(&lower, word)) {
                complaints.push(Complaint::at(path, number, format!("`{word}` means nothing to a reader")));
            }
        }
    }
    complaints
}

/// Whether `line` holds `word` with no letter or digit directly before it (nor after it, if it ends with a letter).
fn holds_word(line: &str, word: &str) -> bool {
    let ends_open = !word.ends_with(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        let free_before = !word.starts_with(char::is_alphanumeric)
            || !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let free_after = ends_open || !line[at + word.len()..].starts_with(char::is_alphanumeric);
        free_before && free_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_caught() {
        for word in LEFTOVERS {
            let text = format!("fn a() {{}}\n// {word} later\n");
            assert_eq!(leftovers(&Tree::of(&[("a.rs", &text)])).len(), 1, "{word}");
        }
        assert_eq!(leftovers(&Tree::of(&[("a.rs", "let key = \"XXXX\"; // set XX, mastodon\n")])), []);
    }

    #[test]
    fn banned_words_are_caught_in_any_file_and_case() {
        let list = (BANNED_PATH, "# comment\n/somewhere/\nthe wizard\n");
        assert_eq!(banned(&Tree::of(&[list, ("a.txt", "the wizards of old\n")])), []);
        assert_eq!(banned(&Tree::of(&[list, ("a.txt", "ask The Wizard\n")])).len(), 1);
        assert_eq!(banned(&Tree::of(&[list, ("a.rs", "let x = \"/somewhere/x\";\n")])).len(), 1);
        assert_eq!(banned(&Tree::of(&[("a.txt", "")])).len(), 1);
    }
}
