//! Reading a log back: which records survived, and whether what is missing may be missing.
//!
//! A log ends in one of three ways. *Clean*: behind the last record there is nothing of this segment. *Torn*: the
//! process or the machine died while records were on their way to the disk; some sectors made it and some did not, in
//! any order. None of these records had been synced, so nobody was told of them, and all from the first missing one
//! on are dropped. *Damaged*: a record that had been synced cannot be read. Then the node must not go on.
//!
//! What tells the last two apart is that each frame says up to where all records had been synced when it was made.
//! If any frame behind the damage, or the mere existence of a later segment, says that the damaged record was on
//! disk, the log is damaged; if not, it is torn. One case stays open: damage to the very last batch, with nothing
//! behind it. [`super::Wal::settle`] closes it by a mark behind the last batch whenever the node has nothing to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use quorate_kernel::Position;

use super::error::OpenError;
use super::frame::{ALIGN, FRAME_BYTES, Framer, HEADER_BYTES, Header, HeaderError, Identity, position_at};
use crate::files::{File, Files, read};

/// A segment that was found sound.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) number: u64,
    pub(super) first: Position,
    /// Where the next frame belongs.
    pub(super) end: u64,
    /// Length of the segment, by its header.
    pub(super) bytes: u64,
}

/// A log that was found sound, possibly with a torn tail that has been removed.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) segments: Vec<Found>,
    pub(super) last: Position,
    /// The newest record that something on disk says was synced.
    pub(super) marked: Position,
    pub(super) torn: bool,
    pub(super) file: Arc<dyn File>,
}

/// The records that survived, in order. Reads one segment at a time into memory.
#[derive(Debug)]
pub struct Recovery {
    files: Arc<dyn Files>,
    dir: PathBuf,
    identity: Identity,
    segments: std::vec::IntoIter<Found>,
    reading: Option<(Framer, Vec<u8>, usize)>,
    next: Position,
    last: Position,
    torn: bool,
}

impl Recovery {
    pub(super) fn new(files: Arc<dyn Files>, dir: &Path, identity: Identity, scanned: &Scanned) -> Recovery {
        let next = scanned.segments.first().map_or(scanned.last.next(), |segment| segment.first);
        Recovery {
            files,
            dir: dir.to_owned(),
            identity,
            segments: scanned.segments.clone().into_iter(),
            reading: None,
            next,
            last: scanned.last,
            torn: scanned.torn,
        }
    }

    pub(super) fn empty(files: Arc<dyn Files>, dir: &Path, identity: Identity) -> Recovery {
        Recovery {
            files,
            dir: dir.to_owned(),
            identity,
            segments: Vec::new().into_iter(),
            reading: None,
            next: Position(1),
            last: Position(0),
            torn: false,
        }
    }

    /// Whether remains of records were found at the end and dropped. They had never been synced.
    pub fn torn(&self) -> bool {
        self.torn
    }

    /// The next record to come; one past [`Recovery::last_position`] if none is left. At first, the oldest record that was
    /// not discarded.
    pub fn next_position(&self) -> Position {
        self.next
    }

    /// The newest record that survived.
    pub fn last_position(&self) -> Position {
        self.last
    }

    fn read(&mut self) -> io::Result<Option<(Position, Bytes)>> {
        while self.next <= self.last {
            if let Some((framer, segment, at)) = &mut self.reading {
                while let Some(frame) = framer.cut(segment, *at, self.next.0 - 1..=self.next.0) {
                    *at += frame.bytes;
                    if !frame.is_mark() && frame.position == self.next {
                        self.next = frame.position.next();
                        return Ok(Some((frame.position, Bytes::copy_from_slice(frame.payload))));
                    }
                }
            }
            let Some(segment) = self.segments.next() else {
                let message = format!("record {} was there a moment ago and is gone", self.next.0);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            };
            let file = self.files.open(&self.dir.join(segment_name(segment.number)))?;
            let bytes = read(&*file, segment.end)?;
            self.reading = Some((Framer::new(self.identity, segment.number), bytes, HEADER_BYTES));
        }
        Ok(None)
    }
}

impl Iterator for Recovery {
    type Item = io::Result<(Position, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose();
        if matches!(item, Some(Err(_))) {
            self.next = self.last.next();
        }
        item
    }
}

/// Where the records of one segment end.
struct Walked {
    end: usize,
    /// The first record that is not there.
    expected: Position,
    /// The newest record that the frames say was synced.
    marked: Position,
    /// The frame from which on nothing says that it was synced.
    unproven: usize,
}

/// Checks all segments; brings what a torn tail left into order.
pub(super) fn scan(
    files: &dyn Files,
    dir: &Path,
    identity: Identity,
    numbers: &[u64],
) -> Result<Scanned, OpenError> {
    let mut segments: Vec<Found> = Vec::new();
    let mut expected = None;
    let mut marked = Position(0);
    let mut tail = None;
    for (index, number) in numbers.iter().enumerate() {
        let (file, header, bytes) = load(files, dir, identity, *number, expected)?;
        let from = expected.unwrap_or(header.first);
        if header.first != from {
            let previous = segments.last().map_or(*number, |segment| segment.number);
            let offset = segments.last().map_or(0, |segment| segment.end);
            let what = "it was on disk before the next segment began, and cannot be read";
            return Err(corrupt(dir, previous, offset, from, what));
        }
        let framer = Framer::new(identity, *number);
        let walked = walk(&framer, &bytes, from);
        marked = marked.max(walked.marked).max(Position(header.first.0 - 1));
        segments.push(Found {
            number: *number,
            first: header.first,
            end: walked.end as u64,
            bytes: header.bytes,
        });
        expected = Some(walked.expected);
        if index + 1 == numbers.len() {
            if (bytes.len() as u64) < header.bytes {
                let what = "the file is shorter than it was made, so something other than a crash has cut it";
                return Err(corrupt(dir, *number, bytes.len() as u64, walked.expected, what));
            }
            tail = Some((file, bytes, framer, walked));
        }
    }
    let Some((file, bytes, framer, walked)) = tail else {
        return Err(OpenError::Missing { dir: dir.to_owned() });
    };
    let number = segments.last().map_or(0, |segment| segment.number);
    let dead = search(&framer, &bytes, &walked)
        .map_err(|(offset, what)| corrupt(dir, number, offset as u64, walked.expected, what))?;
    repair(&*file, &bytes, &walked, &dead).map_err(|source| OpenError::Io {
        action: "repair the end of the log in",
        path: dir.join(segment_name(number)),
        source,
    })?;
    let last = Position(walked.expected.0 - 1);
    Ok(Scanned { segments, last, marked, torn: !dead.is_empty(), file })
}

type Loaded = (Arc<dyn File>, Header, Vec<u8>);

fn load(
    files: &dyn Files,
    dir: &Path,
    identity: Identity,
    number: u64,
    expected: Option<Position>,
) -> Result<Loaded, OpenError> {
    let path = dir.join(segment_name(number));
    let failed = |source| OpenError::Io { action: "read", path: path.clone(), source };
    let file = files.open(&path).map_err(failed)?;
    let block = read(&*file, HEADER_BYTES as u64).map_err(failed)?;
    let header = match Header::decode(&block) {
        Ok(header) => header,
        Err(HeaderError::Newer(version)) => {
            return Err(OpenError::Newer { dir: dir.to_owned(), segment: segment_name(number), version });
        }
        // A header is on disk before its file gets its name, so a crash is no excuse.
        Err(HeaderError::Damaged) => {
            let position = expected.unwrap_or_default();
            return Err(corrupt(dir, number, 0, position, "the segment's header cannot be read"));
        }
    };
    if header.identity != identity {
        let segment = segment_name(number);
        return Err(OpenError::Foreign { dir: dir.to_owned(), segment, found: header.identity, identity });
    }
    if header.number != number {
        return Err(corrupt(dir, number, 0, header.first, "the header is that of another segment"));
    }
    let bytes = read(&*file, header.bytes).map_err(failed)?;
    Ok((file, header, bytes))
}

fn walk(framer: &Framer, segment: &[u8], first: Position) -> Walked {
    let mut walked =
        Walked { end: HEADER_BYTES, expected: first, marked: Position(0), unproven: HEADER_BYTES };
    let mut starts = std::collections::VecDeque::new();
    while let Some(frame) = framer.cut(segment, walked.end, walked.expected.0 - 1..=walked.expected.0) {
        if frame.is_mark() != (frame.position < walked.expected) {
            break;
        }
        if !frame.is_mark() {
            starts.push_back((frame.position, walked.end));
            walked.expected = frame.position.next();
        }
        walked.end += frame.bytes;
        walked.marked = walked.marked.max(frame.synced);
        while starts.front().is_some_and(|(position, _)| *position <= walked.marked) {
            starts.pop_front();
        }
        walked.unproven = starts.front().map_or(walked.end, |(_, start)| *start);
    }
    walked
}

/// Looks behind the end of the records for what is left of others: either all of it was never synced, and the
/// offsets of anything that could be taken for a frame later are returned; or some of it shows that the end is none.
fn search(framer: &Framer, segment: &[u8], walked: &Walked) -> Result<Vec<usize>, (usize, &'static str)> {
    let room = (segment.len() - walked.end) / FRAME_BYTES;
    let positions = walked.expected.0..=walked.expected.0.saturating_add(room as u64);
    let mut dead = Vec::new();
    for at in (walked.end..segment.len()).step_by(ALIGN) {
        if !position_at(segment, at).is_some_and(|position| positions.contains(&position)) {
            continue;
        }
        dead.push(at);
        let Some(frame) = framer.cut(segment, at, positions.clone()) else { continue };
        if frame.synced >= walked.expected {
            return Err((walked.end, "it was on disk before later records that are intact"));
        }
        if frame.position == walked.expected && at > walked.end {
            return Err((walked.end, "what lies before it was on disk, and cannot be read"));
        }
    }
    Ok(dead)
}

/// Makes sure that what was recovered is on disk and that what was dropped cannot come back.
///
/// The bytes that nothing proves to be on disk are written again: if an earlier sync failed, the system may show them
/// as written although they are only in its memory, and would not write them on a mere sync.
fn repair(file: &dyn File, segment: &[u8], walked: &Walked, dead: &[usize]) -> io::Result<()> {
    if walked.unproven < walked.end {
        file.write_at(walked.unproven as u64, &segment[walked.unproven..walked.end])?;
    }
    for at in dead {
        file.write_at(*at as u64, &[0; FRAME_BYTES])?;
    }
    file.sync()
}

fn corrupt(dir: &Path, number: u64, offset: u64, position: Position, what: &'static str) -> OpenError {
    OpenError::Corrupt { dir: dir.to_owned(), segment: segment_name(number), offset, position, what }
}

/// The file name of a segment.
pub(super) fn segment_name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// The number of the segment with this file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (segment_name(number) == name).then_some(number)
}
