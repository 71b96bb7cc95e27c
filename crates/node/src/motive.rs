//! Why something was done for a group: the policy, and the figures that it went by.

use core::fmt;
use core::time::Duration;
use quorate_groups::resilience::Sizes;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

/// What decided something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// An operator.
    ByHand,
    /// Groups have enough members that are there.
    Resilience,
    /// The same, where the size follows from how long nodes live.
    Lifetimes,
    /// Members of a group fail apart from each other.
    Diversity,
    /// Operations are fast.
    Latency,
    /// Everybody has as much to do.
    Load,
    /// What is measured of a deployment decides which policies are followed.
    Preset,
    /// None of a group's policies: the members of a log chose their leader.
    Election,
}

impl Policy {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::ByHand => "by hand",
            Policy::Resilience => "resilience",
            Policy::Lifetimes => "lifetimes",
            Policy::Diversity => "diversity",
            Policy::Latency => "latency",
            Policy::Load => "load",
            Policy::Preset => "preset",
            Policy::Election => "election",
        }
    }
}

/// How large groups are to be, and what that follows from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeWanted {
    /// Merged below so many members.
    pub least: usize,
    /// Split above so many.
    pub most: usize,
    /// Around this size.
    pub wanted: usize,
    /// Set where it follows from how long nodes live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetimes: Option<SizeByLifetimes>,
}

/// What the size of groups follows from where nobody says it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeByLifetimes {
    /// The chance that a node dies before it is replaced, in the mean.
    pub death: f64,
    /// How many nines of availability are wanted.
    pub nines: u8,
}

impl SizeWanted {
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes { least: self.least, most: self.most }
    }
}

impl fmt::Display for SizeWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wanted {}..{}, about {}", self.least, self.most, self.wanted)?;
        match self.lifetimes {
            Some(SizeByLifetimes { death, nines }) => {
                write!(
                    f,
                    " for {nines} nines where a node dies before it is replaced with a chance of {death:.1e}"
                )
            }
            None => Ok(()),
        }
    }
}

/// What a member leads of its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burden {
    /// How many buckets.
    pub buckets: usize,
    /// Requests and messages of logs in a second for them.
    pub load: u64,
}

impl fmt::Display for Burden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} buckets and {}/s", self.buckets, self.load)
    }
}

/// Why something was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ground")]
pub enum Motive {
    /// An operator asked for it.
    Asked,
    /// The configuration says so.
    Configured,
    /// An operator empties the node; it asked its group to let it go.
    Emptied,
    /// Members could not be reached, or answered nothing, for so long.
    Gone {
        /// The one that was missed last, in milliseconds.
        missing_ms: u64,
        /// From when on they count as gone, in milliseconds.
        repair_ms: u64,
    },
    /// A member is in another group as well, where it stays.
    Twice,
    /// A member shares its machine with another, and there is a group with room that has nobody there.
    Beside {
        /// How many members the group had.
        members: usize,
        /// How many it should have.
        size: SizeWanted,
    },
    /// Nodes that are in no group asked to be let in.
    Wants {
        /// How many members the group had.
        members: usize,
        /// How many it should have.
        size: SizeWanted,
    },
    /// The group has not the size that it should have.
    Size {
        /// How many members stay.
        members: usize,
        /// How many it should have.
        size: SizeWanted,
    },
    /// The group has more members than are wanted, and another has fewer, or all together have enough for one group more.
    Surplus {
        /// How many members the group had.
        members: usize,
        /// How many the other had.
        there: usize,
        /// How many groups there were.
        groups: usize,
        /// How many it should have.
        size: SizeWanted,
    },
    /// Some group has much more to do than the mean of all. Requests and messages of logs in a second, for each member.
    Uneven {
        /// Of the group that gives something away.
        load: u64,
        /// Of its neighbour.
        neighbour: u64,
        /// Of the group that has most.
        most: u64,
        /// Of all groups.
        mean: u64,
    },
    /// The group has no more to do than others, but buckets are whole, and one member has much more than the mean of all. Requests and
    /// messages of logs in a second.
    Lumpy {
        /// Of that member, however the buckets are led.
        busiest: u64,
        /// Of the group, for each member.
        load: u64,
        /// Of all groups, for each member.
        mean: u64,
    },
    /// Of the groups that were looked at it needs a member most.
    Needy {
        /// How many members it has.
        members: usize,
        /// The chance that it fails before it is whole again, if lifetimes are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<f64>,
        /// How many groups were looked at.
        groups: usize,
    },
    /// All groups that were looked at are safe, and with this one agreements are fastest.
    Near {
        /// How long an agreement would take, in microseconds, if that was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agreement_us: Option<u64>,
        /// How many groups were looked at.
        groups: usize,
    },
    /// All groups that were looked at are safe, and this one has about as much to do as the one that has most.
    Busy {
        /// Requests and messages of logs in a second, of the whole group.
        load: u64,
        /// How many groups were looked at.
        groups: usize,
    },
    /// The home's log went on without its majority, and lacks what it had agreed to with others.
    Lacking {
        /// For how long that was seen, in milliseconds.
        seen_ms: u64,
    },
    /// Nobody led the buckets.
    Leaderless,
    /// Who led the buckets is no member of their group, or cannot be reached.
    LeaderGone,
    /// Who led the buckets takes much longer to agree with the others than the fastest member.
    Slow {
        /// How long it takes, in microseconds, if that was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agreement_us: Option<u64>,
        /// How long the fastest takes, in microseconds.
        fastest_us: u64,
    },
    /// Who led the buckets has more to do for their group than another member.
    Unfair {
        /// What it led.
        from: Burden,
        /// What the other led.
        to: Burden,
    },
    /// The log chose who led; it was somebody else who should have led it.
    Elected {
        /// Who.
        assigned: NodeId,
    },
    /// What was measured of the nodes.
    Measured {
        /// The chance that a member dies before it is replaced.
        death: f64,
        /// How long agreements take, in microseconds, if the fastest leads.
        least_us: u64,
        /// The same if the slowest leads.
        most_us: u64,
    },
}

impl Motive {
    /// What decided.
    pub const fn policy(&self) -> Policy {
        match self {
            Motive::Asked | Motive::Configured | Motive::Emptied => Policy::ByHand,
            Motive::Wants { size, .. } | Motive::Size { size, .. } | Motive::Surplus { size, .. }
                if size.lifetimes.is_some() =>
            {
                Policy::Lifetimes
            }
            Motive::Gone { .. }
            | Motive::Twice
            | Motive::Wants { .. }
            | Motive::Size { .. }
            | Motive::Surplus { .. }
            | Motive::Needy { .. }
            | Motive::Lacking { .. }
            | Motive::Leaderless
            | Motive::LeaderGone => Policy::Resilience,
            Motive::Beside { .. } => Policy::Diversity,
            Motive::Near { .. } | Motive::Slow { .. } => Policy::Latency,
            Motive::Uneven { .. } | Motive::Lumpy { .. } | Motive::Busy { .. } | Motive::Unfair { .. } => {
                Policy::Load
            }
            Motive::Elected { .. } => Policy::Election,
            Motive::Measured { .. } => Policy::Preset,
        }
    }
}

/// Microseconds as people read them.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_micros(self.0))
    }
}

impl fmt::Display for Motive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Motive::Asked => write!(f, "an operator asked for it"),
            Motive::Configured => write!(f, "the configuration says so"),
            Motive::Emptied => write!(f, "an operator empties it"),
            Motive::Gone { missing_ms, repair_ms } => {
                write!(f, "not there for {missing_ms} ms, counts as gone after {repair_ms}")
            }
            Motive::Twice => write!(f, "also in another group, where it stays"),
            Motive::Beside { members, size } => {
                write!(
                    f,
                    "on one machine with another member, and another group has room; {members} members, {size}"
                )
            }
            Motive::Wants { members, size } => {
                write!(f, "in no group and asked; {members} members, {size}")
            }
            Motive::Size { members, size } => write!(f, "{members} members, {size}"),
            Motive::Surplus { members, there, groups, size } => {
                write!(f, "{members} members, {there} in another of {groups} groups, {size}")
            }
            Motive::Uneven { load, neighbour, most, mean } => write!(
                f,
                "{load}/s for each member, {neighbour}/s at the neighbour; {mean}/s in the mean of all groups, {most}/s at most"
            ),
            Motive::Lumpy { busiest, load, mean } => write!(
                f,
                "{busiest}/s for one member, however buckets are led; {load}/s for each, {mean}/s in the mean of all groups"
            ),
            Motive::Needy { members, failure, groups } => {
                write!(f, "of {groups} groups the one that needs it most: {members} members")?;
                failure.map_or(Ok(()), |failure| write!(f, ", fails with a chance of {failure:.1e}"))
            }
            Motive::Near { agreement_us, groups } => {
                write!(f, "of {groups} groups, all safe, the nearest")?;
                agreement_us.map_or(Ok(()), |us| write!(f, ": agreements in {}", Micros(us)))
            }
            Motive::Busy { load, groups } => {
                write!(f, "of {groups} groups, all safe, one of the busiest: {load}/s altogether")
            }
            Motive::Lacking { seen_ms } => {
                write!(f, "for {seen_ms} ms others have known newer lines than it has")
            }
            Motive::Leaderless => write!(f, "nobody led"),
            Motive::LeaderGone => write!(f, "who led is no member or cannot be reached"),
            Motive::Slow { agreement_us: Some(us), fastest_us } => {
                write!(f, "agreements took {}, with the fastest {}", Micros(*us), Micros(*fastest_us))
            }
            Motive::Slow { agreement_us: None, fastest_us } => {
                write!(f, "how long agreements take is not known, with the fastest {}", Micros(*fastest_us))
            }
            Motive::Unfair { from, to } => write!(f, "who led had {from}, the other {to}"),
            Motive::Elected { assigned } => write!(f, "the log chose so; node {assigned} should have led"),
            Motive::Measured { death, least_us, most_us } => write!(
                f,
                "agreements take {} to {}, a member dies before it is replaced with a chance of {death:.1e}",
                Micros(*least_us),
                Micros(*most_us),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn reasons_name_their_policy_and_their_figures() {
        let size = SizeWanted { least: 3, most: 6, wanted: 3, lifetimes: None };
        let by_lifetimes = Some(SizeByLifetimes { death: 1.26e-3, nines: 6 });
        let restless = SizeWanted { least: 5, most: 10, wanted: 7, lifetimes: by_lifetimes };
        let all = [
            (Motive::Asked, Policy::ByHand, "an operator asked for it"),
            (
                Motive::Gone { missing_ms: 3_200, repair_ms: 3_000 },
                Policy::Resilience,
                "not there for 3200 ms, counts as gone after 3000",
            ),
            (Motive::Size { members: 2, size }, Policy::Resilience, "2 members, wanted 3..6, about 3"),
            (
                Motive::Size { members: 4, size: restless },
                Policy::Lifetimes,
                "4 members, wanted 5..10, about 7 for 6 nines where a node dies before it is replaced with a chance of 1.3e-3",
            ),
            (
                Motive::Uneven { load: 420, neighbour: 100, most: 500, mean: 200 },
                Policy::Load,
                "420/s for each member, 100/s at the neighbour; 200/s in the mean of all groups, 500/s at most",
            ),
            (
                Motive::Near { agreement_us: Some(1_500), groups: 3 },
                Policy::Latency,
                "of 3 groups, all safe, the nearest: agreements in 1.5ms",
            ),
            (
                Motive::Busy { load: 900, groups: 4 },
                Policy::Load,
                "of 4 groups, all safe, one of the busiest: 900/s altogether",
            ),
            (
                Motive::Elected { assigned: NodeId(4) },
                Policy::Election,
                "the log chose so; node 4 should have led",
            ),
        ];
        for (motive, policy, text) in all {
            assert_eq!((motive.policy(), motive.to_string().as_str()), (policy, text));
        }
    }
}
