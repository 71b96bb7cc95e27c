//! What happens next: an event queue ordered by time, then by the order in which things were asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A priority queue whose ties are broken by insertion, so that equal times never leave anything to chance.
///
/// The heap holds small keys only; what happens lies beside it and does not move.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
    pushed: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), pushed: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts `item` at `at`, behind everything that is there already at the same time.
    pub(crate) fn push(&mut self, at: u64, item: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                u32::try_from(self.items.len() - 1).expect("fewer than 2^32 events are queued")
            }
        };
        self.heap.push(Reverse((at, self.pushed, place)));
        self.pushed += 1;
    }

    /// How much is in it.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// When the next item is due.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next item out.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        let item = self.items[place as usize].take().expect("every key in the heap has its item");
        self.free.push(place);
        Some((at, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_insertion() {
        let mut queue = Queue::default();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            queue.push(at, name);
        }
        assert_eq!(queue.next_at(), Some(3));
        assert_eq!(queue.pop(), Some((3, 'b')));
        queue.push(3, 'e');
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [(3, 'd'), (3, 'e'), (5, 'a'), (5, 'c')]);
        assert_eq!(queue.next_at(), None);
    }
}
