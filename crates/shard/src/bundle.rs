//! Parts and decisions of bundles: transactions that `quorate-commit` makes of several requests. Numbers of commands say whose
//! they are.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::part::{Decision, Part, Share};

/// Bits of a command's number that count within its request; those above are the number of the member.
const BITS: u32 = 20;

/// One more than the greatest number of a command in a request that goes with others.
const NUMBERS_MAX: u32 = 1 << BITS;

impl Part {
    /// Whether others may do something at the same time, as one: nothing is compared, moved or lent.
    pub fn may_share(&self) -> bool {
        let Part { watched, versions, commands, lends, sight, script, notes, readers: _ } = self;
        let numbers =
            versions.iter().map(|(number, _)| number).chain(commands.iter().map(|(number, _)| number));
        let small = numbers.copied().all(|number| number < NUMBERS_MAX);
        let alone = watched.is_empty() && lends.is_empty() && notes.is_empty();
        small && alone && sight.is_none() && script.is_empty()
    }

    /// What these members do, one after the other.
    pub(crate) fn bundle(parts: &[(usize, Bytes)]) -> Part {
        let mut bundle = Part::default();
        for (member, part) in parts {
            // One that a peer garbled does nothing.
            let part = Part::decode(part).unwrap_or_default();
            let base = (*member as u32) << BITS;
            bundle.versions.extend(part.versions.into_iter().map(|(number, key)| (base | number, key)));
            let commands = part.commands.into_iter();
            bundle.commands.extend(commands.map(|(number, command)| (base | number, command)));
            bundle.readers.extend((!part.readers.is_empty()).then_some(*member as u32));
        }
        bundle
    }
}

impl Decision {
    /// As the log has to keep it: without what members have found that only read.
    pub(crate) fn remembered(mut self, readers: &[u32]) -> Decision {
        let forgotten = |number: u32| readers.binary_search(&(number >> BITS)).is_ok();
        self.shares.values_mut().for_each(|share| share.without(forgotten));
        self
    }

    /// What concerns each of a bundle's `count` members: its replies, under its own numbers.
    pub(crate) fn excerpts(self, count: usize) -> Vec<Decision> {
        let mut excerpts: Vec<Decision> = Vec::new();
        excerpts.resize_with(count, Decision::default);
        for (log, share) in self.shares {
            for (number, reply) in share.replies {
                if let Some(excerpt) = excerpts.get_mut((number >> BITS) as usize) {
                    let his: &mut Share = excerpt.shares.entry(log).or_default();
                    his.replies.push((number % NUMBERS_MAX, reply));
                }
            }
        }
        excerpts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::Reply;
    use quorate_commit::LogId;

    #[test]
    fn members_get_their_replies_under_their_numbers() {
        let part = |keys: &[(u32, &'static [u8])]| {
            let versions = keys.iter().map(|(number, key)| (*number, Bytes::from_static(key))).collect();
            Part { versions, ..Part::default() }
        };
        let parts = [(0, part(&[(1, b"a"), (3, b"b")]).encode()), (2, part(&[(1, b"c")]).encode())];
        let bundle = Part::bundle(&parts);
        let numbers: Vec<u32> = bundle.versions.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, (2 << BITS) | 1]);
        let mut decision = Decision::default();
        let share = Share {
            replies: numbers.iter().map(|number| (*number, Reply::Int(i64::from(*number)))).collect(),
            ..Share::default()
        };
        decision.shares.insert(LogId(4), share);
        let excerpts = decision.excerpts(3);
        let replies = |member: usize| {
            let shares = excerpts[member].shares.get(&LogId(4));
            shares.map(|share| share.replies.iter().map(|(number, _)| *number).collect::<Vec<_>>())
        };
        assert_eq!((replies(0), replies(1), replies(2)), (Some([1, 3].into()), None, Some([1].into())));
    }

    #[test]
    fn what_compares_or_lends_goes_alone() {
        let key = Bytes::from_static(b"k");
        assert!(Part { versions: [(1, key.clone())].into(), ..Part::default() }.may_share());
        assert!(!Part { versions: [(NUMBERS_MAX, key.clone())].into(), ..Part::default() }.may_share());
        assert!(!Part { watched: [(key, Default::default())].into(), ..Part::default() }.may_share());
        assert!(!Part { sight: Some(Default::default()), ..Part::default() }.may_share());
    }
}
