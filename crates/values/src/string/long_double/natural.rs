//! Natural numbers of any size, as many operations as reading and printing a floating-point number needs.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::Write;

const WORD_BITS: u32 = 32;

/// A natural number: words of 32 bits, lowest first, none of the highest zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(value: u64) -> Self {
        let mut natural = Natural(Vec::from([value as u32, (value >> WORD_BITS) as u32]));
        natural.trim();
        natural
    }
}

impl Natural {
    /// The number that these decimal digits write.
    pub(super) fn from_decimal(digits: &[u8]) -> Self {
        const GROUP: usize = 9;
        let mut natural = Natural(Vec::new());
        for group in digits.chunks(GROUP) {
            let value = group.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
            natural.multiply_add(10_u32.pow(group.len() as u32), value);
        }
        natural
    }

    /// The decimal digits of the number.
    pub(super) fn to_decimal(&self) -> String {
        const GROUP: u32 = 1_000_000_000;
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.0.is_empty() {
            groups.push(rest.divide_small(GROUP));
        }
        let mut text = String::new();
        let first = groups.pop().unwrap_or(0);
        write!(text, "{first}").expect("a string takes all text");
        for group in groups.into_iter().rev() {
            write!(text, "{group:09}").expect("a string takes all text");
        }
        text
    }

    /// How many bits the number has; 0 has none.
    pub(super) fn bits(&self) -> i32 {
        let Some(highest) = self.0.last() else { return 0 };
        (self.0.len() as u32 * WORD_BITS - highest.leading_zeros()) as i32
    }

    pub(super) fn multiply_power_of_ten(&mut self, power: u64) {
        const STEP: u64 = 9;
        for _ in 0..power / STEP {
            self.multiply_add(10_u32.pow(STEP as u32), 0);
        }
        self.multiply_add(10_u32.pow((power % STEP) as u32), 0);
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % WORD_BITS), 0);
        if !self.0.is_empty() {
            self.0.splice(0..0, core::iter::repeat_n(0, (bits / WORD_BITS) as usize));
        }
    }

    /// The quotient, which must fit, and whether there is a remainder.
    pub(super) fn divide(mut self, divisor: &Natural) -> (u128, bool) {
        let steps = self.bits() - divisor.bits();
        assert!(steps < 128, "the quotient does not fit");
        let mut quotient = 0;
        let mut shifted = divisor.clone();
        shifted.shift_left(steps.max(0).unsigned_abs());
        for _ in 0..=steps.max(0) {
            quotient <<= 1;
            if self.compare(&shifted) != Ordering::Less {
                self.subtract(&shifted);
                quotient |= 1;
            }
            shifted.shift_right_one();
        }
        (quotient, !self.0.is_empty())
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for word in &mut self.0 {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = product as u32;
            carry = product >> WORD_BITS;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn divide_small(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let value = (rest << WORD_BITS) | u64::from(*word);
            *word = (value / u64::from(divisor)) as u32;
            rest = value % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn shift_right_one(&mut self) {
        let mut carry = 0;
        for word in self.0.iter_mut().rev() {
            let low = *word & 1;
            *word = (*word >> 1) | (carry << (WORD_BITS - 1));
            carry = low;
        }
        self.trim();
    }

    fn compare(&self, other: &Natural) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Takes `other` away, which is not larger.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (index, word) in self.0.iter_mut().enumerate() {
            let (less, under) = word.overflowing_sub(other.0.get(index).copied().unwrap_or(0));
            let (less, under_again) = less.overflowing_sub(u32::from(borrow));
            *word = less;
            borrow = under || under_again;
        }
        assert!(!borrow, "a difference of natural numbers is negative");
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn decimal_digits_go_in_and_out() {
        for text in ["0", "1", "999999999", "1000000000", "340282366920938463463374607431768211456"] {
            assert_eq!(Natural::from_decimal(text.as_bytes()).to_decimal(), text);
        }
    }

    #[test]
    fn division_agrees_with_the_machine() {
        for (left, right) in [(0_u64, 3_u64), (7, 7), (100, 7), (u64::MAX, 3), (u64::MAX, u64::MAX), (5, 9)] {
            let (quotient, rest) = Natural::from(left).divide(&Natural::from(right));
            assert_eq!((quotient, rest), (u128::from(left / right), left % right != 0), "{left} / {right}");
        }
    }

    #[test]
    fn shifts_and_powers_agree_with_the_machine() {
        let mut natural = Natural::from(12_345);
        natural.multiply_power_of_ten(20);
        natural.shift_left(33);
        assert_eq!(natural.to_decimal(), format!("{}", 12_345_u128 * 10_u128.pow(20) * (1 << 33)));
        assert_eq!(natural.bits(), 128 - (12_345_u128 * 10_u128.pow(20) * (1 << 33)).leading_zeros() as i32);
    }
}
