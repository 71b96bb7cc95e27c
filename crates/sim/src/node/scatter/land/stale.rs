//! Reads that contradict what had ended before they began: how many, where a checker would say no more than that there are some.

use std::collections::BTreeMap;

use quorate_api::history::{Ending, Op, Record};

/// Reads that were answered, and those of them that saw too old a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) reads: u64,
    pub(super) stale: u64,
}

/// The writes of one key.
#[derive(Default)]
struct Writes<'a> {
    /// When the write of a value had ended; never, if nobody knows.
    ends: BTreeMap<Option<&'a str>, u64>,
    /// Those that were confirmed: by when they had ended, the latest start of those so far.
    confirmed: Vec<(u64, u64)>,
}

/// Counts reads of a value after which, entirely, another had been written when the read began. All values differ.
pub(super) fn count<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> [Stale; 2] {
    let mut keys: BTreeMap<&str, Writes<'_>> = BTreeMap::new();
    for record in records.clone() {
        let Some(Op::Write { key, value }) = record.ops.first() else { continue };
        let writes = keys.entry(key).or_default();
        let end = record.end.filter(|_| record.outcome == Ending::Ok);
        writes.ends.insert(value.as_deref(), end.unwrap_or(u64::MAX));
        writes.confirmed.extend(end.map(|end| (end, record.start)));
    }
    for writes in keys.values_mut() {
        writes.confirmed.sort_unstable();
        let mut latest = 0;
        for (_, start) in &mut writes.confirmed {
            latest = latest.max(*start);
            *start = latest;
        }
    }
    let mut counts = [Stale::default(); 2];
    for record in records {
        let Some(Op::Read { key, result: Some(result) }) = record.ops.first() else { continue };
        let counts = &mut counts[usize::from(record.is_final)];
        counts.reads += 1;
        let Some(writes) = keys.get(key.as_str()) else { continue };
        let before = writes.confirmed.partition_point(|(end, _)| *end < record.start);
        let latest = before.checked_sub(1).map(|last| writes.confirmed[last].1);
        // Nothing was there from the beginning.
        let seen = result.as_deref().map_or(Some(0), |value| writes.ends.get(&Some(value)).copied());
        counts.stale += u64::from(latest.is_some_and(|latest| seen.is_none_or(|seen| seen < latest)));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(start: u64, end: u64, op: Op) -> Record {
        Record { client: start, start, end: Some(end), outcome: Ending::Ok, ops: vec![op], is_final: false }
    }

    fn write(start: u64, end: u64, value: &str) -> Record {
        op(start, end, Op::Write { key: "k".into(), value: Some(value.into()) })
    }

    fn read(start: u64, end: u64, value: Option<&str>) -> Record {
        op(start, end, Op::Read { key: "k".into(), result: Some(value.map(Into::into)) })
    }

    #[test]
    fn reads_of_what_was_written_over_are_counted() {
        let writes = [write(10, 20, "a"), write(30, 40, "b"), write(35, 60, "c")];
        let reads = [
            (read(5, 8, None), 0),
            (read(15, 25, None), 0),
            (read(21, 25, None), 1),
            (read(21, 25, Some("a")), 0),
            (read(31, 45, Some("a")), 0),
            (read(41, 45, Some("a")), 1),
            // `b` and `c` overlap: either may be the last.
            (read(61, 65, Some("b")), 0),
            (read(61, 65, Some("c")), 0),
            (read(61, 65, Some("nobody wrote it")), 1),
        ];
        for (read, stale) in reads {
            let all: Vec<Record> = writes.iter().cloned().chain([read.clone()]).collect();
            assert_eq!(count(all.iter())[0], Stale { reads: 1, stale }, "{read:?}");
        }
        let mut unknown = write(10, 0, "a");
        (unknown.end, unknown.outcome) = (None, Ending::Unknown);
        let mut last = read(41, 45, Some("a"));
        last.is_final = true;
        let all = [unknown, write(30, 40, "b"), last];
        assert_eq!(count(all.iter())[1], Stale { reads: 1, stale: 0 }, "it may have been written late");
    }
}
