//! The cluster as Redis Cluster clients are shown it: who leads which slots, and where.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Which node leads which slots, as one node believes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterMap {
    /// Number of the member list.
    pub epoch: u64,
    /// This node's place among `nodes`.
    pub me: usize,
    /// The nodes with a door for Redis Cluster clients, by id.
    pub nodes: Vec<MapNode>,
    /// The buckets in the order of their slots, which leave no gap.
    pub buckets: Vec<MapBucket>,
}

/// A node of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapNode {
    /// Its id.
    pub id: u64,
    /// Host of its door for Redis Cluster clients, without brackets.
    pub host: String,
    /// Port of that door.
    pub port: u16,
    /// Port at which other nodes reach it; 0: unknown.
    pub peer_port: u16,
    /// Whether this node is connected to it (or is it).
    pub reachable: bool,
}

/// A bucket of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapBucket {
    /// Its slots.
    pub slots: Range<u16>,
    /// Whom clients are sent to: the leader; while none is known or reachable, some node that passes requests on. A place
    /// among `nodes`.
    pub primary: usize,
    /// Those that hold a copy and are the primary of nothing, as places among `nodes`.
    pub replicas: Vec<usize>,
    /// Whether the primary is known to lead, so that sending clients there shortens their way.
    pub led: bool,
    /// Whether this node holds a copy.
    pub here: bool,
    /// Whether it is led and enough of its members can be reached, as far as this node sees.
    pub quorum: bool,
}

impl MapNode {
    /// The 40 hexadecimal digits by which clients know it.
    pub(crate) fn name(&self) -> String {
        format!("{:040x}", self.id)
    }

    /// `host:port` as MOVED tells it; an IPv6 address stands there without brackets, as in Redis.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Where a command belongs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is served here, if need be with the help of others.
    Here,
    /// The client should send it there.
    Moved(String),
}

impl ClusterMap {
    /// The bucket of a slot.
    pub(crate) fn bucket(&self, slot: u16) -> Option<&MapBucket> {
        let at = self.buckets.partition_point(|bucket| bucket.slots.end <= slot);
        self.buckets.get(at)
    }

    /// The way of a command with keys in these slots; `copies`: a read, of a client that said READONLY.
    pub(crate) fn way(&self, mut slots: impl Iterator<Item = u16>, copies: bool) -> Way {
        let Some((slot, bucket)) = slots.next().and_then(|slot| Some((slot, self.bucket(slot)?))) else {
            return Way::Here;
        };
        // Over several buckets nobody is nearer than this node.
        if bucket.primary == self.me || !slots.all(|slot| bucket.slots.contains(&slot)) {
            return Way::Here;
        }
        match self.nodes.get(bucket.primary) {
            _ if copies && bucket.here => Way::Here,
            Some(primary) if bucket.led && primary.reachable => {
                Way::Moved(format!("MOVED {slot} {}", primary.address()))
            }
            // Nobody is known to lead: the request waits here until somebody does.
            _ => Way::Here,
        }
    }

    /// The slots of which a node is the primary.
    pub(crate) fn slots_of(&self, node: usize) -> impl Iterator<Item = &MapBucket> {
        self.buckets.iter().filter(move |bucket| bucket.primary == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    pub(crate) fn map() -> ClusterMap {
        let node = |id: u64| MapNode {
            id,
            host: "h".into(),
            port: 6370 + id as u16,
            peer_port: 7370 + id as u16,
            reachable: true,
        };
        let bucket = |slots: Range<u16>, primary: usize| MapBucket {
            slots,
            primary,
            replicas: (0..3).filter(|place| *place != primary).collect(),
            led: true,
            here: true,
            quorum: true,
        };
        let buckets = vec![bucket(0..100, 0), bucket(100..200, 1), bucket(200..16_384, 2)];
        ClusterMap { epoch: 1, me: 0, nodes: (1..=3).map(node).collect(), buckets }
    }

    #[test]
    fn clients_are_sent_to_who_leads_the_only_bucket() {
        let way = |slots: &[u16], copies| map().way(slots.iter().copied(), copies);
        assert_eq!(way(&[], false), Way::Here);
        assert_eq!(way(&[0, 99], false), Way::Here);
        assert_eq!(way(&[100, 199], false), Way::Moved("MOVED 100 h:6372".into()));
        assert_eq!(way(&[16_383], false), Way::Moved("MOVED 16383 h:6373".into()));
        assert_eq!(way(&[199, 200], false), Way::Here, "over several buckets");
        assert_eq!(way(&[150], true), Way::Here, "there is a copy");
        assert_eq!(way(&[50], true), Way::Here);
        assert_eq!(way(&[150, 250], true), Way::Here);
    }

    #[test]
    fn nobody_is_sent_where_nobody_is_known_to_serve() {
        let mut map = map();
        map.buckets[1].led = false;
        map.nodes[2].reachable = false;
        map.buckets[2].here = false;
        assert_eq!(map.way([150].into_iter(), false), Way::Here);
        assert_eq!(map.way([250].into_iter(), false), Way::Here);
        assert_eq!(map.way([250].into_iter(), true), Way::Here, "and there is no copy");
        map.nodes[2].reachable = true;
        assert_eq!(
            map.way([250].into_iter(), true),
            Way::Moved("MOVED 250 h:6373".into()),
            "there is none here"
        );
        assert_eq!(ClusterMap::default().way([1].into_iter(), false), Way::Here);
    }
}
