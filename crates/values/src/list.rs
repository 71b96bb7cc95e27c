//! Lists: [`crate::Meta::body`] holds the index of the first element and the number of elements; each element is a
//! row whose key is its index, so that both ends grow and shrink without touching the rest.

mod edit;
mod ends;
mod read;
mod rows;
mod transfer;

pub(crate) use rows::List;

use crate::table::{Spec, spec};

/// Commands 100 to 199.
pub(crate) const SPECS: [Spec; 17] = [
    spec!(100 "lpush" AtLeast(3) Write ONE ["denyoom", "fast"] ["write", "list", "fast"] "list"
        ends::lpush, "Adds elements before the first of a list"),
    spec!(101 "rpush" AtLeast(3) Write ONE ["denyoom", "fast"] ["write", "list", "fast"] "list"
        ends::rpush, "Adds elements after the last of a list"),
    spec!(102 "lpushx" AtLeast(3) Write ONE ["denyoom", "fast"] ["write", "list", "fast"] "list"
        ends::lpushx, "Adds elements before the first of a list that exists"),
    spec!(103 "rpushx" AtLeast(3) Write ONE ["denyoom", "fast"] ["write", "list", "fast"] "list"
        ends::rpushx, "Adds elements after the last of a list that exists"),
    spec!(104 "lpop" AtLeast(2) Write ONE ["fast"] ["write", "list", "fast"] "list"
        ends::lpop, "Takes the first elements from a list"),
    spec!(105 "rpop" AtLeast(2) Write ONE ["fast"] ["write", "list", "fast"] "list"
        ends::rpop, "Takes the last elements from a list"),
    spec!(106 "llen" Exactly(2) Read ONE ["fast"] ["read", "list", "fast"] "list"
        read::llen, "Tells how many elements a list has"),
    spec!(107 "lindex" Exactly(3) Read ONE [] ["read", "list", "slow"] "list"
        read::lindex, "Tells the element at a position of a list"),
    spec!(108 "lset" Exactly(4) Write ONE ["denyoom"] ["write", "list", "slow"] "list"
        edit::lset, "Replaces the element at a position of a list"),
    spec!(109 "lrange" Exactly(4) Read ONE [] ["read", "list", "slow"] "list"
        read::lrange, "Tells the elements of a list from one position to another"),
    spec!(110 "ltrim" Exactly(4) Write ONE [] ["write", "list", "slow"] "list"
        edit::ltrim, "Removes all elements of a list but those from one position to another"),
    spec!(111 "lrem" Exactly(4) Write ONE [] ["write", "list", "slow"] "list"
        edit::lrem, "Removes elements of one value from a list"),
    spec!(112 "linsert" Exactly(5) Write ONE ["denyoom"] ["write", "list", "slow"] "list"
        edit::linsert, "Adds an element beside another one of a list"),
    spec!(113 "lpos" AtLeast(3) Read ONE [] ["read", "list", "slow"] "list"
        read::lpos, "Tells at which positions of a list a value stands"),
    spec!(114 "lmove" Exactly(5) Write TWO ["denyoom"] ["write", "list", "slow"] "list"
        transfer::lmove, "Takes an element from one end of a list and adds it to an end of another"),
    spec!(115 "rpoplpush" Exactly(3) Write TWO ["denyoom"] ["write", "list", "slow"] "list"
        transfer::rpoplpush, "Takes the last element of a list and adds it before the first of another"),
    spec!(116 "lmpop" AtLeast(4) Write NONE ["movablekeys"] ["write", "list", "slow"] "list"
        transfer::lmpop, "Takes elements from the first of several lists that exists"),
];
