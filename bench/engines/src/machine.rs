//! Facts about the machine and the process.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

/// Processor time of all living threads of the process so far, by the scheduler's count.
pub fn cpu() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let nanos = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// A line of `/proc/self/status`, in bytes.
pub fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Bytes that the files under `dir` occupy.
pub fn disk(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Prints cores, kernel and the time of a write of 4 KiB with fdatasync into blocks that exist.
pub fn print(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("probe");
    let file = std::fs::File::create(&path)?;
    let block = [7; 4096];
    for at in 0..1000 {
        file.write_all_at(&block, at * 4096)?;
    }
    file.sync_all()?;
    let mut took: Vec<Duration> = Vec::new();
    for at in 0..1000 {
        let start = Instant::now();
        file.write_all_at(&block, at * 4096)?;
        file.sync_data()?;
        took.push(start.elapsed());
    }
    std::fs::remove_file(&path)?;
    took.sort();
    let line = json!({
        "machine": {
            "cores": std::thread::available_parallelism()?.get(),
            "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim(),
            "cpu": std::fs::read_to_string("/proc/cpuinfo")?
                .lines()
                .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned)),
            "load_1min": std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default(),
            "fdatasync_us_p50": took[500].as_secs_f64() * 1e6,
            "fdatasync_us_p99": took[990].as_secs_f64() * 1e6,
        }
    });
    println!("{line}");
    Ok(())
}
