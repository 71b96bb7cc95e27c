//! The commands, one file each; a new one is a file and a line in [`ALL`].

mod check;
mod fix;
mod golden;
mod tidy;

use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// A command of `cargo xtask`.
pub(crate) struct Command {
    /// What the user types.
    pub(crate) name: &'static str,
    /// One line for the usage text.
    pub(crate) about: &'static str,
    /// Runs it with the words after its name.
    pub(crate) run: fn(&[String]) -> Result<()>,
}

/// Every command, in the order of the usage text.
pub(crate) const ALL: &[Command] = &[tidy::COMMAND, check::COMMAND, fix::COMMAND, golden::COMMAND];

/// What is printed for an unknown or missing command.
pub(crate) fn usage(name: &str) -> String {
    let mut text = String::new();
    if !name.is_empty() {
        text.push_str(&format!("cargo xtask: there is no command `{name}`\n\n"));
    }
    text.push_str("usage: cargo xtask <command>\n\n");
    for command in ALL {
        text.push_str(&format!("  {:<8} {}\n", command.name, command.about));
    }
    text
}

/// The top folder of the workspace.
fn root() -> PathBuf {
    // As cargo says it now: a build folder shared by two checkouts holds one program for both.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let own = PathBuf::from(own);
    own.parent().map(PathBuf::from).unwrap_or(own)
}

/// The cargo that started this program, so that toolchain overrides hold.
fn cargo() -> Process {
    let mut process = Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    process.current_dir(root());
    process
}

/// Refuses words a command does not know.
fn no_arguments(rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(word) => bail!("unexpected argument `{word}`; this command takes none"),
    }
}

/// Runs one step of a longer command, telling what runs and how long it took.
fn stage(name: &str, process: &mut Process) -> Result<()> {
    println!("== {name}");
    let began = Instant::now();
    let status = process.status().with_context(|| format!("could not start the stage `{name}`"))?;
    let seconds = began.elapsed().as_secs_f32();
    if !status.success() {
        bail!("the stage `{name}` failed after {seconds:.1} s ({status})");
    }
    println!("== {name}: ok, {seconds:.1} s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_text_names_every_command_and_the_wrong_word() {
        let text = usage("tidi");
        assert!(text.contains("no command `tidi`"));
        for command in ALL {
            assert!(text.contains(command.name) && text.contains(command.about));
        }
    }

    #[test]
    fn unknown_arguments_are_refused() {
        assert!(no_arguments(&[]).is_ok());
        assert!(no_arguments(&["--quick".into()]).is_err());
    }
}
