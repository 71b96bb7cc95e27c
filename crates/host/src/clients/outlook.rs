//! What sessions may ask of the node.

use std::borrow::Cow;
use std::collections::HashMap;

use quorate_kernel::Time;
use quorate_resp::{ClientRow, ClusterMap, Facts, Setting, World};

use super::client::Client;
use crate::process::Usage;
use crate::stats::ClientStats;

/// What changes slowly about the node and its process; refreshed a few times a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) facts: Facts,
    pub(crate) replicas: u64,
    /// Where the data is, for CONFIG GET dir.
    pub(crate) data: String,
    /// Whether there is a log on disk.
    pub(crate) has_disk: bool,
}

/// The parameters that clients may change, apart from the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tunable {
    pub(crate) idle_s: u64,
    pub(crate) connections_max: usize,
}

pub(super) type Table = HashMap<u64, Option<Box<Client>>>;

/// The node as a session sees it.
pub(super) struct Outlook<'a> {
    pub(super) now: Time,
    pub(super) wall_us: u64,
    pub(super) about: &'a About,
    pub(super) tunable: Tunable,
    pub(super) stats: &'a ClientStats,
    /// What the counters stood at when a client reset them.
    pub(super) stats_base: &'a ClientStats,
    pub(super) table: &'a Table,
    pub(super) map: &'a Option<ClusterMap>,
}

impl World for Outlook<'_> {
    fn now_us(&self) -> u64 {
        self.wall_us
    }

    fn password(&self) -> Option<&[u8]> {
        None
    }

    fn replicas(&self) -> u64 {
        self.about.replicas
    }

    fn cluster(&self) -> Option<&ClusterMap> {
        self.map.as_ref()
    }

    fn facts(&self) -> Facts {
        let usage = Usage::now();
        let stats = self.stats.since(self.stats_base);
        Facts {
            uptime_s: self.now.0 / 1_000_000_000,
            clients_connected: stats.connections,
            clients_max: self.tunable.connections_max as u64,
            connections_total: stats.accepted,
            connections_refused_total: stats.turned_away,
            commands_total: stats.commands,
            input_bytes_total: stats.bytes_in,
            output_bytes_total: stats.bytes_out,
            memory_used_bytes: usage.resident_bytes,
            memory_resident_bytes: usage.resident_bytes,
            memory_peak_bytes: usage.peak_bytes,
            cpu_user_us: usage.cpu_ms * 1_000,
            ..self.about.facts.clone()
        }
    }

    fn clients(&self) -> Vec<ClientRow> {
        self.table.values().flatten().map(|client| client.row(self.now)).collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let fixed =
            |name: &'static str, value: String| Setting { name: Cow::Borrowed(name), value, settable: false };
        let open =
            |name: &'static str, value: String| Setting { name: Cow::Borrowed(name), value, settable: true };
        let yes_no = |yes: bool| if yes { "yes".to_owned() } else { "no".to_owned() };
        vec![
            open("timeout", self.tunable.idle_s.to_string()),
            open("maxclients", self.tunable.connections_max.to_string()),
            fixed("port", self.about.facts.port.to_string()),
            fixed("dir", self.about.data.clone()),
            fixed("appendonly", yes_no(self.about.has_disk)),
            fixed("appendfsync", if self.about.facts.durable { "always".into() } else { "everysec".into() }),
        ]
    }

    fn check_setting(&self, name: &str, value: &str) -> Result<(), String> {
        match (name, value.parse::<u32>()) {
            ("timeout", Ok(_)) => Ok(()),
            ("maxclients", Ok(count)) if count > 0 => Ok(()),
            ("timeout" | "maxclients", _) => Err("argument couldn't be parsed into an integer".into()),
            _ => Err("it cannot be changed while running".into()),
        }
    }
}
