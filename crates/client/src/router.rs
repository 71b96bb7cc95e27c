//! Which node is asked, and the connections to all of them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use quorate_api::Reply;

use crate::backoff::chance;
use crate::link::{Broken, Link};
use crate::map::{Map, of_moved};
use crate::{Options, resp};

/// A node that failed is passed over for so long, if there are others.
const SHUN: Duration = Duration::from_secs(1);

/// What a client has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions put to nodes, repetitions included, the map's excluded.
    pub asked: u64,
    /// How many of them were answered with `MOVED`.
    pub moved: u64,
    /// How many brought no answer because the connection broke, or took too long.
    pub broken: u64,
    /// How often the map was learned.
    pub learned: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Router {
    options: Options,
    /// Doors of nodes: those that were given, and behind them those that a map named.
    known: Vec<String>,
    given: usize,
    /// Whom to ask without a map: a place among `known`.
    home: usize,
    map: Map,
    /// The map may be out of date.
    stale: bool,
    links: HashMap<String, Link>,
    failed: HashMap<String, Instant>,
    pub(crate) counters: Counters,
}

impl Router {
    pub(crate) fn new(given: Vec<String>, options: Options) -> Self {
        let home = (chance() % given.len().max(1) as u64) as usize;
        Router {
            options,
            given: given.len(),
            known: given,
            home,
            map: Map::default(),
            stale: true,
            links: HashMap::new(),
            failed: HashMap::new(),
            counters: Counters::default(),
        }
    }

    /// Puts requests to the node that leads `slot`, as far as is known, and waits for so many replies.
    pub(crate) fn ask(
        &mut self,
        slot: u16,
        requests: &[u8],
        count: usize,
        left: Duration,
    ) -> Result<Vec<Reply>, Broken> {
        let patience = left.min(self.options.patience);
        if self.stale {
            self.learn(patience);
        }
        let address = self.whom(slot)?;
        self.counters.asked += 1;
        let result = self.exchange(&address, requests, count, patience);
        if let Err(broken) = &result {
            self.counters.broken += u64::from(matches!(broken, Broken::Lost(_)));
        }
        result
    }

    /// A node said that another leads `slot`.
    pub(crate) fn moved(&mut self, slot: u16, address: &str) {
        self.counters.moved += 1;
        self.stale = true;
        if let Some(address) = of_moved(address) {
            self.map.correct(slot, &address);
            self.failed.remove(&address);
        }
    }

    /// The node that was asked about `slot` cannot serve now.
    pub(crate) fn is_in_doubt(&mut self, slot: u16) {
        self.stale = true;
        if self.map.leader(slot).is_none() {
            self.home += 1;
        }
    }

    fn is_shunned(&self, address: &str) -> bool {
        self.failed.get(address).is_some_and(|at| at.elapsed() < SHUN)
    }

    /// Whom to ask about `slot`: its leader; else somebody who passes it on, if possible one that has not just failed.
    fn whom(&mut self, slot: u16) -> Result<String, Broken> {
        if let Some(leader) = self.map.leader(slot).filter(|leader| !self.is_shunned(leader)) {
            return Ok(leader.to_owned());
        }
        let count = self.known.len();
        let next = (self.home..self.home + count).find(|place| !self.is_shunned(&self.known[place % count]));
        self.home = next.unwrap_or(self.home + 1) % count.max(1);
        let found = self.known.get(self.home).cloned();
        found.ok_or_else(|| Broken::Unsent("no address was given".into()))
    }

    fn exchange(
        &mut self,
        address: &str,
        requests: &[u8],
        count: usize,
        patience: Duration,
    ) -> Result<Vec<Reply>, Broken> {
        let link = match self.links.remove(address) {
            Some(link) => Ok(link),
            None => Link::open(address, patience),
        };
        let result = link.and_then(|mut link| {
            let replies = link.exchange(requests, count, patience)?;
            self.links.insert(address.to_owned(), link);
            Ok(replies)
        });
        match &result {
            Ok(_) => _ = self.failed.remove(address),
            Err(_) => {
                self.stale = true;
                self.failed.insert(address.to_owned(), Instant::now());
            }
        }
        result
    }

    /// Asks for the map: those first to whom a connection stands. Whoever has none to tell leaves this client without.
    fn learn(&mut self, patience: Duration) {
        let mut from: Vec<String> =
            self.known.iter().filter(|address| !self.is_shunned(address)).cloned().collect();
        from.sort_by_key(|address| !self.links.contains_key(address));
        let mut question = Vec::new();
        resp::encode(&mut question, &["CLUSTER", "SLOTS"]);
        for address in from {
            let Ok(replies) = self.exchange(&address, &question, 1, patience) else { continue };
            let reply = replies.first().unwrap_or(&Reply::Nil);
            if matches!(reply, Reply::Error(error) if error.0.starts_with("CLUSTERDOWN")) {
                continue;
            }
            self.stale = false;
            self.counters.learned += 1;
            self.map = Map::read(reply, &address).unwrap_or_default();
            self.known.truncate(self.given);
            for named in self.map.addresses() {
                if !self.known.iter().any(|known| known == named) {
                    self.known.push(named.to_owned());
                }
            }
            self.links.retain(|linked, _| self.known.contains(linked));
            return;
        }
    }
}
