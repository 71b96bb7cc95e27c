//! Rules of the shard and of the node above it that can be broken on purpose, one at a time, so that the simulator
//! proves it would notice.

/// A broken rule. Without the feature `mutants` none can be chosen, and the rules are compiled in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A replica that took over a snapshot forgets the sessions in it.
    SessionsNotInSnapshot,
    /// A request that comes again is applied again.
    ApplyAgain,
    /// What was applied is in the store before the session says so.
    SessionRowMissing,
    /// A read decides by its own clock whether a key has expired, without asking the log.
    ExpiryByLocalClock,
    /// A read is answered before the entries it has to show are applied.
    ReadBeforeApplied,
    /// A key that is created again has the version it had at first.
    VersionsRestart,
    /// A change of a value does not change its version.
    VersionKept,
    /// EXEC runs whatever has become of the watched keys.
    WatchIgnored,
    /// Replicas let keys expire when their own clock says so.
    ApplyByLocalClock,
    /// Removing a key leaves its expiry row.
    ExpiryRowLeft,
    /// What is to be removed and comes before the place where removing goes on is passed over.
    FrontsStay,
    /// A write that is sent again gets a new number.
    RetryWithNewNumber,
    /// A write that was sent and not answered in time is refused.
    SentIsRefused,
    /// Requests of one connection do not wait for each other.
    OrderIgnored,
    /// Reads of one connection are answered in whatever order they come back.
    ReadsOvertake,
    /// Reads that were asked in an earlier life are taken for those of this one.
    NamesRepeat,
    /// A node that leads others stops.
    StopWhileLeading,
    /// Old sessions are forgotten when a step of applying ends, wherever that is.
    SessionsForgottenByStep,
    /// A node lets go of records that one of its buckets needs no more, though another does.
    DiscardForOthers,
    /// Strict reads do not wait for transactions that are prepared to change what they read.
    ReadsPassTransactions,
    /// A strict read of several keys of a bucket waits for what was prepared when it came, and for nothing that was prepared while it waited.
    SeveralReadApart,
    /// Batches do not wait for the locks of transactions.
    BatchesPassLocks,
    /// Who has the locks of an outcome on its way looks at what is applied, and does not see what that changes.
    OutcomesUnseen,
    /// Batches that have the locks of an outcome on its way get into the log before it.
    BatchesPassOutcomes,
    /// What a transaction needs is looked at before everything logged earlier is applied.
    LooksTooEarly,
    /// What a transaction does is done with another time and chance than its vote was made with.
    RunsOtherwise,
    /// A key that a prepared transaction has found expires before its outcome.
    ExpiryPassesTransactions,
    /// What is lent to a script is not locked.
    LoansUnlocked,
    /// A vote that was taken back is given again with what was exported the first time.
    StaleExport,
    /// Each command of a script sees what was lent, and not what the commands before it did.
    CommandsSeeLoans,
    /// Logged time does not follow that of a script.
    TimeStaysBehind,
    /// Logged time passes that of votes that wait to be logged.
    TimePassesVotes,
    /// A vote on keys that expire is kept out of the log until the decision.
    TimePassesKeptVotes,
    /// A step of SCAN ends the scan where its bucket ends.
    ScanEndsEarly,
    /// What is read at several shards without locks is believed the first time.
    CollectsOnce,
    /// What is read at several shards without locks is believed if only one of them has changed, without asking the others once more.
    CollectsApart,
    /// A request that met others is asked for again where it would have gone without them.
    MeetsElsewhere,
    /// No log remembers what was found by requests that write either, and their origins ask anew where it is lost.
    AllForgotten,
    /// A copy answers strict reads from what it has applied, however far that is.
    CopiesReadAtOnce,
    /// What another node asks of a copy is answered as of an entry that was asked for before.
    ErrandsJoin,
    /// Strict reads at copies do not wait for transactions that are prepared to change what they read.
    CopiesPassTransactions,
    /// What bears a name of its client gets a number of the node's own.
    NamesIgnored,
    /// An EXEC that did nothing is explained by the first of its watched keys, and by a version that this never had.
    ReasonsMadeUp,
    /// A transaction replaces notes whatever they say by then.
    NotesUncompared,
    /// The notes that a transaction replaces are not locked.
    NotesUnlocked,
    /// An operation on groups leaves their neighbours' lines as they are.
    NeighboursUntold,
    /// Epochs of groups begin anew.
    EpochsRestart,
    /// A home whose group has gone to another keeps it.
    HomesKept,
    /// Who wants to join a group may be in another already, and stays in both.
    InTwoGroups,
    /// The border between two groups moves, and what the one gives away it keeps holding.
    SpansOverlap,
    /// Who answers nothing is there as long as a connection to it stands.
    SilenceUnnoticed,
    /// Members of a group that share a machine stay, though another group has room and nobody there.
    MachineShared,
    /// A home that has lost what its neighbours know does not get it back.
    LossesKept,
}

impl Mutant {
    /// Those that show where groups hold the buckets.
    pub const OF_GROUPS: [Mutant; 9] = [
        Mutant::NotesUncompared,
        Mutant::NotesUnlocked,
        Mutant::NeighboursUntold,
        Mutant::EpochsRestart,
        Mutant::HomesKept,
        Mutant::InTwoGroups,
        Mutant::SpansOverlap,
        Mutant::SilenceUnnoticed,
        Mutant::MachineShared,
    ];

    /// All others that show in simulations.
    pub const ALL: [Mutant; 43] = [
        Mutant::SessionsNotInSnapshot,
        Mutant::ApplyAgain,
        Mutant::SessionRowMissing,
        Mutant::ExpiryByLocalClock,
        Mutant::ReadBeforeApplied,
        Mutant::VersionsRestart,
        Mutant::VersionKept,
        Mutant::WatchIgnored,
        Mutant::ApplyByLocalClock,
        Mutant::ExpiryRowLeft,
        Mutant::FrontsStay,
        Mutant::RetryWithNewNumber,
        Mutant::SentIsRefused,
        Mutant::OrderIgnored,
        Mutant::ReadsOvertake,
        Mutant::NamesRepeat,
        Mutant::StopWhileLeading,
        Mutant::SessionsForgottenByStep,
        Mutant::DiscardForOthers,
        Mutant::ReadsPassTransactions,
        Mutant::SeveralReadApart,
        Mutant::BatchesPassLocks,
        Mutant::OutcomesUnseen,
        Mutant::BatchesPassOutcomes,
        Mutant::LooksTooEarly,
        Mutant::RunsOtherwise,
        Mutant::ExpiryPassesTransactions,
        Mutant::LoansUnlocked,
        Mutant::StaleExport,
        Mutant::CommandsSeeLoans,
        Mutant::TimeStaysBehind,
        Mutant::TimePassesVotes,
        Mutant::TimePassesKeptVotes,
        Mutant::ScanEndsEarly,
        Mutant::CollectsOnce,
        Mutant::CollectsApart,
        Mutant::MeetsElsewhere,
        Mutant::AllForgotten,
        Mutant::CopiesReadAtOnce,
        Mutant::ErrandsJoin,
        Mutant::CopiesPassTransactions,
        Mutant::NamesIgnored,
        Mutant::ReasonsMadeUp,
    ];
}
