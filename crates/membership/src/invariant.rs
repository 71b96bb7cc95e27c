//! Invariants of one node's whole state, run by the simulator after every step.
//!
//! | invariant | source |
//! |---|---|
//! | a member is in its view; views are sorted, without doubles, and no member is from the future | V4 |
//! | nobody is reported as gone who is no member, nor as wanting in who is one | V5 |
//! | alerts are of rings that exist, and of those on which the reporter watches the subject | V3 |
//! | an acceptor's vote is not above its promise | Paxos |
//! | nobody voted for two values in one round; fast votes and classic ones are of known members | V6 |
//! | no cut contains its proposer's removal | decision 0007 |
//! | tables and queues are within their bounds | limits |

use quorate_kernel::costly;

use crate::machine::Membership;
use crate::message::Rank;
use crate::seat::Seat;
use crate::view::Change;

impl Membership {
    pub(crate) fn check_invariants(&self) {
        let Some(seat) = self.seat() else { return };
        assert!(self.past.is_none(), "a member has no past membership");
        assert!(!seat.removed, "a node that is removed is no member");
        let consensus = &seat.consensus;
        if let Some((rank, _)) = consensus.voted {
            assert!(rank <= consensus.promised, "voted {rank:?} above the promise {:?}", consensus.promised);
        }
        assert!(seat.waiting.len() <= self.config.joiners_max, "joiners wait without a bound");
        assert!(seat.pullers.len() <= self.config.joiners_max, "pullers wait without a bound");
        assert!(seat.chain.steps.len() <= self.config.steps_max, "decisions pile up");
        costly! { check_seat(seat) }
    }
}

fn check_seat(seat: &Seat) {
    let view = seat.view();
    assert!(view.is_sound() && view.has(seat.me), "{:?} sits in {view:?}", seat.me);
    for (id, subject) in seat.alerts.subjects() {
        assert_eq!(view.has(id), subject.is_member, "{id:?} is reported the wrong way");
        assert_eq!(subject.meta.is_some(), !subject.is_member, "{id:?}: who joins is described");
        assert!(!subject.raised().is_empty(), "{id:?} is reported by nobody");
        assert!(u64::from(subject.raised().0) < 1_u64 << seat.rings.count(), "rings that do not exist");
    }
    let tallies = &seat.consensus.tallies;
    for (index, one) in tallies.iter().enumerate() {
        assert!(!one.voters.is_empty() && one.rank != Rank::NONE, "votes of nobody");
        assert!(one.voters.iter().all(|place| place < view.members.len()), "votes of strangers");
        for other in tallies[index + 1..].iter().filter(|other| other.rank == one.rank) {
            assert!(!one.voters.iter().any(|place| other.voters.has(place)), "two votes in {:?}", one.rank);
        }
    }
    if let Some(own) = seat.consensus.own.and_then(|own| seat.consensus.values.get(&own)) {
        let removes = own.changes.iter().any(|change| *change == Change::Remove { id: seat.me });
        assert!(!removes, "a node proposes its own removal");
        assert!(view.after(own).is_some(), "a proposal does not fit its view");
    }
}
