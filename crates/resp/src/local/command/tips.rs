//! What clients of a cluster go by: whom a command is sent to, and how the answers become one.
//!
//! These are the tips of Redis 7, word for word: libraries read them instead of knowing commands by name.

/// The tips of a command, by its name in lower case.
pub(super) fn tips(name: &str) -> &'static [&'static str] {
    match name {
        "command|docs" | "command|info" | "command|list" | "command" | "module|list" => {
            &["nondeterministic_output_order"]
        }
        "client|info" | "client|list" | "lastsave" | "pttl" | "time" | "ttl" => &["nondeterministic_output"],
        "cluster|count-failure-reports"
        | "cluster|getkeysinslot"
        | "cluster|info"
        | "cluster|links"
        | "cluster|nodes"
        | "cluster|replicas"
        | "cluster|shards"
        | "cluster|slaves"
        | "cluster|slots" => &["nondeterministic_output"],
        "config|set" => &["request_policy:all_nodes", "response_policy:all_succeeded"],
        "dbsize" => &["request_policy:all_shards", "response_policy:agg_sum"],
        "del" | "exists" | "touch" | "unlink" => &["request_policy:multi_shard", "response_policy:agg_sum"],
        "flushall" | "flushdb" | "ping" => &["request_policy:all_shards", "response_policy:all_succeeded"],
        "info" => &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        "keys" => &["request_policy:all_shards", "nondeterministic_output_order"],
        "mget" => &["request_policy:multi_shard"],
        "mset" => &["request_policy:multi_shard", "response_policy:all_succeeded"],
        "msetnx" => &["request_policy:multi_shard", "response_policy:agg_min"],
        "randomkey" => &["request_policy:all_shards", "nondeterministic_output"],
        "scan" => &["nondeterministic_output", "request_policy:special"],
        "wait" => &["request_policy:all_shards", "response_policy:agg_min"],
        _ => &[],
    }
}
