//! Safety rules that can be broken on purpose, one at a time, so that the simulator proves it would notice.

/// A broken rule. Without the feature `mutants` none can be chosen, and the rules are compiled in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// Promises leave before they are on disk.
    PromiseEarly,
    /// Acknowledgements leave before the entries are on disk.
    AcceptEarly,
    /// The leader counts its own copy before it is on disk.
    CountSelfEarly,
    /// What is kept when records are discarded lacks the promise.
    KeptWithoutPromise,
    /// One copy fewer than a quorum suffices.
    QuorumOffByOne,
    /// A follower accepts from a leader with a lower ballot than it promised.
    AcceptAfterPromise,
    /// A vote is granted without comparing logs.
    VoteForShorterLog,
    /// Entries of earlier leaders count as chosen before the leader's own log has arrived.
    ChooseBeforeTakeover,
    /// A follower that only began to receive a new leader's log already claims that leader's ballot for it.
    ClaimBallotEarly,
    /// The lease is believed without subtracting clock errors, and somewhat longer than granted.
    LeaseWithoutMargin,
    /// A lease counts from when the acknowledgement arrived, not from when the message was sent.
    LeaseFromReceipt,
    /// A restarted follower forgets that it may have granted a lease.
    VoteRightAfterRestart,
    /// A leader that handed over goes on reading under its lease.
    LeaseAfterHandover,
    /// A leader answers reads before its takeover is chosen.
    ReadBeforeTakeover,
    /// A read round counts acknowledgements of earlier rounds.
    ReadRoundStale,
    /// A leader goes on writing in an epoch after it sealed it.
    WriteAfterSeal,
    /// A leader that is no member any more once its seal is chosen goes on reading under the lease it has, also after it handed over.
    LeaseAcrossSeal,
    /// A seal takes effect when it is appended, not when it is chosen.
    SealBeforeChosen,
    /// Learners count as members before they are.
    LearnersCount,
    /// A follower cuts its log back before the newer one has arrived.
    TruncateEarly,
    /// Records are discarded though the store has not made their effects durable.
    DiscardBeforeDurable,
    /// An installed snapshot is acknowledged before it is durable.
    InstallBeforeDurable,
    /// The successor's first leader skips its election although it did not propose the seal.
    SucceedWithoutElection,
    /// Former members are told that nobody needs them, and are sent nothing more, before a quorum of the new ones has everything.
    FormerLetGoEarly,
    /// Where the log is said to begin anew, a restarted replica forgets what followed there before.
    TailForgotten,
    /// A replica that was fenced goes on as if it was not.
    FenceForgotten,
    /// The entries of a log that goes on alone are numbered as if those who are gone had gone no further.
    IndexNotRaised,
    /// What was chosen before a log was recovered counts for the leaders it has after that.
    EarlierEraCounts,
    /// Of those who could go on alone, the one does whose log reaches least far.
    ShortestGoesOn,
}

impl Mutant {
    /// Those that only show where a log is recovered without its majority.
    pub const RECOVERY: [Mutant; 4] =
        [Mutant::FenceForgotten, Mutant::IndexNotRaised, Mutant::EarlierEraCounts, Mutant::ShortestGoesOn];

    /// All others.
    pub const ALL: [Mutant; 25] = [
        Mutant::PromiseEarly,
        Mutant::TailForgotten,
        Mutant::AcceptEarly,
        Mutant::CountSelfEarly,
        Mutant::KeptWithoutPromise,
        Mutant::QuorumOffByOne,
        Mutant::AcceptAfterPromise,
        Mutant::VoteForShorterLog,
        Mutant::ChooseBeforeTakeover,
        Mutant::ClaimBallotEarly,
        Mutant::LeaseWithoutMargin,
        Mutant::LeaseFromReceipt,
        Mutant::VoteRightAfterRestart,
        Mutant::LeaseAfterHandover,
        Mutant::ReadBeforeTakeover,
        Mutant::ReadRoundStale,
        Mutant::WriteAfterSeal,
        Mutant::LeaseAcrossSeal,
        Mutant::SealBeforeChosen,
        Mutant::LearnersCount,
        Mutant::TruncateEarly,
        Mutant::DiscardBeforeDurable,
        Mutant::InstallBeforeDurable,
        Mutant::SucceedWithoutElection,
        Mutant::FormerLetGoEarly,
    ];
}
