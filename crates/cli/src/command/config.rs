//! `config`: what can be configured, and whether a file is right.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use quorate_host::Shape;
use quorate_host::config::Config as NodeConfig;

use crate::command::start::read_file;
use crate::output::print;

/// What to do with configuration files.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print a configuration file with every field, its default and its explanation.
    Default,
    /// Name every mistake in a configuration file at once, or say what a cluster is made of that is founded with it. The environment is taken
    /// into account.
    Check {
        /// The file.
        file: PathBuf,
        /// Print the configuration that results, every field explained.
        #[arg(long)]
        print: bool,
    },
}

/// Does it.
pub(crate) fn run(config: Config) -> Result<()> {
    match config {
        Config::Default => print(&NodeConfig::default().render()),
        Config::Check { file, print: is_printed } => {
            let text = read_file(&file)?;
            let environment = NodeConfig::environment(std::env::vars());
            let pairs = environment.iter().map(|(path, value)| (path.as_str(), value.as_str()));
            let config = NodeConfig::load(&text, pairs)?;
            if is_printed {
                return print(&config.render());
            }
            let founds = match config.shape() {
                Shape { buckets: 0, .. } => {
                    "a new node joins a cluster with it, and learns its shape".to_owned()
                }
                shape => format!("a new cluster has {shape}"),
            };
            print(&format!("{} is right: {founds}\n", file.display()))
        }
    }
}
