//! The floating-point numbers of INCRBYFLOAT, bit for bit those of Redis on x86-64.
//!
//! Redis counts in C's `long double`, which there has 64 bits of precision, and prints 17 digits after the point.
//! Less precision would show (0.1 + 0.2 in `f64` is 0.30000000000000004), and hardware that differs between
//! replicas must not matter, so the format is computed here with integers: exact, then rounded once, half to even.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

mod natural;

use natural::Natural;

/// Bits of precision.
const PRECISION: i32 = 64;
/// Exponents of the lowest bit of a number: of the smallest ones, and of the largest.
const EXPONENT_MIN: i32 = -16_445;
const EXPONENT_MAX: i32 = 16_320;
/// Texts of so many bytes or more are not numbers to Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Beyond these powers of ten a number is too large, or is zero, whatever its digits.
const POWER_MAX: i64 = 4_940;
const POWER_MIN: i64 = -4_980;

/// A finite number: `mantissa` times two to the `exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// What a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A number.
    Finite(LongDouble),
    /// `inf` or `infinity`, with any sign.
    Infinite,
}

/// Reads a number as C's `strtold` does, where Redis accepts the result: the whole text, no space before it, not
/// too large, not too small to differ from zero, not "nan".
pub(super) fn parse(text: &[u8]) -> Option<Parsed> {
    if text.len() >= TEXT_BYTES_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
        return Some(Parsed::Infinite);
    }
    let number = match digits {
        [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest)?,
        rest => parse_decimal(rest)?,
    };
    Some(Parsed::Finite(LongDouble { negative, ..number }))
}

/// The digits on both sides of the point, how many stand after it, and the exponent after `mark`.
struct Digits {
    digits: Vec<u8>,
    fraction_count: i64,
    exponent: i64,
}

fn split(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<Digits> {
    let mark = text.iter().position(|byte| byte.eq_ignore_ascii_case(&mark));
    let (number, exponent) = match mark {
        Some(mark) => (&text[..mark], parse_exponent(&text[mark + 1..])?),
        None => (text, 0),
    };
    let point = number.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&number[..point], &number[point + 1..]),
        None => (number, &[][..]),
    };
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.iter().all(is_digit) {
        return None;
    }
    Some(Digits { digits, fraction_count: fraction.len() as i64, exponent })
}

/// A signed integer; one that is absurdly large stands for itself well enough when cut off.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const ABSURD: i64 = 1_000_000;
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(ABSURD));
    Some(if negative { -value } else { value })
}

fn parse_decimal(text: &[u8]) -> Option<LongDouble> {
    let Digits { digits, fraction_count, exponent } = split(text, u8::is_ascii_digit, b'e')?;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = &digits[zeros..];
    if digits.is_empty() {
        return Some(LongDouble::ZERO);
    }
    let power = exponent - fraction_count;
    let size = power + digits.len() as i64;
    if !(POWER_MIN..=POWER_MAX).contains(&size) {
        return None;
    }
    let mut above = Natural::from_decimal(digits);
    let mut below = Natural::from(1);
    let scaled = if power >= 0 { &mut above } else { &mut below };
    scaled.multiply_power_of_ten(power.unsigned_abs());
    // Two bits more than the precision, so that rounding sees whether the rest is half.
    let shift = PRECISION + 2 - (above.bits() - below.bits());
    let scaled = if shift >= 0 { &mut above } else { &mut below };
    scaled.shift_left(shift.unsigned_abs());
    let (quotient, inexact) = above.divide(&below);
    LongDouble::rounded(quotient, inexact, -shift).filter(|number| number.mantissa != 0)
}

fn parse_hexadecimal(text: &[u8]) -> Option<LongDouble> {
    const FULL: u128 = 1 << 120;
    const BITS: i32 = 4;
    let Digits { digits, fraction_count, exponent } = split(text, u8::is_ascii_hexdigit, b'p')?;
    let (mut value, mut inexact, mut dropped) = (0_u128, false, 0);
    for digit in digits {
        let digit = (digit as char).to_digit(16).unwrap_or(0);
        if value < FULL {
            value = (value << BITS) | u128::from(digit);
        } else {
            inexact |= digit != 0;
            dropped += BITS;
        }
    }
    if value == 0 {
        return Some(LongDouble::ZERO);
    }
    let exponent = exponent as i32 - BITS * fraction_count as i32 + dropped;
    LongDouble::rounded(value, inexact, exponent).filter(|number| number.mantissa != 0)
}

impl LongDouble {
    const ZERO: LongDouble = LongDouble { negative: false, mantissa: 0, exponent: 0 };

    /// The number nearest to `value` (a little more if `inexact`) times two to the `exponent`, ties to even; `None`
    /// if it is too large. An inexact `value` has more bits than the precision.
    fn rounded(value: u128, inexact: bool, exponent: i32) -> Option<LongDouble> {
        if value == 0 {
            return Some(Self::ZERO);
        }
        let bits = 128 - value.leading_zeros() as i32;
        assert!(!inexact || bits > PRECISION, "what lies below the last bit decides nothing");
        let target = (exponent + bits - PRECISION).max(EXPONENT_MIN);
        let dropped = target - exponent;
        let mantissa = if dropped <= 0 { value << -dropped } else { halve(value, dropped as u32, inexact) };
        let (mantissa, target) = match u64::try_from(mantissa) {
            Ok(mantissa) => (mantissa, target),
            // Rounded up to the next power of two.
            Err(_) => ((mantissa >> 1) as u64, target + 1),
        };
        (target <= EXPONENT_MAX).then_some(LongDouble { negative: false, mantissa, exponent: target })
    }

    /// The sum; `None` if it is too large.
    pub(super) fn plus(self, other: LongDouble) -> Option<LongDouble> {
        const GUARD: u32 = 62;
        if self.mantissa == 0 || other.mantissa == 0 {
            return Some(if self.mantissa == 0 { other } else { self });
        }
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let distance = high.exponent.abs_diff(low.exponent);
        let left = u128::from(high.mantissa) << GUARD;
        let aligned = u128::from(low.mantissa) << GUARD;
        // What falls off the end is remembered in the last bit: enough to round, as the guard bits are many.
        let kept = aligned.checked_shr(distance).unwrap_or(0);
        let lost = kept.checked_shl(distance).unwrap_or(0) != aligned;
        let right = kept | u128::from(lost);
        let (negative, magnitude) = if high.negative == low.negative {
            (high.negative, left + right)
        } else if left >= right {
            (high.negative, left - right)
        } else {
            (low.negative, right - left)
        };
        let sum = Self::rounded(magnitude, false, high.exponent - GUARD as i32)?;
        Some(LongDouble { negative: negative && sum.mantissa != 0, ..sum })
    }

    /// The number with 17 digits after the point, without zeros at the end.
    pub(super) fn to_text(self) -> String {
        const DIGITS: usize = 17;
        const UNIT: u128 = 10_u128.pow(DIGITS as u32);
        let mut text = String::new();
        if self.exponent >= 0 {
            let mut whole = Natural::from(self.mantissa);
            whole.shift_left(self.exponent.unsigned_abs());
            text = whole.to_decimal();
        } else {
            // At most 2^64 * 10^17, which is less than 2^121.
            let scaled = halve(u128::from(self.mantissa) * UNIT, self.exponent.unsigned_abs(), false);
            let (whole, fraction) = (scaled / UNIT, scaled % UNIT);
            write!(text, "{whole}.{fraction:0DIGITS$}").expect("a string takes all text");
            let kept = text.trim_end_matches('0').trim_end_matches('.').len();
            text.truncate(kept);
        }
        if self.negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

/// `value` shifted down by `bits`, to the nearest, ties to even; `inexact`: it is really a little more.
fn halve(value: u128, bits: u32, inexact: bool) -> u128 {
    if bits == 0 {
        return value;
    }
    if bits > 128 {
        return 0;
    }
    let kept = value.checked_shr(bits).unwrap_or(0);
    let rest = value & (u128::MAX >> (128 - bits));
    let half = 1_u128 << (bits - 1);
    let up = rest > half || (rest == half && (inexact || kept & 1 == 1));
    kept + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn number(text: &str) -> LongDouble {
        match parse(text.as_bytes()) {
            Some(Parsed::Finite(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn sum(left: &str, right: &str) -> String {
        number(left).plus(number(right)).unwrap().to_text()
    }

    #[test]
    fn ordinary_sums_look_as_people_expect() {
        for (left, right, expected) in [
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("3.0e3", "0", "3000"),
            ("0.1", "0.2", "0.3"),
            ("1", "-1.5", "-0.5"),
            ("-0", "0", "0"),
            ("1", "-1", "0"),
            ("0x10", "0X.8p1", "17"),
            (".5", "5.", "5.5"),
            ("+1", "1E+2", "101"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("1e20", "1", "100000000000000000000"),
            ("1e-17", "0", "0.00000000000000001"),
            ("4e-18", "0", "0"),
            ("-4e-18", "0", "0"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn numbers_are_rounded_once_and_to_even() {
        assert_eq!(sum("18446744073709551615", "0.5"), "18446744073709551616");
        assert_eq!(sum("18446744073709551614", "0.5"), "18446744073709551614");
        assert_eq!(sum("18446744073709551616", "1"), "18446744073709551616");
        assert_eq!(sum("18446744073709551616", "3"), "18446744073709551620");
        assert_eq!(sum("18446744073709551616", "-1"), "18446744073709551615");
        assert_eq!(sum("9223372036854775808", "-1e-30"), "9223372036854775808");
    }

    #[test]
    fn the_ends_of_the_range_are_where_they_should_be() {
        let largest = "1.18973149535723176502e4932";
        assert!(parse(largest.as_bytes()).is_some());
        assert!(parse(b"1.18973149535723176508e4932").is_none());
        assert_eq!(number(largest).plus(number(largest)), None);
        assert_eq!(number("3.6e-4951").mantissa, 1);
        assert!(parse(b"1.8e-4951").is_none());
        assert!(parse(b"1e-999999999999").is_none());
        assert!(parse(b"1e999999999999").is_none());
        assert_eq!(number("0e999999999999"), LongDouble::ZERO);
        assert!(number(largest).to_text().starts_with("118973149535723176502126385303"));
        assert_eq!(number(largest).to_text().len(), 4_933);
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        let long = "0".repeat(TEXT_BYTES_MAX);
        for text in [
            "", " 1", "1 ", "1e", "e1", ".", "-", "+-1", "1.2.3", "1e1.5", "0x", "0xg", "0x1p", "nan",
            "-nan", "infin", "1\0", "1_000", "\t1", &long,
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["inf", "-INF", "+Infinity"] {
            assert_eq!(parse(text.as_bytes()), Some(Parsed::Infinite));
        }
    }

    #[test]
    fn doubles_survive() {
        // Every f64 fits exactly, so its shortest text and its exact text must give the nearest of our numbers.
        let mut state = 1_u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let value = f64::from_bits(state);
            if !value.is_finite() || value.abs() > 1e30 || value.abs() < 1e-200 {
                continue;
            }
            let exact = number(&format!("{value:.700}"));
            let back = exact.mantissa as f64 * f64::powi(2.0, exact.exponent);
            assert_eq!(if exact.negative { -back } else { back }, value);
        }
    }
}
