//! The experiments.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_workload::tpcc::{Layout, Scale};
use quorate_workload::ycsb::{Letter, Requests};

use super::contest::Skew;
use super::setup::{Load, Manner, Setup};
use super::tally::measure;
use crate::{Failure, Row, Service};

/// One way between a client and its node: with 16 clients an operation then takes 8 to 9 ms, as in the paper; see
/// [`calibrate`].
pub(super) const CLIENT_ONE_WAY: Duration = Duration::from_micros(3_000);

/// The names of all experiments.
pub const NAMES: [&str; 11] = [
    "calibrate",
    "contention",
    "sizes",
    "patience",
    "buckets",
    "mixes",
    "scale",
    "tpcc",
    "cost",
    "durable",
    "starvation",
];

/// Runs one experiment and tells each row as soon as it is there. `false` if there is none of that name. `nodes` leaves out
/// larger clusters.
///
/// # Errors
/// If a run fails.
pub fn run(name: &str, nodes: Option<usize>, seed: u64, told: &mut dyn FnMut(Row)) -> Result<bool, Failure> {
    let (name, setups) = match name {
        "calibrate" => ("calibrate", calibrate(seed)),
        "contention" => ("contention", contention(seed)),
        "sizes" => ("sizes", sizes(seed)),
        "patience" => ("patience", patience(seed)),
        "buckets" => ("buckets", buckets(seed)),
        "mixes" => ("mixes", mixes(seed)),
        "scale" => ("scale", scale(seed)),
        "tpcc" => ("tpcc", tpcc(seed)),
        "cost" => ("cost", cost(seed)),
        "durable" => ("durable", durable(seed)),
        "starvation" => ("starvation", starvation(seed)),
        _ => return Ok(false),
    };
    for setup in setups.iter().filter(|setup| nodes.is_none_or(|most| setup.nodes <= most)) {
        told(measure(name, setup)?);
    }
    Ok(true)
}

fn ycsb(letter: Letter, requests: Requests, records: u64) -> Load {
    Load::Ycsb { letter, requests, records, loaded: false }
}

/// The paper's manner with 16 clients, over several lengths of the way from a client to its node.
fn calibrate(seed: u64) -> Vec<Setup> {
    let at = |micros| Setup {
        client: Duration::from_micros(micros),
        span: Duration::from_secs(10),
        ..Setup::small(16, Manner::Paper, seed)
    };
    [200, 1_000, 2_000, 3_000, 4_000].map(at).into()
}

fn contention(seed: u64) -> Vec<Setup> {
    let manners = [Manner::Paper, Manner::Reads, Manner::Repeated, Manner::OneShot];
    let clients = [16, 32, 64, 128, 256];
    manners.into_iter().flat_map(|manner| clients.map(|count| Setup::small(count, manner, seed))).collect()
}

/// As `contention`, but what is in a message is worked on as well: 50 us for each KiB after the first. Servers of ours were measured
/// to need 60 us of processor time for the 1.3 KiB that they send each other about a transaction of two writes.
fn sizes(seed: u64) -> Vec<Setup> {
    let service = Service { kib: Duration::from_micros(50), ..Service::eight_workers() };
    let with = |count| Setup { service, ..Setup::small(count, Manner::OneShot, seed) };
    [16, 64, 256].map(with).into()
}

/// What waits for a lock for longer than this is aborted, and its client does something else.
fn patience(seed: u64) -> Vec<Setup> {
    let for_ms = |ms| {
        let patience = Some(Duration::from_millis(ms));
        Setup { patience, ..Setup::small(256, Manner::OneShot, seed) }
    };
    [50, 200].map(for_ms).into()
}

/// As many nodes with more leaders: all records alike, so that no lock is waited for and only nodes can be the limit.
fn buckets(seed: u64) -> Vec<Setup> {
    let cut = |count: u16| {
        let setup = Setup::small(256, Manner::OneShot, seed);
        let buckets = NonZeroU16::MIN.saturating_add(count - 1);
        Setup { buckets, load: ycsb(Letter::A, Requests::Uniform, 1_000_000), ..setup }
    };
    [10, 20].map(cut).into()
}

fn mixes(seed: u64) -> Vec<Setup> {
    let loads = [
        ycsb(Letter::B, Requests::Zipfian, 1_000_000),
        ycsb(Letter::C, Requests::Zipfian, 1_000_000),
        ycsb(Letter::F, Requests::Zipfian, 1_000_000),
        ycsb(Letter::A, Requests::Uniform, 1_000_000),
    ];
    let both = |load| {
        [Manner::Paper, Manner::OneShot].map(|manner| Setup { load, ..Setup::small(256, manner, seed) })
    };
    loads.into_iter().flat_map(both).collect()
}

/// How many times the small cluster, and how long is counted: large ones have more to count.
const SCALES: [(usize, u64); 4] = [(1, 1_000), (2, 600), (4, 400), (8, 300)];

fn scale(seed: u64) -> Vec<Setup> {
    let mut setups = Vec::new();
    let (paper, one_shot) = (Manner::Paper, Manner::OneShot);
    for (letter, requests, manners) in [
        (Letter::A, Requests::Zipfian, &[paper, one_shot][..]),
        (Letter::A, Requests::Uniform, &[one_shot]),
        (Letter::B, Requests::Zipfian, &[paper, one_shot]),
    ] {
        for manner in manners.iter().copied() {
            setups.extend(SCALES.map(|(times, millis)| Setup {
                load: ycsb(letter, requests, 1_000_000 * times as u64),
                span: Duration::from_millis(millis),
                warm: Duration::from_millis(300),
                ..Setup::small(256 * times, manner, seed).nodes(20 * times)
            }));
        }
    }
    setups
}

/// Three warehouses for each client, as in the paper. Rows of a warehouse are as few as its rules allow: with a warehouse to
/// itself a client meets others only at what it orders and pays elsewhere, however many items there are. Rows lie wherever
/// their keys happen to, as in the paper, or a warehouse in one bucket.
fn tpcc(seed: u64) -> Vec<Setup> {
    let setup = |(times, millis): (usize, u64), layout| {
        let clients = 64 * times;
        let warehouses = clients as u64 * 3;
        let scale = Scale { warehouses, districts: 10, customers: 10, items: 100, layout };
        let (load, span) = (Load::Tpcc { scale }, Duration::from_millis(millis * 2));
        Setup { load, span, ..Setup::small(clients, Manner::Paper, seed).nodes(20 * times) }
    };
    [Layout::Spread, Layout::Together]
        .into_iter()
        .flat_map(|layout| SCALES.map(|size| setup(size, layout)))
        .collect()
}

/// What a transaction costs where only nodes become more: keys are cut into as many buckets on 20 nodes as on 160, and all records are
/// there. Otherwise, what grows with nodes could not be told from what grows with the buckets that a transaction's keys lie in, nor
/// from popular records that are there sooner and are longer where more clients update them. Clients of TPC-C have as many warehouses, since keys
/// hold their numbers, and are not at the node that leads their own: one of 20 nodes leads more of them than one of 160, and what is at home
/// costs no message.
fn cost(seed: u64) -> Vec<Setup> {
    let buckets = NonZeroU16::MIN.saturating_add(39);
    let all_there = |setup: Setup| match setup.load {
        Load::Ycsb { letter, requests, records, .. } => {
            Setup { load: Load::Ycsb { letter, requests, records: records / 20, loaded: true }, ..setup }
        }
        Load::Tpcc { .. } | Load::Contest { .. } => setup,
    };
    let scale = scale(seed).into_iter().filter(|setup| setup.manner == Manner::OneShot).map(all_there);
    let together =
        |setup: &Setup| matches!(&setup.load, Load::Tpcc { scale } if scale.layout == Layout::Together);
    let warehouses = tpcc(seed).iter().map(|setup| setup.clients as u64 * 3).max().unwrap_or_default();
    let as_many = |setup: Setup| match setup.load {
        Load::Tpcc { scale } => {
            let load = Load::Tpcc { scale: Scale { warehouses, ..scale } };
            Setup { load, away: true, span: setup.span * 2, ..setup }
        }
        Load::Ycsb { .. } | Load::Contest { .. } => setup,
    };
    let tpcc = tpcc(seed).into_iter().filter(together).map(as_many);
    scale.chain(tpcc).map(|setup| Setup { buckets, ..setup }).collect()
}

/// With a sync of half a millisecond before anything is answered.
fn durable(seed: u64) -> Vec<Setup> {
    let slow = |manner| Setup { sync: Duration::from_micros(500), ..Setup::small(256, manner, seed) };
    [Manner::Paper, Manner::OneShot].map(slow).into()
}

/// Everybody wants the same: who waits longest, and for how long. Counted for so long that each client has had several turns.
fn starvation(seed: u64) -> Vec<Setup> {
    const EXACT: Option<u64> = Some(1);
    let of = |clients: &[usize], skew, long, manner, clock_error_ms| -> Vec<Setup> {
        let (load, span) = (Load::Contest { skew, long }, Duration::from_secs(4));
        let setup =
            |count: &usize| Setup { load, span, clock_error_ms, ..Setup::small(*count, manner, seed) };
        clients.iter().map(setup).collect()
    };
    let all = &[16, 64, 256];
    let (one_shot, repeated) = (Manner::OneShot, Manner::Repeated);
    [
        of(all, Skew::Same, 0, one_shot, EXACT),
        of(all, Skew::Zipfian, 0, one_shot, EXACT),
        of(all, Skew::Hot, 0, one_shot, EXACT),
        of(all, Skew::Same, 40, one_shot, EXACT),
        of(all, Skew::Hot, 40, one_shot, EXACT),
        // Some nodes' clients are always younger than others.
        of(all, Skew::Same, 0, one_shot, Some(100)),
        of(all, Skew::Same, 0, one_shot, None),
        of(all, Skew::Same, 0, repeated, EXACT),
        of(all, Skew::Hot, 0, repeated, EXACT),
        of(&[16, 64], Skew::Zipfian, 0, repeated, EXACT),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fact;

    fn tiny(manner: Manner) -> Setup {
        let millis = Duration::from_millis;
        let load = ycsb(Letter::A, Requests::Zipfian, 100);
        Setup { load, warm: millis(100), span: millis(500), ..Setup::small(8, manner, 5).nodes(8) }
    }

    fn row(setup: &Setup) -> Row {
        measure("tiny", setup).expect("a run without faults")
    }

    fn number(row: &Row, name: &str) -> f64 {
        match row.facts.iter().find(|(fact, _)| *fact == name) {
            Some((_, Fact::Number(number))) => *number,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn what_is_sent_together_commits_and_what_reads_first_is_outrun() {
        let (one_shot, paper) = (row(&tiny(Manner::OneShot)), row(&tiny(Manner::Paper)));
        assert_eq!(number(&one_shot, "committed_percent"), 100.0);
        assert!((10.0..90.0).contains(&number(&paper, "committed_percent")), "{paper}");
        let repeated = row(&tiny(Manner::Repeated));
        assert_eq!(number(&repeated, "committed_percent"), 100.0);
        assert!(number(&repeated, "attempts_committed_percent") < 90.0, "{repeated}");
    }

    /// The promise of decision 0008, where all want the same: each waits for those that came before it, once; and for those
    /// whose clocks say so.
    #[test]
    fn nobody_waits_longer_than_a_turn_of_all_others_and_what_clocks_differ_by() {
        let load = Load::Contest { skew: Skew::Same, long: 12 };
        let setup = Setup { load, clients: 16, span: Duration::from_secs(2), ..tiny(Manner::OneShot) };
        let turns = |clock_error_ms| {
            let row = row(&Setup { clock_error_ms, ..setup.clone() });
            assert_eq!(number(&row, "committed_percent"), 100.0);
            let turn_ms = 16.0 * 1e3 / number(&row, "goodput_s");
            (number(&row, "longest_wait_ms") / turn_ms, turn_ms)
        };
        let ((exact, turn_ms), (wrong, wrong_turn_ms)) = (turns(Some(1)), turns(Some(300)));
        assert!(exact < 2.0, "{exact} turns of {turn_ms} ms");
        // Where all meet at one coordinator they go together, and clocks hardly matter.
        assert!(wrong * wrong_turn_ms < 2.0 * wrong_turn_ms + 600.0, "{wrong} of {wrong_turn_ms} ms");
    }

    #[test]
    fn a_seed_gives_the_same_row() {
        let setup = tiny(Manner::Paper);
        assert_eq!(row(&setup), row(&setup));
        assert_ne!(row(&setup), row(&Setup { seed: 6, ..setup.clone() }));
    }

    #[test]
    fn slow_nodes_make_slow_operations() {
        let setup = tiny(Manner::OneShot);
        let time = crate::Latency::Constant(Duration::from_millis(1));
        let slow = Service { workers: 1, time, ..Service::eight_workers() };
        let (fast, slow) = (row(&setup), row(&Setup { service: slow, ..setup.clone() }));
        let took = |row: &Row| number(row, "ms_per_operation");
        assert!(took(&slow) > took(&fast) * 1.5, "{fast} {slow}");
        assert!(number(&slow, "busy_percent_max") > number(&fast, "busy_percent_max"));
    }
}
