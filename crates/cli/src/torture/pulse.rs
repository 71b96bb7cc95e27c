//! A pulse for each bucket: one writer, slow and steady, whose longest silence shows how long that bucket was away.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use quorate_api::{Bucket, Reply};
use quorate_bench::{Client, now_ns};

use super::{interrupt, stuck};

/// Between two writes of a bucket.
const BEAT: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What the writers share.
struct Shared {
    /// Client addresses that may be used now.
    addresses: Mutex<Vec<String>>,
    stop: AtomicBool,
    /// How long one write may take before its writer turns to another node.
    timeout: Duration,
}

/// The writer of one bucket.
struct Pulse {
    /// When writes were acknowledged.
    beats: Arc<Mutex<Vec<u64>>>,
    thread: Option<JoinHandle<()>>,
}

/// The writers of all buckets.
pub(super) struct Pulses {
    shared: Arc<Shared>,
    pulses: Vec<Pulse>,
}

impl Pulses {
    /// Starts a writer for each of so many buckets, which waits so long for an answer before it asks another node.
    pub(super) fn start(buckets: NonZeroU16, addresses: Vec<String>, timeout: Duration) -> Pulses {
        let addresses = Mutex::new(addresses);
        let shared = Arc::new(Shared { addresses, stop: AtomicBool::new(false), timeout });
        let pulse = |bucket: u16| {
            let (beats, shared) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::clone(&shared));
            let key = key_of(Bucket(bucket), buckets);
            let thread = {
                let beats = Arc::clone(&beats);
                std::thread::spawn(move || write(&key, usize::from(bucket), &shared, &beats))
            };
            Pulse { beats, thread: Some(thread) }
        };
        let pulses = (0..buckets.get()).map(pulse).collect();
        Pulses { shared, pulses }
    }

    /// Lets the writers use these nodes alone; whoever is connected to another turns to one of them.
    pub(super) fn use_only(&self, addresses: Vec<String>) {
        *self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Waits until every bucket has acknowledged so many writes after `after_ns`.
    ///
    /// # Errors
    /// If one does not within `wait`.
    pub(super) fn wait_for(&self, count: usize, after_ns: u64, wait: Duration) -> Result<()> {
        let deadline = Instant::now() + wait;
        let beats_after = |pulse: &Pulse| {
            let beats = pulse.beats.lock().unwrap_or_else(PoisonError::into_inner);
            beats.iter().rev().take_while(|beat| **beat > after_ns).take(count).count()
        };
        while let Some(bucket) = self.pulses.iter().position(|pulse| beats_after(pulse) < count) {
            if Instant::now() > deadline {
                return Err(stuck(format!("bucket {bucket} took no writes for {} s", wait.as_secs())));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// By bucket: milliseconds of the longest silence that touches the time from `from_ns` to `to_ns`.
    pub(super) fn silences_ms(&self, from_ns: u64, to_ns: u64) -> Vec<u64> {
        let longest = |pulse: &Pulse| {
            let beats = pulse.beats.lock().unwrap_or_else(PoisonError::into_inner);
            let pairs = beats.windows(2).filter(|pair| pair[1] >= from_ns && pair[0] <= to_ns);
            pairs.map(|pair| (pair[1] - pair[0]) / 1_000_000).max().unwrap_or(0)
        };
        self.pulses.iter().map(longest).collect()
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for pulse in &mut self.pulses {
            if let Some(thread) = pulse.thread.take() {
                // A writer that panicked has nothing more to tell.
                let _ = thread.join();
            }
        }
    }
}

/// A key of a bucket.
fn key_of(bucket: Bucket, count: NonZeroU16) -> String {
    let mut keys = (0..).map(|number: u64| format!("pulse:{number}"));
    keys.find(|key| Bucket::of_key(key.as_bytes(), count) == bucket).unwrap_or_default()
}

/// Writes until told to stop.
fn write(key: &str, turn: usize, shared: &Shared, beats: &Mutex<Vec<u64>>) {
    let (mut client, mut number) = (None::<(String, Client)>, turn);
    while !shared.stop.load(Ordering::Relaxed) {
        let mut addresses = shared.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if client.as_ref().is_some_and(|(address, _)| !addresses.contains(address)) {
            client = None;
        }
        let (address, mut connected) = match client.take() {
            Some(client) => client,
            None => {
                number += 1;
                let count = addresses.len().max(1);
                addresses.rotate_left(number % count);
                let Some(Ok(connected)) =
                    addresses.first().map(|first| Client::connect(&[first], shared.timeout))
                else {
                    std::thread::sleep(BEAT);
                    continue;
                };
                (addresses.swap_remove(0), connected)
            }
        };
        if let Ok(reply) = connected.call(&["SET", key, "1"]) {
            if reply == Reply::Ok {
                beats.lock().unwrap_or_else(PoisonError::into_inner).push(now_ns());
            }
            client = Some((address, connected));
        }
        std::thread::sleep(BEAT);
    }
}
