//! INFO: the server's state as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::Reply;

use super::is;
use crate::table::Local;
use crate::{Facts, QUORATE_VERSION, REDIS_VERSION, Session, Step, View, World};

pub(super) static COMMANDS: [Local; 1] = [info_command()];

const fn info_command() -> Local {
    let mut info =
        Local::new("info", -1, "1.0.0", "Returns information and statistics about the server.", info);
    info.flags = &["loading", "stale"];
    info.categories = &["slow", "dangerous"];
    info
}

/// A line: name and value.
type Line = (&'static str, String);

/// What a section says.
type Section = fn(&Facts, &dyn World) -> Vec<Line>;

/// The sections in the order in which they are shown.
const SECTIONS: [(&str, Section); 9] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

const QUORATE: &str = "Quorate";

fn info(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    let mut facts = world.facts();
    facts.cluster_enabled = session.connection.view == View::Cluster;
    let wanted = |name: &str| {
        let asked = &words[1..];
        asked.is_empty()
            || asked.iter().any(|word| {
                is(word, name) || ["default", "all", "everything"].iter().any(|all| is(word, all))
            })
    };
    let mut text = String::new();
    for (name, section) in SECTIONS {
        if wanted(name) {
            let lines = section(&facts, world);
            append(&mut text, name, lines.iter().map(|(name, value)| (*name, value.as_str())));
        }
    }
    if wanted(QUORATE) {
        let version = [("quorate_version", QUORATE_VERSION)];
        let cluster = facts.cluster.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        append(&mut text, QUORATE, version.into_iter().chain(cluster));
    }
    Reply::Verbatim(*b"txt", text.into()).into()
}

fn append<'a>(text: &mut String, name: &str, lines: impl Iterator<Item = (&'a str, &'a str)>) {
    if !text.is_empty() {
        text.push_str("\r\n");
    }
    text.push_str(&format!("# {name}\r\n"));
    for (name, value) in lines {
        text.push_str(&format!("{name}:{value}\r\n"));
    }
}

fn server(facts: &Facts, world: &dyn World) -> Vec<Line> {
    const DAY_S: u64 = 86_400;
    vec![
        ("redis_version", REDIS_VERSION.into()),
        ("redis_git_sha1", "00000000".into()),
        ("redis_git_dirty", "0".into()),
        ("redis_mode", if facts.cluster_enabled { "cluster".into() } else { "standalone".into() }),
        ("os", facts.operating_system.clone()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", facts.process_id.to_string()),
        ("run_id", facts.run_id.clone()),
        ("tcp_port", if facts.cluster_enabled { facts.cluster_port } else { facts.port }.to_string()),
        ("server_time_usec", world.now_us().to_string()),
        ("uptime_in_seconds", facts.uptime_s.to_string()),
        ("uptime_in_days", (facts.uptime_s / DAY_S).to_string()),
        ("executable", facts.executable.clone()),
        ("config_file", facts.config_file.clone()),
    ]
}

fn clients(facts: &Facts, _: &dyn World) -> Vec<Line> {
    vec![
        ("connected_clients", facts.clients_connected.to_string()),
        ("cluster_connections", "0".into()),
        ("maxclients", facts.clients_max.to_string()),
        ("blocked_clients", facts.clients_blocked.to_string()),
        ("tracking_clients", "0".into()),
    ]
}

fn memory(facts: &Facts, _: &dyn World) -> Vec<Line> {
    vec![
        ("used_memory", facts.memory_used_bytes.to_string()),
        ("used_memory_human", human(facts.memory_used_bytes)),
        ("used_memory_rss", facts.memory_resident_bytes.to_string()),
        ("used_memory_rss_human", human(facts.memory_resident_bytes)),
        ("used_memory_peak", facts.memory_peak_bytes.to_string()),
        ("used_memory_peak_human", human(facts.memory_peak_bytes)),
        ("total_system_memory", facts.memory_system_bytes.to_string()),
        ("total_system_memory_human", human(facts.memory_system_bytes)),
        ("maxmemory", facts.memory_max_bytes.to_string()),
        ("maxmemory_human", human(facts.memory_max_bytes)),
        ("maxmemory_policy", "noeviction".into()),
    ]
}

/// A size as people read it: two decimals and a letter.
fn human(bytes: u64) -> String {
    const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];
    match UNITS.into_iter().find(|(_, bits)| bytes >> bits > 0) {
        None => format!("{bytes}B"),
        Some((letter, bits)) => {
            let rest = bytes & ((1 << bits) - 1);
            format!("{}.{:02}{letter}", bytes >> bits, (rest * 100) >> bits)
        }
    }
}

fn persistence(facts: &Facts, world: &dyn World) -> Vec<Line> {
    vec![
        ("loading", u8::from(facts.loading).to_string()),
        ("async_loading", "0".into()),
        ("rdb_changes_since_last_save", "0".into()),
        ("rdb_bgsave_in_progress", "0".into()),
        ("rdb_last_save_time", (world.now_us() / 1_000_000).to_string()),
        ("rdb_last_bgsave_status", "ok".into()),
        ("aof_enabled", u8::from(facts.durable).to_string()),
        ("aof_rewrite_in_progress", "0".into()),
        ("aof_last_bgrewrite_status", "ok".into()),
        ("aof_last_write_status", "ok".into()),
    ]
}

fn stats(facts: &Facts, _: &dyn World) -> Vec<Line> {
    vec![
        ("total_connections_received", facts.connections_total.to_string()),
        ("total_commands_processed", facts.commands_total.to_string()),
        ("instantaneous_ops_per_sec", facts.commands_per_second.to_string()),
        ("total_net_input_bytes", facts.input_bytes_total.to_string()),
        ("total_net_output_bytes", facts.output_bytes_total.to_string()),
        ("rejected_connections", facts.connections_refused_total.to_string()),
        ("expired_keys", facts.expired_total.to_string()),
        ("evicted_keys", "0".into()),
        ("keyspace_hits", facts.hits_total.to_string()),
        ("keyspace_misses", facts.misses_total.to_string()),
        ("pubsub_channels", "0".into()),
        ("pubsub_patterns", "0".into()),
        ("latest_fork_usec", "0".into()),
    ]
}

fn replication(facts: &Facts, _: &dyn World) -> Vec<Line> {
    vec![
        ("role", "master".into()),
        ("connected_slaves", "0".into()),
        ("master_failover_state", "no-failover".into()),
        ("master_replid", facts.run_id.clone()),
        ("master_repl_offset", "0".into()),
        ("second_repl_offset", "-1".into()),
        ("repl_backlog_active", "0".into()),
    ]
}

fn cpu(facts: &Facts, _: &dyn World) -> Vec<Line> {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    vec![("used_cpu_sys", seconds(facts.cpu_system_us)), ("used_cpu_user", seconds(facts.cpu_user_us))]
}

fn cluster(facts: &Facts, _: &dyn World) -> Vec<Line> {
    vec![("cluster_enabled", u8::from(facts.cluster_enabled).to_string())]
}

/// As in Redis, a database without keys has no line.
fn keyspace(facts: &Facts, _: &dyn World) -> Vec<Line> {
    if facts.keys == 0 {
        return Vec::new();
    }
    let Facts { keys, keys_expiring, time_to_live_mean_ms, .. } = facts;
    vec![("db0", format!("keys={keys},expires={keys_expiring},avg_ttl={time_to_live_mean_ms}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0B"), (1_023, "1023B"), (1_024, "1.00K"), (1_015_800, "991.99K"), (1 << 40, "1.00T")]
        {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human(3 << 50), "3072.00T");
    }
}
