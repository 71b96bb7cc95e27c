//! What a run is made of: drawn from a seed (swarm testing), within what a profile allows, with what a person or the
//! shrinker overrides.

use std::fmt;
use std::time::Duration;

use quorate_kernel::Rng;

use crate::clock::ClockOptions;
use crate::coverage::Coverage;
use crate::disk::DiskOptions;
use crate::faults::{Fault, FaultOptions, FaultSet};
use crate::latency::Latency;
use crate::network::{NetworkOptions, Order};
use crate::run::Failure;
use crate::trace::TraceLevel;
use crate::world::WorldOptions;

/// With so many times the seeds for which floors are meant, what is rare must have happened as well.
const RARE_TIMES: u64 = 10;

/// What a kind of run may draw from. Ranges include both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// How many nodes.
    pub nodes: (usize, usize),
    /// How many clients; what that means is up to the harness.
    pub clients: (u32, u32),
    /// How long the phase under faults lasts.
    pub safety: (Duration, Duration),
    /// How long, after healing, the world may take to converge.
    pub liveness_max: Duration,
    /// The faults a seed may draw.
    pub faults: FaultSet,
    /// How many places may lose their disk or be gone for good; `None` for the largest minority of the nodes.
    pub casualties_max: Option<usize>,
    /// The bound on clock rates that the machines rely on, in millionths.
    pub rate_error_ppm_max: u32,
    /// At most how many sites the nodes stand in; with one, all are equally near.
    pub sites_max: usize,
    /// Whether nodes have no disk, so that each restart is a new identity.
    pub volatile: bool,
    /// Marks that `floors_seeds` runs, drawn freely, must together have hit at least this often; twice as many runs twice as often.
    pub floors: Vec<(&'static str, u64)>,
    /// With fewer runs, chance decides what they reach. No more than CI runs, or nothing ever falls below its floor.
    pub floors_seeds: u64,
    /// Marks that so few runs may miss; ten times as many must have hit each.
    pub rare: Vec<&'static str>,
}

impl Profile {
    /// A small cluster under every fault that needs no help from the harness.
    pub fn new(name: &'static str) -> Self {
        Profile {
            name,
            nodes: (3, 5),
            clients: (1, 4),
            safety: (Duration::from_secs(2), Duration::from_secs(20)),
            liveness_max: Duration::from_secs(60),
            faults: FaultSet::ALL
                .without(Fault::LoseDisk)
                .without(Fault::CorruptDisk)
                .without(Fault::FailDisk)
                .without(Fault::FullDisk),
            casualties_max: None,
            rate_error_ppm_max: 10_000,
            sites_max: 1,
            volatile: false,
            floors: Vec::new(),
            floors_seeds: 1,
            rare: Vec::new(),
        }
    }

    /// What is wrong with runs of this profile taken together.
    pub fn missing(&self, coverage: &Coverage) -> Option<Failure> {
        let times = coverage.runs / self.floors_seeds.max(1);
        let floors = self.floors.iter().map(|(name, least)| (*name, least * times));
        let rare = self.rare.iter().map(|name| (*name, u64::from(times >= RARE_TIMES)));
        let floors: Vec<_> = floors.chain(rare).collect();
        coverage.check(&floors).err().map(Failure::Coverage)
    }
}

/// What replaces the draws of a seed, so that a smaller case can be named and run again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// This many nodes.
    pub nodes: Option<usize>,
    /// This many clients.
    pub clients: Option<u32>,
    /// This long a phase under faults.
    pub safety_ms: Option<u64>,
    /// No faults but these (and of these, only the drawn ones).
    pub faults: Option<FaultSet>,
    /// Peace after this many strikes.
    pub strikes_max: Option<u64>,
    /// The same configuration with another course of events: the shrinker tries a few of each.
    pub salt: Option<u64>,
}

impl Overrides {
    /// Reads what [`Overrides`]' `Display` writes: `--nodes 3 --faults crash,pause`.
    ///
    /// # Errors
    /// Which flag is unknown, lacks its value or has a wrong one.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut overrides = Overrides::default();
        let mut words = words.into_iter();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let wrong = |_| format!("{flag} needs a whole number, not {value:?}");
            match flag {
                "--nodes" => overrides.nodes = Some(value.parse().map_err(wrong)?),
                "--clients" => overrides.clients = Some(value.parse().map_err(wrong)?),
                "--safety-ms" => overrides.safety_ms = Some(value.parse().map_err(wrong)?),
                "--strikes" => overrides.strikes_max = Some(value.parse().map_err(wrong)?),
                "--salt" => overrides.salt = Some(value.parse().map_err(wrong)?),
                "--faults" => overrides.faults = Some(value.parse()?),
                _ => {
                    return Err(format!(
                        "{flag} is not known; there are --nodes, --clients, --safety-ms, --faults, --strikes and \
                         --salt"
                    ));
                }
            }
        }
        Ok(overrides)
    }
}

impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.nodes.map(|nodes| format!("--nodes {nodes}")),
            self.clients.map(|clients| format!("--clients {clients}")),
            self.safety_ms.map(|ms| format!("--safety-ms {ms}")),
            self.faults.map(|faults| format!("--faults {faults}")),
            self.strikes_max.map(|strikes| format!("--strikes {strikes}")),
            self.salt.map(|salt| format!("--salt {salt}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// One run, settled in every detail.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The profile's name.
    pub profile: &'static str,
    /// The seed from which it was drawn.
    pub seed: u64,
    /// What was overridden.
    pub overrides: Overrides,
    /// How many clients the harness should play.
    pub clients: u32,
    /// The faults that are on.
    pub faults: FaultSet,
    /// How long the phase under faults lasts.
    pub safety: Duration,
    /// How long convergence may take after it.
    pub liveness_max: Duration,
    /// The world.
    pub world: WorldOptions,
    /// The nemesis.
    pub nemesis: FaultOptions,
}

impl Plan {
    /// Draws the run that `seed` means under `profile`.
    pub fn draw(profile: &Profile, seed: u64, overrides: &Overrides) -> Plan {
        let mut root = Rng::new(seed ^ 0x7175_6f72_6174_6521);
        // A generator for each: overriding one draw must not change the others.
        let [mut size, mut which, mut disk, mut network, mut clock, mut strikes, mut sites] =
            std::array::from_fn(|_| root.fork());
        let nodes = size.between(profile.nodes.0 as u64, profile.nodes.1 as u64) as usize;
        let clients = size.between(u64::from(profile.clients.0), u64::from(profile.clients.1)) as u32;
        let (shortest, longest) = (profile.safety.0.as_millis() as u64, profile.safety.1.as_millis() as u64);
        let safety_ms = size.between(shortest, longest.max(shortest));
        let faults = profile.faults.draw(&mut which).and(overrides.faults.unwrap_or(FaultSet::ALL));
        let nodes = overrides.nodes.unwrap_or(nodes).max(1);
        let casualties_max = profile.casualties_max.unwrap_or((nodes - 1) / 2);
        let world = WorldOptions {
            network: NetworkOptions {
                distance: draw_distances(&mut sites, profile.sites_max, nodes),
                ..draw_network(&mut network, faults)
            },
            disk: DiskOptions { volatile: profile.volatile, ..draw_disk(&mut disk) },
            clock: draw_clock(&mut clock, faults, profile.rate_error_ppm_max),
            start_within: Duration::from_millis(size.between(0, 500)),
            ..WorldOptions::calm(salted(seed, overrides.salt), nodes)
        };
        Plan {
            profile: profile.name,
            seed,
            overrides: overrides.clone(),
            clients: overrides.clients.unwrap_or(clients),
            faults,
            safety: Duration::from_millis(overrides.safety_ms.unwrap_or(safety_ms)),
            liveness_max: profile.liveness_max,
            world,
            nemesis: draw_nemesis(&mut strikes, faults, casualties_max, overrides.strikes_max),
        }
    }

    /// A generator for the harness: for its clients, and for limits it draws.
    pub fn rng(&self) -> Rng {
        Rng::new(self.world.seed ^ 0x6861_726e_6573_7321)
    }

    /// The same run with this much recorded.
    #[must_use]
    pub fn traced(mut self, level: TraceLevel) -> Plan {
        self.world.trace = level;
        self
    }

    /// The one line that runs this again; `command` is whatever comes before `--seed`.
    pub fn command_line(&self, command: &str) -> String {
        let overrides = self.overrides.to_string();
        let space = if overrides.is_empty() { "" } else { " " };
        format!("{command} --seed {}{space}{overrides}", self.seed)
    }
}

fn salted(seed: u64, salt: Option<u64>) -> u64 {
    salt.map_or(seed, |salt| Rng::new(seed).next_u64() ^ salt)
}

fn draw_network(rng: &mut Rng, faults: FaultSet) -> NetworkOptions {
    let us = |us| Duration::from_micros(us);
    let typical = 1 << rng.between(4, 15);
    let tail = match rng.below(2) {
        0 => Latency::Exponential { floor: us(typical / 4), mean: us(typical * 2) },
        _ => Latency::Lognormal { median: us(typical), sigma: 0.3 + rng.fraction() * 1.2 },
    };
    let even = Latency::Uniform(us(typical / 2), us(typical * 3 / 2));
    let mut ppm = |fault, most| {
        let drawn = rng.between(1, most);
        if faults.has(fault) { drawn } else { 0 }
    };
    let mut network = NetworkOptions {
        latency: if faults.has(Fault::Tail) { tail } else { even },
        order: if faults.has(Fault::Reorder) { Order::Free } else { Order::Fifo },
        loss_ppm: ppm(Fault::Loss, 200_000),
        duplicate_ppm: ppm(Fault::Duplicate, 100_000),
        break_ppm: ppm(Fault::Break, 5_000),
        ..NetworkOptions::default()
    };
    if rng.chance(1, 4) {
        network.bandwidth = Some(1 << rng.between(18, 27));
    }
    network
}

/// Sites some milliseconds from each other, each way another; most often all nodes stand in one. The longest way is long for the shortest
/// election timeouts that harnesses draw, and must be borne for good: healing does not bring sites nearer.
fn draw_distances(rng: &mut Rng, sites_max: usize, nodes: usize) -> Vec<Vec<Duration>> {
    if sites_max < 2 || !rng.chance(1, 4) {
        return Vec::new();
    }
    let sites = rng.between(2, sites_max as u64) as usize;
    let longest = 1 << rng.between(7, 13);
    let mut ways = vec![vec![Duration::ZERO; sites]; sites];
    for (from, to) in (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to))) {
        let way = Duration::from_micros(rng.between(longest / 4, longest));
        ways[from][to] = if from == to { Duration::ZERO } else { way };
    }
    let spots: Vec<usize> = (0..nodes).map(|_| rng.below(sites as u64) as usize).collect();
    spots.iter().map(|from| spots.iter().map(|to| ways[*from][*to]).collect()).collect()
}

fn draw_disk(rng: &mut Rng) -> DiskOptions {
    let us = |us| Duration::from_micros(us);
    let typical = 1 << rng.between(3, 13);
    let checkpoint = Latency::Uniform(us(1), us(1 << rng.between(1, 20)));
    DiskOptions {
        sync: match rng.below(4) {
            0 => Latency::Constant(us(typical)),
            1 => Latency::Lognormal { median: us(typical), sigma: 1.2 },
            _ => Latency::Uniform(us(typical / 2), us(typical * 2)),
        },
        blocking: rng.chance(1, 2),
        volatile: false,
        segment_records: if rng.chance(1, 2) { 1 } else { rng.between(2, 100) },
        checkpoint: if rng.chance(1, 2) { Latency::ZERO } else { checkpoint },
        checkpoint_unasked_ppm: if rng.chance(1, 2) { 0 } else { rng.between(1, 50_000) },
    }
}

fn draw_clock(rng: &mut Rng, faults: FaultSet, rate_error_ppm_max: u32) -> ClockOptions {
    let drift = rng.between(0, u64::from(rate_error_ppm_max)) as u32;
    ClockOptions {
        rate_error_ppm_max: if faults.has(Fault::Drift) { drift } else { 0 },
        wall_error_ms: if faults.has(Fault::WallJump) { None } else { Some(rng.between(0, 100)) },
    }
}

fn draw_nemesis(
    rng: &mut Rng,
    faults: FaultSet,
    casualties_max: usize,
    strikes_max: Option<u64>,
) -> FaultOptions {
    let in_network =
        FaultSet::of(&[Fault::Loss, Fault::Duplicate, Fault::Reorder, Fault::Tail, Fault::Drift]);
    let every = Fault::ALL.iter().map(|fault| (*fault, Duration::from_millis(1 << rng.between(7, 13))));
    let every = every.filter(|(fault, _)| faults.has(*fault) && !in_network.has(*fault)).collect();
    FaultOptions {
        every,
        lasts: (Duration::from_millis(1), Duration::from_millis(1 << rng.between(5, 13))),
        strikes_max,
        casualties_max,
        wall_jump_ms_max: 1 << rng.between(1, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_as_written() {
        let text = "--nodes 3 --clients 1 --safety-ms 500 --faults crash,pause --strikes 2 --salt 1";
        let overrides = Overrides::parse(text.split(' ')).expect("valid");
        assert_eq!(overrides.to_string(), text);
        assert!(Overrides::parse(["--nodes"]).unwrap_err().contains("needs a value"));
        assert!(Overrides::parse(["--nodes", "x"]).unwrap_err().contains("whole number"));
        assert!(Overrides::parse(["--hours", "1"]).unwrap_err().contains("not known"));
    }

    #[test]
    fn floors_rise_with_every_full_number_of_seeds() {
        let mut profile = Profile::new("test");
        (profile.floors, profile.floors_seeds) = (vec![("test.done", 2)], 10);
        let missing = |runs, hits| {
            let mut coverage = Coverage { runs, ..Coverage::default() };
            (0..hits).for_each(|_| coverage.marks.hit("test.done"));
            profile.missing(&coverage).map(|failure| failure.to_string())
        };
        assert_eq!(missing(9, 0), None, "too few seeds");
        assert_eq!(missing(10, 1), Some("coverage: test.done was hit 1 times, not 2".into()));
        assert_eq!(missing(19, 2), None);
        assert_eq!(missing(20, 3), Some("coverage: test.done was hit 3 times, not 4".into()));
        assert_eq!(missing(20, 4), None);
        profile.rare = vec!["test.rare"];
        let missing = |runs| {
            let mut coverage = Coverage { runs, ..Coverage::default() };
            (0..1_000).for_each(|_| coverage.marks.hit("test.done"));
            profile.missing(&coverage).map(|failure| failure.to_string())
        };
        assert_eq!(missing(99), None, "chance may miss it");
        assert_eq!(missing(100), Some("coverage: test.rare was hit 0 times, not 1".into()));
    }

    #[test]
    fn nodes_stand_in_sites_and_nothing_else_changes() {
        let near = Profile { nodes: (5, 5), ..Profile::new("test") };
        let far = Profile { sites_max: 3, ..near.clone() };
        let mut apart = 0;
        for seed in 0..200 {
            let plain = Plan::draw(&near, seed, &Overrides::default());
            let mut plan = Plan::draw(&far, seed, &Overrides::default());
            let wide = Plan::draw(&far, seed, &Overrides { nodes: Some(7), ..Overrides::default() });
            let distance = std::mem::take(&mut plan.world.network.distance);
            assert_eq!(plain, plan);
            for (row, wider) in distance.iter().zip(&wide.world.network.distance) {
                assert_eq!(row[..], wider[..5], "more nodes move no other");
            }
            for (one, row) in distance.iter().enumerate() {
                assert!(row[one].is_zero() && row.iter().all(|way| *way < Duration::from_millis(9)));
            }
            apart += u32::from(distance.iter().flatten().any(|way| !way.is_zero()));
        }
        assert!((25..75).contains(&apart), "{apart} of 200");
    }

    #[test]
    fn one_override_changes_nothing_else() {
        let profile = Profile::new("test");
        for seed in 0..100 {
            let plain = Plan::draw(&profile, seed, &Overrides::default());
            let overrides = Overrides { nodes: Some(9), ..Overrides::default() };
            let mut wide = Plan::draw(&profile, seed, &overrides);
            assert_eq!(wide.world.nodes, 9);
            wide.world.nodes = plain.world.nodes;
            wide.nemesis.casualties_max = plain.nemesis.casualties_max;
            wide.overrides = Overrides::default();
            assert_eq!(plain, wide);
            assert!((3..=5).contains(&plain.world.nodes));
            assert_eq!(plain.faults.and(profile.faults), plain.faults);
        }
    }
}
