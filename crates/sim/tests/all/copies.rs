//! Reads that copies answer: as fresh as the leader's, and soon.

use std::num::NonZeroU16;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Bucket, Command, Consistency, Outcome, Reply, Request};
use quorate_kernel::NodeId;
use quorate_node::{ClientRequest, ConnectionId, Input, Node, Output, Ticket};
use quorate_sim::{Agenda, Boot, Harness, Nodes, Seen, Verdict, World, WorldOptions};

use crate::node::node_of;

/// One client writes at the leader; as soon as that is acknowledged, another reads at a copy; and so on.
struct Turns {
    buckets: NonZeroU16,
    /// What is read; all of it is written by one transaction.
    keys: Vec<&'static str>,
    leader: Option<NodeId>,
    copy: Option<NodeId>,
    ticket: u64,
    written: i64,
    asked_at: Duration,
    waits: Vec<Duration>,
}

fn command(words: &[&str]) -> Command {
    let spec = quorate_values::find(words[0].as_bytes()).expect("a command");
    let args = words[1..].iter().map(|word| Bytes::copy_from_slice(word.as_bytes()));
    Command { code: spec.code, args: args.collect() }
}

impl Turns {
    fn new(buckets: u16, keys: &[&'static str]) -> Turns {
        Turns {
            buckets: NonZeroU16::new(buckets).expect("above zero"),
            keys: keys.to_vec(),
            leader: None,
            copy: None,
            ticket: 0,
            written: 0,
            asked_at: Duration::ZERO,
            waits: Vec::new(),
        }
    }

    /// Odd tickets write, even ones read.
    fn ask(&mut self, agenda: &mut Agenda<Input>) {
        let (Some(leader), Some(copy)) = (self.leader, self.copy) else { return };
        self.ticket += 1;
        let writes = self.ticket % 2 == 1;
        let name = if writes { "incr" } else { "get" };
        let commands = self.keys.iter().map(|key| command(&[name, key])).collect();
        let request = ClientRequest {
            connection: ConnectionId(self.ticket % 2),
            ticket: Ticket(self.ticket),
            request: Request::Transaction { watched: Vec::new(), commands },
            consistency: if writes { Consistency::Strict } else { Consistency::Near },
            identity: None,
        };
        self.asked_at = agenda.now();
        agenda.input(Duration::ZERO, if writes { leader } else { copy }, Input::Requests(vec![request]));
    }
}

impl Harness for Turns {
    type Machine = Node;

    fn machine(&mut self, id: NodeId, _: Boot) -> Node {
        node_of(id, 1..=3, self.buckets)
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(Duration::from_millis(1), 0);
    }

    fn woken(&mut self, _: u64, _: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        if self.ticket == 0 {
            self.ask(agenda);
        }
        agenda.wake(Duration::from_millis(1), 0);
        Ok(())
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        let Output::Replies(replies) = output else { return Ok(()) };
        for (_, ticket, outcome) in replies {
            assert_eq!(ticket, Ticket(self.ticket));
            let expected = match self.ticket % 2 {
                1 => {
                    self.written += 1;
                    Reply::Int(self.written)
                }
                _ => {
                    self.waits.push(seen.now - self.asked_at);
                    Reply::bulk(self.written.to_string())
                }
            };
            let all = Outcome::Done(Reply::Array(vec![expected; self.keys.len()]));
            if outcome != all {
                return Err(format!("{ticket:?} was answered with {outcome:?}, not {all:?}"));
            }
            self.ask(agenda);
        }
        Ok(())
    }
}

/// How long copies took to answer what had just been written, and how often a copy did.
fn waits(buckets: u16, keys: &[&'static str]) -> (Vec<Duration>, u64) {
    let mut world = World::new(WorldOptions::calm(7, 3), Turns::new(buckets, keys));
    let leads = |world: &World<Turns>, bucket| {
        let leading = world
            .nodes()
            .live()
            .find(|(_, node)| node.is_ready() && node.shard(bucket).is_some_and(|shard| shard.log().leads()));
        leading.map(|(id, _)| id)
    };
    assert!(world.run_until_done(Duration::from_secs(5), |world| leads(world, Bucket(0)).is_some()));
    // Until other nodes have taken over the other buckets.
    world.run_for(Duration::from_secs(5));
    let leader = leads(&world, Bucket(0)).expect("somebody leads");
    let copy = world.nodes().ids().find(|id| *id != leader).expect("three nodes");
    (world.harness_mut().leader, world.harness_mut().copy) = (Some(leader), Some(copy));
    assert!(world.run_until_done(Duration::from_secs(20), |world| world.harness().waits.len() >= 200));
    let near = world.marks().count("node.read.near");
    (std::mem::take(&mut world.harness_mut().waits), near)
}

#[test]
fn a_copy_shows_at_once_what_was_just_acknowledged() {
    let (mut waits, near) = waits(1, &["a"]);
    waits.sort();
    println!("median {:?}, longest {:?}", waits[waits.len() / 2], waits[waits.len() - 1]);
    assert!(near >= 200, "the copy answered {near} of {}", waits.len());
    // A round trip, or a little more; without being told what is chosen it would wait for the leader's next beat.
    let beat = quorate_replog::Config::production().heartbeat;
    assert!(waits[waits.len() - 1] < beat / 4, "{waits:?}");
}

#[test]
fn copies_show_one_instant_of_several_buckets() {
    let keys = ["a", "b", "c", "d"];
    let buckets = NonZeroU16::new(3).expect("above zero");
    assert!(keys.iter().any(|key| Bucket::of_key(key.as_bytes(), buckets) != Bucket::of_key(b"a", buckets)));
    let (mut waits, near) = waits(buckets.get(), &keys);
    waits.sort();
    println!("median {:?}, longest {:?}", waits[waits.len() / 2], waits[waits.len() - 1]);
    assert!(near >= 200, "copies answered {near} questions for {} reads", waits.len());
    // What was acknowledged may not be carried out in each bucket yet: nobody waits for a beat to learn that it is.
    let beat = quorate_replog::Config::production().heartbeat;
    assert!(waits[waits.len() - 1] < beat / 2, "{waits:?}");
}
