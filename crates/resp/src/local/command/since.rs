//! Since when Redis has had a data command, for COMMAND DOCS.

/// The first version of Redis with this data command.
pub(super) fn since(name: &str) -> &'static str {
    match name {
        "mset" | "msetnx" => "1.0.1",
        "zrangebyscore" => "1.0.5",
        "expireat" | "rpoplpush" | "zadd" | "zcard" | "zincrby" | "zrange" | "zrem" | "zremrangebyscore"
        | "zrevrange" | "zscore" => "1.2.0",
        "append" | "blpop" | "brpop" | "hdel" | "hexists" | "hget" | "hgetall" | "hincrby" | "hkeys"
        | "hlen" | "hmget" | "hmset" | "hset" | "hsetnx" | "hvals" | "setex" | "zcount" | "zinterstore"
        | "zrank" | "zremrangebyrank" | "zrevrank" | "zunionstore" => "2.0.0",
        "brpoplpush" | "getbit" | "linsert" | "lpushx" | "persist" | "rpushx" | "setbit" | "setrange"
        | "strlen" | "zrevrangebyscore" => "2.2.0",
        "object" => "2.2.3",
        "getrange" => "2.4.0",
        "bitcount" | "bitop" | "dump" | "hincrbyfloat" | "incrbyfloat" | "migrate" | "pexpire"
        | "pexpireat" | "psetex" | "pttl" | "restore" => "2.6.0",
        "hscan" | "scan" | "sscan" | "zscan" => "2.8.0",
        "bitpos" => "2.8.7",
        "pfadd" | "pfcount" | "pfdebug" | "pfmerge" | "pfselftest" | "zlexcount" | "zrangebylex"
        | "zremrangebylex" | "zrevrangebylex" => "2.8.9",
        "bitfield" | "geoadd" | "geodist" | "geohash" | "geopos" | "georadius" | "georadiusbymember"
        | "hstrlen" => "3.2.0",
        "touch" => "3.2.1",
        "georadius_ro" | "georadiusbymember_ro" => "3.2.10",
        "memory" | "swapdb" | "unlink" => "4.0.0",
        "bzpopmax" | "bzpopmin" | "xack" | "xadd" | "xclaim" | "xdel" | "xgroup" | "xinfo" | "xlen"
        | "xpending" | "xrange" | "xread" | "xreadgroup" | "xrevrange" | "xsetid" | "xtrim" | "zpopmax"
        | "zpopmin" => "5.0.0",
        "bitfield_ro" => "6.0.0",
        "lpos" => "6.0.6",
        "blmove" | "copy" | "geosearch" | "geosearchstore" | "getdel" | "getex" | "hrandfield" | "lmove"
        | "smismember" | "xautoclaim" | "zdiff" | "zdiffstore" | "zinter" | "zmscore" | "zrandmember"
        | "zrangestore" | "zunion" => "6.2.0",
        "blmpop" | "bzmpop" | "expiretime" | "lcs" | "lmpop" | "pexpiretime" | "sintercard" | "sort_ro"
        | "zintercard" | "zmpop" => "7.0.0",
        _ => "1.0.0",
    }
}
