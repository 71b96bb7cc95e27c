use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

fn tiny() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        table_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        // Tests see a failure as a panic.
        on_fatal: Arc::new(|_| {}),
        ..Options::default()
    }
}

fn open(path: &Path) -> LsmStore {
    LsmStore::open(path, tiny()).unwrap()
}

fn put(store: &mut LsmStore, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Sequence {
    let mut batch = Batch::default();
    batch.put(key, value);
    store.apply(batch)
}

/// Polls until everything applied so far is durable.
fn settle(store: &mut LsmStore) {
    store.checkpoint();
    wait_until(|| store.durable() == store.sequence());
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "not within a minute");
        std::thread::yield_now();
    }
}

#[test]
fn conforms() {
    let temp = tempfile::tempdir().unwrap();
    let count = AtomicU64::new(0);
    quorate_store::conformance::check(|| {
        let name = count.fetch_add(1, Ordering::Relaxed).to_string();
        open(&temp.path().join(name))
    });
}

#[test]
fn empty_batches_and_deletions_become_durable_as_well() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    store.apply(Batch::default());
    settle(&mut store);
    drop(store);
    let mut store = open(temp.path());
    assert_eq!((store.sequence(), store.durable()), (1, 1));
    put(&mut store, "a", "1");
    let mut batch = Batch::default();
    batch.delete("a");
    store.apply(batch);
    settle(&mut store);
    store.tree.major_compact(u64::MAX, SeqNo::MAX).unwrap();
    drop(store);
    let store = open(temp.path());
    assert_eq!((store.sequence(), store.get(b"a")), (3, None));
    assert_eq!(store.scan(Scan::range(b"", None)), vec![], "the marker is not shown");
    assert_eq!(store.scan(Scan::range(b"", None).reversed().rows(1)), vec![]);
}

#[test]
fn keys_and_values_of_all_sizes() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let rows: Vec<(Vec<u8>, Vec<u8>)> = [1, 2, 20, 21, 2048, 2049, 65_535, 300_000]
        .into_iter()
        .map(|size| (vec![b'k'; size.min(KEY_BYTES_MAX - 1)], vec![b'v'; size]))
        .collect();
    for (key, value) in &rows {
        put(&mut store, key.clone(), value.clone());
    }
    for round in 0..2 {
        for (key, value) in &rows[..7] {
            let newest = rows.iter().rev().find(|(other, _)| other == key).map(|(_, value)| value);
            assert_eq!(
                store.get(key).as_deref(),
                newest.map(|value| &value[..]),
                "{} bytes, round {round}",
                value.len()
            );
        }
        settle(&mut store);
    }
}

/// The process dies at random moments: what comes back is what a prefix of the batches made, and at least what was
/// said to be durable.
#[test]
fn a_crash_leaves_a_prefix_of_the_batches() {
    for seed in 0..8 {
        let temp = tempfile::tempdir().unwrap();
        let mut rng = quorate_kernel::Rng::new(seed);
        let mut history: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = vec![BTreeMap::new()];
        for _life in 0..6 {
            let mut store = open(temp.path());
            let survived = store.sequence();
            assert_eq!(survived, store.durable());
            history.truncate(survived as usize + 1);
            let rows: BTreeMap<Vec<u8>, Vec<u8>> = store
                .scan(Scan::range(b"", None))
                .into_iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect();
            assert!(rows == history[survived as usize], "seed {seed}: not the state after batch {survived}");
            for _ in 0..rng.below(400) {
                let mut rows = history[history.len() - 1].clone();
                let mut batch = BTreeMap::new();
                for _ in 0..rng.below(8) {
                    let key = format!("{:03}", rng.below(300)).into_bytes();
                    let value = vec![rng.next_u64() as u8; rng.below(200) as usize];
                    batch.insert(key, rng.chance(3, 4).then_some(value));
                }
                let mut writes = Batch::default();
                for (key, value) in batch {
                    match value {
                        Some(value) => {
                            writes.put(key.clone(), value.clone());
                            rows.insert(key, value);
                        }
                        None => {
                            writes.delete(key.clone());
                            rows.remove(&key);
                        }
                    }
                }
                store.apply(writes);
                history.push(rows);
                if rng.chance(1, 100) {
                    store.checkpoint();
                }
            }
            let durable = store.durable();
            if rng.chance(1, 2) {
                settle(&mut store);
            }
            drop(store);
            assert!(open(temp.path()).sequence() >= durable, "seed {seed}");
        }
    }
}

/// Many more rows than are read of a layer at a time, spread over all layers, by scans of every kind.
#[test]
fn scans_over_all_layers_agree_with_a_map() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = LsmStore::open(temp.path(), Options { memtable_bytes: 1 << 20, ..tiny() }).unwrap();
    let mut rng = quorate_kernel::Rng::new(3);
    let mut model: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    let mut snapshot = None;
    for round in 0..6_u32 {
        for _ in 0..400 {
            let key = Bytes::from(format!("{:04}", rng.below(1280)));
            let mut batch = Batch::default();
            if rng.chance(2, 3) {
                let value = Bytes::from(format!("{round} {key:?}"));
                batch.put(key.clone(), value.clone());
                model.insert(key, value);
            } else {
                batch.delete(key.clone());
                model.remove(&key);
            }
            store.apply(batch);
        }
        match round {
            0 | 1 => settle(&mut store),
            2 | 3 => store.checkpoint(),
            4 => snapshot = Some((store.snapshot(), model.clone())),
            _ => {}
        }
    }
    let (snapshot, frozen) = snapshot.unwrap();
    for turn in 0..3000 {
        let mut bound = || format!("{:04}", rng.below(20) * 64);
        let (start, end) = (bound(), bound());
        let mut scan = Scan::range(start.as_bytes(), rng.chance(3, 4).then_some(end.as_bytes()));
        scan.reverse = rng.chance(1, 2);
        scan.rows_max = if rng.chance(1, 2) { rng.below(300) as usize } else { usize::MAX };
        scan.bytes_max = if rng.chance(1, 2) { rng.below(6000) as usize } else { usize::MAX };
        assert!(store.scan(scan) == expected(&model, scan), "turn {turn}: {scan:?}");
        assert!(
            store.scan_snapshot(snapshot, scan) == Some(expected(&frozen, scan)),
            "turn {turn}: {scan:?}"
        );
    }
}

fn expected(model: &BTreeMap<Bytes, Bytes>, scan: Scan<'_>) -> Vec<Row> {
    let inside =
        |row: &(&Bytes, &Bytes)| row.0[..] >= *scan.start && scan.end.is_none_or(|end| row.0[..] < *end);
    let mut rows: Vec<Row> =
        model.iter().filter(inside).map(|(key, value)| (key.clone(), value.clone())).collect();
    if scan.reverse {
        rows.reverse();
    }
    rows.truncate(scan.rows_max);
    let mut bytes = 0;
    let kept = rows.iter().take_while(|(key, value)| {
        let more = bytes < scan.bytes_max;
        bytes += key.len() + value.len();
        more
    });
    // One row comes whatever the limit of bytes.
    let kept = kept.count().max(usize::from(!rows.is_empty()));
    rows.truncate(kept);
    rows
}

#[test]
fn a_short_value_does_not_keep_its_message() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let message = Bytes::from(vec![1; 1000]);
    put(&mut store, "key", message.slice(10..20));
    assert!(message.is_unique());
    assert_eq!(store.get(b"key"), Some(Bytes::from(vec![1; 10])));
}

#[test]
fn a_snapshot_outlives_writing_out_and_merging() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let all = Scan::range(b"", None);
    for key in 0..500_u32 {
        put(&mut store, key.to_be_bytes().to_vec(), "old");
    }
    let snapshot = store.snapshot();
    let before = store.scan(all);
    for round in 0..5_u32 {
        for key in 0..500_u32 {
            put(&mut store, key.to_be_bytes().to_vec(), vec![round as u8; 200]);
        }
        settle(&mut store);
        store.tree.major_compact(u64::MAX, SeqNo::MAX).unwrap();
        assert_eq!(store.scan_snapshot(snapshot, all).as_ref(), Some(&before));
    }
    let reversed: Vec<Row> = before.into_iter().rev().take(3).collect();
    assert_eq!(store.scan_snapshot(snapshot, all.reversed().rows(3)), Some(reversed));
    assert!(store.tree.version_free_list_len() <= 1, "snapshots do not pile up old file lists");
    store.release(snapshot);
    assert_eq!(store.scan_snapshot(snapshot, all), None);
}

/// Each of a few small tables would have the tree write all it has anew.
#[test]
fn snapshots_write_nothing_out_until_they_are_many() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let all = Scan::range(b"", None);
    let mut snapshots = Vec::new();
    for round in 0..super::KEPT_MAX as u8 {
        put(&mut store, b"same".to_vec(), vec![round]);
        put(&mut store, vec![round + 1], "one of its own");
        snapshots.push((store.snapshot(), store.scan(all)));
        assert_eq!((store.shared.sealed_count(), store.durable()), (0, 0));
        assert_eq!(store.get(b"same"), Some(Bytes::copy_from_slice(&[round])));
    }
    let is_as_it_was = |store: &LsmStore| {
        snapshots.iter().all(|(id, rows)| store.scan_snapshot(*id, all).as_ref() == Some(rows))
    };
    assert!(is_as_it_was(&store));
    settle(&mut store);
    assert_eq!(store.tree.table_count(), 1, "all of it");
    assert!(is_as_it_was(&store), "the newest of each row is there, and the older where they are looked at");
    for round in 0..=super::KEPT_MAX as u8 {
        put(&mut store, b"same".to_vec(), vec![round]);
        snapshots.push((store.snapshot(), store.scan(all)));
    }
    assert_eq!(store.kept, 0, "reads look into no more than these");
    drop(store);
    let store = open(temp.path());
    assert!(store.durable() >= 2 * super::KEPT_MAX as u64);
    assert!(store.get(b"same").is_some());
}

#[test]
fn memory_and_runs_stay_bounded_under_load() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    for batch in 0..20_000_u32 {
        put(&mut store, (batch % 5000).to_be_bytes().to_vec(), vec![7; 100]);
        assert!(store.shared.sealed_count() <= store.options.sealed_max);
        assert!(store.shared.runs() <= store.options.runs_max);
    }
    settle(&mut store);
    assert_eq!(store.scan(Scan::range(b"", None)).len(), 5000);
    assert!(store.size_bytes() < 8 << 20, "{}", store.size_bytes());
}

/// Damages each table in turn: either the damage is met and stops the node, or what is served is right.
#[test]
fn damaged_tables_are_never_served() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    for key in 0..2000_u32 {
        put(&mut store, key.to_be_bytes().to_vec(), key.to_le_bytes().to_vec());
    }
    settle(&mut store);
    drop(store);
    let expected: Vec<Row> = (0..2000_u32)
        .map(|key| (Bytes::from(key.to_be_bytes().to_vec()), Bytes::from(key.to_le_bytes().to_vec())))
        .collect();
    let tables: Vec<PathBuf> =
        std::fs::read_dir(temp.path().join("tables")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!tables.is_empty());
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (mut stopped, mut unharmed) = (0, 0);
    for table in tables {
        let good = std::fs::read(&table).unwrap();
        for at in (0..good.len()).step_by(good.len() / 60 + 1) {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            std::fs::write(&table, &bad).unwrap();
            let read = std::panic::catch_unwind(|| {
                let store = LsmStore::open(temp.path(), tiny()).map_err(|error| error.to_string())?;
                let gets: Vec<Row> =
                    expected.iter().filter_map(|(key, _)| Some((key.clone(), store.get(key)?))).collect();
                Ok::<_, String>((store.scan(Scan::range(b"", None)), gets))
            });
            match read {
                Ok(Ok((scanned, gets))) => {
                    assert!(scanned == expected && gets == expected, "byte {at} of {}", table.display());
                    unharmed += 1;
                }
                Ok(Err(error)) => {
                    assert!(error.contains("the store in"), "{error}");
                    stopped += 1;
                }
                Err(_) => stopped += 1,
            }
        }
        std::fs::write(&table, good).unwrap();
    }
    std::panic::set_hook(hook);
    assert!(stopped > unharmed, "{stopped} stopped, {unharmed} unharmed");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let error = LsmStore::open(temp.path(), Options { sealed_max: 0, ..tiny() }).unwrap_err();
    assert!(error.to_string().contains("sealed_max is 0"), "{error}");
}

#[test]
#[should_panic = "the store keeps this key for itself"]
fn the_marker_is_no_key() {
    let temp = tempfile::tempdir().unwrap();
    put(&mut open(temp.path()), MARKER, "x");
}

#[test]
fn a_failing_thread_stops_the_node() {
    let temp = tempfile::tempdir().unwrap();
    let said = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hear = said.clone();
    let on_fatal: OnFatal = Arc::new(move |reason| hear.lock().unwrap().push(reason.to_owned()));
    let mut store = LsmStore::open(temp.path(), Options { on_fatal, ..tiny() }).unwrap();
    put(&mut store, "a", "1");
    std::fs::remove_dir_all(temp.path().join("tables")).unwrap();
    store.checkpoint();
    wait_until(|| !said.lock().unwrap().is_empty());
    assert!(said.lock().unwrap()[0].contains("failed (flush)"), "{said:?}");
    assert_eq!(store.durable(), 0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| put(&mut store, "b", "1")));
    assert!(result.is_err(), "no more batches after that");
}

/// Needs a file system of its own of some 48 MiB, named by `ENGINE_SMALL_FS`, and does nothing without; as root, for
/// example: `unshare -m sh -c 'mount -t tmpfs -o size=48m none /mnt && ENGINE_SMALL_FS=/mnt cargo test full'`.
#[test]
fn on_a_full_disk_it_waits_and_goes_on() {
    let Some(small) = std::env::var_os("ENGINE_SMALL_FS").map(PathBuf::from) else { return };
    let mut store = open(&small.join("store"));
    let ballast = small.join("ballast");
    std::fs::write(&ballast, vec![1; 38 << 20]).unwrap();
    let mut count = 0_u32;
    while store.pressure() != Pressure::Full {
        put(&mut store, count.to_be_bytes().to_vec(), vec![2; 1000]);
        count += 1;
        assert!(count < 60_000, "the disk never filled up");
    }
    for _ in 0..500 {
        put(&mut store, count.to_be_bytes().to_vec(), vec![2; 1000]);
        count += 1;
    }
    assert!(store.durable() < store.sequence());
    assert_eq!(store.scan(Scan::range(b"", None)).len(), count as usize, "reads go on");
    std::fs::remove_file(&ballast).unwrap();
    settle(&mut store);
    assert_eq!(store.pressure(), Pressure::None);
    drop(store);
    assert_eq!(open(&small.join("store")).scan(Scan::range(b"", None)).len(), count as usize);
}
