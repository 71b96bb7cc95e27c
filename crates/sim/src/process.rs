//! One node of a world: its machine while it lives, and what outlives it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use quorate_kernel::{Machine, NodeId, Out, Position, Rng};
use quorate_store::MemoryStore;

use crate::clock::Clock;
use crate::disk::{Disk, SimStore};
use crate::harness::Boot;
use crate::service::Workers;
use crate::world::Arrival;

/// The effect buffer of a machine.
pub(crate) type OutOf<M> =
    Out<<M as Machine>::Msg, <M as Machine>::Timer, <M as Machine>::Record, <M as Machine>::Output>;

/// A timer's queue entry may be older than the timer: it then goes to sleep again when it comes up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed {
    /// When it fires; `None` if it was disarmed.
    pub(crate) deadline: Option<u64>,
    /// When its entry comes up.
    pub(crate) queued_at: u64,
    /// Names the entry; others are void.
    pub(crate) entry: u64,
}

/// An effect that waits for the disk.
pub(crate) enum Held<M: Machine> {
    Send { to: NodeId, msg: M::Msg },
    Output(M::Output),
    Discard(Position),
}

/// Whether a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It takes events.
    Up,
    /// It is frozen; the clock goes on and everything piles up.
    Paused,
    /// It crashed and may come back.
    Down,
    /// It never comes back under this identity.
    Gone,
}

/// One node.
pub(crate) struct Process<M: Machine> {
    pub(crate) id: NodeId,
    /// Counts lives; what was asked for in an earlier life is void.
    pub(crate) incarnation: u32,
    pub(crate) life: Life,
    /// What its next start will be.
    pub(crate) next_boot: Boot,
    pub(crate) machine: Option<M>,
    pub(crate) out: OutOf<M>,
    pub(crate) rng: Rng,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk<M::Record>,
    pub(crate) store: SimStore,
    pub(crate) held: VecDeque<(Position, Held<M>)>,
    pub(crate) timers: BTreeMap<M::Timer, Armed>,
    pub(crate) entries: u64,
    pub(crate) inbox: VecDeque<Arrival<M>>,
    pub(crate) workers: Workers,
    /// Came from outside and waits for a worker.
    pub(crate) callers: VecDeque<Arrival<M>>,
    /// A sync ended while the node was frozen.
    pub(crate) synced_unseen: bool,
    /// The disk has no room left; a restart finds it so.
    pub(crate) disk_full: bool,
    /// Each sync takes this many times as long.
    pub(crate) disk_slowness: u64,
}

impl<M: Machine> Process<M> {
    /// Whether it takes an event now rather than later.
    pub(crate) fn is_ready(&self) -> bool {
        self.life == Life::Up && !self.disk.is_blocking()
    }

    /// What a crash does to everything but the disk.
    pub(crate) fn die(&mut self) {
        self.machine = None;
        self.incarnation += 1;
        self.held.clear();
        self.timers.clear();
        self.inbox.clear();
        self.workers.die();
        self.callers.clear();
        self.synced_unseen = false;
        self.disk_slowness = 1;
    }
}

/// All nodes of a world, to look at.
pub struct Nodes<M: Machine> {
    pub(crate) processes: Vec<Process<M>>,
    /// Which process runs, or ran, each identity: `NodeId(i + 1)` at `i`.
    pub(crate) places: Vec<u32>,
}

impl<M: Machine> Nodes<M> {
    /// The place in which `node` runs or ran; `None` if there never was such a node.
    pub(crate) fn place(&self, node: NodeId) -> Option<usize> {
        let index = usize::try_from(node.0.checked_sub(1)?).ok()?;
        self.places.get(index).map(|place| *place as usize)
    }

    fn process(&self, node: NodeId) -> Option<&Process<M>> {
        self.processes.get(self.place(node)?).filter(|process| process.id == node)
    }

    /// Current identities, by place.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.processes.iter().map(|process| process.id)
    }

    /// The machines of the nodes that live (paused ones too), by place.
    pub fn live(&self) -> impl Iterator<Item = (NodeId, &M)> {
        self.processes.iter().filter_map(|process| Some((process.id, process.machine.as_ref()?)))
    }

    /// The machine of `node`, if it lives.
    pub fn machine(&self, node: NodeId) -> Option<&M> {
        self.process(node)?.machine.as_ref()
    }

    /// Whether `node` runs; identities that were replaced are gone.
    pub fn life(&self, node: NodeId) -> Life {
        self.process(node).map_or(Life::Gone, |process| process.life)
    }

    /// The materialised state of `node`.
    pub fn store(&self, node: NodeId) -> Option<&MemoryStore> {
        Some(self.process(node)?.store.memory())
    }

    /// How many records `node` has on disk.
    pub fn record_count(&self, node: NodeId) -> usize {
        self.process(node).map_or(0, |process| process.disk.record_count())
    }

    /// How long the workers of `node` have worked, all together; zero where work takes no time.
    pub fn busy(&self, node: NodeId) -> Duration {
        self.process(node).map_or(Duration::ZERO, |process| Duration::from_nanos(process.workers.busy))
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.processes.len()
    }
}

impl<M: Machine> fmt::Debug for Nodes<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.processes.iter().map(|process| (process.id, process.life))).finish()
    }
}
