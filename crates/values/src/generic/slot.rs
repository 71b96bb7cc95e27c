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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MemorySpace;
    use alloc::format;
    use quorate_api::key_in_slot;

    /// Runs a command by its name.
    fn run(space: &mut MemorySpace, name: &str, args: &[&[u8]]) -> Reply {
        let args: Vec<Bytes> = args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect();
        (crate::find(name.as_bytes()).unwrap().run)(space, &args)
    }

    #[test]
    fn the_keys_of_a_slot_are_told_and_no_others() {
        let mut space = MemorySpace::new(1, 1);
        for index in 0..2_000 {
            for key in [format!("{{last}}{index}"), format!("other{index}")] {
                run(&mut space, "set", &[key.as_bytes(), b"v"]);
            }
        }
        let slot = slot_of(b"last");
        let others = (0..2_000).filter(|index| slot_of(format!("other{index}").as_bytes()) == slot).count();
        let (in_it, beside) = (key_in_slot(slot), key_in_slot(slot - 1));
        assert_eq!(run(&mut space, "slot|count", &[&in_it]), Reply::Int(2_000 + others as i64));
        let Reply::Array(some) = run(&mut space, "slot|keys", &[&in_it, b"7"]) else { panic!("an array") };
        assert_eq!(some.len(), 7);
        let is_there = |key: &Reply| matches!(key, Reply::Bulk(key) if slot_of(key) == slot);
        assert!(some.iter().all(is_there), "{some:?}");
        let Reply::Int(few) = run(&mut space, "slot|count", &[&beside]) else { panic!("a number") };
        assert!(few < 10, "{few} keys of the slot before");
        assert_eq!(run(&mut space, "slot|keys", &[&beside, b"0"]), Reply::Array(Vec::new()));
        let end = key_in_slot(SLOT_COUNT - 1);
        assert!(matches!(run(&mut space, "slot|count", &[&end]), Reply::Int(_)), "the ring ends there");
    }

    #[test]
    fn a_bucket_runs_commands_for_all_keys_on_its_own() {
        let mut space = MemorySpace::new(1, 1);
        run(&mut space, "set", &[b"a", b"v"]);
        assert_eq!(run(&mut space, "bucket|size", &[b"x"]), Reply::Int(1));
        let all = Reply::Array([Reply::bulk("a")].into());
        assert_eq!(run(&mut space, "bucket|keys", &[b"x", b"*"]), all);
        let step = Reply::Array([Reply::bulk("0"), all].into());
        assert_eq!(run(&mut space, "bucket|scan", &[b"x", b"0", b"COUNT", b"5"]), step);
    }
}
