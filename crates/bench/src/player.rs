//! What a driver of connections asks for, and hears of.

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It happened.
    Done,
    /// It did not happen, and the server said so.
    Refused,
    /// It ended by itself without effect: a watched key had changed, or there was nothing to do.
    Aborted,
    /// Nobody knows.
    Unknown,
    /// The answer makes no sense; the connection should not be used any more.
    Nonsense,
}

/// What follows from a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The operation goes on; what has to be sent for it was appended.
    More,
    /// The oldest operation of the connection ended.
    Ended {
        /// How.
        end: End,
        /// Whether it would change something.
        is_write: bool,
    },
}

/// When an operation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Now.
    pub(crate) now_ns: u64,
    /// When it was due: latency counts from here.
    pub(crate) due_ns: u64,
    /// Whether it belongs to what is measured.
    pub(crate) is_measured: bool,
}

/// Plays the clients of one driver.
pub(crate) trait Player {
    /// Operations a client may have under way.
    fn depth(&self) -> usize;

    /// Begins an operation of `client`: appends its first request. `false`: there is nothing more to do.
    fn begin(&mut self, client: usize, start: Start, out: &mut Vec<u8>) -> bool;

    /// A whole reply has come for `client`.
    fn reply(&mut self, client: usize, reply: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Step;

    /// The connection of `client` broke: the oldest operation has no more answers to expect. Called once for each.
    fn lost(&mut self, client: usize, now_ns: u64) -> Step;
}
