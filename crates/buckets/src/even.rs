//! Evenness: units (copies, leaderships) shared in proportion to capacity.
//!
//! The measure is the sum over the nodes of `units * units / capacity`, least when all are loaded alike. One unit less at a node
//! takes [`down`] from it, one unit more adds [`up`]: a move helps exactly if the first is the greater. Between equal nodes
//! that is a difference of at least two, so that no move is ever worth undoing.

use core::cmp::Ordering;

/// A fraction. With `bottom` 0 it is greater than every other: a node without capacity should hold nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    top: u64,
    bottom: u64,
}

/// What one unit more adds.
pub(crate) fn up(units: u32, capacity: u32) -> Ratio {
    Ratio { top: 2 * u64::from(units) + 1, bottom: capacity.into() }
}

/// What one unit less takes away; `None` if there is none.
pub(crate) fn down(units: u32, capacity: u32) -> Option<Ratio> {
    let top = (2 * u64::from(units)).checked_sub(1)?;
    Some(Ratio { top, bottom: capacity.into() })
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        // At most 2^15 copies and leaderships and 32 bits of capacity: the products fit.
        (self.top * other.bottom).cmp(&(other.top * self.bottom))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_help_when_the_difference_is_two() {
        let helps =
            |from: (u32, u32), to: (u32, u32)| down(from.0, from.1).is_some_and(|d| d > up(to.0, to.1));
        assert!(helps((3, 1), (1, 1)) && !helps((2, 1), (1, 1)) && !helps((0, 1), (0, 1)));
        assert!(helps((2, 1), (2, 2)), "twice the capacity, as many copies");
        assert!(!helps((1, 1), (2, 2)));
    }

    #[test]
    fn without_capacity_any_load_is_too_much() {
        assert!(down(1, 0) > Some(up(30_000, 1)));
        assert!(up(0, 0) > up(16_384, 1));
        assert_eq!(up(0, 0), up(5, 0));
        assert!(down(16_384, u32::MAX).is_some_and(|least| least < up(0, 1)));
    }
}
