//! Writes the rows of a benchmark before it runs: many in one transaction, each batch again until it is acknowledged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_workload::transaction::{Ask, Seen, Transaction, Write};
use serde::Serialize;
use serde_json::json;

use crate::clock;
use crate::load::{LoadError, LoadOptions, Pace, check, describe, play, resolve};
use crate::progress::Progress;
use crate::transact::{Manner, Source, Transact};

/// Rows and bytes of a batch, about.
const BATCH_ROWS: usize = 100;
const BATCH_BYTES: usize = 128 << 10;
/// Loading is given up when so many stretches have passed without a batch that was acknowledged.
const IDLE_STRETCHES_MAX: u32 = 3;
const STRETCH: Duration = Duration::from_secs(10);

/// What loading took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Rows that were written.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Rows in a second.
    pub rows_per_second: f64,
}

impl LoadReport {
    /// A line for people.
    pub fn render(&self) -> String {
        let mib = self.bytes >> 20;
        format!(
            "loaded {} rows, {mib} MiB, in {:.1} s: {:.0} rows per second\n",
            self.rows, self.seconds, self.rows_per_second
        )
    }
}

/// Rows that are written together.
#[derive(Debug, Clone)]
struct Batch(Vec<Write>);

impl Transaction for Batch {
    fn kind(&self) -> usize {
        0
    }

    fn operations(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_write(&self) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn next(&mut self) -> Ask {
        Ask::Commit { reads: Vec::new(), writes: self.0.clone() }
    }

    fn answered(&mut self, _seen: Vec<Seen>) {}
}

/// What is still to be written, by all threads.
struct Queue<I> {
    rows: I,
    /// Batches that failed, or whose end nobody knows: to write the same again changes nothing.
    again: Vec<Batch>,
    under_way: usize,
    is_drained: bool,
    written: u64,
    bytes: u64,
}

impl<I: Iterator<Item = Write>> Queue<I> {
    fn next(&mut self) -> Option<Batch> {
        let batch = self.again.pop().unwrap_or_else(|| {
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
                let Some(row) = self.rows.next() else {
                    self.is_drained = true;
                    break;
                };
                bytes += row.bytes();
                rows.push(row);
            }
            Batch(rows)
        });
        if batch.0.is_empty() {
            return None;
        }
        self.under_way += 1;
        Some(batch)
    }

    fn is_done(&self) -> bool {
        self.is_drained && self.again.is_empty() && self.under_way == 0
    }
}

struct Loading<I>(Arc<Mutex<Queue<I>>>);

impl<I: Iterator<Item = Write>> Source for Loading<I> {
    type Transaction = Batch;

    fn next(&mut self, _client: usize) -> Option<Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    fn ended(&mut self, batch: Batch, is_done: bool) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.under_way -= 1;
        if is_done {
            queue.written += batch.0.len() as u64;
            queue.bytes += batch.0.iter().map(|row| row.bytes() as u64).sum::<u64>();
        } else {
            queue.again.push(batch);
        }
    }
}

/// Writes all rows. Each must be such that writing it twice is writing it once.
///
/// # Errors
/// If the cluster acknowledges nothing for half a minute, or answers what makes no sense.
pub(crate) fn load(
    options: &LoadOptions,
    rows: impl Iterator<Item = Write> + Send,
    progress: &Arc<Progress>,
) -> Result<LoadReport, LoadError> {
    check(options)?;
    let addresses = resolve(&options.addresses)?;
    let queue = Queue { rows, again: Vec::new(), under_way: 0, is_drained: false, written: 0, bytes: 0 };
    let queue = Arc::new(Mutex::new(queue));
    let begun = clock::now_ns();
    let mut idle = 0;
    loop {
        let look = |queue: &Mutex<Queue<_>>| {
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            (queue.is_done(), queue.written, queue.bytes)
        };
        let (_, before, _) = look(&queue);
        let stretch = LoadOptions {
            pace: Pace::Closed,
            warmup: Duration::ZERO,
            duration: Some(STRETCH),
            operations: None,
            ..options.clone()
        };
        let manner = Manner { watch: false, multi: true };
        let description = describe(&stretch, json!("load"));
        play(&stretch, &addresses, description, progress, |_, clients, _| {
            Transact::new(Loading(Arc::clone(&queue)), clients, manner, &["load"], Arc::clone(progress))
        })?;
        if let Some(surprise) = progress.surprises().first() {
            return Err(LoadError::Unsettled(format!("loading failed: {surprise}")));
        }
        let (is_done, written, bytes) = look(&queue);
        if is_done {
            let seconds = (clock::now_ns() - begun) as f64 / 1e9;
            let rows_per_second = (written as f64 / seconds).round();
            return Ok(LoadReport { rows: written, bytes, seconds, rows_per_second });
        }
        idle = if written > before { 0 } else { idle + 1 };
        if idle == IDLE_STRETCHES_MAX {
            let text = "the cluster has acknowledged no row for half a minute";
            return Err(LoadError::Unsettled(text.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_written_again() {
        let rows = (0..250).map(|n| Write::Remove { key: format!("k{n}").into() });
        let queue = Queue { rows, again: Vec::new(), under_way: 0, is_drained: false, written: 0, bytes: 0 };
        let mut loading = Loading(Arc::new(Mutex::new(queue)));
        let first = loading.next(0).unwrap();
        loading.ended(first, false);
        let mut keys = std::collections::BTreeSet::new();
        while let Some(batch) = loading.next(0) {
            keys.extend(batch.0.iter().map(|row| row.key().clone()));
            assert!(!loading.0.lock().unwrap().is_done(), "a batch is under way");
            loading.ended(batch, true);
        }
        let queue = loading.0.lock().unwrap();
        assert!(queue.is_done() && queue.written == 250 && keys.len() == 250);
    }
}
