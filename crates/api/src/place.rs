//! Where a key lies on the ring.

use core::num::NonZeroU16;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Number of Redis Cluster slots.
pub const SLOT_COUNT: u16 = 16_384;

/// The part of a key that decides its slot: what stands between the first `{` and the next `}`, if that is not
/// empty; otherwise the whole key (Redis Cluster specification, "Hash tags").
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

/// The Redis Cluster slot of a key: CRC-16/XMODEM of its hash tag, modulo 16,384.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

/// A key of two bytes in a slot.
///
/// # Panics
/// If there is no such slot.
pub fn key_in_slot(slot: u16) -> [u8; 2] {
    // The checksum maps the 65,536 texts of two bytes one to one; none of them has a tag.
    let found = (0..=u16::MAX).map(u16::to_be_bytes).find(|key| slot_of(key) == slot);
    let Some(key) = found else { panic!("there is no slot {slot}") };
    key
}

/// Bits of a position below those of its slot.
const LOW_BITS: u32 = 50;

/// A key's position on the ring: the top 14 bits are its slot, the rest a second hash of the whole key.
///
/// Boundaries of shards fall on slots, so a Redis Cluster client's map is exact and a scan by position is contiguous.
pub fn position_of(key: &[u8]) -> u64 {
    (u64::from(slot_of(key)) << LOW_BITS) | (fnv1a(key) >> (64 - LOW_BITS))
}

/// A range of slots that has one log: SconeKV's bucket, Scatter's committee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Bucket(pub u16);

impl Bucket {
    /// The bucket of a slot, if there are `count` of them: each has as many neighbouring slots as the others, or one
    /// more.
    pub fn of_slot(slot: u16, count: NonZeroU16) -> Bucket {
        Bucket((u32::from(slot % SLOT_COUNT) * u32::from(count.get()) / u32::from(SLOT_COUNT)) as u16)
    }

    /// The bucket of a key.
    pub fn of_key(key: &[u8], count: NonZeroU16) -> Bucket {
        // With one bucket nobody needs to look.
        if count.get() == 1 { Bucket(0) } else { Bucket::of_slot(slot_of(key), count) }
    }

    /// The bucket of the keys at a position of the ring.
    pub fn of_position(position: u64, count: NonZeroU16) -> Bucket {
        Bucket::of_slot((position >> LOW_BITS) as u16, count)
    }

    /// The ring position where it begins.
    pub fn ring_start(self, count: NonZeroU16) -> u64 {
        u64::from(self.slots(count).start) << LOW_BITS
    }

    /// The ring position behind the last of its keys, where the next bucket begins; `None`: the ring ends there.
    pub fn ring_end(self, count: NonZeroU16) -> Option<u64> {
        let end = self.slots(count).end;
        (end < SLOT_COUNT).then(|| u64::from(end) << LOW_BITS)
    }

    /// Its slots; none if it is not one of `count`.
    pub fn slots(self, count: NonZeroU16) -> Range<u16> {
        let count = u32::from(count.get());
        let first =
            |bucket: u32| (bucket * u32::from(SLOT_COUNT)).div_ceil(count).min(SLOT_COUNT.into()) as u16;
        first(self.0.into())..first(u32::from(self.0) + 1)
    }
}

/// 64-bit FNV-1a with a final mix, so that short keys fill the high bits as well.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

const CRC16_TABLE: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    let mut table = [0_u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16_TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From the Redis Cluster specification and `redis-cli CLUSTER KEYSLOT`.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"bar"), 5_061);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
    }

    #[test]
    fn hash_tags_follow_the_specification() {
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
    }

    #[test]
    fn buckets_share_the_slots() {
        for count in [1, 2, 3, 5, 7, 1_000, SLOT_COUNT] {
            let count = NonZeroU16::new(count).expect("above zero");
            let mut next = 0;
            for bucket in (0..count.get()).map(Bucket) {
                let slots = bucket.slots(count);
                assert_eq!(slots.start, next, "no slot is left out");
                assert!(slots.len().abs_diff(usize::from(SLOT_COUNT / count.get())) <= 1);
                assert!(slots.clone().all(|slot| Bucket::of_slot(slot, count) == bucket));
                next = slots.end;
            }
            assert_eq!(next, SLOT_COUNT);
            assert!(Bucket(count.get()).slots(count).is_empty());
        }
        let count = NonZeroU16::new(16).expect("above zero");
        assert_eq!(Bucket::of_key(b"{user}1", count), Bucket::of_key(b"{user}2", count));
    }

    #[test]
    fn every_slot_has_a_short_key() {
        for slot in (0..SLOT_COUNT).step_by(127) {
            assert_eq!(slot_of(&key_in_slot(slot)), slot);
        }
    }

    #[test]
    fn positions_start_with_the_slot() {
        for key in [&b"a"[..], b"foo", b"{tag}1", b"{tag}2"] {
            assert_eq!((position_of(key) >> 50) as u16, slot_of(key));
        }
        assert_ne!(position_of(b"{tag}1"), position_of(b"{tag}2"));
    }
}
