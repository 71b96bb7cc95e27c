//! Replies as they stand in votes and decisions: what was said before is not said again.
//!
//! Most members of a bundle read the same few popular keys, and between two changes of a key they all find the same. So long replies stand there
//! once, however many ask; the larger the bundle, the more that saves.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quorate_api::{ErrorReply, Reply};
use quorate_kernel::wire::{self, Malformed};
use serde::{Deserialize, Serialize};

/// Replies, each with the number of its command.
pub(crate) type Replies = Vec<(u32, Reply)>;

/// Replies of fewer bytes than this are said again: there is little to be gained.
const REPEATED_BYTES_MIN: usize = 16;
/// What was folded is not believed to be longer than this. What this program says keeps within its limits unfolded, which are far smaller.
const UNFOLDED_BYTES_MAX: usize = 64 << 20;

/// A reply that was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeat {
    /// Its place among all replies.
    place: u32,
    /// The number of its command.
    number: u32,
    /// The place of the reply that is the same.
    same_as: u32,
}

/// What replies come to where each stands by itself: their bytes when encoded, about, and not more.
pub(crate) fn plain_bytes(replies: &[(u32, Reply)]) -> usize {
    replies.iter().map(|(_, reply)| bytes_of(reply)).sum()
}

fn bytes_of(reply: &Reply) -> usize {
    1 + match reply {
        Reply::Ok | Reply::Nil | Reply::NilArray => 0,
        Reply::Int(_) | Reply::Bool(_) => 1,
        Reply::Double(_) => 8,
        Reply::Simple(text) | Reply::Error(ErrorReply(text)) => 1 + text.len(),
        Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => 1 + bytes.len(),
        Reply::Array(items) | Reply::Set(items) => 1 + items.iter().map(bytes_of).sum::<usize>(),
        Reply::Map(pairs) => {
            1 + pairs.iter().map(|(key, value)| bytes_of(key) + bytes_of(value)).sum::<usize>()
        }
    }
}

/// Takes out of `replies` those that were said before.
pub(crate) fn fold(replies: &mut Replies) -> Vec<Repeat> {
    if replies.len() < 2 {
        return Vec::new();
    }
    // By their bytes: of numbers that are equal there are two that are not the same (0.0 and -0.0).
    let mut said: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let (mut repeats, mut places) = (Vec::new(), 0..);
    replies.retain(|(number, reply)| {
        let place = places.next().unwrap_or_default();
        if bytes_of(reply) < REPEATED_BYTES_MIN {
            return true;
        }
        let same_as = *said.entry(wire::encode(reply)).or_insert(place);
        if same_as < place {
            repeats.push(Repeat { place, number: *number, same_as });
        }
        same_as == place
    });
    repeats
}

/// Puts back what [`fold`] took out.
///
/// # Errors
/// [`Malformed`] if one is to be the same as what does not come before it, or all of them are too long.
pub(crate) fn unfold(replies: &mut Replies, repeats: &[Repeat]) -> Result<(), Malformed> {
    if repeats.is_empty() {
        return Ok(());
    }
    let mut all: Replies = Vec::with_capacity(replies.len());
    let mut said = core::mem::take(replies).into_iter();
    let mut bytes = 0;
    for Repeat { place, number, same_as } in repeats {
        let before = (*place as usize).checked_sub(all.len()).ok_or(Malformed)?;
        all.extend(said.by_ref().take(before));
        let (_, same) =
            all.get(*same_as as usize).filter(|_| all.len() == *place as usize).ok_or(Malformed)?;
        bytes += bytes_of(same);
        if bytes > UNFOLDED_BYTES_MAX {
            return Err(Malformed);
        }
        all.push((*number, same.clone()));
    }
    all.extend(said);
    *replies = all;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Decision, Export, Share};
    use alloc::format;
    use bytes::Bytes;
    use quorate_commit::LogId;
    use quorate_kernel::Rng;

    fn drawn(rng: &mut Rng) -> Reply {
        let long = |rng: &mut Rng| Reply::bulk(Bytes::from(alloc::vec![rng.below(2) as u8; 40]));
        match rng.below(6) {
            0 => Reply::Ok,
            1 => Reply::Int(rng.below(3) as i64),
            2 => Reply::Array(alloc::vec![long(rng), long(rng)]),
            3 => Reply::Array(alloc::vec![Reply::Double(if rng.below(2) == 0 { 0.0 } else { -0.0 }); 3]),
            4 => Reply::error("WRONGTYPE in words that are long enough to be worth it"),
            _ => long(rng),
        }
    }

    #[test]
    fn whatever_is_said_is_heard() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let mut replies = |count: u64| -> Replies {
                (0..rng.below(count) as u32).map(|number| (number * 3, drawn(&mut rng))).collect()
            };
            let digest = (seed % 3 == 0).then_some(seed as u32);
            let export = Export { replies: replies(20), digest, ..Export::default() };
            let heard = Export::decode(&export.clone().encode());
            // Zeros that differ are equal, and their texts are not.
            assert_eq!(format!("{heard:?}"), format!("{:?}", Ok::<_, Malformed>(export)), "seed {seed}");
            let mut decision = Decision::default();
            for log in 0..4 {
                decision.shares.insert(LogId(log), Share { replies: replies(20), ..Share::default() });
            }
            let plain: usize = decision.shares.values().map(|share| plain_bytes(&share.replies)).sum();
            assert!(plain <= wire::encode(&decision).len(), "nothing is refused that would fit as it is");
            let heard = Decision::decode(&decision.clone().encode());
            assert_eq!(format!("{heard:?}"), format!("{:?}", Ok::<_, Malformed>(decision)), "seed {seed}");
        }
    }

    #[test]
    fn what_many_read_stands_there_once() {
        let value = Reply::bulk(Bytes::from(alloc::vec![7; 1_000]));
        let export = |count| Export {
            replies: (0..count).map(|number| (number, value.clone())).collect(),
            ..Export::default()
        };
        let (one, hundred) = (export(1).encode().len(), export(100).encode().len());
        assert!(hundred < one + 100 * 4, "{one} bytes for one, {hundred} for a hundred");
    }

    /// In clusters of one bucket, some of whose nodes may know nothing of this.
    #[test]
    fn decisions_of_one_log_stand_as_ever() {
        let value = Reply::bulk(Bytes::from(alloc::vec![7; 100]));
        let mut decision = Decision::default();
        let replies = (0..9).map(|number| (number, value.clone())).collect();
        decision.shares.insert(LogId(0), Share { replies, ..Share::default() });
        assert_eq!(decision.clone().encode(), wire::encode(&decision));
    }

    #[test]
    fn what_would_be_far_too_long_is_refused() {
        let large = Reply::bulk(Bytes::from(alloc::vec![7; UNFOLDED_BYTES_MAX / 4]));
        let unfolded = |count: u32| {
            let repeats: Vec<Repeat> =
                (1..=count).map(|place| Repeat { place, number: place, same_as: 0 }).collect();
            unfold(&mut alloc::vec![(0, large.clone())], &repeats)
        };
        assert_eq!((unfolded(3), unfolded(4)), (Ok(()), Err(Malformed)));
    }

    #[test]
    fn only_what_was_said_before_can_be_meant() {
        let unfolded = |place, same_as| {
            let mut replies = alloc::vec![(4, Reply::Ok), (6, Reply::Nil)];
            unfold(&mut replies, &[Repeat { place, number: 5, same_as }]).map(|()| replies)
        };
        assert_eq!(unfolded(1, 0), Ok(alloc::vec![(4, Reply::Ok), (5, Reply::Ok), (6, Reply::Nil)]));
        assert_eq!(unfolded(1, 1), Err(Malformed), "itself");
        assert_eq!(unfolded(1, 2), Err(Malformed), "what comes later");
        assert_eq!(unfolded(7, 0), Err(Malformed), "at no place");
    }
}
