//! What the process uses.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Memory and processor time of the process, all its nodes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory; 0 if the system does not tell.
    pub resident_bytes: u64,
    /// The most it has ever been.
    pub peak_bytes: u64,
    /// Processor time.
    pub cpu_ms: u64,
}

impl Usage {
    /// As of now.
    pub fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ms = u64::try_from(cpu.tv_sec * 1_000 + cpu.tv_nsec / 1_000_000).unwrap_or_default();
        let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name| field_bytes(&text, name).unwrap_or_default();
        Usage { resident_bytes: bytes("VmRSS:"), peak_bytes: bytes("VmHWM:"), cpu_ms }
    }
}

/// Raises the number of descriptors the process may open to what `wanted` connections need, as far as the system
/// lets it; says how many it may open.
pub(crate) fn raise_descriptors(wanted: u64) -> u64 {
    /// For the log, the store, the doors and other peers.
    const OTHERS: u64 = 512;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let target = wanted.saturating_add(OTHERS).min(limit.maximum.unwrap_or(u64::MAX));
    if target <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum: limit.maximum }) {
        Ok(()) => target,
        Err(_) => current,
    }
}

/// Has the process do without huge pages, where the system knows them. What it keeps for a few turns comes and goes all the
/// time, and two mebibytes were cleared for the sake of a few kilobytes (decision 0006).
pub(crate) fn refuse_huge_pages() {
    // Another system, or an older one: it costs time and nothing else.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// A field of the text of `/proc/self/status`, in bytes.
fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_tells() {
        assert_eq!(field_bytes("Name:\tx\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234 << 10));
        assert_eq!(field_bytes("Name:\tx\n", "VmRSS:"), None);
        assert!(Usage::now().resident_bytes > 0);
    }
}
