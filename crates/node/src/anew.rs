//! A chain of views that has ended begins anew.
//!
//! The members of a view decide together who is in the next one. If most of them die before they have, nobody ever decides again: nobody is
//! removed and nobody comes in. Where nodes die all the time this befalls a view of all nodes sooner than the logs: these let dead members go
//! one by one, by what their leaders see, and have their majorities still. So a log decides: whoever leads bucket 0 notes there the view that
//! goes on with those who are left. As a note replaces the one it was made from and no other, there is one such view after another, and all
//! nodes that learn of it take it up, since its number is far above all that the old chain can have reached.
//!
//! If most members live after all and are out of this node's sight only, they lose their chain, take up the new one, and those who are not in
//! it ask to be let in. Nothing rests on the view but whom groups take in (`ring.rs`), so that this costs time.

use bytes::Bytes;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, wire};
use quorate_membership::{self as membership, View};
use quorate_shard::{self as shard, Note};

use crate::machine::{Node, Out};

/// The note that is the view which began the newest chain, in bucket 0.
const ANEW: u8 = 5;
/// Most of a view are out of sight for so long, at least, before it is given up: much longer than a view takes to change.
const PATIENCE: Duration = Duration::from_secs(3);

impl Node {
    /// Whoever leads bucket 0 begins the chain of views anew if most members of its last one are gone.
    pub(crate) fn look_after_chain(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let (me, patience) = (self.config.me.id, self.config.repair_after().max(PATIENCE));
        let leads = self.takes_batches(Bucket(0));
        let Some(roster) = &mut self.roster else { return };
        let Some(view) = roster.membership.view() else { return };
        let is_there = |id| id == me || self.connected.contains(&id);
        let there = view.members.iter().filter(|member| is_there(member.id)).count();
        if !leads || there * 2 > view.members.len() {
            roster.minority_since = None;
            return;
        }
        let since = *roster.minority_since.get_or_insert(cx.now);
        if cx.now.since(since) < patience {
            return;
        }
        // What has no effect is proposed again after as long.
        roster.minority_since = Some(cx.now);
        let Some(next) = view.anew(is_there) else { return };
        cx.marks.hit("node.view.anew");
        let on = self.replicas.get(&Bucket(0)).and_then(|replica| replica.shard.note(ANEW));
        let on = on.map_or(0, |note| note.number);
        let note = Note { name: ANEW, on, number: on + 1, content: Bytes::from(wire::encode(&next)) };
        self.step_shard(cx, Bucket(0), Event::Input(shard::Input::Notes([note].into())), out);
    }

    /// Notes of bucket 0 have changed: perhaps a chain of views began.
    pub(crate) fn on_chain_noted(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(replica) = self.replicas.get(&Bucket(0)) else { return };
        let Some(view) = replica.shard.note(ANEW).and_then(|note| wire::decode::<View>(&note.content).ok())
        else {
            return;
        };
        let known = self.roster.as_ref().and_then(|roster| roster.view()).map(View::seq);
        if known.is_some_and(|known| known < view.seq()) {
            self.step_membership(cx, Event::Input(membership::Input::Anew { view }), out);
        }
    }
}
