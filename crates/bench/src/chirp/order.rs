//! Whether what readers see of an author is in order: whole, never older than what was known before, and never something else than before.

use std::sync::{Mutex, PoisonError};

use chirp::Post;

/// The newest post of an author that was acknowledged or that a reader has seen; number 0: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Newest {
    number: u64,
    text: String,
}

/// What is known of all authors, shared by all clients: what one has seen, every other must see that asks afterwards.
#[derive(Debug)]
pub(super) struct Order(Vec<Mutex<Newest>>);

/// Marks a text, so that two attempts at posting are told apart: attempts of one run grow with each author.
pub(super) fn marked(run: u64, attempt: u64, rest: &str) -> String {
    format!("{run:x}.{attempt} {rest}")
}

fn mark(text: &str) -> Option<(u64, u64)> {
    let (run, attempt) = text.split(' ').next()?.split_once('.')?;
    Some((u64::from_str_radix(run, 16).ok()?, attempt.parse().ok()?))
}

impl Order {
    pub(super) fn new(authors: usize) -> Order {
        Order((0..authors).map(|_| Mutex::default()).collect())
    }

    /// What must be seen of an author by whoever asks from now on.
    pub(super) fn known(&self, author: usize) -> Newest {
        self.0[author].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A post was acknowledged or seen.
    pub(super) fn learn(&self, author: usize, post: &Post) {
        let mut newest = self.0[author].lock().unwrap_or_else(PoisonError::into_inner);
        if post.number > newest.number {
            *newest = Newest { number: post.number, text: post.text.clone() };
        }
    }
}

/// What is wrong with the newest posts of an author, at least `limit` unless there are fewer, which were asked for when `known` was
/// known; in words.
pub(super) fn fault(known: &Newest, posts: &[Post], limit: usize) -> Option<String> {
    let newest = posts.last().map_or(0, |post| post.number);
    if newest < known.number {
        return Some(format!("it went backward: #{newest} was the newest after #{}", known.number));
    }
    if let Some(first) = posts.first().filter(|first| first.number != 1 && posts.len() < limit) {
        return Some(format!("it has a gap: it begins with #{}", first.number));
    }
    if let Some(pair) = posts.windows(2).find(|pair| pair[1].number != pair[0].number + 1) {
        return Some(format!("it has a gap: #{} came after #{}", pair[1].number, pair[0].number));
    }
    let again = posts.iter().find(|post| post.number == known.number);
    if let Some(post) = again.filter(|post| post.text != known.text) {
        return Some(format!("#{} was `{}` and is `{}`", post.number, known.text, post.text));
    }
    let is_older = |pair: &&[Post]| match (mark(&pair[0].text), mark(&pair[1].text)) {
        (Some((run, before)), Some((next_run, after))) => run == next_run && after <= before,
        _ => false,
    };
    let pair = posts.windows(2).find(is_older)?;
    Some(format!("#{} was posted before #{}, or is the same", pair[1].number, pair[0].number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(number: u64, attempt: u64) -> Post {
        let author = "a".parse().unwrap();
        Post { author, number, at_ms: 0, text: marked(9, attempt, "text") }
    }

    fn posts(all: &[(u64, u64)]) -> Vec<Post> {
        all.iter().map(|(number, attempt)| post(*number, *attempt)).collect()
    }

    fn fault_of(known: (u64, u64), all: &[(u64, u64)]) -> String {
        let order = Order::new(1);
        order.learn(0, &post(known.0, known.1));
        fault(&order.known(0), &posts(all), 3).unwrap_or_default()
    }

    #[test]
    fn what_is_in_order_passes() {
        assert_eq!(fault(&Newest::default(), &[], 3), None);
        assert_eq!(fault_of((2, 2), &[(1, 1), (2, 2)]), "");
        // An attempt in between failed, others came since.
        assert_eq!(fault_of((2, 2), &[(2, 2), (3, 4), (4, 5)]), "");
        assert_eq!(fault_of((1, 1), &[(7, 9), (8, 10), (9, 11)]), "");
    }

    #[test]
    fn each_fault_is_found() {
        for (known, all, words) in [
            ((3, 3), &[(1, 1), (2, 2)][..], "went backward: #2 was the newest after #3"),
            ((1, 1), &[], "went backward"),
            ((2, 2), &[(2, 2), (4, 4), (5, 5)], "#4 came after #2"),
            ((3, 3), &[(2, 2), (3, 3)], "begins with #2"),
            ((2, 2), &[(1, 1), (2, 7)], "#2 was `9.2 text` and is `9.7 text`"),
            ((1, 1), &[(1, 1), (2, 3), (3, 3)], "#3 was posted before #2"),
        ] {
            let fault = fault_of(known, all);
            assert!(fault.contains(words), "{fault}");
        }
    }

    #[test]
    fn the_newest_is_remembered() {
        let order = Order::new(1);
        order.learn(0, &post(2, 2));
        order.learn(0, &post(1, 1));
        assert_eq!(order.known(0), Newest { number: 2, text: marked(9, 2, "text") });
        assert_eq!(mark("9.2 text"), Some((9, 2)));
        assert_eq!(mark("hello"), None);
    }
}
