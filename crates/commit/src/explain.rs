//! What a transaction waits for, told to its origin while it lasts and when it is over. Nothing depends on it.

use quorate_kernel::Time;

use crate::machine::{Commit, Effect, Resources, Turn};
use crate::{LogId, State, TransactionId, Wait, Word};

impl Commit {
    /// It waits: what for is remembered.
    pub(crate) fn note_wait<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let found = self.transaction(id).and_then(|known| turn.resources.in_the_way(known));
        if let (Some(live), Some(found)) = (self.live_mut(id), found) {
            live.in_the_way = Some(found);
        }
    }

    /// Whether it has no locks yet.
    pub(crate) fn is_waiting(&self, id: TransactionId) -> bool {
        let Some(live) = self.live(id).filter(|live| !live.flight.any() && !live.pending) else {
            return false;
        };
        let begins = live.begins.is_some() && self.kept(id).is_none();
        self.ledger.get(id).map_or(begins, |record| record.state == State::Waiting)
    }

    /// Tells the origin, by way of the coordinator, what it has waited for, if that took long.
    pub(crate) fn tell_wait<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let Some(wait) = self.wait_of(id, turn.now) else { return };
        let Some(coordinator) = self.transaction(id).map(|known| known.coordinator) else { return };
        turn.marks.hit("commit.wait.told");
        match coordinator == self.me {
            true => self.tell_origins(turn, id, &wait),
            false => self.send(turn, coordinator, id, Word::Waits(wait)),
        }
    }

    fn wait_of(&self, id: TransactionId, now: Time) -> Option<Wait> {
        let live = self.live(id)?;
        let waited = now.since(live.since);
        let (resource, by) = live.in_the_way.clone().filter(|_| waited >= self.config.told_after)?;
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        Some(Wait { log: self.me, resource, by, waited_ms })
    }

    /// A participant says what it waits for.
    pub(crate) fn on_waits<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        from: LogId,
        id: TransactionId,
        wait: Wait,
    ) {
        let undecided =
            self.live(id).is_some_and(|live| !live.decided) && self.is_coordinated_by(id, self.me);
        if undecided && wait.log == from {
            self.tell_origins(turn, id, &wait);
        }
    }

    /// Tells whoever asked for `id`, or for the members of this bundle: what it waits for, they all wait for. Members are told
    /// once, of the first log that says so: they are many, and so may be the logs.
    fn tell_origins<R>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, wait: &Wait) {
        let told = self.live_mut(id).is_some_and(|live| core::mem::replace(&mut live.told, true));
        let members = self.transaction(id).map_or(&[][..], |known| &known.members);
        if told && !members.is_empty() {
            return;
        }
        let alone = members.is_empty().then_some(id);
        let ids = members.iter().map(|member| member.id).chain(alone);
        turn.out.extend(ids.map(|id| Effect::Waits { id, wait: wait.clone() }));
    }
}
