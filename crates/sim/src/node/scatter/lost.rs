//! Groups whose homes lose what they agreed to with others: all members but one die that have it, and an operator has that one go on.
//!
//! The last member of a home's log is cut off while an operation is under way, the others agree to it and die at once. What goes on after
//! `recover` knows nothing of it; homes beside it do. The ring has to come to rest all the same, and those who died may come back.

use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::{NodeId, Rng};
use quorate_node::{AdminRequest, Group, Input, Limits, Preset, Ticket};

use super::ring::Ring;
use super::runs::{founded, rest};
use super::setup::Sites;
use super::steps::{DEEDS, OPERATION_MAX, begin, slow_disks};
use crate::node::operator::leader;
use crate::{Failure, World};

/// Nobody agrees to anything more within so long after an operation was agreed to.
const AGREED_WITHIN_US: u64 = 3_000;
/// Halted buckets are looked for so often, and for so long after those who died are taken for dead.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS: usize = 100;
/// Recoveries are no clients' or operators' of the harness's.
const TICKET: Ticket = Ticket(u64::MAX);
/// A cluster is asked for no more than this: most nodes have to be there.
const DEAD_MAX: usize = 4;

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Operations in the middle of which, or soon after, all but one of a home's members died.
    pub struck: u64,
    /// Homes that took back what they had lost.
    pub mended: u64,
}

/// Has the homes of groups lose their last operations, one for each kind of operation.
///
/// # Errors
/// If the ring does not come to rest.
pub fn lose_homes(seed: u64, limits: &Limits) -> Result<Losses, Failure> {
    let mut losses = Losses::default();
    for (deed, place) in DEEDS.into_iter().zip(0..) {
        let setup = founded(3, Sites::One, 150, Preset::Steady, seed);
        let (sites, options) = setup.world();
        let mut ring = Ring::new(setup, &sites);
        ring.limits = limits.clone();
        let mut world = World::new(slow_disks(options), ring);
        rest(&mut world)?;
        let mut rng = Rng::new(seed ^ place << 32);
        let tells = |why: Failure| Failure::Liveness(format!("{deed:?} with seed {seed}: {why}"));
        let away = begin(&mut world, deed, &mut rng)?;
        losses.struck += u64::from(strike(&mut world, &mut rng).map_err(tells)?);
        away.into_iter().for_each(|node| world.restart(node));
        recover(&mut world);
        rest(&mut world).map_err(tells)?;
        losses.mended += world.marks().count("node.group.mended");
    }
    Ok(losses)
}

/// All members of a home's log die but one, who has not heard what they agreed to; `false` if no operation begins.
fn strike(world: &mut World<Ring>, rng: &mut Rng) -> Result<bool, Failure> {
    let has_begun = |world: &mut World<Ring>| world.harness().speaker().is_some();
    if !world.run_until_done(OPERATION_MAX, has_begun) {
        return Ok(false);
    }
    let Some((survivor, others)) = choose(world, rng) else { return Ok(false) };
    world.isolate(&[survivor]);
    world.run_until_done(OPERATION_MAX, |world| world.harness().has_agreed());
    world.run_for(Duration::from_micros(rng.below(AGREED_WITHIN_US)));
    world.heal();
    others.iter().for_each(|node| world.crash(*node));
    world.run_for(Duration::from_millis(rng.below(2_000)));
    if rng.chance(1, 2) {
        // They come back while it goes on without them, or before.
        recover(world);
        others.iter().for_each(|node| world.restart(*node));
    }
    world.failure().map_or(Ok(true), |failure| Err(failure.clone()))
}

/// Who is to go on with the home of some group, and its other members.
fn choose(world: &World<Ring>, rng: &mut Rng) -> Option<(NodeId, Vec<NodeId>)> {
    let knows = leader(world.nodes(), Bucket(0)).and_then(|id| world.nodes().machine(id))?;
    let groups: Vec<Group> = knows.groups().into_iter().cloned().collect();
    let home = world.harness().home_of(rng.pick(&groups)?);
    let lead = leader(world.nodes(), home)?;
    let members = world.nodes().machine(lead)?.shard(home)?.log().epoch().members.iter();
    let mut others: Vec<NodeId> = members.map(|member| member.id).filter(|id| *id != lead).collect();
    let survivor = *rng.pick(&others)?;
    others.retain(|id| *id != survivor);
    others.push(lead);
    (others.len() <= DEAD_MAX).then_some((survivor, others))
}

/// An operator has each halted bucket go on with what is left, until none is halted.
fn recover(world: &mut World<Ring>) {
    let mut calm = 0;
    while calm < LOOKS {
        world.run_for(LOOK_EVERY);
        let halted = world.nodes().live().find_map(|(id, node)| {
            let bucket = node.status().buckets.into_iter().find(|bucket| bucket.halt.is_some())?;
            Some((id, bucket.bucket))
        });
        calm = if halted.is_some() { 0 } else { calm + 1 };
        if let Some((node, bucket)) = halted {
            world.input(Duration::ZERO, node, Input::Admin(TICKET, AdminRequest::Recover { bucket }));
        }
        if world.failure().is_some() {
            return;
        }
    }
}
