//! Runs: one seed, one seed twice, many seeds on many threads.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use crate::coverage::Coverage;
use crate::harness::Harness;
use crate::plan::{Overrides, Plan, Profile};
use crate::trace::TraceLevel;
use crate::world::World;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A machine (or the harness) panicked: an assertion of its own.
    Panic(String),
    /// A property that must hold under all faults does not.
    Safety(String),
    /// The world did not come to rest in time after all faults were over.
    Liveness(String),
    /// Two runs of one seed differ.
    Determinism(String),
    /// Runs did not reach what they must reach.
    Coverage(String),
}

impl Failure {
    /// The exit code of a process that found it: different for each kind.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Panic(_) => 10,
            Failure::Safety(_) => 11,
            Failure::Liveness(_) => 12,
            Failure::Determinism(_) => 13,
            Failure::Coverage(_) => 14,
        }
    }

    /// Whether `other` is of the same kind.
    pub fn is_like(&self, other: &Failure) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic(what) => write!(f, "panic: {what}"),
            Failure::Safety(what) => write!(f, "safety: {what}"),
            Failure::Liveness(what) => write!(f, "liveness: {what}"),
            Failure::Determinism(what) => write!(f, "determinism: {what}"),
            Failure::Coverage(what) => write!(f, "coverage: {what}"),
        }
    }
}

/// What came of one run.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was run.
    pub plan: Plan,
    /// What it reached.
    pub coverage: Coverage,
    /// How much time went by in the world.
    pub world_time: Duration,
    /// A hash over everything that happened; comparable between runs with the same trace level.
    pub trace_hash: u64,
    /// What happened, with [`TraceLevel::Keep`].
    pub lines: Vec<String>,
    /// What went wrong.
    pub failure: Option<Failure>,
}

impl Report {
    /// What a person needs to know: the failure and the one line that repeats it, tells all that happened, and looks for a
    /// smaller case. `command` is whatever comes before `--seed`.
    pub fn explain(&self, command: &str) -> String {
        let failure = self.failure.as_ref().map_or("no failure".to_owned(), Failure::to_string);
        // That two runs differ shows in no single one.
        let twice = if matches!(self.failure, Some(Failure::Determinism(_))) { " --twice" } else { "" };
        format!("{failure}\nrepeat: {}{twice} --trace --shrink", self.plan.command_line(command))
    }
}

thread_local! {
    /// The panic under way in a run on this thread; `None` if no run is.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes panics inside runs quiet and remembered; all others are handled as before.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let inside = CAUGHT.with_borrow_mut(|caught| {
                if let Some(context) = caught {
                    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
                    let text = info.payload_as_str().unwrap_or("a panic without a message");
                    if cfg!(panic = "abort") {
                        // Nobody will be there to report it.
                        eprintln!("panic: {text}{}\nin {context}", place.unwrap_or_default());
                        return true;
                    }
                    *context = format!("{text}{}", place.unwrap_or_default());
                    return true;
                }
                false
            });
            if !inside {
                before(info);
            }
        }));
    });
}

/// What runs a plan: [`run`] with a harness. What runs many of them needs to know no more, so that a simulator is compiled once, where its
/// harness is.
pub type Runs<'a> = dyn Fn(&Plan) -> Report + Sync + 'a;

/// Runs one plan. A panic of a machine ends as [`Failure::Panic`], where the build unwinds; where it aborts, it is
/// printed with the plan's seed.
pub fn run<H: Harness>(plan: &Plan, make: impl FnOnce(&Plan) -> H) -> Report {
    install_hook();
    CAUGHT.set(Some(plan.command_line(plan.profile)));
    let mut world = None;
    let ended = panic::catch_unwind(AssertUnwindSafe(|| {
        world.insert(World::new(plan.world.clone(), make(plan))).play(plan);
    }));
    let panicked = CAUGHT.take().filter(|_| ended.is_err());
    let mut report = Report {
        plan: plan.clone(),
        coverage: Coverage { runs: 1, ..Coverage::default() },
        world_time: Duration::ZERO,
        trace_hash: 0,
        lines: Vec::new(),
        failure: panicked.map(Failure::Panic),
    };
    if let Some(mut world) = world {
        report.coverage.marks = world.marks.clone();
        report.coverage.counts = world.counts;
        report.world_time = world.now();
        report.trace_hash = world.trace.hash();
        report.lines = world.trace.take_lines();
        report.failure = report.failure.or_else(|| world.failure.take());
    }
    report
}

/// Runs one plan twice and compares everything that happened, to the letter.
pub fn run_twice(plan: &Plan, runs: &Runs<'_>) -> Report {
    let full = plan.clone().traced(TraceLevel::Full);
    let mut first = runs(&full);
    if first.trace_hash != runs(&full).trace_hash {
        let kept = plan.clone().traced(TraceLevel::Keep);
        let (one, other) = (runs(&kept).lines, runs(&kept).lines);
        let differs = one.iter().zip(&other).find(|(one, other)| one != other);
        let what = match differs {
            Some((one, other)) => format!("two runs of the seed part here:\n  {one}\n  {other}"),
            None => format!("two runs of the seed have {} and {} lines", one.len(), other.len()),
        };
        first.failure = Some(Failure::Determinism(what));
    }
    first
}

/// Which seeds, and how.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The seeds.
    pub seeds: Range<u64>,
    /// What replaces their draws.
    pub overrides: Overrides,
    /// On how many threads.
    pub threads: usize,
    /// Whether each seed runs twice.
    pub twice: bool,
    /// No more seeds are begun after this many have failed.
    pub failures_max: usize,
}

impl Batch {
    /// These seeds, on one thread, up to the first that fails.
    pub fn of(seeds: Range<u64>) -> Self {
        Batch { seeds, overrides: Overrides::default(), threads: 1, twice: false, failures_max: 1 }
    }
}

/// What came of many runs.
#[derive(Debug, Default)]
pub struct Summary {
    /// What they reached together.
    pub coverage: Coverage,
    /// The runs that failed, by seed.
    pub failed: Vec<Report>,
    /// What is wrong with the runs taken together.
    pub coverage_failure: Option<Failure>,
}

impl Summary {
    /// Panics with a readable account if anything failed: for tests.
    ///
    /// # Panics
    /// See above.
    pub fn expect_success(&self, command: &str) {
        if let Some(report) = self.failed.first() {
            panic!("{}", report.explain(command));
        }
        if let Some(failure) = &self.coverage_failure {
            panic!("{failure}\n{}", self.coverage);
        }
    }
}

/// Runs many seeds; `told` hears of each as it ends, in no particular order.
pub fn run_many(
    profile: &Profile,
    batch: &Batch,
    runs: &Runs<'_>,
    told: &(dyn Fn(&Report) + Sync),
) -> Summary {
    let mut summary = run_plans(batch, &|seed| Plan::draw(profile, seed, &batch.overrides), runs, told);
    if summary.failed.is_empty() && batch.overrides == Overrides::default() {
        summary.coverage_failure = profile.missing(&summary.coverage);
    }
    summary
}

/// Runs the plans of many seeds.
pub(crate) fn run_plans(
    batch: &Batch,
    plan: &(dyn Fn(u64) -> Plan + Sync),
    runs: &Runs<'_>,
    told: &(dyn Fn(&Report) + Sync),
) -> Summary {
    let next = AtomicU64::new(batch.seeds.start);
    let summary = Mutex::new(Summary::default());
    let lock = || summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= batch.seeds.end || lock().failed.len() >= batch.failures_max.max(1) {
            return;
        }
        let plan = plan(seed);
        let report = if batch.twice { run_twice(&plan, runs) } else { runs(&plan) };
        told(&report);
        let mut summary = lock();
        summary.coverage.merge(&report.coverage);
        if report.failure.is_some() {
            summary.failed.push(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..batch.threads {
            scope.spawn(work);
        }
        work();
    });
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failed.sort_by_key(|report| report.plan.seed);
    summary
}
