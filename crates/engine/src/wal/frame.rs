//! The bytes of a segment: its header and its frames.
//!
//! A segment begins with one block of [`HEADER_BYTES`]:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | format version, little endian as all numbers |
//! | 4 | CRC-32 of the block without these four bytes |
//! | 8 | cluster |
//! | 8 | node |
//! | 8 | number of the segment |
//! | 8 | position of its first record |
//! | 8 | bytes of the segment |
//! | rest | zero |
//!
//! The first 16 bytes and what the checksum covers stay the same in all versions, so that an older program can tell
//! a newer log from a damaged one. Frames follow, each at a multiple of eight bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | CRC-32 of the cluster, the node, the segment's number, then of the frame without these four bytes |
//! | 4 | length of the payload |
//! | 8 | position of the record |
//! | 8 | position up to which all records were on disk when the frame was made |
//! | length | payload |
//! | 0 to 7 | zero, up to a multiple of eight |
//!
//! A frame whose two positions are equal is a *mark*: no record, only the statement that the records up to there are
//! on disk. What is left over in a recycled segment belongs to another number and does not pass the checksum.

use crc32fast::Hasher;
use quorate_kernel::{ClusterId, NodeId, Position};

/// Whose log it is. Part of every checksum, so that a block of another node's log cannot pass for one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
}

/// The newest format this program reads, and the one it writes.
///
/// - 1: the first.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes before the first frame. A block of its own, so that no write of a record touches the header's sectors.
pub(crate) const HEADER_BYTES: usize = 4096;

/// Bytes before the payload of a frame.
pub(crate) const FRAME_BYTES: usize = 24;

/// Frames start at multiples of this.
pub(crate) const ALIGN: usize = 8;

const MAGIC: [u8; 8] = *b"QUORWAL\n";

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    pub(crate) number: u64,
    pub(crate) first: Position,
    pub(crate) bytes: u64,
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Damaged,
    Newer(u32),
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let words = [self.identity.cluster.0, self.identity.node.0, self.number, self.first.0, self.bytes];
        for (place, word) in block[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = header_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    pub(crate) fn decode(segment: &[u8]) -> Result<Header, HeaderError> {
        let block = segment.get(..HEADER_BYTES).ok_or(HeaderError::Damaged)?;
        if block[..8] != MAGIC || header_checksum(block) != word32(block, 12) {
            return Err(HeaderError::Damaged);
        }
        let version = word32(block, 8);
        if version > FORMAT_VERSION {
            return Err(HeaderError::Newer(version));
        }
        let identity = Identity { cluster: ClusterId(word64(block, 16)), node: NodeId(word64(block, 24)) };
        let header = Header {
            identity,
            number: word64(block, 32),
            first: Position(word64(block, 40)),
            bytes: word64(block, 48),
        };
        if version == 0 || header.first.0 == 0 {
            return Err(HeaderError::Damaged);
        }
        Ok(header)
    }
}

fn header_checksum(block: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&block[..12]);
    hasher.update(&block[16..]);
    hasher.finalize()
}

/// Makes and checks the frames of one segment.
#[derive(Debug, Clone)]
pub(crate) struct Framer {
    seed: Hasher,
}

/// A frame that passed its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) position: Position,
    pub(crate) synced: Position,
    pub(crate) payload: &'a [u8],
    /// Bytes of the whole frame.
    pub(crate) bytes: usize,
}

impl Frame<'_> {
    pub(crate) fn is_mark(&self) -> bool {
        self.position == self.synced
    }
}

impl Framer {
    pub(crate) fn new(identity: Identity, number: u64) -> Framer {
        let mut seed = Hasher::new();
        for word in [identity.cluster.0, identity.node.0, number] {
            seed.update(&word.to_le_bytes());
        }
        Framer { seed }
    }

    /// Completes the frame that starts at `start` of `buffer` with [`FRAME_BYTES`] of room and its payload.
    ///
    /// # Panics
    /// If the payload has 4 GiB or more.
    pub(crate) fn seal(&self, buffer: &mut Vec<u8>, start: usize, position: Position, synced: Position) {
        let length = buffer.len() - start - FRAME_BYTES;
        let Ok(length) = u32::try_from(length) else { panic!("a record of {length} bytes") };
        buffer.resize(start + padded(buffer.len() - start), 0);
        let frame = &mut buffer[start..];
        frame[4..8].copy_from_slice(&length.to_le_bytes());
        frame[8..16].copy_from_slice(&position.0.to_le_bytes());
        frame[16..24].copy_from_slice(&synced.0.to_le_bytes());
        let checksum = self.checksum(frame);
        frame[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The frame at `at`, if there is a whole and undamaged one whose position lies in `positions`.
    pub(crate) fn cut<'a>(
        &self,
        segment: &'a [u8],
        at: usize,
        positions: std::ops::RangeInclusive<u64>,
    ) -> Option<Frame<'a>> {
        let rest = segment.get(at..)?;
        if rest.len() < FRAME_BYTES {
            return None;
        }
        let (length, position, synced) = (word32(rest, 4) as usize, word64(rest, 8), word64(rest, 16));
        if position == 0
            || !positions.contains(&position)
            || synced > position
            || (synced == position && length > 0)
        {
            return None;
        }
        let bytes = padded(FRAME_BYTES.checked_add(length)?);
        let frame = rest.get(..bytes)?;
        if self.checksum(frame) != word32(frame, 0) {
            return None;
        }
        Some(Frame {
            position: Position(position),
            synced: Position(synced),
            payload: &frame[FRAME_BYTES..FRAME_BYTES + length],
            bytes,
        })
    }

    fn checksum(&self, frame: &[u8]) -> u32 {
        let mut hasher = self.seed.clone();
        hasher.update(&frame[4..]);
        hasher.finalize()
    }
}

/// The position that a frame at `at` would have, checked or not.
pub(crate) fn position_at(segment: &[u8], at: usize) -> Option<u64> {
    segment.get(at..at + FRAME_BYTES).map(|frame| word64(frame, 8))
}

pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Identity = Identity { cluster: ClusterId(0xc1), node: NodeId(0x0d) };

    fn frame(framer: &Framer, position: u64, synced: u64, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; FRAME_BYTES];
        buffer.extend_from_slice(payload);
        framer.seal(&mut buffer, 0, Position(position), Position(synced));
        buffer
    }

    #[test]
    fn golden_header() {
        let header = Header { identity: WHO, number: 3, first: Position(17), bytes: 65_536 };
        let block = header.encode();
        assert_eq!(block.len(), HEADER_BYTES);
        assert_eq!(
            block[..56],
            [
                b'Q', b'U', b'O', b'R', b'W', b'A', b'L', b'\n', 1, 0, 0, 0, 31, 36, 118, 107, //
                0xc1, 0, 0, 0, 0, 0, 0, 0, 0x0d, 0, 0, 0, 0, 0, 0, 0, //
                3, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0,
            ]
        );
        assert!(block[56..].iter().all(|byte| *byte == 0));
        assert_eq!(Header::decode(&block), Ok(header));
    }

    #[test]
    fn golden_frame() {
        let framer = Framer::new(WHO, 3);
        let bytes = frame(&framer, 18, 17, b"hello");
        assert_eq!(
            bytes,
            [
                101, 111, 191, 155, 5, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, //
                b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
            ]
        );
        let cut = framer.cut(&bytes, 0, 18..=18).expect("valid");
        assert_eq!((cut.payload, cut.bytes, cut.is_mark()), (&b"hello"[..], 32, false));
        let mark = frame(&framer, 18, 18, b"");
        assert!(framer.cut(&mark, 0, 18..=18).expect("valid").is_mark());
    }

    #[test]
    fn a_header_with_any_bit_flipped_is_refused() {
        let header = Header { identity: WHO, number: 3, first: Position(17), bytes: 65_536 };
        let good = header.encode();
        for at in 0..good.len() {
            let mut block = good.clone();
            block[at] ^= 1 << (at % 8);
            assert_eq!(Header::decode(&block), Err(HeaderError::Damaged), "byte {at}");
        }
        assert_eq!(Header::decode(&good[..HEADER_BYTES - 1]), Err(HeaderError::Damaged));
    }

    #[test]
    fn a_newer_header_is_told_from_a_damaged_one() {
        let mut block = Header { identity: WHO, number: 3, first: Position(17), bytes: 65_536 }.encode();
        block[8..12].copy_from_slice(&2_u32.to_le_bytes());
        assert_eq!(Header::decode(&block), Err(HeaderError::Damaged));
        let checksum = header_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&block), Err(HeaderError::Newer(2)));
    }

    #[test]
    fn frames_that_are_foreign_damaged_short_or_nonsense_are_refused() {
        let framer = Framer::new(WHO, 3);
        let good = frame(&framer, 18, 17, b"hello, world");
        assert!(framer.cut(&good, 0, 1..=100).is_some());
        assert!(framer.cut(&good, 0, 19..=100).is_none(), "another position is asked for");
        assert!(Framer::new(WHO, 4).cut(&good, 0, 18..=18).is_none(), "another segment");
        let other = Identity { node: NodeId(1), ..WHO };
        assert!(Framer::new(other, 3).cut(&good, 0, 18..=18).is_none(), "another node");
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                assert!(framer.cut(&bytes, 0, 0..=u64::MAX).is_none(), "byte {at} bit {bit}");
            }
            assert!(framer.cut(&good[..at], 0, 18..=18).is_none(), "cut to {at} bytes");
        }
        assert!(framer.cut(&frame(&framer, 18, 19, b"x"), 0, 18..=18).is_none(), "synced ahead of itself");
        assert!(framer.cut(&frame(&framer, 18, 18, b"x"), 0, 18..=18).is_none(), "a mark with a payload");
        assert!(framer.cut(&[0; 64], 0, 0..=u64::MAX).is_none(), "zeros");
    }
}
