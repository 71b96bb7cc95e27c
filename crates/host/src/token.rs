//! Which part of the loop an event of the poll belongs to.

use mio::Token;

/// Another thread has something for the loop.
pub(crate) const WAKER: Token = Token(0);
/// A signal arrived.
pub(crate) const SIGNAL: Token = Token(1);
/// Somebody dials the client door.
pub(crate) const CLIENT_DOOR: Token = Token(2);
/// Somebody dials the door of the cluster view.
pub(crate) const CLUSTER_DOOR: Token = Token(4);
/// Somebody dials the peer door.
pub(crate) const PEER_DOOR: Token = Token(3);

const SHIFT: u32 = 48;

/// The families of numbered connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// A door, the waker, a signal.
    Fixed,
    Client,
    PeerIn,
    PeerOut,
}

fn make(family: usize, index: usize) -> Token {
    debug_assert!(index < 1 << SHIFT, "connections are counted far below this");
    Token(family << SHIFT | index)
}

pub(crate) fn client(index: usize) -> Token {
    make(1, index)
}

pub(crate) fn peer_in(index: usize) -> Token {
    make(2, index)
}

pub(crate) fn peer_out(index: usize) -> Token {
    make(3, index)
}

pub(crate) fn family(token: Token) -> Family {
    match token.0 >> SHIFT {
        0 => Family::Fixed,
        1 => Family::Client,
        2 => Family::PeerIn,
        _ => Family::PeerOut,
    }
}

/// The number within the family.
pub(crate) fn index(token: Token) -> usize {
    token.0 & ((1 << SHIFT) - 1)
}
