//! Whether one subject answers its probes: the share of failures among the newest ones.

use crate::Mutant;
use crate::config::Config;

/// What came of the last probes of one subject.
///
/// The published code counts failures for ever, so that rare losses remove every node in the end; the paper's rule,
/// used here, looks at a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// Probes sent.
    sent: u64,
    /// Whether the newest (bit 0) and those before it were answered.
    answers: u64,
    /// Answers so far that the subject does not know of its membership yet.
    bootstrapping: u64,
    /// All failures so far, for the rule of the published code.
    failed_ever: u32,
    /// The subject may not have started yet: nothing is held against it before its first answer, for a while.
    lenient: bool,
}

impl Window {
    /// Nothing was sent yet. Founders start when they start: the first view is `lenient`.
    pub(crate) fn new(lenient: bool) -> Self {
        Window { lenient, ..Window::default() }
    }

    /// One more probe leaves; its number.
    pub(crate) fn probe(&mut self, config: &Config) -> u64 {
        self.lenient &= self.sent < tolerated(config);
        let due = config.probes_due();
        if self.sent >= u64::from(due) && self.answers >> (due - 1) & 1 == 0 {
            self.failed_ever += 1;
        }
        self.sent += 1;
        self.answers <<= 1;
        self.sent
    }

    /// Probe `number` was answered. An answer that comes after it was due still counts: the window looks at the past.
    pub(crate) fn answered(&mut self, number: u64, bootstrapping: bool, config: &Config) {
        self.bootstrapping += u64::from(bootstrapping);
        if bootstrapping && self.bootstrapping > tolerated(config) {
            return;
        }
        if core::mem::take(&mut self.lenient) {
            self.answers = u64::MAX;
        }
        let Some(age) = self.sent.checked_sub(number) else { return };
        if age < 64 {
            self.answers |= 1 << age;
        }
    }

    /// How many of the newest probes that are due failed.
    pub(crate) fn failures(&self, config: &Config) -> u32 {
        let due = config.probes_due();
        let judged = self.sent.saturating_sub(u64::from(due)).min(u64::from(config.probe_window));
        let answered = self.answers.checked_shr(due).unwrap_or(0) & ((1 << judged) - 1);
        judged as u32 - answered.count_ones()
    }

    /// Whether the observer holds that its subject is faulty.
    pub(crate) fn is_faulty(&self, config: &Config) -> bool {
        if self.lenient {
            return false;
        }
        if config.breaks(Mutant::DetectorCumulative) {
            return self.failed_ever >= config.probe_failures;
        }
        self.failures(config) >= config.probe_failures
    }
}

/// How many probes fit into the time that a new member, or a founder that starts late, is granted.
fn tolerated(config: &Config) -> u64 {
    let probes = config.bootstrap.as_nanos() / config.probe_interval.as_nanos().max(1);
    u64::try_from(probes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(answers: &[bool]) -> Window {
        let config = Config::production();
        let mut window = Window::default();
        for answered in answers {
            let number = window.probe(&config);
            if *answered {
                window.answered(number, false, &config);
            }
        }
        window.probe(&config);
        window
    }

    #[test]
    fn five_of_ten_are_too_many() {
        let config = Config::production();
        assert!(!run(&[false; 4]).is_faulty(&config));
        assert!(run(&[false; 5]).is_faulty(&config));
        let mut mixed = [true, false, true, false, true, false, true, false, true, false, true];
        assert!(run(&mixed[..10]).is_faulty(&config));
        mixed[1] = true;
        assert!(!run(&mixed[..10]).is_faulty(&config));
    }

    #[test]
    fn old_failures_are_forgotten() {
        let config = Config::production();
        let mut answers = [true; 30];
        answers[..9].fill(false);
        assert!(!run(&answers).is_faulty(&config));
        assert_eq!(run(&answers).failures(&config), 0);
        // One loss in every four probes, for ever.
        let flaky: [bool; 200] = core::array::from_fn(|index| index % 4 != 0);
        assert!(!run(&flaky).is_faulty(&config));
    }

    #[test]
    fn what_is_not_due_is_not_judged() {
        let config =
            Config { probe_timeout: Config::production().probe_interval * 3, ..Config::production() };
        let mut window = Window::default();
        for _ in 0..7 {
            window.probe(&config);
        }
        assert_eq!(window.failures(&config), 4);
        window.answered(1, false, &config);
        assert_eq!(window.failures(&config), 3, "late, but it counts");
        window.answered(99, false, &config);
        assert_eq!(window.failures(&config), 3, "an answer to nothing");
    }

    #[test]
    fn bootstrapping_is_tolerated_for_a_while() {
        let config = Config { bootstrap: Config::production().probe_interval * 20, ..Config::production() };
        let mut window = Window::default();
        for round in 0..30 {
            let number = window.probe(&config);
            window.answered(number, true, &config);
            assert_eq!(window.is_faulty(&config), round > 24, "round {round}");
        }
    }

    #[test]
    fn a_founder_may_start_late_but_not_stay_away() {
        let config = Config { bootstrap: Config::production().probe_interval * 20, ..Config::production() };
        let mut window = Window::new(true);
        for _ in 0..15 {
            window.probe(&config);
        }
        assert!(!window.is_faulty(&config));
        let mut late = window.clone();
        let number = late.probe(&config);
        late.answered(number, false, &config);
        for _ in 0..4 {
            late.probe(&config);
            assert!(!late.is_faulty(&config), "what was before the first answer is forgiven");
        }
        for _ in 0..10 {
            window.probe(&config);
        }
        assert!(window.is_faulty(&config));
    }
}
