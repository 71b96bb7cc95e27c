//! Records on their way to the segments: framed in memory, each in the segment it will be written to.

use std::collections::VecDeque;

use quorate_kernel::Position;

use super::frame::{FRAME_BYTES, Framer, HEADER_BYTES, Identity, padded};

/// What is to be written to one segment.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of the segment.
    pub(super) number: u64,
    /// First record of the segment (only meaningful for a segment that is still to be made).
    pub(super) first: Position,
    /// Bytes of the segment.
    pub(super) segment_bytes: u64,
    /// Where the buffer belongs.
    pub(super) offset: u64,
    /// Whole frames.
    pub(super) buffer: Vec<u8>,
    last: Option<Position>,
    framer: Framer,
}

/// Everything staged: first for the segment that is written to, then for those to be made after it.
#[derive(Debug)]
pub(super) struct Stage {
    identity: Identity,
    segment_bytes: u64,
    parts: VecDeque<Part>,
}

/// A buffer that grew beyond this for one large batch is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

impl Stage {
    pub(super) fn new(identity: Identity, segment_bytes: u64) -> Stage {
        Stage { identity, segment_bytes, parts: VecDeque::new() }
    }

    /// Writing goes on at `offset` of this segment.
    pub(super) fn begin(&mut self, number: u64, offset: u64, segment_bytes: u64) {
        self.parts.clear();
        self.push(number, Position(0), offset, segment_bytes, Vec::new());
    }

    fn push(&mut self, number: u64, first: Position, offset: u64, segment_bytes: u64, buffer: Vec<u8>) {
        let framer = Framer::new(self.identity, number);
        self.parts.push_back(Part { number, first, segment_bytes, offset, buffer, last: None, framer });
    }

    pub(super) fn record(
        &mut self,
        position: Position,
        synced: Position,
        fill: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) {
        self.frame(position, position, synced, fill);
        if let Some(part) = self.parts.back_mut() {
            part.last = Some(position);
        }
    }

    pub(super) fn mark(&mut self, synced: Position) {
        self.frame(synced.next(), synced, synced, |buffer| buffer);
    }

    /// Adds a frame, to a new segment that starts with record `first` if it does not fit behind the others.
    fn frame(
        &mut self,
        first: Position,
        position: Position,
        synced: Position,
        fill: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) {
        let Some(part) = self.parts.back_mut() else { panic!("a log on disk has a segment to stage for") };
        let mut start = part.buffer.len();
        part.buffer.resize(start + FRAME_BYTES, 0);
        part.buffer = fill(std::mem::take(&mut part.buffer));
        assert!(part.buffer.len() >= start + FRAME_BYTES, "a record is written behind what is there");
        let end = part.offset + start as u64 + padded(part.buffer.len() - start) as u64;
        if end > part.segment_bytes {
            let buffer = part.buffer.split_off(start);
            let number = part.number + 1;
            let needed = (HEADER_BYTES + padded(buffer.len())).next_multiple_of(HEADER_BYTES) as u64;
            self.push(number, first, HEADER_BYTES as u64, self.segment_bytes.max(needed), buffer);
            start = 0;
        }
        let Some(part) = self.parts.back_mut() else { panic!("a part was just pushed") };
        part.framer.seal(&mut part.buffer, start, position, synced);
    }

    pub(super) fn front(&self) -> Option<&Part> {
        self.parts.front()
    }

    /// The front part has been written. Returns its last record.
    pub(super) fn written(&mut self) -> Option<Position> {
        let last = self.parts.front_mut()?.last.take();
        if self.parts.len() > 1 {
            self.parts.pop_front();
        } else if let Some(part) = self.parts.front_mut() {
            part.offset += part.buffer.len() as u64;
            part.buffer.clear();
            part.buffer.shrink_to(BUFFER_BYTES_KEPT);
        }
        last
    }

    /// Whether nothing is left to write.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.len() == 1 && self.parts.front().is_none_or(|part| part.buffer.is_empty())
    }

    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.buffer.len()).sum()
    }
}
