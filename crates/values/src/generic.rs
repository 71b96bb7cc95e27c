//! Commands for keys of any type.

mod keys;
mod object;
mod scan;
mod slot;

use crate::table::{Spec, spec};

pub(crate) use scan::cursor;

/// Commands 220 to 299.
pub(crate) const SPECS: [Spec; 21] = [
    spec!(220 "del" AtLeast(2) Write ALL [] ["keyspace", "write", "slow"] "generic"
        keys::del, "Removes keys"),
    spec!(221 "unlink" AtLeast(2) Write ALL ["fast"] ["keyspace", "write", "fast"] "generic"
        keys::del, "Removes keys; the same as DEL here, where every removal takes constant time"),
    spec!(222 "exists" AtLeast(2) Read ALL ["fast"] ["keyspace", "read", "fast"] "generic"
        keys::exists, "Counts those of the keys that exist"),
    spec!(223 "type" Exactly(2) Read ONE ["fast"] ["keyspace", "read", "fast"] "generic"
        keys::kind, "Tells the type of a key's value"),
    spec!(224 "touch" AtLeast(2) Read ALL ["fast"] ["keyspace", "read", "fast"] "generic"
        keys::exists, "Counts those of the keys that exist"),
    spec!(225 "rename" Exactly(3) Write TWO [] ["keyspace", "write", "slow"] "generic"
        keys::rename, "Gives a key another name"),
    spec!(226 "renamenx" Exactly(3) Write TWO ["fast"] ["keyspace", "write", "fast"] "generic"
        keys::renamenx, "Gives a key another name unless that is taken"),
    spec!(227 "copy" AtLeast(3) Write TWO ["denyoom"] ["keyspace", "write", "slow"] "generic"
        keys::copy, "Copies a key's value to another key"),
    spec!(228 "scan" AtLeast(2) Read NONE [] ["keyspace", "read", "slow"] "generic"
        scan::scan, "Goes through the keys step by step"),
    spec!(229 "keys" Exactly(2) Read NONE [] ["keyspace", "read", "slow", "dangerous"] "generic"
        scan::keys, "Tells all keys that match a pattern"),
    spec!(230 "randomkey" Exactly(1) Read NONE [] ["keyspace", "read", "slow"] "generic"
        scan::randomkey, "Tells any key"),
    spec!(231 "dbsize" Exactly(1) Read NONE ["fast"] ["keyspace", "read", "fast"] "server"
        scan::dbsize, "Tells how many keys there are"),
    spec!(232 "flushdb" AtLeast(1) Write NONE [] ["keyspace", "write", "slow", "dangerous"] "server"
        scan::flush, "Removes all keys"),
    spec!(233 "flushall" AtLeast(1) Write NONE [] ["keyspace", "write", "slow", "dangerous"] "server"
        scan::flush, "Removes all keys; there is one database"),
    spec!(234 "object" AtLeast(2) Read NONE [] ["slow"] "generic"
        object::object, "Tells how a key's value is kept"),
    spec!(235 "memory" AtLeast(2) Read NONE [] ["slow"] "server"
        object::memory, "Tells how much memory a key takes"),
    spec!(290 "slot|count" Exactly(2) Read ONE [] ["keyspace", "read", "slow"] "cluster"
        slot::count, "Counts the keys in the slot of a key"),
    spec!(291 "slot|keys" Exactly(3) Read ONE [] ["keyspace", "read", "slow"] "cluster"
        slot::keys, "Tells keys in the slot of a key"),
    spec!(292 "bucket|size" Exactly(2) Read ONE [] ["keyspace", "read", "slow"] "cluster"
        slot::bucket_size, "Tells how many keys the bucket of a key has"),
    spec!(293 "bucket|keys" Exactly(3) Read ONE [] ["keyspace", "read", "slow"] "cluster"
        slot::bucket_keys, "Tells all keys of the bucket of a key that match a pattern"),
    spec!(294 "bucket|scan" AtLeast(3) Read ONE [] ["keyspace", "read", "slow"] "cluster"
        slot::bucket_scan, "Goes through the keys of the bucket of a key step by step"),
];
