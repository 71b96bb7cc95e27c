//! Tests of the shard below its log: the view against a model, the bytes of the rows, sessions.

mod collect;
mod holds;
mod layout;
mod look;
mod metamorphic;
mod script;
mod sessions;
mod sweep;
mod transactions;

use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Reply, Request};
use quorate_store::{MemoryStore, Scan, Store};

use crate::layout::{Area, State, counters_key};
use crate::run::run_request;
use crate::sessions::Limits;
use crate::sweep::Fronts;
use crate::view::View;

const AREA: Area = [b'r', 0, 0, 0, 0];
/// Where the time of these tests begins, in milliseconds since 1970.
const START_MS: u64 = 1_700_000_000_000;

/// A state in a store, without a log above it.
struct Bench {
    store: MemoryStore,
    limits: Limits,
    state: State,
    fronts: Fronts,
    now_ms: u64,
}

impl Bench {
    fn new() -> Self {
        Bench {
            store: MemoryStore::new(),
            limits: Limits::production(),
            state: State::default(),
            fronts: Fronts::default(),
            now_ms: START_MS,
        }
    }

    /// Applies one entry with these requests.
    fn apply(&mut self, requests: &[Request]) -> Vec<Reply> {
        self.apply_all(&[requests])
    }

    /// Applies several entries in one step.
    fn apply_all(&mut self, entries: &[&[Request]]) -> Vec<Reply> {
        let mut view = View::applying(&self.store, &self.limits, AREA, self.state);
        view.fronts = core::mem::take(&mut self.fronts);
        let mut replies = Vec::new();
        for requests in entries {
            view.begin_entry(self.now_ms, 7);
            view.expire_due();
            replies.extend(requests.iter().map(|request| run_request(&mut view, request)));
            view.sweep();
        }
        self.fronts = core::mem::take(&mut view.fronts);
        let (state, batch) = view.into_batch();
        self.store.apply(batch);
        self.state = state;
        replies
    }

    /// Runs one command in an entry of its own.
    fn run(&mut self, words: &[&str]) -> Reply {
        self.apply(&[request(words)]).remove(0)
    }

    /// Reads as of `now_ms`; also tells which expiry the log would have to confirm first.
    fn read_at(&self, now_ms: u64, words: &[&str]) -> (Reply, Option<u64>) {
        let mut view = View::reading(&self.store, &self.limits, AREA, self.state, now_ms, 7);
        let reply = run_request(&mut view, &request(words));
        (reply, view.expiry_pending)
    }

    fn version(&mut self, key: &str) -> i64 {
        match self.apply(&[Request::Versions([Bytes::copy_from_slice(key.as_bytes())].into())]).remove(0) {
            Reply::Array(items) => match items[..] {
                [Reply::Int(version)] => version,
                _ => panic!("one version was to come: {items:?}"),
            },
            other => panic!("versions were to come: {other:?}"),
        }
    }

    /// All rows, their area apart.
    fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = self.store.scan(Scan::range(&AREA, None));
        rows.into_iter().map(|(key, value)| (key[AREA.len()..].to_vec(), value.to_vec())).collect()
    }

    /// Rows of keys, elements, expiries and garbage.
    fn row_count(&self) -> usize {
        let counters = counters_key(AREA);
        self.store.scan(Scan::range(&AREA, Some(&counters))).len()
    }
}

fn command(words: &[&str]) -> Command {
    let spec = quorate_values::find(words[0].as_bytes()).expect("a command");
    let args = words[1..].iter().map(|word| Bytes::copy_from_slice(word.as_bytes()));
    Command { code: spec.code, args: args.collect() }
}

fn request(words: &[&str]) -> Request {
    Request::One(command(words))
}
