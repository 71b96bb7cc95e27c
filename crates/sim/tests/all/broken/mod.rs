//! What the tests of broken rules have in common.
//!
//! `QUORATE_SEEDS` says after how many seeds a mutant counts as missed and `QUORATE_FROM` which is the first,
//! `QUORATE_ONLY` names one mutant, `QUORATE_TRACE=SEED` prints one of its runs (with `QUORATE_WHOLE`, of the whole rules),
//! and `QUORATE_RESULT` names a file that is rewritten with what was found. Without any of these, the seed that caught a mutant when
//! the results in `docs/results` were written is tried before all others.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display, Write as _};
use std::{env, fs};

use quorate_sim::{Failure, Kind, Overrides, Stressed, TraceLevel};

/// The broken rules of a protocol and how they are hunted.
pub(crate) struct Hunt<S, M: 'static> {
    /// All of them that runs can find.
    pub(crate) mutants: Vec<M>,
    /// The file in `docs/results` that says which seeds caught them.
    pub(crate) results: &'static str,
    /// The kind of run in which one shows soonest.
    pub(crate) kind_for: fn(M) -> Kind<S>,
    /// Everything at once, if it is to be known how soon that would show them.
    pub(crate) swarm: Option<fn() -> Kind<S>>,
    /// Breaks a rule.
    pub(crate) breaks: fn(&mut S, Option<M>),
    /// Whether it counts that a run does not end: where safety is looked for, a broken machine that goes in circles
    /// proves nothing.
    pub(crate) stuck_counts: fn(M) -> bool,
    /// So many seeds of each kind of run pass while all rules are whole.
    pub(crate) whole_seeds: u64,
}

/// Whether all that was seen is that a run did not end.
fn is_stuck(failure: &Failure) -> bool {
    matches!(failure, Failure::Liveness(_)) || failure.to_string().contains("without an end")
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

/// The seed that caught `mutant` when these results were written; `None` if all seeds from the first are to be tried.
pub(crate) fn remembered(results: &str, mutant: impl Debug) -> Option<u64> {
    if ["QUORATE_SEEDS", "QUORATE_FROM", "QUORATE_RESULT"].iter().any(|name| env::var(name).is_ok()) {
        return None;
    }
    let path = format!("{}/../../docs/results/{results}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find(|line| line.contains(&format!("\"mutant\":\"{mutant:?}\"")))?;
    let (_, seeds) = line.split_once("\"seeds\":")?;
    let seeds: u64 = seeds.split(',').next()?.parse().expect("a whole number");
    Some(seeds - 1)
}

/// A failure in a line.
pub(crate) fn summary(failure: impl Display) -> String {
    let text = failure.to_string().replace('\n', " ").replace(['"', '\\'], "'");
    text.chars().take(110).collect()
}

/// Shows what was found, and writes it into the file that is asked for.
pub(crate) fn tell(lines: String) {
    println!("{lines}");
    if let Ok(path) = env::var("QUORATE_RESULT") {
        fs::write(path, lines).expect("written");
    }
}

impl<S: Stressed + Sync, M: Copy + Debug> Hunt<S, M> {
    fn wanted(&self) -> Vec<M> {
        let only = env::var("QUORATE_ONLY").unwrap_or_default();
        self.mutants.iter().copied().filter(|mutant| format!("{mutant:?}").contains(&only)).collect()
    }

    /// After how many seeds a mutant is caught, and by what.
    fn caught(&self, mut kind: Kind<S>, mutant: M) -> Option<(u64, Failure)> {
        (self.breaks)(&mut kind.stress, Some(mutant));
        let seen = |failure: &Failure| (self.stuck_counts)(mutant) || !is_stuck(failure);
        if let Some(seed) = remembered(self.results, mutant) {
            let again = kind.run_many(seed..seed + 1, false, 1).failed.into_iter().find_map(|it| it.failure);
            if let Some(failure) = again.filter(seen) {
                return Some((seed + 1, failure));
            }
            println!("{mutant:?}: seed {seed} of {} does not show it any more", self.results);
        }
        let from = number("QUORATE_FROM", 0);
        let (mut first, end) = (from, from + number("QUORATE_SEEDS", 1_000));
        loop {
            let report = kind.run_many(first..end, false, 1).failed.into_iter().next()?;
            let failure = report.failure?;
            first = report.plan.seed + 1;
            if seen(&failure) {
                return Some((first - from, failure));
            }
        }
    }

    /// Every rule, broken, is noticed.
    pub(crate) fn catch_all(&self) {
        let all_is_asked = env::var("QUORATE_RESULT").is_ok();
        let (mut lines, mut missed) = (String::new(), Vec::new());
        for mutant in self.wanted() {
            let kind = (self.kind_for)(mutant);
            let profile = kind.profile.name;
            let Some((seeds, failure)) = self.caught(kind, mutant) else {
                missed.push(mutant);
                continue;
            };
            let in_swarm = self.swarm.filter(|_| all_is_asked).map(|swarm| {
                let seeds = self.caught(swarm(), mutant).map(|(seeds, _)| seeds);
                format!("\"swarm_seeds\":{},", seeds.map_or("null".to_owned(), |seeds| seeds.to_string()))
            });
            let (in_swarm, by) = (in_swarm.unwrap_or_default(), summary(&failure));
            writeln!(
                lines,
                "{{\"mutant\":\"{mutant:?}\",\"profile\":\"{profile}\",\"seeds\":{seeds},{in_swarm}\"by\":\"{by}\"}}"
            )
            .expect("strings grow");
        }
        tell(lines);
        assert!(missed.is_empty(), "not caught: {missed:?}");
    }

    /// What catches the mutants is not the kind of run itself.
    pub(crate) fn pass_whole(&self) {
        let mut names = BTreeSet::new();
        for mutant in self.wanted() {
            let kind = (self.kind_for)(mutant);
            if names.insert(kind.profile.name) {
                let summary = kind.run_many(0..self.whole_seeds, false, 1);
                summary.expect_success(kind.profile.name);
            }
        }
    }

    /// Prints the run that somebody asks for.
    pub(crate) fn trace(&self) {
        let (Ok(seed), [mutant]) = (env::var("QUORATE_TRACE"), &self.wanted()[..]) else { return };
        let mut kind = (self.kind_for)(*mutant);
        let broken = Some(*mutant).filter(|_| env::var("QUORATE_WHOLE").is_err());
        (self.breaks)(&mut kind.stress, broken);
        let plan = kind.plan(seed.parse().expect("a whole number"), &Overrides::default());
        let report = kind.run(&plan.traced(TraceLevel::Keep));
        report.lines.iter().for_each(|line| println!("{line}"));
        println!("{}\n{:?}", report.coverage, report.failure);
    }
}
