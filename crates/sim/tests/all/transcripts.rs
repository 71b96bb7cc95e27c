//! Worlds driven by transcripts: an example of how protocol crates write theirs.

use std::path::Path;
use std::time::Duration;

use crate::toys::{Do, Probes};
use quorate_kernel::NodeId;
use quorate_sim::{
    ClockOptions, DiskOptions, Latency, NetworkOptions, TraceLevel, World, WorldOptions, transcript,
};

/// Two probes; messages take 1 ms, syncs 10 ms.
fn world() -> World<Probes> {
    let calm = WorldOptions::calm(1, 2);
    let ms = Duration::from_millis;
    let options = WorldOptions {
        network: NetworkOptions { latency: Latency::Constant(ms(1)), ..calm.network.clone() },
        disk: DiskOptions { sync: Latency::Constant(ms(10)), ..calm.disk },
        clock: ClockOptions { rate_error_ppm_max: 0, wall_error_ms: None },
        start_within: Duration::ZERO,
        trace: TraceLevel::Keep,
        ..calm
    };
    World::new(options, Probes::default())
}

fn order(line: &str) -> Do {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("{line}: a number is missing"));
    match words[0] {
        "send" => Do::Send(number(1), number(2) as u32),
        "send-early" => Do::SendEarly(number(1), number(2) as u32),
        "persist" => Do::Persist(number(1) as u32),
        "output" => Do::Output(number(1) as u32),
        _ => panic!("{line}: not something a probe can be told"),
    }
}

#[test]
fn transcripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/transcripts");
    transcript::walk(directory, |_| {
        let mut world = world();
        move |directive| {
            let node = || NodeId(directive.get("node"));
            match directive.name.as_str() {
                "tell" => world.input(Duration::ZERO, node(), directive.input.lines().map(order).collect()),
                "crash" => world.crash(node()),
                "restart" => world.restart(node()),
                "run" => world.run_for(Duration::from_millis(directive.get("ms"))),
                name => panic!("line {}: {name} is not a command", directive.line),
            }
            world.take_trace().join("\n")
        }
    });
}
