//! The orderly end.

use std::io::Read;
use std::thread;
use std::time::Duration;

use quorate_kernel::{Event, Time};
use quorate_node::Input;

use super::Driver;
use crate::error::RunError;
use crate::hosted::Hosted;

/// How long answers may still take to leave once the machine is done.
const FLUSH_MAX: Duration = Duration::from_millis(500);
/// How long clients that are still connected then may come once more, to be told that nothing happens here any more. Who asks
/// while its connection is closed cannot know that.
const LINGER: Duration = Duration::from_millis(200);
/// How long the store may take to write itself down; its log makes up for the rest.
const CHECKPOINT_MAX: Duration = Duration::from_secs(5);

/// A stop that is under way.
#[derive(Debug)]
pub(crate) struct Stopping {
    /// When the machine's leave ends.
    until: Time,
    /// When clients have been waited for, and when the last answers must be out, once the machine is done.
    flush_until: Option<(Time, Time)>,
}

impl Stopping {
    pub(super) fn deadline(&self, now: Time) -> Time {
        match self.flush_until {
            Some((linger_until, _)) if now < linger_until => linger_until,
            Some((_, flush_until)) => flush_until,
            None => self.until,
        }
    }
}

impl<M: Hosted> Driver<M> {
    /// A signal has come.
    pub(super) fn signalled(&mut self) {
        let mut bytes = [0; 16];
        let count = self.signals.as_mut().and_then(|pipe| pipe.read(&mut bytes).ok());
        if count.is_some_and(|count| count > 0) {
            tracing::info!("asked to stop by a signal; a second one stops at once");
            self.stop();
        }
    }

    /// Begins to stop.
    pub(super) fn stop(&mut self) {
        if self.live.stopping.is_some() {
            return;
        }
        tracing::info!("stopping");
        let until = self.clock.now() + Duration::from_millis(self.config.timing.stop_ms);
        self.live.stopping = Some(Stopping { until, flush_until: None });
        self.live.stats.stopping = true;
        self.clients.close_doors();
        self.step(Event::Input(Input::Stop));
    }

    /// Whether the node has stopped; if so, everything is on disk.
    pub(super) fn stopped(&mut self) -> Result<bool, RunError> {
        let now = self.clock.now();
        let Some(stopping) = &mut self.live.stopping else { return Ok(false) };
        if stopping.flush_until.is_none() && (self.live.ready_to_stop || now >= stopping.until) {
            if !self.live.ready_to_stop {
                tracing::warn!(
                    "the node was not ready to stop in time; the others will notice by themselves"
                );
            }
            stopping.flush_until = Some((now + LINGER, now + FLUSH_MAX));
        }
        let Some((linger_until, flush_until)) = stopping.flush_until else { return Ok(false) };
        let flushed = self.live.held.is_empty() && self.clients.all_sent() && self.peers.all_sent();
        let lingers = now < linger_until && !self.clients.all_gone();
        if (!flushed && now < flush_until) || lingers {
            return Ok(false);
        }
        self.sync_all()?;
        self.checkpoint();
        tracing::info!("stopped");
        Ok(true)
    }

    fn checkpoint(&mut self) {
        self.store.checkpoint();
        let until = self.clock.now() + CHECKPOINT_MAX;
        while self.store.durable() < self.store.sequence() {
            if self.clock.now() >= until {
                tracing::warn!(
                    "the store was not wholly written down; the log makes up for it at the next start"
                );
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
