//! What a session may ask its host.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{ClusterMap, SessionFacts};

/// What a session may know of the node it runs on. All questions, no effects: those are [`crate::Act`]s.
///
/// Costly questions ([`World::facts`], [`World::clients`], [`World::settings`]) are asked only by the commands that
/// show their answers.
pub trait World {
    /// Wall-clock time in microseconds since 1970.
    fn now_us(&self) -> u64;

    /// The password clients have to give; `None`: none is needed.
    fn password(&self) -> Option<&[u8]>;

    /// How many other members hold every acknowledged write, at least: the answer to WAIT.
    fn replicas(&self) -> u64;

    /// Who leads which slots, for the cluster view; `None`: not known yet, or nobody asks for it.
    fn cluster(&self) -> Option<&ClusterMap> {
        None
    }

    /// What INFO tells.
    fn facts(&self) -> Facts;

    /// All *other* connections of this node; the session adds its own.
    fn clients(&self) -> Vec<ClientRow>;

    /// The parameters of this node. They come before the session's own list of constants, so that a host may
    /// overrule any of them.
    fn settings(&self) -> Vec<Setting>;

    /// Whether a settable parameter may take this value; if not, why ("argument must be a memory value").
    fn check_setting(&self, name: &str, value: &str) -> Result<(), String>;
}

/// A parameter as CONFIG GET shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, in lower case.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: String,
    /// Whether CONFIG SET may change it.
    pub settable: bool,
}

/// A connection as CLIENT LIST shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    /// Its number.
    pub id: u64,
    /// The client's address, as `host:port`.
    pub address: String,
    /// The address it reached.
    pub local_address: String,
    /// How long it has stood, in seconds.
    pub age_s: u64,
    /// How long it has been silent, in seconds.
    pub idle_s: u64,
    /// Bytes read and not yet understood.
    pub input_bytes: u64,
    /// Bytes to be sent.
    pub output_bytes: u64,
    /// What its session says.
    pub session: SessionFacts,
}

/// What INFO tells. Fields the host cannot know stay at their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Name of the operating system, as in `uname -srm`.
    pub operating_system: String,
    /// Number of this process.
    pub process_id: u32,
    /// 40 hexadecimal digits, new at every start.
    pub run_id: String,
    /// Port of the standalone door.
    pub port: u16,
    /// Port of the cluster view's door.
    pub cluster_port: u16,
    /// Whether the one who asks sees a cluster; the session says it.
    pub cluster_enabled: bool,
    /// Since the start.
    pub uptime_s: u64,
    /// Path of the program.
    pub executable: String,
    /// Path of its configuration; empty: none.
    pub config_file: String,
    /// Connections that stand.
    pub clients_connected: u64,
    /// Connections it would take at most.
    pub clients_max: u64,
    /// Connections that wait inside a command.
    pub clients_blocked: u64,
    /// Memory in use.
    pub memory_used_bytes: u64,
    /// The most it has ever been.
    pub memory_peak_bytes: u64,
    /// Resident set of the process.
    pub memory_resident_bytes: u64,
    /// Limit on memory; 0: none.
    pub memory_max_bytes: u64,
    /// Memory of the machine.
    pub memory_system_bytes: u64,
    /// Whether the node does not serve yet.
    pub loading: bool,
    /// Whether acknowledged writes are on disk, not only in memory.
    pub durable: bool,
    /// Connections taken since the start.
    pub connections_total: u64,
    /// Connections refused for want of room.
    pub connections_refused_total: u64,
    /// Commands since the start.
    pub commands_total: u64,
    /// Commands in the last second.
    pub commands_per_second: u64,
    /// Bytes read.
    pub input_bytes_total: u64,
    /// Bytes sent.
    pub output_bytes_total: u64,
    /// Keys that expired.
    pub expired_total: u64,
    /// Reads that found their key.
    pub hits_total: u64,
    /// Reads that did not.
    pub misses_total: u64,
    /// Processor time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// Processor time of the program, in microseconds.
    pub cpu_user_us: u64,
    /// Keys there are.
    pub keys: u64,
    /// Keys that will expire.
    pub keys_expiring: u64,
    /// Mean time until they do, in milliseconds.
    pub time_to_live_mean_ms: u64,
    /// Lines of the section `quorate`: names and values of whatever the host has to tell about the cluster.
    pub cluster: Vec<(String, String)>,
}
