//! Which sessions are remembered, and for how long.

use alloc::collections::BTreeMap;
use bytes::Bytes;
use quorate_kernel::wire;
use quorate_replog::session::Session;

use crate::overlay::Overlay;
use crate::sessions::{Limits, Sessions};

use super::AREA;

fn limits() -> Limits {
    Limits { sessions_max: 2, unused_entries_min: 10, ..Limits::production() }
}

fn use_at(sessions: &mut Sessions, number: u64, index: u64) {
    sessions.change(number, true).expect("created").touch(index);
}

#[test]
fn the_one_unused_for_longest_goes_and_no_recent_one_does() {
    let mut sessions = Sessions::default();
    for (number, index) in [(1, 5), (2, 6), (3, 7)] {
        use_at(&mut sessions, number, index);
    }
    let mut appended = BTreeMap::from([(1, 7), (2, 8)]);
    let mut overlay = Overlay::default();
    sessions.forget_oldest((AREA, 14), &limits(), &mut overlay, &mut appended);
    sessions.write(AREA, &mut overlay);
    assert_eq!(overlay.into_writes().len(), 3, "too recent to go");
    use_at(&mut sessions, 2, 15);
    let mut overlay = Overlay::default();
    sessions.forget_oldest((AREA, 15), &limits(), &mut overlay, &mut appended);
    assert_eq!(appended, BTreeMap::from([(2, 8)]), "who asks again in the first hears that it is lost");
    sessions.write(AREA, &mut overlay);
    let writes = overlay.into_writes();
    assert!(sessions.get(1).is_none() && sessions.get(2).is_some() && sessions.get(3).is_some());
    assert_eq!(writes.iter().filter(|(_, value)| value.is_none()).count(), 1);
    assert_eq!(
        writes.iter().filter(|(_, value)| value.is_some()).count(),
        1,
        "only what has changed is written"
    );
}

#[test]
fn a_session_that_may_have_been_forgotten_is_not_taken_for_a_new_one() {
    let limits = limits();
    // It began after entry 20, so it was used at 21 or later and is remembered up to entry 30 at least.
    assert!(limits.is_new(20, 21) && limits.is_new(20, 30));
    assert!(!limits.is_new(20, 31));
    assert!(limits.is_new(u64::MAX, u64::MAX));
}

#[test]
fn rows_of_sessions_keep_their_bytes() {
    let mut session = Session::default();
    session.finish(1, Bytes::from_static(&[0]), 300);
    session.finish(2, Bytes::from_static(&[2, 2]), 301);
    let bytes = wire::encode(&session);
    assert_eq!(bytes, [2, 2, 1, 0, 2, 2, 2, 0xad, 0x02], "the format of version 1");
    assert_eq!(wire::decode::<Session>(&bytes), Ok(session));
}
