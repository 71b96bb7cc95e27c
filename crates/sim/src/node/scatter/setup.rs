//! What a run is made of.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_kernel::Rng;
use quorate_node::Preset;

use crate::{DiskOptions, Latency, NetworkOptions, Order, WorldOptions};

/// Nodes that join come within so long.
const JOIN_WITHIN: Duration = Duration::from_secs(60);

/// Where the nodes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sites {
    /// In one room.
    One,
    /// A third of them at each of the paper's three (figure 8): Utah, California, Virginia.
    Three,
    /// All over the world, as volunteers' machines do; in the place of PlanetLab.
    World,
}

/// Round trips between the three sites, in milliseconds (figure 8).
const THREE: [[u64; 3]; 3] = [[0, 38, 79], [38, 0, 82], [79, 82, 0]];

/// Where volunteers live: how many of a hundred, and how far from the others there they are, in milliseconds to and fro, half of them.
const REGIONS: [(u64, u64); 5] = [(45, 40), (30, 28), (15, 60), (6, 70), (4, 40)];

/// Round trips between regions, in milliseconds: North America, Europe, East Asia, South America, Oceania.
const WORLD: [[u64; 5]; 5] = [
    [0, 100, 150, 140, 170],
    [100, 0, 240, 200, 280],
    [150, 240, 0, 280, 130],
    [140, 200, 280, 0, 300],
    [170, 280, 130, 300, 0],
];

impl Sites {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Sites::One => "one",
            Sites::Three => "three",
            Sites::World => "world",
        }
    }

    /// For each place, its site; and what it adds to each of its ways, in microseconds.
    fn spots(self, nodes: usize, rng: &mut Rng) -> Vec<(usize, u64)> {
        let spot = |place: usize| match self {
            Sites::One => (0, 0),
            Sites::Three => (place % THREE.len(), 0),
            Sites::World => {
                let mut drawn = rng.below(100);
                let of = |region: &(u64, u64)| drawn.checked_sub(region.0).map(|rest| drawn = rest).is_none();
                let region = REGIONS.iter().position(of).unwrap_or_default();
                // A quarter of what is between two that are there lies on each one's way to the next town.
                let own =
                    Latency::Lognormal { median: Duration::from_millis(REGIONS[region].1) / 4, sigma: 0.5 };
                (region, own.draw(rng) / 1_000)
            }
        };
        (0..nodes).map(spot).collect()
    }

    /// How far nodes are from each other, one way, by their places.
    pub(super) fn distances(self, nodes: usize, rng: &mut Rng) -> Vec<Vec<Duration>> {
        let spots = self.spots(nodes, rng);
        let far = |one: usize, other: usize| {
            let ((site, own), (there, its)) = (spots[one], spots[other]);
            let micros = if one == other { 0 } else { own + its + self.between(site, there) };
            Duration::from_micros(micros)
        };
        (0..nodes).map(|one| (0..nodes).map(|other| far(one, other)).collect()).collect()
    }

    fn between(self, one: usize, other: usize) -> u64 {
        match self {
            Sites::One => 0,
            Sites::Three => THREE[one][other] * 500,
            Sites::World => WORLD[one][other] * 500,
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How many nodes.
    pub nodes: usize,
    /// How many of them are the first group; the others come one by one, over a minute.
    pub founders: usize,
    /// How many a group should have, about.
    pub copies: u8,
    /// Into how many buckets keys are cut.
    pub buckets: NonZeroU16,
    /// One way between two nodes of a site.
    pub way: Duration,
    /// Where they stand.
    pub sites: Sites,
    /// Which policies they follow.
    pub preset: Preset,
    /// Whether leaders answer reads alone.
    pub leases: bool,
    /// All else follows from it.
    pub seed: u64,
}

impl Setup {
    /// Sites by place, and the world they make: no disks, as in the paper's measurements.
    pub(super) fn world(&self) -> (Vec<usize>, WorldOptions) {
        let mut rng = Rng::new(self.seed ^ 0x7363_6174_7465_7221);
        let spots = self.sites.spots(self.nodes, &mut rng.clone());
        let distance = self.sites.distances(self.nodes, &mut rng);
        let calm = WorldOptions::calm(self.seed, self.nodes);
        let options = WorldOptions {
            network: NetworkOptions {
                latency: Latency::Uniform(self.way * 9 / 10, self.way * 11 / 10),
                distance,
                order: Order::Fifo,
                ..calm.network.clone()
            },
            disk: DiskOptions { sync: Latency::ZERO, volatile: true, segment_records: 1_000, ..calm.disk },
            start_within: if self.founders < self.nodes { JOIN_WITHIN } else { calm.start_within },
            inbox_max: usize::MAX,
            checks: false,
            events_max: u64::MAX,
            ..calm
        };
        (spots.iter().map(|(site, _)| *site).collect(), options)
    }
}
