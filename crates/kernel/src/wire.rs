//! Values to bytes and back: postcard, whose format is specified and stable since 1.0.
//!
//! Postcard does not describe itself. What may be read is settled by the version in the frame or file header, never
//! by the bytes; new variants are added at the end of an enum, and a changed struct is a new version.

use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes that do not decode. Nothing was changed by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes that do not decode")
    }
}

impl core::error::Error for Malformed {}

/// Encodes a value.
///
/// # Panics
/// If a type's `Serialize` fails, which those of the workspace never do.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    encode_after(value, Vec::new())
}

/// Encodes a value behind what `buffer` already holds.
///
/// # Panics
/// As [`encode`].
pub fn encode_after<T: Serialize + ?Sized>(value: &T, buffer: Vec<u8>) -> Vec<u8> {
    match postcard::to_extend(value, buffer) {
        Ok(buffer) => buffer,
        Err(error) => panic!("a value of ours must encode: {error}"),
    }
}

/// Decodes a value that fills `bytes` exactly.
///
/// # Errors
/// [`Malformed`] if the bytes are not such a value, or more than one.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

/// Decodes a value from the front of `bytes` and returns what follows it.
///
/// # Errors
/// [`Malformed`] if the bytes do not begin with such a value.
pub fn decode_front<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Malformed> {
    postcard::take_from_bytes(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let value = (300_u64, "ab", Some(-1_i32), [1_u8, 2]);
        let bytes = encode(&value);
        assert_eq!(bytes, [0xac, 0x02, 2, b'a', b'b', 1, 1, 1, 2]);
        assert_eq!(encode_after(&7_u8, alloc::vec![9]), [9, 7]);
    }

    #[test]
    fn rejects_short_long_and_wrong() {
        assert_eq!(decode::<(u64, bool)>(&[1]), Err(Malformed));
        assert_eq!(decode::<(u64, bool)>(&[1, 1, 0]), Err(Malformed));
        assert_eq!(decode::<(u64, bool)>(&[1, 7]), Err(Malformed));
        assert_eq!(decode::<(u64, bool)>(&[1, 1]), Ok((1, true)));
        assert!(decode::<Vec<u64>>(&[0xff, 0xff, 0xff, 0xff, 0x7f]).is_err(), "a length is not believed");
    }
}
