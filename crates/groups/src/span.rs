//! Parts of the circle of positions.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The positions from `start` on, up to and without `end`, in the order of a clock; all of the circle if both are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first position.
    pub start: u64,
    /// The first position that is not in it any more.
    pub end: u64,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}..{:016x}", self.start, self.end)
    }
}

impl Span {
    /// The whole circle, with its one border here.
    pub const fn whole(border: u64) -> Span {
        Span { start: border, end: border }
    }

    /// Whether a position lies in it.
    pub const fn contains(self, position: u64) -> bool {
        self.start == self.end || position.wrapping_sub(self.start) < self.end.wrapping_sub(self.start)
    }

    /// How many positions it has.
    pub const fn width(self) -> u128 {
        match self.end.wrapping_sub(self.start) {
            0 => 1 << 64,
            width => width as u128,
        }
    }

    /// Two spans, the second of which begins at `border`; none if `border` is not inside.
    pub fn cut(self, border: u64) -> Option<(Span, Span)> {
        let inside = self.contains(border) && border != self.start;
        inside.then_some((Span { start: self.start, end: border }, Span { start: border, end: self.end }))
    }

    /// This and the one that follows it, if that is so and both are no more than the circle.
    pub fn joined(self, next: Span) -> Option<Span> {
        let follows = self.end == next.start && self.start != self.end && next.start != next.end;
        let fits = self.width() + next.width() <= 1 << 64;
        (follows && fits).then_some(Span { start: self.start, end: next.end })
    }

    /// Whether some position lies in both.
    pub const fn meets(self, other: Span) -> bool {
        self.contains(other.start) || other.contains(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_kernel::Rng;

    #[test]
    fn spans_go_round_the_circle() {
        let across = Span { start: u64::MAX - 9, end: 10 };
        assert_eq!(across.width(), 20);
        assert!(across.contains(u64::MAX) && across.contains(0) && across.contains(9));
        assert!(!across.contains(10) && !across.contains(u64::MAX - 10));
        assert_eq!(Span::whole(7).width(), 1 << 64);
        assert!(Span::whole(7).contains(7) && Span::whole(7).contains(6));
    }

    #[test]
    fn what_is_cut_can_be_joined_again() {
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            let span = Span { start: rng.next_u64() >> rng.below(64), end: rng.next_u64() >> rng.below(64) };
            let border = rng.next_u64() >> rng.below(64);
            let Some((left, right)) = span.cut(border) else {
                assert!(border == span.start || !span.contains(border));
                continue;
            };
            assert_eq!(left.width() + right.width(), span.width());
            assert_eq!(left.joined(right), Some(span));
            assert!(!left.meets(right) && left.meets(span) && right.meets(span));
            let probe = rng.next_u64();
            assert_eq!(span.contains(probe), left.contains(probe) || right.contains(probe));
        }
    }

    #[test]
    fn more_than_the_circle_is_not_joined() {
        let most = Span { start: 10, end: 5 };
        assert_eq!(most.joined(Span { start: 5, end: 11 }), None, "the two overlap");
        assert_eq!(most.joined(Span { start: 5, end: 10 }), Some(Span::whole(10)));
        assert_eq!(most.joined(Span { start: 6, end: 9 }), None, "does not follow");
        assert_eq!(Span::whole(3).joined(Span::whole(3)), None);
    }
}
