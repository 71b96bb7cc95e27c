//! Random values as clauses 2.1.6 and 4.3.2 define them.

use quorate_kernel::Rng;

use super::Scale;

/// Syllables of last names, by digit.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The constant A of NURand for each kind of number.
const A_LAST_NAME: u64 = 255;
const A_CUSTOMER: u64 = 1_023;
const A_ITEM: u64 = 8_191;

/// The constants C of NURand, drawn once for a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Constants {
    /// For last names while loading.
    pub last_name_load: u64,
    /// For last names while running: clause 2.1.6.1 says how far from the one before.
    pub last_name_run: u64,
    /// For customer ids.
    pub customer: u64,
    /// For item ids.
    pub item: u64,
}

impl Constants {
    /// Those of a seed.
    pub fn new(seed: u64) -> Constants {
        let mut rng = Rng::new(seed ^ 0x7470_6363);
        let last_name_load = rng.below(A_LAST_NAME + 1);
        // Between 65 and 119 apart, but neither 96 nor 112. One of the two directions always stays in range.
        let mut distance = rng.between(65, 119);
        if distance == 96 || distance == 112 {
            distance += 1;
        }
        let last_name_run = if last_name_load + distance <= A_LAST_NAME {
            last_name_load + distance
        } else {
            last_name_load - distance
        };
        Constants {
            last_name_load,
            last_name_run,
            customer: rng.below(A_CUSTOMER + 1),
            item: rng.below(A_ITEM + 1),
        }
    }

    /// A customer.
    pub(super) fn customer(&self, rng: &mut Rng, scale: &Scale) -> u64 {
        non_uniform(rng, A_CUSTOMER, self.customer, 1, scale.customers)
    }

    /// An item.
    pub(super) fn item(&self, rng: &mut Rng, scale: &Scale) -> u64 {
        non_uniform(rng, A_ITEM, self.item, 1, scale.items)
    }

    /// A last name to look for.
    pub(super) fn last_name(&self, rng: &mut Rng, scale: &Scale) -> String {
        last_name(non_uniform(rng, A_LAST_NAME, self.last_name_run, 0, scale.last_names() - 1))
    }

    /// The last name of a customer that is loaded.
    pub(super) fn last_name_of(&self, rng: &mut Rng, scale: &Scale, customer: u64) -> String {
        if customer <= 1_000 {
            return last_name(customer - 1);
        }
        last_name(non_uniform(rng, A_LAST_NAME, self.last_name_load, 0, scale.last_names() - 1))
    }
}

/// NURand(A, x, y).
pub(super) fn non_uniform(rng: &mut Rng, a: u64, c: u64, low: u64, high: u64) -> u64 {
    ((rng.between(0, a) | rng.between(low, high)) + c) % (high - low + 1) + low
}

/// The last name of a number below 1,000.
pub(super) fn last_name(number: u64) -> String {
    [number / 100, number / 10, number].map(|digits| SYLLABLES[(digits % 10) as usize]).concat()
}

/// Random letters and digits, their number between these.
pub(super) fn letters(rng: &mut Rng, low: u64, high: u64) -> String {
    (0..rng.between(low, high)).map(|_| char::from(LETTERS[rng.below(62) as usize])).collect()
}

/// Random digits.
pub(super) fn digits(rng: &mut Rng, count: u64) -> String {
    (0..count).map(|_| char::from(b'0' + rng.below(10) as u8)).collect()
}

/// A zip code: four random digits and 11111.
pub(super) fn zip(rng: &mut Rng) -> String {
    digits(rng, 4) + "11111"
}

/// Data of an item or its stock: one in ten holds ORIGINAL somewhere.
pub(super) fn data(rng: &mut Rng) -> String {
    let mut text = letters(rng, 26, 50);
    if rng.chance(1, 10) {
        let at = rng.below(text.len() as u64 - 7) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn constants_are_as_far_apart_as_demanded() {
        for seed in 0..2_000 {
            let constants = Constants::new(seed);
            let distance = constants.last_name_load.abs_diff(constants.last_name_run);
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "{constants:?}");
            assert!(constants.last_name_run <= A_LAST_NAME && constants.last_name_load <= A_LAST_NAME);
        }
    }

    #[test]
    fn non_uniform_numbers_have_the_distribution_of_their_formula() {
        let (mut rng, a, c, low, high) = (Rng::new(1), 15, 5, 1, 40);
        let mut expected = vec![0.0; 41];
        for left in 0..=a {
            for right in low..=high {
                expected[(((left | right) + c) % (high - low + 1) + low) as usize] += 1.0 / (16.0 * 40.0);
            }
        }
        let mut counts = [0_u32; 41];
        (0..200_000).for_each(|_| counts[non_uniform(&mut rng, a, c, low, high) as usize] += 1);
        for (number, (count, expected)) in counts.iter().zip(&expected).enumerate() {
            let found = f64::from(*count) / 200_000.0;
            assert!((found - expected).abs() < 0.005, "{number}: {found} against {expected}");
        }
    }

    #[test]
    fn numbers_stay_in_range_at_every_scale() {
        let (mut rng, constants) = (Rng::new(2), Constants::new(3));
        for scale in [Scale::standard(1), Scale::reduced(1)] {
            for _ in 0..20_000 {
                assert!((1..=scale.items).contains(&constants.item(&mut rng, &scale)));
                assert!((1..=scale.customers).contains(&constants.customer(&mut rng, &scale)));
            }
        }
    }

    #[test]
    fn one_in_ten_is_original() {
        let mut rng = Rng::new(4);
        let texts: Vec<String> = (0..10_000).map(|_| data(&mut rng)).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let originals = texts.iter().filter(|text| text.contains("ORIGINAL")).count();
        assert!((900..1_100).contains(&originals), "{originals}");
    }
}
