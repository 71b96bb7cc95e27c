//! Integers as Redis reads them.

/// A decimal integer in its one canonical form: no sign but `-`, no leading zeros, no blanks, no `-0`.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    const DIGITS_MAX: usize = 19;
    if digits.is_empty() || digits.len() > DIGITS_MAX || (digits[0] == b'0' && bytes.len() > 1) {
        return None;
    }
    let mut magnitude: i128 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + i128::from(digit - b'0');
    }
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// A decimal integer that is not negative, in its one canonical form.
pub(crate) fn unsigned(bytes: &[u8]) -> Option<u64> {
    let canonical = bytes == b"0" || (bytes.first().is_some_and(u8::is_ascii_digit) && bytes[0] != b'0');
    core::str::from_utf8(bytes).ok().filter(|_| canonical)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{integer, unsigned};

    #[test]
    fn unsigned_ones_are_canonical_too() {
        assert_eq!(unsigned(b"0"), Some(0));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "-1", "+1", "01", " 1", "1 ", "1_0", "x", "18446744073709551616"] {
            assert_eq!(unsigned(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn canonical_forms_only() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-17"), Some(-17));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        for bad in
            ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "x", "9223372036854775808", "99999999999999999999"]
        {
            assert_eq!(integer(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
