//! A group as others know it, and why something cannot be done to it.

use alloc::vec::Vec;
use core::fmt;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::span::Span;

/// The most members a group has.
pub const MEMBERS_MAX: usize = 64;

/// Names a group for good. Whoever proposes an operation that makes a group draws its name, so that nobody has to be asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u64);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{:x}", self.0)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is not the name of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoGroupId;

impl fmt::Display for NoGroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a group is named by `g` and hexadecimal digits")
    }
}

impl core::error::Error for NoGroupId {}

impl core::str::FromStr for GroupId {
    type Err = NoGroupId;

    fn from_str(text: &str) -> Result<GroupId, NoGroupId> {
        let digits = text.strip_prefix('g').ok_or(NoGroupId)?;
        u64::from_str_radix(digits, 16).map(GroupId).map_err(|_| NoGroupId)
    }
}

/// A group at one time of its life: names what its members and its span are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// Which group.
    pub id: GroupId,
    /// Counts the changes of its members and its span. Of the groups that are responsible for a position one after the other, each has a
    /// greater epoch than the one before it, also where they are different groups.
    pub epoch: u64,
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.id, self.epoch)
    }
}

/// What is to be known of a group to reach it: Scatter's descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Which, and at which time of its life.
    pub name: Name,
    /// The positions it is responsible for.
    pub span: Span,
    /// Its members, by id, each once.
    pub members: Vec<NodeId>,
}

impl Group {
    /// A cluster's first group, which all its founders are in.
    pub fn founded(mut members: Vec<NodeId>) -> Group {
        members.sort_unstable();
        Group { name: Name { id: GroupId(1), epoch: 1 }, span: Span::whole(0), members }
    }
}

/// A group and its neighbours on the ring, as it knows them. A group that is alone is its own neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// The group.
    pub group: Group,
    /// Whose span ends where this begins.
    pub before: Group,
    /// Whose span begins where this ends.
    pub after: Group,
}

impl Stand {
    /// A group that is alone on the ring.
    pub fn alone(group: Group) -> Stand {
        Stand { before: group.clone(), after: group.clone(), group }
    }
}

/// Why an operation makes no sense on what is known. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// What is known of this group contradicts what is known of another.
    Contradiction(GroupId),
    /// Nothing is known of this group.
    Unknown(GroupId),
    /// The groups are no neighbours, in this order.
    NotNeighbours(GroupId, GroupId),
    /// The new border is not where it can be.
    Border(u64),
    /// The node is a member already.
    Member(NodeId),
    /// The node is no member.
    NoMember(NodeId),
    /// No member would be left in a group, or more than [`MEMBERS_MAX`], or one would be in two.
    Members,
    /// It changes nothing.
    Nothing,
    /// A new group has the name of one that is there.
    NameTaken(GroupId),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Contradiction(id) => {
                write!(
                    f,
                    "group {id:?} and another were seen at different times, one of them before the other changed"
                )
            }
            Misfit::Unknown(id) => write!(f, "nothing is known of group {id:?}"),
            Misfit::NotNeighbours(left, right) => {
                write!(f, "group {right:?} does not follow {left:?} on the ring")
            }
            Misfit::Border(border) => {
                write!(f, "a border at {border:016x} is not inside what is to be divided")
            }
            Misfit::Member(node) => write!(f, "node {node} is a member already"),
            Misfit::NoMember(node) => write!(f, "node {node} is no member"),
            Misfit::Members => {
                write!(f, "each group has 1 to {MEMBERS_MAX} members, and each member one group")
            }
            Misfit::Nothing => write!(f, "that changes nothing"),
            Misfit::NameTaken(id) => write!(f, "there is a group {id:?} already"),
        }
    }
}

impl core::error::Error for Misfit {}
