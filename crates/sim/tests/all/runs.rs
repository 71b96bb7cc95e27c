//! Seeds to verdicts: right machines pass, canaries are caught, cases shrink, runs repeat.

use crate::toys::{Flaw, Keepers, Probes};
use quorate_sim::{
    Batch, Failure, Fault, FaultSet, Overrides, Plan, Profile, Report, TraceLevel, run, run_many, run_twice,
    shrink,
};

fn profile() -> Profile {
    let mut profile = Profile::new("keeper");
    profile.safety = (std::time::Duration::from_millis(500), std::time::Duration::from_secs(4));
    profile.floors = vec![
        ("keeper.done", 1_000),
        ("keeper.retried", 100),
        ("sim.disk.unsynced_lost", 10),
        ("sim.restart", 100),
        (Fault::Halves.mark(), 50),
        (Fault::Clog.mark(), 50),
    ];
    profile.floors_seeds = 100;
    profile
}

fn keepers(flaw: Flaw) -> impl Fn(&Plan) -> Report + Sync {
    move |plan| run(plan, |plan| Keepers::of(plan, flaw))
}

fn first_failure(flaw: Flaw, seeds: u64) -> Report {
    let summary = run_many(&profile(), &Batch::of(0..seeds), &keepers(flaw), &|_| ());
    summary
        .failed
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("{flaw:?} was not caught within {seeds} seeds"))
}

#[test]
fn a_right_machine_passes_and_repeats() {
    let batch = Batch { twice: true, threads: 2, ..Batch::of(0..100) };
    let runs = keepers(Flaw::None);
    let summary = run_many(&profile(), &batch, &runs, &|_| ());
    summary.expect_success("keeper");
    assert_eq!(summary.coverage.runs, 100);
    let again = run_many(&profile(), &Batch { threads: 1, ..batch }, &runs, &|_| ());
    assert_eq!(summary.coverage, again.coverage, "threads change nothing");
}

#[test]
fn an_early_ack_is_caught() {
    let report = first_failure(Flaw::AcksEarly, 200);
    assert!(matches!(&report.failure, Some(Failure::Safety(why)) if why.contains("was done and only")));
}

#[test]
fn a_doubled_ack_is_caught() {
    assert!(matches!(first_failure(Flaw::CountsTwice, 200).failure, Some(Failure::Safety(_))));
}

#[test]
fn a_machine_that_gives_up_is_caught_by_the_liveness_phase() {
    let failure = first_failure(Flaw::NeverRetries, 200).failure;
    assert!(matches!(failure, Some(Failure::Liveness(_))), "{failure:?}");
}

#[test]
fn an_assertion_is_a_failure_of_its_own_and_names_its_place() {
    let report = first_failure(Flaw::Asserts, 200);
    let Some(Failure::Panic(what)) = &report.failure else { panic!("{:?}", report.failure) };
    assert!(what.contains("more numbers than expected") && what.contains("toys/mod.rs"), "{what}");
    let explained = report.explain("quorate sim keeper");
    let line = format!("repeat: quorate sim keeper --seed {} --trace --shrink", report.plan.seed);
    assert_eq!(explained.lines().last(), Some(&*line));
}

#[test]
fn chance_from_outside_is_caught() {
    let plan = Plan::draw(&profile(), 1, &Overrides::default());
    let report = run_twice(&plan, &keepers(Flaw::Unseeded));
    assert!(matches!(&report.failure, Some(Failure::Determinism(what)) if what.contains("part here")));
    assert!(report.explain("quorate sim keeper").ends_with("--seed 1 --twice --trace --shrink"));
}

#[test]
fn missed_floors_are_a_failure() {
    let mut profile = profile();
    (profile.floors, profile.floors_seeds) = (vec![("keeper.never", 1)], 3);
    let summary = run_many(&profile, &Batch::of(0..3), &keepers(Flaw::None), &|_| ());
    let Some(Failure::Coverage(what)) = summary.coverage_failure else { panic!("no coverage failure") };
    assert!(what.contains("keeper.never was hit 0 times, not 1"), "{what}");
}

#[test]
fn shrinking_shrinks_and_the_shrunk_case_fails_by_its_flags() {
    let runs = keepers(Flaw::AcksEarly);
    let report = first_failure(Flaw::AcksEarly, 200);
    let shrunk = shrink(&profile(), &report, 400, &runs);
    let (large, small) = (&report.plan, &shrunk.report.plan);
    assert!(small.faults.iter().count() <= 3 && large.faults.iter().count() > 3, "{shrunk}");
    assert!(small.safety <= large.safety && small.world.nodes <= large.world.nodes, "{shrunk}");
    let crashing = FaultSet::of(&[Fault::Crash, Fault::CrashAll]);
    assert_ne!(small.faults.and(crashing), FaultSet::NONE, "{shrunk}: it needs a crash");
    // What a person would type.
    let flags = small.overrides.to_string();
    let overrides = Overrides::parse(flags.split(' ')).expect("flags are read as they are written");
    let again = runs(&Plan::draw(&profile(), small.seed, &overrides).traced(TraceLevel::Keep));
    assert_eq!(again.failure, shrunk.report.failure);
    assert!(again.lines.iter().any(|line| line.contains("BROKEN")));
}

#[test]
#[should_panic(expected = "nothing to shrink")]
fn a_run_that_passed_does_not_shrink() {
    let runs = keepers(Flaw::None);
    let report = runs(&Plan::draw(&profile(), 1, &Overrides::default()));
    shrink(&profile(), &report, 10, &runs);
}

#[test]
fn every_fault_strikes_and_losses_stay_within_bounds() {
    let mut profile = Profile::new("probes");
    profile.faults = FaultSet::ALL;
    profile.floors = Fault::ALL
        .iter()
        .filter(|fault| {
            !matches!(fault, Fault::Loss | Fault::Duplicate | Fault::Reorder | Fault::Tail | Fault::Drift)
        })
        .map(|fault| (fault.mark(), 5))
        .chain([("sim.disk.lost", 20), ("sim.pause", 5), ("probe.full", 5), ("probe.room", 5)])
        .collect();
    profile.floors_seeds = 60;
    let probes = |plan: &Plan| run(plan, |_| Probes { replace: true, ..Probes::default() });
    let summary = run_many(&profile, &Batch { twice: true, ..Batch::of(0..60) }, &probes, &|report| {
        let lost = report.coverage.marks.count("sim.disk.lost");
        assert!(lost <= 2, "a minority of five at most, not {lost}");
    });
    summary.expect_success("probes");
    // A harness that can bear no loss is asked first.
    let probes = |plan: &Plan| run(plan, |_| Probes { keep_disks: true, ..Probes::default() });
    profile.floors.clear();
    let summary = run_many(&profile, &Batch::of(0..60), &probes, &|_| ());
    assert_eq!(summary.coverage.marks.count("sim.disk.lost"), 0);
}
