//! Strings: the whole value is in [`crate::Meta::body`].

mod lcs;
mod long_double;
mod number;
mod read;
mod set;

use crate::table::{Spec, spec};

/// Commands 1 to 99.
pub(crate) const SPECS: [Spec; 22] = [
    spec!(1 "get" Exactly(2) Read ONE ["fast"] ["read", "string", "fast"] "string"
        read::get, "Tells a string"),
    spec!(2 "set" AtLeast(3) Write ONE ["denyoom"] ["write", "string", "slow"] "string"
        set::set, "Makes a key a string, whatever it was, on conditions and with an expiry if wanted"),
    spec!(3 "getex" AtLeast(2) Write ONE ["fast"] ["write", "string", "fast"] "string"
        set::getex, "Tells a string and changes when it expires"),
    spec!(4 "getdel" Exactly(2) Write ONE ["fast"] ["write", "string", "fast"] "string"
        set::getdel, "Tells a string and removes it"),
    spec!(5 "getset" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        set::getset, "Replaces a string and tells the old one"),
    spec!(6 "setnx" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        set::setnx, "Sets a string unless the key exists"),
    spec!(7 "setex" Exactly(4) Write ONE ["denyoom"] ["write", "string", "slow"] "string"
        set::setex, "Sets a string that expires after so many seconds"),
    spec!(8 "psetex" Exactly(4) Write ONE ["denyoom"] ["write", "string", "slow"] "string"
        set::psetex, "Sets a string that expires after so many milliseconds"),
    spec!(9 "mget" AtLeast(2) Read ALL ["fast"] ["read", "string", "fast"] "string"
        read::mget, "Tells several strings as of one instant"),
    spec!(10 "mset" AtLeast(3) Write PAIRS ["denyoom"] ["write", "string", "slow"] "string"
        set::mset, "Sets several strings in one instant"),
    spec!(11 "msetnx" AtLeast(3) Write PAIRS ["denyoom"] ["write", "string", "slow"] "string"
        set::msetnx, "Sets several strings in one instant unless one of the keys exists"),
    spec!(12 "append" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        set::append, "Adds to the end of a string"),
    spec!(13 "strlen" Exactly(2) Read ONE ["fast"] ["read", "string", "fast"] "string"
        read::strlen, "Tells how many bytes a string has"),
    spec!(14 "getrange" Exactly(4) Read ONE [] ["read", "string", "slow"] "string"
        read::getrange, "Tells the bytes of a string from one position to another"),
    spec!(15 "substr" Exactly(4) Read ONE [] ["read", "string", "slow"] "string"
        read::getrange, "Old name of GETRANGE"),
    spec!(16 "setrange" Exactly(4) Write ONE ["denyoom"] ["write", "string", "slow"] "string"
        set::setrange, "Overwrites the bytes of a string from a position on"),
    spec!(17 "incr" Exactly(2) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        number::incr, "Adds one to the integer in a string"),
    spec!(18 "decr" Exactly(2) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        number::decr, "Takes one from the integer in a string"),
    spec!(19 "incrby" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        number::incrby, "Adds to the integer in a string"),
    spec!(20 "decrby" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        number::decrby, "Takes from the integer in a string"),
    spec!(21 "incrbyfloat" Exactly(3) Write ONE ["denyoom", "fast"] ["write", "string", "fast"] "string"
        number::incrbyfloat, "Adds to the floating-point number in a string"),
    spec!(22 "lcs" AtLeast(3) Read TWO [] ["read", "string", "slow"] "string"
        lcs::lcs, "Finds the longest common subsequence of two strings"),
];
