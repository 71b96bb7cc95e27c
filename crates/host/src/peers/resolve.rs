//! Looking up names of peers without holding up the loop.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::thread;

/// Looks up addresses; names on threads of their own, since the system's resolver blocks.
pub(crate) struct Resolver {
    told: mpsc::Sender<(usize, io::Result<SocketAddr>)>,
    results: mpsc::Receiver<(usize, io::Result<SocketAddr>)>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// `wake` is called when a result is there.
    pub(crate) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Resolver {
        let (told, results) = mpsc::channel();
        Resolver { told, results, wake }
    }

    /// Begins to look up `address`; the result carries `index`. Of several addresses, each `attempt` takes the next.
    pub(crate) fn begin(&self, index: usize, address: &str, attempt: u32) {
        let told = self.told.clone();
        if let Ok(found) = address.parse::<SocketAddr>() {
            // The receiver is `self`.
            let _ = told.send((index, Ok(found)));
            return;
        }
        let (address, wake) = (address.to_owned(), Arc::clone(&self.wake));
        let spawned = thread::Builder::new().name("resolve".into()).spawn(move || {
            let found = address.to_socket_addrs().and_then(|all| {
                let all: Vec<_> = all.collect();
                let chosen = all.get(attempt as usize % all.len().max(1));
                chosen.copied().ok_or_else(|| io::Error::other(format!("`{address}` has no address")))
            });
            // The loop may have ended meanwhile.
            let _ = told.send((index, found));
            wake();
        });
        if let Err(error) = spawned {
            let _ = self.told.send((index, Err(error)));
        }
    }

    /// A result, if there is one.
    pub(crate) fn done(&self) -> Option<(usize, io::Result<SocketAddr>)> {
        self.results.try_recv().ok()
    }
}
