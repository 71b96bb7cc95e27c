//! The baseline: a hash table spread over nodes that agree on nothing, as the paper compares itself with (OpenDHT on Bamboo).
//!
//! Nodes and keys have places on a circle. A key belongs to the first node at its place or after it, its *root*, and lies there and at the
//! nodes that follow. Each node beats to its *leafs*, the nearest on both sides, and drops who has missed four beats; requests go from
//! node to node, each nearer, and around whoever does not confirm one. The root of a key stamps what is written by its clock and sends it to
//! the others that hold the key; the newest stamp counts. Neighbours compare what they hold every second. Where nodes see their
//! neighbours differently, keys have several roots for a while, or a root that knows nothing yet: nobody notices.
//!
//! It is generous where OpenDHT is not: a write waits for all holders that are believed to live, a root that has nothing asks them all,
//! and clients ask again.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the machine: joins, requests, holders |
//! | `leafs.rs` | whom a node knows, and who is next on the way to a place |

mod leafs;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_kernel::{Cx, Event, Machine, NodeId, Out, Position, Time};
use quorate_node::Ticket;

use super::kind::{Answer, Kind, Said};
use super::setup::{FOUNDERS, Setup};
use leafs::{Leafs, place_of};

const TICK: Duration = Duration::from_millis(100);
const BEAT_EVERY: Duration = Duration::from_millis(500);
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Who has missed four beats is gone.
const GONE: Duration = Duration::from_secs(2);
/// More than the longest way there and back: who has not confirmed a request by then is not asked again.
const CONFIRM: Duration = Duration::from_secs(1);
/// How long a root waits for the others that hold a key.
const HOLDERS: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(2_500);
const DEADLINE: Duration = Duration::from_secs(5);
const HOPS_MAX: u8 = 64;

/// When something was written, by the clock of the root that took it.
type Stamp = (u64, NodeId);

/// What lies under a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::node::scatter) struct Item {
    stamp: Stamp,
    value: String,
}

/// What is on the way to the root of a place.
#[derive(Debug, Clone)]
pub(in crate::node::scatter) enum Errand {
    Join,
    Get(Ticket, u64),
    Put(Ticket, u64, String),
}

impl Errand {
    fn place(&self, origin: NodeId) -> u64 {
        match self {
            Errand::Join => place_of(origin.0),
            Errand::Get(_, key) | Errand::Put(_, key, _) => place_of(*key),
        }
    }
}

#[derive(Debug, Clone)]
pub(in crate::node::scatter) struct Route {
    origin: NodeId,
    errand: Errand,
    hops: u8,
}

#[derive(Debug, Clone)]
pub(in crate::node::scatter) enum Word {
    Route(u64, Route),
    /// The sender has taken it over.
    Confirmed(u64),
    Welcome(Vec<NodeId>),
    Beat(Vec<NodeId>),
    Store(u64, u64, Item),
    Stored(u64),
    Look(u64, u64),
    Seen(u64, Option<Item>),
    Done(Ticket, Option<String>),
    /// What the sender holds that the receiver should hold as well.
    Have(Vec<(u64, Stamp)>),
    Want(Vec<u64>),
    Items(Vec<(u64, Item)>),
}

#[derive(Debug)]
pub(in crate::node::scatter) enum Call {
    Met(NodeId),
    Lost,
    Ask(Ticket, u64, Option<String>),
    Goes(Ticket),
}

/// What a root waits for.
#[derive(Debug)]
struct Wait {
    origin: NodeId,
    ticket: Ticket,
    left: usize,
    until: Time,
    /// Of a read: the newest that was seen.
    newest: Option<Item>,
}

/// What a client of this node waits for.
#[derive(Debug)]
struct Asked {
    errand: Errand,
    at: Time,
    sent_at: Time,
}

#[derive(Debug)]
pub(in crate::node::scatter) struct Dht {
    me: NodeId,
    leafs: Leafs,
    is_in: bool,
    /// Whether neighbours compare what they hold: they need not where nothing fails.
    compares: bool,
    items: BTreeMap<u64, Item>,
    asked: BTreeMap<Ticket, Asked>,
    /// What was sent on and is not confirmed: to whom, and when.
    sent: BTreeMap<u64, (NodeId, Route, Time)>,
    waits: BTreeMap<u64, Wait>,
    names: u64,
    beat_at: Time,
    sync_at: Time,
}

type Effects = Out<Word, (), (), Vec<(Ticket, Answer)>>;

impl Dht {
    fn new(me: NodeId, leafs: Leafs) -> Dht {
        Dht {
            me,
            leafs,
            is_in: false,
            compares: true,
            items: BTreeMap::new(),
            asked: BTreeMap::new(),
            sent: BTreeMap::new(),
            waits: BTreeMap::new(),
            names: 0,
            beat_at: Time::default(),
            sync_at: Time::default(),
        }
    }

    /// One of so many nodes that all know each other, and hold those of these keys whose roots they are. Nothing fails.
    pub(in crate::node::scatter) fn at_rest(
        me: NodeId,
        (nodes, copies): (u64, usize),
        keys: impl Iterator<Item = u64>,
    ) -> Dht {
        let mut leafs = Leafs::new(me, copies);
        (1..=nodes).filter(|id| *id != me.0).for_each(|id| leafs.tell(NodeId(id), Time::default()));
        let own = keys.filter(|key| leafs.is_root(place_of(*key)));
        let items = own.map(|key| (key, Item { stamp: (1, me), value: String::new() })).collect();
        Dht { is_in: true, compares: false, items, ..Dht::new(me, leafs) }
    }

    /// Whether this node is the root of a key, as far as it knows.
    pub(in crate::node::scatter) fn is_root(&self, key: u64) -> bool {
        self.leafs.is_root(place_of(key))
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn route(&mut self, cx: &mut Cx<'_>, mut route: Route, out: &mut Effects) {
        let place = route.errand.place(route.origin);
        // Whoever asks to be let in again may be known already.
        match self.leafs.next(place).filter(|next| *next != route.origin || place != place_of(next.0)) {
            Some(next) if route.hops < HOPS_MAX => {
                route.hops += 1;
                let name = self.name();
                self.sent.insert(name, (next, route.clone(), cx.now));
                out.send(next, Word::Route(name, route));
            }
            Some(_) => {}
            None => self.take(cx, route, out),
        }
    }

    /// This node is the root, as far as it knows.
    fn take(&mut self, cx: &mut Cx<'_>, route: Route, out: &mut Effects) {
        let Route { origin, errand, .. } = route;
        let until = cx.now + HOLDERS;
        match errand {
            Errand::Join => {
                out.send(origin, Word::Welcome(self.leafs.known()));
                self.leafs.hear(origin, cx.now);
            }
            Errand::Put(ticket, key, value) => {
                let known = self.items.get(&key).map_or(0, |item| item.stamp.0);
                let item = Item { stamp: (cx.wall.unix_ms.max(known + 1), self.me), value };
                self.items.insert(key, item.clone());
                let (others, name) = (self.others(key), self.name());
                let wait = Wait { origin, ticket, left: others.len(), until, newest: None };
                others.into_iter().for_each(|id| out.send(id, Word::Store(name, key, item.clone())));
                self.waits.insert(name, wait);
                self.end_if_due(name, cx.now, out);
            }
            Errand::Get(ticket, key) => {
                let newest = self.items.get(&key).cloned();
                let others = if newest.is_some() { Vec::new() } else { self.others(key) };
                let name = self.name();
                others.iter().for_each(|id| out.send(*id, Word::Look(name, key)));
                self.waits.insert(name, Wait { origin, ticket, left: others.len(), until, newest });
                self.end_if_due(name, cx.now, out);
            }
        }
    }

    /// Those that hold a key beside this node.
    fn others(&self, key: u64) -> Vec<NodeId> {
        let mut holders = self.leafs.holders(place_of(key));
        holders.retain(|id| *id != self.me);
        holders
    }

    fn end_if_due(&mut self, name: u64, now: Time, out: &mut Effects) {
        if self.waits.get(&name).is_some_and(|wait| wait.left == 0 || now >= wait.until)
            && let Some(wait) = self.waits.remove(&name)
        {
            out.send(wait.origin, Word::Done(wait.ticket, wait.newest.map(|item| item.value)));
        }
    }

    fn keep(&mut self, key: u64, item: Item) {
        let known = self.items.entry(key).or_insert_with(|| item.clone());
        if known.stamp < item.stamp {
            *known = item;
        }
    }

    fn hear(&mut self, cx: &mut Cx<'_>, from: NodeId, word: Word, out: &mut Effects) {
        match word {
            Word::Route(name, route) => {
                out.send(from, Word::Confirmed(name));
                if !matches!(route.errand, Errand::Join) {
                    self.leafs.meet(route.origin);
                }
                if self.is_in {
                    self.route(cx, route, out);
                }
            }
            Word::Confirmed(name) => drop(self.sent.remove(&name)),
            Word::Welcome(known) => {
                known.iter().chain([&from]).for_each(|id| self.leafs.tell(*id, cx.now));
                self.is_in = true;
                self.beat(cx.now, out);
            }
            Word::Beat(known) => {
                self.leafs.hear(from, cx.now);
                known.into_iter().for_each(|id| self.leafs.tell(id, cx.now));
            }
            Word::Store(name, key, item) => {
                self.keep(key, item);
                out.send(from, Word::Stored(name));
            }
            Word::Stored(name) => self.one_less(name, None, cx.now, out),
            Word::Look(name, key) => out.send(from, Word::Seen(name, self.items.get(&key).cloned())),
            Word::Seen(name, item) => self.one_less(name, item, cx.now, out),
            Word::Done(ticket, value) => {
                let answer = match self.asked.remove(&ticket).map(|asked| asked.errand) {
                    Some(Errand::Get(..)) => Answer::Value(value),
                    Some(_) => Answer::Written,
                    None => return,
                };
                out.output(vec![(ticket, answer)]);
            }
            Word::Have(theirs) => self.compare(from, &theirs, out),
            Word::Want(keys) => {
                let items = keys.iter().filter_map(|key| Some((*key, self.items.get(key)?.clone())));
                out.send(from, Word::Items(items.collect()));
            }
            Word::Items(items) => items.into_iter().for_each(|(key, item)| self.keep(key, item)),
        }
    }

    fn one_less(&mut self, name: u64, item: Option<Item>, now: Time, out: &mut Effects) {
        if let Some(wait) = self.waits.get_mut(&name) {
            wait.left = wait.left.saturating_sub(1);
            wait.newest = wait.newest.take().max(item);
        }
        self.end_if_due(name, now, out);
    }

    fn beat(&mut self, now: Time, out: &mut Effects) {
        self.beat_at = now;
        let leafs = self.leafs.near();
        for leaf in &leafs {
            out.send(*leaf, Word::Beat(leafs.clone()));
        }
    }

    /// What both this node and another should hold, as this one sees it.
    fn shared(&self, with: NodeId) -> Vec<(u64, Stamp)> {
        let is_shared = |key: &u64| self.leafs.holders(place_of(*key)).contains(&with);
        let shared = self.items.iter().filter(|(key, _)| is_shared(key));
        shared.map(|(key, item)| (*key, item.stamp)).collect()
    }

    fn compare(&mut self, from: NodeId, theirs: &[(u64, Stamp)], out: &mut Effects) {
        let theirs: BTreeMap<u64, Stamp> = theirs.iter().copied().collect();
        let is_older =
            |(key, stamp): &(&u64, &Stamp)| self.items.get(key).is_none_or(|own| own.stamp < **stamp);
        let want: Vec<u64> = theirs.iter().filter(is_older).map(|(key, _)| *key).collect();
        let newer = self.shared(from).into_iter();
        let newer = newer.filter(|(key, stamp)| theirs.get(key).is_none_or(|their| their < stamp));
        let items: Vec<(u64, Item)> =
            newer.filter_map(|(key, _)| Some((key, self.items.get(&key)?.clone()))).collect();
        if !want.is_empty() {
            out.send(from, Word::Want(want));
        }
        if !items.is_empty() {
            out.send(from, Word::Items(items));
        }
    }

    /// Compares with one neighbour, and gives away what lies here no more.
    fn sync(&mut self, cx: &mut Cx<'_>, out: &mut Effects) {
        self.sync_at = cx.now;
        if let Some(leaf) = cx.rng.pick(&self.leafs.near()).copied() {
            out.send(leaf, Word::Have(self.shared(leaf)));
        }
        let (me, leafs) = (self.me, &self.leafs);
        let is_strange = |key: &u64| !leafs.holders(place_of(*key)).contains(&me);
        for (key, item) in self.items.extract_if(.., |key, _| is_strange(key)) {
            // Who holds it is not known from here; the nearest that is known passes it on.
            if let Some(next) = leafs.next(place_of(key)) {
                out.send(next, Word::Items(vec![(key, item)]));
            }
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>, out: &mut Effects) {
        let now = cx.now;
        out.arm((), TICK);
        self.leafs.drop_gone(now, GONE);
        let late: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, (.., at))| now.since(*at) >= CONFIRM)
            .map(|(name, _)| *name)
            .collect();
        for name in late {
            let Some((to, route, _)) = self.sent.remove(&name) else { continue };
            self.leafs.gone(to, now);
            self.route(cx, route, out);
        }
        let due: Vec<u64> =
            self.waits.iter().filter(|(_, wait)| now >= wait.until).map(|(name, _)| *name).collect();
        due.into_iter().for_each(|name| self.end_if_due(name, now, out));
        if !self.is_in {
            return;
        }
        if now.since(self.beat_at) >= BEAT_EVERY {
            self.beat(now, out);
        }
        if self.compares && now.since(self.sync_at) >= SYNC_EVERY {
            self.sync(cx, out);
        }
        let mut ends = Vec::new();
        let mut again = Vec::new();
        for (ticket, asked) in &mut self.asked {
            if now.since(asked.at) >= DEADLINE {
                ends.push(*ticket);
            } else if now.since(asked.sent_at) >= AGAIN {
                asked.sent_at = now;
                again.push(Route { origin: self.me, errand: asked.errand.clone(), hops: 0 });
            }
        }
        again.into_iter().for_each(|route| self.route(cx, route, out));
        ends.iter().for_each(|ticket| drop(self.asked.remove(ticket)));
        out.output(ends.into_iter().map(|ticket| (ticket, Answer::Unknown)).collect());
    }

    fn call(&mut self, cx: &mut Cx<'_>, call: Call, out: &mut Effects) {
        match call {
            Call::Met(seed) if !self.is_in => {
                let (name, origin) = (self.name(), self.me);
                out.send(seed, Word::Route(name, Route { origin, errand: Errand::Join, hops: 0 }));
            }
            Call::Ask(ticket, key, value) => {
                let errand = match value {
                    Some(value) => Errand::Put(ticket, key, value),
                    None => Errand::Get(ticket, key),
                };
                let asked = Asked { errand: errand.clone(), at: cx.now, sent_at: cx.now };
                self.asked.insert(ticket, asked);
                self.route(cx, Route { origin: self.me, errand, hops: 0 }, out);
            }
            Call::Goes(ticket) => drop(self.asked.remove(&ticket)),
            Call::Met(_) | Call::Lost => {}
        }
    }
}

impl Machine for Dht {
    type Msg = Word;
    type Timer = ();
    type Record = ();
    type Input = Call;
    type Output = Vec<(Ticket, Answer)>;

    fn restore(&mut self, _: &mut Cx<'_>, _: Position, (): ()) {}

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Word, (), Call>, out: &mut Effects) {
        match event {
            Event::Start => {
                self.leafs.near().into_iter().for_each(|id| self.leafs.hear(id, cx.now));
                out.arm((), TICK);
            }
            Event::Message { from, msg } => self.hear(cx, from, msg, out),
            Event::Timer(()) => self.tick(cx, out),
            Event::Input(call) => self.call(cx, call, out),
        }
    }
}

impl Kind for Dht {
    fn of(setup: &Setup, node: NodeId, is_founder: bool) -> Dht {
        let mut leafs = Leafs::new(node, setup.copies.into());
        if is_founder {
            (1..=FOUNDERS).for_each(|id| leafs.tell(NodeId(id), Time::default()));
        }
        Dht { is_in: is_founder, ..Dht::new(node, leafs) }
    }

    fn serves(&self) -> bool {
        self.is_in
    }

    fn has_place(&self, _: NodeId) -> bool {
        self.is_in
    }

    fn is_stranger(&self) -> bool {
        !self.is_in
    }

    fn connected(peer: NodeId) -> Call {
        Call::Met(peer)
    }

    fn lost(_: NodeId) -> Call {
        Call::Lost
    }

    fn ask(ticket: Ticket, keys: &[u64], value: Option<&str>) -> Call {
        let [key] = keys else { panic!("it has no transactions") };
        Call::Ask(ticket, *key, value.map(str::to_owned))
    }

    fn goes(ticket: Ticket) -> Call {
        Call::Goes(ticket)
    }

    fn said(output: Vec<(Ticket, Answer)>) -> Said {
        Said::Answers(output)
    }

    fn purpose(_: &Self::Msg) -> &'static str {
        "all"
    }
}
