//! Which buckets a request is about.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use quorate_api::{Bucket, Command, Request};
use quorate_values::{Spec, by_code, keys_of, scan_from};

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// One bucket has all its keys; whichever, if it has none.
    One(Bucket),
    /// Its keys lie in several.
    Several,
    /// It is about all keys there are.
    All,
}

/// Where `request` belongs among `count` buckets.
pub(crate) fn route(request: &Request, count: NonZeroU16) -> Route {
    if count.get() == 1 {
        return Route::One(Bucket(0));
    }
    let mut buckets = BTreeSet::new();
    let mut add = |keys: Vec<Bytes>| buckets.extend(keys.iter().map(|key| Bucket::of_key(key, count)));
    let commands: &[Command] = match request {
        Request::One(command) => core::slice::from_ref(command),
        Request::Versions(keys) => {
            add(keys.clone());
            &[]
        }
        Request::Transaction { watched, commands } => {
            add(watched.iter().map(|(key, _)| key.clone()).collect());
            commands
        }
        // It names its bucket elsewhere.
        Request::Collect { .. } => &[],
    };
    let mut scanned = BTreeSet::new();
    for command in commands {
        let Some(spec) = by_code(command.code) else { continue };
        let keys = keys_of(spec, &command.args);
        match bucket_of_scan(spec, command, count) {
            Some(bucket) => scanned.extend([bucket]),
            None if keys.is_empty() && spec.spans_keyspace() => return Route::All,
            None => add(keys),
        }
    }
    buckets.extend(scanned);
    match (buckets.pop_first(), buckets.is_empty()) {
        (bucket, true) => Route::One(bucket.unwrap_or_default()),
        (_, false) => Route::Several,
    }
}

/// For SCAN: the bucket in which the step that this cursor asks for begins. Positions ascend from bucket to bucket, and what
/// a bucket answers at its end leads into the next one. A cursor that is none is refused by the first.
pub(crate) fn bucket_of_scan(spec: &Spec, command: &Command, count: NonZeroU16) -> Option<Bucket> {
    (spec.name == "scan").then(|| Bucket::of_position(scan_from(&command.args).unwrap_or_default(), count))
}
