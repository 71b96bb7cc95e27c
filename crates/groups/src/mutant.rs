//! Rules that can be broken on purpose, one at a time, so that the simulator proves it would notice.

/// A broken rule. Without the feature `mutants` those of this crate are compiled in whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A link that another transaction has locked is locked by this one as well.
    LocksIgnored,
    /// A group locks one of its links where it should lock both.
    OneLinkLocked,
    /// A group that has ended agrees to things.
    EndedAgrees,
    /// A new leader forgets the locks of what was agreed to.
    LocksForgotten,
    /// A neighbour takes over who stands before it, and not who stands after it.
    AfterForgotten,
    /// An heir begins when one of the groups that it comes from has ended.
    HeirsDoNotWait,
    /// An heir that has begun begins anew when it is told once more.
    BeginsAgain,
    /// A new leader of a group that has ended does not go on telling its heirs.
    HeirsForgotten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 8] = [
        Mutant::LocksIgnored,
        Mutant::OneLinkLocked,
        Mutant::EndedAgrees,
        Mutant::LocksForgotten,
        Mutant::AfterForgotten,
        Mutant::HeirsDoNotWait,
        Mutant::BeginsAgain,
        Mutant::HeirsForgotten,
    ];
}
