//! The machine a result was measured on.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// How often the disk is asked.
const SYNCS: usize = 50;
/// Bytes written before each sync.
const SYNC_BYTES: usize = 4 << 10;

/// Facts without which a number means nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Machine {
    /// Which sources were measured, as version control names them.
    pub commit: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// Processors this program may use.
    pub cores: usize,
    /// What they are.
    pub processor: String,
    /// The operating system's kernel.
    pub kernel: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Whether the program was built with optimisation.
    pub optimised: bool,
    /// Median time of a 4 KiB append with fdatasync in the directory the servers use, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_p50_us: Option<u64>,
    /// The time that 9 of 10 of them stay below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_p90_us: Option<u64>,
}

impl Machine {
    /// Looks at this machine, and at the disk below `dir` if one is named.
    ///
    /// # Errors
    /// If the disk cannot be measured.
    pub fn look(commit: &str, dir: Option<&Path>) -> io::Result<Machine> {
        let mut machine = Machine { commit: commit.to_owned(), ..Machine::quick() };
        if let Some(dir) = dir {
            let (p50, p90) = measure_sync(dir)?;
            machine.sync_p50_us = Some(p50);
            machine.sync_p90_us = Some(p90);
        }
        Ok(machine)
    }

    fn quick() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map_or(String::new(), |(_, rest)| rest.trim().to_owned())
        };
        let kib = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = kib.split(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or_default();
        Machine {
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: kib << 10,
            optimised: !cfg!(debug_assertions),
            ..Machine::default()
        }
    }
}

/// Median and ninth decile of appends with fdatasync, in microseconds.
fn measure_sync(dir: &Path) -> io::Result<(u64, u64)> {
    let path = dir.join(format!("sync-{}.tmp", std::process::id()));
    let measured = File::create_new(&path).and_then(|mut file| {
        // Space is laid out beforehand, as a log does it: otherwise the file system's metadata is measured.
        file.write_all(&vec![0; SYNCS * SYNC_BYTES])?;
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
        let mut took = Vec::new();
        for _ in 0..SYNCS {
            let begun = Instant::now();
            file.write_all(&[1; SYNC_BYTES])?;
            file.sync_data()?;
            took.push(begun.elapsed().as_micros() as u64);
        }
        took.sort_unstable();
        Ok((took[SYNCS / 2], took[SYNCS * 9 / 10]))
    });
    fs::remove_file(&path)?;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_this_machine() {
        let machine = Machine::look("abc", Some(&std::env::temp_dir())).unwrap();
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
        assert!(machine.sync_p50_us <= machine.sync_p90_us && machine.sync_p50_us.is_some());
        assert_eq!(machine.commit, "abc");
    }
}
