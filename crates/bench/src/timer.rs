//! A timer the event queue can wait for, finer than its own timeout of milliseconds.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// A one-shot timer.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
}

impl Timer {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { fd })
    }

    /// Makes the event queue wake at this time of [`crate::now_ns`], once. A time that has passed wakes at once.
    pub(crate) fn set(&self, at_ns: u64) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A value of zero would switch the timer off.
        let at_ns = at_ns.max(1);
        let seconds = i64::try_from(at_ns / 1_000_000_000).map_err(io::Error::other)?;
        let at = Timespec { tv_sec: seconds, tv_nsec: (at_ns % 1_000_000_000) as _ };
        let value = Itimerspec { it_interval: zero, it_value: at };
        rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &value)?;
        Ok(())
    }

    /// Forgets that it ran out, so that it can wake the queue again.
    pub(crate) fn clear(&self) {
        // There may be nothing to read: that is fine.
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }
}
