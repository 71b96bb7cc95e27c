//! Keeping the machine's idle processors awake while the node has much to do in little time.
//!
//! A request passes several processes that wait for each other, and processors fall asleep between them. In a virtual machine waking
//! one takes 30 us and more, several times for each request (decision 0006). Linux takes wishes in `/dev/cpu_dma_latency`: idle
//! processors choose no sleep from which they wake later than was written there, until something else is written or the file is closed.

use std::fs::{self, File};
use std::io::{self, Write};

use quorate_kernel::Time;

use crate::config::KeepAwake;

/// Where Linux takes wishes ("PM Quality of Service").
const DEVICE: &str = "/dev/cpu_dma_latency";
/// What puts idle processors to sleep.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Its name where the machine is a virtual one, whose idle processors are given back to their host.
const GIVES_BACK: &str = "haltpoll";

/// Mean time between turns below which processors are kept awake, and above which they may sleep again. Between the two it stays as it is.
const BEGIN_NS: u64 = 1_000_000;
const END_NS: u64 = 2_000_000;
/// Turns over which the mean is taken.
const TURNS: u64 = 16;

/// Says when processors are to stay awake, and sees to it.
#[derive(Debug)]
pub(crate) struct Wakefulness<D = File> {
    /// Where the wish goes; none if it is not wanted or not allowed.
    device: Option<D>,
    /// When the newest turn began.
    last: Time,
    /// Moving average of the time from turn to turn.
    gap_ns: u64,
    awake: bool,
}

impl Wakefulness {
    /// As the configuration and the machine have it.
    pub(crate) fn open(wish: KeepAwake) -> Self {
        let wanted = match wish {
            KeepAwake::Off => false,
            KeepAwake::On => true,
            KeepAwake::Auto => fs::read_to_string(DRIVER).is_ok_and(|driver| driver.trim() == GIVES_BACK),
        };
        let device = wanted.then(|| File::options().write(true).open(DEVICE)).transpose();
        let device = device.unwrap_or_else(|error| {
            let advice = "idle processors cannot be kept awake, so a client alone waits longer: let the node write this device, or set \
                          processors.awake = \"off\"";
            if wish == KeepAwake::On {
                tracing::warn!(device = DEVICE, %error, advice);
            } else {
                tracing::info!(device = DEVICE, %error, advice);
            }
            None
        });
        Wakefulness::with(device)
    }
}

impl<D: Write> Wakefulness<D> {
    fn with(device: Option<D>) -> Self {
        Wakefulness { device, last: Time(0), gap_ns: END_NS, awake: false }
    }

    /// Whether processors are kept awake.
    pub(crate) fn is_awake(&self) -> bool {
        self.awake
    }

    /// Takes note of a turn.
    pub(crate) fn turn(&mut self, began: Time) {
        let Some(device) = &mut self.device else { return };
        let gap = u64::try_from(began.since(self.last).as_nanos()).unwrap_or(u64::MAX);
        self.last = began;
        self.gap_ns = self.gap_ns - self.gap_ns / TURNS + gap / TURNS;
        let awake = if self.awake { self.gap_ns <= END_NS } else { self.gap_ns < BEGIN_NS };
        if awake == self.awake {
            return;
        }
        self.awake = awake;
        if let Err(error) = wish(device, awake) {
            tracing::warn!(device = DEVICE, %error, "idle processors are kept awake no more");
            self.device = None;
            self.awake = false;
        }
    }
}

/// Writes how many microseconds waking up may take: none, or as many as it likes.
fn wish(device: &mut impl Write, awake: bool) -> io::Result<()> {
    let microseconds = if awake { 0 } else { i32::MAX };
    device.write_all(&microseconds.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Takes turns `gap` apart; says after how many of them the wish changed.
    fn turns(it: &mut Wakefulness<Vec<u8>>, count: usize, gap: Duration) -> Option<usize> {
        let before = it.is_awake();
        (1..=count).find(|_| {
            it.turn(it.last + gap);
            it.is_awake() != before
        })
    }

    fn wishes(it: &Wakefulness<Vec<u8>>) -> Vec<i32> {
        let bytes = it.device.as_deref().unwrap_or_default();
        bytes.chunks(4).map(|word| i32::from_ne_bytes(word.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn processors_stay_awake_while_turns_follow_each_other() {
        let mut it = Wakefulness::with(Some(Vec::new()));
        assert_eq!(turns(&mut it, 1_000, Duration::from_millis(50)), None, "heartbeats alone");
        assert_eq!(
            turns(&mut it, 1_000, Duration::from_micros(1_500)),
            None,
            "between the thresholds it stays"
        );
        let begun = turns(&mut it, 1_000, Duration::from_micros(200)).expect("a client has come");
        assert!(begun < 32, "{begun}");
        assert_eq!(
            turns(&mut it, 1_000, Duration::from_micros(1_500)),
            None,
            "between the thresholds it stays"
        );
        assert_eq!(turns(&mut it, 1_000, Duration::from_millis(50)), Some(1), "the client is gone");
        assert_eq!(wishes(&it), [0, i32::MAX]);
    }

    #[test]
    fn who_may_not_wish_does_without() {
        let mut it = Wakefulness::with(None);
        assert_eq!(turns(&mut it, 100, Duration::ZERO), None);
        assert!(Wakefulness::open(KeepAwake::Off).device.is_none());
    }

    #[test]
    fn a_device_that_fails_is_left_alone() {
        struct Broken(usize);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                assert_eq!(self.0, 1, "asked again");
                Err(io::ErrorKind::PermissionDenied.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut it = Wakefulness::with(Some(Broken(0)));
        for us in 0..1_000 {
            it.turn(Time(us * 1_000));
        }
        assert!(!it.is_awake());
    }
}
