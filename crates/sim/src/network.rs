//! The network between nodes: how long messages take, and which of them never arrive.
//!
//! Links are directed, one for each ordered pair of nodes. A *cut* link loses what is sent over it and what is on its
//! way; a *clogged* link holds it back until it opens. Messages of a node to itself do not pass through here.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_kernel::Rng;

use crate::Latency;
use crate::latency::nanos;

/// In which order messages over one link arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they were sent, like TCP; a broken connection loses everything on its way.
    Fifo,
    /// As the latency of each has it, like UDP.
    Free,
}

/// How the network behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkOptions {
    /// How long a message takes.
    pub latency: Latency,
    /// What is added for each ordered pair of nodes (by the order in which the world was given them), for sites far
    /// apart. Pairs outside the matrix get nothing.
    pub distance: Vec<Vec<Duration>>,
    /// In which order messages arrive.
    pub order: Order,
    /// Chance in a million that a message is lost.
    pub loss_ppm: u64,
    /// Chance in a million that a message arrives twice.
    pub duplicate_ppm: u64,
    /// Chance in a million, per message, that the connection breaks just before it: what is on its way is lost.
    pub break_ppm: u64,
    /// Bytes per second over each link; `None` for no limit.
    pub bandwidth: Option<u64>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions {
            latency: Latency::Uniform(Duration::from_micros(50), Duration::from_millis(1)),
            distance: Vec::new(),
            order: Order::Fifo,
            loss_ppm: 0,
            duplicate_ppm: 0,
            break_ppm: 0,
            bandwidth: None,
        }
    }
}

impl NetworkOptions {
    /// The same network on a good day: distances, order and bandwidth stay, nothing goes wrong.
    #[must_use]
    pub fn calm(&self) -> NetworkOptions {
        NetworkOptions {
            latency: NetworkOptions::default().latency,
            loss_ppm: 0,
            duplicate_ppm: 0,
            break_ppm: 0,
            ..self.clone()
        }
    }
}

/// Whether a link carries messages now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    Open,
    Clogged,
    Cut,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    /// Partitions that cut it.
    cuts: u16,
    /// Clogs on it.
    clogs: u16,
    /// Connections so far; a message of an older one does not arrive.
    connection: u32,
    /// When the last message arrives, if order is kept.
    arrival: u64,
    /// Until when its bandwidth is taken.
    busy: u64,
}

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Arrives { at: u64, again_at: Option<u64>, connection: u32 },
}

/// All links of a world.
#[derive(Debug)]
pub(crate) struct Network {
    options: NetworkOptions,
    /// By sender, then by receiver. Of ten thousand nodes most pairs never exchange a message; what is not here is as it was in the beginning.
    links: Vec<BTreeMap<usize, Link>>,
    slow: Vec<u64>,
    rng: Rng,
}

impl Network {
    pub(crate) fn new(options: NetworkOptions, nodes: usize, rng: Rng) -> Self {
        Network { options, links: vec![BTreeMap::new(); nodes], slow: vec![0; nodes], rng }
    }

    pub(crate) fn set_options(&mut self, options: NetworkOptions) {
        self.options = options;
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.links[from].entry(to).or_default()
    }

    /// Decides what becomes of a message of `bytes` that leaves now.
    pub(crate) fn send(&mut self, now: u64, from: usize, to: usize, bytes: usize) -> Fate {
        let options = &self.options;
        let link = self.links[from].entry(to).or_default();
        let rng = &mut self.rng;
        if link.cuts > 0 || happens(rng, options.loss_ppm) {
            return Fate::Lost;
        }
        if options.order == Order::Fifo && happens(rng, options.break_ppm) {
            link.connection += 1;
        }
        let mut departure = now;
        if let Some(bandwidth) = options.bandwidth {
            let takes = (bytes as u128 * 1_000_000_000 / u128::from(bandwidth.max(1))) as u64;
            departure = link.busy.max(now) + takes;
            link.busy = departure;
        }
        let distance = options.distance.get(from).and_then(|row| row.get(to)).copied().unwrap_or_default();
        let extra = nanos(distance) + self.slow[from] + self.slow[to];
        let mut at = departure + extra + options.latency.draw(rng);
        let mut again_at =
            happens(rng, options.duplicate_ppm).then(|| departure + extra + options.latency.draw(rng));
        if options.order == Order::Fifo {
            at = at.max(link.arrival);
            again_at = again_at.map(|again| again.max(at));
            link.arrival = again_at.unwrap_or(at);
        }
        Fate::Arrives { at, again_at, connection: link.connection }
    }

    /// Whether a link carries messages of `connection` now.
    pub(crate) fn state(&self, from: usize, to: usize, connection: u32) -> LinkState {
        let link = self.links[from].get(&to).copied().unwrap_or_default();
        if link.cuts > 0 || (link.connection != connection) {
            LinkState::Cut
        } else if link.clogs > 0 {
            LinkState::Clogged
        } else {
            LinkState::Open
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.link(from, to).cuts += 1;
    }

    pub(crate) fn uncut(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.cuts = link.cuts.saturating_sub(1);
    }

    pub(crate) fn clog(&mut self, from: usize, to: usize) {
        self.link(from, to).clogs += 1;
    }

    pub(crate) fn unclog(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.clogs = link.clogs.saturating_sub(1);
    }

    /// Messages from and to `node` take this much longer.
    pub(crate) fn slow_down(&mut self, node: usize, by: Duration) {
        self.slow[node] = nanos(by);
    }

    /// A connection breaks, in both directions: what is on its way is lost.
    pub(crate) fn break_connection(&mut self, one: usize, other: usize) {
        self.link(one, other).connection += 1;
        self.link(other, one).connection += 1;
    }

    /// A node dies: where connections exist, they break. What it had sent may be with its receivers already, who read
    /// it when they get round to it.
    pub(crate) fn hang_up(&mut self, node: usize) {
        if self.options.order == Order::Fifo {
            for other in 0..self.links.len() {
                // A link that is not there has carried nothing that could be lost.
                let is_lost = self.rng.chance(1, 2);
                for (from, to) in
                    [Some((other, node)), is_lost.then_some((node, other))].into_iter().flatten()
                {
                    if let Some(link) = self.links[from].get_mut(&to) {
                        link.connection += 1;
                    }
                }
            }
        }
    }

    /// Opens every link for good.
    pub(crate) fn heal(&mut self) {
        for link in self.links.iter_mut().flat_map(BTreeMap::values_mut) {
            link.cuts = 0;
            link.clogs = 0;
        }
        self.slow.fill(0);
    }
}

/// True `ppm` times in a million; draws nothing if it cannot happen.
pub(crate) fn happens(rng: &mut Rng, ppm: u64) -> bool {
    ppm > 0 && rng.chance(ppm, 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(options: NetworkOptions) -> Vec<u64> {
        let mut network = Network::new(options, 2, Rng::new(1));
        (0..200)
            .filter_map(|now| match network.send(now * 1_000, 0, 1, 1_000) {
                Fate::Arrives { at, .. } => Some(at),
                Fate::Lost => None,
            })
            .collect()
    }

    #[test]
    fn fifo_keeps_order_and_free_does_not() {
        let fifo = NetworkOptions { order: Order::Fifo, ..NetworkOptions::default() };
        assert!(arrivals(fifo.clone()).is_sorted());
        assert!(!arrivals(NetworkOptions { order: Order::Free, ..fifo }).is_sorted());
    }

    #[test]
    fn loss_is_about_as_named() {
        let count = arrivals(NetworkOptions { loss_ppm: 300_000, ..NetworkOptions::default() }).len();
        assert!((110..170).contains(&count), "{count}");
    }

    #[test]
    fn bandwidth_queues() {
        let options = NetworkOptions {
            latency: Latency::ZERO,
            bandwidth: Some(1_000_000),
            ..NetworkOptions::default()
        };
        let arrivals = arrivals(options);
        assert_eq!(arrivals.last(), Some(&200_000_000), "200 messages of 1 ms each");
    }

    #[test]
    fn cuts_are_one_way_and_counted() {
        let mut network = Network::new(NetworkOptions::default(), 2, Rng::new(1));
        network.cut(0, 1);
        network.cut(0, 1);
        network.uncut(0, 1);
        assert_eq!(network.send(0, 0, 1, 0), Fate::Lost);
        assert!(matches!(network.send(0, 1, 0, 0), Fate::Arrives { .. }));
        network.uncut(0, 1);
        assert!(matches!(network.send(0, 0, 1, 0), Fate::Arrives { .. }));
        network.clog(0, 1);
        assert_eq!(network.state(0, 1, 0), LinkState::Clogged);
        network.break_connection(0, 1);
        assert_eq!(network.state(0, 1, 0), LinkState::Cut, "of the old connection");
        assert_eq!(network.state(0, 1, 1), LinkState::Clogged);
    }
}
