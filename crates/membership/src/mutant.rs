//! Rules that can be broken on purpose, one at a time, so that the simulator proves it would notice.

/// A broken rule. Without the feature `mutants` none can be chosen, and the rules are compiled in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A fast vote leaves although a classic round was promised (published code).
    FastVoteAfterPromise,
    /// Classic rounds have the number 2 and no other (published code).
    RoundNeverGrows,
    /// Two coordinators may use one rank (published code: a hash of 32 bits).
    RankNotUnique,
    /// Promises are counted as often as they arrive (published code).
    PromiseNotDeduplicated,
    /// What is known of a joiner is looked up where the cut is installed, and not remembered once the node has
    /// announced its proposal (published code).
    JoinerForgottenWhenAnnounced,
    /// Alerts of other views count.
    AlertsOfAnotherView,
    /// Failed probes are counted for ever; successes do not make good for them (published code).
    DetectorCumulative,
    /// Observers that are suspected themselves are not taken to have alerted.
    NoImplicitAlerts,
    /// Subjects that stay between the watermarks are not reported by the rest of their observers (published code).
    NoReinforcement,
    /// Any alert is enough.
    WatermarksIgnored,
    /// Somebody who catches up over several views tells its parent only the last one.
    SkipView,
    /// One vote fewer than a fast quorum suffices.
    FastQuorumOffByOne,
    /// One promise or vote fewer than a classic quorum suffices.
    ClassicQuorumOffByOne,
    /// A coordinator proposes its own cut whatever the promises say.
    ClassicPicksFreely,
    /// A restarted node does not remember what it promised and voted for.
    ForgetAcceptor,
    /// Votes leave before they are on disk.
    VoteEarly,
    /// A coordinator is promised a round below one that was promised before.
    PromiseAnything,
    /// A joiner gets a view without waiting for what the parent says of it.
    WelcomeWithoutState,
    /// A lagging node is not told that there are newer views (published code).
    NoCatchUp,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 19] = [
        Mutant::FastVoteAfterPromise,
        Mutant::RoundNeverGrows,
        Mutant::RankNotUnique,
        Mutant::PromiseNotDeduplicated,
        Mutant::JoinerForgottenWhenAnnounced,
        Mutant::AlertsOfAnotherView,
        Mutant::DetectorCumulative,
        Mutant::NoImplicitAlerts,
        Mutant::NoReinforcement,
        Mutant::WatermarksIgnored,
        Mutant::SkipView,
        Mutant::FastQuorumOffByOne,
        Mutant::ClassicQuorumOffByOne,
        Mutant::ClassicPicksFreely,
        Mutant::ForgetAcceptor,
        Mutant::VoteEarly,
        Mutant::PromiseAnything,
        Mutant::WelcomeWithoutState,
        Mutant::NoCatchUp,
    ];
}
