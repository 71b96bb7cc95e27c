//! Tells the program which sources it was built from, so that results can say what they measured.

use std::path::Path;
use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=QUORATE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Grows with every commit; absent in a copy without history.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| Path::new(path).exists());
    if let Some(log) = log {
        println!("cargo::rerun-if-changed={log}");
    }
}
