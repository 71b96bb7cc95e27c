//! What the system tells about a process: whether it is still the same one, and how much processor time it took.

use std::fs;
use std::time::Duration;

/// One process as `/proc` shows it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// When it started, in clock ticks since the machine did. With its number this names a process until the
    /// machine restarts.
    pub started_ticks: u64,
    /// Processor time it has used, in user mode and in the system.
    pub cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
}

impl ProcessStat {
    /// The running process with this number; `None` if there is none, or it has ended and only waits for its parent
    /// to notice.
    pub fn of(pid: u32) -> Option<ProcessStat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        parse(&text, ticks_per_second, rustix::param::page_size() as u64)
    }
}

fn parse(text: &str, ticks_per_second: u64, page_bytes: u64) -> Option<ProcessStat> {
    // The name, in parentheses, may itself hold spaces and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Counted from the state, which proc(5) numbers 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    // The first thread may have ended before the others, which hold files and locks of the process still.
    let has_ended = match *fields.first()? {
        "X" => true,
        "Z" => number(20)? <= 1,
        _ => false,
    };
    if has_ended {
        return None;
    }
    let ticks = number(14)? + number(15)?;
    Some(ProcessStat {
        started_ticks: number(22)?,
        cpu: Duration::from_millis(ticks * 1_000 / ticks_per_second),
        resident_bytes: number(24)? * page_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 8765 1000000 300 \
                        18446744073709551615 0 0";

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = parse(LINE, 100, 4096).expect("a line of stat");
        assert_eq!(
            stat,
            ProcessStat { started_ticks: 8765, cpu: Duration::from_secs(3), resident_bytes: 300 * 4096 }
        );
    }

    #[test]
    fn a_process_that_has_ended_is_none() {
        assert_eq!(parse(&LINE.replace(") S", ") Z"), 100, 4096), None);
        assert_eq!(parse("nonsense", 100, 4096), None);
        // Three of its threads have not.
        let ending = LINE.replace(") S", ") Z").replace(" 20 0 1 0 ", " 20 0 4 0 ");
        assert!(parse(&ending, 100, 4096).is_some());
    }

    #[test]
    fn finds_this_process() {
        let first = ProcessStat::of(std::process::id()).expect("we run");
        let second = ProcessStat::of(std::process::id()).expect("we run");
        assert_eq!(first.started_ticks, second.started_ticks);
    }
}
