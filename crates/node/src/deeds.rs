//! What a node did for groups, and why: what operators are told. Nothing is decided by it.
//!
//! A deed is noted by whoever decides it, with the figures that it was decided by: whoever speaks for a group notes its operations and who
//! is to lead its buckets, a node without a group notes which one it asks.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use quorate_api::Bucket;
use quorate_groups::preset::Preset;
use quorate_groups::{GroupId, Operation};
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::motive::Motive;

/// Something that was begun for a group, by its own decision or by an operator's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deed {
    /// Counts those of this node since it was started, from 1.
    pub number: u64,
    /// When it was begun, by this node's wall clock: milliseconds since the start of 1970, UTC.
    pub unix_ms: u64,
    /// What.
    pub what: What,
    /// Why.
    pub motive: Motive,
    /// How often in a row it was tried; the last time counts for everything but `unix_ms`.
    pub tries: u32,
    /// How it ended; none: it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// How a deed ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Microseconds from its beginning to this end.
    pub took_us: u64,
    /// How.
    pub how: How,
}

/// How a deed ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It happened: whoever had to agree has.
    Done,
    /// Nothing was changed, for this reason.
    GivenUp(String),
    /// This node has not seen how it ended, for this reason.
    Unseen(String),
}

/// What was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum What {
    /// Members that are gone are let go.
    Failure {
        /// Whose.
        group: GroupId,
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// Nodes become members.
    Join {
        /// Of which group.
        group: GroupId,
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// Members that are there are let go.
    Leave {
        /// Whose.
        group: GroupId,
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// One group becomes two.
    Split {
        /// Which.
        group: GroupId,
        /// The two, in the order of their spans.
        into: [GroupId; 2],
        /// The members of each.
        nodes: [Vec<NodeId>; 2],
        /// The second begins with this bucket.
        border: Bucket,
    },
    /// Two groups become one.
    Merge {
        /// The two, in the order of their spans.
        groups: [GroupId; 2],
        /// The one.
        into: GroupId,
        /// Its members.
        nodes: Vec<NodeId>,
    },
    /// A member of one group becomes one of another.
    Migrate {
        /// Who.
        node: NodeId,
        /// From which.
        from: GroupId,
        /// To which.
        to: GroupId,
    },
    /// The border between two groups moves.
    Repartition {
        /// The two, in the order of their spans.
        groups: [GroupId; 2],
        /// The second begins with this bucket from now on.
        border: Bucket,
    },
    /// Buckets get another leader.
    Lead {
        /// The group that holds them, if there is one.
        group: Option<GroupId>,
        /// Which.
        buckets: Vec<Bucket>,
        /// Who led them, if somebody did.
        from: Option<NodeId>,
        /// Who is to lead them; none: whoever is prepared best.
        to: Option<NodeId>,
    },
    /// A node without a group asks one to let it in.
    Ask {
        /// Who.
        node: NodeId,
        /// Which.
        group: GroupId,
    },
    /// A home gets back what it has lost of its group and its neighbours.
    Mend {
        /// The group that has its home there, or had, if it is known.
        group: Option<GroupId>,
        /// The home.
        home: Bucket,
    },
    /// A group follows other policies.
    Preset {
        /// Which.
        group: GroupId,
        /// Those before.
        from: Preset,
        /// Those from now on.
        to: Preset,
    },
}

/// The operations on groups, as they are counted (Scatter, table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeedKind {
    /// [`What::Failure`].
    Failure,
    /// [`What::Join`].
    Join,
    /// [`What::Leave`].
    Leave,
    /// [`What::Split`].
    Split,
    /// [`What::Merge`].
    Merge,
    /// [`What::Migrate`].
    Migrate,
    /// [`What::Repartition`].
    Repartition,
    /// [`What::Lead`].
    Lead,
}

impl DeedKind {
    /// All of them.
    pub const ALL: [DeedKind; 8] = [
        DeedKind::Failure,
        DeedKind::Join,
        DeedKind::Leave,
        DeedKind::Split,
        DeedKind::Merge,
        DeedKind::Migrate,
        DeedKind::Repartition,
        DeedKind::Lead,
    ];

    /// As it is called in metrics and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DeedKind::Failure => "failure",
            DeedKind::Join => "join",
            DeedKind::Leave => "leave",
            DeedKind::Split => "split",
            DeedKind::Merge => "merge",
            DeedKind::Migrate => "migrate",
            DeedKind::Repartition => "repartition",
            DeedKind::Lead => "lead",
        }
    }
}

impl What {
    /// What an operation is that changes no members alone. `members` are those of the groups that it changes, together; borders are given as the
    /// buckets that begin there.
    pub(crate) fn of(
        operation: &Operation,
        members: &[NodeId],
        bucket: impl Fn(u64) -> Bucket,
    ) -> Option<What> {
        let what = match operation {
            Operation::Members { .. } => return None,
            Operation::Split { group, border, first, names } => {
                let second = members.iter().copied().filter(|id| !first.contains(id)).collect();
                What::Split {
                    group: *group,
                    into: *names,
                    nodes: [first.clone(), second],
                    border: bucket(*border),
                }
            }
            Operation::Merge { left, right, name } => {
                let mut nodes = members.to_vec();
                nodes.sort_unstable();
                What::Merge { groups: [*left, *right], into: *name, nodes }
            }
            Operation::Migrate { node, from, to } => What::Migrate { node: *node, from: *from, to: *to },
            Operation::Repartition { left, right, border } => {
                What::Repartition { groups: [*left, *right], border: bucket(*border) }
            }
        };
        Some(what)
    }

    /// As what it is counted, if it is.
    pub const fn kind(&self) -> Option<DeedKind> {
        match self {
            What::Failure { .. } => Some(DeedKind::Failure),
            What::Join { .. } => Some(DeedKind::Join),
            What::Leave { .. } => Some(DeedKind::Leave),
            What::Split { .. } => Some(DeedKind::Split),
            What::Merge { .. } => Some(DeedKind::Merge),
            What::Migrate { .. } => Some(DeedKind::Migrate),
            What::Repartition { .. } => Some(DeedKind::Repartition),
            What::Lead { .. } => Some(DeedKind::Lead),
            What::Ask { .. } | What::Mend { .. } | What::Preset { .. } => None,
        }
    }

    /// The groups that it changes, or is about.
    pub fn groups(&self) -> Vec<GroupId> {
        match self {
            What::Failure { group, .. }
            | What::Join { group, .. }
            | What::Leave { group, .. }
            | What::Split { group, .. }
            | What::Ask { group, .. }
            | What::Preset { group, .. } => [*group].into(),
            What::Merge { groups, .. } | What::Repartition { groups, .. } => groups.to_vec(),
            What::Migrate { from, to, .. } => [*from, *to].into(),
            What::Lead { group, .. } | What::Mend { group, .. } => group.iter().copied().collect(),
        }
    }

    /// The groups that come of it, under new names.
    pub fn heirs(&self) -> &[GroupId] {
        match self {
            What::Split { into, .. } => into,
            What::Merge { into, .. } => core::slice::from_ref(into),
            _ => &[],
        }
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> Vec<NodeId> {
        match self {
            What::Failure { nodes, .. }
            | What::Join { nodes, .. }
            | What::Leave { nodes, .. }
            | What::Merge { nodes, .. } => nodes.clone(),
            What::Split { nodes, .. } => nodes.concat(),
            What::Migrate { node, .. } | What::Ask { node, .. } => [*node].into(),
            What::Lead { from, to, .. } => from.iter().chain(to).copied().collect(),
            What::Repartition { .. } | What::Mend { .. } | What::Preset { .. } => Vec::new(),
        }
    }
}

/// Numbers or names with commas between them.
fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, all: impl IntoIterator<Item = T>) -> fmt::Result {
    for (place, one) in all.into_iter().enumerate() {
        write!(f, "{}{one}", if place == 0 { "" } else { "," })?;
    }
    Ok(())
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Failure { group, nodes } => {
                write!(f, "{group} lets go of failed node ")?;
                list(f, nodes)
            }
            What::Join { group, nodes } => {
                write!(f, "{group} takes in node ")?;
                list(f, nodes)
            }
            What::Leave { group, nodes } => {
                write!(f, "{group} lets go of node ")?;
                list(f, nodes)
            }
            What::Split { group, into: [left, right], nodes: [first, second], border } => {
                write!(f, "{group} splits at bucket {}: {left} with nodes ", border.0)?;
                list(f, first)?;
                write!(f, ", {right} with nodes ")?;
                list(f, second)
            }
            What::Merge { groups: [left, right], into, nodes } => {
                write!(f, "{left} and {right} merge: {into} with nodes ")?;
                list(f, nodes)
            }
            What::Migrate { node, from, to } => write!(f, "node {node} moves from {from} to {to}"),
            What::Repartition { groups: [left, right], border } => {
                write!(f, "the border of {left} and {right} moves to bucket {}", border.0)
            }
            What::Lead { buckets, from, to, .. } => {
                write!(f, "the leader of bucket ")?;
                list(f, buckets.iter().map(|bucket| bucket.0))?;
                match from {
                    Some(from) => write!(f, " moves from node {from}")?,
                    None => write!(f, " changes")?,
                }
                match to {
                    Some(to) => write!(f, " to node {to}"),
                    None => write!(f, " to whoever is prepared best"),
                }
            }
            What::Ask { node, group } => write!(f, "node {node} asks {group} to let it in"),
            What::Mend { group, home } => {
                match group {
                    Some(group) => write!(f, "bucket {}, the home of {group}, ", home.0)?,
                    None => write!(f, "bucket {} ", home.0)?,
                }
                write!(f, "takes back what others know that it has kept")
            }
            What::Preset { group, from, to } => {
                write!(f, "{group} follows `{}` after `{}`", to.name(), from.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn operations_are_told_with_who_and_where() {
        let nodes = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<Vec<NodeId>>();
        let bucket = |border: u64| Bucket(border as u16);
        let (g, members) = (GroupId, nodes(&[4, 2, 3, 1]));
        let split = Operation::Split { group: g(1), border: 4, first: nodes(&[1, 3]), names: [g(2), g(3)] };
        let split = What::of(&split, &members, bucket).expect("no change of members alone");
        assert_eq!(split.to_string(), "g1 splits at bucket 4: g2 with nodes 1,3, g3 with nodes 4,2");
        assert_eq!((split.groups(), split.heirs()), ([g(1)].into(), &[g(2), g(3)][..]));
        assert_eq!(split.nodes(), nodes(&[1, 3, 4, 2]));
        let merge = Operation::Merge { left: g(2), right: g(3), name: g(5) };
        let merge = What::of(&merge, &members, bucket).expect("no change of members alone");
        assert_eq!(merge.to_string(), "g2 and g3 merge: g5 with nodes 1,2,3,4");
        assert_eq!((merge.kind(), merge.heirs()), (Some(DeedKind::Merge), &[g(5)][..]));
        let change = Operation::Members { group: g(1), add: nodes(&[1]), remove: Vec::new() };
        assert_eq!(What::of(&change, &members, bucket), None, "it may be several things at once");
    }
}
