//! Acknowledgements between buckets, which nobody waits for.
//!
//! A coordinator remembers a decision until all participants have acknowledged it. While bundle follows bundle, each participant soon has a vote
//! to send to the same bucket: an acknowledgement travels with that, or with the next tick, which comes long before the decision would be sent again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_commit::{Message, Word};

/// When so many wait for one bucket, they leave.
const WAITING_MAX: usize = 32;

/// Those that wait, by the buckets that they are for.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(BTreeMap<Bucket, Vec<Message>>);

impl Acknowledged {
    /// What leaves now that this is to be said to a bucket: it may wait.
    pub(crate) fn say(&mut self, to: Bucket, message: Message) -> Vec<Message> {
        let may_wait = message.word == Word::Acknowledge;
        let mut waiting = self.0.remove(&to).unwrap_or_default();
        waiting.push(message);
        if may_wait && waiting.len() < WAITING_MAX {
            self.0.insert(to, waiting);
            return Vec::new();
        }
        waiting
    }

    /// All that wait.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Bucket, Message)> + use<> {
        let all = core::mem::take(&mut self.0);
        all.into_iter().flat_map(|(to, waiting)| waiting.into_iter().map(move |message| (to, message)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_commit::{LogId, TransactionId};

    fn message(sequence: u64, word: Word) -> Message {
        let id = TransactionId { age: 1, origin: 1, sequence };
        Message { from: LogId(9), id, word }
    }

    fn sequences(messages: &[Message]) -> Vec<u64> {
        messages.iter().map(|message| message.id.sequence).collect()
    }

    #[test]
    fn they_leave_with_what_is_said_next_to_the_same_bucket() {
        let mut all = Acknowledged::default();
        assert!(all.say(Bucket(1), message(1, Word::Acknowledge)).is_empty());
        assert!(all.say(Bucket(1), message(2, Word::Acknowledge)).is_empty());
        let query = || Word::QueryGlobal { logs: Vec::new() };
        assert_eq!(sequences(&all.say(Bucket(2), message(3, query()))), [3], "another bucket");
        assert_eq!(sequences(&all.say(Bucket(1), message(4, query()))), [1, 2, 4]);
        assert!(all.is_empty());
    }

    #[test]
    fn they_leave_in_the_end() {
        let mut all = Acknowledged::default();
        for sequence in 1..WAITING_MAX as u64 {
            assert!(all.say(Bucket(1), message(sequence, Word::Acknowledge)).is_empty());
        }
        assert_eq!(all.say(Bucket(1), message(0, Word::Acknowledge)).len(), WAITING_MAX, "so many");
        assert!(all.is_empty() && all.say(Bucket(3), message(7, Word::Acknowledge)).is_empty());
        let taken: Vec<(Bucket, u64)> = all.take().map(|(to, message)| (to, message.id.sequence)).collect();
        assert_eq!(taken, [(Bucket(3), 7)]);
        assert!(all.is_empty());
    }
}
