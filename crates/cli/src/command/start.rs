//! `start`: one node, or one for each processor, in the foreground.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use quorate_host::config::Config;
use quorate_host::{Host, Options};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::args::{Settings, Start};
use crate::exit::{self, WithCode as _};

/// A configuration, and the file it came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The configuration.
    pub(crate) config: Config,
    /// The file's path, empty if there was none.
    pub(crate) file: String,
}

/// Runs a node, or several, until they are asked to stop.
pub(crate) fn run(start: Start) -> Result<()> {
    let Loaded { config, file } = load_config(&start.settings, &flags(&start))?;
    let set_log_filter = init_log(&config.log.filter, config.log.format == "json")?;
    let options = Options { handle_signals: true, set_log_filter: Some(set_log_filter), config_file: file };
    Host::run(config, options)?;
    tracing::info!("stopped");
    Ok(())
}

/// The flags that stand for fields of the configuration.
fn flags(start: &Start) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    let mut set = |path: &str, value: Option<String>| {
        if let Some(value) = value {
            flags.push((path.to_owned(), value));
        }
    };
    set("cluster.data", start.data.as_ref().map(|path| path.display().to_string()));
    set("listen.client", start.client.clone());
    set("listen.cluster", start.cluster_door.clone());
    set("listen.peer", start.peer.clone());
    set("listen.admin", start.admin.clone());
    set("cluster.join", (!start.join.is_empty()).then(|| start.join.join(",")));
    set("cluster.members", start.bootstrap.clone());
    set("cluster.node", start.id.map(|id| id.to_string()));
    set("cluster.id", start.cluster.clone());
    set("cluster.buckets", start.buckets.map(|buckets| buckets.to_string()));
    set("cluster.copies", start.copies.map(|copies| copies.to_string()));
    set("cluster.cores", start.cores.map(|cores| cores.to_string()));
    set("cluster.topology", start.topology.map(|topology| topology.name().into()));
    flags
}

/// Puts the configuration together: file, environment, `--set`, other flags; later ones win.
///
/// # Errors
/// With everything that is wrong at once.
pub(crate) fn load_config(settings: &Settings, flags: &[(String, String)]) -> Result<Loaded> {
    let text = match &settings.config {
        Some(path) => read_file(path)?,
        None => String::new(),
    };
    let mut all = Config::environment(std::env::vars());
    all.extend(settings.set.iter().cloned());
    if let Some(durability) = settings.durability {
        all.push(("durable.mode".into(), durability.name().into()));
    }
    all.extend(flags.iter().cloned());
    let pairs = all.iter().map(|(path, value)| (path.as_str(), value.as_str()));
    let config = Config::load(&text, pairs)?;
    let file = settings.config.as_ref().map_or_else(String::new, |path| path.display().to_string());
    Ok(Loaded { config, file })
}

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read_file(path: &Path) -> Result<String> {
    let what = || format!("cannot read the configuration file {}; nothing was started", path.display());
    fs::read_to_string(path).with_context(what).code(exit::CONFIG)
}

/// Begins to log to standard error; the result sets the levels later on.
fn init_log(filter: &str, json: bool) -> Result<quorate_host::SetLogFilter> {
    let parsed =
        EnvFilter::try_new(filter).with_context(|| format!("log.filter = \"{filter}\" is not a filter"));
    let (filter, handle) = reload::Layer::new(parsed.code(exit::CONFIG)?);
    // Colours are for people.
    let is_terminal = io::stderr().is_terminal();
    let layer: Box<dyn Layer<_> + Send + Sync> = if json {
        fmt::layer().json().with_writer(io::stderr).boxed()
    } else {
        fmt::layer().with_ansi(is_terminal).with_writer(io::stderr).boxed()
    };
    Registry::default().with(filter).with(layer).try_init().context("cannot begin to log")?;
    Ok(Arc::new(move |text: &str| {
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        handle.reload(filter).map_err(|error| error.to_string())
    }))
}
