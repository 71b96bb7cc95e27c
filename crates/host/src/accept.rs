//! Accepting connections: what to make of errors, and what to ask of the system.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::net::sockopt;

/// How long accepting rests when the system has no descriptors left.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Whether an error of `accept` concerns only the connection that was to be accepted: the next may be fine.
pub(crate) fn concerns_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | TimedOut)
}

/// Small answers leave at once, and a connection whose other machine is gone ends some time after `silence`. An
/// option that cannot be set costs speed, or a descriptor for longer; the connection works nevertheless.
pub(crate) fn set_options(stream: &TcpStream, silence: Duration) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    // The system counts in seconds and refuses none.
    let _ = sockopt::set_tcp_keepidle(stream, silence.max(Duration::from_secs(1)));
}
