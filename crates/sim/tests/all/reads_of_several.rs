//! A schedule in which a read of several keys of one bucket waits, while transactions on them are prepared, decided and carried out. It is played with
//! the rule that it is about (`quorate-shard`'s `reads.rs`), and, where mutants are compiled in, without.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Command, Reply, Request};
use quorate_commit::{LogId, Message, Outcome, Transaction, TransactionId, View, Vote, Word};
use quorate_kernel::{NodeId, wire};
use quorate_replog::{Config, Member, Replog};
use quorate_shard::{Decision, Export, Input, Limits, Mutant, Output, Part, Shard, Share};
use quorate_sim::{Agenda, Boot, Harness, Seen, Verdict, World, WorldOptions};

const ME: NodeId = NodeId(1);
const HERE: LogId = LogId(0);
const ELSEWHERE: LogId = LogId(1);

/// One copy of one shard, and what it says.
struct Alone {
    limits: Limits,
    said: Vec<Output>,
}

impl Harness for Alone {
    type Machine = Shard;

    fn machine(&mut self, node: NodeId, _: Boot) -> Shard {
        let member = Member { id: node, info: Bytes::new() };
        Shard::new(Replog::new(node, Config::production(), [member].into()), self.limits.clone())
    }

    fn output(&mut self, _: Seen<'_, Shard>, output: Output, _: &mut Agenda<Input>) -> Verdict {
        self.said.push(output);
        Ok(())
    }
}

fn command(words: &[&str]) -> Command {
    let code = quorate_values::find(words[0].to_lowercase().as_bytes()).expect("a command").code;
    Command { code, args: words[1..].iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect() }
}

/// A shard that leads its log; transactions on it are coordinated elsewhere, which is played by hand.
struct Stage(World<Alone>);

impl Stage {
    fn new(mutant: Option<Mutant>) -> Stage {
        let limits = Limits::production();
        #[cfg(feature = "mutants")]
        let limits = Limits { mutant, ..limits };
        assert!(mutant.is_none() || cfg!(feature = "mutants"));
        let mut world = World::new(WorldOptions::calm(1, 1), Alone { limits, said: Vec::new() });
        world.run_for(Duration::from_secs(5));
        assert!(world.nodes().machine(ME).is_some_and(Shard::takes_batches), "it leads");
        Stage(world)
    }

    fn tell(&mut self, input: Input) {
        self.0.input(Duration::ZERO, ME, input);
        self.0.run_for(Duration::from_millis(100));
        assert_eq!(self.0.failure(), None);
    }

    fn told(&mut self, id: TransactionId, word: Word) {
        self.tell(Input::Told(Box::new(Message { from: ELSEWHERE, id, word })));
    }

    /// Asks for a vote on a transaction that sets a key, and is of this age.
    fn begin(&mut self, age: u64, key: &str) -> TransactionId {
        let id = TransactionId { age, origin: 7, sequence: age };
        let part = Part { commands: [(1, command(&["SET", key, "new"]))].into(), ..Part::default() };
        let transaction = Transaction {
            id,
            coordinator: ELSEWHERE,
            logs: [HERE, ELSEWHERE].into(),
            part: part.encode(),
            others: Vec::new(),
            settled_before: 0,
            shares: false,
            members: Vec::new(),
        };
        let cv = View { epoch: 1, number: 1, node: 2 };
        self.told(id, Word::QueryLocal { cv, min_epoch: 0, transaction: Some(transaction) });
        id
    }

    /// What a transaction was voted yes with, if it was.
    fn vote(&self, of: TransactionId) -> Option<Export> {
        self.0.harness().said.iter().find_map(|output| match output {
            Output::Tell {
                message: Message { id, word: Word::Vote { vote: Vote::Yes(export), .. }, .. },
                ..
            } if *id == of => wire::decode(export).ok(),
            _ => None,
        })
    }

    /// Tells that a transaction has happened.
    fn end(&mut self, id: TransactionId) {
        let Export { now_ms, seed, replies, .. } = self.vote(id).expect("a vote");
        let share = Share { now_ms, seed, replies, ..Share::default() };
        let decision = Decision { shares: BTreeMap::from([(HERE, share)]), ..Decision::default() };
        let outcome = Outcome::Committed(Bytes::from(wire::encode(&decision)));
        self.told(id, Word::Global { logs: [HERE, ELSEWHERE].into(), outcome });
    }

    fn read(&mut self, ticket: u64, words: &[&str]) {
        self.tell(Input::Read { ticket, requests: [Request::One(command(words))].into() });
    }

    /// What a read was answered.
    fn answer(&self, to: u64) -> Option<&Reply> {
        self.0.harness().said.iter().find_map(|output| match output {
            Output::Read { ticket, replies, .. } if *ticket == to => replies.first(),
            _ => None,
        })
    }
}

fn values(values: [Option<&'static str>; 2]) -> Reply {
    let bulk =
        |value: Option<&'static str>| value.map_or(Reply::Nil, |value| Reply::Bulk(Bytes::from(value)));
    Reply::Array(values.map(bulk).into())
}

/// While a read waits for the first transaction, which is on one of its keys, the second, on the other, is prepared and decided, but nobody has said so here; the first
/// is decided after it, since elsewhere it had to wait for its locks.
fn first_follows_second(mutant: Option<Mutant>) -> (Stage, TransactionId) {
    let mut stage = Stage::new(mutant);
    let first = stage.begin(1, "x");
    stage.read(1, &["MGET", "x", "y"]);
    stage.read(2, &["GET", "x"]);
    let second = stage.begin(2, "y");
    assert!(stage.vote(second).is_some(), "it is in nobody's way");
    assert_eq!((stage.answer(1), stage.answer(2)), (None, None));
    stage.end(first);
    assert_eq!(stage.answer(2), Some(&Reply::Bulk(Bytes::from("new"))), "of one key");
    (stage, second)
}

#[test]
fn whoever_reads_several_keys_sees_what_came_before_what_is_seen() {
    let (mut stage, second) = first_follows_second(None);
    assert_eq!(stage.answer(1), None);
    stage.end(second);
    assert_eq!(stage.answer(1), Some(&values([Some("new"), Some("new")])));
}

#[cfg(feature = "mutants")]
#[test]
fn without_the_rule_the_second_of_two_is_seen_alone() {
    let (stage, _) = first_follows_second(Some(Mutant::SeveralReadApart));
    assert_eq!(stage.answer(1), Some(&values([Some("new"), None])));
}

/// Or a stream of transactions would keep it waiting for ever.
#[test]
fn what_comes_later_does_not_get_past_a_read_that_has_waited_twice() {
    let (mut stage, second) = first_follows_second(None);
    let third = stage.begin(u64::MAX / 2, "x");
    assert!(stage.vote(third).is_none(), "it waits for the read");
    stage.end(second);
    assert!(stage.answer(1).is_some());
    assert!(stage.vote(third).is_some());
    stage.end(third);
    stage.read(3, &["MGET", "x", "y"]);
    assert!(stage.answer(3).is_some(), "nobody has a place any more");
}

/// Or what is stuck on one key would spread to others by those who read both.
#[test]
fn whoever_waits_for_long_is_in_nobodys_way() {
    let (mut stage, second) = first_follows_second(None);
    let third = stage.begin(u64::MAX / 2, "x");
    assert!(stage.vote(third).is_none());
    stage.0.run_for(Duration::from_secs(5));
    assert!(stage.vote(third).is_some(), "nobody says what became of the second");
    stage.end(second);
    assert_eq!(stage.answer(1), None);
    stage.end(third);
    assert_eq!(stage.answer(1), Some(&values([Some("new"), Some("new")])));
}
