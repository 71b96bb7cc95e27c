//! The map that clients of the cluster view are shown, made of what the node believes.

use std::collections::BTreeSet;

use quorate_kernel::NodeId;
use quorate_node::{BucketStatus, Map};
use quorate_resp::{ClusterMap, MapBucket, MapNode};

/// The map as it was last, and what it was made of.
#[derive(Debug, Default)]
pub(crate) struct MapKeeper {
    /// What clients are shown; `None`: this node is no member, or knows no door of any.
    pub(crate) map: Option<ClusterMap>,
    /// Whom the node believed to lead, bucket by bucket.
    leaders: Vec<Option<NodeId>>,
    /// Who led each bucket last, for as long as nobody does.
    leaders_last: Vec<Option<NodeId>>,
    /// Members or connections may have changed.
    stale: bool,
}

impl MapKeeper {
    /// Something besides the leaders may have changed.
    pub(crate) fn doubt(&mut self) {
        self.stale = true;
    }

    /// Sees to it that the map shows these leaders; `read` is asked for the rest if something has changed.
    pub(crate) fn refresh(
        &mut self,
        me: NodeId,
        leaders: impl Iterator<Item = Option<NodeId>>,
        read: impl FnOnce() -> Map,
    ) {
        let before = self.leaders.len();
        let mut count = 0;
        for leader in leaders {
            match self.leaders.get_mut(count) {
                Some(known) if *known == leader => {}
                Some(known) => (*known, self.stale) = (leader, true),
                None => self.leaders.push(leader),
            }
            count += 1;
        }
        self.stale |= count != before;
        self.leaders.truncate(count);
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.leaders_last.resize(count, None);
        for (last, leader) in self.leaders_last.iter_mut().zip(&self.leaders) {
            *last = leader.or(*last);
        }
        self.map = shown(me, &read(), &self.leaders_last);
    }
}

/// The host and the port of an address.
fn parts(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?))
}

/// The map for clients; `leaders` are the last that were known.
fn shown(me: NodeId, map: &Map, leaders: &[Option<NodeId>]) -> Option<ClusterMap> {
    let nodes = map.members.iter().filter_map(|member| {
        let (host, port) = parts(&member.endpoints.cluster)?;
        Some(MapNode {
            id: member.id.0,
            host: host.to_owned(),
            port,
            peer_port: parts(&member.endpoints.peer).map_or(0, |(_, port)| port),
            reachable: map.reachable.contains(&member.id),
        })
    });
    let mut nodes: Vec<MapNode> = nodes.collect();
    nodes.sort_by_key(|node| node.id);
    let place = |id: NodeId| nodes.iter().position(|node| node.id == id.0);
    let my_place = place(me)?;
    let bucket = |(status, last): (&BucketStatus, &Option<NodeId>)| {
        let stands = |place: &usize| nodes.get(*place).is_some_and(|node| node.reachable);
        // Where the last leader cannot be reached, this node passes requests on as soon as there is another.
        let primary = last.and_then(place).filter(stands).unwrap_or(my_place);
        let copies = status.members.iter().filter_map(|id| place(*id));
        MapBucket {
            slots: status.slot_first..status.slot_last + 1,
            primary,
            replicas: copies.collect(),
            led: status.believed_leader.and_then(place) == Some(primary),
            here: status.here,
            quorum: status.quorum,
        }
    };
    let mut buckets: Vec<MapBucket> = map.buckets.iter().zip(leaders).map(bucket).collect();
    // Clients take a node for a primary or for a replica, never for both: who leads anything is a primary.
    let primaries: BTreeSet<usize> = buckets.iter().map(|bucket| bucket.primary).collect();
    for bucket in &mut buckets {
        bucket.replicas.retain(|replica| !primaries.contains(replica));
    }
    Some(ClusterMap { epoch: map.epoch, me: my_place, nodes, buckets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::Bucket;
    use quorate_node::{Endpoints, Member};

    fn map(leader: Option<u64>, reachable: &[u64]) -> Map {
        let member = |id: u64| Member {
            id: NodeId(id),
            endpoints: Endpoints {
                peer: format!("p:{id}"),
                cluster: format!("[::1]:{id}"),
                ..Endpoints::default()
            }
            .into(),
        };
        let bucket = BucketStatus {
            bucket: Bucket(0),
            slot_first: 0,
            slot_last: 16_383,
            believed_leader: leader.map(NodeId),
            members: (1..=3).map(NodeId).collect(),
            quorum: true,
            here: true,
            epoch: 1,
            log_last: 0,
            log_chosen: 0,
            log_applied: 0,
            keys: 0,
            halt: None,
        };
        Map {
            epoch: 1,
            members: (1..=3).map(member).collect(),
            reachable: reachable.iter().copied().map(NodeId).collect(),
            buckets: vec![bucket],
        }
    }

    /// Primary, and whether clients are sent to it.
    fn seen(keeper: &mut MapKeeper, leader: Option<u64>, reachable: &[u64]) -> (usize, bool) {
        let leaders = [leader.map(NodeId)].into_iter();
        keeper.refresh(NodeId(2), leaders, || map(leader, reachable));
        let bucket = &keeper.map.as_ref().expect("a map").buckets[0];
        (bucket.primary, bucket.led)
    }

    #[test]
    fn the_last_leader_is_shown_until_there_is_another_or_it_is_gone() {
        let mut keeper = MapKeeper::default();
        assert_eq!(seen(&mut keeper, Some(1), &[1, 2, 3]), (0, true));
        assert_eq!(seen(&mut keeper, None, &[1, 2, 3]), (0, false));
        assert_eq!(seen(&mut keeper, None, &[2, 3]), (0, false), "nothing said that anything has changed");
        keeper.doubt();
        assert_eq!(seen(&mut keeper, None, &[2, 3]), (1, false), "this node passes on");
        assert_eq!(seen(&mut keeper, Some(3), &[2, 3]), (2, true));
        let node = &keeper.map.as_ref().expect("a map").nodes[2];
        assert_eq!((node.host.as_str(), node.port, node.peer_port), ("::1", 3, 3));
    }

    #[test]
    fn a_node_without_a_door_has_no_map() {
        assert_eq!(shown(NodeId(9), &map(Some(1), &[1]), &[Some(NodeId(1))]), None);
    }
}
