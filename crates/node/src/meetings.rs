//! How many transactions meet others, and when they were sent.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use quorate_kernel::Time;

use crate::transactions::Open;

/// Those of the open transactions that meet others, counted, since it is asked about them with each answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Meetings {
    /// By when they were sent: those of one moment went as one message.
    pub(crate) sent: BTreeMap<Time, usize>,
    pub(crate) unsent: usize,
}

impl Meetings {
    pub(crate) fn add(&mut self, open: &Open) {
        match open.sent_at.filter(|_| open.meets) {
            Some(at) => *self.sent.entry(at).or_default() += 1,
            None => self.unsent += usize::from(open.meets),
        }
    }

    pub(crate) fn remove(&mut self, open: &Open) {
        match open.sent_at.filter(|_| open.meets) {
            Some(at) => {
                if let Entry::Occupied(mut count) = self.sent.entry(at) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
            None => self.unsent -= usize::from(open.meets),
        }
    }
}
