//! Strict reads on their way from this node's clients to the leader.
//!
//! Reads that arrive together travel together. Those that this node's own copy is to answer stay here, and one question asks
//! for all that wait as of which entry it may; where that brings no answer soon, they travel, too. A read changes nothing, so it is simply asked again after a doubt; but
//! what a connection reads must not run backwards, so an answer only counts when all earlier reads of its connection
//! have ended.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Consistency, Outcome, Refusal, Reply, Request};
use quorate_kernel::Time;
use quorate_replog::Index;

use crate::interface::{ClientRequest, ConnectionId};
use crate::origin::{Address, size_of_request};
use crate::prompt::Prompt;

/// So many reads travel together at most.
const READS_TOGETHER_MAX: usize = 512;
/// And so many bytes of them, unless a single one is longer.
const READS_TOGETHER_BYTES_MAX: usize = 512 << 10;

#[derive(Debug)]
struct Waiting {
    request: ClientRequest,
    taken_at: Time,
    /// Only the leader is asked: a copy could not answer, or did not.
    at_leader: bool,
}

#[derive(Debug)]
struct Asked {
    reads: Vec<(u64, Waiting)>,
    asked_at: Time,
    /// Another node's copy was, and not the leader.
    of_copy: bool,
}

/// What is to be asked of another node.
#[derive(Debug)]
pub(crate) struct Question {
    /// Names it.
    pub(crate) id: u64,
    pub(crate) requests: Vec<Request>,
    /// Whether no copy could answer.
    pub(crate) at_leader: bool,
}

/// The strict reads of this node, each with a number in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    unasked: BTreeMap<u64, Waiting>,
    /// The same of those that this node's copy is to answer.
    near: BTreeMap<u64, Waiting>,
    /// The question that is under way for an entry as of which it may: one at a time, so that each serves many.
    asking: Option<u64>,
    /// By a name that no other question ever has, not even in another life of this node.
    asked: BTreeMap<u64, Asked>,
    /// Answered before earlier ones of their connections, and therefore to be asked again after those.
    early: BTreeMap<(ConnectionId, u64), Waiting>,
    /// All that have not ended.
    open: BTreeSet<(ConnectionId, u64)>,
    /// Of connections with such: the newest entry that they were shown while there were.
    seen: BTreeMap<ConnectionId, Index>,
    names: u64,
    numbers: u64,
    /// How the leader answers.
    prompt: Prompt,
}

impl Reads {
    /// A life begins: questions are named from here on.
    pub(crate) fn begin(&mut self, chance: u64) {
        self.names = chance;
    }

    /// Reads not answered.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether some wait to be asked.
    pub(crate) fn has_unasked(&self) -> bool {
        !self.unasked.is_empty()
    }

    /// Takes a read; one that is [`Consistency::Near`] is for this node's copy, and one that is for the leader for no other copy.
    pub(crate) fn take(&mut self, request: ClientRequest, taken_at: Time, at_leader: bool) {
        self.numbers += 1;
        self.open.insert((request.connection, self.numbers));
        self.put(self.numbers, Waiting { request, taken_at, at_leader });
    }

    /// It is to be asked, for the first time or again.
    fn put(&mut self, number: u64, read: Waiting) {
        let near = read.request.consistency == Consistency::Near;
        if near { &mut self.near } else { &mut self.unasked }.insert(number, read);
    }

    /// This node's copy answers nothing: the leader does.
    pub(crate) fn leave_to_leader(&mut self) {
        for (number, mut read) in core::mem::take(&mut self.near) {
            read.request.consistency = Consistency::Strict;
            self.unasked.insert(number, read);
        }
    }

    /// The next reads to ask, under a new name.
    pub(crate) fn next(&mut self, now: Time) -> Option<Question> {
        let reads = gather(&mut self.unasked);
        let at_leader = reads.first().is_some_and(|(_, read)| read.at_leader);
        let id = self.ask(reads, now)?;
        Some(Question { id, requests: self.requests(id), at_leader })
    }

    /// The next question for an entry as of which this node's copy may answer, under a new name.
    pub(crate) fn next_near(&mut self, now: Time) -> Option<u64> {
        if self.asking.is_some_and(|name| self.asked.contains_key(&name)) {
            return None;
        }
        let reads = gather(&mut self.near);
        self.asking = self.ask(reads, now);
        self.asking
    }

    fn ask(&mut self, reads: Vec<(u64, Waiting)>, now: Time) -> Option<u64> {
        if reads.is_empty() {
            return None;
        }
        let name = self.name();
        self.asked.insert(name, Asked { reads, asked_at: now, of_copy: false });
        Some(name)
    }

    /// A name for a question.
    pub(crate) fn name(&mut self) -> u64 {
        self.names = self.names.wrapping_add(1);
        self.names
    }

    /// The question that was asked last goes to a copy.
    pub(crate) fn asks_copy(&mut self, name: u64) {
        if let Some(asked) = self.asked.get_mut(&name) {
            asked.of_copy = true;
        }
    }

    /// Whether this was asked of a copy.
    pub(crate) fn is_of_copy(&self, name: u64) -> bool {
        self.asked.get(&name).is_some_and(|asked| asked.of_copy)
    }

    /// The share of the questions, in 65,536, that should not go to the leader.
    pub(crate) fn elsewhere(&self, now: Time, promptest: u32) -> u32 {
        self.prompt.elsewhere(now, promptest)
    }

    /// The share of late answers of the leader, in 65,536, if some have come of late.
    pub(crate) fn late(&self, now: Time) -> Option<u32> {
        self.prompt.late(now)
    }

    /// Another leads: how prompt that is, is not known.
    pub(crate) fn forget_leader(&mut self) {
        self.prompt = Prompt::default();
    }

    /// An answer has come. How long the leader took tells how much it is asked, unless that is what only it can answer.
    pub(crate) fn took(&mut self, name: u64, slack: Duration, now: Time) {
        if let Some(asked) = self.asked.get(&name)
            && !asked.of_copy
            && asked.reads.first().is_some_and(|(_, read)| !read.at_leader)
        {
            self.prompt.answered(now, now.since(asked.asked_at), slack);
        }
    }

    fn requests(&self, name: u64) -> Vec<Request> {
        let reads = self.asked.get(&name).into_iter().flat_map(|asked| &asked.reads);
        reads.map(|(_, read)| read.request.request.clone()).collect()
    }

    /// The leader has named an entry: what this node's copy is to answer as of it. `None`: the question is not open any more.
    pub(crate) fn indexed(&mut self, name: u64) -> Option<Vec<Request>> {
        self.asking.take_if(|asking| *asking == name)?;
        Some(self.requests(name)).filter(|requests| !requests.is_empty())
    }

    /// Who waits for the answer to one of the reads that were asked under this name.
    pub(crate) fn address(&self, name: u64, place: u32) -> Option<Address> {
        let (_, read) = self.asked.get(&name)?.reads.get(place as usize)?;
        Some((read.request.connection, read.request.ticket))
    }

    /// The answers to reads, from a state that contains entry `applied`; none if they were asked again meanwhile. Reads
    /// that got none are to be asked again. With `overtake`, a mutant, in any order.
    pub(crate) fn answered(
        &mut self,
        name: u64,
        applied: Index,
        replies: Vec<Reply>,
        overtake: bool,
    ) -> Vec<(Address, Outcome)> {
        let fits = self.asked.get(&name).is_some_and(|asked| asked.reads.len() >= replies.len());
        let Some(mut asked) = fits.then(|| self.asked.remove(&name)).flatten() else { return Vec::new() };
        for (number, read) in asked.reads.split_off(replies.len()) {
            self.put(number, read);
        }
        let mut ends = Vec::with_capacity(replies.len());
        for ((number, read), reply) in asked.reads.into_iter().zip(replies) {
            let connection = read.request.connection;
            let oldest = self.open.range((connection, 0)..).next();
            let is_older = self.seen.get(&connection).is_some_and(|seen| applied < *seen);
            if overtake || (oldest == Some(&(connection, number)) && !is_older) {
                self.open.remove(&(connection, number));
                self.see(connection, applied);
                ends.push(((connection, read.request.ticket), Outcome::Done(reply)));
            } else if is_older {
                // Read before the answer to an earlier one was, and on its way for longer.
                self.put(number, read);
            } else {
                self.early.insert((connection, number), read);
            }
        }
        if !self.early.is_empty() {
            ends.iter().for_each(|((connection, _), _)| self.release(*connection));
        }
        ends
    }

    /// A connection was shown the state that contains this entry. While reads of it are under way, their answers may come
    /// from older states; what it asks later is read later.
    fn see(&mut self, connection: ConnectionId, applied: Index) {
        if self.open.range((connection, 0)..=(connection, u64::MAX)).next().is_none() {
            self.seen.remove(&connection);
        } else {
            self.seen.insert(connection, applied);
        }
    }

    /// An earlier read of the connection has ended: those that came too early are asked again.
    fn release(&mut self, connection: ConnectionId) {
        let all = (connection, 0)..=(connection, u64::MAX);
        let early: Vec<_> = self.early.extract_if(all, |_, _| true).collect();
        early.into_iter().for_each(|((_, number), read)| self.put(number, read));
    }

    fn release_all(&mut self) {
        let early = core::mem::take(&mut self.early);
        early.into_iter().for_each(|((_, number), read)| self.put(number, read));
    }

    /// These must be asked again: of the leader, also what this node's copy was to answer and did not.
    pub(crate) fn refused(&mut self, name: u64) {
        if let Some(asked) = self.asked.remove(&name) {
            for (number, mut read) in asked.reads {
                read.request.consistency = Consistency::Strict;
                read.at_leader = true;
                self.unasked.insert(number, read);
            }
            self.release_all();
        }
    }

    /// Whatever was asked `since` ago or longer must be asked again; whether there is such.
    pub(crate) fn ask_again(&mut self, since: Duration, now: Time) -> bool {
        let late = self.asked.iter().filter(|(_, asked)| now.since(asked.asked_at) >= since);
        let late: Vec<u64> = late.map(|(name, _)| *name).collect();
        let is_any = !late.is_empty();
        late.into_iter().for_each(|name| self.refused(name));
        is_any
    }

    /// What has waited for longer than `deadline` ends: nothing happened.
    pub(crate) fn overdue(&mut self, deadline: Duration, now: Time) -> Vec<(Address, Outcome)> {
        self.ask_again(deadline, now);
        self.release_all();
        let open = &mut self.open;
        let is_late = |_: &u64, read: &mut Waiting| now.since(read.taken_at) >= deadline;
        let late = self.unasked.extract_if(.., is_late).chain(self.near.extract_if(.., is_late));
        let ends = late.map(|(number, read)| {
            let connection = read.request.connection;
            open.remove(&(connection, number));
            ((connection, read.request.ticket), Outcome::Refused(Refusal::NoLeader))
        });
        let ends = ends.collect();
        self.seen.retain(|connection, _| {
            self.open.range((*connection, 0)..=(*connection, u64::MAX)).next().is_some()
        });
        ends
    }

    pub(crate) fn check(&self) {
        let asked: usize = self.asked.values().map(|asked| asked.reads.len()).sum();
        let waiting = self.unasked.len() + self.near.len() + self.early.len();
        assert_eq!(self.open.len(), asked + waiting, "every open read is somewhere");
    }
}

/// The first of these, as many as are asked together.
fn gather(from: &mut BTreeMap<u64, Waiting>) -> Vec<(u64, Waiting)> {
    let mut reads = Vec::with_capacity(from.len().min(READS_TOGETHER_MAX));
    let mut bytes = 0;
    while reads.len() < READS_TOGETHER_MAX
        && bytes < READS_TOGETHER_BYTES_MAX
        && let Some(first) = from.first_entry()
    {
        let is_alone = goes_alone(&first.get().request.request);
        let is_other =
            reads.first().is_some_and(|(_, read): &(u64, Waiting)| read.at_leader != first.get().at_leader);
        if is_other || (is_alone && !reads.is_empty()) {
            break;
        }
        bytes += size_of_request(&first.get().request.request);
        reads.push(first.remove_entry());
        if is_alone {
            break;
        }
    }
    reads
}

/// What may wait for a transaction, or to hold what it asks for, and is one of several questions anyway, is answered by itself, so that no other read waits for it.
fn goes_alone(request: &Request) -> bool {
    matches!(request, Request::Collect { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Ticket;

    const NOW: Time = Time(1_000_000_000);

    fn take(reads: &mut Reads, connection: u64, ticket: u64) {
        take_with(reads, connection, ticket, Consistency::Strict);
    }

    fn take_with(reads: &mut Reads, connection: u64, ticket: u64, consistency: Consistency) {
        let request = ClientRequest {
            connection: ConnectionId(connection),
            ticket: Ticket(ticket),
            request: Request::Versions(Vec::new()),
            consistency,
            identity: None,
        };
        reads.take(request, NOW, false);
    }

    #[test]
    fn one_question_at_a_time_is_asked_for_what_the_copy_is_to_answer() {
        let mut reads = Reads::default();
        take_with(&mut reads, 1, 10, Consistency::Near);
        take_with(&mut reads, 2, 11, Consistency::Near);
        assert!(reads.next(NOW).is_none(), "nothing travels");
        let first = reads.next_near(NOW).expect("a question");
        take_with(&mut reads, 3, 12, Consistency::Near);
        assert!(reads.next_near(NOW).is_none(), "one is under way");
        assert_eq!(reads.indexed(first).map(|requests| requests.len()), Some(2));
        assert!(reads.indexed(first).is_none(), "once");
        let second = reads.next_near(NOW).expect("the one that came later");
        assert_eq!(tickets(&reads.answered(first, 5, alloc::vec![Reply::Ok; 2], false)), [10, 11]);
        assert_eq!(reads.indexed(second).map(|requests| requests.len()), Some(1));
        reads.check();
        // The copy does not answer in time: the leader does.
        reads.ask_again(Duration::ZERO, NOW);
        assert!(reads.next_near(NOW).is_none());
        let third = reads.next(NOW).expect("it travels").id;
        assert!(reads.answered(second, 6, alloc::vec![Reply::Ok], false).is_empty(), "too late");
        assert_eq!(tickets(&reads.answered(third, 6, alloc::vec![Reply::Ok], false)), [12]);
        assert_eq!(reads.count(), 0);
    }

    #[test]
    fn what_is_read_here_and_what_is_read_at_the_leader_keep_their_order() {
        let mut reads = Reads::default();
        take_with(&mut reads, 1, 10, Consistency::Near);
        take(&mut reads, 1, 11);
        let near = reads.next_near(NOW).expect("a question");
        let far = reads.next(NOW).expect("a read").id;
        assert!(reads.answered(far, 7, alloc::vec![Reply::Ok], false).is_empty(), "not before the first");
        assert!(reads.indexed(near).is_some());
        assert_eq!(tickets(&reads.answered(near, 6, alloc::vec![Reply::Ok], false)), [10]);
        let again = reads.next(NOW).expect("the one that came too early").id;
        assert_eq!(tickets(&reads.answered(again, 7, alloc::vec![Reply::Ok], false)), [11]);
        reads.check();
    }

    #[test]
    fn a_question_without_an_answer_blocks_nothing() {
        let mut reads = Reads::default();
        take_with(&mut reads, 1, 10, Consistency::Near);
        let lost = reads.next_near(NOW).expect("a question");
        take_with(&mut reads, 2, 11, Consistency::Near);
        reads.refused(lost);
        assert!(reads.indexed(lost).is_none());
        assert!(reads.next_near(NOW).is_some(), "the next one goes");
        reads.leave_to_leader();
        assert_eq!(reads.next(NOW).expect("the one that was refused").requests.len(), 1);
        assert_eq!(reads.overdue(Duration::ZERO, NOW).len(), 2);
        assert_eq!(reads.count(), 0);
        reads.check();
    }

    #[test]
    fn what_a_copy_did_not_answer_is_asked_of_the_leader_alone() {
        let mut reads = Reads::default();
        take(&mut reads, 1, 10);
        let first = reads.next(NOW).expect("a read");
        assert!(!first.at_leader);
        reads.asks_copy(first.id);
        reads.took(first.id, Duration::ZERO, NOW + Duration::from_secs(1));
        assert!(reads.is_of_copy(first.id));
        take(&mut reads, 2, 11);
        reads.refused(first.id);
        let second = reads.next(NOW).expect("the one that was refused");
        assert!(second.at_leader && second.requests.len() == 1 && !reads.is_of_copy(second.id));
        let third = reads.next(NOW).expect("the other one goes by itself");
        assert!(!third.at_leader && third.requests.len() == 1);
        let late = NOW + Duration::from_secs(2);
        reads.took(second.id, Duration::ZERO, late);
        assert_eq!(
            reads.elsewhere(late, 0),
            0,
            "what only the leader can answer tells nothing, nor does a copy"
        );
        reads.check();
    }

    fn tickets(ends: &[(Address, Outcome)]) -> Vec<u64> {
        ends.iter().map(|((_, ticket), _)| ticket.0).collect()
    }

    #[test]
    fn a_later_read_of_a_connection_does_not_overtake_an_earlier_one() {
        let mut reads = Reads::default();
        take(&mut reads, 1, 10);
        let first = reads.next(NOW).expect("a read").id;
        take(&mut reads, 1, 11);
        take(&mut reads, 2, 12);
        let Question { id: second, requests, .. } = reads.next(NOW).expect("reads");
        assert_eq!(requests.len(), 2);
        let ends = reads.answered(second, 1, alloc::vec![Reply::Ok, Reply::Ok], false);
        assert_eq!(tickets(&ends), [12], "the other connection is free");
        reads.check();
        assert!(reads.next(NOW).is_none(), "not before the earlier one has ended");
        assert_eq!(tickets(&reads.answered(first, 1, alloc::vec![Reply::Ok], false)), [10]);
        let third = reads.next(NOW).expect("the one that came too early").id;
        assert_eq!(tickets(&reads.answered(third, 1, alloc::vec![Reply::Ok], false)), [11]);
        assert_eq!(reads.count(), 0);
    }

    #[test]
    fn an_answer_from_an_older_state_than_the_one_before_is_asked_for_again() {
        let mut reads = Reads::default();
        take(&mut reads, 1, 10);
        let first = reads.next(NOW).expect("a read").id;
        take(&mut reads, 1, 11);
        let second = reads.next(NOW).expect("a read").id;
        assert_eq!(tickets(&reads.answered(first, 7, alloc::vec![Reply::Ok], false)), [10]);
        assert!(reads.answered(second, 6, alloc::vec![Reply::Ok], false).is_empty(), "it was read earlier");
        let third = reads.next(NOW).expect("the same again").id;
        assert_eq!(tickets(&reads.answered(third, 7, alloc::vec![Reply::Ok], false)), [11]);
        assert!(reads.seen.is_empty());
        reads.check();
    }

    #[test]
    fn reads_whose_answers_did_not_fit_are_asked_again() {
        let mut reads = Reads::default();
        for ticket in 10..13 {
            take(&mut reads, ticket, ticket);
        }
        let first = reads.next(NOW).expect("reads").id;
        assert_eq!(tickets(&reads.answered(first, 1, alloc::vec![Reply::Ok; 2], false)), [10, 11]);
        let Question { id: second, requests, .. } = reads.next(NOW).expect("the one that got no answer");
        assert_eq!(requests.len(), 1);
        reads.check();
        assert_eq!(tickets(&reads.answered(second, 1, alloc::vec![Reply::Ok], false)), [12]);
        assert_eq!(reads.count(), 0);
    }

    #[test]
    fn late_answers_and_those_of_another_life_count_for_nothing() {
        let mut reads = Reads::default();
        reads.begin(u64::MAX);
        take(&mut reads, 1, 10);
        let first = reads.next(NOW).expect("a read").id;
        reads.ask_again(Duration::ZERO, NOW);
        let second = reads.next(NOW).expect("the same again").id;
        assert!(first != second);
        assert!(reads.answered(first, 1, alloc::vec![Reply::Ok], false).is_empty());
        assert!(reads.answered(second, 1, alloc::vec![Reply::Ok; 2], false).is_empty(), "too many answers");
        assert_eq!(reads.overdue(Duration::ZERO, NOW).len(), 1);
        assert_eq!(reads.count(), 0);
    }
}
