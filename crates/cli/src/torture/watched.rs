//! Load that goes on during a campaign, and waiting for it.

use std::time::{Duration, Instant};

use anyhow::Result;
use quorate_bench::{Gap, Progress};

use super::{interrupt, stuck};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Clients at work.
pub(crate) trait Watched {
    /// What all clients together have seen.
    fn progress(&self) -> &Progress;

    /// Clients that have gone away by themselves would look like a cluster that does not answer.
    ///
    /// # Errors
    /// If some have.
    fn look_after(&self) -> Result<()>;

    /// Waits until a write that was asked for or answered after `after_ns` is acknowledged.
    ///
    /// # Errors
    /// If none is within `wait`.
    fn wait_for_write_after(&self, after_ns: u64, wait: Duration) -> Result<()> {
        let deadline = Instant::now() + wait;
        while self.progress().last_write_ns() <= after_ns {
            if Instant::now() > deadline {
                return Err(stuck(format!("no write was acknowledged for {} s", wait.as_secs())));
            }
            self.pause()?;
        }
        Ok(())
    }

    /// Waits until so many more operations are done.
    ///
    /// # Errors
    /// If they are not within `wait`.
    fn wait_for_writes(&self, count: u64, wait: Duration) -> Result<()> {
        let (deadline, goal) = (Instant::now() + wait, self.progress().done() + count);
        while self.progress().done() < goal {
            if Instant::now() > deadline {
                let text = format!("fewer than {count} operations were done within {} s", wait.as_secs());
                return Err(stuck(text));
            }
            self.pause()?;
        }
        Ok(())
    }

    /// Lets clients go on for so long.
    ///
    /// # Errors
    /// If they stop by themselves, or somebody wants the end of it all.
    fn let_run(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.pause()?;
        }
        Ok(())
    }

    /// Waits a little.
    ///
    /// # Errors
    /// See [`Watched::let_run`].
    fn pause(&self) -> Result<()> {
        interrupt::check()?;
        self.look_after()?;
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }

    /// The longest gap that touches the time from `from_ns` to now. Gaps of less than 20 ms are not
    /// kept, and count as none.
    fn gap_ms_since(&self, from_ns: u64) -> u64 {
        let ends_later = |gap: &Gap| gap.from_ns + gap.ms * 1_000_000 >= from_ns;
        self.progress().gaps().into_iter().filter(ends_later).map(|gap| gap.ms).max().unwrap_or(0)
    }
}
