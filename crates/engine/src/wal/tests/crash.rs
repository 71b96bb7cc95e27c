//! Power losses and failing calls at every point of random schedules.

use super::*;
use crate::testing::{Crash, Fault};

/// Segments of several blocks, so that what is written durably ends in others than it begins in.
fn try_open(files: &MemoryFiles) -> Result<(Wal, Recovery), OpenError> {
    Wal::open_on(Arc::new(files.clone()), dir(), Options { segment_bytes: 16384, ..options() })
}

fn open(files: &MemoryFiles) -> (Wal, Recovery) {
    try_open(files).unwrap_or_else(|error| panic!("{error}"))
}

/// What the owner of a log knows when its node stops.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    synced: u64,
    appended: u64,
    discarded: u64,
}

/// Does something random with the log; stops at the first error.
fn step(wal: &mut Wal, rng: &mut Rng, known: &mut Known) -> std::io::Result<()> {
    wal.write_durably(rng.chance(1, 2));
    match rng.below(12) {
        0..=3 => {
            for _ in 0..=rng.below(6) {
                known.appended = append(wal).0;
            }
        }
        4..=5 => wal.write()?,
        6..=8 => {
            wal.write()?;
            wal.sync()?;
        }
        9 => wal.settle()?,
        10 => {
            wal.prepare()?;
        }
        _ => {
            let before = wal.synced().0.saturating_sub(rng.below(60));
            known.discarded = known.discarded.max(before);
            wal.discard(Position(before))?;
        }
    }
    known.synced = wal.synced().0;
    Ok(())
}

/// Whatever was left, the log opens with all that was synced and nothing that was never appended.
fn survives(files: &MemoryFiles, known: Known, what: &str) -> (Wal, u64) {
    let (wal, recovery) = try_open(files).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (first, last) = (recovery.next_position().0, recovery.last_position().0);
    assert!(last >= known.synced, "{what}: {last} of {known:?}");
    assert!(last <= known.appended, "{what}: {last} of {known:?}");
    assert!(first <= known.discarded.max(1), "{what}: begins with {first} of {known:?}");
    assert_eq!(records(recovery), (first..=last).collect::<Vec<_>>(), "{what}");
    assert_eq!((wal.next_position().0, wal.synced().0), (last + 1, last), "{what}");
    (wal, last)
}

const IMAGES: [Crash; 5] = [Crash::Live, Crash::Durable, Crash::Torn, Crash::Torn, Crash::Torn];

#[test]
fn every_crash_image_of_every_schedule_keeps_what_was_synced() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let files = MemoryFiles::new();
        let (mut wal, _) = open(&files);
        let mut known = Known::default();
        for turn in 0..80 {
            step(&mut wal, &mut rng, &mut known).unwrap();
            for crash in IMAGES {
                let what = format!("seed {seed}, turn {turn}, {crash:?}");
                survives(&files.after(crash, &mut rng), known, &what);
            }
        }
    }
}

/// Crash, recover, go on, crash again: what an earlier life left behind never comes back.
#[test]
fn many_lives_of_one_log() {
    for seed in 0..150 {
        let mut rng = Rng::new(1000 + seed);
        let mut files = MemoryFiles::new();
        let mut known = Known::default();
        for life in 0..12 {
            let what = format!("seed {seed}, life {life}");
            let (mut wal, last) = survives(&files, known, &what);
            (known.appended, known.synced) = (last, last);
            for _ in 0..rng.below(30) {
                step(&mut wal, &mut rng, &mut known).unwrap();
            }
            let crash = *rng.pick(&IMAGES).unwrap();
            files = files.after(crash, &mut rng);
        }
    }
}

/// Records of different lives have different contents at equal positions: none may appear among those of another.
#[test]
fn a_dropped_tail_never_comes_back() {
    for seed in 0..300 {
        let mut rng = Rng::new(5000 + seed);
        let mut files = MemoryFiles::new();
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for life in 0..8_u64 {
            let (mut wal, recovery) = open(&files);
            let found: Vec<(u64, u64)> = recovery
                .map(|record| {
                    let (position, bytes) = record.unwrap();
                    (position.0, u64::from_le_bytes(bytes[..8].try_into().unwrap()))
                })
                .collect();
            assert_eq!(found[..], expected[..found.len()], "seed {seed}, life {life}");
            expected = found;
            for _ in 0..=rng.below(5) {
                for _ in 0..=rng.below(8) {
                    let length = rng.below(300) as usize;
                    let position = wal.append(|mut buffer| {
                        buffer.extend_from_slice(&life.to_le_bytes());
                        buffer.resize(buffer.len() + length, 1);
                        buffer
                    });
                    expected.push((position.0, life));
                }
                wal.write().unwrap();
                if rng.chance(1, 2) {
                    wal.sync().unwrap();
                }
            }
            let least = wal.synced().0 as usize;
            files = files.after(Crash::Torn, &mut rng);
            let (_, recovery) = open(&files.after(Crash::Live, &mut rng));
            assert!(recovery.last_position().0 as usize >= least, "seed {seed}, life {life}");
        }
    }
}

fn run(files: &MemoryFiles, seed: u64) -> Known {
    let mut rng = Rng::new(seed);
    let mut known = Known::default();
    let Ok((mut wal, _)) = try_open(files) else { return known };
    for _ in 0..60 {
        if step(&mut wal, &mut rng, &mut known).is_err() {
            assert!(wal.poisoned().is_some());
            wal.write().unwrap_err();
            known.synced = known.synced.max(wal.synced().0);
            break;
        }
    }
    known
}

#[test]
fn any_call_may_fail() {
    for seed in 0..6 {
        let calm = MemoryFiles::new();
        run(&calm, seed);
        for nth in 0..calm.calls() {
            for fault in [Fault::Dead, Fault::Once] {
                let files = MemoryFiles::new();
                files.fail(nth, fault);
                let known = run(&files, seed);
                let mut rng = Rng::new(nth);
                for crash in IMAGES {
                    let what = format!("seed {seed}, call {nth}, {fault:?}, {crash:?}");
                    survives(&files.after(crash, &mut rng), known, &what);
                }
                // The process restarts on a system whose sync failed and which believes its pages are clean; later
                // the power fails. What the restarted log said it had must really have been on disk.
                let alive = files.after(Crash::Live, &mut rng);
                let what = format!("seed {seed}, call {nth}, {fault:?}, twice");
                let (_, last) = survives(&alive, known, &what);
                survives(&alive.after(Crash::Durable, &mut rng), Known { synced: last, ..known }, &what);
            }
        }
    }
}

#[test]
fn recovery_itself_may_fail_or_crash_anywhere() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let files = MemoryFiles::new();
        let known = run(&files, 100 + seed);
        let torn = files.after(Crash::Torn, &mut rng);
        let probe = torn.after(Crash::Live, &mut rng);
        survives(&probe, known, "whole");
        for nth in 0..probe.calls() {
            let again = torn.after(Crash::Live, &mut rng);
            again.fail(nth, Fault::Dead);
            if let Ok((_, recovery)) = try_open(&again) {
                recovery.for_each(drop);
            }
            for crash in IMAGES {
                survives(
                    &again.after(crash, &mut rng),
                    known,
                    &format!("seed {seed}, call {nth}, {crash:?}"),
                );
            }
        }
    }
}
