//! As much of HTTP/1.1 as a page with forms needs. One request a connection, read by whoever answers it; what a client may send is
//! bounded before any of it is kept, and how long it may take is bounded as well.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The request line and the headers are no longer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// No body is longer: a post of 140 characters, each of which takes twelve bytes in a form, with room to spare.
const BODY_BYTES_MAX: usize = 8 << 10;
/// A request has to be there by then, and an answer taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// After an answer, so much of what still comes is thrown away, for so long: closing earlier could destroy the answer on its way.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 256 << 10;

/// What a browser asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// What a form sent, in the address or the body.
    pub(crate) fields: Vec<(String, String)>,
    /// Under which name the browser knows this server.
    pub(crate) host: String,
    /// From which page it comes, if the browser says so.
    pub(crate) origin: Option<String>,
}

impl Request {
    /// The first field of this name; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Where the browser is to go next.
    pub(crate) location: Option<String>,
    /// HTML.
    pub(crate) body: String,
}

/// A request that cannot be read: its status, and in words why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) u16, pub(crate) String);

fn unreadable<T>(status: u16, why: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable(status, why.into()))
}

/// Reads a request. `None` if the connection ended before it began, as browsers do that connect ahead of time.
pub(crate) fn receive(stream: &mut TcpStream) -> Result<Option<Request>, Unreadable> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let head_length = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            return unreadable(431, format!("the headers are longer than {HEAD_BYTES_MAX} bytes"));
        }
        match read_some(stream, &mut bytes, until) {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return unreadable(400, "the request is cut off"),
            Ok(_) => {}
            Err(_) if bytes.is_empty() => return Ok(None),
            Err(error) => return unreadable(408, format!("the request did not come in time: {error}")),
        }
    };
    let body = bytes.split_off(head_length + 4);
    let Ok(head) = std::str::from_utf8(&bytes) else { return unreadable(400, "the headers are no text") };
    let (mut request, body_length) = read_head(head)?;
    let body = read_body(stream, body, body_length, until)?;
    request.fields.extend(fields(&body));
    Ok(Some(request))
}

/// The request without its body, and how long that is.
fn read_head(head: &str) -> Result<(Request, usize), Unreadable> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return unreadable(400, "this is no request of HTTP/1.1");
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        fields: fields(query.as_bytes()),
        host: String::new(),
        origin: None,
    };
    let mut body_length = None;
    for line in lines.filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return unreadable(400, "a header has no name");
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => value.clone_into(&mut request.host),
            "origin" => request.origin = Some(value.to_owned()),
            "transfer-encoding" => return unreadable(411, "send a body whole, with its Content-Length"),
            "content-length" => {
                let Ok(length) = value.parse::<usize>() else {
                    return unreadable(400, "the Content-Length is no number, or too large for one");
                };
                if body_length.is_some_and(|before| before != length) {
                    return unreadable(400, "there are two of Content-Length");
                }
                body_length = Some(length);
            }
            _ => {}
        }
    }
    let body_length = body_length.unwrap_or(0);
    if body_length > BODY_BYTES_MAX {
        return unreadable(413, format!("what was sent is longer than {BODY_BYTES_MAX} bytes"));
    }
    Ok((request, body_length))
}

fn read_body(
    stream: &mut TcpStream,
    mut body: Vec<u8>,
    length: usize,
    until: Instant,
) -> Result<Vec<u8>, Unreadable> {
    while body.len() < length {
        match read_some(stream, &mut body, until) {
            Ok(0) => return unreadable(400, "the body is cut off"),
            Ok(_) => {}
            Err(error) => return unreadable(408, format!("the body did not come in time: {error}")),
        }
    }
    // One request a connection: what comes after it is nobody's.
    body.truncate(length);
    Ok(body)
}

fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>, until: Instant) -> io::Result<usize> {
    let mut chunk = [0; 2 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk) {
            Ok(count) => {
                bytes.extend_from_slice(&chunk[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends an answer and closes the connection.
pub(crate) fn send(stream: &mut TcpStream, reply: &Reply) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Reply { status, location, body } = reply;
    let location = location.as_ref().map(|to| format!("Location: {to}\r\n")).unwrap_or_default();
    // Nothing but this page's own forms and style is of use in it.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'";
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n{location}\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        reason(*status),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + LINGER;
    let mut rest = Vec::new();
    while rest.len() < LINGER_BYTES_MAX && read_some(stream, &mut rest, until)? > 0 {}
    Ok(())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}

/// The fields of a form (`application/x-www-form-urlencoded`).
fn fields(text: &[u8]) -> Vec<(String, String)> {
    let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let read_one = |pair: &[u8]| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
    };
    pairs.map(read_one).collect()
}

fn decode(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match (byte, code.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn forms_are_decoded() {
        assert_eq!(fields(b"a=1+2&b=%C3%A9%26&&c"), [pair("a", "1 2"), pair("b", "é&"), pair("c", "")]);
        assert_eq!(fields(b"a=%zz%4&b=%+1"), [pair("a", "%zz%4"), pair("b", "% 1")]);
        assert_eq!(fields(b"a=%ff"), [pair("a", "\u{fffd}")]);
        assert_eq!(fields(b""), []);
    }

    #[test]
    fn heads_are_read_and_bodies_bounded_before_they_come() {
        let head = "POST /post?x=1 HTTP/1.1\r\nHost: a:1\r\nORIGIN: http://a:1\r\nContent-length: 7\r\n\r\n";
        let (request, length) = read_head(head).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str(), length), ("POST", "/post", 7));
        assert_eq!((request.field("x"), request.field("y")), ("1", ""));
        assert_eq!((request.host.as_str(), request.origin.as_deref()), ("a:1", Some("http://a:1")));
        for (status, head) in [
            (400, "nonsense"),
            (400, "GET / HTTP/2\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\nno name\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            (411, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (413, "POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n"),
        ] {
            assert_eq!(read_head(head).map_err(|Unreadable(status, _)| status), Err(status), "{head}");
        }
    }
}
