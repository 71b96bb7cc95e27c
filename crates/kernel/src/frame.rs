//! Frames: how bytes on a stream or in a file are cut into messages, bounded and checked.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of the payload, little endian |
//! | 4 | CRC-32 (IEEE) of the version, the kind and the payload |
//! | 2 | version of the payload's format |
//! | 2 | kind, for whoever cuts the frames |
//! | length | payload |

use alloc::vec::Vec;
use core::fmt;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 12;

/// Why a frame was refused. The stream behind it cannot be trusted any more; no state was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is above the limit; nothing was allocated for it.
    TooLarge {
        /// What the header says.
        bytes: usize,
        /// What is allowed.
        bytes_max: usize,
    },
    /// The checksum does not fit.
    Corrupt,
    /// The version is newer than this program knows.
    Newer {
        /// What the header says.
        version: u16,
        /// The newest that this program knows.
        version_max: u16,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLarge { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes is above the limit of {bytes_max}")
            }
            FrameError::Corrupt => f.write_str("a frame's checksum does not fit its content"),
            FrameError::Newer { version, version_max } => write!(
                f,
                "format version {version} is newer than {version_max}, the newest this program knows: upgrade it first"
            ),
        }
    }
}

impl core::error::Error for FrameError {}

/// A frame cut from the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Version of the payload's format, at most the `version_max` given to [`cut`].
    pub version: u16,
    /// What the payload is, as agreed between the two ends.
    pub kind: u16,
    /// The payload.
    pub payload: &'a [u8],
    /// Bytes of the whole frame, to be dropped from the buffer.
    pub bytes: usize,
}

/// Appends a frame to `buffer`; `fill` writes the payload behind what it is given.
///
/// # Panics
/// If the payload has 4 GiB or more: senders have limits far below.
pub fn append(buffer: &mut Vec<u8>, version: u16, kind: u16, fill: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(&version.to_le_bytes());
    buffer.extend_from_slice(&kind.to_le_bytes());
    *buffer = fill(core::mem::take(buffer));
    let length = buffer.len() - start - HEADER_BYTES;
    let Ok(length) = u32::try_from(length) else { panic!("a frame of {length} bytes") };
    let checksum = crc32fast::hash(&buffer[start + 8..]);
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    buffer[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// Cuts the first frame of `buffer`; `None` if it has not arrived whole yet.
///
/// # Errors
/// [`FrameError`] as soon as the header shows it; a length above `bytes_max` is refused before its payload arrives.
pub fn cut(buffer: &[u8], version_max: u16, bytes_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [l0, l1, l2, l3, c0, c1, c2, c3, v0, v1, k0, k1] = *header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let version = u16::from_le_bytes([v0, v1]);
    if length > bytes_max {
        return Err(FrameError::TooLarge { bytes: length, bytes_max });
    }
    if version > version_max {
        return Err(FrameError::Newer { version, version_max });
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let bytes = HEADER_BYTES + length;
    if crc32fast::hash(&buffer[8..bytes]) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(FrameError::Corrupt);
    }
    Ok(Some(Frame { version, kind: u16::from_le_bytes([k0, k1]), payload, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut buffer = Vec::new();
        append(&mut buffer, 1, 2, |mut b| {
            b.extend_from_slice(b"hello");
            b
        });
        buffer
    }

    #[test]
    fn golden_bytes() {
        let bytes = sample();
        assert_eq!(bytes[..4], [5, 0, 0, 0]);
        assert_eq!(bytes[4..8], crc32fast::hash(b"\x01\0\x02\0hello").to_le_bytes());
        assert_eq!(bytes[8..], *b"\x01\0\x02\0hello");
    }

    #[test]
    fn cuts_one_after_the_other() {
        let mut bytes = sample();
        let one = bytes.len();
        append(&mut bytes, 1, 3, |b| b);
        let first = cut(&bytes, 1, 100).expect("valid").expect("whole");
        assert_eq!((first.kind, first.payload, first.bytes), (2, &b"hello"[..], one));
        let second = cut(&bytes[one..], 1, 100).expect("valid").expect("whole");
        assert_eq!((second.kind, second.payload), (3, &b""[..]));
        for short in 0..one {
            assert_eq!(cut(&bytes[..short], 1, 100), Ok(None));
        }
    }

    #[test]
    fn refuses_large_new_and_damaged() {
        let bytes = sample();
        assert_eq!(cut(&bytes[..HEADER_BYTES], 1, 4), Err(FrameError::TooLarge { bytes: 5, bytes_max: 4 }));
        assert_eq!(cut(&bytes, 0, 100), Err(FrameError::Newer { version: 1, version_max: 0 }));
        for at in 4..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(cut(&damaged, u16::MAX, 100).is_err(), "byte {at} bit {bit}");
            }
        }
    }
}
