//! Requests over several buckets that change nothing: each bucket is asked, again and again, until all say that nothing has
//! changed since they were asked before. What was found stood so everywhere at one instant between the two rounds. One bucket may change
//! all the time: if it was asked for one key between two rounds in which the others were the same, all stood so when it answered.
//!
//! Nothing is locked and nothing logged. Where others change the same keys faster than they can be asked, the request becomes
//! a transaction, which waits for its turn.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quorate_api::{Bucket, Consistency, Outcome, Refusal, Reply, Request, position_of};
use quorate_commit::LogId;
use quorate_kernel::{Cx, Time};
use quorate_shard::{Collected, Decision, Mutant, Part, Share, decode_collected};

use crate::changing::Changing;
use crate::interface::{ClientRequest, ConnectionId, Ticket};
use crate::machine::{Node, Out};
use crate::origin::Address;
use crate::plan::{Plan, is_about_one_key, keys_read};

/// After so many rounds in which something had changed, locks are taken; after another one if it was in one bucket alone.
const ROUNDS_MAX: u64 = 3;
/// The same for what is about all keys: any write changes it, and looking again takes long.
const ROUNDS_ABOUT_ALL_MAX: u64 = 2;
/// Questions to buckets stand beside clients' reads as if this node were a client, on connections of its own that no
/// host gives a client.
const OWN: u64 = 1 << 63;
/// So many keys of a bucket are looked at to know whether they change all the time.
const LOOKED_AT_MAX: usize = 64;

/// What a bucket said.
#[derive(Debug, Default)]
struct Found {
    stamps: Vec<u64>,
    replies: Vec<(u32, Reply)>,
    /// In which round it was first, and in which it was last.
    since: u64,
    last: u64,
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
    /// Buckets that are asked for one key. What others say may be of several moments: while they wait for a transaction that has to do with one key, another
    /// may be decided and not be carried out there yet, and one after that be carried out.
    of_one_key: BTreeSet<Bucket>,
    /// The only bucket with a key that changes all the time, if that is known from the beginning: it is asked between two rounds of the others.
    restless: Option<Bucket>,
}

/// All of them, each with a number of its own.
#[derive(Debug, Default)]
pub(crate) struct Collects {
    open: BTreeMap<u64, Collect>,
    newest: u64,
    changing: Changing,
}

impl Collects {
    /// The client for whom this address, perhaps one of this node's own questions, asks.
    pub(crate) fn client(&self, (connection, ticket): Address) -> Address {
        let own = self.open.get(&(connection.0 & !OWN)).filter(|_| connection.0 >= OWN);
        own.map_or((connection, ticket), |collect| collect.address)
    }

    /// The buckets in which keys of a request change all the time, if it is about several buckets.
    fn restless(&mut self, now: Time, plan: &Plan) -> Vec<Bucket> {
        if plan.parts.len() < 2 || self.changing.is_empty() {
            return Vec::new();
        }
        let changing = &mut self.changing;
        let mut is_restless = |part| positions(part).any(|position| changing.is_restless(now, position));
        let parts = plan.parts.iter();
        parts.filter(|(_, part)| is_restless(part)).map(|(bucket, _)| *bucket).collect()
    }
}

/// Where the keys are that a bucket is asked for.
fn positions(part: &Part) -> impl Iterator<Item = u64> {
    keys_read(part).take(LOOKED_AT_MAX).map(|key| position_of(key.as_ref()))
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
        let of_one_key = plan.parts.iter().filter(|(_, part)| is_about_one_key(part));
        let of_one_key: BTreeSet<Bucket> = of_one_key.map(|(bucket, _)| *bucket).collect();
        let restless = match self.collects.restless(cx.now, &plan)[..] {
            [] => None,
            [only] if of_one_key.contains(&only) => Some(only),
            // It, or one of them, will have changed whenever it is asked again.
            _ => return self.lock_instead(cx, address, plan, (bytes, age, taken_at), out),
        };
        let collect = Collect {
            rounds_max: if plan.is_about_all() { ROUNDS_ABOUT_ALL_MAX } else { ROUNDS_MAX },
            restless,
            of_one_key,
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
        };
        self.collects.newest += 1;
        let number = self.collects.newest;
        self.collects.open.insert(number, collect);
        self.ask_all(cx, number, out);
    }

    /// Begins the next round.
    fn ask_all(&mut self, cx: &mut Cx<'_>, number: u64, out: &mut Out) {
        let Some(collect) = self.collects.open.get_mut(&number) else { return };
        collect.begin_round();
        let (round, taken_at, consistency) = (collect.round, collect.taken_at, collect.consistency);
        let known =
            |bucket: &Bucket| collect.found.get(bucket).map(|found| found.stamps.clone()).unwrap_or_default();
        let parts = collect.plan.parts.iter().filter(|(bucket, _)| collect.asked.contains(bucket));
        let questions: Vec<(Bucket, Request)> = parts
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

    /// A request takes locks.
    fn lock_instead(
        &mut self,
        cx: &mut Cx<'_>,
        address: Address,
        plan: Plan,
        when: (usize, u64, Time),
        out: &mut Out,
    ) {
        cx.marks.hit("node.collect.locks");
        self.take_transaction(cx, address, plan, when);
        self.send_transactions(cx, out);
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
        let limits = &self.config.limits;
        let broken = [Mutant::CollectsOnce, Mutant::CollectsApart].into_iter().find(|it| limits.breaks(*it));
        let Some(collect) = self.collects.open.get_mut(&number) else { return };
        if collect.round != address.1.0 {
            return;
        }
        let was_found = collect.found.get(&bucket).map(|found| found.since);
        let next = collect.hear(bucket, outcome, broken);
        if let Some((before, found)) = was_found.zip(collect.found.get(&bucket))
            && let Some(part) = collect.plan.parts.get(&bucket)
        {
            let (changing, has_changed) = (&mut self.collects.changing, found.since > before);
            if has_changed || !changing.is_empty() {
                positions(part).for_each(|position| changing.saw(cx.now, position, has_changed));
            }
        }
        match next {
            Next::Wait => {}
            Next::Ask => {
                cx.marks.hit("node.collect.again");
                self.ask_all(cx, number, out);
            }
            Next::Lock => {
                if let Some(Collect { address, plan, bytes, age, taken_at, .. }) =
                    self.collects.open.remove(&number)
                {
                    self.lock_instead(cx, address, plan, (bytes, age, taken_at), out);
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
    fn begin_round(&mut self) {
        self.asked = self.due().collect();
        self.round += 1;
    }

    /// Which buckets are to be asked next: those that were not asked yet, of which the restless one waits for the others; or all that may have
    /// changed before the newest that was found was there.
    fn due(&self) -> impl Iterator<Item = Bucket> + '_ {
        let is_first = self.found.is_empty();
        let all_found = self.found.len() == self.plan.parts.len();
        let alone = self.newest_alone();
        self.plan.parts.keys().copied().filter(move |bucket| match () {
            () if is_first => Some(*bucket) != self.restless,
            () if all_found => Some(*bucket) != alone,
            () => !self.found.contains_key(bucket),
        })
    }

    /// The newest round in which something was found that was new.
    fn newest(&self) -> u64 {
        self.found.values().map(|found| found.since).max().unwrap_or_default()
    }

    /// The bucket that said what is newest, if no other said something new in the same round, and it is about one key.
    fn newest_alone(&self) -> Option<Bucket> {
        let newest = self.newest();
        let mut which = self.found.iter().filter(|(_, found)| found.since == newest);
        let first = which.next().map(|(bucket, _)| *bucket);
        first.filter(|bucket| which.next().is_none() && self.of_one_key.contains(bucket))
    }

    /// Whether there is a moment at which all buckets stood as was found: when the newest was there already, or when the only bucket
    /// that said something as new answered. Whoever was found earlier and once more later stood so then.
    fn stood_together(&self, broken: Option<Mutant>) -> bool {
        if self.found.len() < self.plan.parts.len() || broken == Some(Mutant::CollectsOnce) {
            return self.found.len() == self.plan.parts.len();
        }
        let (newest, alone) = (self.newest(), self.newest_alone());
        if broken == Some(Mutant::CollectsApart) && alone.is_some() {
            return true;
        }
        self.found.iter().all(|(bucket, found)| found.last > newest || Some(*bucket) == alone)
    }

    /// Takes what a bucket says, and tells what follows.
    fn hear(&mut self, bucket: Bucket, outcome: Outcome, broken: Option<Mutant>) -> Next {
        let collected = match outcome {
            Outcome::Done(reply) => decode_collected(reply),
            other => return Next::End(other),
        };
        if !self.asked.remove(&bucket) {
            return Next::Wait;
        }
        let round = self.round;
        match (collected, self.found.get_mut(&bucket)) {
            (Some(Collected::Same), Some(found)) => found.last = round,
            (Some(Collected::New { stamps, replies }), _) => {
                self.found.insert(bucket, Found { stamps, replies, since: round, last: round });
            }
            (Some(Collected::Moved), _) => return Next::End(Outcome::Done(Reply::NilArray)),
            (Some(Collected::Failed(words)), _) => return Next::End(Outcome::Done(words)),
            (Some(Collected::Same) | None, _) => return Next::End(Outcome::Refused(Refusal::NoLeader)),
        }
        let rounds_max = self.rounds_max + u64::from(self.newest_alone().is_some());
        match () {
            () if !self.asked.is_empty() => Next::Wait,
            () if self.stood_together(broken) => Next::Reply,
            () if round < rounds_max => Next::Ask,
            () => Next::Lock,
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
        collect_with(rounds_max, None)
    }

    fn collect_with(rounds_max: u64, restless: Option<Bucket>) -> Collect {
        let request = Request::Versions(Vec::from([Bytes::from_static(b"a"), Bytes::from_static(b"b")]));
        let mut plan = plan(&request, NonZeroU16::MIN);
        plan.parts = TWO.map(|bucket| (bucket, Part::default())).into();
        let mut collect = Collect {
            address: (ConnectionId(1), Ticket(1)),
            plan,
            consistency: Consistency::Strict,
            bytes: 0,
            age: 0,
            taken_at: Time::default(),
            round: 0,
            rounds_max,
            asked: BTreeSet::new(),
            found: BTreeMap::new(),
            of_one_key: TWO.into(),
            restless,
        };
        collect.begin_round();
        collect
    }

    fn new(stamp: i64) -> Outcome {
        let (stamps, replies) = (Vec::from([Reply::Int(stamp)]), Vec::from([Reply::Int(1), Reply::Int(7)]));
        Outcome::Done(Reply::Array(Vec::from([Reply::Array(stamps), Reply::Array(replies)])))
    }

    impl Collect {
        fn stamps(&self) -> Vec<u64> {
            self.found.values().map(|found| found.stamps[0]).collect()
        }
    }

    const SAME: Outcome = Outcome::Done(Reply::Ok);

    #[test]
    fn it_ends_when_nothing_has_changed_anywhere_between_two_rounds() {
        let mut one = collect(8);
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
        assert!(matches!(one.hear(TWO[0], new(9), None), Next::Wait), "it has answered in this round");
        assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask), "seen for the first time");
        one.begin_round();
        assert!(matches!(one.hear(TWO[0], new(2), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask), "both have changed");
        one.begin_round();
        assert!(matches!(one.hear(TWO[1], SAME, None), Next::Wait));
        assert!(matches!(one.hear(TWO[0], SAME, None), Next::Reply));
        assert_eq!(one.stamps(), [2, 2]);
    }

    #[test]
    fn one_bucket_may_change_if_the_others_are_the_same_before_and_after() {
        let mut one = collect(2);
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
        one.begin_round();
        assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask), "a round more than else");
        one.begin_round();
        assert_eq!(one.asked, [TWO[0]].into(), "the other has changed again, or not");
        assert!(matches!(one.hear(TWO[0], SAME, None), Next::Reply));
        assert_eq!(one.stamps(), [1, 2]);
    }

    #[test]
    fn what_is_about_several_keys_is_always_asked_twice() {
        let mut one = collect(3);
        one.of_one_key.clear();
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
        one.begin_round();
        assert!(matches!(one.hear(TWO[0], SAME, None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), None), Next::Ask));
        one.begin_round();
        assert_eq!(one.asked, TWO.into());
        let (keys, key) = ([b"a", b"b"], [b"a", b"a"]);
        let part = |keys: [&'static [u8; 1]; 2]| {
            let request = Request::Versions(keys.map(|key| Bytes::from_static(key)).into());
            plan(&request, NonZeroU16::MIN).parts.remove(&Bucket(0)).expect("one bucket")
        };
        assert!(!is_about_one_key(&part(keys)) && is_about_one_key(&part(key)));
        assert!(!is_about_one_key(&Part::default()), "or about none");
    }

    #[test]
    fn what_changes_all_the_time_is_asked_between_two_rounds_of_the_others() {
        let mut one = collect_with(3, Some(TWO[1]));
        assert_eq!(one.asked, [TWO[0]].into());
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Ask), "the other is not known yet");
        one.begin_round();
        assert_eq!(one.asked, [TWO[1]].into());
        assert!(matches!(one.hear(TWO[1], new(7), None), Next::Ask), "the first may have changed meanwhile");
        one.begin_round();
        assert_eq!(one.asked, [TWO[0]].into());
        assert!(matches!(one.hear(TWO[0], new(2), None), Next::Ask), "it has");
        one.begin_round();
        assert_eq!(one.asked, [TWO[1]].into());
        assert!(matches!(one.hear(TWO[1], SAME, None), Next::Reply), "that stood before and after");
        assert_eq!(one.stamps(), [2, 7]);
    }

    #[test]
    fn where_others_are_faster_it_takes_locks() {
        let mut one = collect(2);
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(1), None), Next::Ask));
        one.begin_round();
        assert!(matches!(one.hear(TWO[0], new(2), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(2), None), Next::Lock), "both");
        let mut one = collect_with(3, Some(TWO[1]));
        for (stamp, bucket) in [(1, TWO[0]), (2, TWO[1]), (3, TWO[0])] {
            assert!(matches!(one.hear(bucket, new(stamp), None), Next::Ask), "in turn");
            one.begin_round();
        }
        assert!(matches!(one.hear(TWO[1], new(4), None), Next::Lock));
    }

    #[test]
    fn broken_rules_believe_what_they_should_ask_again() {
        let mut one = collect(2);
        assert!(matches!(one.hear(TWO[0], new(1), None), Next::Wait));
        assert!(matches!(one.hear(TWO[1], new(1), Some(Mutant::CollectsOnce)), Next::Reply));
        let mut one = collect_with(3, Some(TWO[1]));
        assert!(matches!(one.hear(TWO[0], new(1), Some(Mutant::CollectsApart)), Next::Ask));
        one.begin_round();
        assert!(matches!(one.hear(TWO[1], new(7), Some(Mutant::CollectsApart)), Next::Reply));
    }

    #[test]
    fn what_one_bucket_cannot_say_ends_it() {
        let end = |said| match collect(8).hear(TWO[1], said, None) {
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
