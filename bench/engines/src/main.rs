//! Which store, and which log.
//!
//! `engines store --engine NAME` loads a million keys, overwrites and reads at random, and opens again what is on
//! disk; `engines log --engine NAME` appends batches of records and syncs each. Every run is a process of its own, so
//! that memory can be told apart; `run.sh` does them all and writes `results.jsonl`.

mod log;
mod machine;
mod store;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Store engines: quorate, fjall, redb, rocksdb.
    Store {
        #[arg(long)]
        engine: String,
        /// An empty directory on the disk to be measured.
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        #[arg(long, default_value_t = 500_000)]
        overwrites: u64,
        #[arg(long, default_value_t = 500_000)]
        gets: u64,
    },
    /// Logs: quorate, raft-engine.
    Log {
        #[arg(long)]
        engine: String,
        /// An empty directory on the disk to be measured.
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 10_000)]
        batches: u64,
        /// Records in a batch.
        #[arg(long, default_value_t = 32)]
        records: u64,
        /// Bytes of a record.
        #[arg(long, default_value_t = 150)]
        bytes: usize,
        /// Keep this many records; older ones are discarded.
        #[arg(long, default_value_t = 100_000)]
        keep: u64,
        /// Only hand the records to the system: shows what the library itself costs.
        #[arg(long)]
        no_sync: bool,
    },
    /// What the measurements were taken on.
    Machine {
        #[arg(long)]
        dir: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().what {
        What::Store { engine, dir, keys, overwrites, gets } => {
            store::run(&engine, &dir, keys, overwrites, gets)
        }
        What::Log { engine, dir, batches, records, bytes, keep, no_sync } => {
            log::run(&engine, &dir, log::Load { batches, records, bytes, keep, sync: !no_sync })
        }
        What::Machine { dir } => machine::print(&dir),
    }
}
