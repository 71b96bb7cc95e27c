//! What can be chosen.

use std::time::Duration;

/// How long a client tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a request is tried before it ends without being done. Shorter than an election (about a second): doubts without
    /// need. At least a minute: servers may have forgotten by then what became of it, and tell that it is too late.
    pub deadline: Duration,
    /// How long one node is waited for, to connect and to answer, before another is asked. Shorter than a slow transaction takes:
    /// needless repetitions. Long: a node that hangs holds its clients up for so long.
    pub patience: Duration,
    /// The first pause before a request is repeated; each further one is twice as long.
    pub pause: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

impl Default for Options {
    /// 20 s, of which each node gets 2; pauses from 5 ms to 500 ms.
    fn default() -> Self {
        Options {
            deadline: Duration::from_secs(20),
            patience: Duration::from_secs(2),
            pause: Duration::from_millis(5),
            pause_max: Duration::from_millis(500),
        }
    }
}
