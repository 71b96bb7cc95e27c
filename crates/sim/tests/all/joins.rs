//! Nodes that ask to join where they should not.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_node::{AdminOutcome, AdminRequest, Input, Node, Output, Ticket};
use quorate_sim::{Agenda, Boot, Harness, Nodes, Seen, Verdict, World, WorldOptions};

use crate::node::node_of;

/// The first five nodes begin a cluster; the sixth knows nobody.
const BEGIN: u64 = 5;
const JOINER: NodeId = NodeId(6);

#[derive(Default)]
struct Five {
    outcome: Option<AdminOutcome>,
}

impl Harness for Five {
    type Machine = Node;

    fn machine(&mut self, id: NodeId, _: Boot) -> Node {
        let first = if id == JOINER { 0..0 } else { 1..BEGIN + 1 };
        node_of(id, first, NonZeroU16::MIN)
    }

    fn start(&mut self, _: &mut Agenda<Input>) {}

    fn woken(&mut self, _: u64, _: &Nodes<Node>, _: &mut Agenda<Input>) -> Verdict {
        Ok(())
    }

    fn output(&mut self, _: Seen<'_, Node>, output: Output, _: &mut Agenda<Input>) -> Verdict {
        if let Output::Admin(_, outcome) = output {
            self.outcome = Some(outcome);
        }
        Ok(())
    }
}

fn log(node: &Node) -> &quorate_replog::Replog {
    node.shard(Bucket(0)).expect("every node has the first bucket").log()
}

/// Two nodes were removed while they were down; each remembers both as members. Whoever asks them to be let in is handed on to those
/// who stayed, and not from one to the other and back without an end.
#[test]
fn nodes_that_left_do_not_hand_a_joiner_to_one_another() {
    let mut world = World::new(WorldOptions::calm(3, BEGIN as usize + 1), Five::default());
    let leader =
        |world: &World<Five>| world.nodes().live().find(|(_, node)| log(node).leads()).map(|(id, _)| id);
    assert!(world.run_until_done(Duration::from_secs(5), |world| leader(world).is_some()));
    let leads = leader(&world).expect("somebody leads");
    let others: Vec<NodeId> = (1..=BEGIN).map(NodeId).filter(|id| *id != leads).collect();
    let gone = [others[0], others[1]];
    gone.iter().for_each(|id| world.crash(*id));
    // Twice, so that the leader tells them nothing any more.
    for (ticket, remove) in [(1, gone.to_vec()), (2, vec![others[2]])] {
        world.harness_mut().outcome = None;
        let change = AdminRequest::ChangeMembers { add: Vec::new(), remove };
        world.input(Duration::ZERO, leads, Input::Admin(Ticket(ticket), change));
        assert!(world.run_until_done(Duration::from_secs(20), |world| world.harness().outcome.is_some()));
        assert_eq!(world.harness().outcome, Some(AdminOutcome::Done));
    }
    gone.iter().for_each(|id| world.restart(*id));
    assert!(world.run_until_done(Duration::from_secs(20), |world| {
        gone.iter().all(|id| world.nodes().machine(*id).is_some_and(|node| log(node).is_retired()))
    }));

    for id in &gone {
        world.input(Duration::ZERO, JOINER, Input::PeerConnected(*id));
    }
    let before = world.counts().events;
    let joined = world.run_until_done(Duration::from_secs(20), |world| {
        world.nodes().live().any(|(id, node)| id == leads && log(node).epoch().has(JOINER))
            || world.counts().events - before > 1_000_000
    });
    let events = world.counts().events - before;
    assert!(joined && events < 100_000, "{events} events");
    assert!(world.marks().count("node.join.after-leaving") > 0);
}
