//! Which event loop? The bare path of one node, with each candidate: read RESP, append to a log, make it durable once a
//! loop turn, answer. No replication, no protocol: only what differs between loops.
//!
//! `loops compare` starts each server as a process of its own, loads it from this process and appends one JSON line a
//! run to `results.jsonl`; `docs/decisions/0005-event-loop.md` draws the conclusion.

mod compare;
mod load;
mod mio_loop;
mod path;
mod tokio_loop;
mod uring_loop;

use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

/// The candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// Readiness: epoll through mio, one thread, fdatasync inline.
    Epoll,
    /// Completion: io_uring for the sockets, fdatasync inline.
    Uring,
    /// Completion: io_uring for the sockets and for write and fdatasync, the next batch gathering meanwhile.
    UringSync,
    /// tokio's current-thread runtime, a task a connection, fdatasync inline in one task.
    Tokio,
}

#[derive(Parser)]
#[command(about = "Compares event loops on the bare path of a node")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve on a free port of this machine, which is printed first, until killed.
    Serve {
        /// Which loop.
        #[arg(long = "loop")]
        which: Loop,
        /// The log; overwritten.
        #[arg(long)]
        log: PathBuf,
    },
    /// Run the whole comparison.
    Compare(compare::Options),
    /// Print the table of a file of results.
    Table {
        /// JSON lines that `compare` wrote.
        #[arg(default_value = "results.jsonl")]
        results: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Serve { which, log } => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?.port());
            let log = path::Log::create(&log)?;
            match which {
                Loop::Epoll => mio_loop::serve(listener, log),
                Loop::Uring => uring_loop::serve(listener, log, false),
                Loop::UringSync => uring_loop::serve(listener, log, true),
                Loop::Tokio => tokio_loop::serve(listener, log),
            }
        }
        Command::Compare(options) => compare::run(&options),
        Command::Table { results } => compare::table(&results),
    }
}
