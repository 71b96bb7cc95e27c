//! Chance that repeats.

/// A small seeded generator (xoshiro256++, Blackman and Vigna 2019). Not for secrets.
///
/// Each purpose gets its own generator ([`Rng::fork`]), so that one more draw in one place does not change what
/// happens in all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator that `seed` names.
    pub fn new(seed: u64) -> Self {
        let mut stream = seed;
        let mut next = || {
            // SplitMix64, as the authors of xoshiro advise for filling its state.
            stream = stream.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = stream;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        };
        Rng { state: [next(), next(), next(), next()] }
    }

    /// A generator of its own for another purpose.
    #[must_use]
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let mut state = [a, b, c ^ a, d ^ b];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= b << 17;
        state[3] = state[3].rotate_left(45);
        self.state = state;
        result
    }

    /// A number from 0 to `bound - 1`, evenly.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to draw from");
        // Lemire's multiply and reject (2019).
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True `numerator` times out of `denominator`.
    ///
    /// # Panics
    /// If `denominator` is 0.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A number from 0 (included) to 1 (excluded), evenly.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of `items`; `None` if there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() {
            return None;
        }
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Puts `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn same_seed_same_stream() {
        let (mut left, mut right) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| left.next_u64() == right.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn matches_the_reference_implementation() {
        // State 1, 2, 3, 4: first outputs of the authors' C code, as published with many ports.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
        assert_eq!(rng.next_u64(), 3_588_806_011_781_223);
    }

    #[test]
    fn ranges_are_kept_and_filled() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
        assert!((0..1_000).map(|_| rng.between(3, 4)).all(|n| n == 3 || n == 4));
        assert!((0..1_000).map(|_| rng.fraction()).all(|f| (0.0..1.0).contains(&f)));
        assert_eq!(rng.between(u64::MAX, u64::MAX), u64::MAX);
        rng.between(0, u64::MAX);
    }
}
