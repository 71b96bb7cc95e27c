//! `fix`: rewrites what can be rewritten without thought. Look at the difference before committing it.

use anyhow::Result;

use super::{Command, cargo, golden, no_arguments, stage};

pub(super) const COMMAND: Command =
    Command { name: "fix", about: "format all code and rewrite the golden files", run };

fn run(rest: &[String]) -> Result<()> {
    no_arguments(rest)?;
    stage("format", cargo().args(["fmt", "--all"]))?;
    golden::run(&[])
}
