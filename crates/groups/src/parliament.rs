//! What a group's own log decides about the ring: its neighbours, the locks of its links, its end.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quorate_commit::TransactionId;

use crate::group::{Group, Name, Stand};
use crate::mutant::Mutant;
use crate::operation::{Effect, Heir, Part};

/// Why a group votes no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The group, or its neighbour, is not as the coordinator knows it any more.
    Changed,
    /// A link is locked by another transaction. Nobody waits for a link: the coordinator tries again later.
    Locked {
        /// At which border.
        border: u64,
        /// By whom.
        by: TransactionId,
    },
    /// The group has ended.
    Ended,
}

/// A group as far as the ring is concerned: what all its members agree on, and the locks of whoever leads it.
///
/// A lock belongs to a link, which is named by its border, and both groups at the border hold it. So operations on groups
/// two apart do not meet, and two that do cannot both be agreed to (Scatter 4.3). What a group has agreed to stands in its log with its
/// part: a new leader takes the locks again from there. (What a coordinator has agreed to and not decided stands nowhere: it is aborted, or asked for anew.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parliament {
    stand: Stand,
    /// Set when it has ended.
    heirs: Option<Vec<Heir>>,
    /// By border.
    locked: BTreeMap<u64, TransactionId>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Parliament {
    /// A group that begins.
    pub fn new(stand: Stand) -> Parliament {
        Parliament {
            stand,
            heirs: None,
            locked: BTreeMap::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// The same with a broken rule.
    #[cfg(feature = "mutants")]
    pub fn broken(self, mutant: Option<Mutant>) -> Parliament {
        Parliament { mutant, ..self }
    }

    #[cfg(feature = "mutants")]
    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "with mutants it looks at them")]
    const fn breaks(&self, _: Mutant) -> bool {
        false
    }

    /// The group and its neighbours.
    pub fn stand(&self) -> &Stand {
        &self.stand
    }

    /// Who go on in its place, if it has ended.
    pub fn heirs(&self) -> Option<&[Heir]> {
        self.heirs.as_deref()
    }

    /// Who has locked the link at this border.
    pub fn locked_by(&self, border: u64) -> Option<TransactionId> {
        self.locked.get(&border).copied()
    }

    /// Whether it has agreed to something whose outcome it does not know. Then its leader asks for it, again and again.
    pub fn is_open(&self) -> bool {
        !self.locked.is_empty()
    }

    /// Agrees to a part, and locks its links, or refuses. What was agreed to before is agreed to again.
    ///
    /// # Errors
    /// Why it votes no. Nothing is changed then.
    pub fn prepare(&mut self, id: TransactionId, part: &Part) -> Result<(), Refusal> {
        if self.heirs.is_some() && !self.breaks(Mutant::EndedAgrees) {
            return Err(Refusal::Ended);
        }
        let Stand { group, before, after } = &self.stand;
        let (start, end) = (group.span.start, group.span.end);
        // Alone, or with one other, it is on both sides of a border.
        let stands_at = |border: u64, (left, right): (Name, Name)| {
            (border == start && (left, right) == (before.name, group.name))
                || (border == end && (left, right) == (group.name, after.name))
        };
        let links = || part.links.iter().map(|(border, pair)| (*border, *pair));
        let has_all = match &part.effect {
            Effect::Succeed(_) => part.links.contains_key(&start) && part.links.contains_key(&end),
            Effect::Neighbours { before, after } => {
                (before.is_none() || part.links.contains_key(&start))
                    && (after.is_none() || part.links.contains_key(&end))
            }
        };
        let is_known = part.group == group.name && links().all(|(border, pair)| stands_at(border, pair));
        if !(is_known && has_all) {
            return Err(Refusal::Changed);
        }
        let other = |border: u64| self.locked_by(border).filter(|by| *by != id);
        let in_the_way = links().find_map(|(border, _)| Some((border, other(border)?)));
        if let Some((border, by)) = in_the_way.filter(|_| !self.breaks(Mutant::LocksIgnored)) {
            return Err(Refusal::Locked { border, by });
        }
        self.lock(id, part);
        Ok(())
    }

    /// Locks the links of what was agreed to, for a new leader.
    ///
    /// # Panics
    /// If a link is locked by another: the log has agreed to both, which must not be.
    pub fn relock(&mut self, id: TransactionId, part: &Part) {
        let free = |border: &u64| self.locked_by(*border).is_none_or(|by| by == id);
        assert!(part.links.keys().all(free), "{id:?} and another have agreed to a link: {:?}", self.locked);
        if !self.breaks(Mutant::LocksForgotten) {
            self.lock(id, part);
        }
    }

    fn lock(&mut self, id: TransactionId, part: &Part) {
        let most = if self.breaks(Mutant::OneLinkLocked) { 1 } else { part.links.len() };
        self.locked.extend(part.links.keys().take(most).map(|border| (*border, id)));
    }

    /// Gives the locks of a transaction back.
    pub fn release(&mut self, id: TransactionId) {
        self.locked.retain(|_, by| *by != id);
    }

    /// Does what was agreed to, once, and gives the locks back.
    pub fn carry_out(&mut self, id: TransactionId, part: &Part) {
        self.release(id);
        match &part.effect {
            Effect::Neighbours { before, after } => {
                let take = |place: &mut Group, other: &Option<Group>| {
                    other.iter().for_each(|other| place.clone_from(other));
                };
                take(&mut self.stand.before, before);
                if !self.breaks(Mutant::AfterForgotten) {
                    take(&mut self.stand.after, after);
                }
            }
            Effect::Succeed(heirs) => self.heirs = Some(heirs.clone()),
        }
    }
}
