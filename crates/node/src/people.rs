//! Whom a node of a ring knows, where they stand, and who of them is there.
//!
//! There is no list of all nodes. A node knows the members of the groups that it knows, and whoever is connected to it; it is connected to all
//! of them while they are few, and else to those that it needs: its own group and the groups beside it, leaders that it has questions for,
//! some of each slot of its routing table (`routing.rs`), and others by chance. The members of a group watch each other: whoever answers
//! nothing for a while is not there (Scatter 3.2).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::IpAddr;
use core::time::Duration;
use quorate_groups::join::Place;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_shard::Mutant;
use serde::{Deserialize, Serialize};

use crate::admin::from_log_member;
use crate::config::NodeConfig;
use crate::interface::{Member, Output};
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::ring::{Ring, Word};

/// So many nodes a node chooses to be connected to, about, whatever the size of the cluster; those that chose it come to that.
const CONNECTIONS_MAX: usize = 128;
/// Nodes that are known; more are not remembered.
const KNOWN_MAX: usize = 4_096;
/// People in one message.
const TOLD_MAX: usize = 64;
/// Whoever was watched and has answered nothing for so long is not there.
const SILENT: Duration = Duration::from_secs(3);
/// How often nodes introduce themselves to those whom they are connected to.
const HERE_EVERY: Duration = Duration::from_secs(10);
/// How soon it is looked whom to be connected to when that may have changed.
const CONNECT_SOON: Duration = Duration::from_millis(250);
/// And how often if nothing has.
const CONNECT_EVERY: Duration = Duration::from_secs(5);
/// Whoever has not introduced itself for so long, or was of no use, is no reason for a connection any more.
const WANTED_FOR: Duration = Duration::from_secs(25);

/// A number that looks like chance and is always the same: the multiplier of SplitMix64.
pub(crate) fn disorder(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Each once, in their order.
fn in_order(ids: &mut Vec<NodeId>) {
    ids.sort_unstable();
    ids.dedup();
}

/// A node, as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Who it is, and how to reach it.
    pub member: Member,
    /// What it shares large failures with: a site.
    pub zone: Bytes,
    /// What it shares small failures with, within its zone.
    pub rack: Bytes,
    /// When it started, by its clock, in milliseconds since 1970: of two words of the same node the later counts.
    pub since_ms: u64,
}

impl Person {
    /// What is known of somebody whose address alone is known.
    fn stranger(member: Member) -> Person {
        Person { member, zone: Bytes::new(), rack: Bytes::new(), since_ms: 0 }
    }

    /// Nodes are on one machine if their addresses differ in their ports alone.
    fn place(&self) -> Place<Bytes> {
        let peer = self.member.endpoints.peer.as_bytes();
        let end = peer.iter().rposition(|byte| *byte == b':').unwrap_or(peer.len());
        let (zone, rack) = (self.zone.clone(), self.rack.clone());
        let host = &peer[..end];
        Place { zone, rack, prefix: prefix_of(host), host: Bytes::copy_from_slice(host) }
    }
}

/// The network of a host, as far as its address tells: what the world routes as one is no smaller than a /24, or a /48. Nothing of a name, and nothing
/// where all nodes are on one machine.
fn prefix_of(host: &[u8]) -> Bytes {
    let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
    let address = core::str::from_utf8(bare).ok().and_then(|host| host.parse::<IpAddr>().ok());
    match address.map(|address| address.to_canonical()).filter(|address| !address.is_loopback()) {
        Some(IpAddr::V4(address)) => Bytes::copy_from_slice(&address.octets()[..3]),
        Some(IpAddr::V6(address)) => Bytes::copy_from_slice(&address.octets()[..6]),
        None => Bytes::new(),
    }
}

/// Whom a node knows.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Shared with messages about them, of which there are many.
    known: BTreeMap<NodeId, Arc<Person>>,
    /// Those whom this node has questions for.
    wanted: BTreeMap<NodeId, Time>,
    /// Those who introduced themselves: they want to be answered.
    callers: BTreeMap<NodeId, Time>,
    /// Those whom this node is connected to for reasons of its own.
    chosen: Vec<NodeId>,
    /// Those who are watched: when they answered last, or were asked first.
    heard: BTreeMap<NodeId, Time>,
    since_ms: u64,
    here_at: Time,
    /// When it was looked last whom to be connected to; since then groups may have changed.
    connected_at: Time,
    pub(crate) is_news: bool,
}

impl People {
    /// The founders know each other from their settings.
    pub(crate) fn founded(config: &NodeConfig) -> People {
        let founder = |member: &Member| (member.id, Arc::new(Person::stranger(member.clone())));
        People { known: config.bootstrap.iter().map(founder).collect(), ..People::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Arc<Person>> {
        self.known.get(&id)
    }

    /// Takes over what is said of somebody; whether it is news.
    fn learn(&mut self, person: Arc<Person>) -> bool {
        let id = person.member.id;
        let is_news = match self.known.get(&id) {
            Some(known) => known.since_ms < person.since_ms,
            None => self.known.len() < KNOWN_MAX,
        };
        if is_news {
            self.known.insert(id, person);
        }
        is_news
    }

    /// Somebody is asked whether it is there.
    pub(crate) fn watch(&mut self, id: NodeId, now: Time) {
        self.heard.entry(id).or_insert(now);
    }

    /// Somebody who is watched has answered.
    pub(crate) fn heard(&mut self, id: NodeId, now: Time) {
        if let Some(at) = self.heard.get_mut(&id) {
            *at = now;
        }
    }

    /// Nobody but these is watched any more.
    pub(crate) fn watch_only(&mut self, ids: &BTreeSet<NodeId>) {
        self.heard.retain(|id, _| ids.contains(id));
    }

    fn is_silent(&self, id: NodeId, now: Time) -> bool {
        self.heard.get(&id).is_some_and(|at| now.since(*at) >= SILENT)
    }

    /// A connection to somebody will be of use; whether that is new.
    pub(crate) fn want(&mut self, id: NodeId, now: Time) -> bool {
        self.wanted.insert(id, now).is_none()
    }
}

/// How much a node knows and is connected to: what it has to keep because others are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knowledge {
    /// Nodes whose addresses it knows.
    pub people: usize,
    /// Groups that it knows.
    pub groups: usize,
    /// Buckets of which it knows who leads them.
    pub leaders: usize,
    /// Nodes that it is connected to.
    pub connections: usize,
}

impl Knowledge {
    /// All of them, in their order.
    pub fn counts(self) -> [usize; 4] {
        [self.people, self.groups, self.leaders, self.connections]
    }
}

impl Node {
    /// How much this node knows of others.
    pub fn knowledge(&self) -> Knowledge {
        let ring = self.ring();
        Knowledge {
            people: ring.map_or(0, |ring| ring.people.known.len()),
            groups: ring.map_or(0, |ring| ring.heard.len()),
            leaders: self.roster.as_ref().map_or(0, |roster| roster.hinted().count()),
            connections: self.connected.len(),
        }
    }

    /// What this node says of itself.
    pub(crate) fn myself(&self) -> Arc<Person> {
        let placing = &self.config.placing;
        Arc::new(Person {
            member: self.config.me.clone(),
            zone: placing.zone.clone(),
            rack: placing.rack.clone(),
            since_ms: self.ring().map_or(0, |ring| ring.people.since_ms),
        })
    }

    /// A life begins.
    pub(crate) fn begin_people(&mut self, cx: &Cx<'_>, out: &mut Out) {
        let since = cx.wall.unix_ms.max(1);
        if let Some(ring) = self.ring_mut() {
            ring.people.since_ms = since;
        }
        self.connected.iter().for_each(|peer| self.introduce_to(*peer, out));
    }

    /// Says who this node is, and to whom no known group has tells what it needs to find one.
    pub(crate) fn introduce_to(&self, to: NodeId, out: &mut Out) {
        let Some(ring) = self.ring() else { return };
        // Says only who and where this node is, and others are; what groups are is chosen.
        let mut say = |word| out.send_early(to, Message::Group(Box::new(word)));
        say(Word::Here(self.myself()));
        self.lived().into_iter().for_each(&mut say);
        if ring.group_with(to).is_none() {
            let others = ring.people.known.values().filter(|person| person.member.id != to);
            say(Word::People(others.take(TOLD_MAX).cloned().collect()));
            self.tell_some_seats(to, out);
        }
    }

    /// Somebody introduces itself.
    pub(crate) fn on_here(&mut self, now: Time, from: NodeId, person: Arc<Person>, out: &mut Out) {
        if person.member.id != from {
            return;
        }
        let Some(ring) = self.ring_mut() else { return };
        let is_news = ring.people.learn(person);
        if ring.people.callers.insert(from, now).is_none() || is_news {
            self.tell_peers(out);
        }
    }

    pub(crate) fn on_people(&mut self, people: Vec<Arc<Person>>, out: &mut Out) {
        let me = self.config.me.id;
        let Some(ring) = self.ring_mut() else { return };
        let mut is_news = false;
        for person in people.into_iter().take(TOLD_MAX).filter(|person| person.member.id != me) {
            is_news |= ring.people.learn(person);
        }
        if is_news {
            self.tell_peers(out);
        }
    }

    /// Asks whoever spoke of these where they are, if that is not known.
    pub(crate) fn ask_who(&self, from: NodeId, members: impl Iterator<Item = NodeId>, out: &mut Out) {
        let Some(ring) = self.ring() else { return };
        let is_unknown = |id: &NodeId| *id != self.config.me.id && ring.people.get(*id).is_none();
        let unknown: BTreeSet<NodeId> = members.filter(is_unknown).collect();
        if !unknown.is_empty() {
            let word = Word::Who(unknown.into_iter().take(TOLD_MAX).collect());
            // A question; nothing about this node's disk is told.
            out.send_early(from, Message::Group(Box::new(word)));
        }
    }

    pub(crate) fn on_who(&self, from: NodeId, ids: &[NodeId], out: &mut Out) {
        let people: Vec<Arc<Person>> = ids.iter().take(TOLD_MAX).filter_map(|id| self.person(*id)).collect();
        if !people.is_empty() {
            // Says only who and where others are.
            out.send_early(from, Message::Group(Box::new(Word::People(people))));
        }
    }

    /// Somebody who is known, or this node.
    pub(crate) fn person(&self, id: NodeId) -> Option<Arc<Person>> {
        if id == self.config.me.id {
            return Some(self.myself());
        }
        self.ring()?.people.get(id).cloned()
    }

    /// Whether a node is there, as far as this one sees: a connection to it stands, and if it is watched it answers.
    pub(crate) fn is_there(&self, id: NodeId, now: Time) -> bool {
        let unnoticed = self.config.limits.breaks(Mutant::SilenceUnnoticed);
        let is_silent = || !unnoticed && self.ring().is_some_and(|ring| ring.people.is_silent(id, now));
        id == self.config.me.id || (self.connected.contains(&id) && !is_silent())
    }

    /// Whether this node has said by now that it wants to be connected to another, or cannot for not knowing where it is.
    pub(crate) fn has_tried(&self, id: NodeId) -> bool {
        let is_told = self.peers_told.binary_search_by_key(&id, |peer| peer.id).is_ok();
        is_told || self.ring().is_none_or(|ring| ring.people.get(id).is_none())
    }

    /// Those who are not there though this node wants to be connected to them.
    pub(crate) fn missed(&self, now: Time) -> BTreeSet<NodeId> {
        self.peers_told.iter().map(|peer| peer.id).filter(|id| !self.is_there(*id, now)).collect()
    }

    /// Where a node stands.
    pub(crate) fn place_of(&self, id: NodeId) -> Place<Bytes> {
        self.person(id).map(|person| person.place()).unwrap_or_default()
    }

    /// Those who belong to the cluster, as far as this node knows: members of groups, and whoever is connected.
    pub(crate) fn company(&self) -> Vec<Member> {
        let Some(ring) = self.ring() else { return Vec::new() };
        let grouped = ring.members();
        let is_one = |id: &NodeId| grouped.contains(id) || self.connected.contains(id);
        let mut all: Vec<Member> = ring.people.known.values().map(|person| person.member.clone()).collect();
        all.retain(|member| is_one(&member.id) && member.id != self.config.me.id);
        all.push(self.config.me.clone());
        all.sort_by_key(|member| member.id);
        all
    }

    /// Whom this node wants to be connected to, as far as it knows where they are; `None`: it has said so.
    pub(crate) fn acquaintances(&mut self) -> Option<Vec<Member>> {
        let me = self.config.me.id;
        let ring = self.ring()?;
        let people = &ring.people;
        let mut chosen: Vec<NodeId> = people.wanted.keys().copied().collect();
        chosen.extend(self.neighbourhood());
        if people.known.len() > CONNECTIONS_MAX {
            chosen.extend(ring.contacts(me));
        }
        in_order(&mut chosen);
        chosen.retain(|id| *id != me);
        // Others by chance that lasts: who is near to this node in a disorder of its own.
        let is_other = |id: &NodeId| *id != me && chosen.binary_search(id).is_err();
        let mut others: Vec<NodeId> = people.known.keys().copied().filter(is_other).collect();
        let room = CONNECTIONS_MAX.saturating_sub(chosen.len());
        if others.len() > room {
            others.select_nth_unstable_by_key(room, |id| disorder(id.0 ^ me.0));
            others.truncate(room);
        }
        chosen.extend(others);
        in_order(&mut chosen);
        let logs = || self.replicas.values().flat_map(|replica| &replica.log().epoch().members);
        let mut all = chosen.clone();
        all.extend(people.callers.keys().copied().chain(logs().map(|member| member.id)));
        all.retain(|id| *id != me);
        in_order(&mut all);
        let by_log =
            |id: &NodeId| logs().find(|member| member.id == *id).map(from_log_member).map(Cow::Owned);
        let by_word = |id: &NodeId| people.get(*id).map(|person| Cow::Borrowed(&person.member));
        let members = || all.iter().filter_map(|id| by_word(id).or_else(|| by_log(id)));
        let is_told = members().eq(self.peers_told.iter().map(Cow::Borrowed));
        let members = (!is_told).then(|| members().map(Cow::into_owned).collect());
        if let Some(ring) = self.ring_mut() {
            ring.people.chosen = chosen;
        }
        members
    }

    /// Says that this node wants to be connected to somebody as well. Whom else it wants is looked at another time: in a large ring it misses somebody
    /// at every turn.
    pub(crate) fn tell_peer_more(&mut self, id: NodeId, out: &mut Out) {
        let member = self.ring().and_then(|ring| ring.people.get(id)).map(|person| person.member.clone());
        let place = self.peers_told.binary_search_by_key(&id, |peer| peer.id);
        if let (Some(member), Err(place)) = (member, place) {
            self.peers_told.insert(place, member);
            out.output(Output::Peers(self.peers_told.clone()));
        }
    }

    /// The members of this node's group and of those beside it, some of them more than once.
    fn neighbourhood(&self) -> Vec<NodeId> {
        let Some(ring) = self.ring() else { return Vec::new() };
        let own = ring.groups_with(self.config.me.id);
        let homes = own.iter().filter_map(|group| ring.seats.get(&ring.home(group)));
        let all = homes.flat_map(|seat| seat.groups());
        all.chain(own.iter().copied()).flat_map(|group| group.members.iter().copied()).collect()
    }

    /// Forgets whom nobody speaks of any more, and introduces this node again now and then.
    pub(crate) fn look_after_people(&mut self, now: Time, out: &mut Out) {
        let Some(ring) = self.ring_mut() else { return };
        ring.people.wanted.retain(|_, at| now.since(*at) < WANTED_FOR);
        ring.people.callers.retain(|_, at| now.since(*at) < WANTED_FOR);
        if now.since(ring.people.here_at) < HERE_EVERY {
            return;
        }
        ring.people.here_at = now;
        let mut used = ring.members();
        used.extend(self.replicas.values().flat_map(|replica| replica.log().peer_ids()));
        let Some(roster) = &mut self.roster else { return };
        let Some(ring) = &mut roster.ring else { return };
        let (wanted, callers, connected) = (&ring.people.wanted, &ring.people.callers, &self.connected);
        let is_wanted = |id: &NodeId| wanted.contains_key(id) || callers.contains_key(id);
        let is_used = |id: &NodeId| used.contains(id) || connected.contains(id) || is_wanted(id);
        // While nothing is known of groups, whoever was once named may help.
        if !used.is_empty() {
            ring.people.known.retain(|id, _| is_used(id));
        }
        let words: Vec<Word> = [Word::Here(self.myself())].into_iter().chain(self.lived()).collect();
        let chosen = self.ring().map(|ring| &ring.people.chosen);
        for peer in chosen.into_iter().flatten() {
            for word in &words {
                // Says only who and where this node is, and what it has seen.
                out.send_early(*peer, Message::Group(Box::new(word.clone())));
            }
        }
    }

    /// Says whom this node wants to be connected to, soon after that may have changed, and now and then.
    pub(crate) fn look_after_connections(&mut self, now: Time, out: &mut Out) {
        let Some(ring) = self.ring_mut() else { return };
        let patience = match ring.people.is_news {
            // Among so many somebody comes or goes all the time, and mostly it does not matter here.
            true if ring.people.known.len() > CONNECTIONS_MAX => 4 * CONNECT_SOON,
            true => CONNECT_SOON,
            false => CONNECT_EVERY,
        };
        if now.since(ring.people.connected_at) >= patience {
            ring.people.connected_at = now;
            ring.people.is_news = false;
            self.tell_peers_now(out);
        }
    }
}

impl Ring {
    /// The members of all groups that are known.
    pub(crate) fn members(&self) -> BTreeSet<NodeId> {
        self.groups().flat_map(|group| group.members.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn place_at(host: &str) -> Place<Bytes> {
        Person::stranger(fixture::member_at(1, host)).place()
    }

    #[test]
    fn nodes_of_one_network_are_nearer_to_each_other() {
        let prefix = |host: &str| place_at(host).prefix;
        assert_eq!(prefix("10.1.2.3"), prefix("10.1.2.200"));
        assert_ne!(prefix("10.1.2.3"), prefix("10.1.3.3"));
        assert_eq!(prefix("[2001:db8:7:1::3]"), prefix("[2001:db8:7:ffff::1]"));
        assert_ne!(prefix("[2001:db8:7::3]"), prefix("[2001:db8:8::3]"));
        assert_eq!(prefix("[::ffff:10.1.2.9]"), prefix("10.1.2.3"), "the same address, written otherwise");
        for nowhere in ["127.0.0.1", "127.9.0.1", "[::1]", "localhost", "node-1.rack-2", "[2001", ""] {
            assert_eq!(prefix(nowhere), Bytes::new(), "{nowhere}");
        }
    }

    #[test]
    fn ports_make_no_other_machine() {
        assert_eq!(place_at("10.1.2.3").host, "10.1.2.3");
        assert_eq!(place_at("[2001:db8:7::3]").host, "[2001:db8:7::3]");
        assert_eq!(place_at("node-1.rack-2").host, "node-1.rack-2");
    }
}
