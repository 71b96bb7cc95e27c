//! Keys that lie in the cluster during a campaign, so that a new node has much to fetch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use quorate_bench::{Keys, LoadOptions, Machine, Mix, Pace, PlainSpec};

use super::Common;
use super::cluster::Cluster;

/// Clients that write and read them.
const CLIENTS: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keys that nobody touches.
pub(crate) struct Ballast {
    options: LoadOptions,
    spec: PlainSpec,
}

impl Ballast {
    /// Writes them.
    pub(crate) fn load(common: &Common, cluster: &Cluster, machine: &Machine) -> Result<Ballast> {
        let spec = PlainSpec {
            mix: Mix { read_percent: 0 },
            keys: common.ballast,
            choice: Keys::InOrder,
            prefix: "ballast:".into(),
            value_bytes: 100,
            pipeline: 1,
            all_exist: true,
        };
        let options = LoadOptions {
            addresses: cluster.addresses(),
            clients: CLIENTS,
            threads: 1,
            pace: Pace::Closed,
            warmup: Duration::ZERO,
            duration: None,
            operations: None,
            timeout: TIMEOUT,
            seed: common.home.seed,
            servers: Vec::new(),
            machine: machine.clone(),
        };
        let ballast = Ballast { options, spec };
        if ballast.spec.keys > 0 {
            let begun = Instant::now();
            quorate_bench::fill(&ballast.options, &ballast.spec, &Arc::default())?;
            eprintln!("{} keys written in {:.1} s", ballast.spec.keys, begun.elapsed().as_secs_f64());
        }
        Ok(ballast)
    }

    /// Reads all of them from the cluster as it is now.
    pub(crate) fn read_back(mut self, cluster: &Cluster) -> Result<()> {
        if self.spec.keys > 0 {
            self.options.addresses = cluster.addresses();
            quorate_bench::read_back(&self.options, &self.spec, &Arc::default())?;
            eprintln!("{} keys read back as they were written", self.spec.keys);
        }
        Ok(())
    }
}
