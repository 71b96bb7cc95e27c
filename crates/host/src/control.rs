//! How other threads reach the loop.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mio::Waker;
use quorate_node::{AdminOutcome, AdminRequest, Journal};

use crate::stats::Snapshot;

/// What the loop is asked for.
#[derive(Debug)]
pub(crate) enum Control {
    /// A picture of the node.
    Snapshot(mpsc::Sender<Snapshot>),
    /// What the node did for groups, and why; nothing where nodes form none.
    Journal(mpsc::Sender<Option<Journal>>),
    /// An operator's request.
    Admin(AdminRequest, mpsc::Sender<AdminOutcome>),
    /// An orderly stop.
    Stop,
}

/// Where a node listens, with the ports it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Redis clients.
    pub client: Option<SocketAddr>,
    /// Redis Cluster clients.
    pub cluster: Option<SocketAddr>,
    /// Other nodes.
    pub peer: Option<SocketAddr>,
    /// Operators.
    pub admin: Option<SocketAddr>,
}

/// A way to a running node from other threads.
#[derive(Debug, Clone)]
pub struct Handle {
    controls: mpsc::Sender<Control>,
    waker: Arc<Waker>,
    /// Milliseconds since `origin` at the beginning of the last turn of the loop.
    pulse: Arc<AtomicU64>,
    origin: Instant,
    pub(crate) addresses: Addresses,
}

impl Handle {
    pub(crate) fn new(controls: mpsc::Sender<Control>, waker: Arc<Waker>, origin: Instant) -> Handle {
        Handle { controls, waker, pulse: Arc::default(), origin, addresses: Addresses::default() }
    }

    /// Where the node listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Asks for an orderly stop; the thread that runs the node returns when it is done.
    pub fn stop(&self) {
        self.ask(Control::Stop);
    }

    /// A picture of the node; `None` if its loop does not answer in time.
    pub fn snapshot(&self, wait: Duration) -> Option<Snapshot> {
        let (told, answer) = mpsc::channel();
        self.ask(Control::Snapshot(told));
        answer.recv_timeout(wait).ok()
    }

    /// What the node did for groups, and why, if nodes form groups; `None` if its loop does not answer in time.
    pub fn journal(&self, wait: Duration) -> Option<Option<Journal>> {
        let (told, answer) = mpsc::channel();
        self.ask(Control::Journal(told));
        answer.recv_timeout(wait).ok()
    }

    /// An operator's request; `None` if it has not ended in time.
    pub fn admin(&self, request: AdminRequest, wait: Duration) -> Option<AdminOutcome> {
        let (told, answer) = mpsc::channel();
        self.ask(Control::Admin(request, told));
        answer.recv_timeout(wait).ok()
    }

    /// For how long the loop has not begun a turn.
    pub fn silence(&self) -> Duration {
        let now = self.origin.elapsed();
        now.saturating_sub(Duration::from_millis(self.pulse.load(Ordering::Relaxed)))
    }

    pub(crate) fn beat(&self) {
        let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.pulse.store(now, Ordering::Relaxed);
    }

    /// A loop that has ended answers nothing; whoever waits notices by the closed channel.
    fn ask(&self, control: Control) {
        if self.controls.send(control).is_ok() {
            let _ = self.waker.wake();
        }
    }
}
