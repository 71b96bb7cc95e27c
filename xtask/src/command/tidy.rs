//! `tidy`: the house rules. Reads only.

use anyhow::{Result, bail};

use super::{Command, cargo, no_arguments, root};
use crate::tidy::{RULES, Tree};

pub(super) const COMMAND: Command =
    Command { name: "tidy", about: "check the house rules (reads only)", run };

pub(super) fn run(rest: &[String]) -> Result<()> {
    no_arguments(rest)?;
    let tree = Tree::load(&root(), cargo())?;
    let mut count = 0;
    for rule in RULES {
        for complaint in (rule.check)(&tree) {
            println!("{complaint} [{}]", rule.name);
            count += 1;
        }
    }
    if count > 0 {
        bail!("{count} complaint(s); xtask/src/tidy/ says what each rule is for");
    }
    println!("tidy: {} rules hold over {} files", RULES.len(), tree.files.len());
    Ok(())
}
