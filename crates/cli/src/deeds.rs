//! What the nodes of a cluster did for groups of late, put together by time.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use quorate_kernel::NodeId;
use quorate_node::{Deed, End, GroupId, How};
use serde::Serialize;

use crate::admin::AdminClient;
use crate::view::ClusterView;

/// How long a node may take to tell what it did.
const WAIT: Duration = Duration::from_millis(2_500);

/// A deed, as one node noted it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Noted {
    /// Who noted it.
    pub(crate) by: NodeId,
    /// The deed in words.
    pub(crate) did: String,
    /// What decided it.
    pub(crate) policy: &'static str,
    /// The figures that it was decided by, in words.
    pub(crate) because: String,
    /// The deed.
    #[serde(flatten)]
    pub(crate) deed: Deed,
}

impl Noted {
    /// A deed that a node noted.
    pub(crate) fn new(by: NodeId, deed: Deed) -> Noted {
        let (did, because) = (deed.what.to_string(), deed.motive.to_string());
        Noted { by, did, policy: deed.motive.policy().name(), because, deed }
    }

    /// How it ended.
    pub(crate) fn end(&self) -> String {
        let end = match &self.deed.end {
            None => "under way".into(),
            Some(End { how: How::Done, took_us: 0 }) => "done".into(),
            Some(End { how: How::Done, took_us }) => {
                format!("done in {:.1?}", Duration::from_micros(*took_us))
            }
            Some(End { how: How::GivenUp(why), .. }) => format!("given up: {why}"),
            Some(End { how: How::Unseen(why), .. }) => format!("end not seen: {why}"),
        };
        match self.deed.tries {
            0 | 1 => end,
            tries => format!("{end} (tried {tries} times)"),
        }
    }
}

/// What all nodes noted that answer.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// By time.
    pub(crate) all: Vec<Noted>,
    /// How many deeds nodes have forgotten.
    pub(crate) forgotten: BTreeMap<NodeId, u64>,
}

impl Deeds {
    /// A group and those that it came of, as far as is known.
    pub(crate) fn ancestors(&self, group: GroupId) -> BTreeSet<GroupId> {
        let mut found = BTreeSet::from([group]);
        // Names are never used again, so each round adds some or is the last.
        loop {
            let before = found.len();
            for noted in self.all.iter().filter(|noted| is_done(&noted.deed)) {
                if noted.deed.what.heirs().iter().any(|heir| found.contains(heir)) {
                    found.extend(noted.deed.what.groups());
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// The groups that a group became, as far as is known; none if it goes on.
    pub(crate) fn heirs(&self, group: GroupId) -> Vec<GroupId> {
        let done = self.all.iter().filter(|noted| is_done(&noted.deed));
        let of = done.filter(|noted| noted.deed.what.groups().contains(&group));
        of.flat_map(|noted| noted.deed.what.heirs().to_vec()).collect()
    }
}

/// Whether it has happened.
fn is_done(deed: &Deed) -> bool {
    deed.end.as_ref().is_some_and(|end| end.how == How::Done)
}

/// Asks all nodes that answer what they did, at once. One that stops answering meanwhile is left out.
pub(crate) fn gather(view: &ClusterView) -> Deeds {
    let nodes = view.nodes.iter().filter(|node| node.report.is_some());
    let nodes = nodes.filter_map(|node| Some((node.id?, node.endpoints.admin.as_str())));
    let told: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> =
            nodes.map(|(id, admin)| (id, scope.spawn(move || AdminClient::new(WAIT).why(admin)))).collect();
        asked.into_iter().map(|(id, thread)| (id, thread.join())).collect()
    });
    let mut deeds = Deeds::default();
    for (id, report) in told {
        let Ok(Ok(Some(report))) = report else { continue };
        if report.dropped > 0 {
            deeds.forgotten.insert(id, report.dropped);
        }
        deeds.all.extend(report.deeds.into_iter().map(|deed| Noted::new(id, deed)));
    }
    deeds.all.sort_by_key(|noted| (noted.deed.unix_ms, noted.by, noted.deed.number));
    deeds
}

/// A time as people read it: UTC, to the millisecond.
pub(crate) fn utc(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    // Years that begin in March, eras of 400 of them (Howard Hinnant's days_from_civil, the other way round).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * march + 2) / 5 + 1, if march < 10 { march + 3 } else { march - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (s, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, s) = (s / 3_600, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{s:02}.{ms:03}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use quorate_api::Bucket;
    use quorate_node::{Motive, What};

    /// A deed that has happened.
    pub(crate) fn done(unix_ms: u64, what: What) -> Noted {
        let end = Some(End { took_us: 3_400, how: How::Done });
        let deed = Deed { number: unix_ms, unix_ms, what, motive: Motive::Asked, tries: 1, end };
        Noted::new(NodeId(1), deed)
    }

    /// A group splits.
    pub(crate) fn split(group: u64, into: [u64; 2]) -> What {
        let nodes = [[NodeId(1), NodeId(2)].into(), [NodeId(3)].into()];
        What::Split { group: GroupId(group), into: into.map(GroupId), nodes, border: Bucket(4) }
    }

    #[test]
    fn groups_are_followed_to_those_they_came_of() {
        let merge = What::Merge { groups: [3, 9].map(GroupId), into: GroupId(7), nodes: Vec::new() };
        let all = vec![done(1, split(1, [2, 3])), done(2, merge), done(3, split(5, [6, 8]))];
        let mut deeds = Deeds { all, forgotten: BTreeMap::new() };
        assert_eq!(deeds.ancestors(GroupId(7)), [1, 3, 7, 9].map(GroupId).into());
        assert_eq!(deeds.heirs(GroupId(1)), [2, 3].map(GroupId));
        assert_eq!(deeds.heirs(GroupId(7)), []);
        deeds.all[0].deed.end = None;
        assert_eq!(deeds.ancestors(GroupId(7)), [3, 7, 9].map(GroupId).into(), "it has not happened");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(utc(1_735_689_599_999), "2024-12-31 23:59:59.999");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00.000");
    }

    #[test]
    fn ends_are_told_in_words() {
        let mut noted = done(1, split(1, [2, 3]));
        assert_eq!(noted.did, "g1 splits at bucket 4: g2 with nodes 1,2, g3 with nodes 3");
        assert_eq!((noted.policy, noted.end().as_str()), ("by hand", "done in 3.4ms"));
        (noted.deed.end, noted.deed.tries) = (None, 3);
        assert_eq!(noted.end(), "under way (tried 3 times)");
    }
}
