//! Rings for tests.

use quorate_groups::{Group, GroupId, Name, Parliament, Span, Stand};
use quorate_kernel::NodeId;

/// A ring whose groups begin at these borders; group `n` has the nodes `10 n` to `10 n + 2`.
pub(crate) fn ring(borders: &[u64]) -> Vec<Parliament> {
    let count = borders.len();
    let group = |index: usize| {
        let (start, end) = (borders[index % count], borders[(index + 1) % count]);
        let id = (index % count) as u64 + 1;
        let members = (10 * id..10 * id + 3).map(NodeId).collect();
        Group { name: Name { id: GroupId(id), epoch: 1 }, span: Span { start, end }, members }
    };
    let stand = |index: usize| Stand {
        group: group(index),
        before: group(index + count - 1),
        after: group(index + 1),
    };
    (0..count).map(|index| Parliament::new(stand(index))).collect()
}
