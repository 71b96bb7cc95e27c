//! Requests over several buckets that change nothing: each bucket is asked, again and again, until all say that nothing has
//! changed since they were asked before. What was found stood so everywhere at one instant between the two rounds. One bucket may change
//! all the time: if it was asked for one key between two rounds in which the others were the same, all stood so when it answered.
//!
//! Nothing is locked and nothing logged. Where others change the same keys faster than they can be asked, the buckets are asked to keep them from that
//! until they are asked once more ([`Hold`]); and if that did not help, the request becomes a transaction, which waits for its turn.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quorate_api::{Bucket, Consistency, Hold, Outcome, Refusal, Reply, Request, position_of};
use quorate_commit::LogId;
use quorate_kernel::{Cx, Time};
use quorate_shard::{Collected, Decision, Mutant, Part, Share, decode_collected};

use crate::changing::Changing;
use crate::interface::{ClientRequest, ConnectionId, Ticket};
use crate::machine::{Node, Out};
use crate::origin::Address;
use crate::plan::{Plan, is_about_one_key, keys_read};

/// After so many rounds, of which the first finds everything new, it is to be held; after another one if only one bucket has changed.
const ROUNDS_MAX: u64 = 2;
/// What is found is held for so many times as long as a round took, since one bucket may have to wait for longer than others.
const HELD_ROUNDS: u32 = 4;
/// Milliseconds for which it is held, at least and at most.
const HELD_MS: core::ops::RangeInclusive<u64> = 10..=500;
/// Questions to buckets stand beside clients' reads as if this node were a client, on connections of its own that no
/// host gives a client.
const OWN: u64 = 1 << 63;
/// So many keys of a bucket are looked at to know whether they change all the time.
const LOOKED_AT_MAX: usize = 64;

/// Buckets were asked to hold what they find.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// In this round; in the next one they need not any more.
    round: u64,
    hold: Hold,
}

/// What a bucket said.
#[derive(Debug, Default)]
struct Found {
    stamps: Vec<u64>,
    replies: Vec<(u32, Reply)>,
    /// In which round it was first, and in which it was last.
    since: u64,
    last: u64,
    /// Whether somebody was changing it.
    waited: bool,
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
    /// When the round began.
    began_at: Time,
    /// Whether, and in which round, it was held.
    held: Option<Held>,
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

    /// A bucket has answered, which was last heard of in round `was_found`: what that says of keys that change.
    fn notice(&mut self, now: Time, number: u64, bucket: Bucket, was_found: Option<u64>) {
        let (open, changing) = (&self.open, &mut self.changing);
        let Some(collect) = open.get(&number) else { return };
        let Some((found, part)) = collect.found.get(&bucket).zip(collect.plan.parts.get(&bucket)) else {
            return;
        };
        let has_changed = was_found.is_some_and(|before| found.since > before);
        // Of several keys it is not known which somebody was changing.
        let was_changing = found.waited && found.last == found.since && collect.of_one_key.contains(&bucket);
        if has_changed || was_changing || (was_found.is_some() && !changing.is_empty()) {
            positions(part).for_each(|position| changing.saw(now, position, has_changed || was_changing));
        }
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
    Hold,
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
            rounds_max: ROUNDS_MAX,
            held: None,
            began_at: cx.now,
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
        collect.begin_round(cx.now);
        let (round, taken_at, hold) = (collect.round, collect.taken_at, collect.hold());
        let restless = collect.restless;
        // A copy holds nothing.
        let consistency = if hold.is_some() { Consistency::Strict } else { collect.consistency };
        let known =
            |bucket: &Bucket| collect.found.get(bucket).map(|found| found.stamps.clone()).unwrap_or_default();
        let parts = collect.plan.parts.iter().filter(|(bucket, _)| collect.asked.contains(bucket));
        let questions: Vec<(Bucket, Request)> = parts
            .map(|(bucket, part)| {
                (
                    *bucket,
                    Request::Collect { part: part.encode(), known: known(bucket), hold: hold.map(Box::new) },
                )
            })
            .collect();
        // A connection of its own: no other request comes before it or after it.
        let (connection, ticket) = (ConnectionId(OWN | number), Ticket(round));
        let buckets: Vec<Bucket> = questions.iter().map(|(bucket, _)| *bucket).collect();
        for (bucket, request) in questions {
            let request = ClientRequest { connection, ticket, request, consistency, identity: None };
            // What changes all the time is mostly locked, and the leader is the first to know when it is not.
            let at_leader = hold.is_some() || restless == Some(bucket);
            self.take_read(bucket, (request, at_leader), taken_at);
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

    fn lock_collected(&mut self, cx: &mut Cx<'_>, number: u64, out: &mut Out) {
        if let Some(Collect { address, plan, bytes, age, taken_at, .. }) = self.collects.open.remove(&number)
        {
            self.lock_instead(cx, address, plan, (bytes, age, taken_at), out);
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
        let limits = &self.config.limits;
        let broken = [Mutant::CollectsOnce, Mutant::CollectsApart].into_iter().find(|it| limits.breaks(*it));
        let Some(collect) = self.collects.open.get_mut(&number) else { return };
        if collect.round != address.1.0 {
            return;
        }
        let was_found = collect.found.get(&bucket).map(|found| found.since);
        let next = collect.hear(bucket, outcome, broken);
        self.collects.notice(cx.now, number, bucket, was_found);
        let would_meet = matches!(next, Next::Hold) && self.would_meet(cx.now, number);
        match next {
            Next::Wait => {}
            Next::Ask => {
                cx.marks.hit("node.collect.again");
                self.ask_all(cx, number, out);
            }
            // Those that want it meet, and go together sooner than all buckets could hold it.
            Next::Hold if would_meet => self.lock_collected(cx, number, out),
            Next::Hold => {
                cx.marks.hit("node.collect.holds");
                let name = cx.rng.next_u64();
                if let Some(collect) = self.collects.open.get_mut(&number) {
                    collect.hold_next(cx.now, name);
                }
                self.ask_all(cx, number, out);
            }
            Next::Lock => self.lock_collected(cx, number, out),
            Next::Reply => {
                cx.marks.hit("node.collect.done");
                let (chance, bytes_max) = (cx.rng.next_u64(), self.config.limits.shard.reply_bytes_max);
                if let Some(collect) = self.collects.open.remove(&number) {
                    let (address, outcome) = collect.end(chance, bytes_max);
                    self.end_transactions(cx, [(address, outcome)], out);
                }
            }
            Next::End(outcome) => {
                if let Some(collect) = self.collects.open.remove(&number) {
                    self.let_go(cx, number, &collect, out);
                    self.end_transactions(cx, [(collect.address, outcome)], out);
                }
            }
        }
    }

    /// Whether a request, as a transaction, would meet others that want what is popular.
    fn would_meet(&mut self, now: Time, number: u64) -> bool {
        let can = self.collects.open.get(&number).is_some_and(|collect| self.may_meet(&collect.plan));
        let collect = self.collects.open.get(&number).filter(|_| can);
        collect.is_some_and(|collect| self.transactions.is_popular(now, &collect.plan))
    }

    /// A request has ended early: what buckets hold for it they need not hold any more.
    fn let_go(&mut self, cx: &mut Cx<'_>, number: u64, collect: &Collect, out: &mut Out) {
        let Some(Held { hold, .. }) = collect.held else { return };
        let hold = Some(Box::new(Hold { ms: 0, ..hold }));
        for bucket in collect.plan.parts.keys() {
            let question =
                Request::Collect { part: Part::default().encode(), known: Vec::new(), hold: hold.clone() };
            let request = ClientRequest {
                connection: ConnectionId(OWN | number),
                ticket: Ticket(collect.round + 1),
                request: question,
                consistency: Consistency::Strict,
                identity: None,
            };
            self.take_read(*bucket, (request, true), cx.now);
            self.dispatch(cx, *bucket, out);
        }
    }
}

impl Collect {
    fn begin_round(&mut self, now: Time) {
        self.asked = match self.held {
            // All are to hold, and then not any more.
            Some(_) => self.plan.parts.keys().copied().collect(),
            None => self.due().collect(),
        };
        self.round += 1;
        self.began_at = now;
    }

    /// In the next round buckets hold what they find.
    fn hold_next(&mut self, now: Time, name: u64) {
        let took_ms = (now.since(self.began_at) * HELD_ROUNDS).as_millis() as u64;
        let ms = took_ms.clamp(*HELD_MS.start(), *HELD_MS.end()) as u32;
        let hold = Hold { name, age: self.age, ms };
        self.held = Some(Held { round: self.round + 1, hold });
    }

    /// What the questions of this round hold, or hold no longer.
    fn hold(&self) -> Option<Hold> {
        let Held { round, hold } = self.held?;
        Some(if self.round == round { hold } else { Hold { ms: 0, ..hold } })
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
            (Some(Collected::New { stamps, replies, waited }), _) => {
                self.found.insert(bucket, Found { stamps, replies, since: round, last: round, waited });
            }
            (Some(Collected::Moved), _) => return Next::End(Outcome::Done(Reply::NilArray)),
            (Some(Collected::Failed(words)), _) => return Next::End(Outcome::Done(words)),
            (Some(Collected::Same) | None, _) => return Next::End(Outcome::Refused(Refusal::NoLeader)),
        }
        let rounds_max = self.rounds_max + u64::from(self.newest_alone().is_some());
        let holds = self.held.is_some_and(|held| held.round == round);
        match () {
            () if !self.asked.is_empty() => Next::Wait,
            // They are also to learn that they need not any more.
            () if holds => Next::Ask,
            () if self.stood_together(broken) => Next::Reply,
            () if round < rounds_max => Next::Ask,
            () if self.held.is_none() => Next::Hold,
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
mod tests;
