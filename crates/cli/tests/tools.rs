//! Commands that need no cluster: check, sim, config, completions.

mod common;

use common::run;

const GOOD: &str = r#"{"client":1,"start":1,"end":2,"outcome":"ok","ops":[{"f":"write","key":"x","value":"1"}]}
{"client":2,"start":3,"end":4,"outcome":"ok","ops":[{"f":"read","key":"x","result":"1"}]}
"#;

#[test]
fn histories_are_judged_by_exit_code() {
    let temp = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = temp.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let good = write("good", GOOD);
    let bad = write("bad", &GOOD.replace(r#""result":"1""#, r#""result":null"#));
    let nonsense = write("nonsense", "what?\n");
    assert!(run(&["check", &good]).ok().contains("linear: ok"));
    let judged = run(&["check", "--for", "linear", &good, &bad]);
    assert_eq!(judged.code, 1, "{}", judged.err);
    assert!(judged.out.contains("VIOLATED"), "{}", judged.out);
    run(&["check", &nonsense]).fails(2, "line 1");
    run(&["check", "/no/such/file"]).fails(2, "/no/such/file");
    run(&["check", "--for", "beauty", &good]).fails(2, "there are linear");
    let told = run(&["check", "--output", "json", &good]).json();
    assert_eq!(told[0]["verdict"], "ok");
}

#[test]
fn simulations_run_and_repeat() {
    let listed = run(&["sim", "list"]).ok();
    assert!(listed.lines().any(|line| line == "replog"), "{listed}");
    let words = ["sim", "replog", "--seed", "3", "--safety-ms", "300"];
    let (one, other) = (run(&words).ok(), run(&words).ok());
    assert!(one.contains("passed") && one == other, "{one}{other}");
    run(&["sim", "replog", "--seeds", "0..3", "--safety-ms", "300", "--twice", "--threads", "2"]).ok();
    run(&["sim", "nothing"]).fails(2, "there are");
    run(&["sim", "replog", "--seeds", "5..1"]).fails(2, "A..B");
    run(&["sim", "replog", "--faults", "boredom"]).fails(2, "boredom");
}

#[test]
fn configuration_files_are_printed_and_checked() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("quorate.toml");
    let file = path.to_str().expect("UTF-8");
    std::fs::write(&path, run(&["config", "default"]).ok()).expect("written");
    let checked = run(&["config", "check", file]).ok();
    assert!(checked.contains("a new cluster has 32 buckets in groups of about 3 nodes"), "{checked}");
    std::fs::write(&path, "[cluster]\ntopology = \"view\"\n").expect("written");
    let checked = run(&["config", "check", file]).ok();
    assert!(checked.contains("a new cluster has 1 buckets, all on every node"), "{checked}");
    std::fs::write(&path, "[cluster]\njoin = [\"h:1\"]\n").expect("written");
    assert!(run(&["config", "check", file]).ok().contains("learns its shape"));
    std::fs::write(&path, "[limits]\nidle_ms = 7\n").expect("written");
    assert!(run(&["config", "check", file, "--print"]).ok().contains("idle_ms = 7"));
    std::fs::write(&path, "[limits]\nidle = 7\n[nowhere]\n").expect("written");
    let ended = run(&["config", "check", file]);
    assert!(ended.err.contains("limits.idle") && ended.err.contains("nowhere"), "{}", ended.err);
    ended.fails(78, "2 mistake");
}

#[test]
fn help_lists_exit_codes_and_completions_are_printed() {
    assert!(run(&["--help"]).ok().contains("Exit codes"));
    for command in ["check", "sim", "bench"] {
        assert!(run(&[command, "--help"]).ok().contains("Exit codes"), "{command}");
    }
    assert!(run(&["start", "--help"]).ok().contains("--bootstrap as one of the first members"));
    assert!(run(&["up", "--help"]).ok().contains("Without --detach"));
    assert!(run(&["completions", "bash"]).ok().contains("quorate"));
    run(&["frobnicate"]).fails(2, "unrecognized subcommand");
}
