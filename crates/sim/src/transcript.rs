//! Tests written as dialogues: commands in a text file, and what they must answer beneath.
//!
//! ```text
//! # A comment.
//! propose node=1 values=(a, b)
//! ----
//! n1 accepts a, b
//!
//! deliver
//! some input, line by line
//! ----
//! nothing to deliver
//! ```
//!
//! An answer ends at the first empty line; one that holds empty lines stands between doubled `----` lines. With the
//! environment variable `QUORATE_GOLDEN=1` the files are rewritten with what was answered, to be reviewed as a diff.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const RULE: &str = "----";

/// One command of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directive {
    /// The first word.
    pub name: String,
    /// The other words: `key=value`, `key=(value, value)`, or a bare `key`.
    pub args: Vec<(String, Vec<String>)>,
    /// The lines between the command and the rule.
    pub input: String,
    /// Where it stands in its file, from 1.
    pub line: usize,
}

impl Directive {
    /// The values of `key`; `None` if it was not given.
    pub fn values(&self, key: &str) -> Option<&[String]> {
        self.args.iter().find(|(name, _)| name == key).map(|(_, values)| values.as_slice())
    }

    /// Whether `key` was given.
    pub fn has(&self, key: &str) -> bool {
        self.values(key).is_some()
    }

    /// The first value of `key`, read as a `T`.
    ///
    /// # Panics
    /// If it was not given or is not a `T`: the transcript is wrong.
    pub fn get<T: FromStr>(&self, key: &str) -> T {
        self.maybe(key).unwrap_or_else(|| panic!("line {}: {} needs {key}=...", self.line, self.name))
    }

    /// As [`Directive::get`]; `None` if it was not given.
    ///
    /// # Panics
    /// If it is not a `T`.
    pub fn maybe<T: FromStr>(&self, key: &str) -> Option<T> {
        let value = self.values(key)?.first()?;
        match value.parse() {
            Ok(value) => Some(value),
            Err(_) => panic!("line {}: {key}={value} is not what {} takes", self.line, self.name),
        }
    }

    /// All values of `key`, read as `T`; empty if it was not given.
    ///
    /// # Panics
    /// If one is not a `T`.
    pub fn all<T: FromStr>(&self, key: &str) -> Vec<T> {
        let read = |value: &String| match value.parse() {
            Ok(value) => value,
            Err(_) => panic!("line {}: {value} in {key}=(...) is not what {} takes", self.line, self.name),
        };
        self.values(key).unwrap_or_default().iter().map(read).collect()
    }
}

/// A piece of a transcript: what is kept as it is, or a command with its answer.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Verbatim(String),
    Command { text: String, directive: Directive, expected: String },
}

/// Runs every `*.txt` file of `directory`, in order of their names; `begin` makes a fresh answerer for each.
///
/// # Panics
/// At the first file that cannot be read or does not answer as written.
pub fn walk<F: FnMut(&Directive) -> String>(directory: impl AsRef<Path>, mut begin: impl FnMut(&Path) -> F) {
    let directory = directory.as_ref();
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no transcript", directory.display());
    for path in paths {
        run_file(&path, begin(&path));
    }
}

/// Runs one file.
///
/// # Panics
/// As [`walk`].
pub fn run_file(path: &Path, answer: impl FnMut(&Directive) -> String) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (rewritten, wrong) = play(&text, answer).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
    if std::env::var_os("QUORATE_GOLDEN").is_some_and(|value| value == "1") {
        if rewritten != text {
            fs::write(path, rewritten).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    } else if let Some(wrong) = wrong {
        panic!("{}:{wrong}\n(QUORATE_GOLDEN=1 rewrites the file)", path.display());
    }
}

/// Answers every command; the text with all answers as they are now, and the first that is not as written.
///
/// # Errors
/// The line that is not a transcript's.
pub fn play(
    text: &str,
    mut answer: impl FnMut(&Directive) -> String,
) -> Result<(String, Option<String>), String> {
    let (mut rewritten, mut wrong) = (String::new(), None);
    for piece in pieces(text)? {
        match piece {
            Piece::Verbatim(line) => rewritten += &line,
            Piece::Command { text, directive, expected } => {
                let mut found = answer(&directive);
                if !found.is_empty() && !found.ends_with('\n') {
                    found.push('\n');
                }
                if found != expected && wrong.is_none() {
                    let Directive { line, name, .. } = &directive;
                    wrong = Some(format!("{line}: {name} answers\n{found}and should answer\n{expected}"));
                }
                rewritten += &text;
                rewritten += &framed(&found);
            }
        }
    }
    Ok((rewritten, wrong))
}

fn framed(answer: &str) -> String {
    if answer.starts_with('\n') || answer.contains("\n\n") || answer.lines().any(|line| line == RULE) {
        format!("{RULE}\n{RULE}\n{answer}{RULE}\n{RULE}\n")
    } else {
        format!("{RULE}\n{answer}")
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
    let mut pieces = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            pieces.push(Piece::Verbatim(format!("{line}\n")));
            continue;
        }
        let mut directive = directive(number, line)?;
        let mut text = format!("{line}\n");
        loop {
            match lines.next() {
                Some((_, RULE)) => break,
                Some((_, line)) => {
                    text += &format!("{line}\n");
                    directive.input += &format!("{line}\n");
                }
                None => return Err(format!("{number}: {} has no {RULE} below it", directive.name)),
            }
        }
        let mut expected = String::new();
        if lines.next_if(|(_, line)| *line == RULE).is_some() {
            loop {
                match lines.next() {
                    Some((_, RULE)) if lines.next_if(|(_, line)| *line == RULE).is_some() => break,
                    Some((_, line)) => expected += &format!("{line}\n"),
                    None => return Err(format!("{number}: the answer's closing {RULE} lines are missing")),
                }
            }
        } else {
            while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
                expected += &format!("{line}\n");
            }
        }
        pieces.push(Piece::Command { text, directive, expected });
    }
    Ok(pieces)
}

/// Reads a command line.
fn directive(number: usize, line: &str) -> Result<Directive, String> {
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '(' if inside => return Err(format!("{number}: a list inside a list")),
            ')' if !inside => return Err(format!("{number}: a list closes that was not opened")),
            '(' | ')' => inside = letter == '(',
            _ => {}
        }
        if letter.is_whitespace() && !inside {
            words.push(mem::take(&mut word));
        } else {
            word.push(letter);
        }
    }
    if inside {
        return Err(format!("{number}: a list is not closed"));
    }
    words.push(word);
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let name = words.next().unwrap_or_default();
    let args = words.map(|word| match word.split_once('=') {
        None => (word, Vec::new()),
        Some((key, value)) => {
            let list = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
            let values = match list {
                None => vec![value.to_owned()],
                Some(list) => {
                    list.split(',').map(|value| value.trim().to_owned()).filter(|v| !v.is_empty()).collect()
                }
            };
            (key.to_owned(), values)
        }
    });
    Ok(Directive { args: args.collect(), name, input: String::new(), line: number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(directive: &Directive) -> String {
        let total: u64 = directive.all::<u64>("of").iter().sum();
        match directive.name.as_str() {
            "sum" => total.to_string(),
            "echo" => directive.input.clone(),
            _ => String::new(),
        }
    }

    const TEXT: &str = "# sums\nsum of=(1, 2, 3)\n----\n6\n\necho\na\n\nb\n----\n----\na\n\nb\n----\n----\n\nnothing\n----\n";

    #[test]
    fn right_answers_leave_the_text_as_it_is() {
        assert_eq!(play(TEXT, sum), Ok((TEXT.to_owned(), None)));
    }

    #[test]
    fn wrong_answers_are_named_and_rewritten() {
        let text = TEXT.replace("\n6\n", "\n7\n");
        let (rewritten, wrong) = play(&text, sum).expect("a transcript");
        assert_eq!(rewritten, TEXT);
        assert_eq!(wrong.as_deref(), Some("2: sum answers\n6\nand should answer\n7\n"));
    }

    #[test]
    fn what_is_no_transcript_is_refused() {
        let refusal = |text: &str| play(text, sum).expect_err("no transcript");
        assert!(refusal("sum of=1\n").contains("1: sum has no ----"));
        assert!(refusal("\nsum of=(1\n----\n").contains("2: a list is not closed"));
        assert!(refusal("sum of=1)\n----\n").contains("not opened"));
        assert!(refusal("sum of=((1))\n----\n").contains("inside a list"));
        assert!(refusal("echo\n----\n----\na\n").contains("closing"));
    }

    #[test]
    fn arguments() {
        let directive = directive(1, "move  from=1 to=(2,3) force why=because").expect("valid");
        assert_eq!((directive.name.as_str(), directive.get::<u64>("from")), ("move", 1));
        assert_eq!(directive.all::<u64>("to"), [2, 3]);
        assert!(directive.has("force") && !directive.has("gently"));
        assert_eq!(directive.maybe::<u64>("until"), None);
        assert_eq!(directive.get::<String>("why"), "because");
    }

    #[test]
    #[should_panic(expected = "line 3: from=x is not what move takes")]
    fn a_wrong_argument_says_where() {
        directive(3, "move from=x").expect("valid").get::<u64>("from");
    }
}
