//! The keys of one Redis Cluster slot, or of one bucket, which is named by any key in it.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reply, SLOT_COUNT, slot_of};

use super::scan;
use crate::Space;
use crate::args::integer;
use crate::table::Answer;

/// Keys looked at in one step.
const STEP_KEYS_MAX: usize = 1_024;
/// Keys told at most, whatever is asked for.
const KEYS_MAX: usize = 4_096;

/// Where a slot begins on the ring.
fn begin(slot: u16) -> u64 {
    const LOW_BITS: u32 = 50;
    u64::from(slot) << LOW_BITS
}

/// Hands the keys of the slot of `key` to `take`, as long as that says true.
fn each(space: &mut dyn Space, key: &[u8], mut take: impl FnMut(Bytes) -> bool) {
    let slot = slot_of(key);
    let end = (slot + 1 < SLOT_COUNT).then(|| begin(slot + 1));
    let mut next = Some(begin(slot));
    while let Some(from) = next.filter(|from| end.is_none_or(|end| *from < end)) {
        let (found, position) = space.keys(from, STEP_KEYS_MAX);
        assert!(position.is_none_or(|position| position > from), "the ring ends");
        for (key, _) in found {
            if slot_of(&key) != slot || !take(key) {
                return;
            }
        }
        next = position;
    }
}

pub(super) fn count(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let mut count = 0;
    each(space, &args[0], |_| {
        count += 1;
        true
    });
    Ok(Reply::Int(count))
}

pub(super) fn keys(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let wanted = usize::try_from(integer(&args[1])?).unwrap_or(0).min(KEYS_MAX);
    let mut keys = Vec::new();
    if wanted > 0 {
        each(space, &args[0], |key| {
            keys.push(Reply::Bulk(key));
            keys.len() < wanted
        });
    }
    Ok(Reply::Array(keys))
}

/// A bucket runs what names a key in it, on all it has: the rest of the words are those of the command for all keys.
pub(super) fn bucket_size(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    scan::dbsize(space, &args[1..])
}

pub(super) fn bucket_keys(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    scan::keys(space, &args[1..])
}

pub(super) fn bucket_scan(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    scan::scan(space, &args[1..])
}
