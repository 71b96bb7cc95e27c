//! Who leads which slots, as a node last told it.

use quorate_api::Reply;

/// A range of slots, both ends included, and the door of the node that leads it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    address: String,
}

/// The map; empty if nobody told one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Map {
    /// In the order of their slots.
    ranges: Vec<Range>,
}

impl Map {
    /// Reads the answer to CLUSTER SLOTS that came from `teller`; `None` if it is none.
    pub(crate) fn read(reply: &Reply, teller: &str) -> Option<Map> {
        let Reply::Array(rows) = reply else { return None };
        let mut ranges = rows.iter().map(|row| read_range(row, teller)).collect::<Option<Vec<_>>>()?;
        ranges.sort_by_key(|range| range.first);
        let apart = ranges.is_sorted_by(|one, next| one.last < next.first);
        apart.then_some(Map { ranges })
    }

    /// The door of the node that leads `slot`.
    pub(crate) fn leader(&self, slot: u16) -> Option<&str> {
        let at = self.ranges.partition_point(|range| range.last < slot);
        let range = self.ranges.get(at).filter(|range| range.first <= slot)?;
        Some(&range.address)
    }

    /// All doors that are named in it.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.ranges.iter().map(|range| range.address.as_str())
    }

    /// A node said who leads `slot`.
    pub(crate) fn correct(&mut self, slot: u16, address: &str) {
        let range = self.ranges.iter_mut().find(|range| (range.first..=range.last).contains(&slot));
        if let Some(range) = range {
            range.address = address.to_owned();
        }
    }
}

fn read_range(row: &Reply, teller: &str) -> Option<Range> {
    let Reply::Array(items) = row else { return None };
    let [first, last, Reply::Array(primary), ..] = &items[..] else { return None };
    let [host, port, ..] = &primary[..] else { return None };
    let (first, last) = (number(first)?, number(last)?);
    let port = number(port)?;
    let host = match host {
        Reply::Bulk(host) => std::str::from_utf8(host).ok()?,
        Reply::Nil => "",
        _ => return None,
    };
    // A node that does not know its own name leaves it out.
    let host = if host.is_empty() { teller.rsplit_once(':').map_or(teller, |(host, _)| host) } else { host };
    (first <= last).then(|| Range { first, last, address: join(host, port) })
}

fn number(reply: &Reply) -> Option<u16> {
    match reply {
        Reply::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

fn join(host: &str, port: u16) -> String {
    let bare = host.contains(':') && !host.starts_with('[');
    if bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The address that MOVED tells: there a host of IPv6 has no brackets.
pub(crate) fn of_moved(address: &str) -> Option<String> {
    let (host, port) = address.rsplit_once(':')?;
    Some(join(host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: i64, last: i64, host: &'static str, port: i64) -> Reply {
        let node = |port| Reply::Array(vec![Reply::bulk(host), Reply::Int(port), Reply::bulk("id")]);
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), node(port), node(port + 1)])
    }

    #[test]
    fn each_slot_has_the_leader_that_was_told() {
        let told = Reply::Array(vec![row(100, 16_383, "::1", 7), row(0, 99, "a", 6), row(0, 0, "", 0)]);
        assert_eq!(Map::read(&told, "t:1"), None, "they overlap");
        let told = Reply::Array(vec![row(100, 200, "::1", 7), row(0, 99, "", 6)]);
        let mut map = Map::read(&told, "teller:1").expect("a map");
        assert_eq!((map.leader(0), map.leader(99)), (Some("teller:6"), Some("teller:6")));
        assert_eq!((map.leader(100), map.leader(201)), (Some("[::1]:7"), None));
        map.correct(150, "b:8");
        map.correct(300, "c:9");
        assert_eq!(map.addresses().collect::<Vec<_>>(), ["teller:6", "b:8"]);
        assert_eq!(Map::default().leader(5), None);
        assert_eq!(of_moved("::1:6380").as_deref(), Some("[::1]:6380"));
        assert_eq!(of_moved("nonsense"), None);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for bad in [
            Reply::error("ERR This instance has cluster support disabled"),
            Reply::Array(vec![Reply::Int(1)]),
            Reply::Array(vec![row(5, 4, "a", 1)]),
            Reply::Array(vec![row(0, 70_000, "a", 1)]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]),
        ] {
            assert_eq!(Map::read(&bad, "t:1"), None, "{bad:?}");
        }
    }
}
