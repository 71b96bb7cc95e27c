//! Chores of the project: `cargo xtask <command>`.
//!
//! This crate ships nothing and nothing depends on it. One file a command under `command/`, one file a house rule
//! under `tidy/`.

mod command;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let Some(command) = command::ALL.iter().find(|command| command.name == name) else {
        eprint!("{}", command::usage(&name));
        return ExitCode::from(2);
    };
    match (command.run)(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
