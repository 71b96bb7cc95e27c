//! The order between a connection's requests for one bucket and those over several.
//!
//! Each bucket keeps the order of what it is asked; whatever is about several buckets waits until all before it has
//! ended, and all behind it wait for its end.

use alloc::collections::{BTreeMap, VecDeque};

use crate::connections::Taken;
use crate::interface::ConnectionId;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Whether a request over several buckets is under way.
    pub(crate) running: bool,
    /// What waits, in order; the first is over several buckets unless one of these runs.
    pub(crate) waiting: VecDeque<Taken>,
}

/// The connections with such requests.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pub(crate) gates: BTreeMap<ConnectionId, Gate>,
}

impl Gates {
    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.gates.values().map(|gate| gate.waiting.len()).sum()
    }

    /// The connection is gone: what waits never begins.
    pub(crate) fn closed(&mut self, connection: ConnectionId) {
        if let Some(gate) = self.gates.get_mut(&connection) {
            gate.waiting.clear();
            if !gate.running {
                self.gates.remove(&connection);
            }
        }
    }
}
