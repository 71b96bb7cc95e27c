//! Who follows whom: few are followed by many.

use chirp::FOLLOWS_MAX;
use quorate_kernel::Rng;

use super::ChirpSpec;

/// Who follows whom, by the numbers of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) followers: Vec<Vec<usize>>,
    pub(super) follows: Vec<Vec<usize>>,
}

impl Graph {
    /// Draws a graph: the same of the same seed. Who follows a user is drawn evenly from all who can follow one more.
    pub(super) fn draw(spec: &ChirpSpec, rng: &mut Rng) -> Graph {
        let mut graph =
            Graph { followers: vec![Vec::new(); spec.users], follows: vec![Vec::new(); spec.users] };
        let mut all: Vec<usize> = (0..spec.users).collect();
        for user in 0..spec.users {
            let wanted = followers_count(spec, rng.fraction());
            for place in 0..spec.users {
                if graph.followers[user].len() == wanted {
                    break;
                }
                // The first places are a sample without repetition.
                let other = place + rng.below((spec.users - place) as u64) as usize;
                all.swap(place, other);
                let follower = all[place];
                if follower != user && graph.follows[follower].len() < FOLLOWS_MAX {
                    graph.followers[user].push(follower);
                    graph.follows[follower].push(user);
                }
            }
        }
        graph
    }

    /// How many pairs of users there are one of whom follows the other.
    pub(super) fn edges(&self) -> u64 {
        self.follows.iter().map(|follows| follows.len() as u64).sum()
    }
}

/// How many follow a user, for a number from 0 to 1: the power law as Clauset, Shalizi and Newman approximate it ("Power-law
/// distributions in empirical data", 2009, appendix D).
fn followers_count(spec: &ChirpSpec, fraction: f64) -> usize {
    let least = spec.followers_min as f64 - 0.5;
    let drawn = least * (1.0 - fraction).powf(-1.0 / (spec.exponent - 1.0)) + 0.5;
    // What is too large for a number becomes the largest one.
    (drawn as usize).min(spec.users - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(users: usize) -> Graph {
        Graph::draw(&ChirpSpec { users, ..ChirpSpec::default() }, &mut Rng::new(7))
    }

    #[test]
    fn nobody_follows_twice_or_themselves_and_both_sides_agree() {
        let graph = graph(300);
        assert_eq!(graph, self::graph(300));
        for (user, followers) in graph.followers.iter().enumerate() {
            let mut unique = followers.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), followers.len());
            assert!(!followers.contains(&user));
            assert!(followers.iter().all(|follower| graph.follows[*follower].contains(&user)));
        }
        assert_eq!(graph.edges(), graph.followers.iter().map(|some| some.len() as u64).sum::<u64>());
        assert!(graph.follows.iter().all(|follows| follows.len() <= FOLLOWS_MAX));
    }

    #[test]
    fn numbers_of_followers_have_a_tail_of_the_exponent() {
        let spec = ChirpSpec { users: 1_000_000, ..ChirpSpec::default() };
        let mut rng = Rng::new(1);
        let drawn: Vec<usize> = (0..200_000).map(|_| followers_count(&spec, rng.fraction())).collect();
        assert_eq!(drawn.iter().min(), Some(&spec.followers_min));
        let least = spec.followers_min as f64 - 0.5;
        let sum: f64 = drawn.iter().map(|count| (*count as f64 / least).ln()).sum();
        let exponent = 1.0 + drawn.len() as f64 / sum;
        assert!((exponent - spec.exponent).abs() < 0.05, "{exponent}");
        assert_eq!(followers_count(&spec, 1.0), spec.users - 1);
    }
}
