//! CLUSTER, READONLY, READWRITE, ASKING: the cluster view. On the standalone door they say that there is no cluster.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Reply, Request, SLOT_COUNT, key_in_slot, slot_of};

use super::{error, is, text};
use crate::map::{ClusterMap, MapBucket, MapNode};
use crate::step::What;
use crate::table::{InMulti, Local, Run};
use crate::{Session, Step, View, World, number};

pub(super) static COMMANDS: [Local; 4] = [
    connection("asking", "Has the next command served here, wherever its slot is.", asking).flags(&["fast"]),
    Local::container("cluster", "3.0.0", "A container for Redis Cluster commands.", &CLUSTER)
        .group("cluster"),
    connection("readonly", "Has this node's copies answer reads, as fresh as the primaries'.", readonly),
    connection("readwrite", "Ends what READONLY began.", readwrite),
];

const fn connection(name: &'static str, summary: &'static str, run: Run) -> Local {
    Local::new(name, 1, "3.0.0", summary, run).group("cluster").fast(&["fast", "connection"])
}

static CLUSTER: [Local; 32] = [
    placed("cluster|addslots", -3),
    placed("cluster|addslotsrange", -4),
    placed("cluster|bumpepoch", 2),
    shown("cluster|count-failure-reports", 3, "Returns 0: failures are not put to the vote.", no_reports),
    keys("cluster|countkeysinslot", 3, "Returns the number of keys in a slot.", count_keys),
    placed("cluster|delslots", -3),
    placed("cluster|delslotsrange", -4),
    placed("cluster|failover", -2),
    placed("cluster|flushslots", 2),
    placed("cluster|forget", 3),
    keys("cluster|getkeysinslot", 4, "Returns keys in a slot, 4096 at most.", get_keys),
    shown("cluster|help", 2, "Lists the subcommands.", help),
    shown("cluster|info", 2, "Returns the state of the cluster.", info),
    shown("cluster|keyslot", 3, "Returns the slot of a key.", key_slot),
    shown("cluster|links", 2, "Returns the connections to other nodes.", links),
    placed("cluster|meet", -4),
    shown("cluster|myid", 2, "Returns the id of this node.", my_id),
    shown("cluster|myshardid", 2, "Returns the id of this node.", my_id),
    shown("cluster|nodes", 2, "Returns the nodes, a line each.", nodes),
    shown("cluster|replicas", 3, "Returns the nodes with copies of what a node leads.", replicas),
    placed("cluster|replicate", 3),
    placed("cluster|reset", -2),
    placed("cluster|saveconfig", 2),
    placed("cluster|set-config-epoch", 3),
    placed("cluster|setslot", -4),
    shown("cluster|shards", 2, "Returns the nodes with their slots.", shards),
    shown("cluster|slaves", 3, "Returns the nodes with copies of what a node leads.", replicas),
    shown("cluster|slot-stats", -2, "Not available.", no_statistics),
    shown("cluster|slots", 2, "Returns the slots with their nodes.", slots),
    placed("cluster|migration", -2),
    placed("cluster|syncslots", -2),
    placed("cluster|cancelslotmigrations", 2),
];

const fn shown(name: &'static str, arity: i8, summary: &'static str, run: Run) -> Local {
    Local::new(name, arity, "3.0.0", summary, run).group("cluster").flags(&["stale"])
}

/// Asks the node, so it cannot be between the local commands of a transaction.
const fn keys(name: &'static str, arity: i8, summary: &'static str, run: Run) -> Local {
    shown(name, arity, summary, run).in_multi(InMulti::Refuse)
}

/// What would change who has which slots: that is not for clients.
const fn placed(name: &'static str, arity: i8) -> Local {
    shown(name, arity, "Not available: the cluster places its data itself.", not_for_clients).admin()
}

/// The map, or the answer that there is none.
fn map<'a>(session: &Session, world: &'a dyn World) -> Result<&'a ClusterMap, Step> {
    if session.connection.view == View::Standalone {
        return Err(error("ERR This instance has cluster support disabled"));
    }
    world
        .cluster()
        .ok_or_else(|| error("CLUSTERDOWN this node does not know its cluster yet, nothing was done"))
}

/// Runs `then` with the map.
fn with_map(session: &Session, world: &dyn World, then: impl FnOnce(&ClusterMap) -> Reply) -> Step {
    map(session, world).map_or_else(|step| step, |map| then(map).into())
}

fn asking(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    let step = with_map(session, world, |_| Reply::Ok);
    session.asking = session.connection.view == View::Cluster;
    step
}

fn readonly(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    session.readonly = session.connection.view == View::Cluster;
    with_map(session, world, |_| Reply::Ok)
}

fn readwrite(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    session.readonly = false;
    with_map(session, world, |_| Reply::Ok)
}

fn help(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    match session.connection.view {
        View::Standalone => with_map(session, world, |_| Reply::Nil),
        View::Cluster => super::help(session, words, world),
    }
}

fn not_for_clients(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    let why = "ERR the cluster places slots and replaces nodes by itself, nothing was changed; operators use \
               `quorate node` and `quorate leader`";
    with_map(session, world, |_| Reply::error(why))
}

fn no_statistics(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |_| {
        Reply::error("ERR there are no statistics by slot; look at the admin door's /status")
    })
}

fn no_reports(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| match find(map, &words[2]) {
        Ok(_) => Reply::Int(0),
        Err(reply) => reply,
    })
}

fn key_slot(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |_| Reply::Int(slot_of(&words[2]).into()))
}

fn my_id(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| map.nodes.get(map.me).map_or(Reply::Nil, |me| Reply::bulk(me.name())))
}

/// Asks the node for keys of a slot, by a key that lies in it.
fn ask(session: &mut Session, words: &[Bytes], world: &dyn World, name: &str) -> Step {
    if let Err(step) = map(session, world) {
        return step;
    }
    let slot = number::integer(&words[2]).and_then(|slot| u16::try_from(slot).ok());
    let Some(slot) = slot.filter(|slot| *slot < SLOT_COUNT) else {
        return error("ERR Invalid or out of range slot");
    };
    let mut args = vec![Bytes::copy_from_slice(&key_in_slot(slot))];
    if let Some(count) = words.get(3) {
        if number::integer(count).is_none_or(|count| count < 0) {
            return error("ERR Invalid number of keys");
        }
        args.push(count.clone());
    }
    let Some(spec) = quorate_values::find(name.as_bytes()) else { unreachable!("{name} is in the table") };
    let command = Command { code: spec.code, args };
    session.submit(Request::One(command), session.consistency, What::Plain)
}

fn count_keys(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    ask(session, words, world, "slot|count")
}

fn get_keys(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    ask(session, words, world, "slot|keys")
}

fn info(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let slots = |good: bool| -> usize {
            map.buckets.iter().filter(|bucket| bucket.quorum == good).map(|bucket| bucket.slots.len()).sum()
        };
        let primaries = (0..map.nodes.len()).filter(|node| map.slots_of(*node).next().is_some()).count();
        let lines = [
            ("cluster_enabled", "1".to_string()),
            ("cluster_state", if slots(false) == 0 { "ok".into() } else { "fail".into() }),
            ("cluster_slots_assigned", SLOT_COUNT.to_string()),
            ("cluster_slots_ok", slots(true).to_string()),
            ("cluster_slots_pfail", "0".into()),
            ("cluster_slots_fail", slots(false).to_string()),
            ("cluster_known_nodes", map.nodes.len().to_string()),
            ("cluster_size", primaries.to_string()),
            ("cluster_current_epoch", map.epoch.to_string()),
            ("cluster_my_epoch", map.epoch.to_string()),
            ("cluster_stats_messages_sent", "0".into()),
            ("cluster_stats_messages_received", "0".into()),
        ];
        let text: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        Reply::Verbatim(*b"txt", text.into())
    })
}

/// The place of the node that a client names.
fn find(map: &ClusterMap, name: &[u8]) -> Result<usize, Reply> {
    let found = map.nodes.iter().position(|node| is(name, &node.name()));
    found.ok_or_else(|| Reply::error(format!("ERR Unknown node {}", text(&name[..name.len().min(64)]))))
}

/// Whose replica a node is said to be: nobody's if it leads anything.
fn primary_of(map: &ClusterMap, node: usize) -> Option<usize> {
    if map.slots_of(node).next().is_some() {
        return None;
    }
    map.buckets.iter().find(|bucket| bucket.replicas.contains(&node)).map(|bucket| bucket.primary)
}

/// A node as CLUSTER NODES shows it, as a replica of `primary` if there is one.
fn line(map: &ClusterMap, place: usize, primary: Option<usize>) -> String {
    let Some(node) = map.nodes.get(place) else { return String::new() };
    let myself = if place == map.me { "myself," } else { "" };
    let role = if primary.is_some() { "slave" } else { "master" };
    let (fail, link) = if node.reachable { ("", "connected") } else { (",fail", "disconnected") };
    let above = primary.and_then(|primary| map.nodes.get(primary)).map_or("-".into(), MapNode::name);
    let mut line = format!(
        "{} {}@{} {myself}{role}{fail} {above} 0 0 {} {link}",
        node.name(),
        node.address(),
        node.peer_port,
        map.epoch
    );
    if primary.is_none() {
        for MapBucket { slots, .. } in map.slots_of(place) {
            line.push_str(&match (slots.start, slots.end - 1) {
                (first, last) if first == last => format!(" {first}"),
                (first, last) => format!(" {first}-{last}"),
            });
        }
    }
    line
}

fn nodes(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let lines = (0..map.nodes.len()).map(|place| line(map, place, primary_of(map, place)) + "\n");
        Reply::Verbatim(*b"txt", lines.collect::<String>().into())
    })
}

fn replicas(session: &mut Session, words: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let primary = match find(map, &words[2]) {
            Ok(primary) => primary,
            Err(reply) => return reply,
        };
        if map.slots_of(primary).next().is_none() {
            return Reply::error("ERR The specified node is not a master");
        }
        let holds = |node: &usize| map.slots_of(primary).any(|bucket| bucket.replicas.contains(node));
        let lines = (0..map.nodes.len()).filter(holds).map(|node| line(map, node, Some(primary)));
        Reply::Array(lines.map(Reply::bulk).collect())
    })
}

fn slots(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let node = |place: &usize| {
            let node = map.nodes.get(*place)?;
            let (host, port) = (Reply::bulk(node.host.clone()), Reply::Int(node.port.into()));
            Some(Reply::Array(vec![host, port, Reply::bulk(node.name()), Reply::Array(Vec::new())]))
        };
        let range = |bucket: &MapBucket| {
            let ends = [bucket.slots.start, bucket.slots.end - 1].map(|slot| Reply::Int(slot.into()));
            let standing = |place: &&usize| map.nodes.get(**place).is_some_and(|node| node.reachable);
            let replicas = bucket.replicas.iter().filter(standing);
            let nodes = [&bucket.primary].into_iter().chain(replicas).filter_map(node);
            Reply::Array(ends.into_iter().chain(nodes).collect())
        };
        Reply::Array(map.buckets.iter().map(range).collect())
    })
}

fn pairs<const N: usize>(pairs: [(&'static str, Reply); N]) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

/// A shard is a node that leads something, with those that hold copies of that.
fn shards(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let node = |place: usize, role: &'static str| {
            let node = map.nodes.get(place)?;
            let health = if node.reachable { "online" } else { "fail" };
            Some(pairs([
                ("id", Reply::bulk(node.name())),
                ("port", Reply::Int(node.port.into())),
                ("ip", Reply::bulk(node.host.clone())),
                ("endpoint", Reply::bulk(node.host.clone())),
                ("role", Reply::bulk(role)),
                ("replication-offset", Reply::Int(0)),
                ("health", Reply::bulk(health)),
            ]))
        };
        let shard = |primary: usize| {
            let ends = |bucket: &MapBucket| [bucket.slots.start, bucket.slots.end - 1];
            let slots = map.slots_of(primary).flat_map(ends).map(|slot| Reply::Int(slot.into()));
            let holds = |node: &usize| map.slots_of(primary).any(|bucket| bucket.replicas.contains(node));
            let replicas = (0..map.nodes.len()).filter(holds).filter_map(|place| node(place, "replica"));
            let nodes = node(primary, "master").into_iter().chain(replicas);
            pairs([("slots", Reply::Array(slots.collect())), ("nodes", Reply::Array(nodes.collect()))])
        };
        let primaries = (0..map.nodes.len()).filter(|node| map.slots_of(*node).next().is_some());
        Reply::Array(primaries.map(shard).collect())
    })
}

fn links(session: &mut Session, _: &[Bytes], world: &dyn World) -> Step {
    with_map(session, world, |map| {
        let others = map.nodes.iter().enumerate().filter(|(place, node)| *place != map.me && node.reachable);
        let link = |(_, node): (usize, &MapNode)| {
            pairs([
                ("direction", Reply::bulk("to")),
                ("node", Reply::bulk(node.name())),
                ("create-time", Reply::Int(0)),
                ("events", Reply::bulk("rw")),
                ("send-buffer-allocated", Reply::Int(0)),
                ("send-buffer-used", Reply::Int(0)),
            ])
        };
        Reply::Array(others.map(link).collect())
    })
}
