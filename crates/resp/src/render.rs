//! From replies to bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::BufMut;
use quorate_api::{ErrorReply, Reply};

/// Which version of the protocol a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// What `HELLO 3` asks for.
    Resp3,
}

impl Protocol {
    /// Its number, as in `HELLO`.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// Appends a reply to `out`, which may be a `Vec<u8>` or a `BytesMut`.
///
/// Line breaks inside simple strings and errors become blanks: they would end the line.
pub fn render(reply: &Reply, protocol: Protocol, out: &mut impl BufMut) {
    // A list of what is still to be written instead of recursion: replies may be nested deeply.
    let mut rest: Vec<&Reply> = Vec::new();
    let mut next = Some(reply);
    while let Some(reply) = next {
        match reply {
            Reply::Array(items) => {
                header(b'*', items.len(), out);
                rest.extend(items.iter().rev());
            }
            Reply::Set(items) => {
                header(if protocol == Protocol::Resp3 { b'~' } else { b'*' }, items.len(), out);
                rest.extend(items.iter().rev());
            }
            Reply::Map(pairs) => {
                match protocol {
                    Protocol::Resp2 => header(b'*', pairs.len() * 2, out),
                    Protocol::Resp3 => header(b'%', pairs.len(), out),
                }
                rest.extend(pairs.iter().rev().flat_map(|(key, value)| [value, key]));
            }
            flat => scalar(flat, protocol, out),
        }
        next = rest.pop();
    }
}

/// Appends a reply that has no parts.
fn scalar(reply: &Reply, protocol: Protocol, out: &mut impl BufMut) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.put_slice(b"+OK\r\n"),
        Reply::Simple(text) => line(b'+', text, out),
        Reply::Error(ErrorReply(text)) => line(b'-', text, out),
        Reply::Int(number) => integer(b':', *number, out),
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Nil | Reply::NilArray if resp3 => out.put_slice(b"_\r\n"),
        Reply::Nil => out.put_slice(b"$-1\r\n"),
        Reply::NilArray => out.put_slice(b"*-1\r\n"),
        Reply::Bool(truth) if resp3 => out.put_slice(if *truth { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Bool(truth) => integer(b':', i64::from(*truth), out),
        Reply::Double(number) if resp3 => line(b',', &double(*number), out),
        Reply::Double(number) => bulk(double(*number).as_bytes(), out),
        Reply::Verbatim(kind, bytes) if resp3 => {
            header(b'=', kind.len() + 1 + bytes.len(), out);
            out.put_slice(kind);
            out.put_slice(b":");
            out.put_slice(bytes);
            out.put_slice(b"\r\n");
        }
        Reply::Verbatim(_, bytes) => bulk(bytes, out),
        Reply::Array(_) | Reply::Set(_) | Reply::Map(_) => {
            unreachable!("replies with parts are taken apart by render")
        }
    }
}

fn integer(kind: u8, number: i64, out: &mut impl BufMut) {
    let mut digits = itoa::Buffer::new();
    out.put_u8(kind);
    out.put_slice(digits.format(number).as_bytes());
    out.put_slice(b"\r\n");
}

fn header(kind: u8, length: usize, out: &mut impl BufMut) {
    let mut digits = itoa::Buffer::new();
    out.put_u8(kind);
    out.put_slice(digits.format(length).as_bytes());
    out.put_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut impl BufMut) {
    header(b'$', bytes.len(), out);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

fn line(kind: u8, text: &str, out: &mut impl BufMut) {
    out.put_u8(kind);
    if text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
        out.put_slice(text.trim_matches(['\r', '\n']).replace(['\r', '\n'], " ").as_bytes());
    } else {
        out.put_slice(text.as_bytes());
    }
    out.put_slice(b"\r\n");
}

/// A floating-point number in the fewest digits that name it, laid out as Redis does since 7.2: plain where that is
/// short, with an exponent otherwise.
fn double(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{:e}", number.abs());
    let sign = if number < 0.0 { "-" } else { "" };
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let digits = mantissa.replace('.', "");
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    format!("{sign}{}", layout(&digits, exponent))
}

/// Lays out `d.ddd * 10^exponent`, given its digits.
fn layout(digits: &str, exponent: i32) -> String {
    const ZEROS_MAX: i32 = 7;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The number is the digits, read as an integer, times ten to this power.
    let power = exponent - (count - 1);
    if power >= 0 && exponent < count + ZEROS_MAX {
        return format!("{digits}{}", zeros(power));
    }
    if power < 0 && (power > -ZEROS_MAX || exponent.abs() < 4) {
        return match usize::try_from(count + power) {
            Ok(whole) if whole > 0 => format!("{}.{}", &digits[..whole], &digits[whole..]),
            _ => format!("0.{}{digits}", zeros(-(count + power))),
        };
    }
    let (first, others) = digits.split_at(1);
    let point = if others.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{others}e{sign}{}", exponent.abs())
}

fn zeros(count: i32) -> String {
    "0".repeat(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    fn both(reply: &Reply) -> (String, String) {
        let mut two = Vec::new();
        let mut three = BytesMut::new();
        render(reply, Protocol::Resp2, &mut two);
        render(reply, Protocol::Resp3, &mut three);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("replies of these tests are text");
        (text(&two), text(&three))
    }

    #[test]
    fn each_kind_in_both_protocols() {
        let pair = || {
            Reply::Map(alloc::vec![(Reply::bulk("k"), Reply::Set(alloc::vec![Reply::Int(1), Reply::Nil]))])
        };
        let cases = [
            (Reply::Ok, "+OK\r\n", "+OK\r\n"),
            (Reply::Simple("QUEUED".into()), "+QUEUED\r\n", "+QUEUED\r\n"),
            (Reply::Int(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::bulk("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (Reply::bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::NilArray, "*-1\r\n", "_\r\n"),
            (Reply::Array(Vec::new()), "*0\r\n", "*0\r\n"),
            (Reply::Bool(true), ":1\r\n", "#t\r\n"),
            (Reply::Bool(false), ":0\r\n", "#f\r\n"),
            (Reply::Double(2.5), "$3\r\n2.5\r\n", ",2.5\r\n"),
            (Reply::Verbatim(*b"txt", "hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Reply::error("ERR a\r\nb\r\n"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (pair(), "*2\r\n$1\r\nk\r\n*2\r\n:1\r\n$-1\r\n", "%1\r\n$1\r\nk\r\n~2\r\n:1\r\n_\r\n"),
            (
                Reply::Array(alloc::vec![Reply::Array(alloc::vec![Reply::Int(1)]), pair(), Reply::Int(2)]),
                "*3\r\n*1\r\n:1\r\n*2\r\n$1\r\nk\r\n*2\r\n:1\r\n$-1\r\n:2\r\n",
                "*3\r\n*1\r\n:1\r\n%1\r\n$1\r\nk\r\n~2\r\n:1\r\n_\r\n:2\r\n",
            ),
        ];
        for (reply, two, three) in cases {
            assert_eq!(both(&reply), (two.into(), three.into()), "{reply:?}");
        }
    }

    #[test]
    fn doubles() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e7, "10000000"),
            (1e8, "1e+8"),
            (123456789012.0, "123456789012"),
            (1e20, "1e+20"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (3.25e-10, "3.25e-10"),
            (1.5e300, "1.5e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (3.0000000000000004, "3.0000000000000004"),
            (0.000123456789, "1.23456789e-4"),
            (0.00123456789, "0.00123456789"),
        ];
        for (number, text) in cases {
            assert_eq!(double(*number), *text);
        }
    }

    #[test]
    fn deep_replies_need_no_stack() {
        let mut reply = Reply::Int(1);
        for _ in 0..2_000 {
            reply = Reply::Array(alloc::vec![reply]);
        }
        let mut out = Vec::new();
        render(&reply, Protocol::Resp2, &mut out);
        assert_eq!(out.len(), 2_000 * 4 + 4);
    }
}
