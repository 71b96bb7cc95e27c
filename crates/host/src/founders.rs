//! The first members of a cluster, as a configuration lists them.

use quorate_kernel::{ClusterId, NodeId};
use quorate_node::{BUCKETS_MAX, COPIES_MAX, Endpoints, LABEL_BYTES_MAX, Member};

use crate::config::Config;

/// The members that `cluster.members` lists.
///
/// # Errors
/// What is wrong, one sentence each.
pub(crate) fn parse(list: &[String]) -> Result<Vec<Member>, Vec<String>> {
    let (mut members, mut complaints) = (Vec::<Member>::new(), Vec::new());
    for text in list {
        match one(text) {
            Ok(member) => {
                let is_twin =
                    |other: &&Member| other.id == member.id || other.endpoints.peer == member.endpoints.peer;
                if let Some(twin) = members.iter().find(is_twin) {
                    complaints
                        .push(format!("cluster.members names node {} or its peer address twice", twin.id));
                }
                members.push(member);
            }
            Err(reason) => complaints.push(format!("cluster.members has \"{text}\": {reason}")),
        }
    }
    members.sort();
    if complaints.is_empty() { Ok(members) } else { Err(complaints) }
}

fn one(text: &str) -> Result<Member, &'static str> {
    const FORM: &str = "write ID@PEER or ID@PEER/CLIENT/ADMIN/CLUSTER, each address as host:port";
    let (id, addresses) = text.split_once('@').ok_or(FORM)?;
    let id = id.parse().ok().filter(|id| *id > 0).ok_or("the id must be a number above 0")?;
    let mut addresses = addresses.split('/');
    let mut next = || addresses.next().unwrap_or_default().to_owned();
    let endpoints = Endpoints { peer: next(), client: next(), admin: next(), cluster: next() };
    let is_address = |text: &str| {
        text.rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    let optional = [&endpoints.client, &endpoints.admin, &endpoints.cluster];
    if !is_address(&endpoints.peer) || !optional.iter().all(|text| text.is_empty() || is_address(text)) {
        return Err(FORM);
    }
    if addresses.next().is_some() {
        return Err(FORM);
    }
    Ok(Member { id: NodeId(id), endpoints: endpoints.into() })
}

/// What is wrong with the fields that say what a new node is.
pub(crate) fn complaints(config: &Config) -> Vec<String> {
    let cluster = &config.cluster;
    let mut complaints = Vec::new();
    if !cluster.id.is_empty() && parse_id(&cluster.id).is_none() {
        complaints
            .push(format!("cluster.id = \"{}\": write 1 to 16 hexadecimal digits, not all 0", cluster.id));
    }
    if cluster.buckets > BUCKETS_MAX {
        complaints.push(format!(
            "cluster.buckets = {}: a cluster has 1 to {BUCKETS_MAX} buckets (0: as it was founded)",
            cluster.buckets
        ));
    }
    if cluster.copies > COPIES_MAX {
        complaints.push(format!(
            "cluster.copies = {}: a bucket has 1 to {COPIES_MAX} copies (0: all nodes hold everything)",
            cluster.copies
        ));
    }
    for (name, label) in [("zone", &cluster.zone), ("rack", &cluster.rack)] {
        if label.len() > LABEL_BYTES_MAX {
            complaints.push(format!("cluster.{name} is longer than {LABEL_BYTES_MAX} bytes: shorten it"));
        }
    }
    if cluster.members.is_empty() {
        return complaints;
    }
    if !cluster.join.is_empty() {
        complaints.push(
            "cluster.join and cluster.members are both set: a new node joins or founds, not both".into(),
        );
    }
    match parse(&cluster.members) {
        Ok(members) if !members.iter().any(|member| member.id.0 == cluster.node) => complaints.push(format!(
            "cluster.node = {} is not in cluster.members: say which of them this node is",
            cluster.node
        )),
        Ok(_) => {}
        Err(mistakes) => complaints.extend(mistakes),
    }
    complaints
}

fn parse_id(text: &str) -> Option<ClusterId> {
    u64::from_str_radix(text, 16).ok().filter(|id| *id > 0).map(ClusterId)
}

/// The id of the cluster that these members found: the one that is configured, or else one that follows from the
/// list, so that all of them come to the same.
pub(crate) fn cluster_id(configured: &str, members: &[Member]) -> ClusterId {
    /// Offset and prime of the hash FNV-1a.
    const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);
    parse_id(configured).unwrap_or_else(|| {
        let bytes = quorate_kernel::wire::encode(&members);
        let hash = bytes.iter().fold(FNV.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV.1));
        ClusterId((hash >> 11).max(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn lists_are_read_in_any_order() {
        let one = parse(&list(&["2@b:1", "1@[::1]:1/a:2/a:3"])).expect("a list");
        assert_eq!(one[0].id, NodeId(1));
        assert_eq!(one[0].endpoints.peer, "[::1]:1");
        assert_eq!(one[0].endpoints.admin, "a:3");
        assert_eq!(one[0].endpoints.cluster, "");
        let other = parse(&list(&["1@[::1]:1/a:2/a:3", "2@b:1"])).expect("a list");
        assert_eq!(cluster_id("", &one), cluster_id("", &other));
        assert_ne!(cluster_id("", &one), cluster_id("", &one[..1]));
        assert_eq!(cluster_id("1f", &one), ClusterId(31));
    }

    #[test]
    fn all_mistakes_are_named() {
        let bad = [
            "1",
            "x@a:1",
            "0@a:1",
            "1@a",
            "1@:1",
            "1@a:0",
            "1@a:1/b",
            "1@a:1/b:1/c:1/d",
            "1@a:1/b:1/c:1/d:1/e:1",
        ];
        let complaints = parse(&list(&bad)).expect_err("bad lists");
        assert_eq!(complaints.len(), bad.len(), "{complaints:?}");
        assert_eq!(parse(&list(&["1@a:1", "1@b:1"])).expect_err("twins").len(), 1);
        assert_eq!(parse(&list(&["1@a:1", "2@a:1"])).expect_err("twins").len(), 1);
        let mut config = Config::default();
        config.cluster.members = list(&["1@a:1"]);
        config.cluster.node = 2;
        config.cluster.id = "xyz".into();
        config.cluster.join = list(&["b:1"]);
        config.cluster.buckets = BUCKETS_MAX + 1;
        assert_eq!(super::complaints(&config).len(), 4);
        config.cluster.buckets = BUCKETS_MAX;
        config.cluster.node = 1;
        config.cluster.id.clear();
        config.cluster.join.clear();
        assert_eq!(super::complaints(&config), Vec::<String>::new());
    }
}
