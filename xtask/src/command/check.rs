//! `check`: the gate before a change is handed in. Reads only; `fix` is its writing counterpart.

use anyhow::Result;

use super::{Command, cargo, no_arguments, stage, tidy};

pub(super) const COMMAND: Command =
    Command { name: "check", about: "format, lints, house rules and all tests (reads only)", run };

fn run(rest: &[String]) -> Result<()> {
    no_arguments(rest)?;
    stage("format", cargo().args(["fmt", "--all", "--check"]))?;
    println!("== tidy");
    tidy::run(&[])?;
    stage("clippy", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    stage("test", cargo().args(["test", "--workspace"]))
}
