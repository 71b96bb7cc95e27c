//! Requests over several buckets that change nothing: each bucket is asked, again and again, until all say that nothing has
//! changed since they were asked before. What was found stood so everywhere at one instant between the two rounds.
//!
//! Nothing is locked and nothing logged. Where others change the same keys faster than they can be asked, the request becomes
//! a transaction, which waits for its turn.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quorate_api::{Bucket, Consistency, Outcome, Refusal, Reply, Request};
use quorate_commit::LogId;
use quorate_kernel::{Cx, Time};
use quorate_shard::{Collected, Decision, Mutant, Share, decode_collected};

use crate::interface::{ClientRequest, ConnectionId, Ticket};
use crate::machine::{Node, Out};
use crate::origin::Address;
use crate::plan::Plan;

/// After so many rounds in which something had changed, locks are taken.
const ROUNDS_MAX: u64 = 3;
/// The same for what is about all keys: any write changes it, and looking again takes long.
const ROUNDS_ABOUT_ALL_MAX: u64 = 2;
/// Questions to buckets stand beside clients' reads as if this node were a client, on connections of its own that no
/// host gives a client.
const OWN: u64 = 1 << 63;

/// What a bucket said.
#[derive(Debug, Default)]
struct Found {
    stamps: Vec<u64>,
    replies: Vec<(u32, Reply)>,
}

/// A request that is being answered.
#[derive(Debug)]
struct Collect {
    address: Address,
    plan: Plan,
    /// Whose copies may answer.
    consistency: Consistency,
    bytes: usize,
    age: u64,
    taken_at: Time,
    round: u64,
    rounds_max: u64,
    /// Buckets that have not answered in this round.
    asked: BTreeSet<Bucket>,
    found: BTreeMap<Bucket, Found>,
    /// Whether one of them said something new in this round.
    changed: bool,
}

/// All of them, each with a number of its own.
#[derive(Debug, Default)]
pub(crate) struct Collects {
    open: BTreeMap<u64, Collect>,
    newest: u64,
}

impl Collects {
    /// The client for whom this address, perhaps one of this node's own questions, asks.
    pub(crate) fn client(&self, (connection, ticket): Address) -> Address {
        let own = self.open.get(&(connection.0 & !OWN)).filter(|_| connection.0 >= OWN);
        own.map_or((connection, ticket), |collect| collect.address)
    }
}

/// What is to be done about a request.
enum Next {
    Wait,
    Ask,
    Lock,
    /// All is found.
    Reply,
    End(Outcome),
}

/// Takes out of `ends` what answers this node's own questions.
pub(crate) fn own_ends(ends: &mut Vec<(Address, Outcome)>) -> Vec<(Address, Outcome)> {
    if ends.iter().all(|((connection, _), _)| connection.0 < OWN) {
        return Vec::new();
    }
    ends.extract_if(.., |((connection, _), _)| connection.0 >= OWN).collect()
}

impl Node {
    /// Begins to answer a request whose `plan` only reads. `age`: should it become a transaction.
    pub(crate) fn collect(
        &mut self,
        cx: &mut Cx<'_>,
        address: Address,
        (plan, asked): (Plan, Consistency),
        (bytes, age, taken_at): (usize, u64, Time),
        out: &mut Out,
    ) {
        let collect = Collect {
            rounds_max: if plan.is_about_all() { ROUNDS_ABOUT_ALL_MAX } else { ROUNDS_MAX },
            address,
            plan,
            // One instant is what copies that may be older cannot tell.
            consistency: if asked == Consistency::Near { asked } else { Consistency::Strict },
            bytes,
            age,
            taken_at,
            round: 0,
            asked: BTreeSet::new(),
            found: BTreeMap::new(),
            changed: true,
        };
        self.collects.newest += 1;
        let number = self.collects.newest;
        self.collects.open.insert(number, collect);
        self.ask_all(cx, number, out);
    }

    /// Begins the next round.
    fn ask_all(&mut self, cx: &mut Cx<'_>, number: u64, out: &mut Out) {
        let Some(collect) = self.collects.open.get_mut(&number) else { return };
        collect.round += 1;
        collect.changed = false;
        collect.asked = collect.plan.parts.keys().copied().collect();
        let (round, taken_at, consistency) = (collect.round, collect.taken_at, collect.consistency);
        let known =
            |bucket: &Bucket| collect.found.get(bucket).map(|found| found.stamps.clone()).unwrap_or_default();
        let questions: Vec<(Bucket, Request)> = collect
            .plan
            .parts
            .iter()
            .map(|(bucket, part)| (*bucket, Request::Collect { part: part.encode(), known: known(bucket) }))
            .collect();
        // A connection of its own: no other request comes before it or after it.
        let (connection, ticket) = (ConnectionId(OWN | number), Ticket(round));
        let buckets: Vec<Bucket> = questions.iter().map(|(bucket, _)| *bucket).collect();
        for (bucket, request) in questions {
            let request = ClientRequest { connection, ticket, request, consistency, identity: None };
            self.take_read(bucket, request, taken_at);
        }
        for bucket in buckets {
            self.dispatch(cx, bucket, out);
        }
    }

    /// A bucket has answered.
    pub(crate) fn collected(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (address, outcome): (Address, Outcome),
        out: &mut Out,
    ) {
        let number = address.0.0 & !OWN;
        let once = self.config.limits.breaks(Mutant::CollectsOnce);
        let Some(collect) = self.collects.open.get_mut(&number) else { return };
        if collect.round != address.1.0 {
            return;
        }
        match collect.hear(bucket, outcome, once) {
            Next::Wait => {}
            Next::Ask => {
                cx.marks.hit("node.collect.again");
                self.ask_all(cx, number, out);
            }
            Next::Lock => {
                cx.marks.hit("node.collect.locks");
                if let Some(Collect { address, plan, bytes, age, taken_at, .. }) =
                    self.collects.open.remove(&number)
                {
                    self.take_transaction(cx, address, plan, (bytes, age, taken_at));
                    self.send_transactions(cx, out);
                }
            }
            Next::Reply => {
                cx.marks.hit("node.collect.done");
                let (chance, bytes_max) = (cx.rng.next_u64(), self.config.limits.shard.reply_bytes_max);
                if let Some(collect) = self.collects.open.remove(&number) {
                    let (address, outcome) = collect.end(chance, bytes_max);
                    self.end_transactions(cx, [(address, outcome)], out);
                }
            }
            Next::End(outcome) => {
                let ended = self.collects.open.remove(&number).map(|collect| (collect.address, outcome));
                self.end_transactions(cx, ended, out);
            }
        }
    }
}

impl Collect {
    /// Takes what a bucket says, and tells what follows. `once`, a mutant: the first round suffices.
    fn hear(&mut self, bucket: Bucket, outcome: Outcome, once: bool) -> Next {
        let collected = match outcome {
            Outcome::Done(reply) => decode_collected(reply),
            other => return Next::End(other),
        };
        if !self.asked.remove(&bucket) {
            return Next::Wait;
        }
        match collected {
            Some(Collected::Same) => {}
            Some(Collected::New { stamps, replies }) => {
                self.found.insert(bucket, Found { stamps, replies });
                self.changed = true;
            }
            Some(Collected::Moved) => return Next::End(Outcome::Done(Reply::NilArray)),
            Some(Collected::Failed(words)) => return Next::End(Outcome::Done(words)),
            None => return Next::End(Outcome::Refused(Refusal::NoLeader)),
        }
        match (self.asked.is_empty(), self.changed && !once) {
            (false, _) => Next::Wait,
            (true, false) => Next::Reply,
            (true, true) if self.round >= self.rounds_max => Next::Lock,
            (true, true) => Next::Ask,
        }
    }

    /// What the client is told.
    fn end(self, chance: u64, bytes_max: usize) -> (Address, Outcome) {
        let share = |(bucket, found): (Bucket, Found)| {
            (LogId(bucket.0.into()), Share { replies: found.replies, ..Share::default() })
        };
        let decision =
            Decision { shares: self.found.into_iter().map(share).collect(), ..Decision::default() };
        let outcome = match self.plan.whole.reply(&decision, chance) {
            Some(reply) if reply.size_bytes() <= bytes_max => Outcome::Done(reply),
            Some(_) => Outcome::Refused(Refusal::ValuesTooLarge),
            // Of another program, whose replies do not fit the request.
            None => Outcome::Refused(Refusal::NoLeader),
        };
        (self.address, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use bytes::Bytes;
    use core::num::NonZeroU16;

    const TWO: [Bucket; 2] = [Bucket(0), Bucket(1)];

    fn collect(rounds_max: u64) -> Collect {
        let request = Request::Versions(Vec::from([Bytes::from_static(b"a"), Bytes::from_static(b"b")]));
        let mut collect = Collect {
            address: (ConnectionId(1), Ticket(1)),
            plan: plan(&request, NonZeroU16::MIN),
            consistency: Consistency::Strict,
            bytes: 0,
            age: 0,
            taken_at: Time::default(),
            round: 0,
            rounds_max,
            asked: BTreeSet::new(),
            found: BTreeMap::new(),
            changed: true,
        };
        next_round(&mut collect);
        collect
    }

    fn next_round(collect: &mut Collect) {
        collect.round += 1;
        collect.changed = false;
        collect.asked = TWO.into();
    }

    fn new(stamp: i64) -> Outcome {
        let (stamps, replies) = (Vec::from([Reply::Int(stamp)]), Vec::from([Reply::Int(1), Reply::Int(7)]));
        Outcome::Done(Reply::Array(Vec::from([Reply::Array(stamps), Reply::Array(replies)])))
    }

    const SAME: Outcome = Outcome::Done(Reply::Ok);

    #[test]
    fn it_ends_when_nothing_has_changed_anywhere_between_two_rounds() {
        let mut one = collect(8);
        assert!(matches!(one.hear(TWO[0], new(1), false), Next::Wait));
        assert!(matches!(one.hear(TWO[0], new(9), false), Next::Wait), "it has answered in this round");
        assert!(matches!(one.hear(TWO[1], new(1), false), Next::Ask), "seen for the first time");
        next_round(&mut one);
        assert!(matches!(one.hear(TWO[0], SAME, false), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), false), Next::Ask), "one of them has changed");
        next_round(&mut one);
        assert!(matches!(one.hear(TWO[1], SAME, false), Next::Wait));
        assert!(matches!(one.hear(TWO[0], SAME, false), Next::Reply));
        assert_eq!([one.found[&TWO[0]].stamps[0], one.found[&TWO[1]].stamps[0]], [1, 2]);
    }

    #[test]
    fn where_others_are_faster_it_takes_locks() {
        let mut one = collect(2);
        assert!(matches!(one.hear(TWO[0], new(1), false), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(1), false), Next::Ask));
        next_round(&mut one);
        assert!(matches!(one.hear(TWO[0], SAME, false), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), false), Next::Lock));
    }

    #[test]
    fn what_one_bucket_cannot_say_ends_it() {
        let end = |said| match collect(8).hear(TWO[1], said, false) {
            Next::End(outcome) => outcome,
            _ => panic!("it goes on"),
        };
        assert_eq!(
            end(Outcome::Done(Reply::NilArray)),
            Outcome::Done(Reply::NilArray),
            "a watched key moved"
        );
        let refused = Outcome::Refused(Refusal::NoLeader);
        assert_eq!(end(refused.clone()), refused);
        assert_eq!(end(Outcome::Done(Reply::Int(5))), refused, "nonsense");
        let error = Outcome::Done(Reply::error("ERR too long"));
        assert_eq!(end(error.clone()), error);
    }
}
