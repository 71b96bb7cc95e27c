//! Three nodes become five, then three again, none of them of the first three, while clients go on.

mod common;

use common::{Ended, quorate};
use serde_json::Value;

#[test]
fn every_node_is_replaced_under_load() {
    let words =
        ["torture", "members", "--nodes", "3", "--grow", "2", "--ballast", "20000", "--blackout", "false"];
    let ended = Ended::of(quorate(&words).args(["--output", "json"]).output().expect("the program starts"));
    eprintln!("{}", ended.err);
    let result: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}\n{}", ended.out, ended.err));
    assert_eq!(ended.code, 0, "{result:#}");
    // A client of a node that leaves is told so, knows that nothing has happened, and goes on elsewhere.
    let clients = &result["clients"];
    assert_eq!((&clients["nonsense"], &clients["unknown"]), (&0.into(), &0.into()), "{clients:#}");
    for verdict in result["clients"]["verdicts"].as_array().expect("verdicts") {
        assert_eq!(verdict["verdict"], "ok", "{verdict:#}");
    }
    let steps = result["details"]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 7);
    for step in steps {
        assert!(step["gap_ms"].as_u64().is_some_and(|ms| ms < 5_000), "{step}");
    }
}
