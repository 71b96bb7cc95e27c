//! Values to bytes and back: postcard, whose format is specified and stable since 1.0.
//!
//! Postcard does not describe itself. What may be read is settled by the version in the frame or file header, never
//! by the bytes; new variants are added at the end of an enum, and a changed struct is a new version.

use alloc::vec::Vec;
use core::fmt;
use postcard::de_flavors::{Flavor, Slice};
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
    match decode_front(bytes)? {
        (value, []) => Ok(value),
        _ => Err(Malformed),
    }
}

/// Decodes a value from the front of `bytes` and returns what follows it.
///
/// # Errors
/// [`Malformed`] if the bytes do not begin with such a value, or if it lies so deep in itself that reading it takes more
/// than a quarter of a mebibyte of the stack (a whole one in debug builds).
pub fn decode_front<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Malformed> {
    let source = Shallow { bytes: Slice::new(bytes), top: stack() };
    let mut deserializer = postcard::Deserializer::from_flavor(source);
    let value = T::deserialize(&mut deserializer).map_err(|_| Malformed)?;
    Ok((value, deserializer.finalize().map_err(|_| Malformed)?))
}

/// Bytes of the thread's stack that reading one value may take. Messages and replies can contain others, and each level of a few
/// bytes takes hundreds of them: a frame full of such would end the process.
const STACK_MAX: usize = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };

/// Where the stack is now.
#[inline]
fn stack() -> usize {
    let here = 0_u8;
    core::ptr::from_ref(core::hint::black_box(&here)).addr()
}

/// Bytes that end where the stack is used up. Each level of a value begins with a byte or a length, so `pop` sees all of them.
struct Shallow<'a> {
    bytes: Slice<'a>,
    top: usize,
}

impl<'a> Flavor<'a> for Shallow<'a> {
    type Remainder = &'a [u8];
    type Source = &'a [u8];

    #[inline]
    fn pop(&mut self) -> postcard::Result<u8> {
        if self.top.abs_diff(stack()) > STACK_MAX {
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        }
        self.bytes.pop()
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.bytes.size_hint()
    }

    #[inline]
    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        self.bytes.try_take_n(count)
    }

    fn finalize(self) -> postcard::Result<&'a [u8]> {
        self.bytes.finalize()
    }
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
    fn what_lies_deep_in_itself_is_refused() {
        #[derive(Serialize, Deserialize)]
        enum Nested {
            End,
            In(alloc::boxed::Box<Nested>),
        }
        let deep = |levels: usize| [alloc::vec![1; levels], alloc::vec![0]].concat();
        let mut value = decode::<Nested>(&deep(64)).expect("no deeper than what is sent");
        for _ in 0..64 {
            let Nested::In(inner) = value else { panic!("64 levels") };
            value = *inner;
        }
        assert!(matches!(value, Nested::End));
        assert!(decode::<Nested>(&deep(48 << 20)).is_err(), "a frame full of levels");
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
