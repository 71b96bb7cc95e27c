//! Which record an operation of YCSB is about.

use quorate_kernel::Rng;

use super::Frontier;

/// The exponent of YCSB's zipfian distributions.
pub const THETA: f64 = 0.99;
/// Scrambling draws from so many items, whatever the number of records, so that which are popular does not depend on it.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// The sum of n^-0.99 for n to that number, as YCSB has it: too long to add up at every start.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// The hotspot distribution: this share of records is hot, and gets this share of operations, in percent.
const HOT_RECORDS_PERCENT: u64 = 20;
const HOT_OPERATIONS_PERCENT: u64 = 80;

/// Which records are asked for how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Requests {
    /// Few often: the n-th most popular proportionally to n^-0.99, popular ones spread over all records.
    Zipfian,
    /// All alike.
    Uniform,
    /// The newest often: the n-th newest proportionally to n^-0.99.
    Latest,
    /// One fifth of the records gets four fifths of the operations.
    Hotspot,
}

/// FNV-1a over the eight bytes of a number, lowest first, without its sign: how YCSB scatters numbers.
pub fn scatter(number: u64) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    (number.to_le_bytes().into_iter().fold(OFFSET, mix) as i64).unsigned_abs()
}

/// Draws ranks from a zipfian distribution over a number of items that may grow, by the method of Gray et al. (1994).
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    /// The sum of n^-theta over all items, and over the first two.
    zeta: f64,
    zeta_two: f64,
    eta: f64,
}

impl Zipfian {
    /// Over so many items, at least one.
    pub fn new(items: u64) -> Zipfian {
        let mut zipfian = Zipfian::of(1, 1.0);
        zipfian.grow(items);
        zipfian
    }

    fn of(items: u64, zeta: f64) -> Zipfian {
        let zeta_two = 1.0 + 0.5_f64.powf(THETA);
        let mut zipfian = Zipfian { items, zeta, zeta_two, eta: 0.0 };
        zipfian.tune();
        zipfian
    }

    fn tune(&mut self) {
        let two = 2.0 / self.items as f64;
        self.eta = (1.0 - two.powf(1.0 - THETA)) / (1.0 - self.zeta_two / self.zeta);
    }

    /// Adds items; their share of the sum is all that is computed.
    pub fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        self.zeta += (self.items + 1..=items).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        self.items = items;
        self.tune();
    }

    /// A rank from 0, the most popular.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let fraction = rng.fraction();
        let share = fraction * self.zeta;
        if share < 1.0 || self.items == 1 {
            return 0;
        }
        if share < self.zeta_two || self.items == 2 {
            return 1;
        }
        let place = (self.eta * fraction - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.items as f64 * place) as u64).min(self.items - 1)
    }
}

/// Draws records.
#[derive(Debug, Clone)]
pub(super) enum Chooser {
    Scrambled { zipfian: Zipfian, records: u64 },
    Uniform,
    Latest(Zipfian),
    Hotspot { records: u64 },
}

impl Chooser {
    /// For a table that was loaded with so many records. `grows`: if the workload inserts.
    pub(super) fn new(requests: Requests, records: u64, grows: bool) -> Chooser {
        match requests {
            Requests::Zipfian => Chooser::Scrambled {
                zipfian: Zipfian::of(SCRAMBLED_ITEMS, SCRAMBLED_ZETA),
                // Room for as many again: otherwise each insert would make other records popular.
                records: if grows { records * 2 } else { records },
            },
            Requests::Uniform => Chooser::Uniform,
            Requests::Latest => Chooser::Latest(Zipfian::new(records)),
            Requests::Hotspot => Chooser::Hotspot { records },
        }
    }

    /// The number of a record that is there.
    pub(super) fn draw(&mut self, rng: &mut Rng, frontier: &Frontier) -> u64 {
        let count = frontier.settled();
        match self {
            Chooser::Uniform => rng.below(count),
            Chooser::Latest(zipfian) => {
                zipfian.grow(count);
                count - 1 - zipfian.draw(rng).min(count - 1)
            }
            Chooser::Hotspot { records } => {
                let hot = (*records * HOT_RECORDS_PERCENT / 100).clamp(1, *records);
                if rng.chance(HOT_OPERATIONS_PERCENT, 100) || hot == *records {
                    rng.below(hot)
                } else {
                    rng.between(hot, *records - 1)
                }
            }
            Chooser::Scrambled { zipfian, records } => {
                // What is not there yet is drawn again. At least half is there, so that this many attempts suffice.
                for _ in 0..64 {
                    let number = scatter(zipfian.draw(rng)) % *records;
                    if number < count {
                        return number;
                    }
                }
                rng.below(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn counts(requests: Requests, records: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(requests, records, false);
        let (mut rng, frontier) = (Rng::new(11), Frontier::new(records));
        let mut counts = vec![0; records as usize];
        for _ in 0..DRAWS {
            counts[chooser.draw(&mut rng, &frontier) as usize] += 1;
        }
        counts
    }

    fn share(count: u64) -> f64 {
        count as f64 / DRAWS as f64
    }

    fn zeta(items: u64) -> f64 {
        (1..=items).map(|rank| (rank as f64).powf(-THETA)).sum()
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() / expected < tolerance, "{found} against {expected}");
    }

    #[test]
    fn numbers_are_scattered_as_fnv_1a_does() {
        // FNV-1a of eight zero bytes; the sign of a Java `long` is dropped.
        assert_eq!(scatter(0), 0xa8c7_f832_281a_39c5_u64.wrapping_neg());
        let places: std::collections::BTreeSet<u64> = (0..1_000).map(|n| scatter(n) % 1_000_000).collect();
        assert!(places.len() > 990, "{}", places.len());
    }

    #[test]
    fn a_grown_zipfian_is_that_of_its_size() {
        let mut grown = Zipfian::new(10);
        (11..=1_000).for_each(|items| grown.grow(items));
        let fresh = Zipfian::new(1_000);
        assert!((grown.zeta - fresh.zeta).abs() < 1e-9 && (fresh.zeta - zeta(1_000)).abs() < 1e-9);
        assert!((grown.eta - fresh.eta).abs() < 1e-9);
        // The constant for ten thousand million items: the first million added up, the rest as an integral.
        let tail = |from: f64, to: f64| (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
        let about = zeta(1_000_000) + tail(1_000_000.5, SCRAMBLED_ITEMS as f64 + 0.5);
        assert!((about - SCRAMBLED_ZETA).abs() < 1e-6, "{about}");
    }

    #[test]
    fn ranks_follow_the_law() {
        let (zipfian, mut rng) = (Zipfian::new(10_000), Rng::new(5));
        let mut counts = vec![0_u64; 10_000];
        for _ in 0..DRAWS {
            counts[zipfian.draw(&mut rng) as usize] += 1;
        }
        // The method is exact for two ranks and approximates the others.
        for rank in [1_u64, 2] {
            let expected = (rank as f64).powf(-THETA) / zeta(10_000);
            assert_near(share(counts[rank as usize - 1]), expected, 0.03);
        }
        for upto in [10_u64, 100, 1_000, 5_000] {
            let found = share(counts[..upto as usize].iter().sum());
            assert_near(found, zeta(upto) / zeta(10_000), 0.05);
        }
    }

    #[test]
    fn popular_records_are_where_scrambling_puts_them() {
        let records = 1_000_000;
        let counts = counts(Requests::Zipfian, records);
        for rank in [0, 1] {
            let expected = ((rank + 1) as f64).powf(-THETA) / SCRAMBLED_ZETA;
            assert_near(share(counts[(scatter(rank) % records) as usize]), expected, 0.05);
        }
        assert_eq!(counts.iter().max(), Some(&counts[(scatter(0) % records) as usize]));
        // 1 / 26.47: the hottest record gets 3.8 % of all operations.
        assert_near(share(*counts.iter().max().unwrap()), 0.0378, 0.05);
    }

    #[test]
    fn other_distributions_have_their_shapes() {
        let uniform = counts(Requests::Uniform, 100);
        uniform.iter().for_each(|count| assert_near(share(*count), 0.01, 0.1));
        let hotspot = counts(Requests::Hotspot, 100);
        assert_near(share(hotspot[..20].iter().sum()), 0.8, 0.01);
        hotspot[..20].iter().for_each(|count| assert_near(share(*count), 0.04, 0.1));
        let latest = counts(Requests::Latest, 1_000);
        assert_near(share(latest[999]), 1.0 / zeta(1_000), 0.03);
        assert_near(share(latest[998]), 0.5_f64.powf(THETA) / zeta(1_000), 0.03);
    }

    #[test]
    fn latest_follows_what_is_inserted() {
        let mut chooser = Chooser::new(Requests::Latest, 10, true);
        let (mut rng, mut frontier) = (Rng::new(1), Frontier::new(10));
        for _ in 0..90 {
            let number = frontier.take();
            frontier.settle(number);
        }
        let draws: Vec<u64> = (0..1_000).map(|_| chooser.draw(&mut rng, &frontier)).collect();
        assert!(draws.iter().all(|number| *number < 100));
        let newest = draws.iter().filter(|number| **number == 99).count();
        assert!((150..250).contains(&newest), "{newest}");
    }

    #[test]
    fn only_what_is_there_is_asked_for() {
        let frontier = Frontier::new(10);
        for requests in [Requests::Zipfian, Requests::Uniform, Requests::Latest, Requests::Hotspot] {
            let (mut chooser, mut rng) = (Chooser::new(requests, 10, true), Rng::new(2));
            assert!((0..10_000).all(|_| chooser.draw(&mut rng, &frontier) < 10), "{requests:?}");
        }
        let (mut one, mut rng) = (Chooser::new(Requests::Hotspot, 1, false), Rng::new(2));
        assert_eq!(one.draw(&mut rng, &Frontier::new(1)), 0);
    }
}
