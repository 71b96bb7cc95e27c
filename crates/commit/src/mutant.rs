//! Rules that can be broken on purpose, one at a time, so that the simulator proves it would notice. The names in brackets
//! are those of decision 0008.

/// A broken rule. Without the feature `mutants` none can be chosen, and the rules are compiled in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The outcome is told before it is in the coordinator's log (B2).
    TellBeforeLog,
    /// A refusal that comes after the decision to abort counts as a yes (B3).
    RefusalCounts,
    /// Votes are counted, and a vote that came twice counts twice (B3).
    DuplicateVotesCount,
    /// A vote counts, whatever epoch it is of (B5).
    NoEpochs,
    /// Waiters overtake older ones with which they share a resource (B5b).
    Overtake,
    /// A vote counts, whatever coordinator's view it was given to, and a grant of any view too (B6).
    NoCoordinatorView,
    /// A grant is taken that an earlier primary of the participant had asked for (B6).
    NoParticipantView,
    /// A transaction that waits for its locks votes yes when asked (B7).
    ReceivedCounts,
    /// A participant that never heard of a transaction refuses it without logging that (B7).
    RefusalInMemory,
    /// A coordinator that never heard of a transaction says it is aborted without logging that (B7).
    TombstoneInMemory,
    /// A key that was removed and is created again has the version it had at first (B10).
    VersionsRestart,
    /// Versions are compared when the request comes, and not again when its locks are free (B12).
    CheckThenLock,
    /// A participant that never heard of a transaction says nothing when asked (B14).
    NoTombstone,
    /// A query that says that a vote was taken back does not take it back.
    QueryGrantsNothing,
    /// The coordinator counts its own vote when it is given, and not as it stands when it decides.
    OwnVoteFromMessage,
    /// The outcome is logged and applied as often as it is told.
    GlobalTwice,
    /// A coordinator forgets a transaction before all participants have the outcome.
    ForgottenBeforeAcknowledged,
    /// A transaction is forgotten though its request may come again.
    ForgottenBeforeSettled,
    /// Locks shared by readers are not asked back for an older writer.
    ReadersKept,
    /// When locks are free, one waiter is told.
    WakeOne,
    /// A new primary forgets the locks of what is prepared.
    LocksForgotten,
    /// A participant keeps the locks of what did not happen.
    LocksKept,
    /// What belonged to a bundle is not remembered: a member that is asked for again begins again.
    MembersForgotten,
    /// A bundle bears the name of its first member, which may have another content in another reign.
    BundleNamedByMember,
    /// Who gets what an outcome on its way sets free is not shown what that outcome changes.
    OutcomesUnseen,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 25] = [
        Mutant::TellBeforeLog,
        Mutant::RefusalCounts,
        Mutant::DuplicateVotesCount,
        Mutant::NoEpochs,
        Mutant::Overtake,
        Mutant::NoCoordinatorView,
        Mutant::NoParticipantView,
        Mutant::ReceivedCounts,
        Mutant::RefusalInMemory,
        Mutant::TombstoneInMemory,
        Mutant::VersionsRestart,
        Mutant::CheckThenLock,
        Mutant::NoTombstone,
        Mutant::QueryGrantsNothing,
        Mutant::OwnVoteFromMessage,
        Mutant::GlobalTwice,
        Mutant::ForgottenBeforeAcknowledged,
        Mutant::ForgottenBeforeSettled,
        Mutant::ReadersKept,
        Mutant::WakeOne,
        Mutant::LocksForgotten,
        Mutant::LocksKept,
        Mutant::MembersForgotten,
        Mutant::BundleNamedByMember,
        Mutant::OutcomesUnseen,
    ];
}
