//! Ctrl-C: a campaign ends at its next look around, so that nothing it has made stays behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{self, failure};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on signals that ask for the end are noted instead of obeyed.
///
/// # Errors
/// If the system refuses.
pub(super) fn watch() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(asked)).context("cannot watch for Ctrl-C")?;
    }
    Ok(())
}

/// Whether somebody wants the end.
///
/// # Errors
/// If so.
pub(super) fn check() -> Result<()> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) {
        return Err(failure(exit::FAILED, "a signal asked for the end before it was reached"));
    }
    Ok(())
}
