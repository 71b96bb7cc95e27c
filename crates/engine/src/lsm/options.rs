//! How the store is kept.

use std::fmt;
use std::sync::Arc;

/// Called when the store cannot go on, with the reason; see [`super::LsmStore`]. If it returns, the calling thread
/// panics.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// How the store is kept, and how much memory it may take: about `cache_bytes`, plus `memtable_bytes` times two more
/// than `sealed_max` (what is being written to, what waits, and once more what is just being written out), plus some
/// 2 bytes per key for filters and indexes. A snapshot keeps what it found waiting for as long as it lives.
#[derive(Clone)]
pub struct Options {
    /// New rows are gathered in memory up to this many bytes (an estimate with what each row takes beside its key and
    /// value) and then written out as a table. A small value writes many small tables that must be merged again and again; a large one takes memory,
    /// and the log must be kept as long, which makes restarts slow.
    pub memtable_bytes: u64,
    /// How many full lots of new rows may wait to be written out before [`quorate_store::Store::apply`] waits for the disk.
    pub sealed_max: usize,
    /// Blocks of tables kept in memory. Too small, and reads of what is not in a memtable go to the disk.
    pub cache_bytes: u64,
    /// Aimed-at size of a table. Merging rewrites whole tables: small ones make many files, large ones long merges.
    pub table_bytes: u64,
    /// How many runs of not yet merged tables may lie on each other before `apply` waits for merging. Every run may
    /// have to be asked for a key.
    pub runs_max: usize,
    /// Writing tables stops while the file system has less room than this left, so that the log still has some.
    pub free_bytes_min: u64,
    /// What to do when the store cannot go on.
    pub on_fatal: OnFatal,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            memtable_bytes: 32 << 20,
            sealed_max: 2,
            cache_bytes: 64 << 20,
            table_bytes: 32 << 20,
            runs_max: 24,
            free_bytes_min: 8 << 20,
            on_fatal: Arc::new(exit),
        }
    }
}

impl Options {
    /// Everything that is wrong with the options, each with what to do.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.memtable_bytes < 64 << 10 {
            complaints.push(format!("memtable_bytes is {}, but must be at least 65536", self.memtable_bytes));
        }
        if self.sealed_max == 0 {
            complaints
                .push("sealed_max is 0, so that nothing could ever be written out: 2 is usual".to_owned());
        }
        if self.table_bytes < 64 << 10 {
            complaints.push(format!("table_bytes is {}, but must be at least 65536", self.table_bytes));
        }
        if self.runs_max < 8 {
            complaints.push(format!(
                "runs_max is {}, but merging only begins at 4 and must have time: 24 is usual",
                self.runs_max
            ));
        }
        complaints
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("memtable_bytes", &self.memtable_bytes)
            .field("sealed_max", &self.sealed_max)
            .field("cache_bytes", &self.cache_bytes)
            .field("table_bytes", &self.table_bytes)
            .field("runs_max", &self.runs_max)
            .field("free_bytes_min", &self.free_bytes_min)
            .finish_non_exhaustive()
    }
}

/// What a node does when its disk fails it: says so and ends with [`crate::EXIT_DISK`].
pub fn exit(reason: &str) {
    tracing::error!(reason, "the node stops");
    // The log may go elsewhere or nowhere; whoever started the process sees this.
    eprintln!("quorate: {reason}");
    std::process::exit(crate::EXIT_DISK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_options_are_sound_and_all_complaints_come_together() {
        assert_eq!(Options::default().complaints(), Vec::<String>::new());
        let bad =
            Options { memtable_bytes: 1, sealed_max: 0, table_bytes: 0, runs_max: 1, ..Options::default() };
        assert_eq!(bad.complaints().len(), 4);
    }
}
