//! Members live for chance times, crash for good, and others join in their places; with the settings of servers whose buckets
//! are placed.

use std::time::Duration;

use quorate_kernel::{NodeId, Rng};
use quorate_membership::Input;
use quorate_node::Placing;

use super::Row;
use super::fleet::Fleet;
use crate::World;

const SECOND: Duration = Duration::from_secs(1);
/// For how long it goes on, if the chain of views does not end before.
const LASTING: Duration = Duration::from_secs(1_800);
/// How often the views are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How it went with lifetimes of so many seconds in the mean. It ends early if most members of a view are dead: nobody can remove them.
pub(super) fn churn(nodes: usize, lifetime_s: f64, seed: u64) -> Row {
    let deaths_max = (LASTING.as_secs_f64() / lifetime_s * nodes as f64 * 1.5) as usize;
    let all = nodes + deaths_max;
    let config = Placing::production().membership;
    let mut world = Fleet::new(config, nodes, all, seed).world(all, seed);
    world.run_for(10 * SECOND);
    let mut rng = Rng::new(seed);
    let mut lifetime = || Duration::from_secs_f64(-(1.0 - rng.fraction()).ln() * lifetime_s);
    let begun = world.now();
    let mut living: Vec<(Duration, NodeId)> =
        (1..=nodes as u64).map(|id| (begun + lifetime(), NodeId(id))).collect();
    let (mut next, mut dead_max, mut waits) = (nodes as u64 + 1, 0, 0);
    let (mut seq, mut dead_sum, mut looks) = (1, 0, 0);
    while world.now() < begun + LASTING && (next as usize) < all {
        let until = world.now() + LOOK_EVERY;
        while let Some(place) =
            (0..living.len()).min_by_key(|place| living[*place].0).filter(|place| living[*place].0 <= until)
        {
            let (at, victim) = living.swap_remove(place);
            world.run_until(at.max(world.now()));
            world.crash(victim);
            let seeds = living.iter().map(|(_, id)| *id).collect();
            world.input(Duration::ZERO, NodeId(next), Input::Join { seeds });
            living.push((at + lifetime(), NodeId(next)));
            next += 1;
        }
        world.run_until(until);
        let Some((newest, members, dead)) = newest(&world, &living) else { break };
        (seq, dead_sum, looks) = (newest, dead_sum + dead, looks + 1);
        dead_max = dead_max.max(dead);
        waits = waits.max(living.len().saturating_sub(members - dead));
        if dead * 2 >= members {
            break;
        }
    }
    let held = world.now() >= begun + LASTING;
    Row::new("churn")
        .count("nodes", nodes as u64)
        .number("lifetime_s", lifetime_s)
        .number("seconds", (world.now() - begun).as_secs_f64())
        .count("whole", u64::from(held))
        .count("deaths", next - nodes as u64 - 1)
        .count("views", seq - 1)
        .number("dead_members_mean", dead_sum as f64 / f64::from(looks))
        .count("dead_members_max", dead_max as u64)
        .count("waiting_max", waits as u64)
        .count("fast_decisions", world.marks().count("membership.decided.fast"))
        .count("classic_decisions", world.marks().count("membership.decided.classic"))
}

/// The newest view that anybody who lives is in: its number, its members, and how many of them are dead.
fn newest(world: &World<Fleet>, living: &[(Duration, NodeId)]) -> Option<(u64, usize, usize)> {
    let views = world.nodes().live().filter_map(|(_, machine)| machine.view());
    let view = views.max_by_key(|view| view.seq())?;
    let dead = view.members.iter().filter(|member| living.iter().all(|(_, id)| *id != member.id)).count();
    Some((view.seq(), view.members.len(), dead))
}
