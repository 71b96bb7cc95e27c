//! Posts: how they are stored, and how those of several users become a timeline.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::list::{self, Damaged};
use crate::{ChirpError, User};

/// A post has at most so many characters (Unicode scalar values).
pub const TEXT_LENGTH_MAX: usize = 140;

/// What a user has posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// By whom.
    pub author: User,
    /// Which of the author's posts: the first is 1, and no number is left out.
    pub number: u64,
    /// When, in milliseconds since 1970 by the clock of whoever posted it; never before the author's post before it.
    pub at_ms: u64,
    /// What.
    pub text: String,
}

/// The newest posts of one user, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// By whom.
    pub author: User,
    /// At least as many as were asked for, unless there are fewer: the newest ones.
    pub posts: Vec<Post>,
}

/// A post as it is stored: a line of JSON in a chunk of its author's list.
#[derive(Debug, Serialize, Deserialize)]
struct Line<T> {
    n: u64,
    ms: u64,
    text: T,
}

/// Refuses what is no post.
pub(crate) fn check_text(text: &str) -> Result<(), ChirpError> {
    let length = text.chars().count();
    if (1..=TEXT_LENGTH_MAX).contains(&length) { Ok(()) } else { Err(ChirpError::Length(length)) }
}

/// The next post of an author whose newest is `last`.
pub(crate) fn next(author: &User, last: Option<&Post>, now_ms: u64, text: &str) -> Post {
    let (number, at_ms) = last.map_or((0, 0), |last| (last.number, last.at_ms));
    // Clocks differ, and posts of one author have an order that timelines must not lose.
    Post { author: author.clone(), number: number + 1, at_ms: at_ms.max(now_ms), text: text.to_owned() }
}

/// A post as a line of its list.
pub(crate) fn line(post: &Post) -> String {
    let line = Line { n: post.number, ms: post.at_ms, text: post.text.as_str() };
    match serde_json::to_string(&line) {
        Ok(line) => line,
        Err(error) => panic!("numbers and text are always JSON: {error}"),
    }
}

/// The posts in a chunk of an author's list, which is stored under `key`.
pub(crate) fn read(author: &User, key: &str, chunk: &Bytes) -> Result<Vec<Post>, Damaged> {
    let read_one = |line: &str| {
        let Line { n, ms, text } = serde_json::from_str::<Line<String>>(line).ok()?;
        Some(Post { author: author.clone(), number: n, at_ms: ms, text })
    };
    let posts = list::lines(key, chunk)?.map(read_one).collect::<Option<_>>();
    posts.ok_or_else(|| Damaged(key.to_owned()))
}

/// The newest posts of all these users, at most `limit`, the newest first. Of one author none is missing between two.
pub fn merge(feeds: Vec<Feed>, limit: usize) -> Vec<Post> {
    let mut posts: Vec<Post> = feeds.into_iter().flat_map(|feed| feed.posts).collect();
    posts.sort_by(|one, other| {
        (other.at_ms, &one.author, other.number).cmp(&(one.at_ms, &other.author, one.number))
    });
    posts.truncate(limit);
    posts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    #[test]
    fn texts_are_counted_in_characters() {
        assert_eq!(check_text(&"é".repeat(140)), Ok(()));
        assert_eq!(check_text(&"🐦".repeat(140)), Ok(()));
        assert_eq!(check_text(&"a".repeat(141)), Err(ChirpError::Length(141)));
        assert_eq!(check_text(""), Err(ChirpError::Length(0)));
    }

    #[test]
    fn posts_of_one_author_stay_in_order_though_clocks_differ() {
        let first = next(&user("a"), None, 1_000, "one");
        let second = next(&user("a"), Some(&first), 900, "two");
        assert_eq!((second.number, second.at_ms), (2, 1_000));
        let other = next(&user("b"), None, 1_000, "three");
        let feeds = vec![
            Feed { author: user("b"), posts: vec![other] },
            Feed { author: user("a"), posts: vec![first, second] },
        ];
        let texts: Vec<String> = merge(feeds, 2).into_iter().map(|post| post.text).collect();
        assert_eq!(texts, ["two", "one"]);
    }

    #[test]
    fn what_is_no_post_is_refused() {
        for chunk in ["x\n", "{\"n\":1}\n", "{\"n\":1,\"ms\":2,\"text\":\"cut", "\u{0}\n"] {
            let chunk = Bytes::copy_from_slice(chunk.as_bytes());
            assert_eq!(read(&user("a"), "key", &chunk), Err(Damaged("key".into())));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_back(text in ".{1,140}|[\\x00-\\x7f]{1,140}", number in 1u64.., at_ms: u64) {
            let post = Post { author: user("a"), number, at_ms, text };
            let line = line(&post);
            prop_assert!(!line.contains('\n'));
            prop_assert!(line.len() < list::CHUNK_BYTES_MAX / 8);
            let chunk = Bytes::from(format!("{line}\n"));
            prop_assert_eq!(read(&user("a"), "key", &chunk).unwrap(), vec![post]);
        }
    }
}
