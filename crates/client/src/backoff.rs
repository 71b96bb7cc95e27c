//! Chance, and pauses that grow.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use crate::Options;

/// A number by the system's chance: the standard library draws keys for its hashers, and a hash under one is as random.
pub(crate) fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The pauses between the attempts at one request.
#[derive(Debug)]
pub(crate) struct Backoff {
    until: Instant,
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) fn new(options: &Options) -> Self {
        Backoff { until: Instant::now() + options.deadline, next: options.pause, max: options.pause_max }
    }

    /// How much time is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The next pause: between half of what has grown and all of it, so that clients that failed together do not come back
    /// together.
    fn draw(&mut self, chance: u64) -> Duration {
        let whole = self.next.min(self.max);
        self.next = whole * 2;
        let half = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX);
        Duration::from_micros(half + chance % (half + 1))
    }

    /// Waits. Says whether there is time for another attempt.
    pub(crate) fn pause(&mut self) -> bool {
        let pause = self.draw(chance());
        if pause >= self.left() {
            return false;
        }
        std::thread::sleep(pause);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let ms = Duration::from_millis;
        let options = Options { pause: ms(10), pause_max: ms(50), ..Options::default() };
        let mut backoff = Backoff::new(&options);
        let shortest: Vec<_> = (0..5).map(|_| backoff.draw(0)).collect();
        assert_eq!(shortest, [ms(5), ms(10), ms(20), ms(25), ms(25)]);
        let drawn: Vec<_> = (0..100).map(|_| backoff.draw(chance())).collect();
        assert!(drawn.iter().all(|pause| (ms(25)..=ms(50)).contains(pause)), "{drawn:?}");
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
        assert!(chance() != chance());
    }

    #[test]
    fn nobody_waits_beyond_the_deadline() {
        let options = Options { deadline: Duration::ZERO, ..Options::default() };
        assert!(!Backoff::new(&options).pause());
    }
}
