//! `golden`: runs the tests of every crate with golden files so that they write what they would otherwise compare.
//!
//! A test with golden files compares by default and writes when the environment variable `QUORATE_GOLDEN` is `1`.

use std::collections::BTreeSet;
use std::process::Command as Process;

use anyhow::{Context, Result};

use super::{Command, cargo, no_arguments, root, stage};
use crate::tidy::Tree;

pub(super) const COMMAND: Command =
    Command { name: "golden", about: "rewrite transcripts and other golden files", run };

pub(super) fn run(rest: &[String]) -> Result<()> {
    no_arguments(rest)?;
    let tree = Tree::load(&root(), cargo())?;
    let packages = packages_with_testdata(&tree);
    if packages.is_empty() {
        println!("no crate has a testdata folder");
        return Ok(());
    }
    let mut test = cargo();
    test.env("QUORATE_GOLDEN", "1").arg("test");
    for package in &packages {
        test.args(["--package", package]);
    }
    stage("golden", &mut test)?;
    println!("changed golden files, to be read before they are committed:");
    let status = Process::new("git")
        .current_dir(root())
        .args(["status", "--short", "--", "*testdata*"])
        .status()
        .context("could not start git")?;
    anyhow::ensure!(status.success(), "git status failed");
    Ok(())
}

fn packages_with_testdata(tree: &Tree) -> BTreeSet<&str> {
    let has = |folder: &str| {
        let start = format!("{folder}/");
        tree.files.keys().any(|path| path.starts_with(&start) && path.contains("/testdata/"))
    };
    tree.packages.iter().filter(|package| has(&package.folder)).map(|package| package.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_with_golden_files_are_run() {
        let mut tree = Tree::of(&[("crates/a/testdata/x.txt", ""), ("crates/ab/src/lib.rs", "")]);
        tree.add_package("a", "crates/a", &[]);
        tree.add_package("ab", "crates/ab", &[]);
        assert_eq!(packages_with_testdata(&tree), BTreeSet::from(["a"]));
    }
}
