//! The command line. Help texts are the manual: each says what a command does and what it leaves alone.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use quorate_host::config::AskedTopology;

use crate::command::{bench, check, config, copies, data, figures, groups, members, recover, sim, why};
use crate::exit;
use crate::output::Format;
use crate::torture;

/// As the range of an argument wants it.
const BUCKETS_MAX: i64 = quorate_node::BUCKETS_MAX as i64;

/// A replicated key-value store that speaks the Redis protocol.
///
/// `quorate up` starts a cluster on this machine; `quorate start` starts one node.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, after_long_help = exit::TEXT)]
pub(crate) struct Cli {
    /// How listings are printed.
    #[arg(long, global = true, value_enum, default_value_t, help_heading = "Everywhere")]
    pub(crate) output: Format,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
// Where a command's arguments are documented at length, that is its manual, which a comment for documentation here
// would hide.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Start(Box<Start>),
    Up(Up),
    /// Stop the local cluster in an orderly way; its data stays.
    Down(Local),
    /// Kill one node of the local cluster as a power cut would (SIGKILL).
    Kill(LocalNode),
    /// Start a killed node of the local cluster again, with its data.
    Revive(LocalNode),
    /// Show every node: role, leader, log, keys, health.
    Status(Status),
    /// List the members with their addresses.
    Nodes(Target),
    /// Add a node to the cluster, or remove one.
    #[command(subcommand)]
    Node(members::Node),
    Drain(members::Drain),
    Copies(copies::Copies),
    Groups(groups::Groups),
    #[command(subcommand)]
    Group(groups::Group),
    #[command(subcommand)]
    Why(why::Why),
    Recover(recover::Recover),
    /// Move leadership.
    #[command(subcommand)]
    Leader(members::Leader),
    /// Set what nodes log, while they run.
    LogLevel(members::LogLevel),
    /// Print the value of a key.
    Get(data::Get),
    /// Set a key.
    Put(data::Put),
    /// Delete keys.
    Del(data::Del),
    /// List keys.
    Scan(data::Scan),
    /// Show or check configuration files.
    #[command(subcommand)]
    Config(config::Config),
    Check(check::Check),
    Sim(sim::Sim),
    Bench(Box<bench::Bench>),
    /// Run a published evaluation again in the simulator, and draw what came of it.
    #[command(subcommand)]
    Figures(figures::Figures),
    /// Torture a cluster of real processes on this machine, and judge what its clients saw.
    #[command(subcommand)]
    Torture(torture::Torture),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// What an acknowledged write has survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// On the disks of a majority.
    Disk,
    /// With a majority's systems, on disk a little later.
    Interval,
    /// In the memory of a majority; a node that restarts is a new one.
    Memory,
}

impl Durability {
    /// As it stands in a configuration file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Durability::Disk => "disk",
            Durability::Interval => "interval",
            Durability::Memory => "memory",
        }
    }
}

/// How a node is configured besides its addresses.
#[derive(Debug, Clone, Args)]
pub(crate) struct Settings {
    /// Configuration file; `quorate config default` prints one with every field explained.
    #[arg(long, value_name = "FILE", env = "QUORATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// What an acknowledged write has survived.
    #[arg(long, value_enum, env = "QUORATE_DURABILITY")]
    pub(crate) durability: Option<Durability>,
    /// Set one field of the configuration, over file and environment; can be repeated.
    #[arg(long, value_name = "SECTION.FIELD=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
}

/// Run one node in the foreground, until SIGTERM or Ctrl-C.
///
/// The first start in an empty data directory makes the node: with --bootstrap as one of the first members of a new
/// cluster, with --join as a node that a running cluster is to take in (`quorate node add`), with neither as a
/// cluster of its own, whose nodes form groups by themselves as others join it (--topology). Later starts find all that in the
/// data directory. Settings come from the file, from the environment (QUORATE_SECTION__FIELD) and from flags; later ones win.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Directory for the log, the store and the node's identity.
    #[arg(long, value_name = "DIR", env = "QUORATE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Listen here for Redis clients.
    #[arg(long, value_name = "HOST:PORT", env = "QUORATE_CLIENT")]
    pub(crate) client: Option<String>,
    /// Listen here for Redis Cluster clients; '' for nobody.
    #[arg(long, value_name = "HOST:PORT", env = "QUORATE_CLUSTER_DOOR")]
    pub(crate) cluster_door: Option<String>,
    /// Listen here for other nodes.
    #[arg(long, value_name = "HOST:PORT", env = "QUORATE_PEER")]
    pub(crate) peer: Option<String>,
    /// Listen here for operators (HTTP).
    #[arg(long, value_name = "HOST:PORT", env = "QUORATE_ADMIN")]
    pub(crate) admin: Option<String>,
    /// Peer address of a node whose cluster to join; can be repeated.
    #[arg(long, value_name = "HOST:PORT", env = "QUORATE_JOIN", value_delimiter = ',')]
    pub(crate) join: Vec<String>,
    /// First members of a new cluster, the same list on each: ID@PEER or ID@PEER/CLIENT/ADMIN/CLUSTER-DOOR, separated
    /// by commas.
    #[arg(long, value_name = "LIST", env = "QUORATE_BOOTSTRAP", conflicts_with = "join")]
    pub(crate) bootstrap: Option<String>,
    /// This node's id; drawn at random if nothing says it.
    #[arg(long, env = "QUORATE_ID")]
    pub(crate) id: Option<u64>,
    /// Id of the new cluster, in hexadecimal; follows from the list of first members if nothing says it.
    #[arg(long, value_name = "HEX", env = "QUORATE_CLUSTER", value_parser = hexadecimal)]
    pub(crate) cluster: Option<String>,
    /// Into how many buckets a new cluster cuts its keys, each with a leader of its own; 1 if nothing says it, 32 in a ring
    /// (--topology). Cannot be changed later; a node that joins learns it.
    #[arg(long, value_name = "N", env = "QUORATE_BUCKETS", value_parser = clap::value_parser!(u16).range(1..=BUCKETS_MAX))]
    pub(crate) buckets: Option<u16>,
    /// How many nodes hold each bucket of a new cluster, whose nodes then agree by themselves who of them is there and move
    /// copies when nodes come and go. If nothing says it, all nodes hold everything, or
    /// about 3 each in a ring (--topology).
    #[arg(long, value_name = "N", env = "QUORATE_COPIES", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) copies: Option<u8>,
    /// Who decides which nodes hold which buckets of a new cluster: `view`, one placement for all; or `ring`, groups of about --copies
    /// nodes (3 if nothing says it) that split, merge and take nodes in by their own decision, over 32 buckets if nothing says how many.
    /// `auto`, and if nothing says it: `ring` if this node founds a cluster alone (neither --join nor --bootstrap) or with five others or more,
    /// `view` with one to four others, and wherever --buckets or --copies are given. A node that joins learns it.
    #[arg(long, value_name = "view|ring|auto", env = "QUORATE_TOPOLOGY", value_parser = topology)]
    pub(crate) topology: Option<AskedTopology>,
    /// How many nodes this process runs, one for each processor at most; 1 if nothing says it. They share the door for Redis clients, and have the
    /// ports that follow on the others.
    #[arg(long, value_name = "N", env = "QUORATE_CORES")]
    pub(crate) cores: Option<u16>,
    /// Everything else.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Where a local cluster is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Local {
    /// Directory of the local cluster.
    #[arg(long, value_name = "DIR", default_value = "quorate-data", env = "QUORATE_LOCAL")]
    pub(crate) data: PathBuf,
}

/// A node of a local cluster.
#[derive(Debug, Args)]
pub(crate) struct LocalNode {
    /// Its id.
    pub(crate) node: u64,
    /// Where the cluster is.
    #[command(flatten)]
    pub(crate) local: Local,
}

/// Start a cluster on this machine, or start it again.
///
/// Each node is a process of its own. Without --detach, stays in the foreground and stops the cluster on Ctrl-C.
/// What `up` finds running it leaves alone; a cluster that exists keeps its nodes, ports and settings.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Where the cluster is.
    #[command(flatten)]
    pub(crate) local: Local,
    /// How many nodes a new cluster has; 5 if nothing says it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) nodes: Option<u64>,
    /// Into how many buckets a new cluster cuts its keys, each with a leader of its own; 1 if nothing says it, 32 in a ring
    /// (--topology). Cannot be changed later.
    #[arg(long, value_name = "N", env = "QUORATE_BUCKETS", value_parser = clap::value_parser!(u16).range(1..=BUCKETS_MAX))]
    pub(crate) buckets: Option<u16>,
    /// How many nodes hold each bucket of a new cluster, whose nodes then agree by themselves who of them is there and move
    /// copies when nodes come and go. If nothing says it, all nodes hold everything, or
    /// about 3 each in a ring (--topology).
    #[arg(long, value_name = "N", env = "QUORATE_COPIES", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) copies: Option<u8>,
    /// Who decides which nodes hold which buckets of a new cluster: `view`, one placement for all; or `ring`, groups of about --copies
    /// nodes (3 if nothing says it) that split, merge and take nodes in by their own decision, over 32 buckets if nothing says how many.
    /// `auto`, and if nothing says it: `ring` with six nodes or more, `view` with fewer, and wherever --buckets or --copies are given.
    #[arg(long, value_name = "view|ring|auto", env = "QUORATE_TOPOLOGY", value_parser = topology)]
    pub(crate) topology: Option<AskedTopology>,
    /// Client port of node 1; node i is 10 (i - 1) above. Ports for Redis Cluster clients are 1, peer ports 1000, admin
    /// ports 2000 above. 0: any free.
    #[arg(long, default_value_t = 6379)]
    pub(crate) base_port: u16,
    /// Return once the cluster serves; `quorate down` stops it.
    #[arg(long)]
    pub(crate) detach: bool,
    /// How the nodes of a new cluster are configured.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Which cluster is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Admin address of any node; can be repeated. Without it, the local cluster is meant.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) at: Vec<String>,
    /// Where the local cluster is.
    #[command(flatten)]
    pub(crate) local: Local,
}

/// Show every node: role, leader, log, keys, health.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
    /// Show it live on this terminal, the groups as arcs of the ring, until q, Esc or Ctrl-C. With `--output json`: print it
    /// every second.
    #[arg(long)]
    pub(crate) watch: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let Some((path, value)) = text.split_once('=') else {
        return Err("write SECTION.FIELD=VALUE, for example timing.election_ms=500".into());
    };
    Ok((path.trim().to_owned(), value.trim().to_owned()))
}

fn topology(text: &str) -> Result<AskedTopology, String> {
    let known = [AskedTopology::View, AskedTopology::Ring, AskedTopology::Auto];
    let found = known.into_iter().find(|topology| topology.name() == text);
    found.ok_or_else(|| "write `view`, `ring` or `auto`".into())
}

fn hexadecimal(text: &str) -> Result<String, String> {
    let is_id = u64::from_str_radix(text, 16).is_ok_and(|id| id > 0);
    if is_id {
        Ok(text.to_owned())
    } else {
        Err("write 1 to 16 hexadecimal digits, not all of them 0".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_are_cut_at_the_first_sign() {
        assert_eq!(setting("log.filter=warn,a=info"), Ok(("log.filter".into(), "warn,a=info".into())));
        assert!(setting("log.filter").is_err());
        assert_eq!(hexadecimal("ff"), Ok("ff".into()));
        assert!(hexadecimal("0").is_err());
        assert!(hexadecimal("xyz").is_err());
    }
}
