//! Inline commands: a line of words, as somebody types it into a terminal.

use alloc::vec::Vec;
use bytes::Bytes;

/// Splits a line into words: blanks separate, quotes keep together, `"` knows escapes (`\n`, `\x41`, ...) and `'`
/// knows `\'`. `None` if a quote is not closed, or is closed in the middle of a word.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        rest = take_word(rest, &mut word)?;
        words.push(Bytes::from(word));
    }
}

/// Appends the word that `line` starts with and returns what follows it.
fn take_word<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] | [b' ' | b'\t' | b'\r' | b'\n', ..] => return Some(rest),
            [b'"', after @ ..] => return end_of_quote(double_quoted(after, word)?),
            [b'\'', after @ ..] => return end_of_quote(single_quoted(after, word)?),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

/// A closing quote ends its word.
fn end_of_quote(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

fn double_quoted<'a>(quoted: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = quoted;
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (nibble(*high) << 4 | nibble(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescape(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(quoted: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = quoted;
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.to_ascii_uppercase() - b'A' + 10,
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        split(line.as_bytes()).map(|words| words.iter().map(|word| word.to_vec()).collect())
    }

    #[test]
    fn words_and_quotes() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("", &[]),
            (" \t ", &[]),
            ("ping", &[b"ping"]),
            ("  get \t a  ", &[b"get", b"a"]),
            (r#"set k "a b""#, &[b"set", b"k", b"a b"]),
            (r#"echo "\x41\n\r\t\b\a\q\\\"""#, &[b"echo", b"A\n\r\t\x08\x07q\\\""]),
            (r#"echo "\xZZ""#, &[b"echo", b"xZZ"]),
            (r"echo 'a\'b\n'", &[b"echo", b"a'b\\n"]),
            (r#"a"b c""#, &[b"ab c"]),
            (r#""" ''"#, &[b"", b""]),
        ];
        for (line, expected) in cases {
            let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.to_vec()).collect();
            assert_eq!(words(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [r#"a "b"#, "a 'b", r#"a "b"c"#, "'a'b", r#""\"#, r#"""""#] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
