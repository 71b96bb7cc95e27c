//! Events per second and core: `cargo run --release -p quorate-sim --example throughput`.
//!
//! A ring of small machines that pass tokens on, persist now and then and keep a timer alive: what is measured is the
//! world, not the machines.

use std::time::{Duration, Instant};

use quorate_kernel::{Cx, Event, Machine, NodeId, Out, Position};
use quorate_sim::{Boot, Harness, World, WorldOptions};

/// Passes each token on to the next node.
struct Ring {
    nodes: u64,
    passed: u64,
}

impl Machine for Ring {
    type Msg = u64;
    type Timer = ();
    type Record = u64;
    type Input = ();
    type Output = ();

    fn restore(&mut self, _: &mut Cx<'_>, _: Position, _: u64) {}

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<u64, (), ()>, out: &mut Out<u64, (), u64, ()>) {
        let next = NodeId(cx.me.0 % self.nodes + 1);
        match event {
            Event::Start => (0..8).for_each(|token| out.send(next, token)),
            Event::Message { msg, .. } => {
                self.passed += 1;
                if self.passed.is_multiple_of(4) {
                    let position = out.persist(self.passed);
                    out.discard(position);
                }
                out.send(next, msg);
                out.arm((), Duration::from_millis(100));
            }
            Event::Timer(()) | Event::Input(()) => {}
        }
    }
}

struct Rings(u64);

impl Harness for Rings {
    type Machine = Ring;

    fn machine(&mut self, _: NodeId, _: Boot) -> Ring {
        Ring { nodes: self.0, passed: 0 }
    }
}

fn main() {
    for nodes in [3, 25, 400] {
        let mut world = World::new(WorldOptions::calm(1, nodes), Rings(nodes as u64));
        world.run_for(Duration::from_millis(500));
        let (before, started) = (world.counts(), Instant::now());
        while started.elapsed() < Duration::from_secs(1) {
            world.run_for(Duration::from_millis(100));
        }
        let (after, seconds) = (world.counts(), started.elapsed().as_secs_f64());
        println!(
            "{nodes:>4} nodes: {:>9.0} events/s, {:>9.0} steps/s",
            (after.events - before.events) as f64 / seconds,
            (after.steps - before.steps) as f64 / seconds,
        );
    }
}
