//! Stores under the load of a replica: batches without sync (the replicated log is the journal), point reads.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quorate_engine::lsm::{LsmStore, Options};
use quorate_kernel::Rng;
use quorate_store::{Batch, Store};
use serde_json::json;

use crate::machine;

const BATCH: u64 = 32;
const VALUE_BYTES: usize = 100;
const MEMTABLE_BYTES: u64 = 32 << 20;
const CACHE_BYTES: u64 = 64 << 20;

type Key = [u8; 16];
type Rows = Vec<(Key, Vec<u8>)>;

trait Engine {
    fn apply(&mut self, rows: Rows) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<usize>>;
    /// Everything is on disk afterwards.
    fn finish(&mut self) -> Result<()>;
}

fn open(name: &str, dir: &Path) -> Result<Box<dyn Engine>> {
    Ok(match name {
        "quorate" => {
            let options =
                Options { memtable_bytes: MEMTABLE_BYTES, cache_bytes: CACHE_BYTES, ..Options::default() };
            Box::new(LsmStore::open(dir, options)?)
        }
        "fjall" => Box::new(Fjall::open(dir)?),
        "redb" => Box::new(Redb::open(dir)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocks::Rocks::open(dir)?),
        other => bail!("no engine {other}"),
    })
}

impl Engine for LsmStore {
    fn apply(&mut self, rows: Rows) -> Result<()> {
        let mut batch = Batch::default();
        for (key, value) in rows {
            batch.put(key.to_vec(), value);
        }
        Store::apply(self, batch);
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(Store::get(self, key).map(|value| value.len()))
    }

    fn finish(&mut self) -> Result<()> {
        self.checkpoint();
        while self.durable() < self.sequence() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

struct Fjall {
    db: fjall::Database,
    rows: fjall::Keyspace,
}

impl Fjall {
    fn open(dir: &Path) -> Result<Fjall> {
        let db = fjall::Database::builder(dir)
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .worker_threads(2)
            .open()?;
        let rows = db.keyspace("rows", || {
            fjall::KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .manual_journal_persist(true)
        })?;
        Ok(Fjall { db, rows })
    }
}

impl Engine for Fjall {
    fn apply(&mut self, rows: Rows) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in rows {
            batch.insert(&self.rows, key, value);
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.rows.get(key)?.map(|value| value.to_vec().len()))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.db.persist(fjall::PersistMode::SyncAll)?)
    }
}

struct Redb {
    db: redb::Database,
    commits: u64,
}

const ROWS: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("rows");

impl Redb {
    /// How many commits share a sync: about as often as the others write a memtable out.
    const COMMITS_A_SYNC: u64 = 8000;

    fn open(dir: &Path) -> Result<Redb> {
        std::fs::create_dir_all(dir)?;
        let db = redb::Database::builder()
            .set_cache_size(usize::try_from(CACHE_BYTES + MEMTABLE_BYTES)?)
            .create(dir.join("rows.redb"))?;
        Ok(Redb { db, commits: 0 })
    }
}

impl Engine for Redb {
    fn apply(&mut self, rows: Rows) -> Result<()> {
        let mut write = self.db.begin_write()?;
        self.commits += 1;
        if !self.commits.is_multiple_of(Redb::COMMITS_A_SYNC) {
            write.set_durability(redb::Durability::None)?;
        }
        {
            let mut table = write.open_table(ROWS)?;
            for (key, value) in rows {
                table.insert(&key[..], &value[..])?;
            }
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        use redb::ReadableDatabase;
        let read = self.db.begin_read()?;
        let table = read.open_table(ROWS)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec().len()))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.db.begin_write()?.commit()?)
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;

    pub(super) struct Rocks {
        db: rocksdb::DB,
        unlogged: rocksdb::WriteOptions,
    }

    impl Rocks {
        pub(super) fn open(dir: &Path) -> Result<Rocks> {
            let mut blocks = rocksdb::BlockBasedOptions::default();
            blocks.set_bloom_filter(10.0, false);
            blocks.set_block_cache(&rocksdb::Cache::new_lru_cache(usize::try_from(CACHE_BYTES)?)?);
            let mut options = rocksdb::Options::default();
            options.create_if_missing(true);
            options.set_write_buffer_size(usize::try_from(MEMTABLE_BYTES)?);
            options.set_max_write_buffer_number(3);
            options.set_max_background_jobs(2);
            options.set_block_based_table_factory(&blocks);
            // A packaged library has Snappy built in and would use it.
            options.set_compression_type(rocksdb::DBCompressionType::None);
            let db = rocksdb::DB::open(&options, dir)?;
            let mut unlogged = rocksdb::WriteOptions::default();
            unlogged.disable_wal(true);
            Ok(Rocks { db, unlogged })
        }
    }

    impl Engine for Rocks {
        fn apply(&mut self, rows: Rows) -> Result<()> {
            let mut batch = rocksdb::WriteBatch::default();
            for (key, value) in rows {
                batch.put(key, value);
            }
            Ok(self.db.write_opt(batch, &self.unlogged)?)
        }

        fn get(&self, key: &[u8]) -> Result<Option<usize>> {
            Ok(self.db.get(key)?.map(|value| value.len()))
        }

        fn finish(&mut self) -> Result<()> {
            Ok(self.db.flush()?)
        }
    }
}

/// Keys in an order that looks random: a bijection of the numbers below 2^64.
fn key(number: u64) -> Key {
    let mut word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&word.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

struct Phase {
    wall: Duration,
    cpu: Duration,
    worst: Duration,
}

/// Times `count` operations done in steps of `step`.
fn measure(count: u64, step: u64, mut operation: impl FnMut(u64) -> Result<()>) -> Result<Phase> {
    let (start, cpu) = (Instant::now(), machine::cpu());
    let mut worst = Duration::ZERO;
    for at in (0..count).step_by(usize::try_from(step)?) {
        let begin = Instant::now();
        operation(at)?;
        worst = worst.max(begin.elapsed());
    }
    Ok(Phase { wall: start.elapsed(), cpu: machine::cpu() - cpu, worst })
}

impl Phase {
    fn json(&self, count: u64) -> serde_json::Value {
        let each = |span: Duration| (span.as_secs_f64() * 1e9 / count as f64).round() / 1000.0;
        json!({
            "per_second": (count as f64 / self.wall.as_secs_f64()).round(),
            "us": each(self.wall),
            "cpu_us": each(self.cpu),
            "worst_us": self.worst.as_micros() as u64,
        })
    }
}

pub fn run(name: &str, dir: &Path, keys: u64, overwrites: u64, gets: u64) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut engine = open(name, dir).with_context(|| format!("cannot open {name}"))?;
    let mut rng = Rng::new(1);
    let value = |rng: &mut Rng| {
        let mut value = vec![0; VALUE_BYTES];
        value
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]));
        value
    };
    let load = measure(keys, BATCH, |at| {
        engine.apply((at..keys.min(at + BATCH)).map(|number| (key(number), value(&mut rng))).collect())
    })?;
    let overwrite = measure(overwrites, BATCH, |_| {
        engine.apply((0..BATCH).map(|_| (key(rng.below(keys)), value(&mut rng))).collect())
    })?;
    let mut sum = 0;
    let mut reads: Vec<Duration> = Vec::new();
    measure(overwrites, BATCH, |_| {
        engine.apply((0..BATCH).map(|_| (key(rng.below(keys)), value(&mut rng))).collect())?;
        let begin = Instant::now();
        sum += engine.get(&key(rng.below(keys)))?.context("a key is missing")?;
        reads.push(begin.elapsed());
        Ok(())
    })?;
    reads.sort();
    let finish = measure(1, 1, |_| engine.finish())?;
    let hit = measure(gets, 1, |_| {
        sum += engine.get(&key(rng.below(keys)))?.context("a key is missing")?;
        Ok(())
    })?;
    let hot = measure(gets, 1, |_| {
        sum += engine.get(&key(rng.below(10_000)))?.context("a key is missing")?;
        Ok(())
    })?;
    let miss = measure(gets, 1, |_| {
        anyhow::ensure!(engine.get(&key(keys + rng.below(keys)))?.is_none(), "a key that was never set");
        Ok(())
    })?;
    let (rss, peak) = (machine::memory("VmRSS:"), machine::memory("VmHWM:"));
    drop(engine);
    let disk = machine::disk(dir);
    let reopen = measure(1, 1, |_| {
        let engine = open(name, dir)?;
        engine.get(&key(0))?.context("a key is missing after opening again")?;
        Ok(())
    })?;
    let line = json!({
        "store": name, "keys": keys, "checksum": sum,
        "load": load.json(keys), "overwrite": overwrite.json(overwrites), "finish_ms": finish.wall.as_millis() as u64,
        "get": hit.json(gets), "get_hot": hot.json(gets), "get_missing": miss.json(gets),
        "get_while_writing_us_p999": reads[reads.len() * 999 / 1000].as_micros() as u64,
        "get_while_writing_us_max": reads[reads.len() - 1].as_micros() as u64,
        "rss_mb": rss >> 20, "rss_peak_mb": peak >> 20, "disk_mb": disk >> 20,
        "reopen_ms": reopen.wall.as_secs_f64() * 1e3,
    });
    println!("{line}");
    Ok(())
}
