//! What a world does to a machine, one thing at a time.

use std::time::Duration;

use crate::toys::{Do, Probes, Saw};
use quorate_kernel::NodeId;
use quorate_sim::{
    Boot, ClockOptions, DiskOptions, Failure, Latency, Life, NetworkOptions, Order, Service, TraceLevel,
    World, WorldOptions,
};
use quorate_store::Store;

const MS: Duration = Duration::from_millis(1);

/// Messages take 1 ms, syncs 10 ms, clocks are right.
fn options(nodes: usize) -> WorldOptions {
    let calm = WorldOptions::calm(1, nodes);
    WorldOptions {
        network: NetworkOptions { latency: Latency::Constant(MS), ..calm.network.clone() },
        disk: DiskOptions { sync: Latency::Constant(10 * MS), ..calm.disk },
        clock: ClockOptions { rate_error_ppm_max: 0, wall_error_ms: None },
        ..calm
    }
}

fn world(options: WorldOptions) -> World<Probes> {
    let mut world = World::new(options, Probes::default());
    world.run_for(5 * MS);
    world
}

fn tell(world: &mut World<Probes>, node: u64, todo: &[Do]) {
    world.input(Duration::ZERO, NodeId(node), todo.to_vec());
}

/// What a node saw since it started, without what it was told.
fn saw(world: &World<Probes>, node: u64) -> Vec<Saw> {
    let machine = world.nodes().machine(NodeId(node)).expect("it lives");
    machine.saw.iter().filter(|saw| !matches!(saw, Saw::Started | Saw::Asked)).cloned().collect()
}

#[test]
fn the_gate_holds_until_the_sync_is_done() {
    let mut world = world(options(2));
    tell(
        &mut world,
        1,
        &[Do::Send(2, 1), Do::Persist(7), Do::Send(2, 2), Do::SendEarly(2, 3), Do::Send(1, 4), Do::Output(5)],
    );
    world.run_for(2 * MS);
    assert_eq!(
        saw(&world, 2),
        [Saw::Got(1, 1), Saw::Got(1, 3)],
        "what stands before the record, or is early"
    );
    assert_eq!((saw(&world, 1), world.harness().said.as_slice()), (vec![], &[][..]));
    world.run_for(10 * MS);
    assert_eq!(saw(&world, 2).last(), Some(&Saw::Got(1, 2)));
    assert_eq!(saw(&world, 1), [Saw::Got(1, 4)], "to itself");
    assert_eq!(world.harness().said, [(1, 5)]);
}

#[test]
fn a_crash_before_the_sync_takes_gated_effects_along() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut world = world(WorldOptions { seed, ..options(2) });
        tell(&mut world, 1, &[Do::Persist(7), Do::Send(2, 2), Do::Send(1, 3), Do::Output(5)]);
        world.run_for(9 * MS);
        world.crash(NodeId(1));
        assert_eq!(world.nodes().life(NodeId(1)), Life::Down);
        world.restart(NodeId(1));
        world.run_for(100 * MS);
        assert_eq!(saw(&world, 2), [], "the message never left");
        assert_eq!(world.harness().said, []);
        match saw(&world, 1).as_slice() {
            [] => lost += 1,
            [Saw::Restored(1, 7)] => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((5..35).contains(&lost), "an unsynced record may be there or not: {lost}");
}

#[test]
fn what_is_synced_survives_and_what_is_discarded_does_not() {
    let mut world = world(options(1));
    tell(&mut world, 1, &[Do::Persist(1), Do::Persist(2), Do::Persist(3), Do::Discard(3)]);
    world.run_for(9 * MS);
    assert_eq!(world.nodes().record_count(NodeId(1)), 3, "a discard waits for the gate as well");
    world.run_for(5 * MS);
    world.crash(NodeId(1));
    world.restart(NodeId(1));
    world.run_for(MS);
    assert_eq!(saw(&world, 1), [Saw::Restored(3, 3)]);
    assert_eq!(world.harness().boots, [(1, Boot::First), (1, Boot::Restart)]);
}

#[test]
fn one_sync_covers_everything_that_came_before_it() {
    let mut world = world(options(1));
    tell(&mut world, 1, &[Do::Persist(1), Do::Output(1)]);
    for n in 2..50 {
        world.input(MS, NodeId(1), vec![Do::Persist(n), Do::Output(n)]);
    }
    world.run_for(15 * MS);
    assert_eq!(world.harness().said, [(1, 1)]);
    world.run_for(10 * MS);
    assert_eq!((world.harness().said.len(), world.counts().syncs), (49, 2));
}

#[test]
fn a_blocking_disk_makes_events_wait() {
    let mut options = options(2);
    options.disk.blocking = true;
    let mut world = world(options);
    tell(&mut world, 1, &[Do::Persist(1)]);
    world.input(MS, NodeId(2), vec![Do::Send(1, 9)]);
    world.run_for(9 * MS);
    assert_eq!(saw(&world, 1), []);
    world.run_for(2 * MS);
    assert_eq!(saw(&world, 1), [Saw::Got(2, 9)]);
}

#[test]
fn a_volatile_node_waits_for_nothing_and_comes_back_as_another() {
    let mut options = options(1);
    options.disk.volatile = true;
    let mut world = World::new(options, Probes { replace: true, ..Probes::default() });
    world.run_for(5 * MS);
    tell(&mut world, 1, &[Do::Persist(1), Do::Output(1)]);
    world.run_for(MS);
    assert_eq!(world.harness().said, [(1, 1)]);
    world.crash(NodeId(1));
    world.restart(NodeId(1));
    world.run_for(MS);
    assert_eq!(world.harness().boots.last(), Some(&(2, Boot::Replacing(NodeId(1)))));
    assert_eq!((world.nodes().life(NodeId(1)), world.nodes().life(NodeId(2))), (Life::Gone, Life::Up));
}

#[test]
fn a_lost_disk_means_a_new_identity_and_mail_for_the_old_one_is_lost() {
    let mut world = World::new(options(2), Probes { replace: true, ..Probes::default() });
    world.run_for(5 * MS);
    tell(&mut world, 1, &[Do::Persist(1)]);
    world.run_for(20 * MS);
    assert_eq!(world.lose_disk(NodeId(1), MS), Some(NodeId(3)));
    world.run_for(2 * MS);
    tell(&mut world, 2, &[Do::Send(1, 1), Do::Send(3, 3)]);
    tell(&mut world, 1, &[]);
    world.run_for(5 * MS);
    assert_eq!(saw(&world, 3), [Saw::Got(2, 3)], "no record, and no mail of another");
    assert_eq!(world.harness().refused, [1]);
    assert_eq!(world.lose_disk(NodeId(2), Duration::from_secs(60)), Some(NodeId(4)));
    world.heal();
    world.run_for(MS);
    assert_eq!(
        world.harness().boots.last(),
        Some(&(4, Boot::Replacing(NodeId(2)))),
        "healing waits for nobody"
    );
}

#[test]
fn cuts_lose_and_clogs_hold_back() {
    let mut world = world(options(3));
    world.cut(NodeId(1), NodeId(2));
    world.clog(NodeId(1), NodeId(3));
    tell(&mut world, 1, &[Do::Send(2, 1), Do::Send(3, 1)]);
    tell(&mut world, 2, &[Do::Send(1, 2)]);
    world.run_for(50 * MS);
    assert_eq!((saw(&world, 2), saw(&world, 3)), (vec![], vec![]));
    assert_eq!(saw(&world, 1), [Saw::Got(2, 2)], "a cut is one-way");
    world.uncut(NodeId(1), NodeId(2));
    world.unclog(NodeId(1), NodeId(3));
    world.run_for(5 * MS);
    assert_eq!(saw(&world, 2), [], "lost is lost");
    assert_eq!(saw(&world, 3), [Saw::Got(1, 1)]);
    world.isolate(&[NodeId(1)]);
    tell(&mut world, 1, &[Do::Send(2, 3)]);
    tell(&mut world, 2, &[Do::Send(1, 3), Do::Send(3, 3)]);
    world.run_for(5 * MS);
    assert_eq!(saw(&world, 1).len() + saw(&world, 2).len(), 1);
    assert_eq!(saw(&world, 3).last(), Some(&Saw::Got(2, 3)));
    world.heal();
    tell(&mut world, 1, &[Do::Send(2, 4)]);
    world.run_for(5 * MS);
    assert_eq!(saw(&world, 2), [Saw::Got(1, 4)]);
}

#[test]
fn fifo_keeps_order_free_does_not_and_duplicates_arrive_twice() {
    let received = |order, duplicate_ppm| {
        let mut options = options(2);
        let latency = Latency::Uniform(MS, 20 * MS);
        options.network = NetworkOptions { latency, order, duplicate_ppm, ..options.network };
        let mut world = world(options);
        tell(&mut world, 1, &(0..100).map(|n| Do::Send(2, n)).collect::<Vec<_>>());
        world.run_for(50 * MS);
        saw(&world, 2)
    };
    let sent: Vec<Saw> = (0..100).map(|n| Saw::Got(1, n)).collect();
    assert_eq!(received(Order::Fifo, 0), sent);
    let free = received(Order::Free, 0);
    assert!(free != sent && free.len() == 100);
    assert!((130..170).contains(&received(Order::Free, 500_000).len()));
}

#[test]
fn mail_to_oneself_is_never_lost_and_others_mail_may_be() {
    let mut options = options(2);
    options.network.loss_ppm = 1_000_000;
    let mut world = world(options);
    tell(&mut world, 1, &[Do::Send(1, 1), Do::Send(2, 1)]);
    world.run_for(5 * MS);
    assert_eq!((saw(&world, 1), saw(&world, 2)), (vec![Saw::Got(1, 1)], vec![]));
}

#[test]
fn timers_fire_once_when_last_armed_and_never_when_disarmed() {
    let mut world = world(options(1));
    tell(&mut world, 1, &[Do::Arm('a', 10), Do::Arm('b', 10), Do::Arm('c', 10), Do::Arm('d', 10)]);
    world.input(5 * MS, NodeId(1), vec![Do::Arm('a', 20), Do::Disarm('b'), Do::Arm('c', 1)]);
    world.run_for(9 * MS);
    assert_eq!(saw(&world, 1), [Saw::Fired('c')], "earlier than it was set to first");
    world.run_for(3 * MS);
    assert_eq!(saw(&world, 1).last(), Some(&Saw::Fired('d')));
    world.run_for(12 * MS);
    assert_eq!(saw(&world, 1).len(), 2, "'a' was set again");
    world.run_for(50 * MS);
    assert_eq!(saw(&world, 1), [Saw::Fired('c'), Saw::Fired('d'), Saw::Fired('a')]);
    tell(&mut world, 1, &[Do::Arm('a', 10), Do::Disarm('a'), Do::Arm('a', 30)]);
    world.run_for(20 * MS);
    assert_eq!(saw(&world, 1).len(), 3);
    world.run_for(20 * MS);
    assert_eq!(saw(&world, 1).len(), 4);
}

#[test]
fn a_timer_dies_with_its_node() {
    let mut world = world(options(1));
    tell(&mut world, 1, &[Do::Arm('a', 10)]);
    world.run_for(MS);
    world.crash(NodeId(1));
    world.restart(NodeId(1));
    world.run_for(50 * MS);
    assert_eq!(saw(&world, 1), []);
}

#[test]
fn timers_keep_to_the_nodes_own_clock() {
    let mut options = options(1);
    options.clock.rate_error_ppm_max = 100_000;
    let mut rates = Vec::new();
    for seed in 0..20 {
        let mut world = world(WorldOptions { seed, ..options.clone() });
        let asked = world.now();
        tell(&mut world, 1, &[Do::Arm('a', 1_000)]);
        assert!(world.run_until_done(Duration::from_secs(2), |world| !saw(world, 1).is_empty()));
        let machine = world.nodes().machine(NodeId(1)).expect("it lives");
        let [.., armed, fired] = machine.at[..] else { panic!("two events at least") };
        assert!(
            fired.since(armed) >= Duration::from_secs(1) && fired.since(armed) < Duration::from_millis(1_001)
        );
        rates.push((world.now() - asked).as_millis());
    }
    assert!(rates.iter().any(|ms| *ms < 970) && rates.iter().any(|ms| *ms > 1_030), "{rates:?}");
    assert!(rates.iter().all(|ms| (900..1_120).contains(ms)), "{rates:?}");
}

#[test]
fn what_reaches_a_frozen_node_piles_up_and_the_clock_goes_on() {
    let mut world = world(options(2));
    tell(&mut world, 1, &[Do::Arm('a', 10), Do::Arm('b', 20), Do::Persist(1), Do::Send(2, 1)]);
    world.run_for(MS);
    world.pause(NodeId(1), 100 * MS);
    tell(&mut world, 2, &[Do::Send(1, 2)]);
    world.input(50 * MS, NodeId(1), vec![Do::Disarm('b')]);
    world.run_for(90 * MS);
    assert_eq!((saw(&world, 1), saw(&world, 2)), (vec![], vec![]), "the sync is done and nobody notices");
    world.run_for(20 * MS);
    assert_eq!(saw(&world, 1), [Saw::Got(2, 2), Saw::Fired('a'), Saw::Fired('b')]);
    assert_eq!(saw(&world, 2), [Saw::Got(1, 1)]);
    let at = &world.nodes().machine(NodeId(1)).expect("it lives").at;
    assert!(at[at.len() - 1].since(at[1]) >= 100 * MS, "the clock went on");
    // The input that disarms came first in the pile: then the timer must not fire any more.
    tell(&mut world, 1, &[Do::Arm('z', 50)]);
    world.run_for(MS);
    world.pause(NodeId(1), 100 * MS);
    tell(&mut world, 1, &[Do::Disarm('z')]);
    world.run_for(200 * MS);
    assert!(!saw(&world, 1).contains(&Saw::Fired('z')));
}

#[test]
fn a_store_falls_back_to_its_last_checkpoint() {
    let mut options = options(1);
    options.disk.checkpoint = Latency::Constant(20 * MS);
    let mut world = world(options);
    let value = |world: &World<Probes>| {
        world.nodes().store(NodeId(1)).and_then(|store| store.get(b"key")).map(|value| value[3])
    };
    tell(&mut world, 1, &[Do::Put(1), Do::Checkpoint]);
    world.run_for(30 * MS);
    tell(&mut world, 1, &[Do::Put(2), Do::Checkpoint]);
    world.run_for(10 * MS);
    assert_eq!(value(&world), Some(2));
    world.crash(NodeId(1));
    assert_eq!(value(&world), Some(1), "the second checkpoint was not done yet");
    world.restart(NodeId(1));
    world.run_for(MS);
    assert_eq!(value(&world), Some(1));
}

#[test]
fn a_harness_takes_aim_and_loses_single_messages() {
    let mut world = World::new(options(2), Probes { censored: Some(2), aims: true, ..Probes::default() });
    world.run_for(5 * MS);
    tell(&mut world, 1, &[Do::Send(2, 1), Do::Send(2, 2), Do::Send(2, 3)]);
    world.run_for(2 * MS);
    assert_eq!(saw(&world, 2), [Saw::Got(1, 1), Saw::Got(1, 3)]);
    // It crashes node 1 at 10 ms, freezes node 2 at 40 ms and cuts it off at 70 ms, for 20 ms each.
    let life = |world: &World<Probes>, node| world.nodes().life(NodeId(node));
    world.run_until(15 * MS);
    assert_eq!((life(&world, 1), life(&world, 2)), (Life::Down, Life::Up));
    world.run_until(45 * MS);
    assert_eq!((life(&world, 1), life(&world, 2)), (Life::Up, Life::Paused));
    world.run_until(75 * MS);
    assert_eq!((life(&world, 1), life(&world, 2)), (Life::Up, Life::Up));
    let before = saw(&world, 2).len();
    tell(&mut world, 1, &[Do::Send(2, 4)]);
    world.run_until(95 * MS);
    tell(&mut world, 1, &[Do::Send(2, 5)]);
    world.run_until(100 * MS);
    assert_eq!(saw(&world, 2)[before..], [Saw::Got(1, 5)]);
}

#[test]
fn running_in_circles_ends() {
    struct Circle;
    impl quorate_kernel::Machine for Circle {
        type Msg = ();
        type Timer = ();
        type Record = ();
        type Input = ();
        type Output = ();
        fn restore(&mut self, _: &mut quorate_kernel::Cx<'_>, _: quorate_kernel::Position, (): ()) {}
        fn step(
            &mut self,
            cx: &mut quorate_kernel::Cx<'_>,
            _: quorate_kernel::Event<(), (), ()>,
            out: &mut quorate_kernel::Out<(), (), (), ()>,
        ) {
            out.send(cx.me, ());
        }
    }
    struct Circles;
    impl quorate_sim::Harness for Circles {
        type Machine = Circle;
        fn machine(&mut self, _: NodeId, _: Boot) -> Circle {
            Circle
        }
    }
    let mut world = World::new(WorldOptions { events_max: 1_000, ..options(1) }, Circles);
    world.run_for(Duration::from_secs(1));
    assert!(matches!(world.failure(), Some(Failure::Liveness(why)) if why.contains("going round")));
}

#[test]
fn a_trace_reads_well() {
    let mut world = World::new(WorldOptions { trace: TraceLevel::Keep, ..options(2) }, Probes::default());
    world.run_for(5 * MS);
    tell(&mut world, 1, &[Do::Persist(7), Do::Send(2, 1)]);
    world.run_for(20 * MS);
    world.crash(NodeId(2));
    let lines: Vec<String> = world.take_trace().iter().map(|line| line[15..].to_owned()).collect();
    assert_eq!(
        lines[4..],
        [
            "n1 takes Input([Persist(7), Send(2, 1)])",
            "n1   Persist(7)",
            "n1   Send { to: n2, msg: 1, gate: Durable }",
            "n1 is durable up to Position(1)",
            "n2 takes Message { from: n1, msg: 1 }",
            "n2 dies",
        ]
    );
}

#[test]
fn what_nodes_say_goes_before_what_comes_from_outside() {
    for peers_first in [false, true] {
        let time = Latency::Constant(10 * MS);
        let service = Some(Service { workers: 1, time, peers_first, ..Service::eight_workers() });
        let mut world = world(WorldOptions { service, ..options(2) });
        for _ in 0..3 {
            tell(&mut world, 1, &[]);
        }
        tell(&mut world, 2, &[Do::Send(1, 7), Do::Send(1, 8), Do::Send(1, 9)]);
        world.run_for(100 * MS);
        let got = |msg| Saw::Got(2, msg);
        let order = match peers_first {
            // Two were begun before the first message came.
            true => [Saw::Asked, Saw::Asked, got(7), got(8), got(9), Saw::Asked],
            false => [Saw::Asked, Saw::Asked, Saw::Asked, got(7), got(8), got(9)],
        };
        let machine = world.nodes().machine(NodeId(1)).expect("it lives");
        assert_eq!(machine.saw[1..], order, "peers first: {peers_first}");
    }
}
