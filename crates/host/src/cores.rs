//! Several nodes in one process, one for each processor: each has a loop of its own on a thread of its own, and is a node like any other. They
//! share the door for Redis clients, at which the system shares out who comes.

use std::panic;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::config::Config;
use crate::control::{Addresses, Handle};
use crate::doors::check_free;
use crate::error::HostError;
use crate::start::{Host, Options, system};

/// The nodes of a process that run.
#[derive(Default)]
struct Crew {
    is_over: bool,
    handles: Vec<Handle>,
}

/// They start together and end together: once one has ended, for whatever reason, the others are asked to.
struct EndsAll<'a>(&'a Mutex<Crew>);

impl EndsAll<'_> {
    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, handle: Handle) {
        let mut crew = self.crew();
        if crew.is_over {
            handle.stop();
        }
        crew.handles.push(handle);
    }
}

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        let mut crew = self.crew();
        crew.is_over = true;
        crew.handles.iter().for_each(Handle::stop);
    }
}

impl Host {
    /// Runs as many nodes as `cluster.cores` says, until they are asked to stop, or one of them cannot go on: then the others stop in order. This
    /// thread runs the first.
    ///
    /// # Errors
    /// [`HostError`]: of the first node that did not start, or did not end as it was asked to.
    pub fn run(config: Config, options: Options) -> Result<(), HostError> {
        if config.cluster.cores < 2 {
            return Ok(Host::start(config, options)?.run()?);
        }
        config.validate().map_err(crate::StartError::from)?;
        check_free("client", &config.listen.client)?;
        let first = Host::start(config.clone(), options.clone())?;
        warn_of_more(&config);
        let addresses = first.handle().addresses();
        let crew = Mutex::new(Crew::default());
        thread::scope(|scope| {
            let ends_all = EndsAll(&crew);
            ends_all.enter(first.handle());
            let mut others = Vec::new();
            for core in 1..config.cluster.cores {
                let (config, options, crew) = (config.of_core(core, &addresses), options.clone(), &crew);
                let run = move || {
                    let _span = tracing::info_span!("node", core = core + 1).entered();
                    let ends_all = EndsAll(crew);
                    let node = Host::start(config, options)?;
                    ends_all.enter(node.handle());
                    Ok::<(), HostError>(node.run()?)
                };
                let named = thread::Builder::new().name(format!("core-{}", core + 1));
                others.push(named.spawn_scoped(scope, run).map_err(system("a thread for a node"))?);
            }
            let ended = first.run();
            drop(ends_all);
            let others: Vec<Result<(), HostError>> = others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
                .collect();
            ended?;
            others.into_iter().collect()
        })
    }
}

/// Whoever lowers the number leaves nodes behind, which others will miss.
fn warn_of_more(config: &Config) {
    let next = core_dir(config, config.cluster.cores);
    if next.exists() {
        tracing::warn!(
            directory = %next.display(),
            "a node of this machine is not started, since cluster.cores is less than it was: its group replaces it; raise cluster.cores again, \
             or remove the directory once others have what it has"
        );
    }
}

/// Where a node after the first keeps its data.
fn core_dir(config: &Config, core: u16) -> std::path::PathBuf {
    Path::new(&config.cluster.data).join(format!("core-{}", core + 1))
}

impl Config {
    /// What node number `core` of this process is started with, the first of which has number 0 and listens on these addresses.
    fn of_core(&self, core: u16, first: &Addresses) -> Config {
        let mut config = self.clone();
        let Config { listen, advertise, cluster, .. } = &mut config;
        let own = [&mut listen.cluster, &mut listen.peer, &mut listen.admin];
        let told = [&mut advertise.cluster, &mut advertise.peer, &mut advertise.admin];
        for address in own.into_iter().chain(told) {
            *address = moved(address, core);
        }
        if let Some(client) = first.client {
            listen.client = client.to_string();
        }
        cluster.data = core_dir(self, core).display().to_string();
        (cluster.node, cluster.id, cluster.members) = (0, String::new(), Vec::new());
        cluster.join.extend(first.peer.map(|peer| peer.to_string()));
        config
    }
}

/// The address with a port so many higher; as it is if the system chooses the port, or there is none.
fn moved(address: &str, by: u16) -> String {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parts.filter(|(_, port)| *port > 0).and_then(|(host, port)| Some((host, port.checked_add(by)?))) {
        Some((host, port)) => format!("{host}:{port}"),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_process_differ_in_ports_and_data_and_join_the_first() {
        let mut config = Config::default();
        config.cluster.cores = 3;
        config.cluster.node = 7;
        config.cluster.members = vec!["7@10.0.0.1:7379".into()];
        config.listen.cluster = String::new();
        config.advertise.peer = "10.0.0.1:7379".into();
        config.listen.admin = "[::1]:0".into();
        config.validate().expect("it fits together");
        let at = |text: &str| Some(text.parse().expect("an address"));
        let first =
            Addresses { client: at("127.0.0.1:6379"), peer: at("127.0.0.1:7379"), ..Addresses::default() };
        let third = config.of_core(2, &first);
        third.validate().expect("it fits together");
        let listen = [&*third.listen.client, &third.listen.cluster, &third.listen.peer, &third.listen.admin];
        assert_eq!(listen, ["127.0.0.1:6379", "", "127.0.0.1:7381", "[::1]:0"]);
        assert_eq!(third.advertise.peer, "10.0.0.1:7381");
        assert_eq!(third.cluster.data, "quorate-data/core-3");
        assert_eq!((third.cluster.node, &*third.cluster.join), (0, &["127.0.0.1:7379".to_owned()][..]));
    }

    #[test]
    fn ports_that_would_meet_are_refused() {
        let mut config = Config::default();
        config.cluster.cores = 2;
        config.validate().expect("the ports by default are far apart");
        config.listen.admin = "127.0.0.1:7380".into();
        let refused = config.validate().expect_err("the second's peer door").to_string();
        assert!(refused.contains("less than cluster.cores = 2 ports apart"), "{refused}");
        config.listen.admin = "127.0.0.1:65535".into();
        let refused = config.validate().expect_err("no such port").to_string();
        assert!(refused.contains("ports up to 65536"), "{refused}");
        config.cluster.cores = 0;
        config.validate().expect_err("no node at all");
    }
}
