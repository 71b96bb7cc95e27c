//! Strict reads on their way from this node's clients to the leader.
//!
//! Reads that arrive together travel together. A read changes nothing, so it is simply asked again after a doubt; but
//! what a connection reads must not run backwards, so an answer only counts when all earlier reads of its connection
//! have ended.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Outcome, Refusal, Reply, Request};
use quorate_kernel::Time;
use quorate_replog::Index;

use crate::interface::{ClientRequest, ConnectionId};
use crate::origin::{Address, size_of_request};

/// So many reads travel together at most.
const READS_TOGETHER_MAX: usize = 512;
/// And so many bytes of them, unless a single one is longer.
const READS_TOGETHER_BYTES_MAX: usize = 512 << 10;

#[derive(Debug)]
struct Waiting {
    request: ClientRequest,
    taken_at: Time,
}

#[derive(Debug)]
struct Asked {
    reads: Vec<(u64, Waiting)>,
    asked_at: Time,
}

/// The strict reads of this node, each with a number in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    unasked: BTreeMap<u64, Waiting>,
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

    pub(crate) fn take(&mut self, request: ClientRequest, taken_at: Time) {
        self.numbers += 1;
        self.open.insert((request.connection, self.numbers));
        self.unasked.insert(self.numbers, Waiting { request, taken_at });
    }

    /// The next reads to ask, under a new name.
    pub(crate) fn next(&mut self, now: Time) -> Option<(u64, Vec<Request>)> {
        let mut reads = Vec::with_capacity(self.unasked.len().min(READS_TOGETHER_MAX));
        let mut bytes = 0;
        while reads.len() < READS_TOGETHER_MAX
            && bytes < READS_TOGETHER_BYTES_MAX
            && let Some(read) = self.unasked.pop_first()
        {
            bytes += size_of_request(&read.1.request.request);
            reads.push(read);
        }
        if reads.is_empty() {
            return None;
        }
        let requests = reads.iter().map(|(_, read)| read.request.request.clone()).collect();
        self.names = self.names.wrapping_add(1);
        self.asked.insert(self.names, Asked { reads, asked_at: now });
        Some((self.names, requests))
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
        self.unasked.extend(asked.reads.split_off(replies.len()));
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
                self.unasked.insert(number, read);
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
        let early = self.early.extract_if(all, |_, _| true);
        self.unasked.extend(early.map(|((_, number), read)| (number, read)));
    }

    fn release_all(&mut self) {
        let early = core::mem::take(&mut self.early);
        self.unasked.extend(early.into_iter().map(|((_, number), read)| (number, read)));
    }

    /// These must be asked again.
    pub(crate) fn refused(&mut self, name: u64) {
        if let Some(asked) = self.asked.remove(&name) {
            self.unasked.extend(asked.reads);
            self.release_all();
        }
    }

    /// Whatever was asked `since` ago or longer must be asked again.
    pub(crate) fn ask_again(&mut self, since: Duration, now: Time) {
        let late = self.asked.iter().filter(|(_, asked)| now.since(asked.asked_at) >= since);
        let late: Vec<u64> = late.map(|(name, _)| *name).collect();
        late.into_iter().for_each(|name| self.refused(name));
    }

    /// What has waited for longer than `deadline` ends: nothing happened.
    pub(crate) fn overdue(&mut self, deadline: Duration, now: Time) -> Vec<(Address, Outcome)> {
        self.ask_again(deadline, now);
        self.release_all();
        let open = &mut self.open;
        let late = self.unasked.extract_if(.., |_, read| now.since(read.taken_at) >= deadline);
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
        let waiting = self.unasked.len() + self.early.len();
        assert_eq!(self.open.len(), asked + waiting, "every open read is somewhere");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Ticket;
    use quorate_api::Consistency;

    const NOW: Time = Time(1_000_000_000);

    fn take(reads: &mut Reads, connection: u64, ticket: u64) {
        let request = ClientRequest {
            connection: ConnectionId(connection),
            ticket: Ticket(ticket),
            request: Request::Versions(Vec::new()),
            consistency: Consistency::Strict,
            identity: None,
        };
        reads.take(request, NOW);
    }

    fn tickets(ends: &[(Address, Outcome)]) -> Vec<u64> {
        ends.iter().map(|((_, ticket), _)| ticket.0).collect()
    }

    #[test]
    fn a_later_read_of_a_connection_does_not_overtake_an_earlier_one() {
        let mut reads = Reads::default();
        take(&mut reads, 1, 10);
        let (first, _) = reads.next(NOW).expect("a read");
        take(&mut reads, 1, 11);
        take(&mut reads, 2, 12);
        let (second, requests) = reads.next(NOW).expect("reads");
        assert_eq!(requests.len(), 2);
        let ends = reads.answered(second, 1, alloc::vec![Reply::Ok, Reply::Ok], false);
        assert_eq!(tickets(&ends), [12], "the other connection is free");
        reads.check();
        assert!(reads.next(NOW).is_none(), "not before the earlier one has ended");
        assert_eq!(tickets(&reads.answered(first, 1, alloc::vec![Reply::Ok], false)), [10]);
        let (third, _) = reads.next(NOW).expect("the one that came too early");
        assert_eq!(tickets(&reads.answered(third, 1, alloc::vec![Reply::Ok], false)), [11]);
        assert_eq!(reads.count(), 0);
    }

    #[test]
    fn an_answer_from_an_older_state_than_the_one_before_is_asked_for_again() {
        let mut reads = Reads::default();
        take(&mut reads, 1, 10);
        let (first, _) = reads.next(NOW).expect("a read");
        take(&mut reads, 1, 11);
        let (second, _) = reads.next(NOW).expect("a read");
        assert_eq!(tickets(&reads.answered(first, 7, alloc::vec![Reply::Ok], false)), [10]);
        assert!(reads.answered(second, 6, alloc::vec![Reply::Ok], false).is_empty(), "it was read earlier");
        let (third, _) = reads.next(NOW).expect("the same again");
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
        let (first, _) = reads.next(NOW).expect("reads");
        assert_eq!(tickets(&reads.answered(first, 1, alloc::vec![Reply::Ok; 2], false)), [10, 11]);
        let (second, requests) = reads.next(NOW).expect("the one that got no answer");
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
        let (first, _) = reads.next(NOW).expect("a read");
        reads.ask_again(Duration::ZERO, NOW);
        let (second, _) = reads.next(NOW).expect("the same again");
        assert!(first != second);
        assert!(reads.answered(first, 1, alloc::vec![Reply::Ok], false).is_empty());
        assert!(reads.answered(second, 1, alloc::vec![Reply::Ok; 2], false).is_empty(), "too many answers");
        assert_eq!(reads.overdue(Duration::ZERO, NOW).len(), 1);
        assert_eq!(reads.count(), 0);
    }
}
