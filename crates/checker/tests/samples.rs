//! Each checker rejects the bad histories of its folder for the reason that they name, and accepts the good ones.

use std::fs;
use std::path::{Path, PathBuf};

use quorate_api::history::Check;
use quorate_checker::{History, Verdict, check};

fn samples(kind: &str, of: Check) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(kind).join(of.name());
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    assert!(paths.len() >= 2, "{} has samples", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("readable"))).collect()
}

#[test]
fn bad_histories_are_rejected_for_their_reason() {
    for of in Check::ALL {
        for (path, text) in samples("bad", of) {
            let shown = path.display();
            assert!(text.starts_with("# why: "), "{shown}: the first line says what is bad");
            let expected = text.lines().find_map(|line| line.strip_prefix("# expect: ")).expect("a name");
            let report = check(&History::read(text.as_bytes()).expect("well formed"), of);
            let Verdict::Violated(violations) = &report.verdict else { panic!("{shown}: {report}") };
            assert!(violations.iter().any(|violation| violation.name == expected), "{shown}: {report}");
            for violation in violations {
                assert!(!violation.lines.is_empty() && !violation.text.is_empty(), "{shown}: {report}");
            }
        }
    }
}

#[test]
fn good_histories_are_accepted() {
    for of in Check::ALL {
        for (path, text) in samples("good", of) {
            let report = check(&History::read(text.as_bytes()).expect("well formed"), of);
            assert!(report.is_ok(), "{}: {report}", path.display());
        }
    }
}

#[test]
fn nothing_to_compare_is_not_ok() {
    for of in [Check::Bank, Check::Cycle, Check::Durable] {
        let report = check(&History::default(), of);
        assert!(matches!(report.verdict, Verdict::GaveUp(_)), "{report}");
    }
}

/// Its element was where it came from when one list was read, and where it went when the other was.
#[test]
fn a_move_between_two_last_looks_is_nobodys_fault() {
    let judge = |looks: &[String]| {
        let text = [
            r#"{"client": 1, "start": 0, "end": 1, "outcome": "ok", "ops": [{"f": "append", "key": "l", "value": "a"}]}"#,
            r#"{"client": 1, "start": 2, "end": null, "outcome": "info", "ops": [{"f": "move", "key": "l", "to": "m"}]}"#,
            &looks.join("\n"),
        ];
        check(&History::read(text.join("\n").as_bytes()).expect("well formed"), Check::Durable)
    };
    let list = |key: &str, values: &str| format!(r#"{{"f": "list", "key": "{key}", "result": [{values}]}}"#);
    let look = |at: u64, lists: &[String]| {
        let ops = lists.join(", ");
        format!(
            r#"{{"client": 9, "start": {at}, "end": {at}, "outcome": "ok", "ops": [{ops}], "final": true}}"#
        )
    };
    let (here, there) = (list("l", r#""a""#), list("m", r#""a""#));
    let torn = judge(&[look(10, std::slice::from_ref(&here)), look(12, std::slice::from_ref(&there))]);
    assert!(matches!(&torn.verdict, Verdict::GaveUp(why) if why.contains("one transaction")), "{torn}");
    let twice = judge(&[look(10, &[here, there.clone()])]);
    assert!(matches!(twice.verdict, Verdict::Violated(_)), "at one moment it is in one place: {twice}");
    assert!(judge(&[look(10, &[list("l", ""), there])]).is_ok());
}
