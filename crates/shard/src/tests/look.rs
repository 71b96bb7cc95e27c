//! Looks under outcomes on their way see what is there when these have been applied.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quorate_api::{Command, Reply};
use quorate_commit::TransactionId;
use quorate_kernel::Rng;

use super::{AREA, Bench, command};
use crate::desk::run_part;
use crate::look::Ahead;
use crate::part::Part;
use crate::view::View;
use quorate_store::Store;

/// A transaction that was looked at, and waits to be carried out.
struct Voted {
    id: TransactionId,
    part: Part,
    replies: Vec<(u32, Reply)>,
}

fn drawn(rng: &mut Rng) -> Command {
    let key = ["a", "b", "c"][rng.below(3) as usize];
    let value = alloc::format!("{}", rng.below(100));
    match rng.below(9) {
        0 => command(&["set", key, &value]),
        1 => command(&["get", key]),
        2 => command(&["append", key, &value]),
        3 => command(&["del", key]),
        4 | 5 => command(&["rpush", key, &value]),
        6 => command(&["lpop", key]),
        7 => command(&["lset", key, "0", &value]),
        _ => command(&["lrange", key, "0", "-1"]),
    }
}

impl Bench {
    /// Looks at a part under what is ahead. Whether others may have its locks before it is carried out.
    fn look(&self, ahead: &mut Ahead, id: TransactionId, part: &Part) -> (Vec<(u32, Reply)>, bool) {
        let mut view = View::reading(&self.store, &self.limits, AREA, self.state, self.now_ms, 7);
        view.looks = true;
        view.look_ahead(ahead, part.sees_ahead());
        let replies = run_part(&mut view, part);
        ahead.remember(id, &view);
        (replies, ahead.hand_over(id, true))
    }

    fn carry_out(&mut self, part: &Part) -> Vec<(u32, Reply)> {
        let mut view = View::applying(&self.store, &self.limits, AREA, self.state);
        view.begin_transaction(self.now_ms, 7);
        let replies = run_part(&mut view, part);
        view.end_transaction();
        view.sweep();
        let (state, batch) = view.into_batch();
        self.store.apply(batch);
        self.state = state;
        replies
    }
}

#[test]
fn a_look_ahead_says_what_will_be() {
    for seed in 0..300 {
        let (mut rng, mut bench, mut ahead) = (Rng::new(seed), Bench::new(), Ahead::default());
        let mut waiting: VecDeque<Voted> = VecDeque::new();
        for sequence in 0..60 {
            let id = TransactionId { age: 1, origin: 1, sequence };
            let commands = (0..=rng.below(3) as u32).map(|number| (number, drawn(&mut rng)));
            let part = Part { commands: commands.collect(), ..Part::default() };
            let (replies, handed_over) = bench.look(&mut ahead, id, &part);
            waiting.push_back(Voted { id, part, replies });
            // Who keeps its locks is carried out before anybody else looks.
            let stay = if handed_over { rng.below(4) as usize } else { 0 };
            while waiting.len() > stay {
                let Some(voted) = waiting.pop_front() else { break };
                assert_eq!(bench.carry_out(&voted.part), voted.replies, "seed {seed}: {:?}", voted.part);
                ahead.forget(voted.id);
            }
        }
    }
}
