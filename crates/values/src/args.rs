//! Reading arguments, in Redis's strictness and words.

use alloc::format;
use alloc::string::String;
use bytes::Bytes;
use quorate_api::ErrorReply;

/// Largest string a command may make by growing one (`proto-max-bulk-len`).
pub(crate) const STRING_BYTES_MAX: i64 = 32 * 1024 * 1024;

/// An error in these words.
pub(crate) fn error(text: impl Into<String>) -> ErrorReply {
    ErrorReply(text.into())
}

pub(crate) fn syntax_error() -> ErrorReply {
    error("ERR syntax error")
}

pub(crate) fn wrong_type() -> ErrorReply {
    error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

pub(crate) fn no_such_key() -> ErrorReply {
    error("ERR no such key")
}

pub(crate) fn not_an_integer() -> ErrorReply {
    error("ERR value is not an integer or out of range")
}

pub(crate) fn wrong_arity(name: &str) -> ErrorReply {
    error(format!("ERR wrong number of arguments for '{name}' command"))
}

pub(crate) fn unknown_subcommand(container: &str, name: &[u8]) -> ErrorReply {
    const SHOWN_BYTES_MAX: usize = 128;
    let shown = printable(&name[..name.len().min(SHOWN_BYTES_MAX)]);
    error(format!("ERR unknown subcommand '{shown}'. Try {container} HELP."))
}

/// A client's words inside an error reply, which is one line.
pub(crate) fn printable(words: &[u8]) -> String {
    String::from_utf8_lossy(words).replace(['\r', '\n'], " ")
}

/// A decimal integer as Redis takes them (`string2ll`): no spaces, no plus sign, no leading zeros, no minus zero.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Built up on the negative side, which reaches one further.
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

pub(crate) fn integer(text: &[u8]) -> Result<i64, ErrorReply> {
    parse_integer(text).ok_or_else(not_an_integer)
}

/// An integer of at least `least`, whatever is wrong with it told in the same words.
pub(crate) fn integer_from(least: i64, text: &[u8], message: &str) -> Result<i64, ErrorReply> {
    parse_integer(text).filter(|value| *value >= least).ok_or_else(|| error(message))
}

/// A 32-bit integer.
pub(crate) fn small_integer(text: &[u8]) -> Result<i32, ErrorReply> {
    let value = integer(text)?;
    i32::try_from(value).map_err(|_| {
        error(format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX))
    })
}

/// Whether a word is this option.
pub(crate) fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// Refuses a string of `length + added` bytes if that is too long.
pub(crate) fn check_length(length: i64, added: usize) -> Result<(), ErrorReply> {
    let total = i64::try_from(added).ok().and_then(|added| length.checked_add(added));
    match total {
        Some(total) if total <= STRING_BYTES_MAX => Ok(()),
        _ => Err(error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")),
    }
}

/// An integer as the bytes of its decimal form.
pub(crate) fn decimal(value: i64) -> Bytes {
    const DIGITS_MAX: usize = 20;
    let mut text = [0_u8; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        text[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        text[start] = b'-';
    }
    Bytes::copy_from_slice(&text[start..])
}

/// A position as Redis counts them (negative: from the end, -1 the last), from the start, perhaps out of range.
pub(crate) fn from_start(position: i64, count: u64) -> i64 {
    if position >= 0 { position } else { position.saturating_add_unsigned(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_redis() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
            assert_eq!(decimal(value), text);
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "1e2",
            "--1",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn lengths_are_limited() {
        assert!(check_length(STRING_BYTES_MAX, 0).is_ok());
        assert!(check_length(STRING_BYTES_MAX, 1).is_err());
        assert!(check_length(i64::MAX, 1).is_err());
    }

    #[test]
    fn positions_count_from_the_end() {
        assert_eq!(from_start(-1, 3), 2);
        assert_eq!(from_start(-4, 3), -1);
        assert_eq!(from_start(5, 3), 5);
        assert_eq!(from_start(i64::MIN, 3), i64::MIN + 3);
    }
}
