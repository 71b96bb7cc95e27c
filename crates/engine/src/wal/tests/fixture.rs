//! Logs that older programs wrote are opened by this one.

use super::*;

/// `testdata/v1` holds the log that the first format's program wrote for cluster 7, node 9: 40 records in batches
/// of 5 and a mark, over several segments. To make it anew after a new format: `ENGINE_FIXTURE=vN cargo test`.
#[test]
fn format_1_is_read() {
    let files = MemoryFiles::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v1");
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // Zeros at the end are not kept in the repository.
        let mut content = std::fs::read(entry.path()).unwrap();
        content.resize(8192, 0);
        files.put(&dir().join(name), &content);
    }
    let (mut wal, recovery) = open(&files);
    assert!(!recovery.torn());
    assert_eq!(records(recovery), (1..=40).collect::<Vec<_>>());
    assert_eq!(commit(&mut wal, 1), Position(41));
}

#[test]
fn what_is_written_today_is_what_the_newest_fixture_holds() {
    let files = MemoryFiles::new();
    let (mut wal, _) = open(&files);
    for _ in 0..8 {
        commit(&mut wal, 5);
    }
    wal.settle().unwrap();
    let fixture = std::env::var("ENGINE_FIXTURE").ok();
    let version = fixture.clone().unwrap_or_else(|| format!("v{}", super::super::FORMAT_VERSION));
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(version);
    for name in segments(&files) {
        let content = files.content(&dir().join(&name)).unwrap();
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if fixture.is_some() {
            std::fs::create_dir_all(&to).unwrap();
            std::fs::write(to.join(&name), &content[..used]).unwrap();
        }
        assert_eq!(std::fs::read(to.join(&name)).unwrap(), content[..used], "{name}");
    }
}
