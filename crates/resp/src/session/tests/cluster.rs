//! What a session of the cluster view does with commands.

use super::*;
use crate::{MapBucket, MapNode};

/// A world that knows a cluster of two nodes, of which this is the first; half of the slots are led here.
struct Halves(ClusterMap);

impl World for Halves {
    fn now_us(&self) -> u64 {
        0
    }
    fn password(&self) -> Option<&[u8]> {
        None
    }
    fn replicas(&self) -> u64 {
        1
    }
    fn cluster(&self) -> Option<&ClusterMap> {
        Some(&self.0)
    }
    fn facts(&self) -> Facts {
        Facts::default()
    }
    fn clients(&self) -> Vec<ClientRow> {
        Vec::new()
    }
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }
    fn check_setting(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

fn halves() -> Halves {
    let node =
        |id: u64| MapNode { id, host: "h".into(), port: 6379 + id as u16, peer_port: 1, reachable: true };
    let bucket = |primary: usize| MapBucket {
        slots: primary as u16 * 8_192..(primary as u16 + 1) * 8_192,
        primary,
        replicas: vec![],
        led: true,
        here: true,
        quorum: true,
    };
    Halves(ClusterMap { epoch: 3, me: 0, nodes: vec![node(1), node(2)], buckets: vec![bucket(0), bucket(1)] })
}

fn on_cluster_view() -> Session {
    Session::new(Connection { view: View::Cluster, ..connection(1) }, Limits::production())
}

/// The error a command is answered with, or how fresh the answer of the node must be.
fn way(session: &mut Session, line: &str) -> Result<Consistency, String> {
    let words = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    match session.command(words, &halves()) {
        Step::Submit { consistency, .. } => Ok(consistency),
        Step::Answer(Answer { reply: Some(Reply::Error(error)), .. }) => Err(format!("{error:?}")),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_cluster_view_sends_clients_to_who_leads() {
    // `bar` is in slot 5061, `foo` in 12182.
    let mut session = on_cluster_view();
    assert_eq!(way(&mut session, "get bar"), Ok(Consistency::Strict));
    assert!(way(&mut session, "get foo").unwrap_err().contains("MOVED 12182 h:6381"));
    assert_eq!(way(&mut session, "mget foo bar"), Ok(Consistency::Strict), "over both");
    for line in ["readonly", "readwrite", "asking"] {
        assert!(matches!(session.command(vec![Bytes::from(line)], &halves()), Step::Answer(_)));
    }
    assert_eq!(way(&mut session, "set foo 1"), Ok(Consistency::Strict), "asked for with ASKING");
    assert!(way(&mut session, "set foo 1").is_err(), "once");
    session.command(vec![Bytes::from("readonly")], &halves());
    assert_eq!(way(&mut session, "get foo"), Ok(Consistency::Near));
    assert_eq!(way(&mut session, "mget foo bar"), Ok(Consistency::Near), "over both");
    assert!(way(&mut session, "set foo 1").is_err(), "a write");
    session
        .command(vec![Bytes::from("quorate"), Bytes::from("consistency"), Bytes::from("relaxed")], &halves());
    assert_eq!(way(&mut session, "get foo"), Ok(Consistency::Relaxed), "the client does not mind");
    session.command(vec![Bytes::from("reset")], &halves());
    assert!(way(&mut session, "get foo").is_err());
    let mut standalone = Session::new(connection(1), Limits::production());
    assert_eq!(way(&mut standalone, "get foo"), Ok(Consistency::Strict));
    assert!(way(&mut standalone, "cluster nodes").unwrap_err().contains("cluster support disabled"));
    for internal in ["slot|count a", "bucket|size a"] {
        assert!(way(&mut standalone, internal).unwrap_err().contains("unknown command"));
    }
}

#[test]
fn transactions_of_the_cluster_view_are_served_where_they_come() {
    let mut session = on_cluster_view();
    let queued =
        |step: Step| matches!(step, Step::Answer(Answer { reply: Some(Reply::Simple(_) | Reply::Ok), .. }));
    for line in ["multi", "set foo 1", "set bar 1"] {
        let words = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        assert!(queued(session.command(words, &halves())), "{line}");
    }
    assert_eq!(way(&mut session, "exec"), Ok(Consistency::Strict));
    for line in ["readonly", "multi", "get foo", "get bar"] {
        let words = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        assert!(queued(session.command(words, &halves())), "{line}");
    }
    assert_eq!(way(&mut session, "exec"), Ok(Consistency::Near));
}

#[test]
fn what_clients_name_is_sent_to_who_leads_all_of_it() {
    let mut session = on_cluster_view();
    assert!(
        way(&mut session, "quorate txn 1 1 0 0 0 1 2 get foo").unwrap_err().contains("MOVED 12182 h:6381")
    );
    assert_eq!(way(&mut session, "quorate txn 1 1 0 0 0 1 2 get bar"), Ok(Consistency::Strict));
    assert_eq!(
        way(&mut session, "quorate txn 1 1 0 0 1 foo 3 1 2 get bar"),
        Ok(Consistency::Strict),
        "over both"
    );
    assert!(way(&mut session, "quorate versions foo").unwrap_err().contains("MOVED"));
}
