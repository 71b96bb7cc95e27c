//! Processes that this program started, told from others that got their numbers since.

use std::fs;
use std::io;

use quorate_bench::ProcessStat;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Names one process for ever: numbers are used again, the time of the start is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in ticks since the machine did.
    pub(crate) started_ticks: u64,
    /// Which start of the machine that was.
    pub(crate) boot: String,
}

impl ProcessId {
    /// The process that has this number now.
    pub(crate) fn of(pid: u32) -> Option<ProcessId> {
        let started_ticks = ProcessStat::of(pid)?.started_ticks;
        Some(ProcessId { pid, started_ticks, boot: boot() })
    }

    /// Whether it runs.
    pub(crate) fn is_alive(&self) -> bool {
        ProcessId::of(self.pid).as_ref() == Some(self)
    }

    /// Sends it a signal; says whether it was there.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        // The descriptor stays with its process: no other can take the number between the look and the signal.
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if !self.is_alive() {
            return Ok(false);
        }
        match pidfd_send_signal(&process, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_the_same_number_and_another_start_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_alive());
        let stranger = ProcessId { started_ticks: id.started_ticks + 1, ..id.clone() };
        assert!(!stranger.is_alive());
        assert!(!stranger.signal(Signal::KILL).unwrap());
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(id.signal(Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!id.is_alive());
        assert!(!id.signal(Signal::KILL).unwrap());
    }
}
