//! RESP2 as a client sees it: requests out, replies in. Public for tools that measure.

use bytes::Bytes;
use quorate_api::Reply;
use thiserror::Error;

/// Replies nested deeper than this are not replies.
const DEPTH_MAX: usize = 32;
/// A length of more bytes than this is not a length.
const DIGITS_MAX: usize = 20;
/// The longest string that is believed.
const BULK_BYTES_MAX: i64 = 512 << 20;
/// The longest array that is believed.
const ITEMS_MAX: i64 = 64 << 20;

/// Bytes that are not RESP2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("what the server sent is not RESP2: {0}")]
pub struct Malformed(pub String);

/// Appends a request: an array of strings, as clients send it.
pub fn encode<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    push_number(out, b'*', words.len());
    for word in words {
        push_bulk(out, word.as_ref());
    }
}

/// Appends one word of a request.
pub fn push_bulk(out: &mut Vec<u8>, word: &[u8]) {
    push_number(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends a header: the count of words of a request, or of bytes of a word.
pub fn push_number(out: &mut Vec<u8>, kind: u8, number: usize) {
    let (mut digits, mut at, mut left) = ([0; DIGITS_MAX], DIGITS_MAX, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// The length of the first whole reply in `input`; `None` if more has to come.
///
/// # Errors
/// If the bytes are not RESP2.
pub fn reply_length(input: &[u8]) -> Result<Option<usize>, Malformed> {
    // Replies still to come on this level and those above together: only their number matters.
    let (mut at, mut missing) = (0, 1_usize);
    while missing > 0 {
        let Some((kind, line, next)) = header(input, at)? else { return Ok(None) };
        at = next;
        missing -= 1;
        match kind {
            b'$' => {
                if let Some(bytes) = length(line, BULK_BYTES_MAX)? {
                    if input.len() < at + bytes + 2 {
                        return Ok(None);
                    }
                    if &input[at + bytes..at + bytes + 2] != b"\r\n" {
                        return Err(Malformed("a string is longer than it says".into()));
                    }
                    at += bytes + 2;
                }
            }
            b'*' => missing = missing.saturating_add(length(line, ITEMS_MAX)?.unwrap_or(0)),
            _ => {}
        }
    }
    Ok(Some(at))
}

/// Parses the first whole reply in `input` and says how long it was; `None` if more has to come.
///
/// # Errors
/// If the bytes are not RESP2.
pub fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let Some(end) = reply_length(input)? else { return Ok(None) };
    let mut at = 0;
    // Arrays begun and not complete, each with the number of items still to come.
    let mut open: Vec<(Vec<Reply>, usize)> = Vec::new();
    loop {
        let Some((kind, line, next)) = header(input, at)? else {
            return Err(Malformed("a reply ends early".into()));
        };
        at = next;
        let mut reply = match kind {
            b'+' if line == b"OK" => Reply::Ok,
            b'+' => Reply::Simple(text(line)),
            b'-' => Reply::error(text(line)),
            b':' => Reply::Int(number(line)?),
            b'$' => match length(line, BULK_BYTES_MAX)? {
                None => Reply::Nil,
                Some(bytes) => {
                    let string = Bytes::copy_from_slice(&input[at..at + bytes]);
                    at += bytes + 2;
                    Reply::Bulk(string)
                }
            },
            _ => match length(line, ITEMS_MAX)? {
                None => Reply::NilArray,
                Some(0) => Reply::Array(Vec::new()),
                Some(_) if open.len() == DEPTH_MAX => return Err(Malformed("arrays too deep".into())),
                Some(items) => {
                    open.push((Vec::new(), items));
                    continue;
                }
            },
        };
        // A complete item may complete the arrays around it.
        loop {
            let Some((mut items, missing)) = open.pop() else { return Ok(Some((reply, end))) };
            items.push(reply);
            if missing > 1 {
                open.push((items, missing - 1));
                break;
            }
            reply = Reply::Array(items);
        }
    }
}

/// One header line.
type Header<'a> = (u8, &'a [u8], usize);

/// The kind, the rest and the end of the line at `at`.
fn header(input: &[u8], at: usize) -> Result<Option<Header<'_>>, Malformed> {
    let Some(kind) = input.get(at) else { return Ok(None) };
    if !b"+-:$*".contains(kind) {
        return Err(Malformed(format!("a reply cannot begin with byte {kind:#04x}")));
    }
    let rest = &input[at + 1..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        if matches!(kind, b':' | b'$' | b'*') && rest.len() > DIGITS_MAX + 1 {
            return Err(Malformed("a number that does not end".into()));
        }
        return Ok(None);
    };
    Ok(Some((*kind, &rest[..end], at + 1 + end + 2)))
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let parsed = std::str::from_utf8(line).ok().and_then(|digits| digits.parse().ok());
    parsed.ok_or_else(|| Malformed(format!("`{}` is not a number", text(line))))
}

/// A length; -1 stands for "nothing".
fn length(line: &[u8], most: i64) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length if (0..=most).contains(&length) => Ok(usize::try_from(length).ok()),
        length => Err(Malformed(format!("a length of {length}"))),
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_arrays_of_strings() {
        let mut out = Vec::new();
        encode(&mut out, &["SET", "key", ""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let input = b"*7\r\n+OK\r\n+PONG\r\n-ERR no\r\n:-5\r\n$2\r\nab\r\n$-1\r\n*2\r\n*0\r\n*-1\r\n";
        let (reply, length) = parse(input).expect("RESP2").expect("whole");
        assert_eq!(length, input.len());
        let inner = Reply::Array(vec![Reply::Array(Vec::new()), Reply::NilArray]);
        let expected = vec![
            Reply::Ok,
            Reply::Simple("PONG".into()),
            Reply::error("ERR no"),
            Reply::Int(-5),
            Reply::bulk("ab"),
            Reply::Nil,
            inner,
        ];
        assert_eq!(reply, Reply::Array(expected));
        for cut in 0..input.len() {
            assert_eq!(parse(&input[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let bad: [&[u8]; 8] = [
            b"x",
            b"$-2\r\n",
            b"$1\r\nabc\r\n",
            b":a\r\n",
            b"*99999999999\r\n",
            b"$111111111111111111111111",
            b"HTTP/1.1 200 OK\r\n",
            b":\r\n",
        ];
        for input in bad {
            assert!(parse(input).is_err(), "{}", text(input));
        }
        let deep = "*1\r\n".repeat(DEPTH_MAX + 1) + ":1\r\n";
        assert!(parse(deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(input in proptest::collection::vec(prop_oneof![
            Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'-'), any::<u8>()
        ], 0..64)) {
            if let Ok(Some((_, length))) = parse(&input) {
                prop_assert!(length <= input.len());
            }
        }
    }
}
