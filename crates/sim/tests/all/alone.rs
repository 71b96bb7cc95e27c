//! One copy of one shard that leads its log; transactions on it are coordinated elsewhere, which is played by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Command, Reply, Request};
use quorate_commit::{LogId, Message, Outcome, Transaction, TransactionId, View, Vote, Word};
use quorate_kernel::{NodeId, wire};
use quorate_replog::{Config, Member, Replog};
use quorate_shard::{Decision, Export, Input, Limits, Mutant, Output, Part, Shard, Share};
use quorate_sim::{Agenda, Boot, Harness, Seen, Verdict, World, WorldOptions};

pub(crate) const ME: NodeId = NodeId(1);
pub(crate) const HERE: LogId = LogId(0);
const ELSEWHERE: LogId = LogId(1);
/// Who leads there.
const CV: View = View { epoch: 1, number: 1, node: 2 };

/// The shard, and what it says.
pub(crate) struct Alone {
    limits: Limits,
    pub(crate) said: Vec<Output>,
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

/// See the module's documentation.
pub(crate) struct Stage(pub(crate) World<Alone>);

impl Stage {
    pub(crate) fn new(mutant: Option<Mutant>) -> Stage {
        let limits = Limits::production();
        #[cfg(feature = "mutants")]
        let limits = Limits { mutant, ..limits };
        assert!(mutant.is_none() || cfg!(feature = "mutants"));
        let mut world = World::new(WorldOptions::calm(1, 1), Alone { limits, said: Vec::new() });
        world.run_for(Duration::from_secs(5));
        assert!(world.nodes().machine(ME).is_some_and(Shard::takes_batches), "it leads");
        Stage(world)
    }

    pub(crate) fn tell(&mut self, input: Input) {
        self.0.input(Duration::ZERO, ME, input);
        self.0.run_for(Duration::from_millis(100));
        assert_eq!(self.0.failure(), None);
    }

    pub(crate) fn told(&mut self, id: TransactionId, word: Word) {
        self.tell(Input::Told(Box::new(Message { from: ELSEWHERE, id, word })));
    }

    /// Asks for a vote on a transaction that sets a key, and is of this age.
    pub(crate) fn begin(&mut self, age: u64, key: &str) -> TransactionId {
        self.begin_with(age, &[&["SET", key, "new"]])
    }

    /// Asks for a vote on a transaction with these commands, of this age.
    pub(crate) fn begin_with(&mut self, age: u64, commands: &[&[&str]]) -> TransactionId {
        let id = TransactionId { age, origin: 7, sequence: age };
        let commands = (1..).zip(commands.iter().map(|words| command(words))).collect();
        let part = Part { commands, ..Part::default() };
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
        self.told(id, Word::QueryLocal { cv: CV, min_epoch: 0, transaction: Some(transaction) });
        id
    }

    /// Asks for a vote on a transaction that is known.
    pub(crate) fn query(&mut self, id: TransactionId) {
        self.told(id, Word::QueryLocal { cv: CV, min_epoch: 0, transaction: None });
    }

    /// What a transaction was voted yes with, if it was.
    pub(crate) fn vote(&self, of: TransactionId) -> Option<Export> {
        self.0.harness().said.iter().find_map(|output| match output {
            Output::Tell {
                message: Message { id, word: Word::Vote { vote: Vote::Yes(export), .. }, .. },
                ..
            } if *id == of => Export::decode(export).ok(),
            _ => None,
        })
    }

    /// Tells that a transaction has happened.
    pub(crate) fn end(&mut self, id: TransactionId) {
        let Export { now_ms, seed, replies, .. } = self.vote(id).expect("a vote");
        let share = Share { now_ms, seed, replies, ..Share::default() };
        let decision = Decision { shares: BTreeMap::from([(HERE, share)]), ..Decision::default() };
        let outcome = Outcome::Committed(Bytes::from(wire::encode(&decision)));
        self.told(id, Word::Global { logs: [HERE, ELSEWHERE].into(), outcome });
    }

    pub(crate) fn read(&mut self, ticket: u64, words: &[&str]) {
        self.tell(Input::Read { ticket, requests: [Request::One(command(words))].into() });
    }

    /// What a read was answered.
    pub(crate) fn answer(&self, to: u64) -> Option<&Reply> {
        self.0.harness().said.iter().find_map(|output| match output {
            Output::Read { ticket, replies, .. } if *ticket == to => replies.first(),
            _ => None,
        })
    }
}
