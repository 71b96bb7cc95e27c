//! Which policies for which deployment (Scatter table 1).

use core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::join::Aim;

/// A deployment as its operator describes it, or as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preset {
    /// Nodes stay, and are all as far from each other: a machine room.
    Steady,
    /// Nodes stay, and some are far from each other: several sites.
    Wide,
    /// Nodes come and go, and some are far from each other: machines of volunteers.
    Restless,
}

/// What groups and nodes do by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// What decides between groups that are safe enough.
    pub join: Aim,
    /// Where sizes are given: whether only groups are safe enough that have theirs, or all that are not so small that they merge. The latter leaves
    /// more to choose from: somewhere somebody is missing all the time.
    pub fills_first: bool,
    /// Whether leadership moves to the member whose agreements take the least time.
    pub moves_leaders: bool,
    /// Whether borders move with the load.
    pub moves_borders: bool,
}

/// What was measured of a deployment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The chance that a node dies before it can be replaced.
    pub death: f64,
    /// How long agreements take of a group that the member leads for whom they take the least time, and the most.
    pub latencies: (Duration, Duration),
}

/// The chance of death before a replacement at which nodes are said to come and go: with lifetimes of 1,000 s, replaced
/// within a second and a half.
const RESTLESS: f64 = 1.5e-3;

/// How much more an agreement has to take with one leader than with another for nodes to be far from each other.
const FAR: u32 = 3;

/// And by how much at least: machines of one room that are busy answer late now and then.
const FAR_LEAST: Duration = Duration::from_millis(5);

impl Preset {
    /// What a deployment is, as it was measured. One that is near a limit stays what it is: what brought it there has to fall below the limit again,
    /// and what would bring it there has to be half as much again beyond.
    pub fn auto(measured: Measured, now: Preset) -> Preset {
        let slack = |is: bool| if is { 1.0 } else { 1.5 };
        let is_restless = measured.death > RESTLESS * slack(now == Preset::Restless);
        let (least, most) = measured.latencies;
        let wide = slack(now != Preset::Steady);
        let is_wide = most.as_secs_f64() > least.as_secs_f64() * f64::from(FAR) * wide
            && (most - least.min(most)).as_secs_f64() > FAR_LEAST.as_secs_f64() * wide;
        match (is_restless, is_wide) {
            (true, _) => Preset::Restless,
            (false, true) => Preset::Wide,
            (false, false) => Preset::Steady,
        }
    }

    /// As configurations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Steady => "steady",
            Preset::Wide => "wide",
            Preset::Restless => "restless",
        }
    }

    /// What is done there. Sizes follow from lifetimes in each of them.
    pub const fn policies(self) -> Policies {
        match self {
            Preset::Steady => {
                Policies { join: Aim::Load, fills_first: true, moves_leaders: false, moves_borders: true }
            }
            Preset::Wide => {
                Policies { join: Aim::Latency, fills_first: false, moves_leaders: true, moves_borders: true }
            }
            // Each move of a border is an operation that a death may catch on its way, and does not make a group safer.
            Preset::Restless => {
                Policies { join: Aim::Latency, fills_first: true, moves_leaders: true, moves_borders: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_are_known_by_what_is_measured() {
        let ms = Duration::from_millis;
        let measured = |death, least, most| Measured { death, latencies: (ms(least), ms(most)) };
        let from_steady = |measured| Preset::auto(measured, Preset::Steady);
        assert_eq!(from_steady(measured(1e-6, 1, 2)), Preset::Steady);
        assert_eq!(from_steady(measured(1e-6, 1, 7)), Preset::Steady, "busy machines are not far");
        assert_eq!(from_steady(measured(1e-6, 1, 80)), Preset::Wide);
        assert_eq!(from_steady(measured(1.5e-2, 1, 80)), Preset::Restless);
        for (at_a_limit, stays) in [
            (measured(1.8e-3, 1, 2), [Preset::Steady, Preset::Restless]),
            (measured(1e-6, 10, 40), [Preset::Steady, Preset::Wide]),
        ] {
            for now in stays {
                assert_eq!(Preset::auto(at_a_limit, now), now, "{at_a_limit:?}");
            }
        }
    }
}
