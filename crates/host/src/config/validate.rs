//! What a configuration must satisfy as a whole.

use super::{ByteCount, Config, ConfigError, Durability};

/// More processors than the largest machines have.
const CORES_MAX: u16 = 1_024;
/// Beyond that nothing can be said of how often anything fails.
const NINES_MAX: u8 = 12;

impl Config {
    /// Checks that the fields fit together.
    ///
    /// # Errors
    /// [`ConfigError`] with all complaints at once.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let complaints = self.complaints();
        if complaints.is_empty() { Ok(()) } else { Err(ConfigError { complaints }) }
    }

    /// Everything that is wrong, one sentence each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        self.addresses(&mut complaints);
        complaints.extend(crate::founders::complaints(self));
        self.times(&mut complaints);
        self.sizes(&mut complaints);
        self.storage(&mut complaints);
        self.longest_string(&mut complaints);
        self.keys(&mut complaints);
        if self.cluster.data.is_empty() && self.durable.mode != Durability::Memory {
            complaints
                .push("cluster.data is empty: name a directory, or set durable.mode = \"memory\"".into());
        }
        self.cores(&mut complaints);
        if self.cluster.nines > NINES_MAX {
            let nines = self.cluster.nines;
            complaints.push(format!("cluster.nines = {nines}: no group of nodes has more than {NINES_MAX}"));
        }
        if !matches!(self.log.format.as_str(), "text" | "json") {
            complaints.push(format!("log.format = \"{}\": it is \"text\" or \"json\"", self.log.format));
        }
        complaints
    }

    fn addresses(&self, complaints: &mut Vec<String>) {
        let listen = &self.listen;
        let doors = [
            ("client", &listen.client, &self.advertise.client),
            ("cluster", &listen.cluster, &self.advertise.cluster),
            ("peer", &listen.peer, &self.advertise.peer),
            ("admin", &listen.admin, &self.advertise.admin),
        ];
        for (index, (name, address, advertised)) in doors.iter().enumerate() {
            if address.is_empty() {
                continue;
            }
            if let Err(reason) = host_and_port(address, true) {
                complaints.push(format!("listen.{name} = \"{address}\": {reason}"));
            }
            let twin = doors[..index].iter().find(|(_, other, _)| other == address && !other.ends_with(":0"));
            if let Some((other, ..)) = twin {
                complaints.push(format!(
                    "listen.{name} and listen.{other} are both {address}: give each its own port"
                ));
            }
            let anywhere = address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
            if anywhere && *name != "admin" && advertised.is_empty() {
                complaints.push(format!(
                    "listen.{name} = \"{address}\" is every address of this machine: set advertise.{name} to the one \
                     that others can reach"
                ));
            }
        }
        if listen.peer.is_empty() {
            complaints.push("listen.peer is empty: other nodes must be able to reach this one".into());
        }
        for (name, _, address) in doors {
            if !address.is_empty()
                && let Err(reason) = host_and_port(address, false)
            {
                complaints.push(format!("advertise.{name} = \"{address}\": {reason}"));
            }
        }
        for address in &self.cluster.join {
            if let Err(reason) = host_and_port(address, false) {
                complaints.push(format!("cluster.join has \"{address}\": {reason}"));
            }
        }
    }

    /// Nodes of one process have ports side by side.
    fn cores(&self, complaints: &mut Vec<String>) {
        let (cores, listen) = (self.cluster.cores, &self.listen);
        if !(1..=CORES_MAX).contains(&cores) {
            complaints.push(format!("cluster.cores = {cores}: a process runs 1 to {CORES_MAX} nodes"));
            return;
        }
        let doors = [("client", &listen.client, 1), ("cluster", &listen.cluster, cores)].into_iter();
        let doors = doors.chain([("peer", &listen.peer, cores), ("admin", &listen.admin, cores)]);
        let ports = |address: &str, count: u16| {
            let (host, port) = address.rsplit_once(':')?;
            let port = port.parse::<u32>().ok().filter(|port| *port > 0)?;
            Some((host.to_owned(), port..port + u32::from(count)))
        };
        let taken: Vec<_> =
            doors.filter_map(|(name, address, count)| Some((name, ports(address, count)?))).collect();
        for (index, (name, (host, range))) in taken.iter().enumerate().filter(|_| cores > 1) {
            if range.end > u32::from(u16::MAX) + 1 {
                complaints.push(format!(
                    "listen.{name}: {cores} nodes (cluster.cores) need ports up to {}",
                    range.end - 1
                ));
            }
            let meets = |(_, (other, with)): &&(&str, (String, std::ops::Range<u32>))| {
                other == host && with.start < range.end && range.start < with.end && with.start != range.start
            };
            if let Some((other, _)) = taken[..index].iter().find(meets) {
                complaints.push(format!(
                    "listen.{name} and listen.{other} are less than cluster.cores = {cores} ports apart: each node needs one of each"
                ));
            }
        }
    }

    fn times(&self, complaints: &mut Vec<String>) {
        let timing = &self.timing;
        let positive = [
            ("durable.interval_ms", self.durable.interval_ms),
            ("timing.heartbeat_ms", timing.heartbeat_ms),
            ("timing.request_ms", timing.request_ms),
            ("timing.stop_ms", timing.stop_ms),
            ("peers.reconnect_ms_min", self.peers.reconnect_ms_min),
            ("peers.handshake_ms", self.peers.handshake_ms),
            ("peers.silent_ms", self.peers.silent_ms),
            ("admin.request_ms", self.admin.request_ms),
        ];
        complaints.extend(
            positive
                .iter()
                .filter(|(_, ms)| *ms == 0)
                .map(|(name, _)| format!("{name} = 0: it must be at least 1")),
        );
        if timing.election_ms < timing.heartbeat_ms.saturating_mul(3) {
            complaints.push(format!(
                "timing.election_ms = {} is less than three heartbeats ({} ms each): one late heartbeat would unseat \
                 a leader",
                timing.election_ms, timing.heartbeat_ms
            ));
        }
        if timing.lease_ms > timing.election_ms {
            complaints.push(format!(
                "timing.lease_ms = {} exceeds timing.election_ms = {}: a lease must have ended when the next leader may \
                 stand",
                timing.lease_ms, timing.election_ms
            ));
        }
        if self.peers.reconnect_ms_max < self.peers.reconnect_ms_min {
            complaints.push("peers.reconnect_ms_max is below peers.reconnect_ms_min".into());
        }
    }

    fn keys(&self, complaints: &mut Vec<String>) {
        let key_bytes_max = self.limits.key_bytes_max;
        if key_bytes_max > ByteCount::kib(63) {
            complaints.push(format!(
                "limits.key_bytes_max = \"{key_bytes_max}\": the store takes keys up to 63 KiB"
            ));
        }
    }

    fn sizes(&self, complaints: &mut Vec<String>) {
        let limits = &self.limits;
        let positive = [
            ("limits.connections_max", limits.connections_max),
            ("limits.request_words_max", limits.request_words_max),
            ("limits.transaction_keys_max", limits.transaction_keys_max),
            ("limits.pipeline_max", limits.pipeline_max),
            ("limits.requests_max", limits.requests_max),
            ("limits.key_bytes_max", limits.key_bytes_max.get()),
            ("peers.connections_max", self.peers.connections_max),
        ];
        complaints.extend(
            positive
                .iter()
                .filter(|(_, n)| *n == 0)
                .map(|(name, _)| format!("{name} = 0: it must be at least 1")),
        );
        let mib = ByteCount::mib(1).0;
        let pairs = [
            (
                "limits.request_bytes_max",
                limits.request_bytes_max,
                "limits.value_bytes_max",
                limits.value_bytes_max,
                0,
            ),
            (
                "limits.output_hard_bytes",
                limits.output_hard_bytes,
                "limits.output_soft_bytes",
                limits.output_soft_bytes,
                0,
            ),
            (
                "limits.requests_bytes_max",
                limits.requests_bytes_max,
                "limits.request_bytes_max",
                limits.request_bytes_max,
                0,
            ),
            (
                "peers.frame_bytes_max",
                self.peers.frame_bytes_max,
                "limits.request_bytes_max",
                limits.request_bytes_max,
                mib,
            ),
            (
                "peers.queue_bytes_max",
                self.peers.queue_bytes_max,
                "peers.frame_bytes_max",
                self.peers.frame_bytes_max,
                0,
            ),
        ];
        for (large_name, large, small_name, small, margin) in pairs {
            if large.0 <= small.0.saturating_add(margin) {
                let more = if margin == 0 { "it" } else { "it by more than 1 MiB" };
                complaints
                    .push(format!("{large_name} = {large} must exceed {small_name} = {small}: raise {more}"));
            }
        }
        if limits.turn_bytes.0 < 1_024 {
            complaints.push(format!("limits.turn_bytes = {}: it must be at least 1 KiB", limits.turn_bytes));
        }
    }

    fn storage(&self, complaints: &mut Vec<String>) {
        let storage = &self.storage;
        let all =
            [("memtable_bytes", storage.memtable_bytes), ("memory_bytes_max", storage.memory_bytes_max)];
        for (name, bytes) in all.into_iter().filter(|(_, bytes)| bytes.0 < ByteCount::mib(1).0) {
            complaints.push(format!("storage.{name} = {bytes}: at least 1 MiB"));
        }
    }

    /// Values are copied between nodes in one message each.
    fn longest_string(&self, complaints: &mut Vec<String>) {
        let mib = ByteCount::mib(1).0;
        let longest = 32 * mib;
        if self.limits.value_bytes_max.0 > longest {
            complaints.push(format!(
                "limits.value_bytes_max = {}: no string is longer than 32 MiB",
                self.limits.value_bytes_max
            ));
        }
        if self.peers.frame_bytes_max.0 <= longest + mib {
            complaints.push(format!(
                "peers.frame_bytes_max = {}: it must exceed 33 MiB, or the longest string cannot be copied",
                self.peers.frame_bytes_max
            ));
        }
    }
}

/// Whether `address` is `host:port`; port 0 makes sense only for listening.
fn host_and_port(address: &str, zero_allowed: bool) -> Result<(), &'static str> {
    let Some((host, port)) = address.rsplit_once(':') else { return Err("write host:port") };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err("the host is missing");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err("write an IPv6 address in brackets: [::1]:6379");
    }
    match port.parse::<u16>() {
        Ok(0) if !zero_allowed => Err("port 0 is nobody's address"),
        Ok(_) => Ok(()),
        Err(_) => Err("the port must be a number from 0 to 65535"),
    }
}
