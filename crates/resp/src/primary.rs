//! Commands about all keys, on the cluster view: each node answers for the buckets of which it is the primary, because
//! clients of Redis Cluster ask all primaries and put the answers together.
//!
//! A node that is the primary of everything, or of nothing, answers for all.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Command, Outcome, Reply, Request, key_in_slot};

use crate::map::{ClusterMap, MapBucket};
use crate::session::reply_of;

/// How the replies of the buckets become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Join {
    /// Numbers that are added up.
    Sum,
    /// Arrays, one behind the other.
    Concatenation,
    /// A step of SCAN; when the bucket has no more, it goes on at this position. 0: it ends there.
    Scan(u64),
}

/// Where a slot begins on the ring; one place further for the end of the last.
fn begin(slot: u16) -> u128 {
    const LOW_BITS: u32 = 50;
    u128::from(slot) << LOW_BITS
}

/// A command for one bucket, which is named by a key in it.
fn command(name: &str, bucket: &MapBucket, args: &[Bytes]) -> Command {
    let Some(spec) = quorate_values::find(name.as_bytes()) else { unreachable!("{name} is in the table") };
    let key = Bytes::copy_from_slice(&key_in_slot(bucket.slots.start));
    Command { code: spec.code, args: [&[key], args].concat() }
}

/// The request for a command about all keys, if it is one and this node does not answer it for all.
pub(crate) fn request(map: &ClusterMap, name: &str, args: &[Bytes]) -> Option<(Request, Join)> {
    let mine: Vec<&MapBucket> = map.slots_of(map.me).collect();
    if mine.is_empty() || mine.len() == map.buckets.len() {
        return None;
    }
    let all = |name: &str| {
        let commands = mine.iter().map(|bucket| command(name, bucket, args)).collect();
        Request::Transaction { watched: Vec::new(), commands }
    };
    match name {
        "dbsize" => Some((all("bucket|size"), Join::Sum)),
        "keys" => Some((all("bucket|keys"), Join::Concatenation)),
        "scan" => scan(&mine, args),
        _ => None,
    }
}

/// Cursors are positions on the ring, so that each names the bucket in which it goes on.
fn scan(mine: &[&MapBucket], args: &[Bytes]) -> Option<(Request, Join)> {
    let text = args.first().and_then(|cursor| core::str::from_utf8(cursor).ok())?;
    let cursor: u64 = text.parse().ok()?;
    let mut rest = mine.iter().skip_while(|bucket| begin(bucket.slots.end) <= u128::from(cursor));
    // Beyond the last there is nothing, which the last says as well.
    let bucket = rest.next().or(mine.last())?;
    let position = |bucket: &&&MapBucket| u64::try_from(begin(bucket.slots.start)).unwrap_or(0);
    let from = cursor.max(position(&bucket));
    let args = [&[Bytes::from(format!("{from}"))], &args[1..]].concat();
    let next = rest.next().map_or(0, |next| position(&next));
    Some((Request::One(command("bucket|scan", bucket, &args)), Join::Scan(next)))
}

/// The reply for the outcome of such a request.
pub(crate) fn join(join: &Join, outcome: Outcome) -> Reply {
    let replies = match outcome {
        Outcome::Done(Reply::Array(replies)) => replies,
        other => return reply_of(other),
    };
    match join {
        Join::Scan(next) => match replies.as_slice() {
            [Reply::Bulk(cursor), keys] if cursor.as_ref() == b"0" => {
                Reply::Array(vec![Reply::bulk(format!("{next}")), keys.clone()])
            }
            _ => Reply::Array(replies),
        },
        Join::Sum | Join::Concatenation => {
            if let Some(error) = replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
                return error.clone();
            }
            let (mut sum, mut items) = (0, Vec::new());
            for reply in replies {
                match reply {
                    Reply::Int(number) => sum += number,
                    Reply::Array(keys) => items.extend(keys),
                    _ => {}
                }
            }
            if *join == Join::Sum { Reply::Int(sum) } else { Reply::Array(items) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::slot_of;

    fn map(primaries: &[usize]) -> ClusterMap {
        let bucket = |(at, primary): (usize, &usize)| MapBucket {
            slots: at as u16 * 100..(at as u16 + 1) * 100,
            primary: *primary,
            replicas: Vec::new(),
            led: true,
            here: true,
            quorum: true,
        };
        let buckets = primaries.iter().enumerate().map(bucket).collect();
        ClusterMap { buckets, ..ClusterMap::default() }
    }

    fn cursor(request: &Request) -> (u16, u64) {
        let Request::One(command) = request else { panic!("one command: {request:?}") };
        let text = core::str::from_utf8(&command.args[1]).unwrap();
        (slot_of(&command.args[0]), text.parse().unwrap())
    }

    #[test]
    fn a_scan_goes_through_the_buckets_of_this_node_alone() {
        let map = map(&[1, 0, 1, 0]);
        let scan = |cursor: &'static str| request(&map, "scan", &[Bytes::from(cursor)]).unwrap();
        let (first, next) = scan("0");
        assert_eq!(cursor(&first), (100, 100 << 50));
        assert_eq!(next, Join::Scan(300 << 50));
        let (second, next) = scan("337769972052787200");
        assert_eq!((cursor(&second), next), ((300, 300 << 50), Join::Scan(0)));
        let step = |text: &'static str| Outcome::Done(Reply::Array(vec![Reply::bulk(text), Reply::Nil]));
        assert_eq!(join(&Join::Scan(7), step("5")), Reply::Array(vec![Reply::bulk("5"), Reply::Nil]));
        assert_eq!(join(&Join::Scan(7), step("0")), Reply::Array(vec![Reply::bulk("7"), Reply::Nil]));
        assert!(request(&map, "scan", &[Bytes::from("x")]).is_none(), "it is refused as elsewhere");
    }

    #[test]
    fn sizes_are_added_up_over_the_buckets_of_this_node() {
        let (request_, how) = request(&map(&[0, 1, 0]), "dbsize", &[]).unwrap();
        let Request::Transaction { commands, .. } = request_ else { panic!("several") };
        let slots: Vec<u16> = commands.iter().map(|command| slot_of(&command.args[0])).collect();
        assert_eq!(slots, [0, 200]);
        let all = Outcome::Done(Reply::Array(vec![Reply::Int(2), Reply::Int(3)]));
        assert_eq!(join(&how, all), Reply::Int(5));
        assert!(request(&map(&[0, 0]), "dbsize", &[]).is_none(), "it answers for all");
        assert!(request(&map(&[1, 1]), "dbsize", &[]).is_none());
        assert!(request(&map(&[0, 1]), "get", &[]).is_none());
    }
}
