//! Hashes that are part of the protocol: the same on every node, in every version.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Spreads the bits of a word, one to one: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) const fn mix(word: u64) -> u64 {
    let mut word = word ^ (word >> 30);
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    word = word.wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Names a value by its bytes. Two values that differ have the same name with a chance of one in 2^128; safety rests on
/// that, as it does in every content-addressed store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Digest(pub u64, pub u64);

impl Digest {
    /// The digest of some bytes: two lanes that take the bytes in words of eight, little endian, the last one filled up
    /// with zeros, and the number of bytes at the end.
    pub(crate) fn of(bytes: &[u8]) -> Digest {
        let mut digest = Digest(0x7261_7069_6421, 0x6375_7473);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest = digest.absorb(u64::from_le_bytes(word));
        }
        digest.absorb(bytes.len() as u64)
    }

    fn absorb(self, word: u64) -> Digest {
        Digest(mix(self.0 ^ word), mix(self.1.rotate_left(23).wrapping_add(word)))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:08x}", self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_fixed_for_ever() {
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_ne!(Digest::of(b"a"), Digest::of(b"b"));
        assert_ne!(Digest::of(b"a"), Digest::of(b"a\0"), "the length counts");
        assert_ne!(Digest::of(b""), Digest::of(b"\0"));
    }
}
