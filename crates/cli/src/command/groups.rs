//! `groups`, `group`: the groups that hold the buckets, and changing them by hand.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use quorate_kernel::NodeId;
use quorate_node::{GroupId, GroupRequest, GroupStatus, Status};

use crate::admin::AdminClient;
use crate::args::Target;
use crate::exit::{self, failure};
use crate::output::{Format, Table, print, print_json};
use crate::view;

/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_secs(3);

/// List the groups that hold the buckets: their slots, members, and who speaks for them.
///
/// For a cluster that was founded with `--topology ring`. Groups take nodes in, let them go, split and merge by themselves; the list is
/// as the node sees it that answers.
#[derive(Debug, Args)]
pub(crate) struct Groups {
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Change a group by hand. The groups' own decisions go on: one that is made too large splits again.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Make two of a group, which share its slots and its members.
    Split {
        /// Which, as `quorate groups` names it.
        group: GroupId,
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Make one of a group and the one after it.
    Merge {
        /// Which, as `quorate groups` names it.
        group: GroupId,
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Move a node to another group.
    Move {
        /// Its id.
        node: u64,
        /// To which group, as `quorate groups` names it.
        group: GroupId,
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Move the border between a group and the one before it.
    Repartition {
        /// Which group, as `quorate groups` names it.
        group: GroupId,
        /// It begins with the bucket that has this slot.
        slot: u16,
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
}

/// Lists the groups.
pub(crate) fn list(groups: &Groups, format: Format) -> Result<()> {
    let view = view::gather_live(&groups.target)?;
    let newest = view.newest().map(|report| &report.node);
    let Some(node) = newest.filter(|node| !node.groups.is_empty()) else {
        let text = "the nodes of this cluster form no groups: that is settled when it is founded, with --topology ring";
        return Err(failure(exit::FAILED, text));
    };
    match format {
        Format::Json => print_json(&node.groups),
        Format::Text => print(&render(node)),
    }
}

/// The groups as a table.
pub(crate) fn render(node: &Status) -> String {
    let mut table = Table::new(&["GROUP", "EPOCH", "SLOTS", "BUCKETS", "MEMBERS", "SPEAKER", "LOAD", "LED"]);
    for group in &node.groups {
        let members: Vec<String> = group.members.iter().map(ToString::to_string).collect();
        table.row([
            group.id.to_string(),
            group.epoch.to_string(),
            slots(node, group),
            group.buckets.len().to_string(),
            members.join(","),
            group.speaker.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            format!("{}/s", group.load),
            if group.quorum { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.render()
}

/// From the first to the last slot; across the end of the ring the last is the smaller one.
fn slots(node: &Status, group: &GroupStatus) -> String {
    let of = |bucket: Option<&quorate_api::Bucket>| node.buckets.iter().find(|it| Some(&it.bucket) == bucket);
    let first = of(group.buckets.first()).map_or(0, |bucket| bucket.slot_first);
    let last = of(group.buckets.last()).map_or(0, |bucket| bucket.slot_last);
    format!("{first}-{last}")
}

/// Changes a group.
pub(crate) fn change(group: &Group) -> Result<()> {
    let (request, target) = match group {
        Group::Split { group, target } => (GroupRequest::Split { group: *group }, target),
        Group::Merge { group, target } => (GroupRequest::Merge { group: *group }, target),
        Group::Move { node, group, target } => {
            (GroupRequest::Move { node: NodeId(*node), to: *group }, target)
        }
        Group::Repartition { group, slot, target } => {
            (GroupRequest::Repartition { group: *group, slot: *slot }, target)
        }
    };
    let admin = view::gather_live(target)?.admins().into_iter().next().context("no node answers")?;
    AdminClient::new(WAIT).change_group(&admin, &request)?.into_result()?;
    print("done\n")
}
