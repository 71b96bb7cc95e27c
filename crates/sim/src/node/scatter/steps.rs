//! A crash between any two steps of an operation of groups (Scatter 4.3).
//!
//! Whoever speaks for the group, or somebody else who leads a home that has to agree, dies after each of its own steps in turn while the
//! operation is under way, and comes back with what was on its disk. Each time the ring has to come to rest as one that was changed or
//! was not, and the invariants hold after every step of everybody.

use std::time::Duration;

use quorate_api::{Bucket, SLOT_COUNT};
use quorate_kernel::{NodeId, Rng};
use quorate_node::{Group, GroupRequest, Limits, Node, Preset, Which};

use super::ring::Ring;
use super::runs::{founded, rest};
use super::setup::Sites;
use crate::node::operator::leader;
use crate::node::witness::Witness;
use crate::{DiskOptions, Failure, Latency, Seen, World, WorldOptions};

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Who speaks for the group, and coordinates the operation.
    Speaker,
    /// Another node that leads a home.
    Other,
}

/// Somebody is to die in the middle of an operation.
#[derive(Debug)]
pub(super) struct Strike {
    role: Role,
    /// Steps of such nodes that are still to come before that.
    left: u64,
    /// Who it is, now.
    victim: Option<NodeId>,
}

impl Strike {
    /// Looks at a step; `speaker` has an operation under way.
    pub(super) fn look(&mut self, seen: &Seen<'_, Node>, speaker: NodeId) {
        let is_one = match self.role {
            Role::Speaker => seen.node == speaker,
            Role::Other => seen.node != speaker && leads_home(seen.machine),
        };
        if is_one && self.victim.is_none() {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => self.victim = Some(seen.node),
            }
        }
    }
}

fn leads_home(node: &Node) -> bool {
    let leads = |home: &Bucket| node.shard(*home).is_some_and(|shard| shard.takes_batches());
    let is_home = |home: &Bucket| node.seat(*home).is_some_and(|seat| seat.line(Which::Own).group.is_some());
    node.buckets().any(|home| leads(&home) && is_home(&home))
}

/// What is done to the groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    Split,
    Merge,
    Repartition,
    Migrate,
    /// A member dies, and is let go.
    Failure,
    /// Another comes.
    Join,
}

pub(super) const DEEDS: [Deed; 6] =
    [Deed::Split, Deed::Merge, Deed::Repartition, Deed::Migrate, Deed::Failure, Deed::Join];

/// How long an operation may take to begin and to end.
pub(super) const OPERATION_MAX: Duration = Duration::from_secs(10);
/// Crashed nodes are away for so long: shorter and longer than it takes until they are let go.
const AWAY: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(2_500)];
/// What the disk takes.
const SYNC: Latency = Latency::Uniform(Duration::from_micros(100), Duration::from_micros(300));
/// So many operations are tried before it is said that they take no more steps: some make no sense, others are shorter.
const TRIES: usize = 4;

/// Has somebody of this role die at one step of every `every` of each operation, from `first` on; how many died in the middle of one.
///
/// # Errors
/// If the ring does not come to rest, or an invariant does not hold.
pub fn crash_at_steps(
    role: Role,
    (first, every): (u64, usize),
    seed: u64,
    limits: &Limits,
) -> Result<u64, Failure> {
    let setup = founded(3, Sites::One, 150, Preset::Steady, seed);
    let (sites, options) = setup.world();
    let mut ring = Ring::new(setup, &sites);
    ring.witness = Some(Witness::default());
    ring.limits = limits.clone();
    let mut world = World::new(slow_disks(options), ring);
    rest(&mut world)?;
    let (mut rng, mut struck) = (Rng::new(seed), 0);
    for deed in DEEDS {
        for step in (first..).step_by(every) {
            let is_struck = crash_at(&mut world, deed, (role, step), &mut rng).map_err(|why| {
                Failure::Liveness(format!("{deed:?}, step {step} of {role:?}, at {:?}: {why}", world.now()))
            })?;
            if !is_struck {
                break;
            }
            struck += 1;
        }
    }
    Ok(struck)
}

/// Disks so slow that something is always on its way there.
pub(super) fn slow_disks(options: WorldOptions) -> WorldOptions {
    let disk = DiskOptions { volatile: false, sync: SYNC, ..options.disk };
    WorldOptions { disk, ..options }
}

/// Has one die at this step of some such operation; `false` if all that were tried were over before.
fn crash_at(
    world: &mut World<Ring>,
    deed: Deed,
    (role, left): (Role, u64),
    rng: &mut Rng,
) -> Result<bool, Failure> {
    for _ in 0..TRIES {
        let away = begin(world, deed, rng)?;
        world.harness_mut().strike = Some(Strike { role, left, victim: None });
        let ended = world.harness().ended;
        world.run_until_done(OPERATION_MAX, |world| {
            let ring = world.harness();
            ring.ended > ended || ring.strike.as_ref().is_some_and(|strike| strike.victim.is_some())
        });
        let victim = world.harness_mut().strike.take().and_then(|strike| strike.victim);
        if let Some(victim) = victim {
            world.crash(victim);
            world.run_for(*rng.pick(&AWAY).unwrap_or(&AWAY[0]));
            world.restart(victim);
        }
        away.into_iter().for_each(|node| world.restart(node));
        rest(world)?;
        if victim.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets an operation begin; who is away until it is over.
pub(super) fn begin(world: &mut World<Ring>, deed: Deed, rng: &mut Rng) -> Result<Option<NodeId>, Failure> {
    let first = leader(world.nodes(), Bucket(0)).and_then(|id| world.nodes().machine(id));
    let groups: Vec<Group> = first.map(Node::groups).into_iter().flatten().cloned().collect();
    let all: Vec<NodeId> = world.nodes().live().map(|(id, _)| id).collect();
    let (Some(group), Some(other), Some(node)) = (rng.pick(&groups), rng.pick(&groups), rng.pick(&all))
    else {
        return Ok(None);
    };
    let (group, to, node) = (group.name.id, other.name.id, *node);
    let request = match deed {
        Deed::Split => GroupRequest::Split { group },
        Deed::Merge => GroupRequest::Merge { group },
        Deed::Repartition => GroupRequest::Repartition { group, slot: rng.below(SLOT_COUNT.into()) as u16 },
        Deed::Migrate => GroupRequest::Move { node, to },
        Deed::Failure => {
            world.crash(node);
            return Ok(Some(node));
        }
        Deed::Join => {
            world.crash(node);
            rest(world)?;
            world.restart(node);
            return Ok(None);
        }
    };
    if let Some((at, input)) = world.harness.wish(&world.nodes, request) {
        world.input(Duration::ZERO, at, input);
    }
    Ok(None)
}
