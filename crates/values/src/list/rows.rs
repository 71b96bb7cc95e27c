//! How a list lies in its key's meta data and rows.

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::ErrorReply;

use crate::access::{ROWS_MAX, get_kind};
use crate::{Kind, Meta, Space};

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

/// Where the elements of a list lie: element `i` is the row of index `first + i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    first: i64,
    count: u64,
}

impl Ends {
    const BYTES: usize = 16;

    fn decode(body: &[u8]) -> Ends {
        assert_eq!(body.len(), Self::BYTES, "the body of a list holds its two ends");
        let (first, count) = body.split_at(Self::BYTES / 2);
        let first = i64::from_be_bytes(first.try_into().expect("half of the body is eight bytes"));
        let count = u64::from_be_bytes(count.try_into().expect("half of the body is eight bytes"));
        assert!(count > 0, "an empty list does not exist");
        Ends { first, count }
    }

    fn encode(self) -> Bytes {
        let mut body = [0; Self::BYTES];
        body[..Self::BYTES / 2].copy_from_slice(&self.first.to_be_bytes());
        body[Self::BYTES / 2..].copy_from_slice(&self.count.to_be_bytes());
        Bytes::copy_from_slice(&body)
    }
}

/// The key of an index's row. Turning the sign bit over puts negative indexes before the others.
fn row_key(index: i64) -> [u8; 8] {
    (index.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// A list that exists, or is about to.
///
/// Positions count from 0 at the left. Every method that changes the list leaves meta data and rows in agreement.
pub(crate) struct List<'a> {
    space: &'a mut dyn Space,
    key: &'a Bytes,
    expire_ms: Option<u64>,
    ends: Ends,
}

impl<'a> List<'a> {
    /// The list under a key; `None` if there is no such key.
    pub(crate) fn open(space: &'a mut dyn Space, key: &'a Bytes) -> Result<Option<List<'a>>, ErrorReply> {
        let Some(meta) = get_kind(space, key, Kind::List)? else { return Ok(None) };
        let ends = Ends::decode(&meta.body);
        Ok(Some(List { space, key, expire_ms: meta.expire_ms, ends }))
    }

    /// The list under a key, or an empty one. An empty one exists only once something has been pushed.
    pub(super) fn open_or_new(space: &'a mut dyn Space, key: &'a Bytes) -> Result<List<'a>, ErrorReply> {
        let meta = get_kind(space, key, Kind::List)?;
        let ends = meta.as_ref().map_or(Ends { first: 0, count: 0 }, |meta| Ends::decode(&meta.body));
        Ok(List { space, key, expire_ms: meta.and_then(|meta| meta.expire_ms), ends })
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.ends.count
    }

    /// The place of a position that counts from the end if it is negative; `None` if it is outside.
    pub(super) fn place(&self, position: i64) -> Option<u64> {
        let position = crate::args::from_start(position, self.ends.count);
        u64::try_from(position).ok().filter(|place| *place < self.ends.count)
    }

    /// The half-open range of places that LRANGE and LTRIM mean; empty if the end comes before the start.
    pub(super) fn range(&self, start: i64, end: i64) -> (u64, u64) {
        let count = self.ends.count;
        let start = crate::args::from_start(start, count).max(0).unsigned_abs();
        let end = crate::args::from_start(end, count).saturating_add(1).max(0).unsigned_abs().min(count);
        if start < end { (start, end) } else { (0, 0) }
    }

    pub(super) fn at(&mut self, place: u64) -> Bytes {
        let row = row_key(self.index(place));
        self.space.row(self.key, &row).expect("every place between the ends has its row")
    }

    pub(super) fn replace(&mut self, place: u64, value: Bytes) {
        self.write(place, value);
        self.save();
    }

    /// The elements from place `start` to before `end`.
    pub(super) fn slice(&mut self, start: u64, end: u64) -> Vec<Bytes> {
        if end - start == 1 {
            // One look at a row is cheaper than a range of one.
            return Vec::from([self.at(start)]);
        }
        let mut elements = Vec::with_capacity((end - start) as usize);
        self.visit(start, end, false, |_, value| {
            elements.push(value);
            true
        });
        assert_eq!(elements.len() as u64, end - start, "every place between the ends has its row");
        elements
    }

    /// Hands out places and elements from `start` to before `end`, from the right if `reverse`, until told `false`.
    pub(crate) fn visit(
        &mut self,
        mut start: u64,
        mut end: u64,
        reverse: bool,
        mut visit: impl FnMut(u64, Bytes) -> bool,
    ) {
        assert!(end <= self.ends.count, "no element lies beyond the end");
        while start < end {
            let (low, high) = (row_key(self.index(start)), row_key(self.index(end)));
            let rows = self.space.rows(self.key, &low, Some(&high), reverse, ROWS_MAX);
            assert!(!rows.is_empty(), "every place between the ends has its row");
            for (_, value) in rows {
                let place = if reverse { end - 1 } else { start };
                if !visit(place, value) {
                    return;
                }
                if reverse {
                    end -= 1;
                } else {
                    start += 1;
                }
            }
        }
    }

    /// Adds elements one after the other at an end.
    pub(super) fn push(&mut self, end: End, values: &[Bytes]) {
        let added = values.len() as u64;
        self.ends.count += added;
        if end == End::Left {
            self.ends.first -= values.len() as i64;
        }
        self.save();
        for (nth, value) in (1..).zip(values) {
            let place = match end {
                End::Left => added - nth,
                End::Right => self.ends.count - added + nth - 1,
            };
            self.write(place, value.clone());
        }
    }

    /// Takes up to `count` elements from an end, the outermost first.
    pub(super) fn pop(&mut self, end: End, count: u64) -> Vec<Bytes> {
        let all = self.ends.count;
        let taken = count.min(all);
        match end {
            End::Left => {
                let values = self.slice(0, taken);
                self.keep(taken, all);
                values
            }
            End::Right => {
                let mut values = self.slice(all - taken, all);
                values.reverse();
                self.keep(0, all - taken);
                values
            }
        }
    }

    /// Takes the element from one end and adds it at the other; says which.
    pub(super) fn rotate(&mut self, from: End) -> Bytes {
        let last = self.ends.count - 1;
        let (old, shift) = match from {
            End::Left => (0, 1),
            End::Right => (last, -1),
        };
        let value = self.at(old);
        self.erase(old);
        self.ends.first += shift;
        self.write(last - old, value.clone());
        self.save();
        value
    }

    /// Removes all elements but those from place `start` to before `end`: either the others are removed one by
    /// one, or, if these are fewer, the key with all its rows, and they come back.
    pub(super) fn keep(&mut self, start: u64, end: u64) {
        let (kept, removed) = (end - start, self.ends.count - (end - start));
        if removed == 0 {
            return;
        }
        if kept < removed {
            let values = self.slice(start, end);
            self.space.remove(self.key);
            if kept > 0 {
                self.ends = Ends { first: 0, count: 0 };
                self.push(End::Right, &values);
            }
            return;
        }
        for place in (0..start).chain(end..self.ends.count) {
            self.erase(place);
        }
        self.ends = Ends { first: self.index(start), count: kept };
        self.save();
    }

    /// Adds an element so that it gets this place, moving the shorter side.
    pub(super) fn insert(&mut self, place: u64, value: Bytes) {
        let count = self.ends.count;
        if place <= count / 2 {
            let moved = self.slice(0, place);
            self.ends.first -= 1;
            self.rewrite(0, moved);
        } else {
            let moved = self.slice(place, count);
            self.rewrite(place + 1, moved);
        }
        self.ends.count += 1;
        self.write(place, value);
        self.save();
    }

    /// Removes the elements at these places, which ascend, closing the gaps from the shorter side.
    pub(super) fn delete(&mut self, places: &[u64]) {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
        let (count, removed) = (self.ends.count, places.len() as u64);
        if removed == count {
            self.space.remove(self.key);
            return;
        }
        if last + 1 < count - first {
            let rest = self.survivors(0, last + 1, places);
            (0..removed).for_each(|place| self.erase(place));
            self.ends.first += places.len() as i64;
            self.rewrite(0, rest);
        } else {
            let rest = self.survivors(*first, count, places);
            (count - removed..count).for_each(|place| self.erase(place));
            self.rewrite(*first, rest);
        }
        self.ends.count -= removed;
        self.save();
    }

    /// The elements from place `start` to before `end` that are not at one of these ascending places.
    fn survivors(&mut self, start: u64, end: u64, places: &[u64]) -> Vec<Bytes> {
        let mut kept = Vec::new();
        let mut gone = places.iter().peekable();
        self.visit(start, end, false, |place, value| {
            if gone.next_if_eq(&&place).is_none() {
                kept.push(value);
            }
            true
        });
        kept
    }

    fn rewrite(&mut self, start: u64, values: Vec<Bytes>) {
        for (place, value) in (start..).zip(values) {
            self.write(place, value);
        }
    }

    /// The index of a place. A list would need longer than the world has existed to leave the range of indexes.
    fn index(&self, place: u64) -> i64 {
        self.ends.first + place as i64
    }

    fn write(&mut self, place: u64, value: Bytes) {
        let row = row_key(self.index(place));
        self.space.set_row(self.key, &row, value);
    }

    fn erase(&mut self, place: u64) {
        let row = row_key(self.index(place));
        self.space.remove_row(self.key, &row);
    }

    fn save(&mut self) {
        let meta = Meta { kind: Kind::List, expire_ms: self.expire_ms, body: self.ends.encode() };
        self.space.set(self.key, meta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ordered_as_indexes_are() {
        let indexes = [i64::MIN, -256, -2, -1, 0, 1, 255, 256, i64::MAX];
        assert!(indexes.map(row_key).is_sorted());
    }

    #[test]
    fn ends_come_back() {
        for ends in [Ends { first: i64::MIN, count: 1 }, Ends { first: 3, count: u64::MAX }] {
            assert_eq!(Ends::decode(&ends.encode()), ends);
        }
        // These bytes are on disk.
        let bytes = [255, 255, 255, 255, 255, 255, 255, 254, 0, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(Ends { first: -2, count: 256 }.encode(), bytes[..]);
        assert_eq!(row_key(-1), [127, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    #[should_panic(expected = "its two ends")]
    fn a_body_of_another_type_is_no_list() {
        Ends::decode(b"hello");
    }
}
