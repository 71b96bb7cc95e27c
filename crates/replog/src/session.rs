//! Exactly once: what a log remembers of the requests it has applied.
//!
//! A session numbers its requests from 1 and sends them in order; after a doubt it sends again from the first one
//! that is unanswered. The log applies each number once, in order. It remembers the replies that the session has not
//! yet said to have got, so that a retry is answered with what happened the first time. Sessions are part of the
//! replicated state: they come with snapshots and over seals.

use alloc::collections::VecDeque;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::message::Index;

/// What is known of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Session {
    /// Number of the newest request that was applied.
    last: u64,
    /// Replies from the oldest one that may be asked for again to that of `last`.
    replies: VecDeque<Bytes>,
    /// The entry that used the session last: the session unused for longest goes first when there are too many.
    used: Index,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is the next one: apply it, then [`Session::finish`].
    Apply,
    /// It was applied before, with this reply.
    Replay(Bytes),
    /// It was applied before, and the session has said that it got the reply: a late copy, to be ignored.
    Settled,
    /// Requests before it are missing, from this number on.
    Gap(u64),
}

impl Session {
    /// What to do with request number `seq`.
    pub fn admit(&self, seq: u64) -> Admission {
        let next = self.last + 1;
        if seq == next {
            return Admission::Apply;
        }
        if seq > next {
            return Admission::Gap(next);
        }
        let oldest = next - self.replies.len() as u64;
        let reply =
            seq.checked_sub(oldest).and_then(|offset| self.replies.get(usize::try_from(offset).ok()?));
        reply.map_or(Admission::Settled, |reply| Admission::Replay(reply.clone()))
    }

    /// Takes down that request `seq` was applied by entry `index`, with this reply.
    ///
    /// # Panics
    /// If it was not the next one.
    pub fn finish(&mut self, seq: u64, reply: Bytes, index: Index) {
        assert_eq!(seq, self.last + 1, "requests of a session are applied in order");
        self.last = seq;
        self.used = index;
        self.replies.push_back(reply);
    }

    /// The session has got all replies before request `seq`: they are forgotten.
    pub fn settle_before(&mut self, seq: u64) {
        while self.last + 1 - (self.replies.len() as u64) < seq && self.replies.pop_front().is_some() {}
    }

    /// Forgets the oldest replies where all together are longer than `bytes_max`: they are replayed as empty ones.
    pub fn keep_replies(&mut self, bytes_max: usize) {
        let mut bytes = 0;
        for reply in self.replies.iter_mut().rev() {
            bytes += reply.len();
            if bytes > bytes_max && !reply.is_empty() {
                *reply = Bytes::new();
            }
        }
    }

    /// Number of the newest request that was applied.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The entry that used the session last.
    pub fn used(&self) -> Index {
        self.used
    }

    /// Marks the session as used by entry `index`.
    pub fn touch(&mut self, index: Index) {
        self.used = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(count: u64) -> Session {
        let mut session = Session::default();
        for seq in 1..=count {
            assert_eq!(session.admit(seq), Admission::Apply);
            session.finish(seq, Bytes::from(alloc::format!("r{seq}")), seq * 10);
        }
        session
    }

    #[test]
    fn a_retry_is_answered_from_memory() {
        let session = applied(3);
        assert_eq!(session.admit(1), Admission::Replay(Bytes::from("r1")));
        assert_eq!(session.admit(3), Admission::Replay(Bytes::from("r3")));
        assert_eq!(session.admit(4), Admission::Apply);
        assert_eq!(session.admit(6), Admission::Gap(4));
        assert_eq!(session.used(), 30);
    }

    #[test]
    fn what_is_settled_is_forgotten_and_never_applied_again() {
        let mut session = applied(3);
        session.settle_before(3);
        assert_eq!(session.admit(2), Admission::Settled);
        assert_eq!(session.admit(3), Admission::Replay(Bytes::from("r3")));
        session.settle_before(99);
        assert_eq!(session.admit(3), Admission::Settled);
        assert_eq!(session.admit(4), Admission::Apply);
    }

    #[test]
    fn long_replies_are_forgotten_from_the_oldest_on() {
        let mut session = applied(4);
        session.keep_replies(5);
        assert_eq!(session.admit(2), Admission::Replay(Bytes::new()));
        assert_eq!(session.admit(3), Admission::Replay(Bytes::from("r3")));
        assert_eq!(session.admit(4), Admission::Replay(Bytes::from("r4")));
        assert_eq!(session.admit(5), Admission::Apply);
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn skipping_is_refused() {
        applied(1).finish(3, Bytes::new(), 1);
    }
}
