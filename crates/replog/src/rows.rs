//! Where the rows of a log's state lie in the store, which it shares with the node's other logs.
//!
//! | key | row |
//! |---|---|
//! | `m`, number of the log (2 bytes; none for log 0) | [`StateMeta`](crate::StateMeta) |
//! | `r`, number of the log (2), generation (2), ... | a row of the area of this generation |

use bytes::Bytes;
use quorate_kernel::Cx;
use quorate_store::Scan;

use alloc::vec::Vec;

/// First byte of all rows of all areas of all logs.
const AREA: u8 = b'r';
/// First byte of the keys of all meta rows.
const META: u8 = b'm';

/// Prefix of the rows of an area.
pub(crate) type Prefix = [u8; 5];

/// The rows of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The log's number among those of its node, the same on all nodes.
    pub(crate) log: u16,
}

impl Rows {
    /// Key of the meta row.
    pub(crate) fn meta_key(self) -> Bytes {
        match self.log.to_be_bytes() {
            // As before there was more than one log.
            [0, 0] => Bytes::from_static(&[META]),
            [a, b] => Bytes::copy_from_slice(&[META, a, b]),
        }
    }

    /// Prefix of the rows of an area.
    pub(crate) fn area(self, generation: u32) -> Prefix {
        let Ok(generation) = u16::try_from(generation) else { panic!("generation {generation} of an area") };
        let ([a, b], [c, d]) = (self.log.to_be_bytes(), generation.to_be_bytes());
        [AREA, a, b, c, d]
    }

    /// The first key behind an area.
    pub(crate) fn area_end(self, generation: u32) -> Vec<u8> {
        let [_, number @ ..] = self.area(generation);
        match u32::from_be_bytes(number).checked_add(1) {
            Some(next) => [&[AREA][..], &next.to_be_bytes()].concat(),
            None => Vec::from([AREA + 1]),
        }
    }

    /// Areas with rows other than the one in use: snapshots that were cut short or superseded.
    pub(crate) fn abandoned(self, cx: &Cx<'_>, in_use: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut start = self.area(0).to_vec();
        let end = self.area_end(u32::from(u16::MAX));
        loop {
            let rows = cx.store.scan(Scan::range(&start, Some(&end)).rows(1));
            let Some((key, _)) = rows.first() else { return found };
            let Some([_, _, _, c, d]) = key.first_chunk::<5>() else {
                panic!("a row outside all areas: {key:?}")
            };
            let generation = u32::from(u16::from_be_bytes([*c, *d]));
            if generation != in_use {
                found.push(generation);
            }
            start = self.area_end(generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_keys() {
        let (first, other) = (Rows { log: 0 }, Rows { log: 0x0102 });
        assert_eq!((&first.meta_key()[..], &other.meta_key()[..]), (&b"m"[..], &b"m\x01\x02"[..]));
        assert_eq!((first.area(3), other.area(3)), (*b"r\0\0\0\x03", *b"r\x01\x02\0\x03"));
    }

    #[test]
    fn areas_lie_side_by_side() {
        for log in [0, 1, u16::MAX - 1] {
            let rows = Rows { log };
            assert_eq!(rows.area_end(7), rows.area(8));
            assert_eq!(rows.area_end(u32::from(u16::MAX)), Rows { log: log + 1 }.area(0));
        }
        assert_eq!(Rows { log: u16::MAX }.area_end(u32::from(u16::MAX)), b"s");
    }
}
