//! What was counted of keys of late.

use alloc::collections::BTreeMap;
use core::time::Duration;
use quorate_kernel::Time;

/// Counted together; what was counted before that is kept as long again.
const SPAN: Duration = Duration::from_millis(500);
/// Keys that are counted in one span. What comes beyond begins another.
pub(crate) const KEYS_MAX: usize = 8_192;

/// Counts by the positions of keys, in this span and in the one before.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) now: BTreeMap<u64, u32>,
    pub(crate) before: BTreeMap<u64, u32>,
    since: Time,
}

impl Spans {
    /// Begins another span if it is time; to be called before anything is counted or looked at.
    pub(crate) fn turn(&mut self, now: Time) {
        let old = now.since(self.since);
        if old >= SPAN || self.now.len() >= KEYS_MAX {
            let last = core::mem::take(&mut self.now);
            self.before = if old < SPAN * 2 { last } else { BTreeMap::new() };
            self.since = now;
        }
    }

    /// In both spans together.
    pub(crate) fn count(&self, position: u64) -> u32 {
        let of = |span: &BTreeMap<u64, u32>| span.get(&position).copied().unwrap_or_default();
        of(&self.now).saturating_add(of(&self.before))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.now.is_empty() && self.before.is_empty()
    }
}
