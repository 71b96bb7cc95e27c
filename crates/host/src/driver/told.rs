//! What the node's own log is told of who is there and what groups do, when that has changed: one line each.
//!
//! A cluster that stands still can be told apart by these lines alone: whether the nodes still agree about who is there, whether groups
//! still change, and whether the logs of buckets still follow.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::{NodeId, Time};
use quorate_node::{Agreement, GroupId, How, Journal, Status};

/// An agreement that takes so long is told again and again, with what it waits for.
const LONG: Duration = Duration::from_secs(5);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    role: String,
    view: (u64, Vec<NodeId>),
    groups: BTreeMap<GroupId, (u64, Vec<NodeId>)>,
    logs: BTreeMap<Bucket, (u64, Vec<NodeId>)>,
    /// By number: how often a deed was tried, and whether it had ended.
    deeds: BTreeMap<u64, (u32, bool)>,
    /// In which view something waits to be agreed, and since when, or when that was told.
    waits: Option<(u64, Time)>,
}

impl Told {
    /// Tells what has changed.
    pub(super) fn tell(
        &mut self,
        now: Time,
        status: &Status,
        agreement: Option<Agreement>,
        journal: Option<&Journal>,
    ) {
        if self.role != status.role {
            tracing::info!(role = %status.role, epoch = status.epoch, "the node's role");
            self.role.clone_from(&status.role);
        }
        self.tell_view(status);
        self.tell_agreement(now, agreement);
        self.tell_groups(status);
        self.tell_logs(status);
        self.tell_deeds(journal);
    }

    fn tell_view(&mut self, status: &Status) {
        let members: Vec<NodeId> = status.members.iter().map(|member| member.id).collect();
        let view = (status.epoch, members);
        if self.view != view {
            let (came, went) = (without(&view.1, &self.view.1), without(&self.view.1, &view.1));
            tracing::info!(number = view.0, members = view.1.len(), %came, %went, "who is there");
            self.view = view;
        }
    }

    /// Something waits to be agreed for long.
    fn tell_agreement(&mut self, now: Time, agreement: Option<Agreement>) {
        let Some(agreement) = agreement else {
            self.waits = None;
            return;
        };
        let since = match self.waits {
            Some((view, since)) if view == agreement.view => since,
            _ => now,
        };
        self.waits = Some((agreement.view, since));
        if now.since(since) >= LONG {
            self.waits = Some((agreement.view, now));
            tracing::info!(number = agreement.view, %agreement, "the nodes do not come to agree about who is there");
        }
    }

    fn tell_groups(&mut self, status: &Status) {
        let groups = status.groups.iter().map(|group| (group.id, (group.epoch, group.members.clone())));
        let groups: BTreeMap<_, _> = groups.collect();
        for (group, (epoch, members)) in &groups {
            if self.groups.get(group).is_none_or(|told| told.0 != *epoch) {
                let members = list(members);
                tracing::info!(%group, epoch, %members, "a group, as far as this node knows");
            }
        }
        self.groups = groups;
    }

    fn tell_logs(&mut self, status: &Status) {
        for status in status.buckets.iter().filter(|status| status.epoch > 0) {
            let log = (status.epoch, status.members.clone());
            if self.logs.get(&status.bucket) != Some(&log) {
                let (bucket, members) = (status.bucket.0, list(&log.1));
                let leader = status.believed_leader.map_or_else(String::new, |leader| leader.to_string());
                tracing::info!(bucket, epoch = log.0, %members, %leader, "the log of a bucket");
                self.logs.insert(status.bucket, log);
            }
        }
    }

    fn tell_deeds(&mut self, journal: Option<&Journal>) {
        let Some(journal) = journal else { return };
        let before = std::mem::take(&mut self.deeds);
        for deed in journal.deeds() {
            let state = (deed.tries, deed.end.is_some());
            self.deeds.insert(deed.number, state);
            if before.get(&deed.number) == Some(&state) {
                continue;
            }
            let (number, what, why, tries) = (deed.number, &deed.what, &deed.motive, deed.tries);
            let (end, took_us) = match &deed.end {
                None => ("under way", 0),
                Some(end) => match &end.how {
                    How::Done => ("done", end.took_us),
                    How::GivenUp(why) | How::Unseen(why) => (why.as_str(), end.took_us),
                },
            };
            tracing::info!(number, %what, %why, tries, end, took_us, "what this node does for groups");
        }
    }
}

/// Who of the first is not among the second.
fn without(some: &[NodeId], others: &[NodeId]) -> String {
    let rest: Vec<NodeId> = some.iter().copied().filter(|id| !others.contains(id)).collect();
    list(&rest)
}

fn list(ids: &[NodeId]) -> String {
    let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
    words.join(",")
}
