//! The `quorate` program: one node, a cluster on this machine, and everything an operator does with either.
//!
//! It is a thin layer: what a node does is in the other crates; here are the command line, processes and output.

mod admin;
mod args;
mod command;
mod deeds;
mod exit;
mod local;
mod output;
mod torture;
mod view;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};

/// A node allocates many small buffers that live for a few turns of its loop; see decision 0002.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("quorate: {error:#}");
            ExitCode::from(exit::code_of(&error))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let format = cli.output;
    let done = |()| ExitCode::SUCCESS;
    match cli.command {
        Command::Start(start) => command::start::run(*start).map(done),
        Command::Up(up) => command::local::up(up, format).map(done),
        Command::Down(local) => command::local::down(&local).map(done),
        Command::Kill(node) => command::local::kill(&node).map(done),
        Command::Revive(node) => command::local::revive(&node).map(done),
        Command::Status(status) => command::status::status(&status, format).map(done),
        Command::Nodes(target) => command::status::nodes(&target, format).map(done),
        Command::Node(node) => members::node(node).map(done),
        Command::Drain(drain) => members::drain(&drain).map(done),
        Command::Copies(copies) => command::copies::run(&copies, format).map(done),
        Command::Groups(groups) => command::groups::list(&groups, format).map(done),
        Command::Why(why) => command::why::run(&why, format).map(done),
        Command::Group(group) => command::groups::change(&group).map(done),
        Command::Recover(recover) => command::recover::run(&recover).map(done),
        Command::Leader(leader) => members::leader(leader).map(done),
        Command::LogLevel(level) => members::log_level(level).map(done),
        Command::Get(get) => command::data::get(&get).map(done),
        Command::Put(put) => command::data::put(&put).map(done),
        Command::Del(del) => command::data::del(&del, format).map(done),
        Command::Scan(scan) => command::data::scan(&scan, format).map(done),
        Command::Config(config) => command::config::run(config).map(done),
        Command::Check(check) => command::check::run(&check, format),
        Command::Sim(sim) => command::sim::run(&sim, format),
        Command::Bench(bench) => command::bench::run(&bench, format),
        Command::Figures(figures) => command::figures::run(&figures),
        Command::Torture(torture) => torture::run(&torture, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut script);
            output::print_bytes(&script).map(done)
        }
    }
}

use command::members;
