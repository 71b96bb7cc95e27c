//! How transactions ended, by their kind.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::report::{Latency, Report, histogram};

/// How a transaction ended, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It happened.
    Committed,
    /// It took itself back, as it was meant to.
    RolledBack,
    /// A watched key had changed.
    Outrun,
    /// An error reply said that nothing happened.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// How often each fate was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Fates {
    /// They happened.
    pub committed: u64,
    /// They took themselves back, as they were meant to.
    pub rolled_back: u64,
    /// A watched key had changed: nothing happened.
    pub outrun: u64,
    /// An error reply said that nothing happened.
    pub refused: u64,
    /// Nobody knows.
    pub unknown: u64,
}

impl Fates {
    fn add(&mut self, other: &Fates) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.outrun += other.outrun;
        self.refused += other.refused;
        self.unknown += other.unknown;
    }

    fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Committed => &mut self.committed,
            Fate::RolledBack => &mut self.rolled_back,
            Fate::Outrun => &mut self.outrun,
            Fate::Refused => &mut self.refused,
            Fate::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Those whose end is known and was theirs: what throughput counts.
    fn ended(&self) -> u64 {
        self.committed + self.rolled_back + self.outrun
    }

    fn all(&self) -> u64 {
        self.ended() + self.refused + self.unknown
    }
}

/// One kind, as one thread counted it.
#[derive(Debug, Clone)]
struct Kind {
    fates: Fates,
    /// Of those that committed or rolled back; of rounds within transactions, all that were answered.
    latency: Histogram<u64>,
}

/// What one thread counted.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    names: &'static [&'static str],
    kinds: Vec<Kind>,
    /// Operations in transactions that ended, and in those that committed.
    operations: u64,
    operations_committed: u64,
}

impl Tally {
    pub(crate) fn new(names: &'static [&'static str]) -> Tally {
        let kinds = names.iter().map(|_| Kind { fates: Fates::default(), latency: histogram() }).collect();
        Tally { names, kinds, operations: 0, operations_committed: 0 }
    }

    /// A transaction has ended.
    pub(crate) fn ended(&mut self, kind: usize, fate: Fate, ns: u64, operations: u64) {
        let kind = &mut self.kinds[kind];
        kind.fates.count(fate);
        match fate {
            Fate::Committed => self.operations_committed += operations,
            Fate::RolledBack | Fate::Outrun => {}
            Fate::Refused | Fate::Unknown => return,
        }
        self.operations += operations;
        if fate != Fate::Outrun {
            kind.latency.saturating_record(ns.max(1));
        }
    }

    /// A round within a transaction was answered.
    pub(crate) fn round(&mut self, kind: usize, ns: u64) {
        self.kinds[kind].latency.saturating_record(ns.max(1));
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.fates.add(&other.fates);
            kind.latency.add(&other.latency).expect("both have the same bounds");
        }
        self.operations += other.operations;
        self.operations_committed += other.operations_committed;
    }

    /// All threads' counts together with what else was measured.
    pub(crate) fn report(&self, report: Report) -> TransactionReport {
        let rate = |count: u64| (count as f64 / report.seconds.max(1e-9) * 100.0).round() / 100.0;
        let percent = |count: u64, of: u64| (count as f64 * 10_000.0 / of.max(1) as f64).round() / 100.0;
        let mut fates = Fates::default();
        self.kinds.iter().for_each(|kind| fates.add(&kind.fates));
        let kinds = self.names.iter().zip(&self.kinds).filter_map(|(name, kind)| {
            let is_used = kind.fates.all() > 0 || !kind.latency.is_empty();
            let report = KindReport { fates: kind.fates, latency: Latency::of(&kind.latency) };
            is_used.then(|| ((*name).to_owned(), report))
        });
        TransactionReport {
            transactions_per_second: rate(fates.ended()),
            commits_per_second: rate(fates.committed),
            operations_per_second: rate(self.operations),
            committed_operations_per_second: rate(self.operations_committed),
            aborted_percent: percent(fates.outrun + fates.refused + fates.unknown, fates.all()),
            fates,
            kinds: kinds.collect(),
            new_orders_per_minute: None,
            missing: None,
            report,
        }
    }
}

/// One kind of transactions or operations.
#[derive(Debug, Clone, Serialize)]
pub struct KindReport {
    /// How they ended; all 0 for operations that are a part of a transaction.
    #[serde(flatten)]
    pub fates: Fates,
    /// Of those that committed or rolled back. It counts from when a transaction was due; within a transaction, from
    /// when the operation was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// The result of a run of transactions.
#[derive(Debug, Clone, Serialize)]
pub struct TransactionReport {
    /// What every load measures.
    #[serde(flatten)]
    pub report: Report,
    /// Throughput: transactions that committed, rolled back or were outrun, in a second.
    pub transactions_per_second: f64,
    /// Those that committed.
    pub commits_per_second: f64,
    /// Throughput in operations, of which a transaction may have several.
    pub operations_per_second: f64,
    /// Goodput: operations of transactions that committed, in a second.
    pub committed_operations_per_second: f64,
    /// Share of transactions that were outrun, refused, or have an unknown end.
    pub aborted_percent: f64,
    /// How all of them ended.
    pub fates: Fates,
    /// The same by kind.
    pub kinds: BTreeMap<String, KindReport>,
    /// New orders that committed or rolled back as they were meant to, in a minute (TPC-C; not a tpmC of the TPC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_orders_per_minute: Option<f64>,
    /// Records that were asked for and were not there (YCSB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
}

impl TransactionReport {
    /// The report in lines for people.
    pub fn render(&self) -> String {
        let fates = &self.fates;
        let mut text = format!(
            "{:.0} operations per second, {:.0} of them committed; {:.0} transactions, {:.0} commits\n\
             {:.1} % aborted: {} outrun, {} refused, {} unknown of {}\n",
            self.operations_per_second,
            self.committed_operations_per_second,
            self.transactions_per_second,
            self.commits_per_second,
            self.aborted_percent,
            fates.outrun,
            fates.refused,
            fates.unknown,
            fates.all(),
        );
        let counts = &self.report.counts;
        for (count, what) in [
            (fates.rolled_back, "rolled back as they were meant to"),
            (counts.not_sent, "due but not sent: the rate is too high"),
            (counts.nonsense, "answers that make no sense"),
        ] {
            if count > 0 {
                text += &format!("{count} {what}\n");
            }
        }
        if let Some(rate) = self.new_orders_per_minute {
            text += &format!("{rate:.0} new orders in a minute\n");
        }
        if let Some(missing) = self.missing.filter(|missing| *missing > 0) {
            text += &format!("{missing} records that were asked for were not there\n");
        }
        for (name, kind) in &self.kinds {
            if let Some(latency) = &kind.latency {
                text += &latency.line(&format!("{name:>17}"));
            }
        }
        text + &self.report.surroundings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_counted_by_kind_and_threads_are_added() {
        let mut one = Tally::new(&["a", "b"]);
        one.ended(0, Fate::Committed, 1_000_000, 5);
        one.ended(0, Fate::Outrun, 9_000_000, 5);
        one.ended(0, Fate::Unknown, 9_000_000, 5);
        let mut other = Tally::new(&["a", "b"]);
        other.ended(0, Fate::RolledBack, 3_000_000, 1);
        other.round(1, 7);
        one.merge(&other);
        let fates = one.kinds[0].fates;
        assert_eq!(fates, Fates { committed: 1, rolled_back: 1, outrun: 1, refused: 0, unknown: 1 });
        assert_eq!((fates.ended(), fates.all()), (3, 4));
        assert_eq!((one.operations, one.operations_committed), (11, 5));
        // What was outrun took its time for nothing: it is no latency of what happened.
        assert_eq!(one.kinds[0].latency.len(), 2);
        assert_eq!(one.kinds[1].latency.len(), 1);
    }
}
