//! What was measured, as it is written to results.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use crate::facts::Machine;
use crate::minutes::{Minute, Minutes};
use crate::progress::{Gap, Progress};

/// Latencies up to this are told apart; longer ones count as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Digits that are kept.
const DIGITS: u8 = 3;

/// How operations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// They happened.
    pub done: u64,
    /// They did not happen.
    pub refused: u64,
    /// They ended by themselves without effect: a watched key had changed, or there was nothing to do.
    pub aborted: u64,
    /// Nobody knows.
    pub unknown: u64,
    /// Answers no correct server gives.
    pub nonsense: u64,
    /// Due in an open loop but not sent before its end: the cluster, or this machine, was too slow for the rate.
    pub not_sent: u64,
    /// Connections that broke.
    pub broken: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        let pairs = [
            (&mut self.done, other.done),
            (&mut self.refused, other.refused),
            (&mut self.aborted, other.aborted),
            (&mut self.unknown, other.unknown),
            (&mut self.nonsense, other.nonsense),
            (&mut self.not_sent, other.not_sent),
            (&mut self.broken, other.broken),
        ];
        for (sum, part) in pairs {
            *sum += part;
        }
    }
}

/// An empty histogram of latencies.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants that fit together")
}

/// What one thread measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) counts: Counts,
    pub(crate) minutes: Minutes,
    reads: Histogram<u64>,
    writes: Histogram<u64>,
}

impl Default for Measured {
    fn default() -> Self {
        let (reads, writes) = (histogram(), histogram());
        Measured { counts: Counts::default(), minutes: Minutes::default(), reads, writes }
    }
}

impl Measured {
    pub(crate) fn record(&mut self, ns: u64, is_write: bool) {
        let histogram = if is_write { &mut self.writes } else { &mut self.reads };
        histogram.saturating_record(ns.max(1));
    }

    pub(crate) fn merge(&mut self, other: &Measured) {
        self.counts.add(&other.counts);
        self.minutes.merge(&other.minutes);
        self.reads.add(&other.reads).expect("both have the same bounds");
        self.writes.add(&other.writes).expect("both have the same bounds");
    }
}

/// A distribution of latencies, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// Nine of ten took no longer.
    pub p90_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// 999 of 1,000 took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// How many took no longer than a second, as exactly as three digits can say.
    pub within_1s: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        if histogram.is_empty() {
            return None;
        }
        let us = |ns: u64| ns as f64 / 1e3;
        Some(Latency {
            count: histogram.len(),
            mean_us: (histogram.mean() / 100.0).round() / 10.0,
            p50_us: us(histogram.value_at_quantile(0.5)),
            p90_us: us(histogram.value_at_quantile(0.9)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            p999_us: us(histogram.value_at_quantile(0.999)),
            max_us: us(histogram.max()),
            within_1s: histogram.count_between(0, 1_000_000_000),
        })
    }

    /// A line for people.
    pub(crate) fn line(&self, name: &str) -> String {
        let ms = |us: f64| us / 1e3;
        format!(
            "{name:>6}: {:.2} ms mean, {:.2} p50, {:.2} p90, {:.2} p99, {:.2} p99.9, {:.2} max ({})\n",
            ms(self.mean_us),
            ms(self.p50_us),
            ms(self.p90_us),
            ms(self.p99_us),
            ms(self.p999_us),
            ms(self.max_us),
            self.count
        )
    }
}

/// What the servers used meanwhile, all together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServerUse {
    /// Processes looked at.
    pub processes: usize,
    /// Processor time of all servers for a thousand operations that were done.
    pub cpu_ms_per_1000: f64,
    /// The largest resident memory of one of them, at the end.
    pub resident_bytes_max: u64,
}

/// The result of one run of load.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was asked for.
    pub load: Value,
    /// On what.
    pub machine: Machine,
    /// How long it was measured.
    pub seconds: f64,
    /// How operations ended.
    pub counts: Counts,
    /// Operations done in a second.
    pub per_second: f64,
    /// Operations that change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Latency>,
    /// All others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Latency>,
    /// Minute by minute, if there was more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub minutes: Vec<Minute>,
    /// The longest time without an acknowledged write.
    pub gap_ms_max: u64,
    /// Those of more than 20 ms.
    pub gaps: Vec<Gap>,
    /// The first answers that no correct server gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub surprises: Vec<String>,
    /// What the servers used, if their processes are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerUse>,
    /// Processor time this program used for a thousand operations.
    pub client_cpu_ms_per_1000: f64,
}

impl Report {
    pub(crate) fn new(
        load: Value,
        machine: Machine,
        measured: &Measured,
        took: Duration,
        progress: &Progress,
        servers: Option<(usize, Duration, u64)>,
        own_cpu: Duration,
    ) -> Report {
        let seconds = took.as_secs_f64();
        let (done, minutes) = (measured.counts.done, measured.minutes.get());
        let per_1000 = |cpu: Duration| cpu.as_secs_f64() * 1e6 / (progress.done().max(1) as f64);
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Report {
            load,
            machine,
            seconds: rounded(seconds),
            counts: measured.counts,
            per_second: rounded(done as f64 / seconds.max(1e-9)),
            reads: Latency::of(&measured.reads),
            writes: Latency::of(&measured.writes),
            minutes: if minutes.len() > 1 { minutes.to_vec() } else { Vec::new() },
            gap_ms_max: u64::try_from(progress.longest_gap().as_millis()).unwrap_or(u64::MAX),
            gaps: progress.gaps(),
            surprises: progress.surprises(),
            servers: servers.map(|(processes, cpu, resident_bytes_max)| ServerUse {
                processes,
                cpu_ms_per_1000: rounded(per_1000(cpu)),
                resident_bytes_max,
            }),
            client_cpu_ms_per_1000: rounded(per_1000(own_cpu)),
        }
    }

    /// The report in lines for people.
    pub fn render(&self) -> String {
        let counts = &self.counts;
        let mut text = format!(
            "{:.0} operations per second: {} done in {:.1} s, {} refused, {} unknown",
            self.per_second, counts.done, self.seconds, counts.refused, counts.unknown
        );
        if counts.aborted > 0 {
            text += &format!(", {} aborted because others were faster", counts.aborted);
        }
        if counts.not_sent > 0 {
            text += &format!(", {} due but not sent: the rate is too high", counts.not_sent);
        }
        if counts.nonsense > 0 {
            text += &format!(", {} answers that make no sense", counts.nonsense);
        }
        text.push('\n');
        for (name, latency) in [("reads", &self.reads), ("writes", &self.writes)] {
            let Some(latency) = latency else { continue };
            text += &latency.line(name);
        }
        text + &self.surroundings()
    }

    /// What was noticed beside the operations, in lines for people.
    pub(crate) fn surroundings(&self) -> String {
        let mut text: String = self.surprises.iter().map(|surprise| format!("{surprise}\n")).collect();
        text += &format!(
            "longest time without an acknowledged write: {} ms; {} connections broke\n",
            self.gap_ms_max, self.counts.broken
        );
        if let Some(servers) = &self.servers {
            text += &format!(
                "processor time per 1000 operations: {:.1} ms in {} servers, {:.1} ms here; memory of the largest \
                 server {} MiB\n",
                servers.cpu_ms_per_1000,
                servers.processes,
                self.client_cpu_ms_per_1000,
                servers.resident_bytes_max >> 20
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_merged_over_threads() {
        let (mut one, mut other) = (Measured::default(), Measured::default());
        for ms in 1..=100 {
            let measured = if ms % 2 == 0 { &mut one } else { &mut other };
            measured.record(ms * 1_000_000, true);
            measured.counts.done += 1;
        }
        one.merge(&other);
        assert_eq!(one.counts.done, 100);
        let latency = Latency::of(&one.writes).unwrap();
        assert!((latency.p50_us - 50_000.0).abs() < 100.0, "{latency:?}");
        assert!((latency.p99_us - 99_000.0).abs() < 200.0, "{latency:?}");
        assert_eq!(Latency::of(&one.reads), None);
    }
}
