//! Logs: batches of records, each batch synced.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use protobuf::well_known_types::BytesValue;
use quorate_engine::wal::{Options, Wal};
use quorate_kernel::{ClusterId, NodeId, Position};
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use serde_json::json;

use crate::machine;

pub struct Load {
    pub batches: u64,
    pub records: u64,
    pub bytes: usize,
    pub keep: u64,
    pub sync: bool,
}

trait Log {
    fn commit(&mut self, first: u64, payload: &[u8], count: u64, sync: bool) -> Result<()>;
    fn discard(&mut self, before: u64) -> Result<()>;
}

struct Ours(Wal);

impl Log for Ours {
    fn commit(&mut self, _first: u64, payload: &[u8], count: u64, sync: bool) -> Result<()> {
        for _ in 0..count {
            self.0.append(|mut buffer| {
                buffer.extend_from_slice(payload);
                buffer
            });
        }
        self.0.write()?;
        if sync {
            self.0.sync()?;
        }
        Ok(())
    }

    fn discard(&mut self, before: u64) -> Result<()> {
        self.0.discard(Position(before))?;
        self.0.prepare()?;
        Ok(())
    }
}

#[derive(Clone)]
struct Entry;

impl MessageExt for Entry {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&entry.value[..8]);
        u64::from_le_bytes(word)
    }
}

struct RaftEngine {
    engine: Engine,
    batch: LogBatch,
}

impl Log for RaftEngine {
    fn commit(&mut self, first: u64, payload: &[u8], count: u64, sync: bool) -> Result<()> {
        let entries: Vec<BytesValue> = (first..first + count)
            .map(|index| {
                let mut entry = BytesValue::new();
                entry.value = payload.to_vec();
                entry.value[..8].copy_from_slice(&index.to_le_bytes());
                entry
            })
            .collect();
        self.batch.add_entries::<Entry>(1, &entries)?;
        self.engine.write(&mut self.batch, sync)?;
        Ok(())
    }

    fn discard(&mut self, before: u64) -> Result<()> {
        self.engine.compact_to(1, before);
        self.engine.purge_expired_files()?;
        Ok(())
    }
}

fn open(name: &str, dir: &Path) -> Result<Box<dyn Log>> {
    Ok(match name {
        "quorate" => {
            let (mut wal, _) = Wal::open(dir, Options::new(ClusterId(1), NodeId(1)))?;
            for _ in 0..100 {
                wal.prepare()?;
            }
            Box::new(Ours(wal))
        }
        "raft-engine" => {
            let config = Config {
                dir: dir.to_string_lossy().into_owned(),
                target_file_size: ReadableSize::mb(32),
                purge_threshold: ReadableSize::mb(96),
                batch_compression_threshold: ReadableSize::kb(0),
                enable_log_recycle: true,
                prefill_for_recycle: true,
                ..Config::default()
            };
            Box::new(RaftEngine { engine: Engine::open(config)?, batch: LogBatch::with_capacity(64) })
        }
        other => bail!("no log {other}"),
    })
}

pub fn run(name: &str, dir: &Path, load: Load) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut log = open(name, dir)?;
    let payload = vec![7; load.bytes];
    let mut took: Vec<Duration> = Vec::new();
    let (start, cpu) = (Instant::now(), machine::cpu());
    let mut first = 1;
    for batch in 0..load.batches {
        let begin = Instant::now();
        log.commit(first, &payload, load.records, load.sync)?;
        took.push(begin.elapsed());
        first += load.records;
        if batch % 256 == 255 {
            log.discard(first.saturating_sub(load.keep))?;
        }
    }
    let (wall, cpu) = (start.elapsed(), machine::cpu() - cpu);
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_micros() as u64;
    let records = (load.batches * load.records) as f64;
    let line = json!({
        "log": name, "sync": load.sync, "batches": load.batches, "records": load.records, "bytes": load.bytes,
        "batches_per_second": (load.batches as f64 / wall.as_secs_f64()).round(),
        "commit_us_p50": at(0.5), "commit_us_p99": at(0.99), "commit_us_max": at(1.0),
        "cpu_us_per_record": (cpu.as_secs_f64() * 1e9 / records).round() / 1000.0,
        "cpu_us_per_batch": (cpu.as_secs_f64() * 1e8 / load.batches as f64).round() / 100.0,
        "rss_mb": machine::memory("VmRSS:") >> 20, "disk_mb": machine::disk(dir) >> 20,
    });
    println!("{line}");
    Ok(())
}
